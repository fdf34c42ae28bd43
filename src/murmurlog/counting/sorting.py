"""Orders of dictionary-encoded rows: by unit, then by time, then by the bytes of what is held."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from murmurlog.logs.encoded import Integers, Mask

MANY = 300_000  # codes: fewer are sorted before SciPy is imported


def in_time(unit: Integers, time: Integers) -> tuple[Integers, Integers, Mask]:
    """An order of rows by unit and time, the units in it, and which neighbours are of one time.

    Rows are grouped by unit first. In most logs they are then in order of time; else they are sorted.
    Rows of one unit and time come in any order.
    """
    order, units = group(unit)
    times = time[order]
    same = units[1:] == units[:-1]
    falls = np.flatnonzero(same & (times[1:] < times[:-1]))
    if len(falls) and len(order) >= MANY and _has_scipy():
        times, order = _sort_rows(times, order, sizes=np.bincount(units))
    elif len(falls):
        unsorted = np.zeros(int(units[-1]) + 1, bool)
        unsorted[units[falls]] = True
        rows = np.flatnonzero(unsorted[units])
        inside = np.lexsort((times[rows], units[rows]))
        order[rows] = order[rows][inside]
        times = time[order]
    return order, units, same & (times[1:] == times[:-1])


def group(number: Integers) -> tuple[Integers, Integers]:
    """The positions of equal codes side by side, in their order; and the codes there."""
    if _is_counted(number):
        at, codes = _count(number, _positions(number))
        return at.astype(np.int64, copy=False), codes
    words, bits = _words(number, np.arange(len(number), dtype=np.uint64))
    numbers = (words >> bits).astype(number.dtype)
    words &= (np.uint64(1) << bits) - np.uint64(1)
    return words.view(np.int64), numbers


def distinct_pairs(unit: Integers, item: Integers) -> tuple[Integers, Integers]:
    """The distinct pairs of codes, by unit and item."""
    if _is_counted(unit):
        items, units = _count(unit, item)
        return units, items.astype(item.dtype, copy=False)
    words, bits = _words(unit, item.astype(np.uint64))
    new = np.ones(len(words), bool)
    np.not_equal(words[1:], words[:-1], out=new[1:])
    words = words[new]
    units = (words >> bits).astype(unit.dtype)
    words &= (np.uint64(1) << bits) - np.uint64(1)
    return units, words.astype(item.dtype)


def first_of_each(units: Integers, items: Integers, sizes: Integers) -> Mask:
    """Whether a row is the first of its unit with its item; rows are by unit, `sizes` how many each has."""
    if len(items) < MANY or not _has_scipy():
        new = np.ones(len(items), bool)
        # Rows with one item, by position: those of one unit are adjacent, too, the first in front.
        at, items = group(items)
        same = items[1:] == items[:-1]
        holder = units[at]
        same &= holder[1:] == holder[:-1]
        new[at[1:][same]] = False
        return new
    items, positions = _sort_rows(items, _positions(items), sizes=sizes)
    starts = np.ones(len(items), bool)
    np.not_equal(items[1:], items[:-1], out=starts[1:])
    starts[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
    firsts = np.minimum.reduceat(positions, np.flatnonzero(starts))
    new = np.zeros(len(items), bool)
    new[firsts] = True
    return new


def _positions(codes: Integers) -> Integers:
    return np.arange(len(codes), dtype=np.min_scalar_type(-len(codes)))


def _is_counted(codes: Integers) -> bool:
    """Whether counting how often each code occurs is the faster way to sort: SciPy is imported for it."""
    return len(codes) >= MANY and int(codes.max()) < 2 * len(codes) and _has_scipy()


@cache
def _has_scipy() -> bool:
    """Workers of a cluster need not have it."""
    return find_spec("scipy") is not None


def _count(row: Integers, column: Integers) -> tuple[Integers, Integers]:
    """The distinct columns and rows of pairs, sorted by row and column: a sparse matrix in rows.

    Three times as fast as sorting words: SciPy counts the pairs of each row, puts each pair into its
    row, and sorts the few pairs of a row.
    """
    from scipy.sparse import coo_array

    shape = (int(row.max()) + 1, int(column.max()) + 1)
    matrix = coo_array((np.ones(len(row), bool), (row, column)), shape=shape).tocsr()
    rows = np.arange(shape[0], dtype=row.dtype)
    return matrix.indices, np.repeat(rows, np.diff(matrix.indptr))


def _sort_rows(keys: Integers, values: Integers, *, sizes: Integers) -> tuple[Integers, Integers]:
    """Keys and their values, those of each row sorted by key; `sizes` says how many each row has.

    A sparse matrix again, whose columns are keys. Keys may be negative: SciPy only compares them.
    """
    from scipy.sparse import csr_array

    shape = (len(sizes), np.iinfo(keys.dtype).max)
    matrix = csr_array((values, keys.copy(), np.append(0, np.cumsum(sizes))), shape=shape)
    matrix.sort_indices()
    return matrix.indices, matrix.data


def _words(
    first: Integers, second: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], np.uint64]:
    """Sorted words of both numbers, and the bits of the second: faster than sorting positions."""
    bits = np.uint64(int(second.max(initial=0)).bit_length())
    words = first.astype(np.uint64)
    words <<= bits
    words |= second
    words.sort()
    return words, bits


def sort_ties(
    order: Integers, alike: Mask, item: Integers, ranks: Callable[[Integers], Integers]
) -> Integers:
    """The order with each run of rows of one unit and time sorted by the bytes of the keys."""
    run = np.zeros(len(order), bool)
    run[1:] |= alike
    run[:-1] |= alike
    rows = np.flatnonzero(run)  # of all runs, one after the other
    starts = np.ones(len(order), bool)
    starts[1:] = ~alike
    number = np.cumsum(starts[rows])
    distinct, which = np.unique(item[order[rows]], return_inverse=True)
    inside = np.lexsort((ranks(distinct)[which], number))
    order[rows] = order[rows][inside]
    return order
