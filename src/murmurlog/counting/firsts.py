"""The first distinct items of each unit, found by sorting numbers. Knows no text and no log.

The order is that of `bound`: by first time, then by the item's own bytes. Numbers of items are in
the order in which a reader met them, which other units' rows can change (A7), so they never decide:
rows of one unit at one time are put in order by `ranks`, which looks at the texts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from murmurlog.errors import EngineError
from murmurlog.logs.encoded import Facts, Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Firsts:
    """A row for each item that is kept, unit by unit and in the unit's own order."""

    unit: Integers
    item: Integers
    place: Integers


def first_items(
    *,
    unit: Integers,
    time: Integers,
    item: Integers,
    per_unit: int,
    ranks: Callable[[Integers], Integers],
    places: bool,
) -> Firsts:
    """The first `per_unit` distinct items of each unit.

    `ranks` gives the place of items, each named once, in the order of their texts. Without `places`
    the order inside a unit is not settled where nothing depends on it.
    """
    if len(unit) == 0:
        none = np.zeros(0, np.int64)
        return Firsts(unit=none, item=none, place=none.astype(np.int32))
    order, units, alike = _in_time(unit, time)
    rows = np.bincount(units)
    if not places:
        # A unit with no more rows than it may keep keeps every item, in whatever order.
        alike &= (rows > per_unit)[units[1:]]
    if alike.any():
        order = _settled(order, alike, item, ranks)
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
    if np.bincount(units[kept]).max() > per_unit:  # the proofs rest on it, so look at the result
        raise EngineError(f"bounding left a unit more than {per_unit} items: this is a mistake")
    # Of one type whatever the rows are: parts of a log are put together.
    return Firsts(unit=units[kept], item=items[kept], place=place.astype(np.int32, copy=False))


def _in_time(unit: Integers, time: Integers) -> tuple[Integers, Integers, Facts]:
    """An order of rows by unit and time, the units in it, and which neighbours are of one time.

    Rows are put together by unit first. Most logs have them in order of time then, and only the
    units that have not are sorted by it.
    """
    order, units = _together(unit)
    times = time[order]
    same = units[1:] == units[:-1]
    falls = np.flatnonzero(same & (times[1:] < times[:-1]))
    if len(falls):
        astray = np.zeros(int(units[-1]) + 1, bool)
        astray[units[falls]] = True
        rows = np.flatnonzero(astray[units])
        inside = np.lexsort((times[rows], units[rows]))
        order[rows] = order[rows][inside]
        times = time[order]
    return order, units, same & (times[1:] == times[:-1])


def _together(number: Integers) -> tuple[Integers, Integers]:
    """The places of equal numbers side by side, in their order; and the numbers there.

    Number and place share a word: sorting words is several times faster than sorting places.
    """
    bits = np.uint64(len(number).bit_length())
    words = number.astype(np.uint64)
    words <<= bits
    words |= np.arange(len(number), dtype=np.uint64)
    words.sort()
    numbers = (words >> bits).astype(number.dtype)
    words &= (np.uint64(1) << bits) - np.uint64(1)
    return words.view(np.int64), numbers


def _settled(
    order: Integers, alike: Facts, item: Integers, ranks: Callable[[Integers], Integers]
) -> Integers:
    """The order with each run of neighbours of one unit and time put in order by text."""
    run = np.zeros(len(order), bool)
    run[1:] |= alike
    run[:-1] |= alike
    rows = np.flatnonzero(run)  # all that stand in a run, run after run
    starts = np.ones(len(order), bool)
    starts[1:] = ~alike
    number = np.cumsum(starts[rows])
    named, which = np.unique(item[order[rows]], return_inverse=True)
    inside = np.lexsort((ranks(named)[which], number))
    order[rows] = order[rows][inside]
    return order


def _first_of_each(units: Integers, items: Integers) -> Facts:
    """Whether a row is the first of its unit with its item; rows stand unit by unit."""
    # Rows with one item, by place: those of one unit stand side by side, too, the first in front.
    at, items = _together(items)
    same = items[1:] == items[:-1]
    holder = units[at]
    same &= holder[1:] == holder[:-1]
    new = np.ones(len(items), bool)
    new[at[1:][same]] = False
    return new
