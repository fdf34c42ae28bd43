"""Who holds which item as numbers in arrays, in memory or a file after the other: weights, and who goes on.

The same integers as the Ibis expressions of `weights`, item by item. Draws no noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from murmurlog.counting.unit_weights import HeldCodes, give_weights, weights_of_codes
from murmurlog.logs.engines.protocol import LocalEngine
from murmurlog.logs.partitions import map_file
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Integers


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
        return weights_of_codes(rows, size, grid=GRID)
    found = np.zeros(size, np.int64)
    for part in rows.partitions():
        np.add.at(found, part.item, give_weights(part, grid=GRID))
    return found


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
