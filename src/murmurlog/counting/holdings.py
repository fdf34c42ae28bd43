"""Which unit holds which items, computed on dictionary-encoded rows.

Gives the same items as the Ibis expressions of `items`, for the most common tables and units.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.schema import SEPARATOR, By
from murmurlog.counting.choice import ChoiceKey, Words, by_code, combine
from murmurlog.counting.sorting import in_time, sort_ties
from murmurlog.errors import EngineError
from murmurlog.logs.encoded import NEVER, EncodedColumn, EncodedRows, Integers, Mask

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
        return rank_keys(self.keys, items)

    def places(self, listed: pa.Table) -> Integers:
        """The place in a list of keys of each item's code; -1 where it is not listed."""
        return places_of(self.keys, listed)

    def without(self, listed: pa.Table) -> "Holdings":
        """Only rows whose item is not listed."""
        return self._only(self.places(listed) < 0)

    def of_known(self, known: pa.Table, *, queries: int) -> "Holdings":
        """Only rows whose item names known queries alone: its first `queries` keys.

        All columns of the list count. With --by its last is the value, which is the last key of an item:
        a query that is known under one value is not known under another.
        """
        value = self.keys[-1:] if known.num_columns > 1 else ()
        places = [places_of((query, *value), known) for query in self.keys[:queries]]
        return self._only(np.minimum.reduce(places) >= 0)

    def _only(self, items: Mask) -> "Holdings":
        """Only rows of some items."""
        rows = items[self.item]
        return replace(self, unit=self.unit[rows], time=self.time[rows], item=self.item[rows])

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
            codes = each.codes[items]
            columns.append(by_code(codes, partial(_hash_codes, key, each.texts, place))[codes])
        return combine(columns)

    def names(self, units: Integers) -> pa.Array:
        """The names of units, as the table of the same items has them."""
        if self.unit_user is None or self.unit_start is None:
            codes = pa.array(units, pa.int32())
            return pa.DictionaryArray.from_arrays(codes, self.users, safe=False)
        distinct, which = np.unique(units, return_inverse=True)
        start = pa.array(self.unit_start[distinct].astype("datetime64[D]"))
        user = self.users.take(pa.array(self.unit_user[distinct]))
        names = pc.binary_join_element_wise(start.cast(pa.string()), user, "|")
        return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), names)


def places_of(keys: tuple[EncodedColumn, ...], listed: pa.Table) -> Integers:
    """The place of each row of key columns in a list with the same columns; -1 where it is not listed."""
    items = np.zeros(len(keys[0].codes), np.int64)
    wanted = np.zeros(listed.num_rows, np.int64)
    known = np.full(len(items), listed.num_rows > 0)
    for key, name in zip(keys, listed.column_names, strict=True):
        column = listed[name].combine_chunks().dictionary_encode()
        codes = pc.fill_null(pc.index_in(key.texts, value_set=column.dictionary), -1)
        code = codes.to_numpy()[key.codes]
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


def rank_keys(keys: tuple[EncodedColumn, ...], items: Integers) -> Integers:
    """The ranks of some distinct items in the order of the bytes of their keys."""
    columns = {
        str(i): _sortable(key.texts.take(pa.array(key.codes[items]))) for i, key in enumerate(keys)
    }
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    ranks = np.empty(len(items), np.int64)
    ranks[order.to_numpy()] = np.arange(len(items))
    return ranks


def _hash_codes(key: ChoiceKey, texts: pa.Array, place: int, codes: Integers) -> Words:
    """The hashes of the texts of distinct codes, in the key column at a place."""
    return key.column(join_lists(texts.take(pa.array(codes))), place)


def join_lists(texts: pa.Array) -> pa.Array:
    """The texts; lists of texts as one text each."""
    return pc.binary_join(texts, SEPARATOR) if pa.types.is_list(texts.type) else texts


def _sortable(texts: pa.Array) -> pa.Array:
    """What sorts as the texts do by their bytes, and lists element by element."""
    if not pa.types.is_list(texts.type):
        return texts
    lists = [[text.encode() for text in each] for each in texts.to_pylist()]
    rank = {each: n for n, each in enumerate(sorted(set(map(tuple, lists))))}
    return pa.array([rank[tuple(each)] for each in lists], pa.int64())


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """How rows become items that several of them make."""

    gap: int  # microseconds: the longest within a session
    longest: int | None  # queries of a session
    by: str | None = None  # a kept column that is part of a pair


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Finds the items of every unit in encoded rows; a value that can be sent to workers."""

    kind: str
    unit: str
    known: pa.Table | None  # only clicks, pairs and sessions of these keys of the query table
    cuts: Cuts
    since: datetime | None  # only rows from then on
    excluded: pa.Table | None  # keys that are left out
    by: By | None = None  # a kept column, whose value is part of the item

    def __call__(self, rows: EncodedRows) -> Holdings:
        if self.since is not None:
            rows = rows.since(self.since)
        held = self._find(rows)
        return held if self.excluded is None else held.without(self.excluded)

    def _find(self, rows: EncodedRows) -> Holdings:
        """The items of every unit, as often as they occur; only of known queries, where these are given."""
        kind, unit, by = self.kind, self.unit, self.by
        if unit in PERIODS or kind in IN_SEQUENCE:
            rows = rows.at(rows.time != NEVER)
        units = _find_units(rows, unit)
        some = np.ones(rows.rows, bool)
        if kind == "click" and rows.url:
            some &= rows.url.codes >= 0
        if by is not None:
            some &= _among(rows.kept[by.column], by.values)
        rows = rows.at(some)
        code = units.code if some.all() else units.code[some]
        found = MAKERS[kind](rows, code, self.known, self.cuts)
        if by is not None:
            found = _with_value(found, rows.kept[by.column])
        held = Holdings(
            unit=found.unit,
            time=found.time,
            item=found.item,
            keys=found.keys,
            users=rows.user.texts,
            unit_user=units.user,
            unit_start=units.start,
        )
        if self.known is None or kind not in QUERIES_NAMED:
            return held
        return held.of_known(self.known, queries=QUERIES_NAMED[kind])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Units:
    """The unit of each row; the user and the start of each unit, unless units are users."""

    code: Integers
    user: Integers | None = None
    start: Integers | None = None


def _find_units(rows: EncodedRows, unit: str) -> _Units:
    """The units of rows that all have times, unless units are users."""
    user = rows.user.codes
    if unit == "user":
        return _Units(code=user)
    start = _starts(rows.time, PERIODS[unit])
    code, first = number_pairs(user, start - start.min(initial=0))
    return _Units(code=code, user=user[first], start=start[first])


def _among(column: EncodedColumn, values: tuple[str, ...]) -> Mask:
    """Whether each row has one of these values."""
    codes = pc.index_in(pa.array(values, pa.string()), value_set=column.texts).drop_null()
    return np.isin(column.codes, codes.to_numpy())


def _with_value(found: "_Made", column: EncodedColumn) -> "_Made":
    """The items with the value of a column as their last key."""
    codes = column.codes if found.row is None else column.codes[found.row]
    item, first = number_pairs(found.item, codes)
    keys = tuple(key.at(found.item[first]) for key in found.keys)
    value = EncodedColumn(codes=codes[first], texts=column.texts)
    return replace(found, item=item, keys=(*keys, value))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Made:
    """Units, times and codes of items, and the keys of each item."""

    unit: Integers
    time: Integers
    item: Integers
    keys: tuple[EncodedColumn, ...]
    row: Integers | None = None  # which row each is of; None: all rows in their order


def _queries(rows: EncodedRows, unit: Integers, known: pa.Table | None, cuts: Cuts) -> _Made:
    keys = (_every(rows.query.texts),)
    return _Made(unit=unit, time=rows.time, item=rows.query.codes, keys=keys)


def _clicks(rows: EncodedRows, unit: Integers, known: pa.Table | None, cuts: Cuts) -> _Made:
    if rows.url is None:
        return _queries(rows, unit, known, cuts)
    item, first = number_pairs(rows.query.codes, rows.url.codes)
    keys = (rows.query.at(first), rows.url.at(first))
    return _Made(unit=unit, time=rows.time, item=item, keys=keys)


def _keywords(rows: EncodedRows, unit: Integers, known: pa.Table | None, cuts: Cuts) -> _Made:
    """The words of each query."""
    asked = np.zeros(len(rows.query.texts), bool)
    asked[rows.query.codes] = True
    words = _cut_words(rows.query.texts.take(pa.array(np.flatnonzero(asked))))
    many = np.zeros(len(asked), np.int64)
    many[asked] = np.diff(words.offsets.to_numpy())
    start = np.cumsum(many) - many
    encoded = words.values.dictionary_encode()
    times = many[rows.query.codes]
    # The words of row i are those from start[query of i] on, times[i] of them.
    before = np.cumsum(times) - times
    at = np.arange(times.sum()) - np.repeat(before - start[rows.query.codes], times)
    return _Made(
        unit=np.repeat(unit, times),
        time=np.repeat(rows.time, times),
        item=encoded.indices.to_numpy()[at],
        keys=(_every(encoded.dictionary),),
        row=np.repeat(np.arange(rows.rows), times),
    )


def _cut_words(texts: pa.Array) -> pa.ListArray:
    """The words of each text. Of plain text they are what is between spaces; Python cuts the rest."""
    plain = pc.match_substring_regex(texts, r"\A[a-z0-9]+(?: [a-z0-9]+)*\z")
    if pc.all(plain).as_py():
        return pc.ascii_split_whitespace(texts)
    python = pc.indices_nonzero(pc.invert(plain))
    cut = [keywords(text) for text in texts.take(python).to_pylist()]
    both = pa.concat_arrays(
        [pc.ascii_split_whitespace(texts.filter(plain)), pa.array(cut, pa.list_(pa.string()))]
    )
    order = np.argsort(np.concatenate([pc.indices_nonzero(plain).to_numpy(), python.to_numpy()]))
    return both.take(pa.array(order))


def _pairs(rows: EncodedRows, unit: Integers, known: pa.Table | None, cuts: Cuts) -> _Made:
    """Each query with the next, other one of its session."""
    order, units, times, query = _in_sequence(rows, unit, by=cuts.by)
    near = (units[1:] == units[:-1]) & (times[1:] - times[:-1] <= cuts.gap)
    near &= query[1:] != query[:-1]
    at = np.flatnonzero(near)
    item, first = number_pairs(query[at], query[at + 1])
    keys = tuple(
        EncodedColumn(codes=query[at[first] + step], texts=rows.query.texts) for step in (0, 1)
    )
    return _Made(unit=units[at], time=times[at], item=item, keys=keys, row=order[at])


def _sessions(rows: EncodedRows, unit: Integers, known: pa.Table | None, cuts: Cuts) -> _Made:
    """The queries of each session in order, at least two; one that is asked again at once is one."""
    order, units, times, query = _in_sequence(rows, unit)
    starts = np.ones(len(query), bool)
    starts[1:] = (units[1:] != units[:-1]) | (times[1:] - times[:-1] > cuts.gap)
    session = np.cumsum(starts)
    if known is not None:  # --by does not go with sessions, so the query is the whole key
        kept = places_of((_every(rows.query.texts),), known)[query] >= 0
        session, units, times, query = session[kept], units[kept], times[kept], query[kept]
    asked = np.ones(len(query), bool)
    asked[1:] = (session[1:] != session[:-1]) | (query[1:] != query[:-1])
    session, units, times, query = session[asked], units[asked], times[asked], query[asked]
    first = np.flatnonzero(np.diff(session, prepend=0))
    length = np.diff(first, append=len(session))
    if cuts.longest is not None:
        length = np.minimum(length, cuts.longest)
    first, length = first[length >= 2], length[length >= 2]
    item, holder = _number_lists(query, first, length)
    some, many = first[holder], length[holder]
    offsets = np.append(0, np.cumsum(many))
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - some, many)
    values = rows.query.texts.take(pa.array(query[at]))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return _Made(unit=units[first], time=times[first], item=item, keys=(_every(lists),))


def _in_sequence(
    rows: EncodedRows, unit: Integers, *, by: str | None = None
) -> tuple[Integers, Integers, Integers, Integers]:
    """The rows by unit, time and the bytes of the query: their places, units, times and queries.

    With `by`, rows of one query and time are in the order of the bytes of this column.
    """
    order, units, alike = in_time(unit, rows.time)
    if alike.any():
        code: Integers = rows.query.codes
        keys: tuple[EncodedColumn, ...] = (_every(rows.query.texts),)
        if by is not None:
            code, first = number_pairs(code, rows.kept[by].codes)
            keys = (rows.query.at(first), rows.kept[by].at(first))
        order = sort_ties(order, alike, code, lambda some: rank_keys(keys, some))
    return order, units, rows.time[order], rows.query.codes[order]


def _every(texts: pa.Array) -> EncodedColumn:
    """A column whose codes are the items themselves."""
    return EncodedColumn(codes=np.arange(len(texts), dtype=np.int32), texts=texts)


IN_SEQUENCE = ("pair", "session")
QUERIES_NAMED = {"click": 1, "pair": 2}  # how many of an item's first keys are queries
Maker = Callable[[EncodedRows, Integers, "pa.Table | None", Cuts], _Made]
MAKERS: Mapping[str, Maker] = {
    "query": _queries,
    "click": _clicks,
    "keyword": _keywords,
    "pair": _pairs,
    "session": _sessions,
}


def _number_lists(values: Integers, first: Integers, length: Integers) -> tuple[Integers, Integers]:
    """A code for each distinct list of codes, and a list that has it; lists are runs of `values`."""
    code = values[first].astype(np.int64)
    for place in range(1, int(length.max(initial=0))):
        some = np.flatnonzero(length > place)
        code[some], _ = number_pairs(code[some], values[first[some] + place])
    return number_pairs(length, code)


def _starts(time: Integers, period: str) -> Integers:
    """The first day of each moment's day, week (from Monday) or month, as days since 1970."""
    day = time // MICROSECONDS_A_DAY
    if period == "W":
        return np.asarray(day - (day + 3) % 7)  # 1970-01-01 was a Thursday
    if period == "M":
        month = day.astype("datetime64[D]").astype("datetime64[M]")
        return np.asarray(month.astype("datetime64[D]").astype(np.int64))
    return np.asarray(day)


def number_pairs(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """A code for each distinct pair of codes, and a row that has the pair."""
    if len(first) == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    width = int(second.max()) + 1
    if int(first.max()) >= (1 << 63) // width - 1:
        raise EngineError("pairs of codes do not fit into 64 bits: this is a bug")
    pairs = pa.array(first.astype(np.int64) * width + second).dictionary_encode()
    number = pairs.indices.to_numpy()
    row = np.empty(len(pairs.dictionary), np.int64)
    row[number] = np.arange(len(number))
    return number, row
