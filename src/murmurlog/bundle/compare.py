"""`murmurlog.compare`: what changed between two bundles, beyond what noise explains."""

import math
from dataclasses import dataclass, replace
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
from murmurlog.bundle.schema import IN_LOG, SEPARATOR, count_of, flatten_lists, keys_of
from murmurlog.errors import UsageError

CHANCE = 0.05  # probability that the comparison reports a change of any row that did not change
TAIL = 1.05

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pair = tuple[Ints, Ints]  # rows of the first table and of the second
Side = tuple[pa.Table, TableClaim | None, tuple[str, ...]]  # a table, its claim and its keys


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The rows of two tables of the same name, by change; numbers of rows."""

    gained: Ints  # of the second
    lost: Ints  # of the first
    common: Pair  # the items of both
    rose: Pair  # those whose counts differ by more than noise explains
    fell: Pair


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """One table of two bundles: rows of the second that are new, rose or fell, of the first that are
    gone; and every key of both with its counts and their difference."""

    gained: pa.Table
    lost: pa.Table
    rose: pa.Table
    fell: pa.Table
    kept: int
    # keys, change, counts before and after with intervals, difference with its error
    rows: pa.Table
    meanings: tuple[str | None, str | None]  # of the counts before and after
    unit: str

    @property
    def about(self) -> str:
        """What the counts and their differences are about, in a sentence."""
        if self.meanings == (IN_LOG, IN_LOG):
            return f"Counts are estimates of the {self.unit}s in the log, and so are differences."
        if IN_LOG not in self.meanings:
            return (
                f"Counts are of {self.unit}s after bounding: the log has at least as many. A difference is "
                "about those counted, and says nothing certain about the log."
            )
        bounded, end = ("second", "lower") if self.meanings[0] == IN_LOG else ("first", "upper")
        return (
            f"Only the {bounded} bundle counts {self.unit}s after bounding, and its log has at least as many: "
            f"a difference between the logs has a {end} end only."
        )

    def as_json(self) -> dict[str, Any]:
        """The numbers of rows."""
        names = ("gained", "lost", "rose", "fell")
        return {name: getattr(self, name).num_rows for name in names} | {"kept": self.kept}


def compare(
    before: str | Path | Release, after: str | Path | Release, *, table: str = "query"
) -> Comparison:
    """What changed in one table from one bundle to the next.

    `rose` and `fell` hold items whose difference is larger than its error: if nothing changed, any item
    is among them with a probability of at most 5 %. In `rows`, a difference has the error of two
    independent counts and a 95 % interval of its own; one of twenty misses an unchanged item.
    """
    releases = [side if isinstance(side, Release) else load(side) for side in (before, after)]
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
    units = [release.guarantee.unit for release in releases]
    if units[0] != units[1]:
        raise UsageError(
            f"one bundle counts {units[0]}s and the other {units[1]}s, which are not the same: compare releases "
            "with the same --unit"
        )
    sides = (first, claims[0], keys[0]), (second, claims[1], keys[1])
    changes = find_changes(table, *sides)
    return Comparison(
        gained=second.take(pa.array(changes.gained)),
        lost=first.take(pa.array(changes.lost)),
        rose=second.take(pa.array(changes.rose[1])),
        fell=second.take(pa.array(changes.fell[1])),
        kept=len(changes.common[0]),
        rows=_difference_table(table, *sides, changes),
        meanings=(claims[0].meaning, claims[1].meaning),
        unit=units[0],
    )


def _difference_table(name: str, before: Side, after: Side, changes: Changes) -> pa.Table:
    """Every key of either table with its change: what changed most comes first."""
    changed = np.concatenate([changes.rose[1], changes.fell[1]])
    same = ~np.isin(changes.common[1], changed)
    pairs = {
        "rose": changes.rose,
        "fell": changes.fell,
        "gained": (np.full(len(changes.gained), -1), changes.gained),
        "lost": (changes.lost, np.full(len(changes.lost), -1)),
        "same": (changes.common[0][same], changes.common[1][same]),
    }
    old_rows, new_rows = (np.concatenate(rows) for rows in zip(*pairs.values(), strict=True))
    # A key is taken from the table that has it.
    keys = pa.concat_tables([table.select(list(keys)) for table, _, keys in (before, after)])
    result = keys.take(pa.array(np.where(old_rows >= 0, old_rows, new_rows + before[0].num_rows)))
    old, new = (_Counts.of(name, *side[:2]) for side in (before, after))
    if old.count and new.count and old.count != new.count:
        raise UsageError(
            f"one bundle counts users in {name} and the other rows: nothing to compare"
        )
    count = old.count or new.count or "users"
    old, new = old.at(old_rows), new.at(new_rows)
    error = np.hypot(old.errors, new.errors)
    spread = estimates.quantile(estimates.CONFIDENCE, max(old.excess, new.excess)) * error
    low, high = _ends_of_difference(before, after, old, new, spread)
    sizes = [len(rows) for rows, _ in pairs.values()]
    columns = {
        "change": pa.array(np.repeat(list(pairs), sizes), pa.string()),
        f"{count}_before": _whole(old.values),
        f"{count}_before_low": _whole(old.low),
        f"{count}_before_high": _whole(old.high),
        f"{count}_after": _whole(new.values),
        f"{count}_after_low": _whole(new.low),
        f"{count}_after_high": _whole(new.high),
        "difference": _whole(new.values - old.values),
        "difference_low": _whole(np.floor(low)),
        "difference_high": _whole(np.ceil(high)),
        "difference_stderr": pa.array(error, mask=np.isnan(error)),
    }
    for column, values in columns.items():
        result = result.append_column(column, values)
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class _Counts:
    """The counts of a table with their intervals and errors; NaN where there are none."""

    count: str | None  # users or rows
    values: Floats
    low: Floats
    high: Floats
    errors: Floats
    too_high: Floats
    too_low: Floats
    excess: float = 0.0
    gaussian: bool = False

    @classmethod
    def of(cls, name: str, table: pa.Table, claim: TableClaim | None) -> "_Counts":
        ends = None if claim is None else estimates.published_intervals(name, table, claim)
        if ends is None or claim is None:
            columns = ("values", "low", "high", "errors", "too_high", "too_low")
            none: dict[str, Any] = dict.fromkeys(columns, np.full(table.num_rows, math.nan))
            return cls(count=None, **none)
        counts = estimates.counts(name, table, claim)
        return cls(
            count=count_of(table),
            values=counts.values,
            low=ends[0],
            high=ends[1],
            errors=counts.errors,
            too_high=counts.too_high,
            too_low=counts.too_low,
            excess=counts.excess,
            gaussian=claim.parameters.get("noise") == "gaussian",
        )

    def at(self, rows: Ints) -> "_Counts":
        """The counts of some rows; NaN for a row -1."""
        columns: dict[str, Any] = {
            name: np.append(column, math.nan)[rows]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray)
        }
        return replace(self, **columns)

    def spread(self, chance: float) -> Floats:
        """What noise of any law exceeds with at most this probability, on either side."""
        # The Laplace tail, slightly wider for geometric noise; the normal tail for Gaussian noise.
        laplace = TAIL * math.log(2 / chance) / math.sqrt(2)
        return (float(ndtri(1 - chance / 2)) if self.gaussian else laplace) * self.errors


def _whole(values: Floats) -> pa.Array:
    """Whole numbers; null where there is none."""
    finite = np.isfinite(values)
    return pa.array(np.where(finite, values, 0.0).astype(np.int64), mask=~finite)


def find_changes(name: str, before: Side, after: Side) -> Changes:
    """Which rows are new, gone, larger and smaller."""
    old_keys, new_keys = joined_keys(before[0], before[2]), joined_keys(after[0], after[2])
    old_rows = pc.fill_null(pc.index_in(new_keys, value_set=old_keys), -1)
    old_rows = old_rows.to_numpy().astype(np.int64)  # of each new row, -1 where there is none
    new_rows = np.flatnonzero(old_rows >= 0)
    common = (old_rows[new_rows], new_rows)
    lost = np.ones(len(old_keys), bool)
    lost[common[0]] = False
    rose, fell = _changed_rows(name, before, after, common)
    return Changes(
        gained=np.flatnonzero(old_rows < 0),
        lost=np.flatnonzero(lost),
        common=common,
        rose=rose,
        fell=fell,
    )


def joined_keys(table: pa.Table, keys: tuple[str, ...]) -> pa.Array:
    """The key of each row as one text."""
    columns = flatten_lists(table.select(list(keys))).columns
    joined = pc.binary_join_element_wise(*columns, SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _changed_rows(name: str, before: Side, after: Side, common: Pair) -> tuple[Pair, Pair]:
    """Items that rose and items that fell, the largest change first: 0 is outside their intervals.

    The intervals of the differences are so wide that, if nothing changed, the probability that any of
    them misses 0 is at most CHANCE.
    """
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    old, new = (_Counts.of(name, *side[:2]) for side in (before, after))
    if not len(common[0]) or old.count is None or new.count is None:
        return nothing, nothing
    old, new = old.at(common[0]), new.at(common[1])
    chance = CHANCE / len(common[0])  # of each row
    if old.gaussian and new.gaussian:
        spread = float(ndtri(1 - chance / 2)) * np.hypot(old.errors, new.errors)
    else:
        spread = old.spread(chance / 2) + new.spread(chance / 2)
    low, high = _ends_of_difference(before, after, old, new, spread)
    order = np.argsort(-np.maximum(low, -high), kind="stable")
    rose, fell = order[(low > 0)[order]], order[(high < 0)[order]]
    return (common[0][rose], common[1][rose]), (common[0][fell], common[1][fell])


def _ends_of_difference(
    before: Side, after: Side, old: "_Counts", new: "_Counts", spread: Floats
) -> tuple[Floats, Floats]:
    """The ends of intervals of differences, given what noise may add.

    If only one of the tables counts users in the log, the other has fewer users than the log, and the
    difference has no end on that side.
    """
    difference = new.values - old.values
    low = difference - spread - new.too_high - old.too_low
    high = difference + spread + new.too_low + old.too_high
    in_log = [claim is not None and claim.meaning == IN_LOG for _, claim, _ in (before, after)]
    if in_log == [True, False]:
        high = np.full_like(high, np.inf)
    elif in_log == [False, True]:
        low = np.full_like(low, -np.inf)
    return low, high
