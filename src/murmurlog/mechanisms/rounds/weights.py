"""The items of each unit as numbers, and the weights each unit gives to them: steps of `rounds`.

Steps are Ibis expressions, the same on every engine, and the same integers on arrays where a log is
encoded. Draws no noise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pyarrow as pa

from murmurlog.bundle.progress import measure
from murmurlog.bundle.schema import keys_of, keys_schema
from murmurlog.counting.bound import (
    Bounded,
    ClusterBounded,
    EncodedBounded,
    PartitionedBounded,
    bound,
)
from murmurlog.counting.holdings import Holdings
from murmurlog.counting.items import EncodedItems, Items, without
from murmurlog.counting.numbering import NumberedPartitions, number_partitions
from murmurlog.counting.public_sets.sets import Domain, distinct
from murmurlog.counting.subsequences import items_for, sets
from murmurlog.counting.text_keys import item_keys
from murmurlog.counting.unit_weights import HeldCodes
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import EncodedLog, Log
from murmurlog.logs.partitions import Partitions, map_file
from murmurlog.mechanisms.protocol import View
from murmurlog.mechanisms.rounds.codes import Codes, HeldFiles, keep_alive, sum_weights
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Entropy, Integers, Keys

if TYPE_CHECKING:
    from murmurlog.mechanisms.rounds.cluster import ClusterHeld


@dataclass(frozen=True, kw_only=True)
class Held:
    """Which unit holds which item after bounding, as numbers, and the items' texts; private."""

    engine: Engine
    table: Any  # unit, item; materialised; None on a cluster
    names: Any  # item, the key columns; materialised
    size: int  # how many items
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    items: Items  # everything that units hold, not bounded: for the counts
    in_log: bool = True  # else `items` are of bounded units too: the counts are "at least"
    holdings: Callable[[], Iterator[Holdings]] | None = None  # the same as codes, if it is encoded
    partitions: NumberedPartitions | None = (
        None  # the table and the names in files, if these are there
    )
    cluster: "ClusterHeld | None" = None  # the same on workers, without a table
    dense: bool = True  # items are 0 ... size - 1; else their numbers have gaps
    pools: tuple[Domain, ...] = ()  # public keys, disjoint; noised also where nobody holds them
    # (item, pool): the number of the pool, from 1 on, of each item that is in one; None without pools
    in_pools: Any = None
    earlier: pa.Table | None = None  # keys that are public already: never selected, always counted
    say: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)

    def item_keys(self, entropy: Entropy) -> Callable[[Integers], Keys]:
        """The keys of some items, given by their numbers, for `draw`: looked up where a seed decides."""

        @cache
        def all_keys() -> tuple[Integers, Keys]:
            names = pa.Table.from_batches(
                self.engine.batches(self.names), self.names.schema().to_pyarrow()
            ).sort_by("item")
            columns = [names[name].combine_chunks() for name in self.keys]
            return names["item"].to_numpy().astype(np.int64), item_keys(columns, entropy)()

        def look_up(items: Integers) -> Keys:
            numbers, keys = all_keys()
            return np.asarray(keys[np.searchsorted(numbers, items)])

        return look_up


@dataclass(frozen=True, kw_only=True)
class Play:
    """The input of a round: the items that are alive, who holds them, and earlier measurements."""

    rows: Any  # Codes, or a table of unit, item, attention; of alive items only
    alive: Integers
    remembered: Integers  # of each alive item: sum of past_j z_j
    pool: Integers  # of each alive item: the number of its pool, 0 for none


def hold(
    log: Log, view: View, *, per_user: int, pools: tuple[Domain, ...] = (), entropy: Entropy
) -> Held:
    """At most `per_user` distinct items of each unit, with numbers for units and items.

    (i) distinct, (ii) from the unit's own rows and a key that is drawn apart from all noise. Keys that
    are public already are left out before units are bounded: a rule about single items. Counts may
    read other rows of a unit than the selection.
    """
    selected, earlier = view.items(log, since=view.select_from), _earlier(view, pools)
    apart = view.select_from != view.count_from
    items = view.items(log, since=view.count_from) if apart else selected
    if view.kind == "itemset":
        return _hold_sets(selected, items, view, per_user, entropy)
    if earlier is not None:
        selected = without(selected, earlier)
    kept = bound(selected, per_user=per_user, way=view.way, entropy=entropy)
    held = None
    if isinstance(kept, ClusterBounded):
        from murmurlog.mechanisms.rounds.cluster import hold_on_cluster

        held = hold_on_cluster(kept, items, entropy=entropy)
    held = held or numbered(kept, items, complete=earlier is None and not apart, say=view.say)
    return in_pools(replace(held, earlier=earlier), pools)


def _earlier(view: View, pools: Sequence[Domain]) -> pa.Table | None:
    """The keys that are public already, each once; none of them may be in a pool."""
    given = view.earlier.get(view.kind)
    if given is None:
        return None
    if view.kind == "itemset":
        raise UsageError("earlier keys cannot be counted again in an itemset table: leave it out")
    keys = distinct(given.select(list(keys_of(view.kind, view.by))))
    for pool in pools:
        every = pool.keys(np.arange(pool.size))
        if keys.join(every, keys.column_names, join_type="left semi").num_rows:
            # It could be published twice, and fewer keys could be fakes than the thresholds are for.
            raise Refused(
                "a pool lists keys that were published earlier: take them out of the pool"
            )
    return keys


def _hold_sets(selected: Items, items: Items, view: View, per_user: int, entropy: Entropy) -> Held:
    """The same for sets of queries, from `selected` items; `items` are counted."""
    n = items_for(per_user, view.set_size, consecutive=view.consecutive)
    few = bound(selected, per_user=n, way=view.way, places=True, entropy=entropy)
    made = sets(few, k=view.set_size, consecutive=view.consecutive)
    if not view.consecutive:
        return numbered(made, items)
    # Runs exist only as they were cut: a unit's later runs are never seen.
    if items is not selected:
        raise UsageError("runs of queries are counted in the rows that they were cut from")
    runs = items.with_table(made.table, kind=made.kind, keys=made.keys)
    return replace(numbered(made, runs), in_log=False)


def in_pools(held: Held, pools: tuple[Domain, ...]) -> Held:
    """The same with public keys: (item, pool) of the items that a pool lists; no item is in two."""
    parts = [
        pool.restrict(held.names, held.engine).select("item", pool=ibis.literal(n, "int64"))
        for n, pool in enumerate(pools, 1)
    ]
    if not parts:
        return held
    listed = ibis.union(*parts) if len(parts) > 1 else parts[0]
    return replace(held, pools=pools, in_pools=held.engine.materialise(listed))


def numbered(
    kept: Bounded,
    items: Items,
    *,
    complete: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Held:
    """The bounded items with numbers for units and items, materialised once for all rounds.

    `items` is everything that units hold; not `complete`: not all of it, or more, was bounded.
    """
    engine, keys = kept.engine, list(kept.keys)
    if isinstance(kept, EncodedBounded) and isinstance(items, EncodedItems):
        return _already_numbered(kept, items, complete=complete)
    if isinstance(kept, PartitionedBounded) and isinstance(items, EncodedItems):
        return _number_partitions(kept, items, say=say)
    names = engine.number_rows(kept.table.select(*keys).distinct(), "item")
    units = engine.number_rows(kept.table.select("unit").distinct(), "number")
    rows = kept.table.join(names, keys).join(units, "unit")
    return Held(
        engine=engine,
        table=engine.materialise(rows.select(unit=rows.number, item=rows.item)),
        names=names,
        size=int(names.count().to_pyarrow().as_py()),
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
        items=items,
        dense=engine.dense,
    )


def _already_numbered(kept: EncodedBounded, items: EncodedItems, *, complete: bool) -> Held:
    """The same where units and items have codes: those of items that nobody holds are left out."""
    engine, holdings, firsts = kept.engine, kept.holdings, kept.first
    some = np.flatnonzero(np.bincount(firsts.item))
    number = np.zeros(int(some[-1]) + 1 if len(some) else 0, np.int64)
    number[some] = np.arange(len(some))
    rows = {"unit": firsts.unit, "item": number[firsts.item]}
    columns = {
        name: key.at(some).column() for name, key in zip(kept.keys, holdings.keys, strict=True)
    }
    return Held(
        engine=engine,
        table=engine.show(pa.table(rows)),
        names=engine.show(pa.table({**columns, "item": np.arange(len(some))})),
        size=len(some),
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
        items=items,
        # Without earlier keys and windows these are all; else they are looked up again.
        holdings=(lambda: iter((holdings,))) if complete else items.holdings,
    )


def _number_partitions(
    kept: PartitionedBounded, items: EncodedItems, *, say: Callable[[str], None]
) -> Held:
    """The same for a log in partitions: rows and names stay in files of the engine."""
    total = None
    if isinstance(items.log, EncodedLog) and isinstance(items.log.encoded, Partitions):
        total = len(items.log.encoded.files)
    advance = measure(say, total=total, unit="partitions")
    found = number_partitions(kept, advance=advance)
    rows, names = (
        kept.engine.show(pa.concat_tables(map(map_file, files)))
        for files in (found.rows, found.names)
    )
    return Held(
        engine=kept.engine,
        table=rows,
        names=names,
        size=found.size,
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
        items=items,
        holdings=items.holdings,
        partitions=found,
    )


def opening(held: Held) -> Play:
    """Round 1: (iii) every item of a bounded set and nothing else, all with equal attention."""
    return Play(
        rows=_codes_of(held) or opening_rows(held),
        alive=np.arange(held.size),
        remembered=np.zeros(held.size, np.int64),
        pool=np.zeros(held.size, np.int64)
        if held.in_pools is None
        else by_item(held, held.in_pools, "pool"),
    )


def _codes_of(held: Held) -> Codes | None:
    """The rows of round 1 in arrays, if the table is in this process or in its files."""
    local = held.engine.local
    if local is not None and held.partitions is not None:
        return HeldFiles(engine=local, files=held.partitions.rows, opening=True)
    table = None if local is None else local.find_shown(held.table)
    if table is None:
        return None
    unit, item = (table[name].combine_chunks().to_numpy() for name in ("unit", "item"))
    return HeldCodes(unit=unit, item=item, attention=FULL)


def opening_rows(held: Held) -> Any:
    """The rows of round 1."""
    return held.table.mutate(attention=ibis.literal(FULL, "int64"))


def weights(held: Held, rows: Any) -> Integers:
    """The sums of weights of all items, in steps of 1/GRID; 0 where nobody gives anything."""
    if isinstance(rows, Codes):
        return sum_weights(rows, held.size)
    return by_item(held, summed_weights(rows), "weight")


def summed_weights(rows: Any) -> Any:
    """(item, weight): the sum over units of what each gives to the item; a row for each item once.

    A unit with attention h_i on its items gives floor(GRID h_i / |h|) to item i: the squares add up
    to at most GRID^2, whatever the rounding of the root, because the last line compares integers.
    """
    units = rows.group_by("unit").aggregate(squares=(rows.attention * rows.attention).sum())
    both = rows.join(units, "unit")
    both = both.select("item", "attention", squares=both.squares.cast("int64"))
    root = (both.attention * GRID / both.squares.sqrt()).floor().cast("int64")
    both = both.mutate(root=root)
    over = both.root * both.root * both.squares > both.attention * both.attention * GRID**2
    given = both.select("item", weight=both.root - over.cast("int64"))
    return given.group_by("item").aggregate(weight=given.weight.sum().cast("int64"))


def as_table(held: Held, rows: Any) -> Any:
    """The rows of a round as a table of the engine: unit, item, attention."""
    if not isinstance(rows, Codes):
        return rows
    return held.engine.keep(pa.concat_tables(part.table() for part in rows.partitions()))


def among(held: Held, rows: Any, alive: Integers, attention: Integers) -> Any:
    """The rows of items that are alive, with the attention each item gets."""
    if isinstance(rows, Codes):
        given = np.zeros(held.size, np.min_scalar_type(FULL))  # attention is never 0
        given[alive] = attention
        return keep_alive(rows, given)
    return attended(held, rows, held.engine.keep(pa.table({"item": alive, "attention": attention})))


def attended(held: Held, rows: Any, listed: Any) -> Any:
    """The rows of listed items, with the attention that the list gives to each."""
    return held.engine.materialise(rows.drop("attention").join(listed, "item"))


def by_item(held: Held, sums: Any, column: str) -> Integers:
    """The column as an array over all items, 0 where there is no row."""
    found = np.zeros(held.size, np.int64)
    for batch in held.engine.batches(sums):
        at = batch.column("item").to_numpy(zero_copy_only=False)
        found[at] = batch.column(column).to_numpy(zero_copy_only=False)
    return found


def keys_of_items(held: Held, shown: Integers) -> pa.Table:
    """The key columns of some items, given in order."""
    schema = keys_schema(held.keys)
    if held.partitions is not None:
        return pa.concat_tables(each.cast(schema) for each in held.partitions.keys_of(shown))
    listed = held.engine.keep(pa.table({"item": shown}))
    found = held.names.join(listed, "item").select("item", *held.keys)
    schema = schema.insert(0, pa.field("item", pa.int64()))
    batches = [batch.cast(schema) for batch in held.engine.batches(found)]
    return pa.Table.from_batches(batches, schema).sort_by("item").drop_columns("item")
