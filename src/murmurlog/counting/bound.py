"""The contribution bound: at most d distinct items a unit, chosen from its own rows only.

It is applied once, before anything is counted, and changes the type: only `BoundedItems` can be counted.
A unit's items have a total order that no other unit's rows can change (A7): by first time and then by
the bytes of the item, or by a keyed hash of unit and item. Never by the order of rows. A function of one
partition; imports no engine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle.schema import WAYS
from murmurlog.counting.items import Integers, Items, Names
from murmurlog.counting.sorting import first_of_each, sort_ties
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs.rows import Rows, Texts
from murmurlog.logs.text_keys import TextKeys
from murmurlog.privacy.sampler import Entropy, Keys, mix

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedItems:
    """At most so many items of each unit of a partition, in order of unit."""

    unit: Integers
    item: Integers
    keys: Keys  # of each item that a unit holds, in order
    names: tuple[Names, ...]
    texts: Texts
    text_keys: TextKeys
    units: int  # how many units of the partition hold an item
    place: Integers | None = None  # of each row in its unit's order

    def columns(self, items: Integers) -> list[pa.Array]:
        """The key columns of some items."""
        return [name.at(items).values(self.texts) for name in self.names]

    def with_items(self, keep: Mask) -> "BoundedItems":
        """Only rows of some items, which are numbered anew."""
        number = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        rows, items = keep[self.item], np.flatnonzero(keep)
        return replace(
            self,
            unit=self.unit[rows],
            item=number[self.item[rows]],
            keys=self.keys[items],
            names=tuple(name.at(items) for name in self.names),
            place=None if self.place is None else self.place[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """How units are bounded: the first items by time or, with a secret, in the order of a keyed hash."""

    per_unit: int
    secret: int | None = None
    count: str = "users"  # "rows": the first rows, so that an item may come several times
    places: bool = False

    @classmethod
    def of(
        cls, per_unit: int, way: str | None, *, timed: bool, entropy: Entropy,
        count: str = "users", places: bool = False,
    ) -> "Bound":  # fmt: skip
        """The bound as it was asked for. The secret only makes the choice unpredictable."""
        if per_unit < 1:
            raise UsageError(f"--per-user must be at least 1, not {per_unit}")
        way = choose_way(way, timed=timed)
        if count == "rows" and way != "first":
            raise UsageError("--count rows keeps a unit's first rows: it needs --bound first")
        secret = None
        if way == "random":
            secret = int.from_bytes(entropy.stream("choice").bytes(8), "little")
        return cls(per_unit=per_unit, secret=secret, count=count, places=places)

    def __call__(self, items: Items) -> BoundedItems:
        if self.count == "rows":
            rows, place = self._first_rows(items)
        elif self.secret is None:
            rows, place = self._first_items(items)
        else:
            rows, place = self._random_items(items, self.secret)
        unit, item = items.unit[rows], items.item[rows]
        # The proofs depend on the bound, so the result is checked.
        if len(unit) and np.bincount(unit).max() > self.per_unit:
            raise EngineError(
                f"bounding left a unit more than {self.per_unit} items: this is a bug"
            )
        bounded = BoundedItems(
            unit=unit, item=item, keys=items.keys, names=items.names, texts=items.texts,
            text_keys=items.text_keys, units=int(np.count_nonzero(np.diff(unit, prepend=-1))),
            place=place.astype(np.int32) if self.places else None,
        )  # fmt: skip
        return bounded.with_items(np.bincount(item, minlength=len(items.keys)) > 0)

    def _first_rows(self, items: Items) -> tuple[Integers, Integers]:
        # Equal rows of a unit are interchangeable, so this too is a total order (A7).
        order = self._order_rows(items)
        place = _places(items.unit)
        within_bound = place < self.per_unit
        return order[within_bound], place[within_bound]

    def _first_items(self, items: Items) -> tuple[Integers, Integers]:
        order = self._order_rows(items)
        new = first_of_each(items.unit, items.item[order])
        rows = np.flatnonzero(new)
        place = _places(items.unit[rows])
        within_bound = place < self.per_unit
        return order[rows[within_bound]], place[within_bound]

    def _order_rows(self, items: Items) -> Integers:
        """The rows of units in order of time and then of the bytes of the item."""
        order = np.arange(len(items.unit))
        ties = (items.unit[1:] == items.unit[:-1]) & (items.time[1:] == items.time[:-1])
        if not self.places:
            # A unit with no more rows than it may keep keeps every item, in whatever order.
            rows = np.bincount(items.unit) if len(items.unit) else items.unit
            ties &= (rows > self.per_unit)[items.unit[1:]]
        return sort_ties(order, ties, items.item, items.ranks) if ties.any() else order

    def _random_items(self, items: Items, secret: int) -> tuple[Integers, Integers]:
        first = np.flatnonzero(first_of_each(items.unit, items.item))
        unit, item = items.unit[first], items.item[first]
        sizes = np.bincount(unit) if len(unit) else unit
        rows = (
            np.arange(len(unit)) if self.places else np.flatnonzero((sizes > self.per_unit)[unit])
        )
        salt = mix(items.unit_keys[:, 0] ^ np.uint64(secret))
        order = mix(salt[unit[rows]] ^ items.keys[item[rows], 0])
        # Orders that are equal, which hardly ever are: the check decides.
        by_hash = np.lexsort((items.keys[item[rows], 1], order, unit[rows]))
        place = np.zeros(len(unit), np.int64)
        place[rows[by_hash]] = _places(unit[rows])
        within_bound = place < self.per_unit
        return first[within_bound], place[within_bound]


def _places(unit: Integers) -> Integers:
    """The place of each row in its unit, from 0; rows are by unit."""
    size = np.bincount(unit)
    return np.arange(len(unit)) - (np.cumsum(size) - size)[unit]


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


def find_and_bound(
    rows: Rows,
    *,
    find: Callable[[Rows], Items],
    bound: Bound,
    then: Callable[[BoundedItems], BoundedItems] | None = None,
) -> BoundedItems:
    """The bounded items of a partition, and what is derived from them."""
    bounded = bound(find(rows))
    return bounded if then is None else then(bounded)
