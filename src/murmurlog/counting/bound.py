"""The contribution bound: at most d distinct items a unit, chosen from its own rows only.

It happens once, before anything is counted, and the type changes: only `Bounded` can be tallied.
A unit's items stand in a total order that no other unit's rows can change (A7): by first time and
then item, or by a keyed hash of unit and item and then item. Never by the order of rows.
"""

from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import LISTS, SEPARATOR, WAYS
from murmurlog.counting.firsts import Firsts, first_items
from murmurlog.counting.items import Items
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.encoded import Holdings
from murmurlog.logs.engines.duckdb import DuckEngine, Engine, mapped
from murmurlog.logs.partitions import Parts, Wanted
from murmurlog.privacy.sampler import Entropy


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """At most `per_user` items of each unit: distinct ones, or rows that may repeat."""

    engine: Engine
    table: Any  # unit, the key columns (and, if asked for, place); materialised
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    way: str
    count: str  # "users": distinct items; "rows": items may repeat
    coded: tuple[Any, Holdings, Firsts] | None = None  # a table, and its rows as numbers
    counted: tuple[Any, Any] | None = None  # a table, and (keys, users) of each part of its rows

    @property
    def numbers(self) -> tuple[Holdings, Firsts] | None:
        """The same rows as numbers, if they are known and are those of the table."""
        return self.coded[1:] if self.coded and self.coded[0] is self.table else None

    @property
    def tallies(self) -> Any | None:
        """How many units of each part of the log hold an item, if that is known of the table."""
        return self.counted[1] if self.counted and self.counted[0] is self.table else None


def choose_way(way: str | None, *, timed: bool) -> str:
    """How to bound: as asked, or `first` where there are times; never by the order of rows."""
    if way not in (None, *WAYS):
        raise UsageError(f"--bound must be first or random, not {way!r}")
    if way == "first" and not timed:
        raise InputError(
            "--bound first needs a time column, and this log has none: the order of rows is no "
            "order. Map one with --columns time=..., or use --bound random."
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
    `places` the table says at which place in its unit's order each item stands.
    """
    if per_user < 1:
        raise UsageError(f"--per-user must be at least 1, not {per_user}")
    way = choose_way(way, timed=items.timed)
    if count == "rows":
        if way != "first":
            raise UsageError("--count rows keeps a unit's first rows: it needs --bound first")
        # Equal rows of a unit are interchangeable, so this too is a total order (A7).
        distinct = items.table
    elif way == "first" and items.numbers and isinstance(items.engine, DuckEngine):
        return _first(items, items.numbers, items.engine, per_user=per_user, places=places)
    else:
        distinct = items.table.group_by(["unit", *items.keys]).aggregate(
            time=items.table.time.min()
        )
    if way == "first":
        order = [distinct.time.asc(nulls_first=False)]
    else:
        # The key only keeps the choice unforeseeable; the proof holds for any fixed key.
        key = entropy.bytes(16).hex()
        # A row has no name of its own but its position, which other rows can shift.
        named = items.keys if items.unit == "row" else ("unit", *items.keys)
        parts = [
            distinct[name].join(SEPARATOR) if name in LISTS else distinct[name] for name in named
        ]
        text = ibis.literal(SEPARATOR).join([ibis.literal(key), *parts])
        order = [text.hexdigest("sha256")]
    place = ibis.row_number().over(
        ibis.window(group_by="unit", order_by=[*order, *(distinct[k] for k in items.keys)])
    )
    kept = distinct.mutate(place=place).filter(ibis._.place < per_user)
    return Bounded(
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


def _first(
    items: Items, wanted: Wanted, engine: DuckEngine, *, per_user: int, places: bool
) -> Bounded:
    """The first distinct items of each unit, found among numbers: the same rows, sooner."""
    rows: list[pa.Table] = []
    counts: list[pa.Table] = []
    coded: tuple[Holdings, Firsts] | None = None
    for held in wanted.holdings():
        kept = first_items(
            unit=held.unit,
            time=held.time,
            item=held.item,
            per_unit=per_user,
            ranks=held.ranks,
            places=places,
        )
        found = _shown(items, held, kept, places=places)
        if isinstance(wanted.log, Parts):
            # What is left of a part goes to disk before the next one comes.
            rows.append(mapped(engine.store(found)))
            counts.append(mapped(engine.store(counted(items.keys, held, kept))))
        else:
            rows.append(found)
            coded = held, kept
        del held, kept, found
    table = engine.show(pa.concat_tables(rows))
    return Bounded(
        engine=engine,
        table=table,
        kind=items.kind,
        keys=items.keys,
        unit=items.unit,
        per_user=per_user,
        way="first",
        count="users",
        coded=(table, *coded) if coded else None,
        counted=(table, engine.show(pa.concat_tables(counts))) if counts else None,
    )


def _shown(items: Items, held: Holdings, kept: Firsts, *, places: bool) -> pa.Table:
    """Unit, keys and, if asked for, place; no text is copied."""
    columns = {"unit": held.names(kept.unit)}
    for name, key in zip(items.keys, held.keys, strict=True):
        columns[name] = key.at(kept.item).column()
    if places:
        columns["place"] = pa.array(kept.place)
    return pa.table(columns)


def counted(keys: tuple[str, ...], held: Holdings, kept: Firsts) -> pa.Table:
    """How many units hold each item: a unit's items are distinct, so each row is one unit."""
    users = np.bincount(kept.item)
    some = np.flatnonzero(users)
    columns = {
        name: key.at(some).column().dictionary_decode()
        for name, key in zip(keys, held.keys, strict=True)
    }
    return pa.table(columns | {"users": pa.array(users[some], pa.int64())})
