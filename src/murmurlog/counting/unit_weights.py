"""What units give to their items, and who holds items, on arrays of codes.

Imports no engine: the workers of a cluster import it.
"""

import numpy as np

from murmurlog.counting.sorting import Integers, distinct_pairs

MOST_COUNTED = 10_000_000  # pairs of an item and m


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


def count_holders(
    unit: Integers, item: Integers, *, size: int
) -> tuple[Integers, Integers, Integers]:
    """Items, m and units: how many units hold an item of 0 ... size - 1 together with m - 1 others of them.

    Pairs of a unit and an item may repeat.
    """
    # A unit may hold an item in several rows: each pair counts once.
    unit, item = distinct_pairs(unit, item)
    m = np.bincount(unit)[unit] if len(unit) else unit
    # Few units hold many of the items, so most pairs (item, m) repeat: they are counted, not sorted.
    most = int(m.max(initial=0)) + 1
    if size * most <= MOST_COUNTED:
        found = np.bincount(item.astype(np.int64) * most + m, minlength=0)
        both = np.flatnonzero(found)
        units = found[both]
    else:
        both, units = np.unique(item.astype(np.int64) * most + m, return_counts=True)
    item, m = np.divmod(both, most)
    return item, m, units.astype(np.int64)
