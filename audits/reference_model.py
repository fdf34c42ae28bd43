"""What docs/explanation/guarantee.md and docs/reference/sources.md say that a log comes to, in plain Python.

No engine, no arrays, no partitions: rows are dropped one by one, each unit's items are sorted in a list.
Keys are those of `plain_keys.py`. Only the rules for text (`canonical.py`, `keys.py`, `screen.py`) are those of
the package, as they are plain Python already.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from plain_keys import Key, PlainKeys, mix
from random_logs import Case, Row, Table

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.keys import clean_url, keywords, normalise
from murmurlog.logs.screen import load
from murmurlog.privacy.sampler import SeededEntropy

SCREEN = load()
GRID = 1 << 20
FULL = 10
ROUNDS = 3
EPOCH = datetime(1970, 1, 1)
NO_RANK = -(1 << 31)

Item = tuple[Any, ...]  # the key columns
Holding = tuple[datetime | None, Item]  # an item that a unit holds, and when
Units = dict[Key, list[Item]]
Facts = dict[Any, int]  # numbers by what they are about


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a log comes to: its rows, what was dropped, and of each table facts by name."""

    rows: Facts
    broken: Facts
    screened: Facts
    tables: tuple[dict[str, Facts], ...]


def outcome(case: Case, keys: PlainKeys) -> Outcome:
    """What the log comes to."""
    broken, screened = Counter[str](), Counter[str]()
    usable = list(_usable(case, broken, screened))
    rows = [(_unit(case, row, keys), row) for row, _ in usable if row.time or case.unit == "user"]
    by = any(table.by for table in case.tables)
    if case.limits:
        rows = _within(
            case, [size for row, size in usable if row.time or case.unit == "user"], rows, keys
        )
    return Outcome(
        rows=Counter(
            (unit, _user(case, row, keys), row.time, row.query, row.url, row.rank, row.country or None if by else None)
            for unit, row in rows
        ),
        broken=dict(+broken),
        screened=dict(+screened),
        tables=tuple(_facts(table, rows, keys) for table in case.tables),
    )  # fmt: skip


def _usable(case: Case, broken: Counter[str], screened: Counter[str]) -> Iterator[tuple[Row, int]]:
    """The rows that are left, with clean text, and the bytes of each; counts the others by their first reason."""
    since = datetime.fromisoformat(case.since) if case.since else None
    until = datetime.fromisoformat(case.until) if case.until else None
    clean = cleaner(case.keys)
    for row in case.rows:
        if any((row.country or "") != value for value in case.where.values()):
            continue
        sizes = _sizes(case, row)
        if case.limits and max(sizes) > case.limits[2]:
            broken["value too long"] += 1
            continue
        query = _short(case, clean(row.query)) if row.query is not None else None
        url = _short(case, clean_url(row.url, case.url)) if row.url else None
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
                yield replace(row, query=query, url=url), sum(sizes)


def _sizes(case: Case, row: Row) -> list[int]:
    """The bytes of a row's texts, as the source has them."""
    by = any(table.by for table in case.tables)
    texts = ("" if case.numbered else row.user, row.query, row.url, row.country if by else None)
    return [len((text or "").encode()) for text in texts]


def _short(case: Case, clean: str | None) -> str | None:
    """A clean text; none if it is too long, which the raw one need not have been."""
    long = case.limits and clean and len(clean.encode()) > case.limits[2]
    return None if long else clean


def _within(
    case: Case, sizes: Sequence[int], rows: Sequence[tuple[Key, Row]], keys: PlainKeys
) -> list[tuple[Key, Row]]:
    """Of each unit the first rows, by time and then by record, up to the first beyond a limit of the unit."""
    assert case.limits
    most_rows, most_bytes, _ = case.limits
    by = any(table.by for table in case.tables)
    units: dict[Key, list[tuple[Any, ...]]] = {}
    for number, ((unit, row), size) in enumerate(zip(rows, sizes, strict=True)):
        record = [size, *keys.text(str(row.query))]
        if "url" in case.columns:
            record += keys.text(row.url) if row.url else (0, 0)
        if by:
            record += keys.text(row.country) if row.country else (0, 0)
        record.append(NO_RANK if row.rank is None else row.rank)
        units.setdefault(unit, []).append((row.time or datetime.max, record, number, size))
    kept = []
    for own in units.values():
        total = 0
        for _, _, number, size in sorted(own)[:most_rows]:
            total += size
            if total > most_bytes:
                break
            kept.append(rows[number])
    return kept


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


# Keys


def _user(case: Case, row: Row, keys: PlainKeys) -> Key:
    return keys.number(int(str(row.user))) if case.numbered else keys.text(str(row.user))


def _unit(case: Case, row: Row, keys: PlainKeys) -> Key:
    """The key of the row's unit: of its user, or of the user and the first day of a period."""
    user = _user(case, row, keys)
    if case.unit == "user" or row.time is None:
        return user
    day = row.time.date()
    if case.unit == "user-week":
        day -= timedelta(days=day.weekday())
    if case.unit == "user-month":
        day = day.replace(day=1)
    return keys.combination([user, ((day - EPOCH.date()).days, 0)])


def item_key(table: Table, item: Item, keys: PlainKeys) -> Key:
    """The key of an item. A set has one form: its members in order of keys."""
    if table.kind in ("session", "itemset"):
        members = [keys.text(text) for text in item[0]]
        return keys.sequence(sorted(members) if table.kind == "itemset" else members)
    return keys.combination([keys.text(text) for text in item])


# Items


def _holdings(
    table: Table, rows: Sequence[tuple[Key, Row]], since: datetime | None
) -> dict[Key, list[Holding]]:
    """What each unit holds in the rows of a window, as often as it does."""
    units: dict[Key, list[Row]] = {}
    for unit, row in rows:
        new = since is None or (row.time is not None and row.time >= since)
        if new and (not table.by or row.country in table.by):
            units.setdefault(unit, []).append(row)
    return {unit: list(_items(table, own)) for unit, own in units.items()}


def _items(table: Table, rows: Sequence[Row]) -> Iterator[Holding]:
    if table.kind in ("pair", "session"):
        yield from _in_sequence(table, rows)
        return
    for row in rows:
        more = (row.country,) if table.by else ()
        if table.kind in ("query", "itemset"):
            yield row.time, (row.query, *more)
        elif table.kind == "click" and row.url is not None and _known(table, row.query, *more):
            yield row.time, (row.query, row.url, *more)
        elif table.kind == "keyword":
            for word in keywords(str(row.query)):
                yield row.time, (word, *more)


def _known(table: Table, query: str | None, *value: str | None) -> bool:
    """Whether a query is published, with --by under this very value."""
    return table.known is None or (query, *value) in table.known


def _in_sequence(table: Table, rows: Sequence[Row]) -> Iterator[Holding]:
    """Queries with the next one, or whole sessions, of what a unit asked in order of time."""
    asked = [(r.time, str(r.query), str(r.country) if table.by else "") for r in rows if r.time]
    asked.sort(key=lambda one: (one[0], one[1].encode(), one[2].encode()))
    gap = timedelta(seconds=table.gap)
    if table.kind == "pair":
        for (time, query, more), (after, following, _) in zip(asked, asked[1:], strict=False):
            value = (more,) if table.by else ()
            known = all(_known(table, each, *value) for each in (query, following))
            if after - time <= gap and query != following and known:
                yield time, (query, following, *value)
        return
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
            texts = tuple(query for _, query in session)
            yield session[0][0], (texts[: table.longest],)


# The bound


def bounded(table: Table, rows: Sequence[tuple[Key, Row]], keys: PlainKeys) -> Units:
    """Of each unit the first items, or a random choice of them, and what is derived from these."""
    secret = int.from_bytes(SeededEntropy(table.seed).stream("choice").bytes(8), "little")
    most = per_unit(table)
    units = {}
    for unit, held in _holdings(table, rows, table.select_from).items():
        held = [one for one in held if one[1] not in table.earlier]
        if table.count == "users":
            first: dict[Item, datetime] = {}
            for time, item in held:
                first[item] = min(first.get(item, datetime.max), time or datetime.max)
            held = [(time, item) for item, time in first.items()]
        if table.way == "first":
            held.sort(key=lambda one: (one[0] or datetime.max, _bytes(one[1])))
        else:
            own = mix(unit[0] ^ secret)
            member = replace(table, kind="query") if table.kind == "itemset" else table
            numbers = {item: item_key(member, item, keys) for _, item in held}
            held.sort(key=lambda one: (mix(own ^ numbers[one[1]][0]), numbers[one[1]][1]))  # noqa: B023
        units[unit] = _derived(table, [item for _, item in held[:most]])
    return units


def _bytes(item: Item) -> list[Any]:
    return [[t.encode() for t in key] if isinstance(key, tuple) else key.encode() for key in item]


def per_unit(table: Table) -> int:
    """How many items a unit keeps: of an itemset table so many queries that it has at most d sets of them."""
    if table.kind != "itemset":
        return table.per_user
    n = 1
    while sets_of(table, n + 1) <= table.per_user:
        n += 1
    return n


def sets_of(table: Table, n: int) -> int:
    """How many sets there are of n queries."""
    return len(_derived(table, [(str(i),) for i in range(n)]))


def _derived(table: Table, items: Sequence[Item]) -> list[Item]:
    """Sets of a unit's items, or subsequences of its sessions, each once."""
    if table.kind == "itemset":
        found = set()
        for size in range(1, table.set_size + 1):
            runs = [items[i : i + size] for i in range(len(items) - size + 1)]
            for some in runs if table.consecutive else combinations(items, size):
                found.add((tuple(sorted((text for (text,) in some), key=str.encode)),))
        return list(found)
    if table.repeats is None:
        return list(items)
    lists = {
        part
        for (texts,) in items
        for n in range(2, len(texts) + 1)
        for part in combinations(texts, n)
    }
    return [
        (part,) for part in lists
        if table.repeats or all(a != b for a, b in zip(part, part[1:], strict=False))
    ]  # fmt: skip


# Sums


def _facts(table: Table, rows: Sequence[tuple[Key, Row]], keys: PlainKeys) -> dict[str, Facts]:
    """What is compared of a table."""
    units = bounded(table, rows, keys)
    facts: dict[str, Facts] = {
        "bounded": Counter(
            (unit, item_key(table, item, keys), item) for unit, items in units.items() for item in items
        ),
        "sums": Counter(item for items in units.values() for item in items),
    }  # fmt: skip
    if table.count == "users" and table.pools and not table.known:
        facts["candidates"] = {
            item: facts["sums"].get(item, 0) for pool in table.pools for item in pool
        }
    if not table.selects:
        return facts
    weights, published = _select(table, units)
    facts["weights"] = {(k, item_key(table, item, keys)): sums for k, item, sums in weights}
    facts["pools"] = {
        (number, item_key(table, item, keys)): 1
        for k, item, _ in weights
        if k == 0 and (number := pool_of(table, item))
    }
    listed = {*published, *table.earlier}
    facts["published"] = dict.fromkeys(listed, 1)
    facts["holders"] = _holders(table, rows, units, listed)
    return facts


def pool_of(table: Table, item: Item) -> int:
    """The number of the pool that lists an item; 0 for none."""
    return next((n for n, pool in enumerate(table.pools, 1) if item in pool), 0)


def decide(table: Table, k: int, z: int, remembered: int, pool: int) -> tuple[bool, bool, int, int]:
    """A fixed rule in place of a round's: whether an item passes, goes on, its attention, what is remembered."""
    y = z + remembered // 2
    passed = 10 * y >= (24 - 5 * k - 4 * pool + table.seed % 3) * GRID
    goes_on = not passed and k + 1 < ROUNDS and (y + table.seed) % 4 != 0
    return passed, goes_on, 1 + y % FULL, remembered + z


def _select(table: Table, units: Units) -> tuple[list[tuple[int, Item, int]], set[Item]]:
    """The sums of the weights of every round, and the items that pass."""
    alive: dict[Item, tuple[int, int]] = {
        item: (FULL, 0) for items in units.values() for item in items
    }
    weights, published = [], set()
    for k in range(ROUNDS):
        sums = Counter[Item]()
        for items in units.values():
            own = [(item, alive[item][0]) for item in items if item in alive]
            squares = sum(attention**2 for _, attention in own)
            for item, attention in own:
                sums[item] += math.isqrt(attention**2 * GRID**2 // squares)
        following = {}
        for item, z in sums.items():
            weights.append((k, item, z))
            passed, goes_on, attention, remembered = decide(
                table, k, z, alive[item][1], pool_of(table, item)
            )
            if passed:
                published.add(item)
            if goes_on:
                following[item] = (attention, remembered)
        alive = following
    return weights, published


def _holders(
    table: Table, rows: Sequence[tuple[Key, Row]], units: Units, listed: Iterable[Item]
) -> Facts:
    """Of each published item and m: how many units hold it among m published ones, whatever the bound."""
    held: dict[Key, set[Item]] = {}
    for unit, own in _holdings(table, rows, table.count_from).items():
        items = {item for _, item in own}
        if table.kind == "itemset":
            texts = {text for (text,) in items}
            items = {item for item in listed if texts.issuperset(item[0])}
        held[unit] = items.intersection(listed)
    if table.consecutive:  # runs exist only as they were cut
        held = {unit: set(items).intersection(listed) for unit, items in units.items()}
    return Counter((item, len(items)) for items in held.values() for item in items)
