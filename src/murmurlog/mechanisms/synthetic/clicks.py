"""What `synthetic` measures of units' bounded clicks: functions of a partition, whose results are added up.

What is measured of a click follows from the unit's own rows and is fixed when units are bounded.
Published pairs are looked up by their keys. Imports no engine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from murmurlog.counting.bound import Bound, BoundedItems
from murmurlog.counting.items import Integers, ItemFinder, Items, PublicNames, runs
from murmurlog.logs.rows import NEVER, Rows, Texts
from murmurlog.logs.text_keys import TextKeys, number_keys, order_of_keys, places_of
from murmurlog.mechanisms.synthetic.mechanism import BINS, FIRST
from murmurlog.privacy.sampler import Keys

HOUR = 3_600_000_000  # microseconds
NO_BIN = -1
FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, eq=False)
class Clicks(BoundedItems):
    """The bounded clicks of a partition, and of each the bin in what is measured, NO_BIN for none."""

    bins: Mapping[str, Integers]
    unit_keys: Keys


def bounded_clicks(
    rows: Rows, *, find: ItemFinder, bound: Bound, measures: Iterable[str]
) -> Clicks:
    """The bounded clicks of a partition with what is measured of them."""
    clicks = find(rows)
    bounded = bound(clicks)
    # Of each row with a click that was kept, the place of this click.
    item = places_of(clicks.keys, bounded.keys)[clicks.item]
    pairs = bounded.unit.astype(np.int64) * len(bounded.keys) + bounded.item
    order = np.argsort(pairs)
    wanted = clicks.unit.astype(np.int64) * len(bounded.keys) + item
    at = np.searchsorted(pairs[order], wanted)
    match = (item >= 0) & (at < len(pairs))
    match[match] = pairs[order][at[match]] == wanted[match]
    place, some = order[at[match]], clicks.at(match)
    bins = {name: _MEASURES[name](rows, some, place, len(pairs)) for name in measures}
    return Clicks(**vars(bounded), bins=bins, unit_keys=rows.unit_keys)


def _rank(rows: Rows, clicks: Items, place: Integers, size: int) -> Integers:
    """The least rank of each click."""
    assert rows.rank is not None
    assert clicks.row is not None
    rank = rows.rank[clicks.row].astype(np.int64)
    return _bin("rank", _least(np.where(rank >= 1, rank, FAR), place, size))


def _hour(rows: Rows, clicks: Items, place: Integers, size: int) -> Integers:
    """The hour of each click's first row."""
    time = _least(clicks.time, place, size)
    return _bin("hour", np.where(time == NEVER, FAR, time // HOUR % 24))


def _count(rows: Rows, clicks: Items, place: Integers, size: int) -> Integers:
    """How many rows each click has."""
    return _bin("count", np.bincount(place, minlength=size).astype(np.int64))


def _least(values: Integers, place: Integers, size: int) -> Integers:
    least = np.full(size, FAR)
    np.minimum.at(least, place, values)
    return least


def _bin(name: str, values: Integers) -> Integers:
    """The bin of each value; the last bin is "or more"."""
    bins = np.minimum(values - FIRST[name], BINS[name] - 1)
    return np.where(values == FAR, NO_BIN, bins)


_MEASURES: Mapping[str, Callable[[Rows, Items, Integers, int], Integers]] = {
    "rank": _rank,
    "hour": _hour,
    "count": _count,
}


class PublishedPairs(NamedTuple):
    """The keys of published pairs, ascending, and the number of each."""

    keys: Keys
    number: Integers


def list_pairs(text_keys: TextKeys, pairs: pa.Table) -> PublishedPairs:
    """The pairs (query, url) of a table by key; their numbers are their places in it."""
    keys = text_keys.columns(pairs.select(["query", "url"]).columns)
    order = order_of_keys(keys)
    return PublishedPairs(keys[order], order)


class PublishedClicks(NamedTuple):
    """The bounded clicks of a partition whose pair is published, by unit and place."""

    unit: Integers
    pair: Integers  # its number
    bins: Mapping[str, Integers]
    units: int  # how many units of the partition hold a click, published or not
    unit_keys: Keys
    texts: Texts
    text_keys: TextKeys


def published_clicks(clicks: Clicks, *, pairs: Callable[[], PublishedPairs]) -> PublishedClicks:
    """The bounded clicks of published pairs."""
    published = pairs()
    places = places_of(clicks.keys, published.keys)[clicks.item]
    some = np.flatnonzero(places >= 0)
    assert clicks.place is not None
    some = some[np.lexsort((clicks.place[some], clicks.unit[some]))]
    return PublishedClicks(
        unit=clicks.unit[some],
        pair=published.number[places[some]],
        bins={name: bins[some] for name, bins in clicks.bins.items()},
        units=clicks.units,
        unit_keys=clicks.unit_keys,
        texts=clicks.texts,
        text_keys=clicks.text_keys,
    )


def count_sizes(clicks: PublishedClicks, *, most: int) -> Integers:
    """How many units hold 0 ... `most` published pairs among their bounded ones."""
    size = np.bincount(clicks.unit)
    counts = np.bincount(size[size > 0], minlength=most + 1)
    counts[0] = clicks.units - counts.sum()
    return counts


def count_bins(clicks: PublishedClicks, *, name: str) -> Integers:
    """How many units are in each bin; a unit is in that of its first published click that has one."""
    some = clicks.bins[name] != NO_BIN
    first = np.diff(clicks.unit[some], prepend=-1) != 0
    return np.bincount(clicks.bins[name][some][first], minlength=BINS[name])


def find_couples(clicks: PublishedClicks, *, pairs: int) -> Items:
    """Every two published pairs of a unit, as items of their numbers; `pairs` are published."""
    order = np.lexsort((clicks.pair, clicks.unit))
    unit, pair = clicks.unit[order], clicks.pair[order]
    rows = np.arange(len(unit))
    after = np.cumsum(np.bincount(unit))[unit] - rows - 1  # further pairs of the unit
    first, second = pair[np.repeat(rows, after)], pair[runs(rows + 1, after)]
    numbers = pa.array(np.arange(pairs)).cast(pa.string())
    number_key = clicks.text_keys.texts(numbers)
    keys = clicks.text_keys.combine([number_key[first], number_key[second]])
    item, row = number_keys(keys)
    return Items(
        unit=np.repeat(unit, after), time=np.full(len(item), NEVER), item=item, keys=keys[row],
        names=(PublicNames(numbers, first[row]), PublicNames(numbers, second[row])),
        unit_keys=clicks.unit_keys, texts=clicks.texts, text_keys=clicks.text_keys,
    )  # fmt: skip


def bounded_couples(clicks: PublishedClicks, *, pairs: int, bound: Bound) -> BoundedItems:
    """At most so many couples of each unit as the bound says."""
    return bound(find_couples(clicks, pairs=pairs))
