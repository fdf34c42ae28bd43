"""The tally: how many units hold each item. Exact, private, and made of bounded items only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from murmurlog.counting.bound import Bounded
from murmurlog.counting.text_keys import item_keys
from murmurlog.logs.engines.protocol import Engine
from murmurlog.privacy.sampler import Entropy, Keys


@dataclass(frozen=True, kw_only=True)
class Tally:
    """(key columns, count) of every item that somebody holds; never published."""

    engine: Engine
    table: Any  # the key columns, the count; materialised
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    count: str = "users"  # the name of the count column
    public: bool = False  # the keys are those of a public list, held by somebody or not

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of Arrow batches, in an order that depends on the engine's threads."""
        return self.engine.batches(self.table)

    def item_keys(self, batch: pa.RecordBatch, entropy: Entropy) -> Callable[[], Keys]:
        """The keys of the batch's items, for `draw`."""
        return item_keys([batch.column(name) for name in self.keys], entropy)


def tally(bounded: Bounded) -> Tally:
    """The number of units that hold each item (or, if the bound was on rows, of rows)."""
    return Tally(
        engine=bounded.engine,
        table=bounded.count_units(),
        kind=bounded.kind,
        keys=bounded.keys,
        unit=bounded.unit,
        per_user=bounded.per_user,
        count=bounded.count,
    )


def with_candidates(tally: Tally, candidates: pa.Table) -> Tally:
    """The tally of exactly these public keys: those that nobody holds have a count of 0."""
    names = list(tally.keys)
    listed = tally.engine.keep(candidates.select(names))
    joined = listed.left_join(tally.table, names).select(
        *(listed[name] for name in names),
        **{tally.count: tally.table[tally.count].fill_null(0)},
    )
    return replace(tally, table=tally.engine.materialise(joined), public=True)
