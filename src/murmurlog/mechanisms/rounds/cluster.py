"""Rounds on a cluster: workers hold the bounded items and sum weights; this process draws and judges.

Of each round the sums come here shard by shard, and what goes on is a file that workers map into memory.
This process holds a shard at a time and what was published. `counting.cluster_rounds` has the workers'
steps. Draws no noise.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.counting.bound import ClusterBounded
from murmurlog.counting.choice import KEY_BYTES, ChoiceKey
from murmurlog.counting.cluster_rounds import (
    FIRST,
    HELD,
    SUMS,
    add_first,
    add_later,
    hold_partition,
    look_up,
    sum_first,
    sum_later,
    unpack_names,
)
from murmurlog.counting.items import Items
from murmurlog.logs.cluster_partitions import unpack_table
from murmurlog.logs.engines.protocol import ClusterEngine, SharedTable
from murmurlog.mechanisms.rounds.weights import Held
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Entropy

PARTITIONS_A_SHARD = 8  # each partition sends a row to each shard
GOING_ON = pa.schema([(name, pa.int64()) for name in ("item", "attention", "remembered", "pool")])


@dataclass(frozen=True, kw_only=True)
class ClusterHeld:
    """The bounded items of each partition, and the sums of round 1, on the workers."""

    engine: ClusterEngine
    held: Any  # a table of rows of `HELD`
    first: Any  # a table of rows of `FIRST`
    bits: int  # shards are the items whose numbers begin with the same bits


def hold_on_cluster(kept: ClusterBounded, items: Items, *, entropy: Entropy) -> Held | None:
    """The bounded items with numbers; None if two of them have the same, which is hardly possible.

    The key only makes it unpredictable which items could: no result depends on it.
    """
    engine, log = kept.engine, kept.log
    key = ChoiceKey(secret=entropy.stream("numbers").bytes(KEY_BYTES))
    hold = partial(
        hold_partition, finder=kept.items.finder, first=kept.first, names=kept.keys, key=key
    )
    held = log.partitions.map(hold, HELD)
    bits = max(2, (log.partitions.count // PARTITIONS_A_SHARD).bit_length())
    work = partial(sum_first, attention=FULL, grid=GRID, bits=bits)
    first = engine.exchange(held, work, add_first, FIRST, shards=1 << bits)
    counts = [row for batch in engine.read(first, "items", "alike") for row in batch.to_pylist()]
    if any(row["alike"] for row in counts):
        return None
    names = pa.schema([("item", pa.int64()), *((name, kept.key_type) for name in kept.keys)])
    return Held(
        engine=engine,
        table=None,
        names=engine.unpack(first.select("names"), unpack_names, names),
        size=sum(row["items"] for row in counts),
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
        items=items,
        cluster=ClusterHeld(engine=engine, held=held, first=first, bits=bits),
        dense=False,
    )


class ClusterRounds:
    """Sums of weights by workers, which look up the attention of items in the file of what goes on."""

    def __init__(self, held: Held, cluster: ClusterHeld) -> None:
        self.held, self.cluster = held, cluster
        self.known: SharedTable | None = None

    def sums(self) -> Iterator[pa.RecordBatch]:
        """Item, weight, remembered and pool, a shard at a time."""
        engine, table = self.cluster.engine, self.cluster.first
        listed = self._pools() if self.known is None else self.known.open()
        if self.known is not None:
            work = partial(sum_later, known=self.known, grid=GRID, bits=self.cluster.bits)
            rows = self.cluster.held.select("held", "numbers")
            table = engine.exchange(rows, work, add_later, SUMS, shards=1 << self.cluster.bits)
        shards = (row for b in engine.read(table, "shard", "sums") for row in b.to_pylist())
        for shard in shards:
            sums = unpack_table(shard["sums"])
            remembered, pool = look_up(sums["item"].to_numpy(), listed, "remembered", "pool")
            whole = sums.append_column("remembered", pa.array(remembered))
            yield from whole.append_column("pool", pa.array(pool)).combine_chunks().to_batches()

    def _pools(self) -> pa.Table:
        """In round 1 nothing is remembered, and items of pools are known by these."""
        schema = pa.schema([("item", pa.int64()), ("pool", pa.int64())])
        pools = self.held.in_pools
        found = [] if pools is None else self.held.engine.batches(pools)
        batches = [batch.select(schema.names).cast(schema) for batch in found]
        listed = pa.Table.from_batches(batches, schema).sort_by("item").combine_chunks()
        return listed.append_column("remembered", pa.array(np.zeros(len(listed), np.int64)))

    def store(self, going_on: Iterable[pa.RecordBatch]) -> None:
        self.known = self.cluster.engine.share(GOING_ON, going_on)
