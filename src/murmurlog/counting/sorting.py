"""Orders of dictionary-encoded rows: by unit, then by time, then by the bytes of what is held."""

from collections.abc import Callable

import numpy as np

from murmurlog.logs.encoded import Integers, Mask


def in_time(unit: Integers, time: Integers) -> tuple[Integers, Integers, Mask]:
    """An order of rows by unit and time, the units in it, and which neighbours are of one time.

    Rows are grouped by unit first. In most logs they are then in order of time; only units whose
    rows are not are sorted by time.
    """
    order, units = group(unit)
    times = time[order]
    same = units[1:] == units[:-1]
    falls = np.flatnonzero(same & (times[1:] < times[:-1]))
    if len(falls):
        unsorted = np.zeros(int(units[-1]) + 1, bool)
        unsorted[units[falls]] = True
        rows = np.flatnonzero(unsorted[units])
        inside = np.lexsort((times[rows], units[rows]))
        order[rows] = order[rows][inside]
        times = time[order]
    return order, units, same & (times[1:] == times[:-1])


def group(number: Integers) -> tuple[Integers, Integers]:
    """The positions of equal codes side by side, in their order; and the codes there.

    Code and position share a word: sorting words is several times faster than sorting positions.
    """
    bits = np.uint64(len(number).bit_length())
    words = number.astype(np.uint64)
    words <<= bits
    words |= np.arange(len(number), dtype=np.uint64)
    words.sort()
    numbers = (words >> bits).astype(number.dtype)
    words &= (np.uint64(1) << bits) - np.uint64(1)
    return words.view(np.int64), numbers


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
