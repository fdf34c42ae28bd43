"""The rows of a partition of a log as numbers, and how the rows of a source get there.

A text is its 128-bit key. Batches of a source are cleaned and keyed side by side, each distinct text once,
and their rows go to partitions by the key of their unit; the texts stay where they were read, and are
looked up again for the few keys that are published. In a partition rows are in order of unit and time,
and each distinct text has a code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.logs.cleaning import Cleaning, RowFacts, changed_queries, clean_urls, judge, screen_texts
from murmurlog.logs.text_keys import NO_KEYS, TextKeys, group_keys, number_keys
from murmurlog.logs.workspace import Kept, Resident, Workspace
from murmurlog.logs.partitions import LocalPartitions, Partitions
from murmurlog.privacy.sampler import Keys

NEVER = np.iinfo(np.int64).max  # the time of a row that has none: after all others
PERIODS = {"user-month": "M", "user-week": "W", "user-day": "D"}
MICROSECONDS_A_DAY = 86_400_000_000

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
        found = [pa.array([], pa.large_string())]
        for batch, some in zip(batches, np.split(order, starts[1:]), strict=True):
            places = ids[some] & 0xFFFFFFFF
            found.append(self._batches[batch].load().take(pa.array(places)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(found).take(pa.array(back))

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

    def since(self, moment: datetime) -> "Rows":
        """The rows from a moment on; rows without a time are not among them."""
        start = np.datetime64(moment, "us").astype(np.int64)
        return self.at((self.time >= start) & (self.time != NEVER))


NO_RANK = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class _BatchColumn:
    """A column of a batch: of each row the code of its text, -1 for none; what each code stands for."""

    codes: Integers
    keys: Keys
    first: int  # the id of the first code's text

    def at(self, rows: Integers) -> "_TextPiece":
        codes = self.codes[rows]
        if not len(self.keys):
            return _TextPiece(np.zeros((len(codes), 2), np.uint64), codes, self.first)
        return _TextPiece(self.keys[codes], codes, self.first)


@dataclass(frozen=True, eq=False)
class _TextPiece:
    """A column of a piece: the key of each row's text, and its place in the batch, -1 for none."""

    keys: Keys
    place: Integers
    first: int  # the id of the batch's first text

    def at(self, rows: slice) -> "_TextPiece":
        return _TextPiece(self.keys[rows], self.place[rows], self.first)


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanBatch:
    """The columns of a batch, and which of its rows are usable."""

    user: Keys
    time: Integers
    query: _BatchColumn
    url: _BatchColumn | None
    rank: Integers | None
    kept: Mapping[str, _BatchColumn]
    usable: Mask


@dataclass(frozen=True, kw_only=True, eq=False)
class RowPiece:
    """Clean rows of one batch and one partition."""

    unit: Keys
    user: Keys | None  # None: the units are users
    time: Integers
    query: _TextPiece
    url: _TextPiece | None
    rank: Integers | None
    kept: Mapping[str, _TextPiece]

    def at(self, rows: slice) -> "RowPiece":
        return RowPiece(
            unit=self.unit[rows],
            user=None if self.user is None else self.user[rows],
            time=self.time[rows],
            query=self.query.at(rows),
            url=self.url.at(rows) if self.url else None,
            rank=None if self.rank is None else self.rank[rows],
            kept={name: column.at(rows) for name, column in self.kept.items()},
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadRows:
    """The rows of a source by partition, how many there are, and how many were dropped, by reason."""

    partitions: Partitions[Rows]
    rows: int
    broken: Mapping[str, int]
    screened: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowReader:
    """How batches of a source become rows of partitions."""

    cleaning: Cleaning
    text_keys: TextKeys
    texts: Texts
    unit: str = "user"
    bits: int = 4  # of a unit's key: they say which of 2^bits partitions it belongs to

    def read(
        self,
        batches: Iterable[pa.RecordBatch],
        workspace: Workspace,
        advance: Callable[[int], None] = lambda _: None,
    ) -> "ReadRows":
        """The rows by partition, and how many were dropped."""
        pieces: list[list[Kept[RowPiece]]] = []
        rows, broken, screened = 0, dict[str, int](), dict[str, int]()

        def work(batch: pa.RecordBatch) -> tuple[Any, int, int, Mapping[str, int], Mapping[str, int]]:
            clean, why_broken, why_screened = self.clean(batch)
            return (
                workspace.keep_all(self.route(clean)), batch.num_rows, int(clean.usable.sum()),
                why_broken, why_screened,
            )  # fmt: skip

        for kept, read, usable, why_broken, why_screened in workspace.map(work, batches):
            pieces.append(kept)
            rows += usable
            for total, part in ((broken, why_broken), (screened, why_screened)):
                for reason, number in part.items():
                    total[reason] = total.get(reason, 0) + number
            advance(read)

        def settle(partition: int) -> Kept[Rows]:
            own = [batch[partition] for batch in pieces]
            settled = self.settle([piece.load() for piece in own])
            for piece in own:
                piece.close()
            return workspace.keep(settled)

        parts = list(workspace.map(settle, range(1 << self.bits)))
        return ReadRows(
            partitions=LocalPartitions(parts, workspace), rows=rows, broken=broken, screened=screened
        )

    def clean(
        self, batch: pa.RecordBatch
    ) -> tuple[CleanBatch, Mapping[str, int], Mapping[str, int]]:
        """A batch with clean text, and how many of its rows were dropped, by reason."""
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
            rank = columns["rank"].cast(pa.int32()).fill_null(NO_RANK).to_numpy(zero_copy_only=False)
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
        screened = {}
        for reason, rows in reasons.items():
            hit = stays & rows
            screened[reason] = int(hit.sum())
            stays &= ~hit
        clean = CleanBatch(
            user=user,
            time=time,
            query=query,
            url=url,
            rank=rank,
            kept={name: self._kept(columns[f"k{i}"]) for i, name in enumerate(cleaning.keep)},
            usable=stays,
        )
        return clean, broken, screened

    def route(self, batch: CleanBatch) -> list[RowPiece]:
        """The usable rows of each partition; of units of time only rows that have one."""
        rows = np.flatnonzero(
            batch.usable & (batch.time != NEVER) if self.unit in PERIODS else batch.usable
        )
        unit = user = batch.user[rows]
        if self.unit in PERIODS:
            period = np.zeros((len(rows), 2), np.uint64)
            period[:, 0] = period_start(batch.time[rows], PERIODS[self.unit]).astype(np.uint64)
            unit = self.text_keys.combine([user, period])
        partitions = 1 << self.bits
        # Two steps, because a shift by 64 bits is not defined.
        place = (unit[:, 0] >> np.uint64(1) >> np.uint64(63 - self.bits)).astype(np.uint16)
        order = np.argsort(place, kind="stable")
        rows = rows[order]
        piece = RowPiece(
            unit=unit[order],
            user=user[order] if self.unit in PERIODS else None,
            time=batch.time[rows],
            query=batch.query.at(rows),
            url=batch.url.at(rows) if batch.url else None,
            rank=None if batch.rank is None else batch.rank[rows],
            kept={name: column.at(rows) for name, column in batch.kept.items()},
        )
        ends = [0, *np.cumsum(np.bincount(place, minlength=partitions)).tolist()]
        return [piece.at(slice(start, end)) for start, end in zip(ends, ends[1:], strict=False)]

    def settle(self, pieces: Sequence[RowPiece]) -> Rows:
        """The rows of a partition in order, with codes for units and texts."""
        unit_keys = np.concatenate([NO_KEYS, *(piece.unit for piece in pieces)])
        time = np.concatenate([np.zeros(0, np.int64), *(piece.time for piece in pieces)])
        unit, unit_row = number_keys(unit_keys)
        order = order_in_time(unit, time)
        user_keys = unit_keys[unit_row]
        if any(piece.user is not None for piece in pieces):
            user_keys = np.concatenate([p.user for p in pieces if p.user is not None])[unit_row]

        def column(texts: Iterator[_TextPiece]) -> Column:
            return _settle_column(list(texts), order)

        return Rows(
            unit=unit[order],
            unit_keys=unit_keys[unit_row],
            user_keys=user_keys,
            time=time[order],
            query=column(piece.query for piece in pieces),
            url=column(piece.url for piece in pieces if piece.url)
            if self.cleaning.url is not None
            else None,
            rank=np.concatenate([np.zeros(0, np.int32), *(p.rank for p in pieces)])[order]  # type: ignore[list-item]
            if self.cleaning.url is not None
            else None,
            kept={
                name: column(piece.kept[name] for piece in pieces) for name in self.cleaning.keep
            },
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


def _settle_column(pieces: Sequence[_TextPiece], order: Integers) -> Column:
    """A column of a partition from its pieces, in the order of the rows."""
    keys = np.concatenate([NO_KEYS, *(piece.keys for piece in pieces)])
    place = np.concatenate([np.zeros(0, np.int32), *(piece.place for piece in pieces)])
    there = np.flatnonzero(place >= 0)
    if len(there) == len(place):
        codes, rows = number_keys(keys)
    else:
        codes = np.full(len(place), -1, np.int32)
        codes[there], rows = number_keys(keys[there])
        rows = there[rows]
    starts = np.cumsum([0, *(len(piece.place) for piece in pieces)])[:-1]
    first = np.array([piece.first for piece in pieces], np.int64)
    ids = first[np.searchsorted(starts, rows, side="right") - 1] + place[rows]
    return Column(codes=codes[order], keys=keys[rows], ids=ids)
