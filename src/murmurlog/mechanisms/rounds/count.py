"""Fresh counts of published items: who holds them, a noisy histogram, d2, noisy weights, then users.

All distinct items of every unit count, not bounded. The result of a partition says, for each published
item, how many units hold it together with m - 1 others of the published ones. The histogram of m and the
weighted counts are sums over it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import AT_LEAST, IN_LOG, is_reliable, with_notes
from murmurlog.counting.sorting import group_pairs
from murmurlog.counting.unit_weights import count_holders
from murmurlog.mechanisms.rounds.select import Candidates, PairFinder, Published
from murmurlog.mechanisms.rounds.user_estimates import (
    UserEstimates,
    choose_d2,
    estimate_users,
    misfit,
    smooth,
)
from murmurlog.privacy import WeightedCounts, count_weight, histogram_bins, noise_sd
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.sampler import Integers

ROWS_TOGETHER = 1_000_000  # of partitions, before they are added up

Noise = Callable[[float, int], Integers]  # of a scale: so many draws


@dataclass(frozen=True, kw_only=True)
class FreshCounts:
    """The estimates of all published items, and the noisy numbers they follow from."""

    estimates: UserEstimates
    d2: int
    histogram: Integers


@dataclass(frozen=True, kw_only=True)
class Holders:
    """For some pairs of a published item and m: the number of units with m of the items that hold it."""

    item: Integers
    m: Integers
    units: Integers
    size: int  # how many items are published

    def histogram(self) -> Integers:
        """The number of units in each bin of m; a unit with m >= 1 is in exactly one bin."""
        starts = np.array(histogram_bins(self.size), np.int64)
        if not len(self.m):
            return np.zeros(len(starts), np.int64)
        rows = np.zeros(int(self.m.max()) + 1, np.int64)
        np.add.at(rows, self.m, self.units)
        m = np.flatnonzero(rows)
        histogram = np.zeros(len(starts), np.int64)
        # A unit with m items is in m rows.
        np.add.at(histogram, np.searchsorted(starts, m, side="right") - 1, rows[m] // m)
        return histogram

    def weighted_counts(self, d2: int) -> Integers:
        """The sum of the units' weights of every item, in steps of 2^-20."""
        sums = np.zeros(self.size, np.int64)
        weights = np.zeros(int(self.m.max(initial=0)) + 1, np.int64)
        for m in np.flatnonzero(np.bincount(self.m)).tolist():
            weights[m] = count_weight(m, d2)
        np.add.at(sums, self.item, self.units * weights[self.m])
        return sums


def find_holders(candidates: Candidates, published: pa.Table) -> Holders:
    """Who holds the published items; `published` has the key columns of each, in order."""
    size = published.num_rows
    none = np.zeros(0, np.int64)
    parts, rows, most = [(none, none, none)], 0, ROWS_TOGETHER
    if size:
        shared = candidates.share_published(published)
        work = partial(_count_holders, pairs=candidates.pairs, published=shared)
        # No unit is in two partitions, so the units of an item are those of all together.
        for part in candidates.counted.results(work):
            parts.append(part)
            rows += len(part[0])
            if rows > most:  # the same pairs come from every partition
                parts = [_add_up(parts)]
                rows = len(parts[0][0])
                most = rows + ROWS_TOGETHER
    item, m, units = _add_up(parts)
    return Holders(item=item, m=m, units=units, size=size)


def _add_up(
    parts: Sequence[tuple[Integers, Integers, Integers]],
) -> tuple[Integers, Integers, Integers]:
    """The units of each pair of an item and m, which comes once."""
    item, m, units = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order, new = group_pairs(item, m)
    first = order[new]
    sums = np.add.reduceat(units[order], np.flatnonzero(new)) if len(order) else units
    return item[first], m[first], sums


def _count_holders(
    part: Any, *, pairs: PairFinder, published: Callable[[], Published]
) -> tuple[Integers, Integers, Integers]:
    """Of a partition: items, m and how many units hold the item among m published ones."""
    unit, item = pairs(part, published())
    return count_holders(unit, item)


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
    measured = (holders.weighted_counts(d2) + noise(GRID * sigma, holders.size)) / GRID
    # The rest is post-processing.
    off = misfit(measured, profile, sd=sd, d2=d2, sigma=sigma)
    estimates = estimate_users(measured, profile, sd=sd, d2=d2, sigma=sigma, contradiction=off)
    return FreshCounts(estimates=estimates, d2=d2, histogram=histogram)


def with_users(keys: pa.Table, counted: FreshCounts, *, in_log: bool = True) -> pa.Table:
    """The keys with their estimates in whole users; intervals are rounded outwards.

    Not `in_log`: units were bounded before their items were counted, so that the log has at least as many
    and there is no upper end.
    """
    estimates = counted.estimates
    high = pa.array(np.ceil(estimates.high).astype(np.int64))
    users, errors = pa.array(np.rint(estimates.users).astype(np.int64)), pa.array(estimates.stderr)
    columns = {
        "users": users,
        "users_stderr": errors,
        "reliable": is_reliable(users, errors),
        "users_low": pa.array(np.floor(estimates.low).astype(np.int64)),
        "users_high": high if in_log else pa.nulls(len(high), high.type),
    }
    for name, column in columns.items():
        keys = keys.append_column(name, column)
    stated = {
        "meaning": IN_LOG if in_log else AT_LEAST,
        "d2": counted.d2,
        "common_error": estimates.common,
        "histogram": counted.histogram.tolist(),
    }
    return with_notes(keys, stated, name="counting")
