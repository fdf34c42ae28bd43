"""The first items of each unit of encoded rows: how a unit is bounded, on arrays.

Imports no engine: the workers of a cluster import it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from murmurlog.counting.choice import ChoiceKey, choose
from murmurlog.counting.holdings import Finder, Holdings
from murmurlog.counting.sorting import first_of_each, in_time, sort_ties
from murmurlog.errors import EngineError
from murmurlog.logs.encoded import EncodedRows, Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstItems:
    """A row for each item that is kept, unit by unit and in the unit's own order; all are codes."""

    unit: Integers
    item: Integers
    place: Integers


@dataclass(frozen=True, kw_only=True)
class Bounder:
    """How units are bounded: the first items by time or, with a key, in the order of the random bound."""

    per_unit: int
    key: ChoiceKey | None
    places: bool

    def __call__(self, held: Holdings) -> FirstItems:
        if self.key is not None:
            return chosen_items(held, key=self.key, per_unit=self.per_unit, places=self.places)
        return first_items(
            unit=held.unit,
            time=held.time,
            item=held.item,
            per_unit=self.per_unit,
            ranks=held.ranks,
            places=self.places,
        )


def apply_to_bounded(
    rows: EncodedRows,
    *,
    finder: Finder,
    first: Bounder,
    work: Callable[[Holdings, FirstItems], pa.Table],
) -> pa.Table:
    """What a function makes of the holdings and the bounded items of a partition."""
    held = finder(rows)
    return work(held, first(held))


def bounded_rows(
    keys: tuple[str, ...], held: Holdings, kept: FirstItems, *, places: bool
) -> pa.Table:
    """Unit, keys and, with `places`, place; no string is copied."""
    columns = {"unit": held.names(kept.unit)}
    for name, key in zip(keys, held.keys, strict=True):
        columns[name] = key.at(kept.item).column()
    if places:
        columns["place"] = pa.array(kept.place)
    return pa.table(columns)


def count_units(keys: tuple[str, ...], held: Holdings, kept: FirstItems) -> pa.Table:
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
    new = first_of_each(units, items, rows)
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
