"""Orders of a partition's rows, as arrays of whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def first_of_each(unit: Integers, item: Integers) -> Mask:
    """Whether a row is the first of its unit with its item; rows are by unit."""
    new = np.zeros(len(unit), bool)
    if not len(unit):
        return new
    bits = [max(1, int(number).bit_length()) for number in (item.max(), len(unit) - 1)]
    if int(unit[-1]).bit_length() + sum(bits) <= 64:
        # Unit, item and place share a word: sorting words is faster than sorting places.
        words = unit.astype(np.uint64)
        words <<= np.uint64(bits[0])
        words |= item.astype(np.uint64)
        words <<= np.uint64(bits[1])
        words |= np.arange(len(unit), dtype=np.uint64)
        words.sort()
        pair = words >> np.uint64(bits[1])
        first = np.ones(len(unit), bool)
        np.not_equal(pair[1:], pair[:-1], out=first[1:])
        new[
            (words[first] & ((np.uint64(1) << np.uint64(bits[1])) - np.uint64(1))).view(np.int64)
        ] = 1
        return new
    order = np.lexsort((item, unit))
    first = np.ones(len(unit), bool)
    first[1:] = (unit[order][1:] != unit[order][:-1]) | (item[order][1:] != item[order][:-1])
    new[order[first]] = True
    return new


def distinct_pairs(unit: Integers, item: Integers) -> tuple[Integers, Integers]:
    """The distinct pairs of numbers, by unit and item."""
    if not len(unit):
        return unit, item
    bits = np.uint64(max(1, int(item.max()).bit_length()))
    words = unit.astype(np.uint64) << bits | item.astype(np.uint64)
    words.sort()
    new = np.ones(len(words), bool)
    np.not_equal(words[1:], words[:-1], out=new[1:])
    words = words[new]
    units = (words >> bits).astype(unit.dtype)
    return units, (words & ((np.uint64(1) << bits) - np.uint64(1))).astype(item.dtype)


def sort_ties(
    order: Integers, alike: Mask, item: Integers, ranks: Callable[[Integers], Integers]
) -> Integers:
    """The order with each run of rows of one unit and time sorted by the ranks of their items."""
    run = np.zeros(len(order), bool)
    run[1:] |= alike
    run[:-1] |= alike
    rows = np.flatnonzero(run)  # of all runs, one after the other
    starts = np.ones(len(order), bool)
    starts[1:] = ~alike
    number = np.cumsum(starts[rows])
    there = np.zeros(int(item.max()) + 1, bool)
    there[item[order[rows]]] = True
    distinct = np.flatnonzero(there)
    rank = np.zeros(len(there), np.int64)
    rank[distinct] = ranks(distinct)
    inside = np.lexsort((rank[item[order[rows]]], number))
    order[rows] = order[rows][inside]
    return order
