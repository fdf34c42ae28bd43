"""Worst-case pairs of neighbouring logs, and one log that holds many of them.

A pair states the searches of all other users, of one user, and of the user who replaces that one (or
of nobody). A world is one side of a pair with its own users, queries and urls: all of them begin with
the world's name, so one log holds thousands of worlds, and each is a separate sample.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LETTERS = 6  # of a world's name: one for the pair, the others for the world
START = datetime(2026, 1, 1)
APART = 9  # seconds between a user's searches
USER = "v"  # the target: the one user in whom neighbouring logs differ
FIRST = "items at the first threshold"
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
OWN = ("mine", "own")  # prefixes of queries and urls that only the one user has ...
AWAY = "away"  # a prefix of queries that no public pool or list holds, whatever the pair
SECRET = 20  # ... and which end with this many random letters: 94 bits that nobody can guess


class Search(NamedTuple):
    """A row of a world, without the world's name."""

    user: str
    query: str
    at: int = 0
    url: str | None = None


Searches = tuple[Search, ...]


class KnownCount(NamedTuple):
    """An item of a table and its true numbers of users: without the one user, and with it."""

    table: str
    item: str
    users: tuple[int, int]
    column: str = "users"  # the column that publishes it; a log has a row for each of its users
    # Where queries are published too, the item is certain to be counted if the bound keeps this many
    # queries of each user. None: it may be dropped in any case.
    queries: int | None = 1


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring logs: the other users with the target, the one user in whom the logs differ, and
    with the target's replacement if any."""

    name: str
    others: Searches = ()
    target: Searches = ()
    replacement: Searches = ()  # the searches of the user who replaces the target
    linked: int = 1  # how many ids differ: more than one is for group privacy
    in_pools: bool = True  # its queries and urls are in public pools and lists, if there are any
    secret: bool = True  # the target's own items are not in public pools and lists
    counts: tuple[KnownCount, ...] = ()  # items that always pass: their counts test the noise
    near: tuple[KnownCount, ...] = ()  # pass about half of the time: their frequency tests it

    def rows(self, side: int) -> Searches:
        """Side 1: with the target. Side 0: without it, or with its replacement."""
        return self.others + (self.target if side else self.replacement)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The bound of a mechanism, and the numbers of users at which its items pass."""

    d: int
    near: int  # an item of this many users passes about half of the time
    below: int = 1  # an item of this many users passes seldom
    sure: int  # an item of this many users always passes
    crowd: int  # enough users for an item to pass in a later round, if they contribute it
    first: int = 1  # items of fewer users are dropped before the noise


def history(user: str, items: Sequence[str], *, start: int = 0, step: int = APART) -> Searches:
    """The searches of one user, one after the other; `step` 0: all at the same time."""
    return tuple(Search(user, item, (start + n) * step) for n, item in enumerate(items))


def crowd(size: int, items: Sequence[str], *, name: str = "o", step: int = APART) -> Searches:
    """The searches of `size` users with the same items."""
    return tuple(row for n in range(size) for row in history(f"{name}{n}", items, step=step))


def name_items(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


def known_counts(users: int, item: str = "ours0") -> tuple[KnownCount, ...]:
    """A query of `users` other users and the one user; its single word is a keyword."""
    return tuple(KnownCount(table, item, (users, users + 1)) for table in ("query", "keyword"))


def pairs_of_queries(s: Sizes) -> list[Pair]:
    """Pairs that differ by one user's queries."""
    mine, ours, late = name_items("mine", s.d), name_items("ours", s.d), name_items("late", s.d)
    # Half of them outside of a pool, so that a bound of each part alone is seen.
    many = name_items("many", 2 * s.d) + name_items(AWAY, 2 * s.d)
    groups = [name_items(f"rare{n}x", s.d) for n in range(3)]
    behind = [
        row for n, rare in enumerate(groups) for row in crowd(4, [*rare, *ours], name=f"g{n}x")
    ]
    return [
        Pair(name="new items", target=history(USER, mine)),
        Pair(name="one new item", target=history(USER, mine[:1])),
        Pair(
            name="items at the threshold",
            others=crowd(s.near - 1, ours),
            target=history(USER, ours),
            near=known_counts(s.near - 1),
        ),
        Pair(
            name="items below the threshold",
            others=crowd(s.below, ours),
            target=history(USER, ours),
        ),
        Pair(
            name="items of many",
            others=crowd(s.sure, ours),
            target=history(USER, ours),
            counts=known_counts(s.sure),
        ),
        *_at_the_first_threshold(s, ours),
        Pair(
            name="a heavy user",
            others=tuple(
                row
                for n in range(4)
                for row in crowd(s.sure, many[n * s.d : (n + 1) * s.d], name=f"h{n}x")
            ),
            target=history(USER, many),
        ),
        Pair(
            name="the same query again and again",
            others=crowd(s.sure, ours[:1]),
            target=history(USER, ours[:1] * 20),
        ),
        Pair(name="its own item again and again", target=history(USER, mine[:1] * 20)),
        Pair(
            name="ties that steer bounds",
            others=crowd(s.sure, ours + late, step=0),
            target=history(USER, ours, step=0),
        ),
        Pair(
            name="rare items before common ones",
            others=(*behind, *crowd(s.sure, ours)),
            target=history(USER, [item for rare in groups for item in rare]),
        ),
        Pair(
            name="items beyond the others' bounds",
            others=crowd(s.crowd, ours + late[:1]),
            target=history(USER, late[:1]),
        ),
        Pair(
            name="an item that is left alone",
            others=crowd(s.crowd, ours[1:]),
            target=history(USER, mine[:1] + ours[1:]),
        ),
        Pair(
            name="three ids that are one person's",
            target=tuple(row for n in range(3) for row in history(f"{USER}{n}", mine[:1])),
            linked=3,
        ),
    ]


def _at_the_first_threshold(s: Sizes, items: Sequence[str]) -> list[Pair]:
    """Without the one user the items are dropped before the noise; with it they are kept."""
    if s.first < 2:
        return []
    others = crowd(s.first - 1, items)
    return [Pair(name=FIRST, others=others, target=history(USER, items))]


def pairs_of_exchanges(s: Sizes) -> list[Pair]:
    """Pairs in which one user replaces another."""
    mine, ours, late = name_items("mine", s.d), name_items("ours", s.d), name_items("late", s.d)
    return [
        Pair(
            name="new items for others", target=history(USER, mine), replacement=history(USER, late)
        ),
        Pair(
            name="items of many for others",
            others=(*crowd(s.sure, ours), *crowd(s.sure, late, name="p")),
            target=history(USER, ours),
            replacement=history(USER, late),
            counts=known_counts(s.sure),
        ),
        Pair(
            name="items at the threshold for others",
            others=(*crowd(s.near - 1, ours), *crowd(s.near - 1, late, name="p")),
            target=history(USER, ours),
            replacement=history(USER, late),
            near=known_counts(s.near - 1),
        ),
        Pair(
            name="new items for items of many",
            others=crowd(s.sure, ours),
            target=history(USER, mine),
            replacement=history(USER, ours),
        ),
    ]


def pairs_of_clicks(s: Sizes) -> list[Pair]:
    """Pairs that differ by one user's clicks."""
    ours = [Search(f"o{n}", "ours", 0, "known") for n in range(s.sure)]
    some = [row if n < s.near - 1 else row._replace(url=None) for n, row in enumerate(ours)]

    def known_click(users: int) -> KnownCount:
        return KnownCount("click", "ours|.org/known", (users, users + 1))

    return [
        Pair(name="a url of its own for a common query", others=(*ours,),
             target=(Search(USER, "ours", 0, "own0"),)),
        Pair(name="clicks on an unpublished query", target=(Search(USER, "mine0", 0, "own0"),)),
        Pair(name="a click of many", others=(*ours,), target=(Search(USER, "ours", 0, "known"),),
             counts=(known_click(s.sure), *known_counts(s.sure, "ours"))),
        Pair(name="a click at the threshold", others=(*some,),
             target=(Search(USER, "ours", 0, "known"),), near=(known_click(s.near - 1),)),
        Pair(name="a click of many, again and again", others=(*ours,),
             target=tuple(Search(USER, "ours", n, "known") for n in range(20))),
    ]  # fmt: skip


def pairs_of_sessions(s: Sizes) -> list[Pair]:
    """Pairs that differ by one user's sessions."""

    def known_sessions(users: int, queries: int | None) -> tuple[KnownCount, ...]:
        session = KnownCount("session", "ours0 ours1", (users, users + 1), queries=queries)
        return (session, session._replace(table="pair", item="ours0|ours1"))

    return [
        Pair(name="a session of its own", target=history(USER, ["mine0", "mine1", "mine2"])),
        Pair(name="a session at the threshold", others=crowd(s.near - 1, ["ours0", "ours1"]),
             target=history(USER, ["ours0", "ours1"]), near=known_sessions(s.near - 1, None)),
        Pair(name="a session of many", others=crowd(s.sure, ["ours0", "ours1"]),
             target=history(USER, ["ours0", "ours1"]), counts=known_sessions(s.sure, 2)),
        Pair(name="a session of many that goes on", others=crowd(s.sure, ["ours0", "ours1"]),
             target=history(USER, ["ours0", "ours1", "mine0"])),
        Pair(name="a session of equal queries", others=crowd(s.sure, ["ours0", "ours1"]),
             target=history(USER, ["ours0"] * 12 + ["ours1"] + ["ours0"] * 12)),
        Pair(name="more sessions than are kept",
             others=tuple(row for n in range(5)
                          for row in crowd(s.sure, [f"ours{n}", f"late{n}"], name=f"k{n}x")),
             target=tuple(row for n in range(5)
                       for row in history(USER, [f"ours{n}", f"late{n}"], start=n * 20_000))),
        Pair(name="the same session on many days", others=crowd(s.sure, ["ours0", "ours1"]),
             target=tuple(row for n in range(10)
                       for row in history(USER, ["ours0", "ours1"], start=n * 20_000))),
    ]  # fmt: skip


def pairs_of_logs(s: Sizes) -> list[Pair]:
    """Pairs that differ by one user's rows of queries with clicks."""

    def clicks(user: str, items: Sequence[str]) -> Searches:
        return tuple(row._replace(url=row.query) for row in history(user, items))

    ours = name_items("ours", s.d)
    near, sure = (
        tuple(row for i in range(n) for row in clicks(f"o{i}", ours)) for n in (s.near - 1, s.sure)
    )

    def known_rows(users: int) -> tuple[KnownCount, ...]:
        return (KnownCount("log", "ours0|.org/ours0", (users, users + 1), "rows"),)

    return [
        Pair(name="new clicks", target=clicks(USER, name_items("mine", s.d))),
        Pair(name="clicks at the threshold", others=near,
             target=clicks(USER, ours), near=known_rows(s.near - 1)),
        Pair(name="clicks of many", others=sure, target=clicks(USER, ours),
             counts=known_rows(s.sure)),
        Pair(name="clicks of many and new ones", others=sure,
             target=clicks(USER, ["mine0", *ours])),
    ]  # fmt: skip


def exchange(pair: Pair) -> Pair:
    """The pair in which another user replaces the target and does the same with other items."""

    def elsewhere(row: Search, user: str) -> Search:
        return row._replace(user=user, query=f"b{row.query}", url=row.url and f"b{row.url}")

    return replace(
        pair,
        name=f"{pair.name} for others",
        others=(*pair.others, *(elsewhere(row, f"b{row.user}") for row in pair.others)),
        replacement=tuple(elsewhere(row, row.user) for row in pair.target),
    )


PAIR_MAKERS: dict[str, Callable[[Sizes], list[Pair]]] = {
    "queries": pairs_of_queries,
    "exchanges": pairs_of_exchanges,
    "clicks": pairs_of_clicks,
    "sessions": pairs_of_sessions,
    "logs": pairs_of_logs,
}


# --- many worlds in one log ------------------------------------------------------------------------


def names_of(pair: int, worlds: int) -> npt.NDArray[np.str_]:
    """The names of a pair's worlds: letters only, all of the same length."""
    numbers = np.arange(worlds)
    letters = np.array(list(ALPHABET))
    name = np.full(worlds, ALPHABET[pair])
    for place in range(LETTERS - 1):
        name = np.char.add(name, letters[numbers // 26 ** (LETTERS - 2 - place) % 26])
    return name


def place_of(name: str) -> tuple[int, int]:
    """(pair, world) of a world's name."""
    number = 0
    for letter in name[1:]:
        number = 26 * number + ALPHABET.index(letter)
    return ALPHABET.index(name[0]), number


def secrets_of(words: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    """Texts of SECRET letters from as many numbers below 26 for each."""
    letters = np.array(list(ALPHABET))[words.reshape(-1, SECRET)]
    return np.ascontiguousarray(letters).view(f"<U{SECRET}").ravel()


def without_secret(key: str) -> str:
    """A key without the random letters of its world."""
    return re.sub(rf"(?<=\d)[a-z]{{{SECRET}}}", "", key)


def write_log(
    path: Path,
    pairs: Sequence[Pair],
    sides: Sequence[npt.NDArray[np.int64]],
    secrets: Sequence[npt.NDArray[np.str_]] | None = None,
) -> None:
    """Writes as Parquet the log in which world w of pair p is on the side sides[p][w].

    With `secrets`, one for each world, the one user's own texts end with the world's secret.
    """
    tables = [_empty_log()]
    for number, (pair, coins) in enumerate(zip(pairs, sides, strict=True)):
        names = names_of(number, len(coins))
        for side in (0, 1):
            if rows := pair.rows(side):
                ends = secrets[number][coins == side] if secrets and pair.secret else None
                tables.append(_tile(rows, names[coins == side], ends))
    pq.write_table(pa.concat_tables(tables), path)


def _empty_log() -> pa.Table:
    texts = {name: pa.array([], pa.string()) for name in ("user", "query", "url")}
    return pa.table({**texts, "time": pa.array([], pa.timestamp("us"))})


def _tile(
    rows: Sequence[Search], names: npt.NDArray[np.str_], ends: npt.NDArray[np.str_] | None
) -> pa.Table:
    """The rows once for each world, every text prefixed with the world's name."""
    world = pa.array(np.repeat(names, len(rows)).astype(object), pa.string())

    def column(values: Sequence[str | None], after: str = "") -> Any:
        texts = pa.array([value and after + value for value in values] * len(names), pa.string())
        parts = [world, texts]
        if ends is not None and any(value and value.startswith(OWN) for value in values):
            is_own = np.array([bool(value and value.startswith(OWN)) for value in values])
            end = np.where(np.tile(is_own, len(names)), np.repeat(ends, len(rows)), "")
            parts.append(pa.array(end.astype(object), pa.string()))
        return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")

    seconds = np.tile(np.array([row.at for row in rows]), len(names)).astype("timedelta64[s]")
    times = (np.datetime64(START, "us") + seconds).astype("datetime64[us]")
    return pa.table(
        {
            "user": column([row.user for row in rows]),
            "query": column([row.query for row in rows]),
            "url": column([row.url for row in rows], ".org/"),
            "time": pa.array(times, pa.timestamp("us")),
        }
    )


def write_keys(path: Path, pairs: Sequence[Pair], worlds: Sequence[int], *, urls: bool) -> None:
    """Writes the queries of pairs that are in public pools, in all worlds: as a pool or, with urls, as lists."""
    lines = []
    for number, (pair, count) in enumerate(zip(pairs, worlds, strict=True)):
        if not pair.in_pools:
            continue
        keys = {
            (row.query, row.url)
            for side in (0, 1)
            for row in pair.rows(side)
            if (row.url is not None or not urls) and not row.query.startswith(AWAY)
        }
        for name in names_of(number, count):
            for query, url in sorted(keys, key=str):
                lines.append(f"{name}{query}" + (f"\t{name}.org/{url}" if urls else ""))
    path.write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")
