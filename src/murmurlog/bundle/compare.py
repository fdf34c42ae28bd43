"""`murmurlog.compare`: what changed between two bundles, beyond what noise explains."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from murmurlog.bundle import estimates
from murmurlog.bundle.certificate import TableClaim
from murmurlog.bundle.read import Release, load
from murmurlog.bundle.schema import IN_LOG, SEPARATOR, count_of, flattened, keys_of
from murmurlog.errors import UsageError

CHANCE = 0.05  # probability that the comparison reports a change of any row that did not change
TAIL = 1.05

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pair = tuple[Ints, Ints]  # rows of the first table and of the second
Side = tuple[
    pa.Table, TableClaim | None, tuple[str, ...]
]  # a table, what is claimed of it, its keys


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The rows of two tables of the same name, by change; numbers of rows."""

    gained: Ints  # of the second
    lost: Ints  # of the first
    kept: Pair  # the same items in both
    rose: Pair  # those whose counts differ by more than noise explains
    fell: Pair


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """One table of two bundles: rows of the second that are new or rose, of the first that are gone
    or fell."""

    gained: pa.Table
    lost: pa.Table
    rose: pa.Table
    fell: pa.Table
    kept: int

    def as_json(self) -> dict[str, Any]:
        """The numbers of rows."""
        names = ("gained", "lost", "rose", "fell")
        return {name: getattr(self, name).num_rows for name in names} | {"kept": self.kept}


def compare(
    before: str | Path | Release, after: str | Path | Release, *, table: str = "query"
) -> Comparison:
    """What changed in one table from one bundle to the next.

    `rose` and `fell` hold items whose intervals are disjoint; if nothing changed, any item is among
    them with a probability of at most 5 %.
    """
    releases = [each if isinstance(each, Release) else load(each) for each in (before, after)]
    for release in releases:
        if table not in release.tables:
            raise UsageError(f"a bundle has no table {table!r}: it has {', '.join(release.tables)}")
    first, second = (release.tables[table] for release in releases)
    claims = [release.certificate.tables[table] for release in releases]
    keys = [keys_of(table, release.certificate.by) for release in releases]
    if keys[0] != keys[1]:
        raise UsageError("the tables have different keys: one of them was made with --by")
    if releases[0].certificate.keys != releases[1].certificate.keys:
        raise UsageError(
            "only one of the bundles has canonical keys (--keys), so one key is not the same queries in "
            "both: compare releases that were made with the same --keys"
        )
    found = find_changes(table, (first, claims[0], keys[0]), (second, claims[1], keys[1]))
    return Comparison(
        gained=second.take(pa.array(found.gained)),
        lost=first.take(pa.array(found.lost)),
        rose=second.take(pa.array(found.rose[1])),
        fell=second.take(pa.array(found.fell[1])),
        kept=len(found.kept[0]),
    )


def find_changes(name: str, before: Side, after: Side) -> Changes:
    """Which rows are new, gone, larger and smaller."""
    here, there = _joined(before[0], before[2]), _joined(after[0], after[2])
    place = pc.fill_null(pc.index_in(there, value_set=here), -1).to_numpy().astype(np.int64)
    found = np.flatnonzero(place >= 0)
    lost = np.ones(len(here), bool)
    lost[place[found]] = False
    kept = (place[found], found)
    rose, fell = _changed_rows(name, before, after, kept)
    return Changes(
        gained=np.flatnonzero(place < 0), lost=np.flatnonzero(lost), kept=kept, rose=rose, fell=fell
    )


def _joined(table: pa.Table, keys: tuple[str, ...]) -> pa.Array:
    """The key of each row as one text."""
    columns = flattened(table.select(list(keys))).columns
    joined = pc.binary_join_element_wise(*columns, SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _changed_rows(name: str, before: Side, after: Side, kept: Pair) -> tuple[Pair, Pair]:
    """Items that rose and items that fell, the largest change first: their intervals are disjoint.

    The intervals are so wide that, if nothing changed, the probability that any two of them are
    disjoint is at most CHANCE. If only one of the tables counts users in the log, the other has fewer
    users than the log, so its intervals have no upper end.
    """
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    each = CHANCE / 2 / max(len(kept[0]), 1)
    ends = [
        _intervals(name, table, claim, rows, each)
        for (table, claim, _), rows in zip((before, after), kept, strict=True)
        if claim is not None and claim.count and f"{count_of(table)}_stderr" in table.column_names
    ]
    if not len(kept[0]) or len(ends) < 2:
        return nothing, nothing
    (low, high), (next_low, next_high) = ends
    in_log = [claim is not None and claim.meaning == IN_LOG for _, claim, _ in (before, after)]
    if in_log == [True, False]:
        next_high = np.full_like(next_high, np.inf)
    elif in_log == [False, True]:
        high = np.full_like(high, np.inf)
    gap = np.maximum(next_low - high, low - next_high)
    order = np.argsort(-gap, kind="stable")
    rose = order[(next_low > high)[order]]
    fell = order[(next_high < low)[order]]
    return (kept[0][rose], kept[1][rose]), (kept[0][fell], kept[1][fell])


def _intervals(
    name: str, table: pa.Table, claim: TableClaim, rows: Ints, chance: float
) -> tuple[Floats, Floats]:
    """Ends of intervals that miss the true count with at most this probability, for any noise."""
    counts = estimates.counts(name, table, claim)
    # The Laplace tail, slightly wider for geometric noise; the normal tail for Gaussian noise.
    wide = TAIL * math.log(2 / chance) / math.sqrt(2)
    if claim.parameters.get("noise") == "gaussian":
        wide = float(ndtri(1 - chance / 2))
    spread = wide * counts.errors
    low = counts.values - spread - counts.too_high
    high = counts.values + spread + counts.too_low
    return low[rows], high[rows]
