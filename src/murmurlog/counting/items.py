"""What is counted: which unit holds which item, and when, in a partition of a log.

Items are numbers: of each distinct item the key of its columns, and where its texts are. Imports no engine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import KEYS, SEVERAL, TABLES, By, keys_schema
from murmurlog.counting.public_sets.labels import Labels
from murmurlog.counting.sorting import first_of_each, group_pairs, sort_ties
from murmurlog.errors import InputError, UsageError, did_you_mean
from murmurlog.logs.rows import NEVER, Column, Rows, Texts
from murmurlog.logs.source import Source
from murmurlog.logs.text_keys import (
    KeyList,
    TextKeys,
    number_keys,
    order_of_keys,
    places_of,
)
from murmurlog.privacy import check_unit
from murmurlog.privacy.sampler import Keys

Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

MOST_GAP = 10**15  # microseconds
MOST_WORDS = 256  # of a query; further ones do not count


class Names(Protocol):
    """A key column of some items: where its values are."""

    def at(self, items: Integers) -> "Names":
        """The column of some of the items."""

    def values(self, texts: Texts) -> pa.Array:
        """The values: texts, or lists of texts."""


@dataclass(frozen=True, eq=False)
class TextNames:
    """Texts of the log."""

    ids: Integers

    def at(self, items: Integers) -> "TextNames":
        return TextNames(self.ids[items])

    def values(self, texts: Texts) -> pa.Array:
        return texts.take(self.ids)


@dataclass(frozen=True, eq=False)
class WordNames:
    """Words of queries: the place of each among the words of its query."""

    ids: Integers
    place: Integers

    def at(self, items: Integers) -> "WordNames":
        return WordNames(self.ids[items], self.place[items])

    def values(self, texts: Texts) -> pa.Array:
        words = cut_words(texts.take(self.ids))
        return words.values.take(pa.array(words.offsets.to_numpy()[:-1] + self.place))


@dataclass(frozen=True, eq=False)
class PublicNames:
    """Values of a public list, as labels are."""

    public: pa.Array
    codes: Integers

    def at(self, items: Integers) -> "PublicNames":
        return PublicNames(self.public, self.codes[items])

    def values(self, texts: Texts) -> pa.Array:
        return self.public.take(pa.array(self.codes))


@dataclass(frozen=True, kw_only=True, eq=False)
class ListNames:
    """Lists of values, one after the other."""

    members: Names
    keys: Keys  # of each member
    length: Integers
    sets: bool = False  # their members are shown in the order of their bytes

    def at(self, items: Integers) -> "ListNames":
        length = self.length[items]
        start = (np.cumsum(self.length) - self.length)[items]
        places = runs(start, length)
        return replace(self, members=self.members.at(places), keys=self.keys[places], length=length)

    def values(self, texts: Texts) -> pa.Array:
        offsets = np.append(0, np.cumsum(self.length))
        members = self.members.values(texts).cast(pa.string())
        if self.sets:
            rank = np.empty(len(members), np.int64)
            rank[pc.sort_indices(members).to_numpy()] = np.arange(len(members))
            holder = np.repeat(np.arange(len(self.length)), self.length)
            members = members.take(pa.array(np.lexsort((rank, holder))))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), members)


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """Every item of every unit of a partition, as often as it occurs, in order of unit and time."""

    unit: Integers
    time: Integers
    item: Integers
    keys: Keys  # of each distinct item, in order
    names: tuple[Names, ...]  # of each key column
    unit_keys: Keys
    texts: Texts
    text_keys: TextKeys
    row: Integers | None = None  # of each item its row; None where it is made of several

    def at(self, rows: Mask) -> "Items":
        """Some of the rows."""
        return replace(
            self,
            unit=self.unit[rows],
            time=self.time[rows],
            item=self.item[rows],
            row=None if self.row is None else self.row[rows],
        )

    def with_items(self, keep: Mask) -> "Items":
        """Only rows of some distinct items."""
        return self.at(keep[self.item])

    def columns(self, items: Integers) -> list[pa.Array]:
        """The key columns of some distinct items."""
        return [name.at(items).values(self.texts) for name in self.names]

    def ranks(self, items: Integers) -> Integers:
        """The ranks of some distinct items in the order of the bytes of their key columns."""
        columns = {str(i): sortable(values) for i, values in enumerate(self.columns(items))}
        order = pc.sort_indices(
            pa.table(columns), sort_keys=[(name, "ascending") for name in columns]
        )
        ranks = np.empty(len(items), np.int64)
        ranks[order.to_numpy()] = np.arange(len(items))
        return ranks


@dataclass(frozen=True, kw_only=True)
class ItemFinder:
    """Finds the items of every unit in a partition; a value that can be sent to workers."""

    kind: str
    by: By | None = None  # a kept column, whose value is part of the item
    gap: int = math.floor(GAP * 1e6)  # microseconds: the longest within a session
    longest: int | None = None  # queries of a session
    labels: Labels | None = None  # sessions are of public labels instead of queries
    published: Callable[[], KeyList] | None = None  # only items of these published queries
    since: datetime | None = None  # only rows from then on
    excluded: Callable[[], KeyList] | None = None  # items that are left out
    only: Callable[[Items], Mask] | None = (
        None  # which distinct items count; a rule about their keys
    )

    def __post_init__(self) -> None:
        if not 0 < self.gap < MOST_GAP:
            raise UsageError(f"--gap must be longer than 0 seconds, not {self.gap / 1e6:g}")

    def __call__(self, rows: Rows) -> Items:
        mask = self._select_rows(rows)
        items = _MAKERS[self.kind](self, rows.at(mask))
        if items.row is not None and not mask.all():  # among all rows
            items = replace(items, row=np.flatnonzero(mask)[items.row])
        if self.excluded is not None:
            items = items.with_items(self.excluded().places(items.keys) < 0)
        if self.only is not None:
            items = items.with_items(self.only(items))
        return items

    def _select_rows(self, rows: Rows) -> Mask:
        """The rows that items are made of."""
        mask = np.ones(rows.count, bool)
        if self.since is not None:
            mask &= rows.since(self.since)
        if TABLES[self.kind].in_sequence:
            mask &= rows.time != NEVER
        if self.kind == "click" and rows.url:
            mask &= rows.url.codes >= 0
        if self.by is not None:
            column = rows.kept_columns[self.by.column]
            public = np.append(_is_among(column, self.by.values, rows.text_keys), False)
            mask &= public[column.codes]
        if self.kind == "click" and self.published is not None:
            index = np.flatnonzero(mask)
            mask[index] = self.is_published(rows, rows.query.codes[index], index)
        return mask

    def is_published(self, rows: Rows, query: Integers, row: Integers) -> Mask:
        """Which of some queries of rows are published; with --by under the value of their row."""
        assert self.published is not None
        parts = [replace(_Part.of(rows.query), codes=query), *self.value(rows, row)]
        item, keys, _ = _number(parts, rows.text_keys)
        return np.asarray((self.published().places(keys) >= 0)[item])

    def value(self, rows: Rows, row: Integers) -> "list[_Part]":
        """With --by the value of each of some rows."""
        return [] if self.by is None else [_Part.of(rows.kept_columns[self.by.column], row)]


def _is_among(column: Column, values: Sequence[str], text_keys: TextKeys) -> Mask:
    """Which of a column's texts are in a list."""
    keys = text_keys.texts(pa.array(values, pa.string()))
    return places_of(column.keys, keys[order_of_keys(keys)]) >= 0


@dataclass(frozen=True, eq=False)
class _Part:
    """A key column of items: of each row the code of its value; the key and the place of each value."""

    codes: Integers
    keys: Keys
    names: Names

    @classmethod
    def of(cls, column: Column, rows: Integers | None = None) -> "_Part":
        codes = column.codes if rows is None else column.codes[rows]
        return cls(codes, column.keys, TextNames(column.ids))


def _combine(
    finder: ItemFinder,
    rows: Rows,
    parts: list[_Part],
    *,
    unit: Integers,
    time: Integers,
    row: Integers,
) -> Items:
    """Items of several key columns; with --by the value of each one's row is the last."""
    item, keys, names = _number([*parts, *finder.value(rows, row)], rows.text_keys)
    return Items(
        unit=unit, time=time, item=item, keys=keys, names=names, unit_keys=rows.unit_keys,
        texts=rows.texts, text_keys=rows.text_keys, row=row,
    )  # fmt: skip


def _number(parts: list[_Part], text_keys: TextKeys) -> tuple[Integers, Keys, tuple[Names, ...]]:
    """The code of each row's combination of values; the keys of the combinations, which ascend; and their names."""
    item = parts[0].codes
    if len(parts) == 1:
        return item, parts[0].keys, (parts[0].names,)
    for part in parts[1:]:
        item, row = number_pairs(item, part.codes)
    codes = [part.codes[row] for part in parts]
    keys = text_keys.combine(
        [part.keys.take(code, axis=0) for part, code in zip(parts, codes, strict=True)]
    )
    order = order_of_keys(keys)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    names = tuple(part.names.at(code[order]) for part, code in zip(parts, codes, strict=True))
    return place[item], keys.take(order, axis=0), names


def _queries(finder: ItemFinder, rows: Rows) -> Items:
    all_rows = np.arange(rows.count)
    parts = [_Part.of(rows.query)]
    return _combine(finder, rows, parts, unit=rows.unit, time=rows.time, row=all_rows)


def _clicks(finder: ItemFinder, rows: Rows) -> Items:
    all_rows = np.arange(rows.count)
    parts = [_Part.of(rows.query), _Part.of(rows.url)] if rows.url else [_Part.of(rows.query)]
    return _combine(finder, rows, parts, unit=rows.unit, time=rows.time, row=all_rows)


def _keywords(finder: ItemFinder, rows: Rows) -> Items:
    """The words of each query."""
    present = np.zeros(len(rows.query.keys), bool)
    present[rows.query.codes] = True
    queries = np.flatnonzero(present)
    words = cut_words(rows.texts.take(rows.query.ids[queries]))
    words_per_query = np.zeros(len(present), np.int64)
    words_per_query[queries] = np.diff(words.offsets.to_numpy())
    start = np.cumsum(words_per_query) - words_per_query
    codes, first = number_keys(rows.text_keys.texts(words.values))
    holder = np.repeat(queries, words_per_query[queries])
    names = WordNames(rows.query.ids[holder[first]], first - start[holder[first]])
    once = first_of_each(holder, codes)  # a word that a query repeats is one
    codes, words_per_query = codes[once], np.bincount(holder[once], minlength=len(present))
    start = np.cumsum(words_per_query) - words_per_query
    times = words_per_query[rows.query.codes]
    row = np.repeat(np.arange(rows.count), times)
    # The words of a row are those from its query's start on.
    at = runs(start[rows.query.codes], times)
    keys = rows.text_keys.texts(words.values.take(pa.array(first)))
    part = _Part(codes[at], keys, names)
    return _combine(finder, rows, [part], unit=rows.unit[row], time=rows.time[row], row=row)


def cut_words(texts: pa.Array) -> pa.ListArray:
    """The first words of each text. Arrow cuts short, plain texts at spaces; Python cuts the others."""
    texts = texts.cast(pa.string())
    plain = pc.match_substring_regex(texts, r"\A[a-z0-9]+(?: [a-z0-9]+)*\z")
    plain = pc.and_(plain, pc.less(pc.count_substring(texts, " "), MOST_WORDS))
    if pc.all(plain).as_py():
        return pc.ascii_split_whitespace(texts)
    python = pc.indices_nonzero(pc.invert(plain))
    cut = [keywords(text)[:MOST_WORDS] for text in texts.take(python).to_pylist()]
    both = pa.concat_arrays(
        [pc.ascii_split_whitespace(texts.filter(plain)), pa.array(cut, pa.list_(pa.string()))]
    )
    order = np.argsort(np.concatenate([pc.indices_nonzero(plain).to_numpy(), python.to_numpy()]))
    return both.take(pa.array(order))


def _pairs(finder: ItemFinder, rows: Rows) -> Items:
    """Each query with the next, other one of its session."""
    order = _in_sequence(finder, rows)
    unit, time, query = rows.unit[order], rows.time[order], rows.query.codes[order]
    near = (unit[1:] == unit[:-1]) & (time[1:] - time[:-1] <= finder.gap)
    near &= query[1:] != query[:-1]
    at = np.flatnonzero(near)
    if finder.published is not None:
        first_published = finder.is_published(rows, query[at], order[at])
        at = at[first_published & finder.is_published(rows, query[at + 1], order[at])]
    parts = [_Part.of(rows.query, order[at]), _Part.of(rows.query, order[at + 1])]
    return _combine(finder, rows, parts, unit=unit[at], time=time[at], row=order[at])


def _sessions(finder: ItemFinder, rows: Rows) -> Items:
    """The queries of each session in order, at least two; one that is asked again at once is one.

    A query asked again at once (the next page, a second click) is one query, also where only
    unpublished queries lie between. Dropping and merging look at the unit's own rows and at public
    keys alone, before the cut and the bound, so they change no bound (T3 iii).
    """
    order = _in_sequence(finder, rows)
    unit, time, query = rows.unit[order], rows.time[order], rows.query.codes[order]
    starts = np.ones(len(query), bool)
    starts[1:] = (unit[1:] != unit[:-1]) | (time[1:] - time[:-1] > finder.gap)
    session = np.cumsum(starts)
    if finder.published is not None:
        published = finder.is_published(rows, query, order)
        session, unit, time, query = (part[published] for part in (session, unit, time, query))
    new = np.ones(len(query), bool)
    new[1:] = (session[1:] != session[:-1]) | (query[1:] != query[:-1])
    session, unit, time, query = session[new], unit[new], time[new], query[new]
    first = np.flatnonzero(np.diff(session, prepend=0))
    length = np.diff(first, append=len(session))
    if finder.longest is not None:
        length = np.minimum(length, finder.longest)
    first, length = first[length >= 2], length[length >= 2]
    part = _Part.of(rows.query) if finder.labels is None else _label_part(finder.labels, rows)
    members = query if finder.labels is None else part.codes[query]
    item, keys, names = number_lists(part, members, first, length, rows.text_keys)
    return Items(
        unit=unit[first], time=time[first], item=item, keys=keys, names=(names,),
        unit_keys=rows.unit_keys, texts=rows.texts, text_keys=rows.text_keys,
    )  # fmt: skip


def _label_part(labels: Labels, rows: Rows) -> _Part:
    """Of each distinct query the code of its public label."""
    names = pa.array(labels.names, pa.string())
    codes = labels.codes(rows.texts.take(rows.query.ids))
    return _Part(codes, rows.text_keys.texts(names), PublicNames(names, np.arange(len(names))))


def number_lists(
    part: _Part, members: Integers, first: Integers, length: Integers, text_keys: TextKeys
) -> tuple[Integers, Keys, ListNames]:
    """A code for each distinct list of values, the keys and the places; lists are runs of `members`."""
    flat = members[runs(first, length)]
    item, row = number_keys(text_keys.lists(part.keys[flat], length))
    values, length = members[runs(first[row], length[row])], length[row]
    keys = text_keys.lists(part.keys[values], length)
    names = ListNames(members=part.names.at(values), keys=part.keys[values], length=length)
    return item, keys, names


def _in_sequence(finder: ItemFinder, rows: Rows) -> Integers:
    """The rows by unit, time and the bytes of the query; with --by then by those of the value.

    The order is total in all that an item consists of: else other units' rows could change it (A7).
    """
    order = np.arange(rows.count)
    ties = (rows.unit[1:] == rows.unit[:-1]) & (rows.time[1:] == rows.time[:-1])
    if not ties.any():
        return order
    queries = _queries(replace(finder, kind="query", published=None), rows)
    return sort_ties(order, ties, queries.item, queries.ranks)


_MAKERS: Mapping[str, Callable[[ItemFinder, Rows], Items]] = {
    "query": _queries,
    "click": _clicks,
    "keyword": _keywords,
    "pair": _pairs,
    "session": _sessions,
}


def sortable(values: pa.Array) -> pa.Array:
    """What sorts as texts do by their bytes, and lists element by element."""
    if not pa.types.is_list(values.type):
        return values
    lists = [tuple(text.encode() for text in value) for value in values.to_pylist()]
    rank = {value: n for n, value in enumerate(sorted(set(lists)))}
    return pa.array([rank[value] for value in lists], pa.int64())


def number_pairs(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """A code for each distinct pair of codes, and a row that has the pair."""
    order, new = group_pairs(first, second)
    code = np.empty(len(order), np.int32)
    code[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return code, order[new]


def runs(start: Integers, length: Integers) -> Integers:
    """The numbers start, start + 1, ... of each run of a length, one run after the other."""
    before = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(start - before, length))


def key_table(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Table:
    """Key columns as a table of a bundle."""
    schema = keys_schema(tuple(names))
    return pa.table(list(columns), names=list(names)).cast(schema)


def check(source: Source, *, kind: str, unit: str, by: bool = False) -> None:
    """Raises if the source lacks columns that the kind or the unit needs."""
    if by and kind in SEVERAL:
        raise UsageError(
            f"--by does not go with a {kind} table: its rows come from several records"
        )
    if kind not in KEYS:
        raise UsageError(
            f"unknown table {kind!r:.60}: use one of {', '.join(KEYS)}.{did_you_mean(kind, KEYS)}"
        )
    check_unit(unit)
    if kind in ("click", "log") and "url" not in source.columns:
        raise InputError(
            f"{source.name} has no column of clicked urls, so there is no {kind} table. "
            f"Map one with --columns url=..., or leave {kind} out of --tables."
        )
    if unit != "user" and "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so there are no units {unit!r}. "
            "Map one with --columns time=..., or use --unit user."
        )
    if TABLES[kind].in_sequence and "time" not in source.columns:
        raise InputError(
            f"there are no subsequent queries in {source.name}, so no {kind} table: it has no time "
            f"column. Leave {kind} out of --tables."
        )
