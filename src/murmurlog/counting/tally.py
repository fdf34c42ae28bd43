"""The tally: how many units hold each item. Exact, private, and made of bounded items only."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import keys_schema
from murmurlog.counting.bound import Bound, BoundedItems, find_and_bound
from murmurlog.counting.items import Integers, Items
from murmurlog.errors import EngineError
from murmurlog.logs.log import Log
from murmurlog.logs.partitions import Partitions, Shards, Sums
from murmurlog.logs.rows import Rows
from murmurlog.logs.text_keys import KeyList, TextKeys, order_of_keys, places_of
from murmurlog.privacy.sampler import Keys

U = TypeVar("U")


@dataclass(frozen=True, eq=False)
class SingleShard:
    """Counts that are in this process, in one range of keys."""

    sums: Sums

    def __iter__(self) -> Iterator[Sums]:
        yield self.sums

    def map(self, work: Callable[[Sums], U]) -> Iterator[U]:
        return map(work, self)

    def close(self) -> None:
        """Nothing is stored."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """The number of units (or of rows) of every item that somebody holds; never published."""

    shards: Shards  # one where the keys are public
    bounded: Partitions[BoundedItems]  # where the items' texts are found
    kind: str
    keys: tuple[str, ...]  # the names of the key columns
    unit: str
    per_user: int
    count: str = "users"
    public: pa.Table | None = None  # then the keys are these, held by somebody or not

    def __iter__(self) -> Iterator[Sums]:
        """The counts, shard by shard; each item is in one of them, once."""
        return iter(self.shards)

    def map(self, work: Callable[[Sums], U]) -> Iterator[U]:
        """What `work` makes of each shard, in order; several may be at work at once."""
        return self.shards.map(work)

    def table(self, keys: Keys) -> pa.Table:
        """The key columns of some distinct items, in the order given."""
        if self.public is None:
            return label(self.bounded, keys, self.keys)
        (shard,) = self
        order = order_of_keys(shard.keys)
        return self.public.take(pa.array(order[places_of(keys, shard.keys[order])]))


def tally(
    log: Log,
    finder: Callable[[Rows], Items],
    bound: Bound,
    *,
    then: Callable[[BoundedItems], BoundedItems] | None = None,
    kind: str,
    keys: tuple[str, ...],
    per_user: int,
    count: str = "users",
) -> Tally:
    """How many units hold each item. `then` derives others from a unit's bounded items."""
    bounded = log.partitions.derive(partial(find_and_bound, find=finder, bound=bound, then=then))
    return Tally(
        shards=bounded.add_up(count_items), bounded=bounded, kind=kind, keys=keys, unit=log.unit,
        per_user=per_user, count=count,
    )  # fmt: skip


def count_items(items: BoundedItems) -> Sums:
    """How many units of a partition hold each item."""
    return Sums(items.keys, np.bincount(items.item, minlength=len(items.keys)).astype(np.int64))


def label(bounded: Partitions[BoundedItems], keys: Keys, names: Sequence[str]) -> pa.Table:
    """The key columns of some distinct items, in the order given, from units that hold them."""
    schema = keys_schema(tuple(names))
    if not len(keys):
        return schema.empty_table()
    order = order_of_keys(keys)
    wanted = bounded.share(KeyList(keys.take(order, axis=0)))
    missing = np.ones(len(keys), bool)  # of the ordered keys
    chosen = []  # the keys that each partition labels: each key is labelled once
    for places in bounded.results(partial(_places, wanted=wanted)):
        chosen.append(order[places[missing[places]]])
        missing[places] = False
    if missing.any():
        raise EngineError("an item that is counted has no text: this is a bug")
    columns = bounded.results_with(_labels, [keys.take(places, axis=0) for places in chosen])
    tables = [pa.table(part, names=list(names)).cast(schema) for part in columns]
    back = np.empty(len(keys), np.int64)
    back[np.concatenate(chosen)] = np.arange(len(keys))
    return pa.concat_tables(tables).take(pa.array(back)).combine_chunks()


def _places(items: BoundedItems, *, wanted: Callable[[], KeyList]) -> Integers:
    """The places of the wanted keys that a partition has."""
    places = wanted().places(items.keys)
    return places[places >= 0]


def _labels(items: BoundedItems, keys: Keys) -> list[pa.Array]:
    """The key columns of some items of a partition."""
    return items.columns(places_of(keys, items.keys))


def with_candidates(tally: Tally, candidates: pa.Table, text_keys: TextKeys) -> Tally:
    """The tally of exactly these public keys: those that nobody holds have a count of 0."""
    public = candidates.select(list(tally.keys))
    keys = text_keys.columns(public.columns)
    counts = np.zeros(len(keys), np.int64)
    order = order_of_keys(keys)
    for shard in tally:
        places = places_of(shard.keys, keys[order])
        is_candidate = places >= 0
        counts[order[places[is_candidate]]] = shard.sums[is_candidate]
    return replace(tally, shards=SingleShard(Sums(keys, counts)), public=public)
