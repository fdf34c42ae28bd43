"""The rows of a partition of a log as numbers, and how the rows of a source get there.

A text is its 128-bit key. Batches of a source are cleaned and keyed side by side, each distinct text once,
and their rows go to partitions by the key of their unit; the texts stay where they were read, and are
looked up again for the few keys that are published. In a partition rows are in order of unit and time,
and each distinct text has a code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.logs.cleaning import (
    Cleaning,
    RowFacts,
    changed_queries,
    clean_urls,
    judge,
    screen_texts,
)
from murmurlog.logs.partitions import LocalPartitions, Partitions
from murmurlog.logs.text_keys import TextKeys, group_keys, number_keys
from murmurlog.logs.workspace import Kept, Resident, Workspace
from murmurlog.privacy.sampler import Keys

NEVER = np.iinfo(np.int64).max  # the time of a row that has none: after all others
PERIODS = {"user-month": "M", "user-week": "W", "user-day": "D"}
MICROSECONDS_A_DAY = 86_400_000_000

# Of a unit only its first rows count, as many as these; far more than a person has. Public constants, so
# that whether a row counts depends on its unit's rows alone.
MOST_ROWS_A_UNIT = 1 << 18
MOST_BYTES_A_UNIT = 1 << 26
MOST_BYTES_A_VALUE = 2_000_000  # a row with a longer value is broken
TOO_LONG = "value too long"
SPLIT_BITS = 4  # of a unit's key, by which a partition that is too large is split

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Texts(Resident):
    """The texts of a log's batches, which stay in this process; ids say where each is."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._batches: list[Kept[pa.Array]] = []

    def add(self, texts: pa.Array) -> int:
        """Keeps the texts of a batch; the id of its first text, from which the others follow."""
        kept = self._workspace.keep(texts)
        with self._workspace.lock:
            self._batches.append(kept)
            return len(self._batches) - 1 << 32

    def take(self, ids: Integers) -> pa.Array:
        """The texts with these ids."""
        if not len(ids):
            return pa.array([], pa.large_string())
        order = np.argsort(ids, kind="stable")
        batches, starts = np.unique(ids[order] >> 32, return_index=True)
        parts = [pa.array([], pa.large_string())]
        for batch, start, end in zip(batches, starts, [*starts[1:], len(ids)], strict=False):
            places = ids[order[start:end]] & 0xFFFFFFFF
            parts.append(self._batches[batch].load(mapped=True).take(pa.array(places)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))

    def close(self) -> None:
        """Deletes the texts."""
        for kept in self._batches:
            kept.close()
        self._batches.clear()


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
    rank: Integers | None  # NO_RANK for none
    kept: Mapping[str, Column]
    texts: Texts
    text_keys: TextKeys

    @property
    def count(self) -> int:
        return len(self.unit)

    def at(self, rows: Mask | Integers) -> "Rows":
        """Some of the rows, in order."""
        if rows.dtype == bool and rows.all():
            return self
        return replace(
            self,
            unit=self.unit[rows],
            time=self.time[rows],
            query=self.query.at(rows),
            url=self.url.at(rows) if self.url else None,
            rank=None if self.rank is None else self.rank[rows],
            kept={name: column.at(rows) for name, column in self.kept.items()},
        )

    def since(self, moment: datetime) -> Mask:
        """Which rows are from a moment on; rows without a time are not."""
        start = np.datetime64(moment, "us").astype(np.int64)
        return np.asarray((self.time >= start) & (self.time != NEVER))


NO_RANK = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class _BatchColumn:
    """A column of a batch: of each row the code of its text, -1 for none; what each code stands for."""

    codes: Integers
    keys: Keys
    first: int  # the id of the first code's text, from which the others follow


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanBatch:
    """The columns of a batch, and which of its rows are usable."""

    user: Keys
    time: Integers
    size: Integers  # the bytes of each row's texts
    query: _BatchColumn
    url: _BatchColumn | None
    rank: Integers | None
    kept: Mapping[str, _BatchColumn]
    usable: Mask


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadRows:
    """The rows of a source by partition, how many there are, and how many were dropped, by reason."""

    partitions: Partitions[Rows]
    rows: int
    broken: Mapping[str, int]
    screened: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowReader:
    """How batches of a source become rows of partitions.

    On the way rows are words of 64 bits, a line for each row: the key of its unit, the key of its user
    (for units of time), time, bytes, then for each text its key and its id, and the rank beside a url.
    """

    cleaning: Cleaning
    text_keys: TextKeys
    texts: Texts
    unit: str = "user"
    bits: int = 4  # of a unit's key: they say which of 2^bits partitions it belongs to
    most_rows: int = 1 << 20  # of a partition; a larger one is split again
    most_bytes: int = 1 << 28  # of its texts

    def read(
        self,
        batches: Iterable[pa.RecordBatch],
        workspace: Workspace,
        advance: Callable[[int], None] = lambda _: None,
    ) -> "ReadRows":
        """The rows by partition, and how many were dropped."""
        buckets: list[list[Kept[Words]]] = [[] for _ in range(1 << self.bits)]
        rows, broken, screened = 0, dict[str, int](), dict[str, int]()

        def work(
            batch: pa.RecordBatch,
        ) -> tuple[Any, int, int, Mapping[str, int], Mapping[str, int]]:
            clean, why_broken, why_screened = self.clean(batch)
            lines, ends = self.route(self.lines(clean), 0, self.bits)
            return (
                workspace.keep_slices(lines, ends), batch.num_rows, int(clean.usable.sum()),
                why_broken, why_screened,
            )  # fmt: skip

        for kept, read, usable, why_broken, why_screened in workspace.map(work, batches):
            for bucket, piece in zip(buckets, kept, strict=True):
                bucket.append(piece)
            rows += usable
            for total, part in ((broken, why_broken), (screened, why_screened)):
                for reason, number in part.items():
                    total[reason] = total.get(reason, 0) + number
            advance(read)
        parts = workspace.map(lambda bucket: list(self.partitions(bucket, workspace)), buckets)
        partitions = LocalPartitions([part for some in parts for part in some], workspace)
        return ReadRows(partitions=partitions, rows=rows, broken=broken, screened=screened)

    def partitions(
        self, pieces: list[Kept[Words]], workspace: Workspace, used: int | None = None
    ) -> Iterator[Kept[Rows]]:
        """The partitions that a bucket of units comes to: one, or more if it is too large for one."""
        used = self.bits if used is None else used
        waiting = [np.zeros((0, self.width), np.uint64)]
        for number, piece in enumerate(pieces):
            waiting.append(piece.load())
            piece.close()
            if not self._are_many(waiting):
                continue
            waiting = [self.cut(np.concatenate(waiting))]
            if used < 64 and self._are_many(waiting) and _units_differ(waiting[0]):
                # Too many units: each goes to one of several smaller buckets.
                smaller: list[list[Kept[Words]]] = [[] for _ in range(1 << SPLIT_BITS)]
                later = pieces[number + 1 :]
                for lines in chain(waiting, (piece.load() for piece in later)):
                    kept = workspace.keep_slices(*self.route(lines, used, SPLIT_BITS))
                    for bucket, part in zip(smaller, kept, strict=True):
                        bucket.append(part)
                waiting.clear()
                for piece in later:
                    piece.close()
                for bucket in smaller:
                    yield from self.partitions(bucket, workspace, used + SPLIT_BITS)
                return
        yield workspace.keep(self.settle(np.concatenate(waiting)))

    def _are_many(self, pieces: Sequence[Words]) -> bool:
        rows = sum(map(len, pieces))
        size = sum(int(lines[:, self._time + 1].sum()) for lines in pieces)
        return rows > self.most_rows or size > self.most_bytes

    @property
    def _time(self) -> int:
        """The place of the time in a line; before it is the key of the unit, and that of the user."""
        return 4 if self.unit in PERIODS else 2

    @property
    def width(self) -> int:
        """How many words a line has."""
        return self._time + 5 + 4 * (self.cleaning.url is not None) + 3 * len(self.cleaning.keep)

    def clean(
        self, batch: pa.RecordBatch
    ) -> tuple[CleanBatch, Mapping[str, int], Mapping[str, int]]:
        """A batch with clean text, and how many of its rows were dropped, by reason."""
        batch, size, too_long = self._short(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        cleaning, count = self.cleaning, batch.num_rows
        query, reasons = self._queries(columns["query"])
        url, linked = None, np.zeros(count, bool)
        if "url" in columns:
            url, linked = self._urls(columns["url"])
        user, known = self._users(columns["user"])
        if "time" in columns:
            moment = columns["time"].cast(pa.timestamp("us")).view(pa.int64())
            time = moment.fill_null(NEVER).to_numpy(zero_copy_only=False)
            bad_time = columns["bad_time"].to_numpy(zero_copy_only=False)
        else:
            time, bad_time = np.full(count, NEVER, np.int64), np.zeros(count, bool)
        rank = None
        if "rank" in columns:
            rank = (
                columns["rank"].cast(pa.int32()).fill_null(NO_RANK).to_numpy(zero_copy_only=False)
            )
        facts = RowFacts(
            count=count,
            there={
                "user": known,
                "query": query.codes >= 0,
                "time": time != NEVER,
                "url": linked if url is None else url.codes >= 0,
            },
            stated={"time": bad_time | (time != NEVER), "url": linked},
            time=time,
        )
        stays, broken = judge(facts, cleaning)
        if too_long:
            broken[TOO_LONG] = too_long
        screened = {}
        for reason, rows in reasons.items():
            hit = stays & rows
            screened[reason] = int(hit.sum())
            stays &= ~hit
        clean = CleanBatch(
            user=user,
            time=time,
            size=size,
            query=query,
            url=url,
            rank=rank,
            kept={name: self._kept(columns[f"k{i}"]) for i, name in enumerate(cleaning.keep)},
            usable=stays,
        )
        return clean, broken, screened

    def _short(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Integers, int]:
        """The rows without a value that is too long, the bytes of their texts, and how many others there are."""
        size, short = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, bool)
        for column in batch.columns:
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                length = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
                size += length
                short &= length <= MOST_BYTES_A_VALUE
        if short.all():
            return batch, size, 0
        return batch.filter(pa.array(short)), size[short], int((~short).sum())

    def lines(self, batch: CleanBatch) -> Words:
        """The usable rows of a batch; of units of time only those that have one."""
        rows = np.flatnonzero(
            batch.usable & (batch.time != NEVER) if self.unit in PERIODS else batch.usable
        )
        lines = np.empty((len(rows), self.width), np.uint64)
        user, time = batch.user[rows], batch.time[rows]
        lines[:, :2] = user
        if self.unit in PERIODS:
            period = np.zeros((len(rows), 2), np.uint64)
            period[:, 0] = period_start(time, PERIODS[self.unit]).astype(np.uint64)
            lines[:, :2] = self.text_keys.combine([user, period])
            lines[:, 2:4] = user
        place = self._time
        lines[:, place] = time.view(np.uint64)
        lines[:, place + 1] = batch.size[rows].view(np.uint64)
        place += 2
        for column in (batch.query, *([batch.url] if batch.url else []), *batch.kept.values()):
            codes = column.codes[rows]
            lines[:, place : place + 2] = column.keys[codes] if len(column.keys) else 0
            ids = column.first + codes.astype(np.int64)
            if (missing := codes < 0).any():
                lines[missing, place : place + 2] = 0
                ids[missing] = -1
            lines[:, place + 2] = ids.view(np.uint64)
            place += 3
            if column is batch.url:
                assert batch.rank is not None
                lines[:, place] = batch.rank[rows].astype(np.int64).view(np.uint64)
                place += 1
        return lines

    def route(self, lines: Words, used: int, bits: int) -> tuple[Words, list[int]]:
        """The lines by the bits of their unit's key after those used, and where those of each end."""
        # Two steps, because a shift by 64 bits is not defined.
        place = lines[:, 0] << np.uint64(used) >> np.uint64(1) >> np.uint64(63 - bits)
        place = place.astype(np.uint16)
        ends = np.cumsum(np.bincount(place, minlength=1 << bits))
        return lines[np.argsort(place, kind="stable")], [0, *ends.tolist()]

    def cut(self, lines: Words) -> Words:
        """The lines without those that no further lines can bring back into `settle`.

        Of each unit its first rows in the order of time and then of the record, as many as fit into
        `MOST_ROWS_A_UNIT` and `MOST_BYTES_A_UNIT`, and the first that does not fit: so that a cut of what
        a cut left, together with further lines, is the cut of all.
        """
        return lines[self._within(lines, more=1)]

    def _within(self, lines: Words, *, more: int = 0) -> Integers:
        """The lines of each unit up to the first that does not fit, and so many of the following."""
        if len(lines) <= MOST_ROWS_A_UNIT and lines[:, self._time + 1].sum() <= MOST_BYTES_A_UNIT:
            return np.arange(len(lines))
        unit, _ = number_keys(np.ascontiguousarray(lines[:, :2]))
        rows, size = np.bincount(unit), np.bincount(unit, weights=lines[:, self._time + 1])
        large = (rows > MOST_ROWS_A_UNIT) | (size > MOST_BYTES_A_UNIT)
        kept = [np.flatnonzero(~large[unit])]
        for number in np.flatnonzero(large):
            own = np.flatnonzero(unit == number)
            record = [lines[own, column] for column in self._record_columns()]
            own = own[np.lexsort((*reversed(record), lines[own, self._time].view(np.int64)))]
            used = np.cumsum(lines[own, self._time + 1].view(np.int64))
            fits = (np.arange(len(own)) < MOST_ROWS_A_UNIT) & (used <= MOST_BYTES_A_UNIT)
            # The first that does not fit ends the unit: what follows it is not looked at.
            end = len(own) if fits.all() else int(np.argmin(fits)) + more
            kept.append(own[:end])
        return np.sort(np.concatenate(kept))

    def _record_columns(self) -> list[int]:
        """The words of a line that say what the row is; ids only say where its texts are."""
        columns, place = [self._time + 1], self._time + 2
        for name in ("query", *(["url"] if self.cleaning.url else []), *self.cleaning.keep):
            columns += [place, place + 1]
            place += 3
            if name == "url" and len(columns) == 5:
                columns.append(place)
                place += 1
        return columns

    def id_columns(self) -> list[int]:
        """The words of a line that say where its texts are."""
        after = self._time + 2
        urls = self.cleaning.url is not None
        kept = after + 3 + 4 * urls
        others = [kept + 3 * place + 2 for place in range(len(self.cleaning.keep))]
        return [after + 2, *([after + 5] if urls else []), *others]

    def settle(self, lines: Words) -> Rows:
        """The rows of a partition in order, with codes for units and texts."""
        within = self._within(lines)
        if len(within) < len(lines):
            lines = lines[within]
        unit_keys = np.ascontiguousarray(lines[:, :2])
        unit, unit_row = number_keys(unit_keys)
        time = np.ascontiguousarray(lines[:, self._time]).view(np.int64)
        order = order_in_time(unit, time)
        user = slice(2, 4) if self.unit in PERIODS else slice(0, 2)
        columns, rank, place = [], None, self._time + 2
        for number in range(1 + (self.cleaning.url is not None) + len(self.cleaning.keep)):
            columns.append(_settle_column(lines[:, place : place + 3], order))
            place += 3
            if number == 1 and self.cleaning.url is not None:
                rank = lines[order, place].view(np.int64).astype(np.int32)
                place += 1
        query, *columns = columns
        url = columns.pop(0) if self.cleaning.url is not None else None
        return Rows(
            unit=unit[order],
            unit_keys=unit_keys[unit_row],
            user_keys=lines[unit_row, user],
            time=time[order],
            query=query,
            url=url,
            rank=rank,
            kept=dict(zip(self.cleaning.keep, columns, strict=True)),
            texts=self.texts,
            text_keys=self.text_keys,
        )

    def _users(self, users: pa.Array) -> tuple[Keys, Mask]:
        """The keys of users, texts or whole numbers, and whether there is one."""
        if pa.types.is_integer(users.type):
            numbers = users.fill_null(0).to_numpy(zero_copy_only=False)
            return self.text_keys.numbers(numbers), users.is_valid().to_numpy(zero_copy_only=False)
        known = pc.fill_null(pc.greater(pc.binary_length(users), 0), False)
        return self.text_keys.texts(users), known.to_numpy(zero_copy_only=False)

    def _queries(self, queries: pa.Array) -> tuple[_BatchColumn, Mapping[str, Mask]]:
        """The clean queries, and under each reason to drop some the rows of these."""
        codes, keys, texts = self._distinct(queries)
        texts, keys = self._clean(texts, keys, *changed_queries(texts, self.cleaning))
        reasons = {
            reason: np.append(places, False)[codes]
            for reason, places in screen_texts(texts, self.cleaning).items()
        }
        return self._column(codes, keys, texts), reasons

    def _urls(self, urls: pa.Array) -> tuple[_BatchColumn, Mask]:
        """The clean urls, and whether the source has one for the row."""
        codes, keys, texts = self._distinct(urls)
        empty = pc.equal(texts, "").to_numpy(zero_copy_only=False)
        linked = ~np.append(empty, True)[codes]
        cleaned = clean_urls(texts, self.cleaning)
        changed = pc.fill_null(pc.not_equal(cleaned, texts), True)
        places = pc.indices_nonzero(changed).to_numpy()
        texts, keys = self._clean(texts, keys, places, cleaned.take(pa.array(places)))
        return self._column(codes, keys, texts), linked

    def _kept(self, values: pa.Array) -> _BatchColumn:
        """The values of a kept column; an empty text is none."""
        codes, keys, texts = self._distinct(values)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
        return self._column(codes, keys, texts)

    def _distinct(self, column: pa.Array) -> tuple[Integers, Keys, pa.Array]:
        """Of each row the code of its text, -1 for none; the key and the text of each code."""
        keys = self.text_keys.texts(column)
        codes, rows = group_keys(keys)
        if column.null_count:  # a null has the key of no text, and a code of its own
            codes = codes.copy()
            codes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        texts = column.take(pa.array(rows)).cast(pa.large_string())
        return codes, keys[rows], texts.fill_null("") if texts.null_count else texts

    def _clean(
        self, texts: pa.Array, keys: Keys, places: Integers, clean: pa.Array
    ) -> tuple[pa.Array, Keys]:
        """The texts and their keys with clean ones at some places; null where nothing is left."""
        if len(places):
            changed = np.zeros(len(texts), bool)
            changed[places] = True
            # Cleaning can make a text longer; the bound is on what is keyed.
            fits = pc.less_equal(pc.binary_length(clean), MOST_BYTES_A_VALUE)
            clean = pc.if_else(fits, clean, pa.scalar(None, clean.type))
            texts = pc.replace_with_mask(texts, pa.array(changed), clean.cast(texts.type))
            keys = keys.copy()
            keys[places] = self.text_keys.texts(clean)
        return texts, keys

    def _column(self, codes: Integers, keys: Keys, texts: pa.Array) -> _BatchColumn:
        """The column whose codes stand for these texts, which are kept; null for none."""
        if texts.null_count:
            missing = np.append(texts.is_null().to_numpy(zero_copy_only=False), True)
            codes = np.where(missing[codes], np.int32(-1), codes)
        return _BatchColumn(codes, keys, self.texts.add(texts))


def order_in_time(unit: Integers, time: Integers) -> Integers:
    """An order of rows by unit and time; rows of one unit and time come in any order."""
    if not len(unit):
        return np.zeros(0, np.int64)
    timed = time != NEVER
    first = time.min(where=timed, initial=NEVER)
    span = int(time.max(where=timed, initial=first)) - int(first) + 2 if timed.any() else 1
    bits = (span - 1).bit_length()
    if int(unit.max()).bit_length() + bits > 64:
        return np.lexsort((time, unit))
    offset = np.where(timed, time - first, span - 1).astype(np.uint64)
    return np.argsort(unit.astype(np.uint64) << np.uint64(bits) | offset)


def period_start(time: Integers, period: str) -> Integers:
    """The first day of each moment's day, week (from Monday) or month, as days since 1970."""
    day = time // MICROSECONDS_A_DAY
    if period == "W":
        return np.asarray(day - (day + 3) % 7)  # 1970-01-01 was a Thursday
    if period == "M":
        month = day.astype("datetime64[D]").astype("datetime64[M]")
        return np.asarray(month.astype("datetime64[D]").astype(np.int64))
    return np.asarray(day)


def _settle_column(lines: Words, order: Integers) -> Column:
    """A column of a partition from the words of its keys and ids, in the order of the rows."""
    keys, ids = np.ascontiguousarray(lines[:, :2]), np.ascontiguousarray(lines[:, 2]).view(np.int64)
    there = np.flatnonzero(ids >= 0)
    if len(there) == len(ids):
        codes, rows = number_keys(keys)
    else:
        codes = np.full(len(ids), -1, np.int32)
        codes[there], rows = number_keys(keys[there])
        rows = there[rows]
    return Column(codes=codes[order], keys=keys[rows], ids=ids[rows])


def _units_differ(lines: Words) -> bool:
    return bool((lines[:, :2] != lines[0, :2]).any())
