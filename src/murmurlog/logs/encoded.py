"""Dictionary-encoded rows of a log: rows hold integer codes, and each string is stored once.

Most of the cost of a release is hashing, comparing and copying strings. Here each string is hashed
once. Dictionaries are exact: strings are never replaced by hashes. Cleaning and screening process
each distinct string once. Only for rows that fit into memory: `partitions` ensures that, and
`table_cleaning` gives the same rows for any log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import changeable
from murmurlog.bundle.keys import PLAIN_URL
from murmurlog.logs.cleaning import Cleaning, judge

TYPED = ("time", "bad_time", "rank")
USER_NUMBER = "user_number"  # a column of a source's rows: users as whole numbers, if they are
NEVER = np.iinfo(np.int64).max  # the time of a row that has none: after all others

Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedColumn:
    """A column of strings (or lists of them): for each row the code of its string, -1 for none."""

    codes: npt.NDArray[np.int32]
    texts: pa.Array  # the string of each code

    def at(self, rows: Mask | Integers) -> "EncodedColumn":
        """Some of the rows."""
        return EncodedColumn(codes=self.codes[rows], texts=self.texts)

    def column(self) -> pa.Array:
        """The column as an Arrow dictionary array; no string is copied. Lists are."""
        if pa.types.is_list(self.texts.type):
            return self.texts.take(pa.array(self.codes))
        none = self.codes < 0
        codes = pa.array(self.codes, mask=none if none.any() else None)
        return pa.DictionaryArray.from_arrays(codes, self.texts, safe=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedRows:
    """Rows of a log whose strings are dictionary-encoded."""

    user: EncodedColumn
    time: npt.NDArray[np.int64]  # microseconds since 1970, NEVER for none
    query: EncodedColumn
    url: EncodedColumn | None
    rank: pa.Array | None
    kept: Mapping[str, EncodedColumn]

    @property
    def rows(self) -> int:
        return len(self.time)

    def at(self, rows: Mask) -> "EncodedRows":
        """Some of the rows."""
        if rows.all():
            return self
        return EncodedRows(
            user=self.user.at(rows),
            time=self.time[rows],
            query=self.query.at(rows),
            url=self.url.at(rows) if self.url else None,
            rank=self.rank.filter(pa.array(rows)) if self.rank is not None else None,
            kept={name: column.at(rows) for name, column in self.kept.items()},
        )

    def empty(self) -> "EncodedRows":
        """None of the rows."""
        return self.at(np.zeros(self.rows, bool))

    def since(self, moment: datetime) -> "EncodedRows":
        """The rows from a moment on; rows without a time are not among them."""
        start = np.datetime64(moment, "us").astype(np.int64)
        return self.at((self.time >= start) & (self.time != NEVER))

    def partitions(self) -> "Iterator[EncodedRows]":
        """All rows at once: in memory there is one partition."""
        yield self

    def table(self) -> pa.Table:
        """user, time, query, url, rank, then the columns kept."""
        never = self.time == NEVER
        time = pa.array(self.time, mask=never if never.any() else None)
        return pa.table(
            {
                "user": self.user.column(),
                "time": time.view(pa.timestamp("us")),
                "query": self.query.column(),
                "url": self.url.column() if self.url else pa.nulls(self.rows, pa.string()),
                "rank": pa.nulls(self.rows, pa.int32()) if self.rank is None else self.rank,
                **{name: column.column() for name, column in self.kept.items()},
            }
        )


def columns_to_encode(raw: Any, cleaning: Cleaning) -> dict[str, Any]:
    """The columns of a source's rows that `encode` needs, as Ibis expressions."""
    columns = {"user": user_to_encode(raw), "query": raw.query}
    if cleaning.timed:
        columns |= {"time": raw.time, "bad_time": raw.timed & raw.time.isnull()}
    if cleaning.url is not None:
        columns |= {"url": raw.url, "rank": raw["rank"]}
    return columns | {f"k{i}": raw[f"k{i}"] for i in range(len(cleaning.keep))}


def user_to_encode(raw: Any) -> Any:
    """The column of users: text, or whole numbers whose text is the user's."""
    return raw[USER_NUMBER] if USER_NUMBER in raw.columns else raw.user


def encode(pieces: dict[str, list[pa.Array]], cleaning: Cleaning) -> EncodedRows:
    """The usable rows, cleaned and screened; empties `pieces` to free memory."""
    rows, bad_time = _encode_all(pieces, cleaning.keep)
    query, reasons = _clean_queries(rows.query, cleaning)
    linked = rows.url.codes >= 0 if rows.url else np.zeros(rows.rows, bool)
    url = _clean_urls(rows.url, cleaning) if rows.url else None
    rows = replace(rows, query=query, url=url)
    stays, broken = judge(_EncodedColumns(rows, bad_time, linked), cleaning)
    cleaning.broken.update({reason: int(n) for reason, n in broken.items()})
    for reason, codes in reasons.items():
        hit = np.zeros(len(query.texts) + 1, bool)  # the last one is for rows without a query
        hit[codes] = True
        found = stays & hit[query.codes]
        if n := int(found.sum()):
            cleaning.screened[reason] += n
        stays = stays & ~found
    return rows.at(stays)


@dataclass(frozen=True)
class _EncodedColumns:
    """Facts about encoded rows with clean text, as masks."""

    rows: EncodedRows
    bad_time: Mask
    linked: Mask

    def every(self) -> Mask:
        return np.ones(self.rows.rows, bool)

    def missing(self, name: str) -> Mask:
        if name == "time":
            return np.asarray(self.rows.time == NEVER)
        column: EncodedColumn | None = getattr(self.rows, name)
        return self.every() if column is None else column.codes < 0

    def given(self, name: str) -> Mask:
        return {"time": self.bad_time | ~self.missing("time"), "url": self.linked}[name]

    def before(self, moment: Any) -> Mask:
        return np.asarray(self.rows.time < np.datetime64(moment, "us").astype(np.int64))


def _encode_all(pieces: dict[str, list[pa.Array]], keep: Sequence[str]) -> tuple[EncodedRows, Mask]:
    """Every row of the source as it is, and whether its time cannot be read."""
    # A column at a time: its strings are freed as soon as they are encoded.
    texts = {name: _encode_column(pieces.pop(name)) for name in [*pieces] if name not in TYPED}
    count = len(texts["user"].codes)
    if "time" in pieces:
        given = _concatenate(pieces.pop("time"), pa.timestamp("us")).view(pa.int64())
        given = given.fill_null(NEVER) if given.null_count else given
        time = given.to_numpy(zero_copy_only=False)
        bad_time = _concatenate(pieces["bad_time"], pa.bool_()).to_numpy(zero_copy_only=False)
    else:  # one number stands for all rows
        time, bad_time = np.broadcast_to(np.int64(NEVER), count), np.zeros(count, bool)
    rows = EncodedRows(
        user=_without_empty(texts["user"]),
        time=time,
        query=texts["query"],
        url=_without_empty(texts["url"]) if "url" in texts else None,
        rank=_concatenate(pieces["rank"], pa.int32()) if "rank" in pieces else None,
        kept={name: _without_empty(texts[f"k{i}"]) for i, name in enumerate(keep)},
    )
    return rows, bad_time


def _encode_column(pieces: list[pa.Array]) -> EncodedColumn:
    """All pieces with one dictionary."""
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return EncodedColumn(codes=np.zeros(0, np.int32), texts=pa.array([], pa.string()))
    chunks = pa.chunked_array(pieces).dictionary_encode().chunks
    codes = [
        (chunk.indices.fill_null(-1) if chunk.null_count else chunk.indices).to_numpy()
        for chunk in chunks
    ]
    return EncodedColumn(codes=np.concatenate(codes), texts=chunks[0].dictionary.cast(pa.string()))


def _without_empty(column: EncodedColumn) -> EncodedColumn:
    """The column with empty strings missing."""
    empty = pc.index(column.texts, "").as_py()
    if empty < 0:
        return column
    codes = np.where(column.codes == empty, np.int32(-1), column.codes)
    return EncodedColumn(codes=codes, texts=column.texts)


def _concatenate(pieces: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind)


def _clean_queries(
    query: EncodedColumn, cleaning: Cleaning
) -> tuple[EncodedColumn, Mapping[str, Integers]]:
    """The queries as keys, and under each reason to drop queries the codes of those."""
    texts = query.texts
    # One pass finds the strings that may change; usually there are few.
    checked = pc.match_substring_regex(texts, changeable(cleaning.keys))
    for space in (pc.starts_with(texts, " "), pc.ends_with(texts, " "), pc.equal(texts, "")):
        checked = pc.or_(checked, space)
    places = pc.indices_nonzero(checked)
    raw, clean_key = texts.take(places).to_pylist(), cleaning.cleaners["query"]
    clean = [clean_key(text) for text in raw]
    differs = np.array([a != b for a, b in zip(raw, clean, strict=True)], bool)
    new = pa.array(clean, pa.string())
    becomes, texts = _recode(texts, places.to_numpy()[differs], new.filter(pa.array(differs)))
    codes = query.codes
    if differs.any():
        codes = np.append(becomes, np.int32(-1))[codes]  # none stays none
    found = _screen(texts, np.flatnonzero(becomes == np.arange(len(becomes))), cleaning)
    return EncodedColumn(codes=codes, texts=texts), found


def _screen(texts: pa.Array, clean: Integers, cleaning: Cleaning) -> dict[str, Integers]:
    """The codes of the queries that each reason drops, among those that are clean."""
    reasons: dict[str, list[int]] = {}
    if cleaning.screens:
        screened = texts if len(clean) == len(texts) else texts.take(pa.array(clean))
        # Python looks at the few strings that Arrow cannot rule out.
        left = cleaning.suspects(screened)
        codes = clean[left.to_numpy()].tolist()
        for code, text in zip(codes, screened.take(left).to_pylist(), strict=True):
            for reason in cleaning.reasons(text):
                reasons.setdefault(reason, []).append(code)
    return {reason: np.array(some) for reason, some in sorted(reasons.items())}


def _recode(
    texts: pa.Array, changed: Integers, new: pa.Array
) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """The code that each code becomes, -1 for none; and the dictionary with the new strings.

    A new string that is already in the dictionary keeps its code.
    """
    becomes = np.arange(len(texts), dtype=np.int32)
    if len(changed) == 0:
        return becomes, texts
    distinct = pc.unique(new.drop_null())
    there = pc.index_in(texts, value_set=distinct)
    known = pc.indices_nonzero(there.is_valid()).to_numpy()
    place = np.full(len(distinct), -1, np.int64)
    place[there.drop_null().to_numpy()] = known
    missing = np.flatnonzero(place < 0)
    place[missing] = len(texts) + np.arange(len(missing))
    added = distinct.take(pa.array(missing))
    which = pc.index_in(new, value_set=distinct).fill_null(-1).to_numpy(zero_copy_only=False)
    becomes[changed] = np.append(place, -1)[which]
    becomes = np.append(becomes, place[missing].astype(np.int32))
    return becomes, pa.concat_arrays([texts, added])


def _clean_urls(url: EncodedColumn, cleaning: Cleaning) -> EncodedColumn:
    cleaned, clean = _plain_urls(url.texts, cleaning), cleaning.cleaners["url"]
    if cleaned.null_count:
        left = pc.is_null(cleaned)
        rest = [clean(text) for text in url.texts.filter(left).to_pylist()]
        cleaned = pc.replace_with_mask(cleaned, left, pa.array(rest, pa.string()))
    encoded = cleaned.dictionary_encode()
    becomes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.append(becomes, np.int32(-1))[url.codes]
    return EncodedColumn(codes=codes, texts=encoded.dictionary)


def _plain_urls(texts: pa.Array, cleaning: Cleaning) -> pa.Array:
    """What `clean_url` makes of urls of the most common form; null where Python has to look."""
    if cleaning.url == "id":
        return pa.nulls(len(texts), pa.string())
    parts = pc.extract_regex(texts, rf"\A{PLAIN_URL}\z")  # null where it does not match
    names = {"host": ["host"], "path": ["host", "path"], "full": ["host", "path", "query"]}
    columns = {name: pc.struct_field(parts, name) for name in names[cleaning.url or "host"]}
    if "path" in columns:
        columns["path"] = pc.ascii_rtrim(columns["path"], "/")
    return pc.binary_join_element_wise(*columns.values(), "")
