"""What units give to their items, and who holds items, on arrays of codes.

Imports no engine: the workers of a cluster import it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from murmurlog.counting.sorting import distinct_pairs
from murmurlog.logs.encoded import Integers

MOST_COUNTED = 10_000_000  # pairs of an item and m


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldCodes:
    """Which unit holds which item, with the attention that the unit gives to the item."""

    unit: Integers
    item: Integers
    attention: Integers | int

    def partitions(self) -> "Iterator[HeldCodes]":
        """All rows at once."""
        yield self

    def table(self) -> pa.Table:
        """unit, item, attention."""
        attention = np.broadcast_to(np.int64(self.attention), len(self.item))
        columns = {"unit": self.unit, "item": self.item, "attention": attention}
        return pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})


def weights_of_codes(rows: HeldCodes, size: int, *, grid: int) -> Integers:
    """The sum of what units give to each item, in steps of 1/grid: the steps of `summed_weights` on arrays."""
    # Sums of whole numbers below 2^53 are exact in floating point, which `bincount` adds.
    given = give_weights(rows, grid=grid)
    return np.bincount(rows.item, weights=given, minlength=size).astype(np.int64)


def give_weights(rows: HeldCodes, *, grid: int) -> Integers:
    """What the unit of each row gives to the item."""
    # Units of a later partition do not begin at 0.
    unit = rows.unit - rows.unit.min() if len(rows.unit) else rows.unit
    if isinstance(rows.attention, int):  # a unit's weights are equal
        squares = np.bincount(unit) * rows.attention**2
        return _root(np.int64(rows.attention), np.maximum(squares, 1), grid)[unit]
    squares = np.bincount(unit, weights=rows.attention**2).astype(np.int64)
    return _root(rows.attention, squares[unit], grid)


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
