"""The contribution bound: at most d distinct items a unit, chosen from its own rows only.

It is applied once, before anything is counted, and changes the type: only `Bounded` can be tallied.
A unit's items have a total order that no other unit's rows can change (A7): by first time and
then item, or by a keyed hash of unit and item and then item. Never by the order of rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, TypeAlias

import ibis
import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import SEPARATOR, WAYS
from murmurlog.counting.choice import KEY_BYTES, ChoiceKey, choose, with_order
from murmurlog.counting.holdings import Holdings
from murmurlog.counting.items import EncodedItems, Items
from murmurlog.counting.sorting import group, in_time, sort_ties
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs.encoded import EncodedRows, Integers, Mask
from murmurlog.logs.engines.protocol import Engine, LocalEngine
from murmurlog.logs.partitions import map_file
from murmurlog.privacy.sampler import Entropy


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstItems:
    """A row for each item that is kept, unit by unit and in the unit's own order; all are codes."""

    unit: Integers
    item: Integers
    place: Integers


@dataclass(frozen=True, kw_only=True)
class _Description:
    """At most `per_user` items of each unit: distinct ones, or rows that may repeat."""

    engine: Engine
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    way: str
    count: str  # "users": distinct items; "rows": items may repeat

    def with_table(self, table: Any, **changes: Any) -> "TableBounded":
        """The same but for these changes, with the rows of another table."""
        same = {each.name: getattr(self, each.name) for each in fields(_Description)}
        return TableBounded(**{**same, **changes}, table=table)


@dataclass(frozen=True, kw_only=True)
class TableBounded(_Description):
    """Bounded items in a table of the engine."""

    table: Any  # unit, the key columns (and, with `places`, place); materialised

    def count_units(self) -> Any:
        """The key columns and the number of units (or of rows) that hold each item."""
        counts = {self.count: self.table.count()}
        return self.engine.materialise(self.table.group_by(list(self.keys)).aggregate(**counts))


@dataclass(frozen=True, kw_only=True)
class EncodedBounded(_Description):
    """Bounded items of an encoded log in memory."""

    engine: LocalEngine
    holdings: Holdings
    first: FirstItems
    places: bool

    @cached_property
    def table(self) -> Any:
        return self.engine.show(_rows(self.keys, self.holdings, self.first, places=self.places))

    def count_units(self) -> Any:
        return self.engine.show(_count(self.keys, self.holdings, self.first))


@dataclass(frozen=True, kw_only=True)
class PartitionedBounded(_Description):
    """Bounded items of an encoded log in partitions, bounded one after the other when they are needed."""

    engine: LocalEngine
    holdings: Callable[[], Iterator[Holdings]]
    first: Callable[[Holdings], FirstItems]
    places: bool

    def partitions(self) -> Iterator[tuple[Holdings, FirstItems]]:
        """What units hold, and what is kept of it; no unit is in two partitions."""
        for held in self.holdings():
            yield held, self.first(held)
            del held  # before the next partition is loaded

    @cached_property
    def table(self) -> Any:
        return self._store(partial(_rows, places=self.places))

    def count_units(self) -> Any:
        # No unit is in two partitions, so the units of an item are those of the partitions together.
        counts = self._store(_count)
        summed = counts.group_by(list(self.keys)).aggregate(users=counts.users.sum())
        return self.engine.materialise(summed.cast({"users": "int64"}))

    def _store(self, make: Callable[[tuple[str, ...], Holdings, FirstItems], pa.Table]) -> Any:
        """What is made of each partition, together as a table of the engine that stays on disk."""
        stored = []
        for held, kept in self.partitions():
            # The result of a partition is written to disk before the next is loaded.
            stored.append(map_file(self.engine.store(make(self.keys, held, kept))))
            del held, kept
        return self.engine.show(pa.concat_tables(stored))


Bounded: TypeAlias = TableBounded | EncodedBounded | PartitionedBounded


def choose_way(way: str | None, *, timed: bool) -> str:
    """How to bound: as given, or `first` if there are times; never by the order of rows."""
    if way not in (None, *WAYS):
        raise UsageError(f"--bound must be first or random, not {way!r}")
    if way == "first" and not timed:
        raise InputError(
            "--bound first needs a time column, and this log has none: the order of rows does "
            "not count. Map one with --columns time=..., or use --bound random."
        )
    return way or ("first" if timed else "random")


def bound(
    items: Items,
    *,
    per_user: int,
    way: str | None = None,
    count: str = "users",
    places: bool = False,
    entropy: Entropy,
) -> Bounded:
    """The first (or a random choice of) `per_user` distinct items of each unit.

    With count="rows" it is the first `per_user` rows, and an item may come several times. With
    `places` the table has the place of each item in its unit's order.
    """
    if per_user < 1:
        raise UsageError(f"--per-user must be at least 1, not {per_user}")
    way = choose_way(way, timed=items.timed)
    if count == "rows":
        if way != "first":
            raise UsageError("--count rows keeps a unit's first rows: it needs --bound first")
        # Equal rows of a unit are interchangeable, so this too is a total order (A7).
        distinct = items.table
    elif isinstance(items, EncodedItems):
        return _bound_encoded(
            items, per_user=per_user, places=places, key=_key(entropy) if way == "random" else None
        )
    else:
        distinct = items.table.group_by(["unit", *items.keys]).aggregate(
            time=items.table.time.min()
        )
    if way == "first":
        order = [distinct.time.asc(nulls_first=False)]
    else:
        distinct = _with_order(items, distinct, _key(entropy))
        order = [distinct.order]
    place = ibis.row_number().over(
        ibis.window(group_by="unit", order_by=[*order, *(distinct[k] for k in items.keys)])
    )
    kept = distinct.mutate(place=place).filter(ibis._.place < per_user)
    return TableBounded(
        engine=items.engine,
        table=items.engine.materialise(
            kept.select("unit", *items.keys, *(("place",) if places else ()))
        ),
        kind=items.kind,
        keys=items.keys,
        unit=items.unit,
        per_user=per_user,
        way=way,
        count=count,
    )


def _key(entropy: Entropy) -> ChoiceKey:
    # The key only makes the choice unpredictable; the proof holds for any fixed key.
    return ChoiceKey(secret=entropy.bytes(KEY_BYTES))


def _with_order(items: Items, distinct: Any, key: ChoiceKey) -> Any:
    """Distinct units and items with the order of the random bound, which Python computes in batches."""
    rows = distinct.select("unit", *items.keys)
    schema = rows.schema().to_pyarrow().append(pa.field("order", pa.int64()))
    # The only name of a row is its position, which other rows can change.
    unit = None if items.unit == "row" else "unit"
    work = partial(with_order, key=key, unit=unit, keys=items.keys, separator=SEPARATOR)
    return items.engine.map_batches(schema, rows, work)


def _bound_encoded(
    items: EncodedItems, *, per_user: int, places: bool, key: ChoiceKey | None
) -> EncodedBounded | PartitionedBounded:
    """The first distinct items of each unit (with a key: in its order), by sorting codes."""
    engine, keys = items.log.engine, items.keys
    description: dict[str, Any] = {
        "engine": engine, "kind": items.kind, "keys": keys, "unit": items.unit,
        "per_user": per_user, "way": "random" if key else "first", "count": "users",
    }  # fmt: skip

    def first(held: Holdings) -> FirstItems:
        if key is not None:
            return chosen_items(held, key=key, per_unit=per_user, places=places)
        return first_items(
            unit=held.unit,
            time=held.time,
            item=held.item,
            per_unit=per_user,
            ranks=held.ranks,
            places=places,
        )

    if isinstance(items.log.encoded, EncodedRows):
        (held,) = items.holdings()
        return EncodedBounded(**description, holdings=held, first=first(held), places=places)
    return PartitionedBounded(**description, holdings=items.holdings, first=first, places=places)


def _rows(keys: tuple[str, ...], held: Holdings, kept: FirstItems, *, places: bool) -> pa.Table:
    """Unit, keys and, with `places`, place; no string is copied."""
    columns = {"unit": held.names(kept.unit)}
    for name, key in zip(keys, held.keys, strict=True):
        columns[name] = key.at(kept.item).column()
    if places:
        columns["place"] = pa.array(kept.place)
    return pa.table(columns)


def _count(keys: tuple[str, ...], held: Holdings, kept: FirstItems) -> pa.Table:
    """How many units hold each item: a unit's items are distinct, so each row is one unit."""
    users = np.bincount(kept.item)
    some = np.flatnonzero(users)
    columns = {
        name: key.texts.take(pa.array(key.codes[some]))
        for name, key in zip(keys, held.keys, strict=True)
    }
    return pa.table(columns | {"users": pa.array(users[some], pa.int64())})


def chosen_items(held: Holdings, *, key: ChoiceKey, per_unit: int, places: bool) -> FirstItems:
    """The first `per_unit` distinct items of each unit in the order of the random bound."""
    unit, item, place = choose(
        unit=held.unit,
        item=held.item,
        per_unit=per_unit,
        unit_hashes=partial(held.unit_hashes, key=key),
        item_hashes=partial(held.item_hashes, key=key),
        ranks=held.ranks,
        places=places,
    )
    _check(unit, per_unit)
    return FirstItems(unit=unit, item=item, place=place)


def _check(units: Integers, per_unit: int) -> None:
    """The proofs depend on the bound, so the result is checked."""
    if len(units) and np.bincount(units).max() > per_unit:
        raise EngineError(f"bounding left a unit more than {per_unit} items: this is a bug")


def first_items(
    *,
    unit: Integers,
    time: Integers,
    item: Integers,
    per_unit: int,
    ranks: Callable[[Integers], Integers],
    places: bool,
) -> FirstItems:
    """The first `per_unit` distinct items of each unit.

    `ranks` gives the ranks of distinct items in the order of their keys' bytes. Codes follow the
    order in which rows were read, which other units' rows can change (A7), so they never decide:
    `ranks` orders a unit's rows of one time. Without `places` that is done only where it decides
    which items are kept.
    """
    if len(unit) == 0:
        none = np.zeros(0, np.int64)
        return FirstItems(unit=none, item=none, place=none.astype(np.int32))
    order, units, alike = in_time(unit, time)
    rows = np.bincount(units)
    if not places:
        # A unit with no more rows than it may keep keeps every item, in whatever order.
        alike &= (rows > per_unit)[units[1:]]
    if alike.any():
        order = sort_ties(order, alike, item, ranks)
    items = item[order]
    del order, alike
    new = _first_of_each(units, items)
    # How many distinct items of its unit there are up to each row.
    so_far = np.zeros(len(new) + 1, np.int32 if len(new) < 1 << 31 else np.int64)
    np.cumsum(new, out=so_far[1:])
    before = so_far[np.cumsum(rows) - rows]
    kept = np.flatnonzero(new)
    place = so_far[kept] - before[units[kept]]
    few = place < per_unit
    kept, place = kept[few], place[few]
    _check(units[kept], per_unit)
    # One type whatever the rows are: partitions of a log are concatenated.
    return FirstItems(unit=units[kept], item=items[kept], place=place.astype(np.int32, copy=False))


def _first_of_each(units: Integers, items: Integers) -> Mask:
    """Whether a row is the first of its unit with its item; rows are sorted by unit."""
    # Rows with one item, by position: those of one unit are adjacent, too, the first in front.
    at, items = group(items)
    same = items[1:] == items[:-1]
    holder = units[at]
    same &= holder[1:] == holder[:-1]
    new = np.ones(len(items), bool)
    new[at[1:][same]] = False
    return new
