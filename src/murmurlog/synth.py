"""Invented search logs: reproducible, nobody's, shaped like real ones. Draws no privacy noise.

The model (docs/generate.md): users differ in activity by a log-normal law; a user's rows fall into
sessions; a query is one of a shared list with Zipf-Mandelbrot popularity, or the user's own (the
long tail that only one person ever asks), or the previous one again; a little over half of the
queries are clicked, mostly on the first result.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.errors import InputError, UsageError
from murmurlog.source import format_of

Ints = npt.NDArray[np.int64]

ROWS_A_USER = 40
DAYS = 90
FIRST_DAY = np.datetime64("2026-03-01", "us")

SHARED, OWN = 0.62, 0.23  # the rest asks the previous query again
ZIPF_S, ZIPF_Q = 1.02, 8.0
CLICKED = 0.53
NEW_SESSION = 0.3

HEAD, WORDS = (
    part.splitlines()
    for part in (files("murmurlog") / "words.txt")
    .read_text("utf-8")
    .split("\n", 1)[1]
    .split("\n\n")
)
COPY = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
    "tsv": "FORMAT csv, HEADER, DELIMITER '\t', QUOTE '', ESCAPE ''",
    "jsonl": "FORMAT json",
}
TOPLEVEL = (".com", ".com", ".com", ".org", ".net", ".info")


@dataclass(frozen=True, kw_only=True)
class Invented:
    """An invented log: its rows and how it was made."""

    table: pa.Table  # user, time, query, url, rank
    rows: int
    users: int
    seed: int


def invent(*, rows: int, seed: int) -> Invented:
    """An invented log of exactly this many rows; the same for the same seed."""
    if rows < 1:
        raise UsageError(f"--rows must be at least 1, not {rows}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, but is {seed}")
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
                "user": _coded(user, [f"u{i:07d}" for i in rng.permutation(user[-1] + 1)]),
                "time": pa.array(FIRST_DAY + time.astype("timedelta64[us]")),
                "query": _texts(query, words),
                "url": _urls(query, rank, clicked, words),
                "rank": pa.array(rank, mask=~clicked),
            }
        ),
        rows=rows,
        users=int(user[-1]) + 1,
        seed=seed,
    )


def check_target(out: Path) -> None:
    """Raises unless a log can be written there."""
    if out.exists():
        raise UsageError(f"{out.name} exists: choose another --out, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(f"--out {str(out)!r}: there is no folder {str(out.parent)!r}")
    try:
        kind, _ = format_of(out)
    except InputError as error:
        raise UsageError(str(error)) from None
    if kind not in COPY:
        raise UsageError(f"cannot write {out.name}: a log can be {', '.join(COPY)}")


def write(log: Invented, out: Path) -> None:
    """Writes the rows by time, in the format of the file's extension."""
    check_target(out)
    kind, compression = format_of(out)
    options = COPY[kind]
    if kind == "parquet":
        note = f"invented by murmurlog generate, seed {log.seed}; not a real log"
        options += f", KV_METADATA {{murmurlog: '{note}'}}"
    if compression:
        options += f", COMPRESSION {compression}"
    connection = duckdb.connect()
    try:
        connection.register("invented", log.table)
        connection.execute(
            f"COPY (FROM invented ORDER BY time) TO $file ({options})", {"file": str(out)}
        )
    except duckdb.IOException as error:
        raise InputError(f"cannot write {out.name}: {error}") from None
    finally:
        connection.close()


def _users(rng: np.random.Generator, rows: int) -> Ints:
    """A user number for each row, in ascending runs; every user has at least one row."""
    users = max(1, rows // ROWS_A_USER)
    activity = rng.lognormal(0.0, 1.35, users)
    extra = rng.multinomial(rows - users, activity / activity.sum())
    return np.repeat(np.arange(users), 1 + extra)


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


def _coded(codes: Ints, values: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values))]
    ).cast(pa.string())


def _mixed(number: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """A fixed scramble of integers, so that a query's text depends on its number only."""
    x = number + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _pick(number: npt.NDArray[np.uint64], salt: int, size: int) -> Ints:
    """Indices below `size`, small ones more often (a power law with exponent 2/3)."""
    uniform = _mixed(number, salt).astype(np.float64) / 2.0**64
    return np.minimum((uniform**3 * size).astype(np.int64), size - 1)


def _texts(query: Ints, words: npt.NDArray[np.str_]) -> pa.ChunkedArray:
    distinct, codes = np.unique(query, return_inverse=True)
    number = distinct.astype(np.uint64)
    length = 1 + (distinct >= 200) + (_mixed(number, 9) % np.uint64(3)).astype(np.int64)
    columns = [words[_pick(number, salt, len(words))].tolist() for salt in range(4)]
    texts = [
        HEAD[q] if q < len(HEAD) else " ".join(row[:n])
        for q, n, row in zip(
            distinct.tolist(), length.tolist(), zip(*columns, strict=True), strict=True
        )
    ]
    return _coded(codes, texts)


def _urls(
    query: Ints, rank: Ints, clicked: npt.NDArray[np.bool_], words: npt.NDArray[np.str_]
) -> pa.ChunkedArray:
    target = np.where(clicked, query * 16 + rank, -1)
    distinct, codes = np.unique(target, return_inverse=True)
    number = distinct.astype(np.uint64)
    site = words[_pick(number, 5, len(words))].tolist()
    page = words[_pick(number, 6, len(words))].tolist()
    end = (_mixed(number, 7) % np.uint64(len(TOPLEVEL))).astype(np.int64).tolist()
    urls: list[str | None] = [
        f"http://www.{s}{TOPLEVEL[e]}" + ("" if t % 16 == 1 else f"/{p}")
        for t, s, p, e in zip(distinct.tolist(), site, page, end, strict=True)
    ]
    if distinct[0] < 0:
        urls[0] = None
    return _coded(codes, urls)  # type: ignore[arg-type]
