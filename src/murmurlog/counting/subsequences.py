"""Subsequences of sessions and sets of items, derived from bounded items of a partition.

Bounding comes first, so the number of subsequences or sets of one unit has a public bound, and they
are a function of that unit's own bounded items. They are distinct per unit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from murmurlog.counting.bound import BoundedItems
from murmurlog.counting.items import Integers, ListNames, Names, runs
from murmurlog.counting.sorting import distinct_pairs
from murmurlog.errors import UsageError
from murmurlog.logs.text_keys import KeyList, number_keys
from murmurlog.privacy.safelog import LONGEST
from murmurlog.privacy.sampler import Keys


@dataclass(frozen=True, kw_only=True)
class Subsequences:
    """Every ordered subsequence of at least two queries of each unit's sessions, once a unit.

    Without `repeats`, equal neighbours (x, x from x, y, x) are merged. The merged list is a
    subsequence, too, or a single query, so leaving out lists with equal neighbours is the same:
    a unit holds a subset of what it held, and the bound stays.
    """

    repeats: bool = False

    def __call__(self, sessions: BoundedItems) -> BoundedItems:
        (names,) = sessions.names
        assert isinstance(names, ListNames)
        start = (np.cumsum(names.length) - names.length)[sessions.item]
        length = names.length[sessions.item]
        chosen = []
        for size in np.unique(length).tolist():
            rows = np.flatnonzero(length == size)
            for count in range(2, size + 1):
                for places in combinations(range(size), count):
                    members = start[rows][:, None] + np.array(places)
                    lists = names.keys[members]
                    repeats = (lists[:, 1:] == lists[:, :-1]).all(axis=2).any(axis=1)
                    stays = np.ones(len(rows), bool) if self.repeats else ~repeats
                    chosen.append((sessions.unit[rows[stays]], members[stays]))
        return _with_lists(sessions, chosen, names.members, names.keys)


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Every set of 1 to `size` of each unit's items; consecutive: of neighbouring places."""

    size: int
    consecutive: bool = False

    def __call__(self, items: BoundedItems) -> BoundedItems:
        (names,) = items.names
        assert items.place is not None
        order = np.lexsort((items.place if self.consecutive else items.item, items.unit))
        unit, item = items.unit[order], items.item[order]
        sizes = np.bincount(unit) if len(unit) else unit
        start = np.cumsum(sizes) - sizes
        chosen = []
        for most in np.unique(sizes[sizes > 0]).tolist():
            units = np.flatnonzero(sizes == most)
            for count in range(1, min(self.size, most) + 1):
                for places in self._choices(most, count):
                    # In order of keys, so that a set has one form.
                    members = np.sort(item[start[units][:, None] + places], axis=1)
                    chosen.append((units, members))
        bounded = _with_lists(items, chosen, names, items.keys)
        (lists,) = bounded.names
        assert isinstance(lists, ListNames)
        return replace(bounded, names=(replace(lists, sets=True),))

    def _choices(self, most: int, count: int) -> list[Integers]:
        """Which of a unit's items make its sets of a size."""
        if self.consecutive:
            return [np.arange(at, at + count) for at in range(most - count + 1)]
        return [np.array(places) for places in combinations(range(most), count)]


def of_length(
    items: BoundedItems, *, length: int, prefixes: Callable[[], KeyList] | None = None
) -> BoundedItems:
    """The items of a partition that have this length and, where these matter, a published prefix.

    Whether an item is among them follows from its own members and from what is public.
    """
    (names,) = items.names
    assert isinstance(names, ListNames)
    places = np.flatnonzero(names.length == length)
    if prefixes is not None:
        start = (np.cumsum(names.length) - names.length)[places]
        members = (start[:, None] + np.arange(length - 1)).ravel()
        keys = items.text_keys.lists(names.keys[members], np.full(len(places), length - 1))
        places = places[prefixes().places(keys) >= 0]
    chosen = np.zeros(len(items.keys), bool)
    chosen[places] = True
    return items.with_items(chosen)


def _with_lists(
    bounded: BoundedItems, chosen: list[tuple[Integers, Integers]], names: Names, keys: Keys
) -> BoundedItems:
    """The lists as the items of units, once a unit; `chosen` are units and the members of a list each."""
    unit = np.concatenate([np.zeros(0, np.int64), *(units for units, _ in chosen)])
    members = np.concatenate([np.zeros(0, np.int64), *(places.reshape(-1) for _, places in chosen)])
    length = np.concatenate(
        [np.zeros(0, np.int64), *(np.full(len(places), places.shape[1]) for _, places in chosen)]
    )
    item, row = number_keys(bounded.text_keys.lists(keys[members], length))
    members = members[runs((np.cumsum(length) - length)[row], length[row])]
    lists = ListNames(members=names.at(members), keys=keys[members], length=length[row])
    units, items = distinct_pairs(unit, item)
    list_keys = bounded.text_keys.lists(keys[members], length[row])
    return replace(bounded, unit=units, item=items, keys=list_keys, names=(lists,), place=None)


def sets_of(n: int, k: int, *, consecutive: bool = False) -> int:
    """How many sets of 1 to k of n items there are; consecutive: runs of 1 to k."""
    if consecutive:
        return sum(n - i + 1 for i in range(1, min(k, n) + 1))
    return sum(math.comb(n, i) for i in range(1, k + 1))


def items_for(d: int, k: int, *, consecutive: bool = False) -> int:
    """The largest number of items whose sets of 1 to k are at most d."""
    if not 1 <= k <= LONGEST:
        raise UsageError(f"--set-size must lie between 1 and {LONGEST}, not {k}")
    n = 1
    while sets_of(n + 1, k, consecutive=consecutive) <= d:
        n += 1
    return n
