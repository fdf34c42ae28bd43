"""Orders of a partition's rows, as arrays of whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from murmurlog.errors import EngineError
from murmurlog.logs.text_keys import group_numbers

Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def first_of_each(unit: Integers, item: Integers) -> Mask:
    """Whether a row is the first of its unit with its item."""
    order, new = group_pairs(unit, item)
    first = np.zeros(len(unit), bool)
    first[order[new]] = True
    return first


def distinct_pairs(unit: Integers, item: Integers) -> tuple[Integers, Integers]:
    """The distinct pairs of numbers, by unit and item."""
    words, bits = _words(unit, item)
    words.sort()
    words = words[np.append(True, words[1:] != words[:-1])[: len(words)]]
    return words >> bits, words & ((1 << bits) - 1)


def group_pairs(first: Integers, second: Integers) -> tuple[Integers, Mask]:
    """A stable order by both of two numbers, and whether each pair differs from the one before it."""
    return group_numbers(_words(first, second)[0])


def _words(first: Integers, second: Integers) -> tuple[Integers, int]:
    """Two numbers from 0 on in one word, and how many bits of it the second has."""
    bits = int(second.max(initial=0)).bit_length()
    if int(first.max(initial=0)).bit_length() + bits > 63:
        raise EngineError("two codes do not fit into one word: this is a bug")
    return first.astype(np.int64) << bits | second, bits


def sort_ties(
    order: Integers, ties: Mask, item: Integers, ranks: Callable[[Integers], Integers]
) -> Integers:
    """The order with each run of rows of one unit and time sorted by the ranks of their items."""
    run = np.zeros(len(order), bool)
    run[1:] |= ties
    run[:-1] |= ties
    rows = np.flatnonzero(run)  # of all runs, one after the other
    starts = np.ones(len(order), bool)
    starts[1:] = ~ties
    number = np.cumsum(starts[rows])
    present = np.zeros(int(item.max()) + 1, bool)
    present[item[order[rows]]] = True
    distinct = np.flatnonzero(present)
    rank = np.zeros(len(present), np.int64)
    rank[distinct] = ranks(distinct)
    by_rank = np.lexsort((rank[item[order[rows]]], number))
    order[rows] = order[rows][by_rank]
    return order
