"""What docs/explanation/guarantee.md and docs/reference/sources.md say that a log comes to, in plain Python.

No engine, no numbers, no joins: rows are dropped one by one, each unit's items are sorted in a list.
Only the rules for text (`text.py`, `screen.py`) are those of the package, as they are Python already.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bound_replay import random_order
from random_logs import Case, Row, Table

from murmurlog.bundle.keys import clean_url, keywords, normalise
from murmurlog.bundle.schema import SEPARATOR
from murmurlog.logs.screen import load
from murmurlog.privacy.sampler import SeededEntropy

SCREEN = load()
EMPTY = "no usable rows"
Item = tuple[Any, ...]  # the keys
Held = tuple[str, datetime | None, Item]  # unit, time, keys


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an implementation makes of a log: rows, what was dropped, and for each table sets and counts."""

    rows: tuple[Any, ...] = ()
    broken: tuple[Any, ...] = ()
    screened: tuple[Any, ...] = ()
    bounded: tuple[Any, ...] = ()
    counts: tuple[Any, ...] = ()
    holders: tuple[Any, ...] = ()
    refused: str = ""


def outcome(case: Case) -> Outcome:
    """What the log comes to."""
    broken: Counter[str] = Counter()
    screened: Counter[str] = Counter()
    rows = list(_usable(case, broken, screened))
    if not rows:
        return Outcome(refused=EMPTY)
    kept = [bounded(table, rows) for table in case.tables]
    by = any(table.by for table in case.tables)
    return Outcome(
        rows=in_order((r.user, r.time, r.query, r.url, r.rank, *([r.country or None] * by)) for r in rows),
        broken=in_order((+broken).items()),
        screened=in_order(screened.items()),
        bounded=tuple(in_order((unit, *item) for unit, item in sets) for sets in kept),
        counts=tuple(in_order((*item, n) for item, n in Counter(i for _, i in sets).items()) for sets in kept),
        holders=tuple(holders(table, rows, sets) for table, sets in zip(case.tables, kept, strict=True)),
    )  # fmt: skip


def in_order(rows: Iterable[Any]) -> tuple[str, ...]:
    """Rows in an order of their own, lists and times as texts."""
    return tuple(
        sorted(repr([list(v) if isinstance(v, tuple) else v for v in row]) for row in rows)
    )


def counts_holders(table: Table) -> bool:
    """Whether it is also compared who holds the items: of some tables that `rounds` makes, for it takes long."""
    return table.kind != "session" and table.count == "users" and table.seed % 3 == 0


def published(table: Table, items: Iterable[Item]) -> list[Item]:
    """What a release publishes of the items in bounded sets, and what was public before."""
    return sorted({*sorted(set(items))[::2], *table.earlier})


def holders(table: Table, rows: Sequence[Row], sets: Sequence[tuple[str, Item]]) -> tuple[str, ...]:
    """Of each published item and m: how many units hold it among m published ones, whatever the bound."""
    if not counts_holders(table):
        return ()
    listed = {*published(table, (item for _, item in sets))}
    held: dict[str, set[Item]] = {}
    for unit, _, item in _items(table, _with_units(table, rows, since=table.count_from)):
        if item in listed:
            held.setdefault(unit, set()).add(item)
    found = Counter((item, len(items)) for items in held.values() for item in items)
    return in_order((*item, m, units) for (item, m), units in found.items())


def _usable(case: Case, broken: Counter[str], screened: Counter[str]) -> Iterable[Row]:
    """The rows that are left, with clean text; counts the others by their first reason."""
    since = datetime.fromisoformat(case.since) if case.since else None
    until = datetime.fromisoformat(case.until) if case.until else None
    for row in case.rows:
        if any((row.country or "") != value for value in case.where.values()):
            continue
        query = normalise(row.query) if row.query is not None else None
        url = clean_url(row.url, case.url) if row.url else None
        if (since or until) and not row.bad_time:
            if row.time is None and row.user and query:
                broken["no time"] += 1
                continue
            if row.time and ((since and row.time < since) or (until and row.time >= until)):
                continue
        if not row.user:
            broken["no user"] += 1
        elif not query:
            broken["no query"] += 1
        elif row.bad_time and (since or until):
            broken["unreadable time"] += 1
        else:
            broken["unreadable time"] += row.bad_time
            if row.url and url is None:
                broken["unreadable url"] += 1
            if why := _why(case, query):
                screened[why] += 1
            else:
                yield replace(row, query=query, url=url)


def _why(case: Case, query: str) -> str | None:
    """Why a query is dropped: by the list, else by the first pattern."""
    for entry in case.deny:
        start = normalise(entry.rstrip("*")) or ""
        if entry.endswith(" *") and query.startswith(f"{start} "):
            return "denied"
        if not entry.endswith("*") and query == start:
            return "denied"
    hits = SCREEN.hits(query) if case.screen else []
    return f"screened: {hits[0]}" if hits else None


def bounded(table: Table, rows: Sequence[Row]) -> list[tuple[str, Item]]:
    """Of each unit the first items, or a random choice of them, each with its unit."""
    held: dict[str, list[Held]] = {}
    for one in _items(table, _with_units(table, rows, since=table.select_from)):
        if one[2] not in table.earlier:
            held.setdefault(one[0], []).append(one)
    key = SeededEntropy(table.seed).stream("choice").bytes(16)
    found = []
    for unit, items in held.items():
        if table.count == "users":
            first: dict[Item, datetime] = {}
            for _, time, item in items:
                first[item] = min(first.get(item, datetime.max), time or datetime.max)
            items = [(unit, time, item) for item, time in first.items()]
        if table.way == "first":
            items.sort(key=lambda one: (one[1] or datetime.max, _bytes(one[2])))
        else:
            items.sort(key=lambda one: (_hash(key, table, one), _bytes(one[2])))
        found += [(unit, item) for _, _, item in items[: table.per_user]]
    return found


def _bytes(item: Item) -> list[Any]:
    return [[t.encode() for t in key] if isinstance(key, tuple) else key.encode() for key in item]


def _hash(key: bytes, table: Table, one: Held) -> int:
    """The keyed hash of unit and item."""
    parts = [SEPARATOR.join(k) if isinstance(k, tuple) else k for k in one[2]]
    return random_order(key, one[0], parts)


def _with_units(
    table: Table, rows: Sequence[Row], *, since: datetime | None
) -> list[tuple[str, Row]]:
    """The rows of a window with the names of their units; units of time have no row without one."""
    if since is not None:
        rows = [row for row in rows if row.time and row.time >= since]
    timed = [row for row in rows if row.time or table.unit == "user"]
    found = [(_period(table.unit, row), row) for row in timed]
    return [(u, row) for u, row in found if not table.by or row.country in table.by]


def _period(unit: str, row: Row) -> str:
    if unit == "user" or row.time is None:
        return str(row.user)
    day = row.time.date()
    if unit == "user-week":
        day -= timedelta(days=day.weekday())
    if unit == "user-month":
        day = day.replace(day=1)
    return f"{day.isoformat()}|{row.user}"


def _items(table: Table, rows: Sequence[tuple[str, Row]]) -> Iterable[Held]:
    """What each unit holds, as often as it does."""
    if table.kind in ("pair", "session"):
        yield from _in_order_items(table, rows)
        return
    for unit, row in rows:
        more = (row.country,) if table.by else ()
        if table.kind == "query":
            yield unit, row.time, (row.query, *more)
        elif table.kind == "click" and row.url is not None and _known(table, row.query, *more):
            yield unit, row.time, (row.query, row.url, *more)
        elif table.kind == "keyword":
            for word in keywords(str(row.query)):
                yield unit, row.time, (word, *more)


def _known(table: Table, query: str | None, *value: str | None) -> bool:
    """Whether a query is published, with --by under this very value."""
    return table.known is None or (query, *value) in table.known


def _in_order_items(table: Table, rows: Sequence[tuple[str, Row]]) -> Iterable[Held]:
    """Queries with the next one, or whole sessions, of what each unit asked in order of time."""
    units: dict[str, list[tuple[datetime, str, str]]] = {}
    for unit, row in rows:
        if row.time:
            more = str(row.country) if table.by else ""
            units.setdefault(unit, []).append((row.time, str(row.query), more))
    gap = timedelta(seconds=table.gap)
    for unit, asked in units.items():
        asked.sort(key=lambda one: (one[0], one[1].encode(), one[2].encode()))
        if table.kind == "pair":
            for (time, query, more), (after, following, _) in zip(asked, asked[1:], strict=False):
                value = (more,) if table.by else ()
                known = all(_known(table, each, *value) for each in (query, following))
                if after - time <= gap and query != following and known:
                    yield unit, time, (query, following, *value)
            continue
        sessions: list[list[tuple[datetime, str]]] = []
        before: datetime | None = None
        for time, query, _ in asked:
            if before is None or time - before > gap:
                sessions.append([])
            if _known(table, query) and (not sessions[-1] or query != sessions[-1][-1][1]):
                sessions[-1].append((time, query))
            before = time
        for session in sessions:
            if len(session) >= 2:
                yield unit, session[0][0], (tuple(query for _, query in session),)
