"""Two bundles side by side: what one has and the other has not, what moved, what both cost."""

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

CHANCE = 0.05  # that any of all rows which did not move is said to have moved
TAIL = 1.05

Pair = tuple[Ints, Ints]  # rows of the one table and of the other


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Rows of two tables of the same name: places in the one and in the other."""

    before: Sheet
    after: Sheet
    gained: Ints  # rows of `after`
    lost: Ints  # rows of `before`
    kept: Pair  # the same items in both
    rose: Pair  # those whose counts differ by more than noise explains
    fell: Pair


@dataclass(frozen=True, kw_only=True)
class Together:
    """What both releases cost whoever is in both."""

    first: Guarantee
    second: Guarantee
    sum: Guarantee | None  # None: they do not add up
    words: str


def shared_tables(a: Book, b: Book) -> list[str]:
    return [name for name in a.index.tables if name in b.index.tables]


_one_at_a_time = threading.Lock()


def compared(a: Book, b: Book, table: str) -> Comparison:
    """The comparison of one table; remembered."""
    with _one_at_a_time:
        return a.index.answers.get((a, b, table), lambda: _compared(a, b, table), _size)


def _size(made: Comparison) -> int:
    """The bytes that a comparison takes besides the tables."""
    each = (made.gained, made.lost, *made.kept, *made.rose, *made.fell)
    return A_QUESTION + sum(rows.nbytes for rows in each)


def _compared(a: Book, b: Book, table: str) -> Comparison:
    before, after = a.index.sheets[table], b.index.sheets[table]
    here, there = _keys(before), _keys(after)
    place = pc.fill_null(pc.index_in(there, value_set=here), -1).to_numpy().astype(np.int64)
    found = np.flatnonzero(place >= 0)
    lost = np.ones(len(here), bool)
    lost[place[found]] = False
    kept = (place[found], found)
    rose, fell = _moved(a, b, table, kept)
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
    """The keys of a table, each as one text."""
    columns = flattened(sheet.table.select(list(sheet.keys))).columns
    joined = pc.binary_join_element_wise(*columns, SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _moved(a: Book, b: Book, table: str, kept: Pair) -> tuple[Pair, Pair]:
    """Items that rose and that fell, the farthest first: their intervals do not meet.

    The intervals are so wide that, were nothing changed, any two of them would miss each other with
    a chance of at most CHANCE.
    """
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    if not len(kept[0]) or any(book.index.sheets[table].stderr is None for book in (a, b)):
        return nothing, nothing
    each = CHANCE / 2 / len(kept[0])
    low, high = _ends(a, table, kept[0], each)
    next_low, next_high = _ends(b, table, kept[1], each)
    gap = np.maximum(next_low - high, low - next_high)
    order = np.argsort(-gap, kind="stable")
    rose = order[(next_low > high)[order]]
    fell = order[(next_high < low)[order]]
    return (kept[0][rose], kept[1][rose]), (kept[0][fell], kept[1][fell])


def _ends(book: Book, table: str, rows: Ints, chance: float) -> tuple[Floats, Floats]:
    """Ends of intervals that miss with this chance at most, whatever the law of the noise."""
    claim = book.certificate.tables[table]
    counts = estimates.counts(table, book.index.sheets[table].table, claim)
    # The tail of geometric noise, a little wider for its being in whole numbers; of Gaussian noise
    # the normal one.
    wide = TAIL * math.log(2 / chance) / math.sqrt(2)
    if claim.parameters.get("noise") == "gaussian":
        wide = float(ndtri(1 - chance / 2))
    spread = wide * counts.stderr
    low = counts.values - spread - counts.too_high
    high = counts.values + spread + counts.too_low
    return low[rows], high[rows]


def together(a: Book, b: Book) -> Together:
    """Both guarantees, and their sum where there is one."""
    first, second = a.certificate.guarantee, b.certificate.guarantee
    if a.certificate.release_id == b.certificate.release_id:
        return Together(
            first=first, second=second, sum=first, words="This is one release: it costs once."
        )
    try:
        both = None if "none" in (first.notion, second.notion) else compose([first, second])
        why = "One of them has no guarantee: nothing can be added up."
    except MurmurlogError as error:
        both, why = None, f"They cannot be added up: {error}"
    if both is None:
        return Together(first=first, second=second, sum=None, words=why)
    sources = [(each.certificate.booked or {}).get("source") for each in (a, b)]
    if sources[0] is not None and sources[0] == sources[1]:
        words = f"Both are booked under {sources[0]!r}: they are about the same {first.unit}s."
    else:
        words = (
            f"For a {first.unit} who is in both logs the costs add up. Whether the logs share their "
            f"{first.unit}s is for their owner to say."
        )
    return Together(first=first, second=second, sum=both, words=words)
