"""Checks of what a certificate states about counts, from its own noisy numbers."""

import numpy as np
import pyarrow as pa

from murmurlog.auditing.check import ROUNDING
from murmurlog.bundle.certificate import COUNTING, TableClaim
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, Z95
from murmurlog.mechanisms import Mechanism, Rounds, SessionTree
from murmurlog.mechanisms.rounds.user_estimates import choose_d2, common_error, smooth
from murmurlog.privacy import WeightedCounts, histogram_bins, noise_sd

FITTED = 1e-6  # tolerance for numbers that follow from a fitted curve


def counting_fault(
    claim: TableClaim, mechanism: Mechanism, table: pa.Table, *, runs: bool = False
) -> str | None:
    """The first statement on the counts that cannot be; `table` has the counts as they were drawn.

    `runs`: sets of queries that follow one another, which every mechanism cuts from bounded units.
    """
    if isinstance(mechanism, SessionTree):  # sessions are cut from bounded units, too
        mechanism, runs = mechanism.selection, True
    counts = mechanism.schedule.counts if isinstance(mechanism, Rounds) else None
    if counts is not None and claim.count is not None:
        return _weighted_fault(claim, counts, table, meaning=AT_LEAST if runs else IN_LOG)
    stated = dict(claim.counting or {})
    if stated and (claim.count is None or stated != {"meaning": AT_LEAST}):
        return f"states {', '.join(stated)} of counts that {mechanism} does not make"
    return _width_fault(claim, table, rounding=0.0)


def _weighted_fault(
    claim: TableClaim, counts: WeightedCounts, table: pa.Table, *, meaning: str
) -> str | None:
    stated = dict(claim.counting or {})
    if set(stated) != set(COUNTING):
        return f"does not state {', '.join(COUNTING)} of estimated numbers of users"
    if stated["meaning"] != meaning:
        return f"states the meaning {stated['meaning']!r} of its counts, which is {meaning!r}"
    histogram = stated["histogram"]
    if len(histogram) != len(histogram_bins(claim.rows)):
        return f"has a histogram of {len(histogram)} bins, which {claim.rows} rows do not have"
    sd = noise_sd(noise="gaussian", scale=counts.histogram_scale)
    profile = smooth(np.array(histogram, np.float64), sd=sd, size=claim.rows)
    d2 = stated["d2"]
    if d2 != (chosen := choose_d2(counts, profile)):
        return f"states d2 = {d2}, and its histogram gives {chosen}"
    common = stated["common_error"]
    if common < common_error(profile, sd=sd, d2=d2) * (1 - FITTED):
        return "states a smaller common error than its histogram has"
    if not table.num_rows:
        return None
    # The noise of an estimate is at least that of its count; estimates are rounded to whole users.
    users, stderr = table["users"].to_numpy(), table["users_stderr"].to_numpy()
    least = np.hypot(counts.noise(d2), common * np.maximum(users - 0.5, 0.0))
    if (stderr * ROUNDING < least).any():
        return "states smaller errors than its noise and its common error have"
    return _width_fault(claim, table, rounding=0.5)


def _width_fault(claim: TableClaim, table: pa.Table, *, rounding: float) -> str | None:
    """A message if an interval is narrower than its standard error; counts may be off by `rounding`."""
    if claim.meaning is None or claim.count is None or not table.num_rows:
        return None
    count = table[claim.count].to_numpy()
    margin = Z95 * table[f"{claim.count}_stderr"].to_numpy() * (2 - ROUNDING)
    narrow = table[f"{claim.count}_low"].to_numpy() > np.maximum(count - margin + rounding, 0.0)
    if claim.meaning == IN_LOG:
        narrow |= table[f"{claim.count}_high"].to_numpy() < count + margin - rounding
    return "has intervals that are narrower than the standard errors say" if narrow.any() else None
