"""The candidates of a selection in rounds, and its loop: sum weights, draw, decide, go on with what is alive.

Sums come shard by shard, so that the weights of one range of keys are in this process at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.progress import measure
from murmurlog.bundle.schema import keys_of
from murmurlog.counting.bound import BoundedItems, find_and_bound
from murmurlog.counting.items import Integers, ItemFinder, Items, runs
from murmurlog.counting.public_sets.sets import Domain, distinct
from murmurlog.counting.sorting import distinct_pairs
from murmurlog.counting.subsequences import Sets, items_for, sets_of
from murmurlog.counting.tally import label
from murmurlog.counting.unit_weights import give_weights
from murmurlog.errors import EngineError, Refused, UsageError
from murmurlog.logs.log import Log
from murmurlog.logs.partitions import Answers, Columns, Partitions, SummedShards, Sums
from murmurlog.logs.rows import Rows
from murmurlog.logs.text_keys import (
    NO_KEYS,
    KeyList,
    TextKeys,
    distinct_keys,
    order_of_keys,
    places_of,
)
from murmurlog.mechanisms.protocol import View
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Entropy, Keys, draw


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Bounded items of each unit, fixed for all rounds, and what the counts are about; private."""

    bounded: Partitions[BoundedItems]
    first: SummedShards  # the weights of round 1
    counted: Partitions[Any]  # what the counts look at
    pairs: "PairFinder"  # finds in it who holds published items
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    text_keys: TextKeys
    in_log: bool = True  # else only bounded items count: the counts are "at least"
    pools: tuple[Domain, ...] = ()  # public keys, disjoint; noised also where nobody holds them
    earlier: pa.Table | None = None  # keys that are public already: never selected, always counted
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)

    def table(self, keys: Keys) -> pa.Table:
        """The key columns of some items, in the order given."""
        return label(self.bounded, keys, self.keys)

    def share_published(self, published: pa.Table) -> "Callable[[], Published]":
        """Published items, given by their key columns, for functions of a partition."""
        columns = [column.combine_chunks() for column in published.columns]
        members = length = None
        if self.kind == "itemset":
            members = self.text_keys.texts(pc.list_flatten(columns[0]))
            length = pc.list_value_length(columns[0]).to_numpy().astype(np.int64)
            # A set has one form: its members in order of keys.
            holder = np.repeat(np.arange(len(length)), length)
            members = members[np.lexsort((members[:, 1], members[:, 0], holder))]
            keys = self.text_keys.lists(members, length)
        else:
            keys = self.text_keys.columns(columns)
        order = order_of_keys(keys)
        return self.bounded.share(
            Published(keys=KeyList(keys[order]), place=order, members=members, length=length)
        )


class Published(NamedTuple):
    """Published items: their keys, ascending; the place of each among them; the members of sets."""

    keys: KeyList
    place: Integers
    members: Keys | None
    length: Integers | None


# Units and places of published items, of a partition; pairs may repeat.
PairFinder = Callable[[Any, Published], tuple[Integers, Integers]]


class AliveItems(NamedTuple):
    """The items of units that are alive, and the attention that each item gets."""

    unit: Integers
    item: Integers
    keys: Keys
    attention: Integers


class Alive(NamedTuple):
    """What is alive after a round, by ascending key, and what is remembered of it: of a range, or a partition."""

    keys: KeyList
    attention: Integers
    remembered: Integers
    pool: Integers

    @classmethod
    def of(cls, columns: Columns) -> "Alive":
        """From its columns."""
        keys, attention, remembered, pool = columns
        return cls(KeyList(keys), attention, remembered, pool)


class Outcome(NamedTuple):
    """The outcome of a round for some items."""

    passed: npt.NDArray[np.bool_]
    goes_on: npt.NDArray[np.bool_]
    attention: Integers  # of those that go on, and what is remembered of them
    remembered: Integers


# Of a round, measurements, what is remembered, and the pool of each item.
Decide = Callable[[int, Integers, Integers, Integers], Outcome]


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """The keys of the items that passed, and of each pool the keys that somebody holds."""

    keys: Keys
    held_keys: tuple[Keys, ...]


def candidates_of(
    log: Log, view: View, *, per_user: int, pools: tuple[Domain, ...] = (), entropy: Entropy
) -> Candidates:
    """At most `per_user` distinct items of each unit.

    (i) distinct, (ii) from the unit's own rows and a secret that is drawn apart from all noise. Keys that
    are public already are left out before units are bounded: a rule about single items. Counts may
    read other rows of a unit than the selection.
    """
    earlier = _earlier(view, pools)
    excluded = None
    if earlier is not None:
        excluded = log.partitions.share(KeyList.of(log.text_keys.columns(earlier.columns)))
    finder = view.finder(log, since=view.select_from, excluded=excluded)
    counted = view.finder(log, since=view.count_from)
    derived, most = None, per_user
    if view.kind == "itemset":
        n = items_for(per_user, view.set_size, consecutive=view.consecutive)
        derived = Sets(size=view.set_size, consecutive=view.consecutive)
        most = sets_of(n, view.set_size, consecutive=view.consecutive)
        if view.consecutive and view.select_from != view.count_from:
            raise UsageError("runs of queries are counted in the rows that they were cut from")
        bound = view.bound(log, per_user=n, entropy=entropy, places=True)
    else:
        bound = view.bound(log, per_user=per_user, entropy=entropy)
    bounded = log.partitions.derive(partial(find_and_bound, find=finder, bound=bound, then=derived))
    pairs: PairFinder = partial(_pairs_in_rows, find=counted)
    if view.kind == "itemset":
        pairs = partial(_sets_in_rows, find=counted)
    # Runs exist only as they were cut: a unit's later runs are never seen.
    as_cut = view.kind == "itemset" and view.consecutive
    return Candidates(
        bounded=bounded,
        first=bounded.add_up(weigh_first),
        counted=bounded if as_cut else log.partitions,
        pairs=pairs_in_bounded if as_cut else pairs,
        in_log=not as_cut,
        kind=view.kind,
        keys=keys_of(view.kind, view.by),
        unit=view.unit,
        per_user=most,
        text_keys=log.text_keys,
        pools=pools,
        earlier=earlier,
        say=view.say,
    )


def _earlier(view: View, pools: Sequence[Domain]) -> pa.Table | None:
    """The keys that are public already, each once; none of them may be in a pool."""
    stated = view.earlier.get(view.kind)
    if stated is None:
        return None
    if view.kind == "itemset":
        raise UsageError("earlier keys cannot be counted again in an itemset table: leave it out")
    keys = distinct(stated.select(list(keys_of(view.kind, view.by))))
    for pool in pools:
        every = pool.keys(np.arange(pool.size))
        if keys.join(every, keys.column_names, join_type="left semi").num_rows:
            # It could be published twice, and fewer keys could be fakes than the thresholds are for.
            raise Refused(
                "a pool lists keys that were published earlier: take them out of the pool"
            )
    return keys


def select(
    candidates: Candidates, *, scales: Sequence[float], decide: Decide, entropy: Entropy
) -> Selected:
    """The items that pass in some round; `scales` are those of the draws, in grid steps."""
    advance = measure(candidates.say, total=len(scales), unit="rounds")
    sums: SummedShards = candidates.first
    items: Partitions[BoundedItems | AliveItems] = candidates.bounded
    pools = [KeyList.of(candidates.text_keys.columns(_columns(pool))) for pool in candidates.pools]
    held_keys: list[list[Keys]] = [[NO_KEYS] for _ in pools]
    passed, answers = [NO_KEYS], None
    for k, scale in enumerate(scales):
        decide_shard = partial(
            _decide_shard, k=k, scale=scale, before=answers, pools=pools, decide=decide,
            stream=entropy.stream("round", k + 1),
        )  # fmt: skip
        shards, answers = sums.answer(decide_shard)
        for shard in shards:
            passed.append(shard.passed)
            for parts, keys in zip(held_keys, shard.in_pools, strict=True):
                parts.append(keys)
        advance()
        if k + 1 == len(scales) or not any(shard.alive for shard in shards):
            break
        following = items.derive_with(answers, _keep_own_alive)
        if k:
            sums.close()
            items.close()
        # 1. What each unit gives to each of its items that are alive, summed exactly.
        items, sums = following, following.add_up(weigh)
    return Selected(keys=np.concatenate(passed), held_keys=tuple(map(np.concatenate, held_keys)))


class _DecidedShard(NamedTuple):
    """What a round decides about a range of keys."""

    passed: Keys
    alive: int  # how many go on
    in_pools: tuple[Keys, ...]  # in round 1, of each pool the keys that somebody holds


def _decide_shard(
    number: int,
    shard: Sums,
    *,
    k: int,
    scale: float,
    before: Answers | None,
    pools: Sequence[KeyList],
    decide: Decide,
    stream: Entropy,
) -> tuple[_DecidedShard, Integers, Columns]:
    """The decision, and which items are alive after it with what is remembered of them."""
    if before is None:
        remembered, pool = _in_pools(shard.keys, pools)
        in_pools = tuple(shard.keys[pool == number] for number in range(1, len(pools) + 1))
    else:
        remembered, pool = _read_memory(shard.keys, Alive.of(before.shard(number)))
        in_pools = tuple(NO_KEYS for _ in pools)
    # 2. One draw for every alive item: it is in one shard, once.
    noise = draw(
        noise="gaussian", scale=scale, count=len(shard.keys), entropy=stream, keys=shard.keys
    )
    outcome = decide(k, shard.sums + noise, remembered, pool)
    alive = np.flatnonzero(outcome.goes_on)
    decided = _DecidedShard(shard.keys[outcome.passed], len(alive), in_pools)
    return decided, alive, (outcome.attention, outcome.remembered, pool[alive])


def _columns(pool: Domain) -> list[pa.ChunkedArray]:
    return list(pool.keys(np.arange(pool.size)).columns)


def _in_pools(keys: Keys, pools: Sequence[KeyList]) -> tuple[Integers, Integers]:
    """In round 1 nothing is remembered, and items are known by their pools; 0 for none."""
    pool = np.zeros(len(keys), np.int64)
    for number, members in enumerate(pools, start=1):
        pool[members.places(keys) >= 0] = number
    return np.zeros(len(keys), np.int64), pool


def _read_memory(keys: Keys, alive: Alive) -> tuple[Integers, Integers]:
    """What is remembered of the items of a shard, all of which are alive, and their pools."""
    if not np.array_equal(keys, alive.keys.keys):
        raise EngineError("other items have a weight than go on: this is a bug")
    return alive.remembered, alive.pool


def weigh_first(items: BoundedItems) -> Sums:
    """Round 1: (iii) every item of a bounded set and nothing else, all with equal attention."""
    weights = give_weights(items.unit, FULL, grid=GRID)
    return _add_weights(items.item, items.keys, weights)


def weigh(items: AliveItems) -> Sums:
    """The sums of what units give to each item, in steps of 1/GRID."""
    weights = give_weights(items.unit, items.attention[items.item], grid=GRID)
    return _add_weights(items.item, items.keys, weights)


def _add_weights(item: Integers, keys: Keys, weights: Integers) -> Sums:
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, item, weights)
    return Sums(keys, sums)


def _keep_own_alive(items: BoundedItems | AliveItems, columns: Columns) -> AliveItems:
    """`keep_alive` by the columns of what is alive, of a partition's keys or of more."""
    return keep_alive(items, alive=lambda: Alive.of(columns))


def keep_alive(items: BoundedItems | AliveItems, *, alive: Callable[[], Alive]) -> AliveItems:
    """The items that are alive, with the attention that each gets."""
    going_on = alive()
    places = going_on.keys.places(items.keys)
    stays = np.flatnonzero(places >= 0)
    number = np.full(len(places), -1, np.int32)
    number[stays] = np.arange(len(stays), dtype=np.int32)
    item = number[items.item]
    rows = np.flatnonzero(item >= 0)
    return AliveItems(
        unit=items.unit[rows],
        item=item[rows],
        keys=items.keys.take(stays, axis=0),
        attention=going_on.attention[places[stays]],
    )


def _pairs_in_rows(
    rows: Rows, published: Published, *, find: ItemFinder
) -> tuple[Integers, Integers]:
    """Units and places of the published items in all rows, not bounded."""
    return pairs_in_bounded(find(rows), published)


def pairs_in_bounded(
    items: Items | BoundedItems, published: Published
) -> tuple[Integers, Integers]:
    """Units and places of the published items among these."""
    places = published.keys.places(items.keys)[items.item]
    rows = np.flatnonzero(places >= 0)
    return items.unit[rows], published.place[places[rows]]


def _sets_in_rows(
    rows: Rows, published: Published, *, find: ItemFinder
) -> tuple[Integers, Integers]:
    """Units and places of published sets: a unit holds a set if it holds all its members."""
    assert published.members is not None
    assert published.length is not None
    queries = distinct_keys(published.members)
    member = places_of(published.members, queries)
    items = find(rows)
    places = places_of(items.keys, queries)
    items = items.with_items(places >= 0)
    query, unit = distinct_pairs(places[items.item], items.unit.astype(np.int64))
    width = int(unit.max(initial=0)) + 1
    holds = query * width + unit  # ascends
    holders = np.bincount(query, minlength=len(queries))
    first = np.cumsum(holders) - holders
    start = np.cumsum(published.length) - published.length
    units, sets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for length in np.unique(published.length).tolist():
        chosen = np.flatnonzero(published.length == length)
        members = member[start[chosen][:, None] + np.arange(length)]
        # Those who hold the rarest member, then of these who hold each of the others.
        rarest = members[np.arange(len(chosen)), holders[members].argmin(axis=1)]
        number = np.repeat(np.arange(len(chosen)), holders[rarest])
        holder = unit[runs(first[rarest], holders[rarest])]
        for place in range(length):
            pairs = members[number, place] * width + holder
            at = np.minimum(np.searchsorted(holds, pairs), len(holds) - 1)
            there = holds[at] == pairs
            number, holder = number[there], holder[there]
        units.append(holder)
        sets.append(chosen[number])
    return np.concatenate(units), np.concatenate(sets)
