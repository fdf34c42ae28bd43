"""Who holds which item as numbers in arrays, in memory or a file after the other: weights, and who goes on.

The same integers as the Ibis expressions of `weights`, item by item. Draws no noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from murmurlog.logs.engines.protocol import LocalEngine
from murmurlog.logs.partitions import map_file
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldCodes:
    """Rows of `Held.table` in arrays, with the attention that the unit gives to the item."""

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


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldFiles:
    """The same on disk: all rows of a unit are in one file."""

    engine: LocalEngine
    files: tuple[Path, ...]
    opening: bool  # the files are those of round 1, which stay

    def partitions(self) -> Iterator[HeldCodes]:
        """The rows of each file."""
        for file in self.files:
            table = map_file(file)
            rows = {name: table[name].combine_chunks().to_numpy() for name in table.column_names}
            yield HeldCodes(**{"attention": FULL, **rows})
            del table, rows  # before the next file is mapped


Codes: TypeAlias = HeldCodes | HeldFiles


def sum_weights(rows: Codes, size: int) -> Integers:
    """What `weights.summed_weights` gives, as an array over items: the same operations on the same integers."""
    if isinstance(rows, HeldCodes):
        # Sums of whole numbers below 2^53 are exact in floating point, which `bincount` adds.
        return np.bincount(rows.item, weights=_given(rows), minlength=size).astype(np.int64)
    found = np.zeros(size, np.int64)
    for part in rows.partitions():
        np.add.at(found, part.item, _given(part))
    return found


def _given(rows: HeldCodes) -> Integers:
    """What the unit of each row gives to the item."""
    # Units of a later file do not begin at 0.
    unit = rows.unit - rows.unit.min() if len(rows.unit) else rows.unit
    if isinstance(rows.attention, int):  # a unit's weights are equal
        squares = np.bincount(unit) * rows.attention**2
        return _root(np.int64(rows.attention), np.maximum(squares, 1))[unit]
    squares = np.bincount(unit, weights=rows.attention**2).astype(np.int64)
    return _root(rows.attention, squares[unit])


def _root(attention: Integers | np.int64, squares: Integers) -> Integers:
    """floor(GRID attention / sqrt(squares))."""
    root = np.floor(attention * GRID / np.sqrt(squares)).astype(np.int64)
    return np.asarray(root - (root * root * squares > attention * attention * GRID**2))


def keep_alive(rows: Codes, given: Integers) -> Codes:
    """The rows of items with an attention above 0, and these attentions; `given` is over all items."""
    if isinstance(rows, HeldCodes):
        return _keep_alive(rows, given)
    files = tuple(rows.engine.store(_keep_alive(part, given).table()) for part in rows.partitions())
    if not rows.opening:
        for file in rows.files:
            file.unlink()
    return HeldFiles(engine=rows.engine, files=files, opening=False)


def _keep_alive(rows: HeldCodes, given: Integers) -> HeldCodes:
    found = given[rows.item]
    some = found > 0
    attention = found[some].astype(np.int64)
    return HeldCodes(unit=rows.unit[some], item=rows.item[some], attention=attention)
