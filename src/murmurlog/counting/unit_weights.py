"""What units give to their items, and who holds items, on arrays of codes.

Imports no engine: the workers of a cluster import it.
"""

import numpy as np

from murmurlog.counting.sorting import Integers, distinct_pairs, group_pairs


def give_weights(unit: Integers, attention: Integers | int, *, grid: int) -> Integers:
    """What the unit of each row gives to the item, in steps of 1/grid: floor(grid h / |h|).

    h is the attention to the item, |h| the root of the sum of the squares of the unit's. The squares of
    what a unit gives add up to at most grid^2, whatever the rounding of the root: integers are compared.
    """
    if isinstance(attention, int):  # a unit's weights are equal
        squares = np.bincount(unit) * attention**2
        return _root(np.int64(attention), np.maximum(squares, 1), grid)[unit]
    squares = np.bincount(unit, weights=attention**2).astype(np.int64)
    return _root(attention, squares[unit], grid)


def _root(attention: Integers | np.int64, squares: Integers, grid: int) -> Integers:
    """floor(grid attention / sqrt(squares))."""
    root = np.floor(attention * grid / np.sqrt(squares)).astype(np.int64)
    return np.asarray(root - (root * root * squares > attention * attention * grid**2))


def count_holders(unit: Integers, item: Integers) -> tuple[Integers, Integers, Integers]:
    """Items, m and units: how many units hold an item together with m - 1 others.

    Pairs of a unit and an item may repeat.
    """
    # A unit may hold an item in several rows: each pair counts once.
    unit, item = distinct_pairs(unit, item)
    m = np.bincount(unit)[unit]
    order, new = group_pairs(item, m)
    first = order[new]
    return item[first], m[first], np.diff(np.append(np.flatnonzero(new), len(order)))
