"""Two bundles side by side: what one has and the other has not, what moved, what both cost."""

import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from murmurlog.errors import MurmurlogError
from murmurlog.page.index import Ints, Sheet
from murmurlog.page.shelf import Book
from murmurlog.privacy import Guarantee, compose
from murmurlog.tables import SEPARATOR, flattened

CHANCE = 0.05  # that one of all rows which did not move is said to have moved


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Rows of two tables of the same name: places in the one and in the other."""

    before: Sheet
    after: Sheet
    gained: Ints  # rows of `after`
    lost: Ints  # rows of `before`
    kept: tuple[Ints, Ints]  # the same items in both
    rose: tuple[Ints, Ints]  # those whose counts differ by more than noise explains
    fell: tuple[Ints, Ints]


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
        return _compared(a, b, table)


@lru_cache(maxsize=16)
def _compared(a: Book, b: Book, table: str) -> Comparison:
    before, after = a.index.sheets[table], b.index.sheets[table]
    here, there = _keys(before), _keys(after)
    place = pc.fill_null(pc.index_in(there, value_set=here), -1).to_numpy().astype(np.int64)
    found = np.flatnonzero(place >= 0)
    lost = np.ones(len(here), bool)
    lost[place[found]] = False
    kept = (place[found], found)
    rose, fell = _moved(before, after, kept)
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


def _moved(
    before: Sheet, after: Sheet, kept: tuple[Ints, Ints]
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Items that rose and that fell, by how sure that is."""
    a, b = kept
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    if before.stderr is None or after.stderr is None or not len(a):
        return nothing, nothing
    assert before.values is not None
    assert after.values is not None
    error = np.sqrt(before.stderr[a] ** 2 + after.stderr[b] ** 2)
    moved = (after.values[b] - before.values[a]) / np.maximum(error, 1e-9)
    # So far that, were nothing moved, one of all these rows would be found by this chance.
    far = float(ndtri(1 - CHANCE / 2 / len(a)))
    order = np.argsort(-np.abs(moved), kind="stable")
    rose, fell = order[moved[order] > far], order[moved[order] < -far]
    return (a[rose], b[rose]), (a[fell], b[fell])


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
