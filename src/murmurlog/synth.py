"""Invented search logs: reproducible, nobody's, shaped like real ones. Draws no privacy noise.

Two models (docs/generate.md). The plain one: users differ in activity by a log-normal law; a user's
rows fall into sessions; a query is one of a shared list with Zipf-Mandelbrot popularity, or the
user's own (the long tail that only one person ever asks), or the previous one again; a little over
half of the queries are clicked, mostly on the first result. The other draws users of a `Population`
that was measured to look like a known log, with planted things to find; `synth_text` spells both
what they ask and what they click.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog import synth_text as text
from murmurlog.errors import InputError, UsageError
from murmurlog.source import format_of
from murmurlog.synth_text import WORDS, Facts, Ints

Numbers = npt.NDArray[np.integer]

ROWS_A_USER = 40
DAYS = 90
FIRST_DAY = np.datetime64("2026-03-01", "us")

SHARED, OWN = 0.62, 0.23  # the rest asks the previous query again
ZIPF_S, ZIPF_Q = 1.02, 8.0
CLICKED = 0.53
NEW_SESSION = 0.3

COPY = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
    "tsv": "FORMAT csv, HEADER, DELIMITER '\t', QUOTE '', ESCAPE ''",
    "jsonl": "FORMAT json",
}
LABELS = ("parquet", "csv")

CHUNK = 1_000_000  # rows drawn at once; another number gives another log
FIXED = 0.7  # the share of misspellings that the user corrects at once
FAVOURITES = 4  # sites a user comes back to
SITE_S, SITE_Q = 1.1, 3.0  # how unequal the sites are
STEP = 1 << 27  # seconds between the clocks of two users: more than any log lasts


@dataclass(frozen=True, kw_only=True)
class Invented:
    """An invented log: its rows and how it was made."""

    table: pa.Table  # user, time, query, url, rank
    rows: int
    users: int
    seed: int
    like: str | None = None  # the population it was drawn from
    labels: pa.Table | None = None  # kind, query, target: what was planted


@dataclass(frozen=True, kw_only=True)
class Population:
    """Whom an invented log is drawn from: its size, and what its users do.

    The probabilities `more` and `silent` are of a row and a user, `again`, `turned` and `clicked` of
    a submitted query, all others of a query that differs from the last. What they leave is shared.
    """

    rows: int
    users: int
    first_day: str
    days: int
    activity: float  # sigma of the log-normal law
    silent: float  # never clicks
    more: float  # one more click on the results that are there
    again: float  # the same query once more,
    turned: float  # and of these the next page of results
    clicked: float  # where no further click follows
    first: float  # a click is on the first result; the rank is geometric
    new_session: float
    own: float
    site: float
    special: float
    wrong: float = 0.015
    fear: float = 0.002
    personal: float = 0.0005
    shared: int  # how many shared queries there are,
    zipf_s: float  # and their popularity: rank r has weight (r + q)^-s
    zipf_q: float

    def __post_init__(self) -> None:
        kinds = self.own + self.site + self.special + self.wrong + self.fear + self.personal
        if kinds > 1:
            raise UsageError(f"kinds of queries have {kinds:.2f} of them: leave some to be shared")


POPULATIONS = {
    "aol": Population(
        rows=36_389_567,
        users=657_426,
        first_day="2006-03-01",
        days=92,
        activity=1.35,
        silent=0.17,
        more=0.24,
        again=0.27,
        turned=0.5,
        clicked=0.275,
        first=0.47,
        new_session=0.4,
        own=0.33,
        site=0.165,
        special=0.1,
        shared=20_000_000,
        zipf_s=0.94,
        zipf_q=20.0,
    ),
    "zealous": Population(
        rows=12_000_000,
        users=500_000,
        first_day="2026-03-01",
        days=30,
        activity=1.2,
        silent=0.1,
        more=0.29,
        again=0.2,
        turned=0.5,
        clicked=0.57,
        first=0.5,
        new_session=0.56,
        own=0.25,
        site=0.2,
        special=0.1,
        shared=6_000_000,
        zipf_s=0.95,
        zipf_q=20.0,
    ),
}


def invent(*, rows: int, seed: int, like: str | None = None) -> Invented:
    """An invented log of exactly this many rows; the same for the same seed.

    With `like` its users are a part of that population, as many as make that many rows on average.
    """
    if rows < 1:
        raise UsageError(f"--rows must be at least 1, not {rows}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, but is {seed}")
    if like is None:
        return _plain(rows=rows, seed=seed)
    if like not in POPULATIONS:
        raise UsageError(f"--like {like!r} is not known: choose {' or '.join(POPULATIONS)}")
    return _drawn(rows=rows, seed=seed, like=like)


def _plain(*, rows: int, seed: int) -> Invented:
    """A log of the plain model."""
    rng = np.random.default_rng(seed)
    user = _users(rng, rows)
    time = _times(rng, user)
    query = _query_ids(rng, user)
    words = _vocabulary(rng)
    rank = np.minimum(rng.geometric(0.55, rows), 10)
    clicked = rng.random(rows) < CLICKED
    return Invented(
        table=pa.table(
            {
                "user": text.coded(user, [f"u{i:07d}" for i in rng.permutation(user[-1] + 1)]),
                "time": pa.array(FIRST_DAY + time.astype("timedelta64[us]")),
                "query": text.plain_texts(query, words),
                "url": text.plain_urls(query, rank, clicked, words),
                "rank": pa.array(rank, mask=~clicked),
            }
        ),
        rows=rows,
        users=int(user[-1]) + 1,
        seed=seed,
    )


def check_target(out: Path, *, flag: str = "--out", kinds: Sequence[str] = tuple(COPY)) -> None:
    """Raises unless a log, or what `flag` stands for, can be written there."""
    if out.exists():
        raise UsageError(f"{out.name} exists: choose another {flag}, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(f"{flag} {str(out)!r}: there is no folder {str(out.parent)!r}")
    try:
        kind, _ = format_of(out)
    except InputError as error:
        raise UsageError(str(error)) from None
    if kind not in kinds:
        what = "a log" if flag == "--out" else "what is planted"
        raise UsageError(f"cannot write {out.name}: {what} can be {', '.join(kinds)}")


def check_labels(labels: Path, *, like: str | None, out: Path) -> None:
    """Raises unless what a log of this kind has planted can be written there, beside the log."""
    if like is None:
        raise UsageError("--labels needs --like: a plain log has nothing planted")
    if labels.resolve() == out.resolve():
        raise UsageError(f"--labels and --out are both {str(out)!r}: choose two files")
    check_target(labels, flag="--labels", kinds=LABELS)


def write(log: Invented, out: Path) -> None:
    """Writes the rows by time, in the format of the file's extension."""
    check_target(out)
    order = "" if log.like else "ORDER BY time"  # drawn logs are in order already
    _copy(log.table, out, seed=log.seed, order=order)


def write_labels(log: Invented, labels: Path) -> None:
    """Writes what was planted, as Parquet or CSV by the file's extension."""
    check_labels(labels, like=log.like, out=Path())
    _copy(log.labels, labels, seed=log.seed, order="ORDER BY ALL")


def _copy(table: pa.Table, out: Path, *, seed: int, order: str) -> None:
    kind, compression = format_of(out)
    options = COPY[kind]
    if kind == "parquet":
        note = f"invented by murmurlog generate, seed {seed}; not a real log"
        options += f", KV_METADATA {{murmurlog: '{note}'}}"
    if compression:
        options += f", COMPRESSION {compression}"
    connection = duckdb.connect()
    try:
        connection.register("invented", table)
        connection.execute(f"COPY (FROM invented {order}) TO $file ({options})", {"file": str(out)})
    except duckdb.IOException as error:
        raise InputError(f"cannot write {out.name}: {error}") from None
    finally:
        connection.close()


def _drawn(*, rows: int, seed: int, like: str) -> Invented:
    """A log of users of a population: drawn as numbers, then spelled."""
    population = POPULATIONS[like]
    rng = np.random.default_rng(seed)
    users = max(1, min(rows, round(rows * population.users / population.rows)))
    sizes = _sizes(rng, rows=rows, users=users, sigma=population.activity)
    user, time, query, host, rank = _numbers(rng, population, seed=seed, sizes=sizes)
    asked = pa.array(query).dictionary_encode()
    went = pa.array(host, mask=host < 0).dictionary_encode()
    queries, sites = (np.asarray(codes.dictionary, np.int64) for codes in (asked, went))
    spelled = text.texts(queries)
    names = pa.array([f"u{i:07d}" for i in rng.permutation(users)])
    moment = np.datetime64(population.first_day, "us") + time.astype("timedelta64[s]")
    return Invented(
        table=pa.table(
            {
                "user": _taken(names, pa.array(user)),
                "time": pa.array(moment),
                "query": _taken(spelled, asked.indices),
                "url": _taken(text.urls(sites), went.indices),
                "rank": pa.array(rank.astype(np.int64), mask=host < 0),
            }
        ),
        rows=rows,
        users=users,
        seed=seed,
        like=like,
        labels=text.labels(queries, spelled, sites),
    )


def _numbers(
    rng: np.random.Generator, population: Population, *, seed: int, sizes: Ints
) -> list[Numbers]:
    """User, second, query, host (-1: no click) and rank of each row, by time."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
    chunks = [
        _rows(rng, population, seed=seed, user=np.repeat(some, sizes[some]))
        for some in np.split(np.arange(len(sizes)), cuts)
    ]
    columns = [np.concatenate(column) for column in zip(*chunks, strict=True)]
    order = np.argsort(columns[1], kind="stable")  # the rows of one submission stay together
    return [column[order] for column in columns]


def _taken(values: pa.Array, codes: pa.Array) -> pa.ChunkedArray:
    """The value of each code, in pieces whose text stays well below Arrow's 2 GB."""
    piece = 10_000_000
    return pa.chunked_array(
        [values.take(codes[at : at + piece]) for at in range(0, len(codes), piece)]
    )


def _sizes(rng: np.random.Generator, *, rows: int, users: int, sigma: float) -> Ints:
    """How many rows each user has, at least one, in proportion to a log-normal activity."""
    activity = rng.lognormal(0.0, sigma, users)
    return np.asarray(1 + rng.multinomial(rows - users, activity / activity.sum()))


def _zipf(u: npt.NDArray[np.float64], *, size: int, s: float, q: float) -> Ints:
    """Ranks from 0 with weights (rank + q)^-s, for fractions u; the sum taken as an integral."""
    low, high = q ** (1 - s), (size + q) ** (1 - s)
    rank = (low + u * (high - low)) ** (1 / (1 - s)) - q
    return np.asarray(np.clip(rank.astype(np.int64), 0, size - 1))


def _after(fact: Facts) -> Facts:
    """Whether the fact held one place before."""
    return np.concatenate(([False], fact[:-1]))


def _rows(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Numbers, ...]:
    """What `_numbers` gives, for some users, in ascending runs of users and their times.

    A row is a submission or one more click on the one before it.
    """
    silent = text.uniform(user, seed + 1) < population.silent
    more = (rng.random(len(user)) < population.more) & ~silent & ~_changed(user)
    submitted = np.flatnonzero(~more)
    query, second, again = _submissions(rng, population, seed=seed, user=user[submitted])
    site = text.kind_of(query) == text.SITE
    clicked = (rng.random(len(query)) < population.clicked) & (text.kind_of(query) != text.WRONG)
    followed = np.append(more[1:], False)[submitted]
    clicked = (clicked | site | followed) & ~silent[submitted]
    rank = np.where(site, 1, rng.geometric(population.first, len(query)))
    rank += 10 * (again & ~site & (rng.random(len(query)) < population.turned))
    of = np.cumsum(~more) - 1  # which submission each row belongs to
    down = np.cumsum(np.where(more, rng.geometric(population.first, len(user)), 0))
    rank = np.minimum(rank[of] + down - down[submitted][of], 100)
    query, clicked = query[of], clicked[of]
    host = np.full(len(user), -1)
    host[clicked] = text.clicked_host(query[clicked], rank[clicked])
    # Small types: all chunks are in memory until they are ordered.
    narrow = (user.astype(np.int32), second[of].astype(np.int32), query)
    return *narrow, host.astype(np.int32), rank.astype(np.int8)


def _submissions(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Ints, Ints, Facts]:
    """Query and second of each submission, and whether it asks the query before it again."""
    again = (rng.random(len(user)) < population.again) & ~_changed(user)
    query, new_session = _asked(rng, population, seed=seed, user=user[~again])
    of = np.cumsum(~again) - 1  # which of these each submission asks
    begins = new_session[of] & ~again
    second = _seconds(rng, population.days, user=user, new_session=begins)
    return query[of], second, again


def _changed(user: Ints) -> Facts:
    """Whether a row is its user's first."""
    return np.concatenate(([True], user[1:] != user[:-1]))


def _asked(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Ints, Facts]:
    """A query for each place of the users' series of different queries, and where sessions begin."""
    p, size = population, len(user)
    query = _zipf(rng.random(size), size=p.shared, s=p.zipf_s, q=p.zipf_q)
    unique = rng.integers(0, text.NUMBERS, size)  # of so many that hardly any comes twice
    others = {
        text.OWN: (p.own, unique),
        text.SITE: (p.site, _favourites(rng, seed=seed, user=user)),
        text.FEAR: (p.fear, _zipf(rng.random(size), size=len(text.FEARS), s=1.01, q=1.0)),
        text.PERSONAL: (p.personal, unique),
    }
    chance = rng.random(size)
    edge = p.wrong
    for kind, (share, number) in others.items():
        there = (chance >= edge) & (chance < edge + share)
        query[there] = text.packed(kind, number[there])
        edge += share
    fixed = _misspelled(rng, p, query, user=user, at=chance < p.wrong)
    special = _specialised(rng, query, user=user, at=(chance >= 1 - p.special) & ~fixed)
    new_session = rng.random(size) < p.new_session
    return query, _changed(user) | new_session & ~fixed & ~special


def _misspelled(
    rng: np.random.Generator, population: Population, query: Ints, *, user: Ints, at: Facts
) -> Facts:
    """Where a query was made the right spelling of the one before, made a wrong one at some places."""
    wrong = at & ~_after(at)
    size = len(query)
    right = _zipf(rng.random(size), size=text.VARIED, s=population.zipf_s, q=population.zipf_q)
    variant = rng.integers(0, text.WRONGS, size)
    query[wrong] = text.packed(text.WRONG, right * text.WRONGS + variant)[wrong]
    fixed = _after(wrong) & ~_changed(user) & (rng.random(size) < FIXED)
    query[fixed] = right[np.flatnonzero(fixed) - 1]
    return np.asarray(fixed)


def _specialised(rng: np.random.Generator, query: Ints, *, user: Ints, at: Facts) -> Facts:
    """Where a query was made the one before with one more word: at these places, if that has such."""
    before = np.roll(query, 1)
    there = at & ~_after(at) & ~_changed(user) & (before < text.VARIED)
    variant = np.minimum(rng.geometric(0.4, len(query)), text.SPECIALS) - 1
    query[there] = text.packed(text.SPECIAL, before * text.SPECIALS + variant)[there]
    return np.asarray(there)


def _favourites(rng: np.random.Generator, *, seed: int, user: Ints) -> Ints:
    """For each place one of its user's favourite sites, always asked for in the same way."""
    which = np.minimum(rng.geometric(0.5, len(user)), FAVOURITES)
    favourite = user * (FAVOURITES + 1) + which
    site = _zipf(text.uniform(favourite, seed + 2), size=text.SITES, s=SITE_S, q=SITE_Q)
    form = (text.uniform(favourite, seed + 3) * text.FORMS).astype(np.int64)
    return np.asarray(site * text.FORMS + form)


def _seconds(rng: np.random.Generator, days: int, *, user: Ints, new_session: Facts) -> Ints:
    """Seconds since the first day: sessions at random moments, then about a minute a query.

    A user's times strictly increase, also where one session runs into the next.
    """
    first = np.flatnonzero(new_session)
    day = rng.integers(0, days, len(first))
    hour = rng.normal(15, 4.5, len(first)) % 24
    start = ((day + hour / 24) * 86_400).astype(np.int64)
    clock = np.sort(user[first] * STEP + start)  # a user's sessions follow each other
    since = np.cumsum(np.where(new_session, 0, 1 + rng.exponential(75, len(user))))
    session = np.cumsum(new_session) - 1
    time = clock[session] + (since - since[first][session]).astype(np.int64)
    place = np.arange(len(user))
    return np.asarray(np.maximum.accumulate(time - place) + place - user * STEP)


def _users(rng: np.random.Generator, rows: int) -> Ints:
    """A user number for each row, in ascending runs; every user has at least one row."""
    users = max(1, rows // ROWS_A_USER)
    return np.repeat(np.arange(users), _sizes(rng, rows=rows, users=users, sigma=1.35))


def _times(rng: np.random.Generator, user: Ints) -> Ints:
    """Microseconds since the first day: sessions at random moments, minutes inside a session."""
    rows = len(user)
    new = rng.random(rows) < NEW_SESSION
    new[0] = True
    new[1:] |= user[1:] != user[:-1]
    first = np.flatnonzero(new)
    day = rng.integers(0, DAYS, len(first))
    hour = rng.normal(15, 4.5, len(first)) % 24
    start = ((day + hour / 24) * 86_400e6).astype(np.int64)
    start = start[np.lexsort((start, user[first]))]  # a user's sessions follow each other
    gap = np.where(new, 0, (rng.exponential(75e6, rows)).astype(np.int64))
    since = np.cumsum(gap)
    session = np.cumsum(new) - 1
    return np.asarray(start[session] + since - since[first][session])


def _query_ids(rng: np.random.Generator, user: Ints) -> Ints:
    """A query number for each row; shared ones are ranks from 0, own ones lie above `rows`."""
    rows = len(user)
    weights = (np.arange(1, rows + 1) + ZIPF_Q) ** -ZIPF_S
    steps = np.cumsum(weights)
    shared = np.searchsorted(steps, rng.random(rows) * steps[-1])
    own = rows + np.arange(rows)
    kind = rng.random(rows)
    query = np.where(kind < SHARED, shared, own)
    again = kind >= SHARED + OWN
    again[0] = False
    again[1:] &= user[1:] == user[:-1]
    asked = np.maximum.accumulate(np.where(again, 0, np.arange(rows)))
    return np.asarray(query[asked])


def _vocabulary(rng: np.random.Generator) -> npt.NDArray[np.str_]:
    """Real words first, then 30,000 pronounceable ones."""
    onset, vowel, coda = "bdfgklmnprstvz", "aeiou", ("", "", "n", "r", "s", "l")
    size = 30_000
    syllables = [
        [onset[o] + vowel[v] + coda[c] for o, v, c in zip(*picks, strict=True)]
        for picks in (
            (rng.integers(0, 14, size), rng.integers(0, 5, size), rng.integers(0, 6, size))
            for _ in range(3)
        )
    ]
    invented = ["".join(parts) for parts in zip(*syllables, strict=True)]
    return np.array(WORDS + invented)
