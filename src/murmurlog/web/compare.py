"""Comparison of two bundles: rows in one of them only, changed counts, and the combined cost."""

import math
import threading
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from murmurlog.bundle import estimates
from murmurlog.bundle.schema import SEPARATOR, flattened
from murmurlog.errors import MurmurlogError
from murmurlog.privacy import Guarantee, compose
from murmurlog.web.bundles import Book
from murmurlog.web.index import A_QUESTION, Floats, Ints, Sheet

CHANCE = 0.05  # probability that the comparison reports a change of any row that did not change
TAIL = 1.05

Pair = tuple[Ints, Ints]  # rows of the first table and of the second


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The rows of two tables of the same name, by change."""

    before: Sheet
    after: Sheet
    gained: Ints  # rows of `after`
    lost: Ints  # rows of `before`
    kept: Pair  # the same items in both
    rose: Pair  # those whose counts differ by more than noise explains
    fell: Pair


@dataclass(frozen=True, kw_only=True)
class CombinedCost:
    """The privacy cost of two releases for a unit that is in both."""

    first: Guarantee
    second: Guarantee
    sum: Guarantee | None  # None: they cannot be composed
    words: str


def shared_tables(a: Book, b: Book) -> list[str]:
    return [name for name in a.index.tables if name in b.index.tables]


_one_at_a_time = threading.Lock()


def compare_tables(a: Book, b: Book, table: str) -> Comparison:
    """The comparison of one table; cached."""
    with _one_at_a_time:
        return a.index.answers.get((a, b, table), lambda: _compare_tables(a, b, table), _size)


def _size(found: Comparison) -> int:
    """The bytes that a comparison takes besides the tables."""
    each = (found.gained, found.lost, *found.kept, *found.rose, *found.fell)
    return A_QUESTION + sum(rows.nbytes for rows in each)


def _compare_tables(a: Book, b: Book, table: str) -> Comparison:
    before, after = a.index.sheets[table], b.index.sheets[table]
    here, there = _keys(before), _keys(after)
    place = pc.fill_null(pc.index_in(there, value_set=here), -1).to_numpy().astype(np.int64)
    found = np.flatnonzero(place >= 0)
    lost = np.ones(len(here), bool)
    lost[place[found]] = False
    kept = (place[found], found)
    rose, fell = _changed_rows(a, b, table, kept)
    return Comparison(
        before=before,
        after=after,
        gained=np.flatnonzero(place < 0),
        lost=np.flatnonzero(lost),
        kept=kept,
        rose=rose,
        fell=fell,
    )


def _keys(sheet: Sheet) -> pa.Array:
    """The key of each row as one text."""
    columns = flattened(sheet.table.select(list(sheet.keys))).columns
    joined = pc.binary_join_element_wise(*columns, SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _changed_rows(a: Book, b: Book, table: str, kept: Pair) -> tuple[Pair, Pair]:
    """Items that rose and items that fell, the largest change first: their intervals are disjoint.

    The intervals are so wide that, if nothing changed, the probability that any two of them are
    disjoint is at most CHANCE.
    """
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    if not len(kept[0]) or any(book.index.sheets[table].stderr is None for book in (a, b)):
        return nothing, nothing
    each = CHANCE / 2 / len(kept[0])
    low, high = _intervals(a, table, kept[0], each)
    next_low, next_high = _intervals(b, table, kept[1], each)
    gap = np.maximum(next_low - high, low - next_high)
    order = np.argsort(-gap, kind="stable")
    rose = order[(next_low > high)[order]]
    fell = order[(next_high < low)[order]]
    return (kept[0][rose], kept[1][rose]), (kept[0][fell], kept[1][fell])


def _intervals(book: Book, table: str, rows: Ints, chance: float) -> tuple[Floats, Floats]:
    """Ends of intervals that miss the true count with at most this probability, for any noise."""
    claim = book.certificate.tables[table]
    counts = estimates.counts(table, book.index.sheets[table].table, claim)
    # The Laplace tail, slightly wider for geometric noise; the normal tail for Gaussian noise.
    wide = TAIL * math.log(2 / chance) / math.sqrt(2)
    if claim.parameters.get("noise") == "gaussian":
        wide = float(ndtri(1 - chance / 2))
    spread = wide * counts.stderr
    low = counts.values - spread - counts.too_high
    high = counts.values + spread + counts.too_low
    return low[rows], high[rows]


def combined_cost(a: Book, b: Book) -> CombinedCost:
    """Both guarantees, and their sum where there is one."""
    first, second = a.certificate.guarantee, b.certificate.guarantee
    if a.certificate.release_id == b.certificate.release_id:
        return CombinedCost(
            first=first,
            second=second,
            sum=first,
            words="Both are one release: its cost counts once.",
        )
    try:
        both = None if "none" in (first.notion, second.notion) else compose([first, second])
        why = "One of them has no guarantee, so there is no total."
    except MurmurlogError as error:
        both, why = None, f"The costs cannot be added: {error}"
    if both is None:
        return CombinedCost(first=first, second=second, sum=None, words=why)
    sources = [(each.certificate.booked or {}).get("source") for each in (a, b)]
    if sources[0] is not None and sources[0] == sources[1]:
        words = f"Both are booked under {sources[0]!r}: they are about the same {first.unit}s."
    else:
        words = (
            f"For a {first.unit} in both logs the costs add up. Only the owner knows whether the logs "
            f"share {first.unit}s."
        )
    return CombinedCost(first=first, second=second, sum=both, words=words)
