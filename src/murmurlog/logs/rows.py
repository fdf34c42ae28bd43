"""The rows of a partition of a log as numbers, and how the rows of a source get there.

A text is its 128-bit key. Batches of a source are cleaned and keyed side by side, each distinct text once,
and their rows go to partitions by the key of their unit; the texts stay where they were read, and are
looked up again for the few keys that are published. In a partition rows are in order of unit and time,
and each distinct text has a code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.logs.cleaning import (
    Cleaning,
    RowFacts,
    apply_rules,
    changed_queries,
    clean_urls,
    find_plain_urls,
    put_texts,
    screen_texts,
)
from murmurlog.logs.partitions import LocalPartitions, Partitions
from murmurlog.logs.text_keys import (
    TextColumn,
    TextKeys,
    group_keys,
    number_keys,
)
from murmurlog.logs.workspace import Handle, Resident, Run, StoredRuns, Workspace
from murmurlog.privacy.sampler import Keys

NEVER = np.iinfo(np.int64).max  # the time of a row that has none: after all others
PERIODS = {"user-month": "M", "user-week": "W", "user-day": "D"}
MICROSECONDS_A_DAY = 86_400_000_000

# Of a unit only its first rows count, as many as these; far more than a person has. Public constants, so
# that whether a row counts depends on its unit's rows alone.
MOST_ROWS_A_UNIT = 1 << 18
MOST_BYTES_A_UNIT = 1 << 26
MOST_BYTES_A_VALUE = 2_000_000  # a row with a longer value is broken
TOO_LONG, NOT_UTF8 = "value too long", "not UTF-8"
MOST_ASCII = 0x7F
SPLIT_BITS = 4  # of a unit's key, by which a partition that is too large is split

ROW_BITS, BATCH_BITS = 32, 24  # of the id of a text

T = TypeVar("T")
Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


Clean = Callable[[pa.Array], pa.Array]


def _pass_through(rows: Any) -> tuple[pa.RecordBatch, Mapping[str, int]]:
    return rows, {}


class Texts(Resident):
    """The texts of a log's batches, as they were read: they stay in this process, and ids say where each is.

    An id is the number of a column, of a batch and of a row in it. A text that is looked up is cleaned again.
    """

    def __init__(self, workspace: Workspace, clean: Sequence[Clean]) -> None:
        self._workspace, self._clean = workspace, clean
        self._batches: list[list[Handle[pa.Array]]] = []

    def add(self, columns: Sequence[pa.Array]) -> int:
        """Keeps the columns of a batch; the id of the first column's first row."""
        handles = [self._workspace.keep(texts) for texts in columns]
        with self._workspace.lock:
            self._batches.append(handles)
            return len(self._batches) - 1 << ROW_BITS

    def take(self, ids: Integers) -> pa.Array:
        """The texts with these ids."""
        order = np.argsort(ids, kind="stable")
        places, starts = np.unique(ids[order] >> ROW_BITS, return_index=True)
        parts = [pa.array([], pa.large_string())]
        for place, start, end in zip(places, starts, [*starts[1:], len(ids)], strict=False):
            column, batch = divmod(int(place), 1 << BATCH_BITS)
            rows = ids[order[start:end]] & (1 << ROW_BITS) - 1
            texts = self._column(column, batch).take(pa.array(rows))
            clean = self._clean[column](texts) if self._clean else texts
            parts.append(clean.cast(pa.large_string()))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        texts = pa.concat_arrays(parts)
        parts.clear()  # may be as large
        return texts.take(pa.array(back))

    def _column(self, column: int, batch: int) -> pa.Array:
        return self._batches[batch][column].load(mapped=True)

    def close(self) -> None:
        """Deletes the texts."""
        for columns in self._batches:
            for handle in columns:
                handle.close()
        self._batches.clear()


def in_column(ids: Integers, column: int) -> Integers:
    """The ids of the texts of a column, from those of the first column in the same rows."""
    return ids + (column << ROW_BITS + BATCH_BITS)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of texts: of each row the code of its text, -1 for none."""

    codes: Integers
    keys: Keys  # of each code, in order
    ids: Integers  # of each code, where its text is

    def at(self, rows: Mask | Integers) -> "Column":
        """Some of the rows."""
        return replace(self, codes=self.codes[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of a partition, in order of unit and time; rows of one unit and time come in any order."""

    unit: Integers  # the code of each row's unit
    unit_keys: Keys  # of each unit
    user_keys: Keys  # of each unit's user
    time: Integers  # microseconds since 1970, NEVER for none
    query: Column
    url: Column | None
    rank: Integers | None  # NO_RANK for none; None if the log has no ranks
    kept_columns: Mapping[str, Column]
    texts: Texts
    text_keys: TextKeys

    @property
    def count(self) -> int:
        return len(self.unit)

    def at(self, rows: Mask | Integers) -> "Rows":
        """Some of the rows, in order."""
        if rows.dtype == bool:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # several columns are taken: faster by places
        return replace(
            self,
            unit=self.unit[rows],
            time=self.time[rows],
            query=self.query.at(rows),
            url=self.url.at(rows) if self.url else None,
            rank=None if self.rank is None else self.rank[rows],
            kept_columns={name: column.at(rows) for name, column in self.kept_columns.items()},
        )

    def since(self, moment: datetime) -> Mask:
        """Which rows are from a moment on; rows without a time are not."""
        start = np.datetime64(moment, "us").astype(np.int64)
        return np.asarray((self.time >= start) & (self.time != NEVER))


NO_RANK = np.iinfo(np.int32).min


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanBatch:
    """The columns of a batch as numbers, its texts, and which of its rows are usable."""

    user: Keys
    time: Integers
    size: Integers  # the bytes of each row's texts
    rank: Integers | None
    keys: Sequence[Keys]  # of the clean query, url and kept values; 0 for none
    texts: Sequence[pa.Array]  # of the same columns, as they were read
    usable: Mask


class Lines(tuple[Integers, ...]):
    """Rows on their way from a batch to a partition, as columns; a column that the log does not have has width 0.

    The columns: keys of units; of users, for units of time; times; the id of each row's first text; keys
    of each column of texts; the bytes of all texts; ranks.
    """

    __slots__ = ()

    @property
    def rows(self) -> int:
        return len(self[0])

    @property
    def unit(self) -> Keys:
        return self[0]

    @property
    def user(self) -> Keys:
        return self[1] if self[1].shape[1] else self[0]

    @property
    def time(self) -> Integers:
        return self[2][:, 0] if self[2].shape[1] else np.full(self.rows, NEVER, np.int64)

    @property
    def text_id(self) -> Integers:
        return self[3]

    @property
    def keys(self) -> tuple[Keys, ...]:
        return self[4:-2]

    @property
    def size(self) -> Integers:
        return self[-2]

    @property
    def rank(self) -> Integers | None:
        return self[-1][:, 0] if self[-1].shape[1] else None

    def at(self, rows: Integers) -> "Lines":
        """Some of the rows."""
        return Lines(column.take(rows, axis=0) for column in self)

    def by_bucket(self, order: Integers, ends: Sequence[int]) -> "list[Lines]":
        """The rows in an order, cut at ends: arrays of their own, so that a bucket that is done frees its memory."""
        return [self.at(order[start:end]) for start, end in pairwise(ends)]

    def with_ids(self, ids: Integers) -> "Lines":
        """The same rows with other ids of texts."""
        return Lines((*self[:3], ids, *self[4:]))

    @classmethod
    def join(cls, pieces: "Sequence[Lines]") -> "Lines":
        """The rows of all pieces, one after the other."""
        return cls(map(np.concatenate, zip(*pieces, strict=True)))


@dataclass(kw_only=True)
class RowCounts:
    """How many rows are usable, how many were keyed, and how many were dropped, by reason."""

    rows: int = 0
    keyed: int = 0
    broken: dict[str, int] = field(default_factory=dict)
    screened: dict[str, int] = field(default_factory=dict)

    def add(self, other: "RowCounts") -> None:
        """Adds the counts of other rows."""
        self.rows, self.keyed = self.rows + other.rows, self.keyed + other.keyed
        for reasons, more in ((self.broken, other.broken), (self.screened, other.screened)):
            for reason, number in more.items():
                reasons[reason] = reasons.get(reason, 0) + number


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadRows:
    """The rows of a source by partition, and how many there are."""

    partitions: Partitions[Rows]
    counts: RowCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class RoutedRows:
    """The rows of a source by bucket of units, before they are put in order."""

    reader: "RowReader"
    routed: Sequence[StoredRuns[Lines]]  # of each batch
    counts: RowCounts
    workspace: Workspace

    def settle(self) -> ReadRows:
        """The rows by partition."""

        def settle(bucket: int) -> list[Handle[Rows]]:
            return [
                *self.reader.partitions([lines[bucket] for lines in self.routed], self.workspace)
            ]

        parts = self.workspace.map(settle, range(1 << self.reader.bits))
        partitions = LocalPartitions([part for bucket in parts for part in bucket], self.workspace)
        return ReadRows(partitions=partitions, counts=self.counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowReader:
    """How batches of a source become rows of partitions."""

    cleaning: Cleaning
    text_keys: TextKeys
    texts: Texts
    unit: str = "user"
    bits: int = 4  # of a unit's key: they say which of 2^bits partitions it belongs to
    most_rows: int = 1 << 20  # of a partition; a larger one is split again
    most_bytes: int = 1 << 28  # of its texts

    def read(
        self,
        batches: Iterable[T],
        workspace: Workspace,
        advance: Callable[[int], None] = lambda _: None,
        *,
        type_rows: Callable[[T], tuple[pa.RecordBatch, Mapping[str, int]]] = _pass_through,
    ) -> "RoutedRows":
        """The rows by bucket of units, and how many were dropped; `type_rows` makes typed rows of a batch, if they are not."""
        routed, total = list[StoredRuns[Lines]](), RowCounts()

        def work(batch: T) -> tuple[StoredRuns[Lines], RowCounts]:
            rows, broken = type_rows(batch)
            clean, counts = self.clean(rows)
            counts.add(RowCounts(broken=dict(broken)))
            lines = self.lines(clean, self.texts.add(clean.texts))
            return workspace.keep_runs(lines), counts

        for lines, counts in workspace.map(work, batches):
            routed.append(lines)
            total.add(counts)
            advance(counts.keyed)
        return RoutedRows(reader=self, routed=routed, counts=total, workspace=workspace)

    def partitions(
        self,
        pieces: Sequence[Run[Lines] | Handle[Lines]],
        workspace: Workspace,
        used: int | None = None,
    ) -> Iterator[Handle[Rows]]:
        """The partitions of a bucket of units: one, or several if it is too large for one."""
        used = self.bits if used is None else used
        waiting, rows, size = list[Lines](), 0, 0
        for number, piece in enumerate(pieces):
            waiting.append(piece.load())
            piece.close()
            rows, size = rows + waiting[-1].rows, size + int(waiting[-1].size.sum())
            if rows <= self.most_rows and size <= self.most_bytes:
                continue
            waiting = [self.cut(Lines.join(waiting))]
            rows, size = waiting[0].rows, int(waiting[0].size.sum())
            too_large = rows > self.most_rows or size > self.most_bytes
            if used < 64 and too_large and (waiting[0].unit != waiting[0].unit[0]).any():
                # Too many units: each goes to one of several smaller buckets.
                smaller = [workspace.keep_runs(self.route(waiting.pop(), used, SPLIT_BITS))]
                for piece in pieces[number + 1 :]:
                    smaller.append(workspace.keep_runs(self.route(piece.load(), used, SPLIT_BITS)))
                    piece.close()
                for bucket in range(1 << SPLIT_BITS):
                    lines_of_bucket = [lines[bucket] for lines in smaller]
                    yield from self.partitions(lines_of_bucket, workspace, used + SPLIT_BITS)
                return
        if waiting:
            yield workspace.keep(self.settle(Lines.join(waiting)))

    def clean(self, batch: pa.RecordBatch) -> tuple[CleanBatch, RowCounts]:
        """A batch as numbers, and how many of its rows are usable."""
        counts = RowCounts(keyed=batch.num_rows)
        batch, texts, size, unsound = _sound_rows(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        cleaning, count = self.cleaning, batch.num_rows
        query, has_query, reasons = self._queries(texts["query"])
        states_url, has_url = np.zeros(count, bool), np.zeros(count, bool)
        keys, rank = [query], None
        if cleaning.url is not None:
            url, states_url, has_url = self._urls(texts["url"])
            keys.append(url)
        if cleaning.url is not None and cleaning.ranked:
            rank = columns["rank"].cast(pa.int32()).fill_null(NO_RANK)
            rank = rank.to_numpy(zero_copy_only=False)
        keys += [self._values(texts[f"k{i}"]) for i in range(len(cleaning.keep))]
        if "user" in texts:
            user, has_user = texts["user"].keys(self.text_keys), texts["user"].length > 0
        else:
            user, has_user = self._numbered_users(columns["user"])
        time, bad_time = np.full(count, NEVER, np.int64), np.zeros(count, bool)
        if "time" in columns:
            moment = columns["time"].cast(pa.timestamp("us")).view(pa.int64())
            time = moment.fill_null(NEVER).to_numpy(zero_copy_only=False)
            bad_time = columns["bad_time"].to_numpy(zero_copy_only=False)
        facts = RowFacts(
            count=count,
            present={"user": has_user, "query": has_query, "time": time != NEVER, "url": has_url},
            stated={"time": bad_time | (time != NEVER), "url": states_url},
            time=time,
        )
        stays, counts.broken = apply_rules(facts, cleaning)
        counts.broken |= unsound
        for reason, rows in reasons.items():
            hit = stays & rows
            counts.screened[reason] = int(hit.sum())
            stays &= ~hit
        clean = CleanBatch(
            user=user, time=time, size=size, rank=rank, keys=keys,
            texts=[column.texts for name, column in texts.items() if name != "user"], usable=stays,
        )  # fmt: skip
        counts.rows = int(stays.sum())
        return clean, counts

    def lines(self, batch: CleanBatch, first: int) -> list[Lines]:
        """The usable rows of a batch by partition; of units of time only those that have one.

        `first` is the id of the batch's first row.
        """
        count = len(batch.usable)
        usable, unit = batch.usable, batch.user
        user, time = unit[:, :0], batch.time[:, None]
        if self.unit in PERIODS:
            period = np.zeros((count, 2), np.uint64)
            period[:, 0] = period_start(batch.time, PERIODS[self.unit]).astype(np.uint64)
            unit, user = self.text_keys.combine([unit, period]), unit
            usable = usable & (batch.time != NEVER)
        rank = np.zeros((count, 0), np.int32) if batch.rank is None else batch.rank[:, None]
        order, ends = order_by_bits(unit, 0, self.bits, usable)
        time = time if self.cleaning.timed else time[:, :0]
        text_id = first + np.arange(count)
        lines = Lines((unit, user, time, text_id, *batch.keys, batch.size, rank))
        return lines.by_bucket(order, ends)

    def route(self, lines: Lines, used: int, bits: int) -> list[Lines]:
        """The lines by the next bits of their unit's key."""
        return lines.by_bucket(*order_by_bits(lines.unit, used, bits, np.ones(lines.rows, bool)))

    def cut(self, lines: Lines) -> Lines:
        """The lines that `settle` can still use, whatever further lines come.

        Of each unit its first rows in the order of time and then of the record, as many as fit into
        `MOST_ROWS_A_UNIT` and `MOST_BYTES_A_UNIT`, and the first that does not fit: so that a cut of what
        a cut left, together with further lines, is the cut of all.
        """
        order, new = group_keys(lines.unit)
        if (large := _large_units(lines, order, new)) is None:
            return lines
        return _first_lines(lines, order, new, large, more=1)

    def settle(self, lines: Lines) -> Rows:
        """The rows of a partition in order, with codes for units and texts."""
        order, new = group_keys(lines.unit)
        if (large := _large_units(lines, order, new)) is not None:
            return self.settle(_first_lines(lines, order, new, large))
        first = order[new]  # of each unit a row
        unit, time = np.cumsum(new, dtype=np.int32) - np.int32(1), lines.time.take(order)
        if (in_time := order_in_time(unit, time)) is not None:
            order, time = order[in_time], time[in_time]
        columns = [
            _number_column(keys, in_column(lines.text_id, place)).at(order)
            for place, keys in enumerate(lines.keys)
        ]
        query, *columns = columns
        return Rows(
            unit=unit,
            unit_keys=lines.unit.take(first, axis=0),
            user_keys=lines.user.take(first, axis=0),
            time=time,
            query=query,
            url=columns.pop(0) if self.cleaning.url is not None else None,
            rank=None if lines.rank is None else lines.rank[order],
            kept_columns=dict(zip(self.cleaning.keep, columns, strict=True)),
            texts=self.texts,
            text_keys=self.text_keys,
        )

    def _numbered_users(self, users: pa.Array) -> tuple[Keys, Mask]:
        """The keys of users who are whole numbers, and whether there is one."""
        numbers = users.fill_null(0).to_numpy(zero_copy_only=False)
        return self.text_keys.numbers(numbers), users.is_valid().to_numpy(zero_copy_only=False)

    def _queries(self, queries: TextColumn) -> tuple[Keys, Mask, Mapping[str, Mask]]:
        """The keys of clean queries, which rows have one, and under each reason to drop some these rows."""
        keys, present = queries.keys(self.text_keys), ~queries.nulls
        # Most queries are clean as they are; the others are looked at once for each distinct text.
        suspects = self.cleaning.suspects(queries.data, queries.start, queries.length)
        rows = np.flatnonzero(present & suspects)
        codes, first = number_keys(keys.take(rows, axis=0))
        texts = queries.texts.take(pa.array(rows[first]))
        places, clean = changed_queries(texts, self.cleaning)
        if len(places):
            texts = put_texts(texts, places, short_texts(clean))
            clean_keys = keys.take(rows[first], axis=0)
            clean_keys[places] = self.text_keys.texts(texts.take(pa.array(places)))
            keys[rows] = clean_keys.take(codes, axis=0)
            present[rows] = texts.is_valid().to_numpy(zero_copy_only=False)[codes]
        reasons = {}
        for reason, hit in screen_texts(texts, self.cleaning).items():
            reasons[reason] = np.zeros(len(keys), bool)
            reasons[reason][rows] = hit[codes]
        return keys, present, reasons

    def _urls(self, urls: TextColumn) -> tuple[Keys, Mask, Mask]:
        """The keys of clean urls, and for which rows the source has a url, and one that can be read."""
        stated = urls.length > 0
        readable, keys = np.zeros(len(stated), bool), np.zeros((len(stated), 2), np.uint64)
        if self.cleaning.url != "id":
            rows, host_only = np.flatnonzero(stated), self.cleaning.url == "host"
            start, length = urls.start[rows], urls.length[rows]
            plain, first, size = find_plain_urls(urls.data, start, length, host_only=host_only)
            plain_keys = self.text_keys.spans(urls.data, first, size)
            plain_keys[~plain] = 0
            readable[rows], keys[rows] = plain, plain_keys
        # Each distinct one of the others is cleaned once.
        rows = np.flatnonzero(stated & ~readable)
        if len(rows):
            raw = self.text_keys.spans(urls.data, urls.start[rows], urls.length[rows])
            codes, first = number_keys(raw)
            texts = urls.texts.take(pa.array(rows[first]))
            none = pc.is_in(texts, pa.array(self.cleaning.no_url, texts.type))
            clean = pc.if_else(none, None, short_texts(clean_urls(texts, self.cleaning)))
            keys[rows] = self.text_keys.texts(clean).take(codes, axis=0)
            readable[rows] = clean.is_valid().to_numpy(zero_copy_only=False)[codes]
            stated[rows] = ~none.to_numpy(zero_copy_only=False)[codes]
        return keys, stated, readable

    def _values(self, values: TextColumn) -> Keys:
        """The keys of the values of a kept column; an empty text is none."""
        keys = values.keys(self.text_keys)
        keys[values.length == 0] = 0
        return keys


def _sound_rows(
    batch: pa.RecordBatch,
) -> tuple[pa.RecordBatch, dict[str, TextColumn], Integers, dict[str, int]]:
    """The rows whose texts are short enough and UTF-8, these texts and their sizes; the number of other rows by reason."""
    texts = {
        name: TextColumn.of(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    }
    faults = dict[str, Mask]()
    for column in texts.values():
        if column.length.max(initial=0) > MOST_BYTES_A_VALUE:
            faults[TOO_LONG] = faults.get(TOO_LONG, False) | (column.length > MOST_BYTES_A_VALUE)
        if column.data.max(initial=0) > MOST_ASCII and (wrong := not_utf8(column.texts)).any():
            faults[NOT_UTF8] = faults.get(NOT_UTF8, False) | wrong
    if not faults:
        size = np.zeros(batch.num_rows, np.int32)
        for column in texts.values():
            np.add(size, column.length, out=size, casting="same_kind")  # all are short
        return batch, texts, size, {}
    sound, broken = np.ones(batch.num_rows, bool), dict[str, int]()
    for reason, rows in faults.items():
        broken[reason] = int((sound & rows).sum())
        sound &= ~rows
    return (*_sound_rows(batch.filter(pa.array(sound)))[:3], broken)


def not_utf8(texts: pa.Array) -> Mask:
    """Which texts are not UTF-8: a writer of files may not have checked."""
    wrong = np.zeros(len(texts), bool)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(texts.cast(pa.large_binary()).to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeError:
                wrong[row] = True
    return wrong


def short_texts(texts: pa.Array) -> pa.Array:
    """The texts, null for those that are too long: cleaning can make a text longer, and the bound is on keys."""
    fits = pc.less_equal(pc.binary_length(texts), MOST_BYTES_A_VALUE)
    return pc.if_else(fits, texts, pa.scalar(None, texts.type))


def order_by_bits(units: Keys, used: int, bits: int, usable: Mask) -> tuple[Integers, list[int]]:
    """An order of the usable rows by the next bits of their unit's key, and where the rows of each value end."""
    # Two steps, because a shift by 64 bits is not defined.
    value = units[:, 0] << np.uint64(used) >> np.uint64(1) >> np.uint64(63 - bits)
    value[~usable] = 1 << bits  # after all others
    place = value.astype(np.uint16)
    ends = np.cumsum(np.bincount(place, minlength=1 << bits)[: 1 << bits])
    return np.argsort(place, kind="stable")[: ends[-1]], [0, *ends.tolist()]


def _large_units(lines: Lines, order: Integers, new: Mask) -> Mask | None:
    """Which lines, in order of units, are of a unit with too many rows or bytes; None if there are none."""
    if lines.rows <= MOST_ROWS_A_UNIT and lines.size.sum() <= MOST_BYTES_A_UNIT:
        return None
    first = np.flatnonzero(new)
    rows = np.diff(first, append=lines.rows)
    sizes = np.add.reduceat(lines.size.take(order), first, dtype=np.int64)
    large = (rows > MOST_ROWS_A_UNIT) | (sizes > MOST_BYTES_A_UNIT)
    return np.repeat(large, rows) if large.any() else None


def _first_lines(lines: Lines, order: Integers, new: Mask, large: Mask, *, more: int = 0) -> Lines:
    """The lines of each large unit up to the first that does not fit, and `more` lines from there on."""
    parts = [order[~large]]
    for unit in np.split(order[large], np.flatnonzero(new[large])[1:]):
        record = lines.at(unit)
        # What the row is: its id only says where its texts are.
        words = [word for keys in record.keys for word in keys.T]
        ranks = [] if record.rank is None else [record.rank]
        in_time = np.lexsort((*ranks, *reversed(words), record.size, record.time))
        bytes_so_far = np.cumsum(record.size[in_time], dtype=np.int64)
        fits = (np.arange(record.rows) < MOST_ROWS_A_UNIT) & (bytes_so_far <= MOST_BYTES_A_UNIT)
        # The first that does not fit ends the unit: what follows it is not looked at.
        end = record.rows if fits.all() else int(np.argmin(fits)) + more
        parts.append(unit[in_time[:end]])
    return lines.at(np.sort(np.concatenate(parts)))


def order_in_time(unit: Integers, time: Integers) -> Integers | None:
    """An order of rows by time within units, which are in order; None if the rows have it already.

    Rows of one unit and time come in any order.
    """
    late = np.append(False, (time[1:] < time[:-1]) & (unit[1:] == unit[:-1]))[: len(unit)]
    if not late.any():
        return None
    rows = np.flatnonzero(np.isin(unit, unit[late]))
    order = np.arange(len(unit))
    order[rows] = rows[np.lexsort((time[rows], unit[rows]))]
    return order


def period_start(time: Integers, period: str) -> Integers:
    """The first day of each moment's day, week (from Monday) or month, as days since 1970."""
    day = time // MICROSECONDS_A_DAY
    if period == "W":
        return np.asarray(day - (day + 3) % 7)  # 1970-01-01 was a Thursday
    if period == "M":
        month = day.astype("datetime64[D]").astype("datetime64[M]")
        return np.asarray(month.astype("datetime64[D]").astype(np.int64))
    return np.asarray(day)


def _number_column(keys: Keys, ids: Integers) -> Column:
    """A column of a partition from the keys and ids of its rows; a row without a text has the key 0."""
    rows = np.flatnonzero(keys[:, 0] | keys[:, 1])
    if len(rows) == len(keys):
        codes, first = number_keys(keys)
        return Column(codes=codes, keys=keys.take(first, axis=0), ids=ids[first])
    codes_of_texts, first = number_keys(keys.take(rows, axis=0))
    codes, first = np.full(len(keys), -1, np.int32), rows[first]
    codes[rows] = codes_of_texts
    return Column(codes=codes, keys=keys.take(first, axis=0), ids=ids[first])
