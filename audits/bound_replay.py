"""Replays the contribution bound on every path, and compares it with a plain model and with itself.

A path is one implementation of the same steps: dictionary-encoded rows in memory, the same in partitions, and
tables of the engine (the general path). On each path, for many tables, units and orders, no unit may keep
more than d items, the items must be those of a plain model, and other users' rows must not matter: the log is
read again without them, and with their rows doubled and reversed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from replacement import replaced
from rounds_replay import count_weight_of

from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import BY_VALUE, By, keys_of
from murmurlog.counting import bound as bounding
from murmurlog.counting.items import items
from murmurlog.logs import partitions
from murmurlog.logs.engines.duckdb import DuckEngine, connect
from murmurlog.logs.log import Log, read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View
from murmurlog.mechanisms.rounds import fresh_counts, weights
from murmurlog.mechanisms.rounds.holders import holders_of_pairs
from murmurlog.privacy import WeightedCounts
from murmurlog.privacy.sampler import SeededEntropy

D = 3
USERS, MOST_ROWS = 24, 14
ROOM = 9000.0  # bytes for the rows of a partition
COUNTRIES = ("DE", "FR")
SEED = 1
START = datetime(2026, 1, 30, 22)
PUBLISHED = tuple(
    f"word{n} term{n % 5}" for n in range(0, 17, 3)
)  # queries, where only these count

Kept = dict[str, frozenset[tuple[Any, ...]]]  # by unit


class Row(NamedTuple):
    user: str
    query: str
    url: str | None
    time: datetime | None
    country: str


class Replayed(NamedTuple):
    """A table, unit and order of the bound that is replayed."""

    table: str
    unit: str = "user"
    way: str = "first"
    by: bool = False
    published: bool = False  # only of queries that the release has published

    def __str__(self) -> str:
        by = ", by a column" if self.by else ""
        published = ", of published queries" if self.published else ""
        return f"{self.table} per {self.unit}, bound {self.way}{by}{published}"


REPLAYED = (
    Replayed("query"),
    Replayed("query", way="random"),
    Replayed("query", unit="user-day"),
    Replayed("query", by=True),
    Replayed("query", by=True, way="random"),
    Replayed("click"),
    Replayed("click", way="random"),
    Replayed("click", unit="user-week"),
    Replayed("keyword"),
    Replayed("pair"),
    Replayed("session"),
    Replayed("session", published=True),
    Replayed("click", by=True, published=True),
    Replayed("click", by=True, published=True, way="random", unit="user-month"),
    Replayed("pair", by=True, published=True),
)


def make_rows() -> list[Row]:
    """Users with up to 14 rows over several days: repeats, equal times, rows without a time or click.

    Every fourth row comes after 40 minutes, during which only users of odd numbers search.
    """
    rows = []
    for user in range(USERS):
        for n in range(1 + (5 * user + 3) % MOST_ROWS):
            word = (7 * user + 11 * n + n * n) % 17
            # Every third row shares the time of the one before; days change now and then.
            minutes = 5 * (n - (n % 3 == 2)) + 40 * (n // 4) + 20 * (user % 2)
            at = START + timedelta(minutes=minutes, days=(n // 5) * (user % 4))
            rows.append(
                Row(
                    user=f"user{user}",
                    query=f"word{word} term{word % 5}",
                    url=None if (user + n) % 4 == 0 else f"site{word % 7}.org/page{n % 2}",
                    time=None if (user + 2 * n) % 13 == 0 else at,
                    country=COUNTRIES[(user + n) % 2],
                )
            )
    return rows


def variants(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The log, without half of the users, and with these users' rows doubled and all rows reversed."""
    others = [row for row in rows if _number(row) % 2]
    return {
        "as it is": list(rows),
        "without other users": [row for row in rows if _number(row) % 2 == 0],
        "with other users' rows doubled": [*rows, *others][::-1],
    }


def _number(row: Row) -> int:
    return int(row.user.removeprefix("user"))


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    columns = list(zip(*rows, strict=True))
    kinds = [pa.string(), pa.string(), pa.string(), pa.timestamp("us"), pa.string()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.table(dict(zip(Row._fields, arrays, strict=True))), path)


# --- paths -----------------------------------------------------------------------------------------


@contextmanager
def general_path(engine: DuckEngine) -> Iterator[None]:
    """Reads logs into tables of the engine."""
    with replaced(DuckEngine, "local", None):
        yield


@contextmanager
def partitioned_path(engine: DuckEngine) -> Iterator[None]:
    """Leaves memory for few rows, so that logs are encoded in partitions."""
    with (
        replaced(partitions, "ROOM", ROOM / engine.memory),
        replaced(partitions, "ROWS_A_BATCH", 7),
    ):
        yield


@contextmanager
def encoded_path(engine: DuckEngine) -> Iterator[None]:
    """Encodes logs in memory: what happens to a log of this size anyway."""
    yield


PATHS: Mapping[str, Callable[[DuckEngine], Any]] = {
    "encoded": encoded_path,
    "general": general_path,
    "partitions": partitioned_path,
}


# --- the model -------------------------------------------------------------------------------------


def _unit_of(row: Row, unit: str) -> str | None:
    if unit == "user":
        return row.user
    if row.time is None:
        return None
    day = row.time.date()
    if unit == "user-month":
        day = day.replace(day=1)
    elif unit == "user-week":
        day -= timedelta(days=day.weekday())
    return f"{day.isoformat()}|{row.user}"


def _items_of(row: Row, replayed: Replayed) -> list[tuple[Any, ...]]:
    value = (row.country,) if replayed.by else ()
    if replayed.table == "keyword":
        return [(word,) for word in row.query.split()]
    if replayed.table == "click":
        known = not replayed.published or (row.query, *value) in _published(by=replayed.by)
        return [(row.query, row.url, *value)] if row.url and known else []
    return [(row.query, *value)]


def _published(*, by: bool) -> list[tuple[str, ...]]:
    """The published keys of the query table; with --by each query under one of the values."""
    if not by:
        return [(query,) for query in PUBLISHED]
    return [(query, COUNTRIES[n % 2]) for n, query in enumerate(PUBLISHED)]


def model(rows: Sequence[Row], replayed: Replayed) -> dict[str, list[tuple[Any, ...]]] | None:
    """The distinct items of each unit in the order of the bound; None for what the model does not have."""
    if replayed.table == "session":
        return _model_of_sessions(rows, published=replayed.published)
    if replayed.table == "pair":
        return None
    held: dict[str, dict[tuple[Any, ...], datetime]] = {}
    for row in rows:
        if (unit := _unit_of(row, replayed.unit)) is None:
            continue
        for item in _items_of(row, replayed):
            first = held.setdefault(unit, {})
            first[item] = min(first.get(item, datetime.max), row.time or datetime.max)
    key = SeededEntropy(SEED).stream("choice").bytes(16)

    def order(unit: str, item: tuple[Any, ...]) -> tuple[Any, ...]:
        by = held[unit][item] if replayed.way == "first" else random_order(key, unit, item)
        return by, [part.encode() for part in item]

    return {
        unit: sorted(first, key=lambda item, unit=unit: order(unit, item))  # type: ignore[misc]
        for unit, first in held.items()
    }


def _model_of_sessions(rows: Sequence[Row], *, published: bool) -> dict[str, list[tuple[Any, ...]]]:
    """Each user's distinct sessions of two queries and more, in order of time; repeats are merged."""
    held: dict[str, list[list[tuple[datetime, str]]]] = {}
    timed = [(row.user, row.time, row.query) for row in rows if row.time is not None]
    for user, time, query in sorted(timed, key=lambda row: (*row[:2], row[2].encode())):
        own = held.setdefault(user, [])
        if not own or time - own[-1][-1][0] > timedelta(seconds=GAP):
            own.append([])
        own[-1].append((time, query))
    found: dict[str, dict[tuple[tuple[str, ...]], datetime]] = {}
    for user, sessions in held.items():
        for session in sessions:
            kept = [(t, query) for t, query in session if not published or query in PUBLISHED]
            queries = tuple(query for query, _ in groupby(query for _, query in kept))
            if len(queries) > 1:
                found.setdefault(user, {}).setdefault((queries,), kept[0][0])
    return {
        user: sorted(first, key=lambda item: (first[item], [q.encode() for q in item[0]]))
        for user, first in found.items()
    }


def _mix(word: int) -> int:
    """The finaliser of splitmix64."""
    word ^= word >> 30
    word = word * 0xBF58476D1CE4E5B9 % 2**64
    word ^= word >> 27
    word = word * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def _hash(text: str, seed: int) -> int:
    """Eight bytes a step, little end first, zeros behind the last; begins with seed xor length."""
    data = text.encode()
    found = seed ^ len(data)
    for at in range(0, max(1, len(data)), 8):
        found = _mix(found ^ int.from_bytes(data[at : at + 8], "little"))
    return found


def random_order(key: bytes, unit: str, item: Sequence[str]) -> int:
    """The number by which a random bound orders an item of a unit."""
    of_unit, of_items = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    found = 0
    for place, text in enumerate(item, 1):
        found = _mix(found ^ _hash(text, _mix((of_items + place) % 2**64)))
    return _mix(_hash(unit, of_unit) ^ found)


# --- the comparison --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    """What units keep, and how many rows said so."""

    kept: Kept
    rows: int


def _bounded(log: Log, replayed: Replayed) -> _Bounded:
    by = By(column=BY_VALUE, values=COUNTRIES) if replayed.by else None
    known = None
    if replayed.published:
        keys = _published(by=replayed.by)
        known = pa.table([*zip(*keys, strict=True)], names=keys_of("query", by))
    held = items(log, kind=replayed.table, unit=replayed.unit, by=by, known=known)
    found = bounding.bound(held, per_user=D, way=replayed.way, entropy=SeededEntropy(SEED))
    return _by_unit(found.table.select("unit", *found.keys).to_pyarrow(), found.keys)


def _held(log: Log, replayed: Replayed) -> _Bounded:
    """The same as `rounds` holds it."""
    by = By(column=BY_VALUE, values=COUNTRIES) if replayed.by else None
    view = View(kind=replayed.table, unit=replayed.unit, by=by, way=replayed.way)
    held = weights.hold(log, view, per_user=D, entropy=SeededEntropy(SEED))
    rows = held.table.join(held.names, "item").select("unit", *held.keys).to_pyarrow()
    return _by_unit(rows, held.keys)


def _by_unit(table: pa.Table, keys: Sequence[str]) -> _Bounded:
    kept: dict[str, set[tuple[Any, ...]]] = {}
    columns = [table[name].to_pylist() for name in keys]
    for unit, *item in zip(table["unit"].to_pylist(), *columns, strict=True):
        key = tuple(tuple(part) if isinstance(part, list) else part for part in item)
        kept.setdefault(str(unit), set()).add(key)
    return _Bounded(kept={u: frozenset(k) for u, k in kept.items()}, rows=table.num_rows)


def check_bounds(folder: Path) -> list[str]:
    """One sentence for each path and table on which the bound does not do what the proofs need."""
    every = variants(make_rows())
    files = {}
    for n, (name, rows) in enumerate(every.items()):
        files[name] = folder / f"bounds{n}.parquet"
        write_rows(files[name], rows)
    faults = []
    first: dict[Replayed, _Bounded] = {}  # what the first path keeps
    for path, context in PATHS.items():
        found: dict[str, dict[Replayed, _Bounded]] = {}
        with connect() as engine, context(engine):
            for name, file in files.items():
                source = find(str(file), columns={n: n for n in Row._fields[:4]})
                log = read(source, engine=engine, keep={BY_VALUE: "country"})
                found[name] = {each: _bounded(log, each) for each in REPLAYED}
                if name == "as it is":
                    faults += _compare_held(path, log, found[name])
        for each in REPLAYED:
            if fault := _fault(each, every["as it is"], [found[name][each] for name in every]):
                faults.append(f"the {path} path, {each}: {fault}")
            elif first.setdefault(each, found["as it is"][each]) != found["as it is"][each]:
                faults.append(f"the {path} path, {each}: another path keeps other items")
    return faults


def _compare_held(path: str, log: Log, found: Mapping[Replayed, _Bounded]) -> list[str]:
    """`rounds` numbers its units; it must hold the same sets."""
    faults = []
    for each in (REPLAYED[0], REPLAYED[1], Replayed("query", by=True), Replayed("click")):
        if each.way == "random" and each not in found:
            continue
        held, kept = _held(log, each), found[each]
        if sorted(map(sorted, held.kept.values())) != sorted(map(sorted, kept.kept.values())):
            faults.append(
                f"the {path} path, {each}: `rounds` holds other items than the bound keeps"
            )
    return faults


def _fault(replayed: Replayed, rows: Sequence[Row], found: Sequence[_Bounded]) -> str | None:
    whole, alone, doubled = found
    for each in found:
        if each.rows != sum(map(len, each.kept.values())):
            return "a unit keeps an item twice"
        most = max(map(len, each.kept.values()), default=0)
        if most > D:
            return f"a unit keeps {most} items, the bound is {D}"
    for other, name in (
        (alone, "without other users"),
        (doubled, "with other users' rows doubled"),
    ):
        for unit, kept in alone.kept.items():
            if whole.kept.get(unit) != kept or other.kept.get(unit) != kept:
                return (
                    f"the log {name} leaves a user other items, so they depend on other users' rows"
                )
    expected = model(rows, replayed)
    if expected is None:
        return None
    if whole.kept.keys() != expected.keys():
        return f"{len(whole.kept)} units hold items, the model has {len(expected)}"
    for unit, items_of_unit in expected.items():
        kept = whole.kept[unit]
        if len(kept) != min(D, len(items_of_unit)) or not kept <= set(items_of_unit):
            return f"a unit with {len(items_of_unit)} items keeps {len(kept)}"
        if kept != set(items_of_unit[:D]):
            return "a unit keeps other items than its first ones"
    return None


# --- the weights of counts -------------------------------------------------------------------------

MOST_HELD = 40


def check_count_weights() -> list[str]:
    """Whether the weights of counts are those of the proof: norm at most sqrt(d2), for every m."""
    faults = []
    for d2 in (1, 2, 3, 5, 8):
        # Unit m holds the first m of 40 published items.
        unit = np.repeat(np.arange(1, MOST_HELD + 1), np.arange(1, MOST_HELD + 1))
        item = np.concatenate([np.arange(m) for m in range(1, MOST_HELD + 1)])
        holders = holders_of_pairs(unit, item, size=MOST_HELD)
        counts = WeightedCounts(scale=1.0, histogram_scale=1.0, per_user=d2)
        summed = _measured(holders, counts)
        own = [count_weight_of(m, d2) for m in range(1, MOST_HELD + 1)]
        expected = np.array([sum(own[n:]) for n in range(MOST_HELD)], np.int64)
        if not np.array_equal(summed, expected):
            m = int(np.argmax(np.diff(summed[::-1], prepend=0)[::-1] != np.array(own))) + 1
            faults.append(
                f"counts with d2 = {d2}: a unit with {m} published items gives other weights than "
                "sqrt(d2 / m), rounded down"
            )
    return faults


def _measured(holders: Any, counts: WeightedCounts) -> Any:
    """The weighted counts as the mechanism measures them, with noise of size zero."""
    found: list[Any] = []

    def keep(measured: Any, *_: Any, **__: Any) -> None:
        found.append(np.rint(np.asarray(measured) * 2**20).astype(np.int64))

    with (
        replaced(fresh_counts, "estimate_users", keep),
        replaced(fresh_counts, "misfit", lambda *_, **__: 0.0),
    ):
        fresh_counts.count_users(holders, counts, lambda _, count: np.zeros(count, np.int64))
    return found[0]
