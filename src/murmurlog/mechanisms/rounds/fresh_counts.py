"""Fresh counts of published items: a noisy histogram, d2, noisy weights, then users."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import AT_LEAST, IN_LOG, is_reliable, with_notes
from murmurlog.mechanisms.rounds.holders import Holders
from murmurlog.mechanisms.rounds.user_estimates import (
    UserEstimates,
    choose_d2,
    estimate_users,
    misfit,
    smooth,
)
from murmurlog.privacy import WeightedCounts, noise_sd
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.sampler import Integers

Noise = Callable[[float, int], Integers]  # of a scale: so many draws


@dataclass(frozen=True, kw_only=True)
class FreshCounts:
    """The estimates of all published items, and the noisy numbers they follow from."""

    estimates: UserEstimates
    d2: int
    histogram: Integers


def count_users(holders: Holders, counts: WeightedCounts, noise: Noise) -> FreshCounts:
    """Measures how many units hold each published item."""
    # One draw for every bin, also where no unit is; d2 follows from the noisy histogram.
    true = holders.histogram()
    histogram = true + noise(counts.histogram_scale, len(true))
    sd = noise_sd(noise="gaussian", scale=counts.histogram_scale)
    profile = smooth(histogram, sd=sd, size=holders.size)
    d2 = choose_d2(counts, profile)
    # One draw for every published item, also where no unit holds it.
    sigma = counts.noise(d2)
    measured = (holders.weighted(d2) + noise(GRID * sigma, holders.size)) / GRID
    # The rest is post-processing.
    off = misfit(measured, profile, sd=sd, d2=d2, sigma=sigma)
    found = estimate_users(measured, profile, sd=sd, d2=d2, sigma=sigma, contradiction=off)
    return FreshCounts(estimates=found, d2=d2, histogram=histogram)


def with_users(keys: pa.Table, counted: FreshCounts, *, in_log: bool = True) -> pa.Table:
    """The keys with their estimates in whole users; intervals are rounded outwards.

    Not `in_log`: units were bounded before their items were counted, so that the log has at least as many
    and there is no upper end.
    """
    found = counted.estimates
    high = pa.array(np.ceil(found.high).astype(np.int64))
    users, errors = pa.array(np.rint(found.users).astype(np.int64)), pa.array(found.stderr)
    columns = {
        "users": users,
        "users_stderr": errors,
        "reliable": is_reliable(users, errors),
        "users_low": pa.array(np.floor(found.low).astype(np.int64)),
        "users_high": high if in_log else pa.nulls(len(high), high.type),
    }
    for name, column in columns.items():
        keys = keys.append_column(name, column)
    stated = {
        "meaning": IN_LOG if in_log else AT_LEAST,
        "d2": counted.d2,
        "common_error": found.common,
        "histogram": counted.histogram.tolist(),
    }
    return with_notes(keys, stated, name="counting")
