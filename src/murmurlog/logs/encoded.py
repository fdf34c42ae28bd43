"""A log as numbers: each text stands once in a list, and rows name it by its place there.

Most of what a release costs is text that is hashed, compared and copied again and again. Here it is
hashed once. The lists are exact, no hash stands for a text; cleaning and screening look at each text
once, whatever the number of its rows. Only for what fits into memory: `parts` sees to that, and `log`
has the general road, with the same rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import ODD, clean_url, normalise

TYPED = ("time", "bad_time", "rank")
PERIODS = {"user-month": "M", "user-week": "W", "user-day": "D"}
MICROSECONDS_A_DAY = 86_400_000_000
NEVER = np.iinfo(np.int64).max  # the time of a row that has none: after all others

Integers = npt.NDArray[Any]
Facts = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """A column of text: for each row the place of its text in the list, -1 for none."""

    codes: npt.NDArray[np.int32]
    texts: pa.Array

    def at(self, rows: Facts | Integers) -> "Texts":
        """Some of the rows."""
        return Texts(codes=self.codes[rows], texts=self.texts)

    def column(self) -> pa.DictionaryArray:
        """The column as Arrow has it; no text is copied."""
        none = self.codes < 0
        codes = pa.array(self.codes, mask=none if none.any() else None)
        return pa.DictionaryArray.from_arrays(codes, self.texts, safe=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """The rows of a log as numbers."""

    user: Texts
    time: npt.NDArray[np.int64]  # microseconds since 1970, NEVER for none
    query: Texts
    url: Texts | None
    rank: pa.Array | None
    kept: Mapping[str, Texts]

    @property
    def rows(self) -> int:
        return len(self.time)

    def at(self, rows: Facts) -> "Coded":
        """Some of the rows."""
        if rows.all():
            return self
        return Coded(
            user=self.user.at(rows),
            time=self.time[rows],
            query=self.query.at(rows),
            url=self.url.at(rows) if self.url else None,
            rank=self.rank.filter(pa.array(rows)) if self.rank is not None else None,
            kept={name: column.at(rows) for name, column in self.kept.items()},
        )

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


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How rows of a source become rows of a log, and where those that do not are counted.

    `why` gives the reasons to drop a normalised query. It is not asked about queries without any
    character of `needs`. Urls are cut at the level `url`, or left out.
    """

    url: str | None
    keep: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    why: Callable[[str], list[str]] | None
    needs: str | None
    broken: dict[str, int]
    screened: dict[str, int]

    def columns(self, raw: Any) -> dict[str, Any]:
        """The columns of a source that `clean` looks at."""
        columns = {
            "user": raw.user,
            "time": raw.time,
            "bad_time": raw.timed & raw.time.isnull(),
            "query": raw.query,
        }
        if self.url is not None:
            columns |= {"url": raw.url, "rank": raw["rank"]}
        return columns | {f"k{i}": raw[f"k{i}"] for i in range(len(self.keep))}

    def clean(self, pieces: dict[str, list[pa.Array]]) -> Coded:
        """The usable rows, cleaned and screened; empties what it is given."""
        coded, bad_time = _numbers(pieces, self.keep)
        query, reasons = _cleaned_queries(coded.query, self.why, self.needs)
        linked = coded.url.codes >= 0 if coded.url else np.zeros(coded.rows, bool)
        url = _cleaned_urls(coded.url, self.url) if coded.url and self.url else None
        coded = replace(coded, query=query, url=url)
        usable = _between(coded, bad_time, self.since, self.until, self.broken)
        usable = _usable(coded, usable, bad_time, linked, self.broken)
        if reasons:
            usable = _screened(coded, usable, reasons, self.screened)
        return coded.at(usable)


def _numbers(pieces: dict[str, list[pa.Array]], keep: Sequence[str]) -> tuple[Coded, Facts]:
    """Every row, as it stands in the source, and whether its time cannot be read."""
    # A column at a time: its texts go as soon as they are numbers.
    texts = {name: _texts(pieces.pop(name)) for name in [*pieces] if name not in TYPED}
    time = _together(pieces.pop("time"), pa.timestamp("us")).view(pa.int64())
    time = time.fill_null(NEVER) if time.null_count else time
    coded = Coded(
        user=_without_empty(texts["user"]),
        time=time.to_numpy(zero_copy_only=False),
        query=texts["query"],
        url=_without_empty(texts["url"]) if "url" in texts else None,
        rank=_together(pieces["rank"], pa.int32()) if "rank" in pieces else None,
        kept={name: _without_empty(texts[f"k{i}"]) for i, name in enumerate(keep)},
    )
    bad_time = _together(pieces["bad_time"], pa.bool_()).to_numpy(zero_copy_only=False)
    return coded, bad_time


def _texts(pieces: list[pa.Array]) -> Texts:
    """One list of texts for all pieces."""
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return Texts(codes=np.zeros(0, np.int32), texts=pa.array([], pa.string()))
    chunks = pa.chunked_array(pieces).dictionary_encode().chunks
    codes = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return Texts(codes=np.concatenate(codes), texts=chunks[0].dictionary)


def _without_empty(column: Texts) -> Texts:
    """The column with nothing where there is an empty text."""
    place = pc.index(column.texts, "").as_py()
    if place < 0:
        return column
    codes = np.where(column.codes == place, np.int32(-1), column.codes)
    return Texts(codes=codes, texts=column.texts)


def _together(pieces: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind)


def _cleaned_queries(
    query: Texts, why: Callable[[str], list[str]] | None, needs: str | None
) -> tuple[Texts, Mapping[str, Integers]]:
    """The queries normalised, and under each reason to drop queries the places of those."""
    texts = query.texts
    # One look at every text finds those that may change or may be dropped; they are few, as a rule.
    asked = why and needs is None
    suspect = f"{ODD}|[{re.escape(needs)}]" if why and needs else ODD
    looked_at = pc.match_substring_regex(texts, suspect) if not asked else pc.is_valid(texts)
    for space in (pc.starts_with(texts, " "), pc.ends_with(texts, " "), pc.equal(texts, "")):
        looked_at = pc.or_(looked_at, space)
    places = pc.indices_nonzero(looked_at)
    raw = texts.take(places).to_pylist()
    clean = [normalise(text) for text in raw]
    differs = np.array([a != b for a, b in zip(raw, clean, strict=True)], bool)
    new = pa.array(clean, pa.string())
    becomes, texts = _renamed(texts, places.to_numpy()[differs], new.filter(pa.array(differs)))
    codes = query.codes
    if differs.any():
        codes = np.append(becomes, np.int32(-1))[codes]  # none stays none
    reasons: dict[str, set[int]] = {}
    if why:
        for place, text in zip(becomes[places.to_numpy()].tolist(), clean, strict=True):
            for reason in why(text) if text is not None else ():
                reasons.setdefault(reason, set()).add(place)
    found = {reason: np.array(sorted(some)) for reason, some in sorted(reasons.items())}
    return Texts(codes=codes, texts=texts), found


def _renamed(
    texts: pa.Array, changed: Integers, new: pa.Array
) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """For each text the place of what it becomes, -1 for nothing; and the list with new texts.

    A new text that is in the list already keeps its place: what is normal is not changed.
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


def _cleaned_urls(url: Texts, level: str) -> Texts:
    clean = [clean_url(text, level) for text in url.texts.to_pylist()]
    coded = pa.array(clean, pa.string()).dictionary_encode()
    becomes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Texts(codes=np.append(becomes, np.int32(-1))[url.codes], texts=coded.dictionary)


def _between(
    coded: Coded,
    bad_time: Facts,
    since: datetime | None,
    until: datetime | None,
    broken: dict[str, int],
) -> Facts:
    """The rows of a period; those whose time was not given are broken then."""
    if since is None and until is None:
        return np.ones(coded.rows, bool)
    never = coded.time == NEVER
    untimed = never & ~bad_time & (coded.user.codes >= 0) & (coded.query.codes >= 0)
    broken["no time"] = broken.get("no time", 0) + int(untimed.sum())
    inside = np.ones(coded.rows, bool)
    if since:
        inside &= coded.time >= np.datetime64(since, "us").astype(np.int64)
    if until:
        inside &= coded.time < np.datetime64(until, "us").astype(np.int64)
    # Rows without a user, a query or a readable time stay, to be counted as such.
    return np.asarray(~untimed & (never | inside))


def _usable(
    coded: Coded, rows: Facts, bad_time: Facts, linked: Facts, broken: dict[str, int]
) -> Facts:
    """Of these rows those with a user, a query and no unreadable time; counts the others.

    A row whose url is unreadable is counted too, but stays, as a query without a click.
    """
    faults = {
        "no user": coded.user.codes < 0,
        "no query": coded.query.codes < 0,
        "unreadable time": bad_time,
    }
    for reason, fault in faults.items():
        broken[reason] = broken.get(reason, 0) + int((rows & fault).sum())
        rows = rows & ~fault
    bad_url = linked & (coded.url.codes < 0) if coded.url else np.zeros(coded.rows, bool)
    broken["unreadable url"] = broken.get("unreadable url", 0) + int((rows & bad_url).sum())
    return rows


def _screened(
    coded: Coded, rows: Facts, reasons: Mapping[str, Integers], counts: dict[str, int]
) -> Facts:
    """Of these rows those whose query there is no reason to drop; counts the others by reason."""
    for reason, places in reasons.items():
        hit = np.zeros(len(coded.query.texts) + 1, bool)  # the last one is for rows without any
        hit[places] = True
        found = rows & hit[coded.query.codes]
        if n := int(found.sum()):
            counts[reason] = counts.get(reason, 0) + n
        rows = rows & ~found
    return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """Who holds what and since when, as numbers."""

    unit: Integers
    time: Integers
    item: Integers
    keys: tuple[Texts, ...]  # of each item, a column for each key
    users: pa.Array
    unit_user: Integers | None  # of each unit the place of its user; None if users are the units
    unit_start: Integers | None  # and the day it starts on, since 1970

    def ranks(self, items: Integers) -> Integers:
        """The places of some items, each named once, in the order of the bytes of their texts."""
        columns = {
            str(i): key.texts.take(pa.array(key.codes[items])) for i, key in enumerate(self.keys)
        }
        order = pc.sort_indices(
            pa.table(columns), sort_keys=[(name, "ascending") for name in columns]
        )
        ranks = np.empty(len(items), np.int64)
        ranks[order.to_numpy()] = np.arange(len(items))
        return ranks

    def names(self, units: Integers) -> pa.Array:
        """The names of units, as `items` writes them."""
        if self.unit_user is None or self.unit_start is None:
            codes = pa.array(units, pa.int32())
            return pa.DictionaryArray.from_arrays(codes, self.users, safe=False)
        distinct, which = np.unique(units, return_inverse=True)
        days = pa.array(self.unit_start[distinct].astype("datetime64[D]"))
        user = self.users.take(pa.array(self.unit_user[distinct]))
        named = pc.binary_join_element_wise(days.cast(pa.string()), user, "|")
        return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), named)


def holdings(log: Coded, *, kind: str, unit: str, known: pa.Array | None) -> Holdings:
    """The queries or clicks of every unit, as often as they occur; of known queries only."""
    rows = np.ones(log.rows, bool)
    if kind == "click" and log.url:
        rows &= log.url.codes >= 0
    if unit in PERIODS:
        rows &= log.time != NEVER
    if known is not None and kind == "click":
        listed = pc.is_in(log.query.texts, value_set=known)
        rows &= listed.to_numpy(zero_copy_only=False)[log.query.codes]
    log = log.at(rows)
    if kind == "click" and log.url:
        item, first = _numbered(log.query.codes, log.url.codes)
        keys: tuple[Texts, ...] = (log.query.at(first), log.url.at(first))
    else:
        item = log.query.codes
        every = np.arange(len(log.query.texts), dtype=np.int32)
        keys = (Texts(codes=every, texts=log.query.texts),)
    units, unit_user, unit_start = log.user.codes, None, None
    if unit in PERIODS:
        start = _starts(log.time, PERIODS[unit])
        units, first = _numbered(log.user.codes, start - start.min(initial=0))
        unit_user, unit_start = log.user.codes[first], start[first]
    return Holdings(
        unit=units,
        time=log.time,
        item=item,
        keys=keys,
        users=log.user.texts,
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


def _numbered(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """A number for each distinct pair of two columns of numbers from 0 on, and a row that has it."""
    if len(first) == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    width = int(second.max()) + 1
    coded = pa.array(first.astype(np.int64) * width + second).dictionary_encode()
    number = coded.indices.to_numpy()
    row = np.empty(len(coded.dictionary), np.int64)
    row[number] = np.arange(len(number))
    return number, row
