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
import pyarrow as pa

from murmurlog.bundle.schema import SEPARATOR, WAYS
from murmurlog.counting.choice import KEY_BYTES, ChoiceKey, with_order
from murmurlog.counting.first_items import (
    Bounder,
    FirstItems,
    apply_to_bounded,
    bounded_rows,
    count_units,
)
from murmurlog.counting.holdings import Holdings
from murmurlog.counting.items import EncodedItems, Items
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.encoded import EncodedRows
from murmurlog.logs.engines.protocol import ClusterEngine, Engine, LocalEngine
from murmurlog.logs.log import ClusterLog
from murmurlog.logs.partitions import map_file
from murmurlog.privacy.sampler import Entropy


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
        return self.engine.show(
            bounded_rows(self.keys, self.holdings, self.first, places=self.places)
        )

    def count_units(self) -> Any:
        return self.engine.show(count_units(self.keys, self.holdings, self.first))


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
        return self._store(partial(bounded_rows, places=self.places))

    def count_units(self) -> Any:
        return _add_up(self.engine, self._store(count_units), self.keys)

    def _store(self, make: Callable[[tuple[str, ...], Holdings, FirstItems], pa.Table]) -> Any:
        """What is made of each partition, together as a table of the engine that stays on disk."""
        stored = []
        for held, kept in self.partitions():
            # The result of a partition is written to disk before the next is loaded.
            stored.append(map_file(self.engine.store(make(self.keys, held, kept))))
            del held, kept
        return self.engine.show(pa.concat_tables(stored))


@dataclass(frozen=True, kw_only=True)
class ClusterBounded(_Description):
    """Bounded items of a log whose partitions the workers of a cluster hold; computed there when used."""

    engine: ClusterEngine
    items: EncodedItems
    log: ClusterLog
    first: Bounder

    @cached_property
    def table(self) -> Any:
        names = [("unit", pa.string()), *((key, self.key_type) for key in self.keys)]
        schema = pa.schema(names + [("place", pa.int32())] * self.first.places)
        return self._map(bounded_rows, schema, places=self.first.places)

    def count_units(self) -> Any:
        schema = pa.schema([*((key, self.key_type) for key in self.keys), ("users", pa.int64())])
        return _add_up(self.engine, self._map(count_units, schema), self.keys)

    @property
    def key_type(self) -> pa.DataType:
        """The type of each key column."""
        return pa.list_(pa.string()) if self.kind == "session" else pa.string()

    def _map(self, work: Callable[..., pa.Table], schema: pa.Schema, **more: Any) -> Any:
        """A table of what a function makes of the keys, holdings and bounded items of each partition."""
        work = partial(work, self.keys, **more)
        return self.log.partitions.map(
            partial(apply_to_bounded, finder=self.items.finder, first=self.first, work=work), schema
        )


def _add_up(engine: Engine, counts: Any, keys: tuple[str, ...]) -> Any:
    """The counts of all partitions: no unit is in two, so the units of an item are those of all together."""
    summed = counts.group_by(list(keys)).aggregate(users=counts.users.sum())
    return engine.materialise(summed.cast({"users": "int64"}))


Bounded: TypeAlias = TableBounded | EncodedBounded | PartitionedBounded | ClusterBounded


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
    return ChoiceKey(secret=entropy.stream("choice").bytes(KEY_BYTES))


def _with_order(items: Items, distinct: Any, key: ChoiceKey) -> Any:
    """Distinct units and items with the order of the random bound, which Python computes in batches."""
    rows = distinct.select("unit", *items.keys)
    schema = rows.schema().to_pyarrow().append(pa.field("order", pa.int64()))
    work = partial(with_order, key=key, keys=items.keys, separator=SEPARATOR)
    return items.engine.map_batches(schema, rows, work)


def _bound_encoded(
    items: EncodedItems, *, per_user: int, places: bool, key: ChoiceKey | None
) -> EncodedBounded | PartitionedBounded | ClusterBounded:
    """The first distinct items of each unit (with a key: in its order), by sorting codes."""
    keys = items.keys
    description: dict[str, Any] = {
        "engine": items.log.engine, "kind": items.kind, "keys": keys, "unit": items.unit,
        "per_user": per_user, "way": "random" if key else "first", "count": "users",
    }  # fmt: skip

    first = Bounder(per_unit=per_user, key=key, places=places)
    if isinstance(items.log, ClusterLog):
        return ClusterBounded(**description, items=items, log=items.log, first=first)
    if isinstance(items.log.encoded, EncodedRows):
        (held,) = items.holdings()
        return EncodedBounded(**description, holdings=held, first=first(held), places=places)
    return PartitionedBounded(**description, holdings=items.holdings, first=first, places=places)
