"""Synthetic search logs: reproducible, shaped like real ones, without real users.

Two models (docs/explanation/generate.md). The plain one: users' activity is log-normal; a user's
rows fall into sessions; a query is one of a shared list with Zipf-Mandelbrot popularity, or the
user's own (the long tail that only one person asks), or the previous one again; a little over half
of the queries are clicked, mostly on the first result. The other draws users of a `Population` that
was fitted to a known log, with planted labels; `texts` gives the texts of queries and urls. Draws no
privacy noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle.progress import measure
from murmurlog.errors import DiskError, EngineError, InputError, UsageError
from murmurlog.logs.duckdb_statements import run_statement
from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.populations import POPULATIONS, numbers
from murmurlog.logs.invented.populations import sizes as draw_sizes
from murmurlog.logs.invented.texts import WORDS, Ints
from murmurlog.logs.source import format_of
from murmurlog.logs.sql import quote

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
MOST_ROWS = 2_000_000_000  # all are held in memory


@dataclass(frozen=True, kw_only=True)
class SyntheticLog:
    """A synthetic log: its rows and how it was generated."""

    table: pa.Table  # user, time, query, url, rank
    rows: int
    users: int
    seed: int
    like: str | None = None  # the population it was drawn from
    labels: pa.Table | None = None  # kind, query, target: what was planted


def generate(
    *,
    rows: int,
    out: str | Path | None = None,
    seed: int = 1,
    like: str | None = None,
    labels: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> SyntheticLog:
    """A synthetic search log of so many rows: shaped like a real one, without real users.

    The same seed gives the same log. `like` is "aol" or "zealous". The log is written to `out`, in the
    format that its ending names, and what was planted in it to `labels`.
    """
    target = None if out is None else Path(out)
    planted = None if labels is None else Path(labels)
    if target:
        check_target(target)
    if planted:
        if target is None:
            raise UsageError("labels are written beside a log: give out, too")
        check_labels(planted, like=like, out=target)
    say(f"inventing {rows} rows")
    log = invent(rows=rows, seed=seed, like=like, say=say)
    if target:
        say(f"writing {target.name}")
        write(log, target)
    if planted:
        write_labels(log, planted)
    return log


def invent(
    *,
    rows: int,
    seed: int,
    like: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> SyntheticLog:
    """A synthetic log of exactly this many rows; the same for the same seed.

    With `like` its users are a part of that population, as many as make that many rows on average.
    """
    if rows < 1:
        raise UsageError(f"--rows must be at least 1, not {rows}")
    if rows > MOST_ROWS:
        raise UsageError(f"--rows must be at most {MOST_ROWS}, not {rows}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, but is {seed}")
    if like is None:
        return _plain(rows=rows, seed=seed)
    if like not in POPULATIONS:
        raise UsageError(f"--like {like!r} is not known: choose {' or '.join(POPULATIONS)}")
    return _from_population(rows=rows, seed=seed, like=like, advance=measure(say, total=rows))


def _plain(*, rows: int, seed: int) -> SyntheticLog:
    """A log of the plain model."""
    rng = np.random.default_rng(seed)
    user = _users(rng, rows)
    time = _times(rng, user)
    query = _query_ids(rng, user)
    words = _vocabulary(rng)
    rank = np.minimum(rng.geometric(0.55, rows), 10)
    clicked = rng.random(rows) < CLICKED
    return SyntheticLog(
        table=pa.table(
            {
                "user": text.decode(user, [f"u{i:07d}" for i in rng.permutation(user[-1] + 1)]),
                "time": pa.array(FIRST_DAY + time.astype("timedelta64[us]")),
                "query": text.plain_texts(query, words),
                "url": text.invent_urls(query, rank, clicked, words),
                "rank": pa.array(rank, mask=~clicked),
            }
        ),
        rows=rows,
        users=int(user[-1]) + 1,
        seed=seed,
    )


def check_target(out: Path, *, flag: str = "--out", kinds: Sequence[str] = tuple(COPY)) -> None:
    """Raises unless a log, or the output of `flag`, can be written there."""
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"--out {str(out)!r} is not UTF-8: choose another name") from None
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out.name} exists: choose another {flag}, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(
            f"{flag} {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    try:
        kind, compression = format_of(out)
    except InputError:
        kind, compression = "", None
    if kind not in kinds or compression == "zip":
        what = "a log" if flag == "--out" else "labels"
        raise UsageError(f"cannot write {out.name}: {what} can be {', '.join(kinds)}")


def check_labels(labels: Path, *, like: str | None, out: Path) -> None:
    """Raises unless the labels of a log of this kind can be written there, beside the log."""
    if like is None:
        raise UsageError("--labels needs --like: a plain log has no labels")
    if realpath(labels) == realpath(out):
        raise UsageError(f"--labels and --out are both {str(out)!r}: choose two files")
    check_target(labels, flag="--labels", kinds=LABELS)


def write(log: SyntheticLog, out: Path) -> None:
    """Writes the rows by time, in the format of the file's extension."""
    check_target(out)
    order = "" if log.like else "ORDER BY time"  # drawn logs are in order already
    _copy(log.table, out, seed=log.seed, order=order)


def write_labels(log: SyntheticLog, labels: Path) -> None:
    """Writes the planted labels, as Parquet or CSV by the file's extension."""
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
    try:
        run_statement(
            f"COPY (FROM invented {order}) TO {quote(str(out))} ({options})",
            tables={"invented": table},
        )
    except EngineError as error:
        raise DiskError(f"cannot write {out.name}: {error.__cause__}") from None
    except BaseException:  # stopped: no half of a log
        out.unlink(missing_ok=True)
        raise


def _from_population(
    *, rows: int, seed: int, like: str, advance: Callable[[int], None]
) -> SyntheticLog:
    """A log of users of a population: drawn as numbers, then given texts."""
    population = POPULATIONS[like]
    rng = np.random.default_rng(seed)
    users = max(1, min(rows, round(rows * population.users / population.rows)))
    sizes = draw_sizes(rng, rows=rows, users=users, sigma=population.activity)
    (user, time, query, host, rank), specialised = numbers(
        rng, population, seed=seed, sizes=sizes, advance=advance
    )
    query_codes = pa.array(query).dictionary_encode()
    host_codes = pa.array(host, mask=host < 0).dictionary_encode()
    queries, sites = (np.asarray(codes.dictionary, np.int64) for codes in (query_codes, host_codes))
    spelled = text.texts(queries)
    names = pa.array([f"u{i:07d}" for i in rng.permutation(users)])
    moment = np.datetime64(population.first_day, "us") + time.astype("timedelta64[s]")
    return SyntheticLog(
        table=pa.table(
            {
                "user": _take(names, pa.array(user)),
                "time": pa.array(moment),
                "query": _take(spelled, query_codes.indices),
                "url": _take(text.urls(sites), host_codes.indices),
                "rank": pa.array(rank.astype(np.int64), mask=host < 0),
            }
        ),
        rows=rows,
        users=users,
        seed=seed,
        like=like,
        labels=text.labels(queries, spelled, host=sites, specialised=specialised),
    )


def _take(values: pa.Array, codes: pa.Array) -> pa.ChunkedArray:
    """The value of each code, in pieces whose text stays well below Arrow's 2 GB."""
    piece = 10_000_000
    return pa.chunked_array(
        [values.take(codes[at : at + piece]) for at in range(0, len(codes), piece)]
    )


def _users(rng: np.random.Generator, rows: int) -> Ints:
    """A user number for each row, in ascending runs; every user has at least one row."""
    users = max(1, rows // ROWS_A_USER)
    return np.repeat(np.arange(users), draw_sizes(rng, rows=rows, users=users, sigma=1.35))


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
    unique = rows + np.arange(rows)
    kind = rng.random(rows)
    query = np.where(kind < SHARED, shared, unique)
    again = kind >= SHARED + OWN
    again[0] = False
    again[1:] &= user[1:] == user[:-1]
    origin = np.maximum.accumulate(np.where(again, 0, np.arange(rows)))
    return np.asarray(query[origin])


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
