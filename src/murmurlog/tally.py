"""The tally: how many units hold each item. Exact, private, and only ever made of bounded items."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from murmurlog.bound import Bounded
from murmurlog.engine import Engine
from murmurlog.tables import KEYS


@dataclass(frozen=True, kw_only=True)
class Tally:
    """(key columns, users) of every item that somebody holds; never leaves the owner."""

    engine: Engine
    table: Any  # the key columns, users; materialised
    kind: str
    unit: str
    per_user: int

    @property
    def keys(self) -> tuple[str, ...]:
        return KEYS[self.kind]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of Arrow batches, in no particular order."""
        return self.engine.batches(self.table)


def tally(bounded: Bounded) -> Tally:
    """The number of units that hold each item."""
    counted = bounded.table.group_by(list(bounded.keys)).aggregate(users=bounded.table.count())
    return Tally(
        engine=bounded.engine,
        table=bounded.engine.materialise(counted),
        kind=bounded.kind,
        unit=bounded.unit,
        per_user=bounded.per_user,
    )
