"""Streams items that do not fit in memory, once per round.

The engine sums the weights. The sums arrive in batches, every item gets its draw, and the items that
go on are stored as a table of the engine, which the next round is joined with. Only published items
stay in memory. `Rounds` gives the rules as `judge`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle.progress import measure
from murmurlog.mechanisms.rounds.cluster import GOING_ON, ClusterRounds
from murmurlog.mechanisms.rounds.weights import (
    Held,
    attended,
    opening_rows,
    summed_weights,
)
from murmurlog.privacy.sampler import Entropy, Integers, Keys, draw

BLOCK = 1 << 20  # items that are judged at once


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The outcome of a round for some items."""

    passed: npt.NDArray[np.bool_]
    on: npt.NDArray[np.bool_]  # goes on into the next round
    attention: Integers  # of those that go on, and what is remembered of them
    remembered: Integers


# Of a round, z, what is remembered, and the pool of each item.
Judge = Callable[[int, Integers, Integers, Integers], Judged]


def judge_in_blocks(
    judge: Judge, k: int, z: Integers, remembered: Integers, pool: Integers
) -> Judged:
    """What `judge` says of all items; some at a time, because it takes many arrays as long as they are."""
    found = [
        judge(k, z[at : at + BLOCK], remembered[at : at + BLOCK], pool[at : at + BLOCK])
        for at in range(0, max(len(z), 1), BLOCK)
    ]
    names = [each.name for each in fields(Judged)]
    return Judged(
        **{name: np.concatenate([getattr(each, name) for each in found]) for name in names}
    )


def select_streaming(
    held: Held, *, scales: Sequence[float], judge: Judge, entropy: Entropy
) -> Integers:
    """The published items' numbers, in order; `scales` are those of the draws, in grid steps."""
    shown: list[Integers] = [np.zeros(0, np.int64)]
    source: SumsOfRounds = (
        TableRounds(held) if held.cluster is None else ClusterRounds(held, held.cluster)
    )
    advance = measure(held.say, total=len(scales), unit="rounds")
    keys = held.item_keys(entropy)
    for k, scale in enumerate(scales):
        going = _Round()
        stream = entropy.stream("round", k + 1)
        batches = source.sums()
        source.store(
            going.process(batches, k=k, scale=scale, judge=judge, entropy=stream, keys=keys)
        )
        shown += going.passed
        advance()
        if going.count == 0:
            break
    return np.sort(np.concatenate(shown))


class SumsOfRounds(Protocol):
    """The sums of weights of each round, in turn with the items that go on into the next."""

    def sums(self) -> Iterator[pa.RecordBatch]:
        """Item, weight and, from round 2 on, remembered and pool: all items that are alive and no others."""

    def store(self, going_on: Iterable[pa.RecordBatch]) -> None:
        """Takes the items that go on."""


class TableRounds:
    """Sums of weights by tables of an engine, which are joined with what goes on."""

    def __init__(self, held: Held) -> None:
        self.held, self.rows = held, opening_rows(held)
        self.known: Any = None

    def sums(self) -> Iterator[pa.RecordBatch]:
        if self.known is not None:
            self.rows = attended(self.held, self.rows, self.known.select("item", "attention"))
        sums = summed_weights(self.rows)
        if self.known is not None:
            sums = sums.join(self.known.select("item", "remembered", "pool"), "item")
        elif self.held.in_pools is not None:
            pools = sums.left_join(self.held.in_pools, "item")
            sums = pools.select("item", "weight", pool=pools["pool"].fill_null(0))
        return self.held.engine.batches(sums)

    def store(self, going_on: Iterable[pa.RecordBatch]) -> None:
        self.known = self.held.engine.store_batches(GOING_ON, going_on)


class _Round:
    """One round over a stream of items: keeps the items that pass, counts those that go on."""

    def __init__(self) -> None:
        self.passed: list[Integers] = []
        self.count = 0

    def process(
        self,
        batches: Iterator[pa.RecordBatch],
        *,
        k: int,
        scale: float,
        judge: Judge,
        entropy: Entropy,
        keys: Callable[[Integers], Keys],
    ) -> Iterator[pa.RecordBatch]:
        """The items that go on, batch by batch."""
        for batch in batches:
            item, W = _column(batch, "item"), _column(batch, "weight")
            remembered, pool = (
                _column(batch, name) if name in batch.schema.names else np.zeros(len(W), np.int64)
                for name in ("remembered", "pool")
            )
            # 2. One draw for every alive item: it is in one batch, once.
            noise = draw(
                noise="gaussian", scale=scale, count=len(W), entropy=entropy,
                keys=partial(keys, item),
            )  # fmt: skip
            found = judge(k, W + noise, remembered, pool)
            self.passed.append(item[found.passed])
            columns = [item[found.on], found.attention, found.remembered, pool[found.on]]
            self.count += len(columns[0])
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, pa.int64()) for column in columns], schema=GOING_ON
            )


def _column(batch: pa.RecordBatch, name: str) -> Integers:
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)
