"""Which unit holds which queries or clicks, computed on dictionary-encoded rows.

Gives the same items as the Ibis expressions of `items`, for the most common tables and units.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.choice import ChoiceKey, Words, combine
from murmurlog.logs.encoded import NEVER, EncodedColumn, EncodedRows, Integers

PERIODS = {"user-month": "M", "user-week": "W", "user-day": "D"}
MICROSECONDS_A_DAY = 86_400_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """Which unit holds which item, and when, as integer codes."""

    unit: Integers
    time: Integers
    item: Integers
    keys: tuple[EncodedColumn, ...]  # the keys of each item, a column for each
    users: pa.Array
    unit_user: Integers | None  # the code of each unit's user; None if users are the units
    unit_start: Integers | None  # the first day of each unit, since 1970

    def ranks(self, items: Integers) -> Integers:
        """The ranks of some distinct items in the order of the bytes of their keys."""
        columns = {
            str(i): key.texts.take(pa.array(key.codes[items])) for i, key in enumerate(self.keys)
        }
        order = pc.sort_indices(
            pa.table(columns), sort_keys=[(name, "ascending") for name in columns]
        )
        ranks = np.empty(len(items), np.int64)
        ranks[order.to_numpy()] = np.arange(len(items))
        return ranks

    def places(self, listed: pa.Table) -> Integers:
        """The place in a list of keys of each item's code; -1 where it is not listed."""
        items = np.zeros(len(self.keys[0].codes), np.int64)
        wanted = np.zeros(listed.num_rows, np.int64)
        known = np.full(len(items), listed.num_rows > 0)
        for key, name in zip(self.keys, listed.column_names, strict=True):
            column = listed[name].combine_chunks().dictionary_encode()
            found = pc.fill_null(pc.index_in(key.texts, value_set=column.dictionary), -1)
            code = found.to_numpy()[key.codes]
            known &= code >= 0
            items = items * len(column.dictionary) + code
            wanted = wanted * len(column.dictionary) + column.indices.to_numpy()
        order = np.argsort(wanted)
        at = np.searchsorted(wanted[order], items[known])
        at = np.minimum(at, max(len(order) - 1, 0))
        there = wanted[order][at] == items[known]
        places = np.full(len(items), -1, np.int64)
        places[np.flatnonzero(known)[there]] = order[at[there]]
        return places

    def without(self, listed: pa.Table) -> "Holdings":
        """Only rows whose item is not listed."""
        kept = self.places(listed)[self.item] < 0
        return replace(self, unit=self.unit[kept], time=self.time[kept], item=self.item[kept])

    def unit_hashes(self, units: Integers, key: ChoiceKey) -> Words:
        """The hashes of distinct units for the random bound."""
        if self.unit_user is None:
            return key.units(self.users.take(pa.array(units)))
        names = self.names(units)
        return np.asarray(key.units(names.dictionary)[names.indices.to_numpy()])

    def item_hashes(self, items: Integers, key: ChoiceKey) -> Words:
        """The hashes of some items for the random bound; each distinct text is hashed once."""
        columns = []
        for place, each in enumerate(self.keys):
            codes, which = np.unique(each.codes[items], return_inverse=True)
            columns.append(key.column(each.texts.take(pa.array(codes)), place)[which])
        return combine(columns)

    def names(self, units: Integers) -> pa.Array:
        """The names of units, as the table of the same items has them."""
        if self.unit_user is None or self.unit_start is None:
            codes = pa.array(units, pa.int32())
            return pa.DictionaryArray.from_arrays(codes, self.users, safe=False)
        distinct, which = np.unique(units, return_inverse=True)
        days = pa.array(self.unit_start[distinct].astype("datetime64[D]"))
        user = self.users.take(pa.array(self.unit_user[distinct]))
        names = pc.binary_join_element_wise(days.cast(pa.string()), user, "|")
        return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), names)


def find_holdings(rows: EncodedRows, *, kind: str, unit: str, known: pa.Array | None) -> Holdings:
    """The queries or clicks of every unit, as often as they occur; only clicks of known queries."""
    some = np.ones(rows.rows, bool)
    if kind == "click" and rows.url:
        some &= rows.url.codes >= 0
    if unit in PERIODS:
        some &= rows.time != NEVER
    if known is not None and kind == "click":
        listed = pc.is_in(rows.query.texts, value_set=known)
        some &= listed.to_numpy(zero_copy_only=False)[rows.query.codes]
    rows = rows.at(some)
    if kind == "click" and rows.url:
        item, first = _number_pairs(rows.query.codes, rows.url.codes)
        keys: tuple[EncodedColumn, ...] = (rows.query.at(first), rows.url.at(first))
    else:
        item = rows.query.codes
        every = np.arange(len(rows.query.texts), dtype=np.int32)
        keys = (EncodedColumn(codes=every, texts=rows.query.texts),)
    units, unit_user, unit_start = rows.user.codes, None, None
    if unit in PERIODS:
        start = _starts(rows.time, PERIODS[unit])
        units, first = _number_pairs(rows.user.codes, start - start.min(initial=0))
        unit_user, unit_start = rows.user.codes[first], start[first]
    return Holdings(
        unit=units,
        time=rows.time,
        item=item,
        keys=keys,
        users=rows.user.texts,
        unit_user=unit_user,
        unit_start=unit_start,
    )


def _starts(time: Integers, period: str) -> Integers:
    """The first day of each moment's day, week (from Monday) or month, as days since 1970."""
    day = time // MICROSECONDS_A_DAY
    if period == "W":
        return np.asarray(day - (day + 3) % 7)  # 1970-01-01 was a Thursday
    if period == "M":
        month = day.astype("datetime64[D]").astype("datetime64[M]")
        return np.asarray(month.astype("datetime64[D]").astype(np.int64))
    return np.asarray(day)


def _number_pairs(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """A code for each distinct pair of codes, and a row that has the pair."""
    if len(first) == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    width = int(second.max()) + 1
    pairs = pa.array(first.astype(np.int64) * width + second).dictionary_encode()
    number = pairs.indices.to_numpy()
    row = np.empty(len(pairs.dictionary), np.int64)
    row[number] = np.arange(len(number))
    return number, row
