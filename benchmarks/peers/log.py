"""An invented log for the comparison: as many rows as asked, 15.5 a user, a third of them distinct.

    python benchmarks/peers/log.py ROWS FILE [--plain]

Of 20 M rows, 1.29 M users ask about 6.4 M distinct queries, most of them once; half of the rows have a
click, and half follow the user's previous row within minutes. With --plain there are only queries, every
fifth with a number in it, and whole numbers for users; no times. Reproducible.
"""

import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.populations import sizes
from murmurlog.logs.invented.texts import decode, pack

ROWS_A_USER = 15.5
OWN, AGAIN = 0.295, 0.15  # only this user asks it; the previous query once more; the rest is shared
ZIPF_S, ZIPF_Q = 1.35, 8.0
SHARED = 8_000_000  # queries that several may ask
DAYS = 90
FIRST_DAY = np.datetime64("2026-03-01", "us")
CLICKED, FOLLOWS = 0.5, 0.5
PAUSE = 120_000_000  # microseconds between rows of a session, on average
RESULTS = 0.6, 0.85, 1.0  # which of a query's three results is clicked, cumulative


def table_of(rows: int, *, seed: int = 1) -> pa.Table:
    """(user, time, query, url, number), in order of users; the number is the user's, as a whole number."""
    rng = np.random.default_rng(seed)
    users = max(1, round(rows / ROWS_A_USER))
    user = np.repeat(np.arange(users), sizes(rng, rows=rows, users=users, sigma=1.35))
    steps = np.cumsum((np.arange(1, SHARED + 1) + ZIPF_Q) ** -ZIPF_S)
    query = np.searchsorted(steps, rng.random(rows) * steps[-1])
    kind = rng.random(rows)
    own = kind < OWN
    query = pack(text.SHARED, query)
    query[own] = pack(text.OWN, np.flatnonzero(own))
    again = kind >= 1 - AGAIN
    again[0] = False
    again[1:] &= user[1:] == user[:-1]
    query = query[np.maximum.accumulate(np.where(again, 0, np.arange(rows)))]
    time = rng.integers(0, DAYS * 86_400_000_000, rows)
    distinct, codes = np.unique(query, return_inverse=True)
    names = rng.permutation(users)
    follows = rng.random(rows) < FOLLOWS
    follows[0] = False
    follows[1:] &= user[1:] == user[:-1]
    pauses = np.cumsum(np.where(follows, rng.exponential(PAUSE, rows).astype(np.int64), 0))
    first = np.maximum.accumulate(np.where(follows, 0, np.arange(rows)))
    time = time[first] + pauses - pauses[first]
    site = codes * 3 + np.searchsorted(RESULTS, rng.random(rows))
    clicked = rng.random(rows) < CLICKED
    sites, place = np.unique(site // 4, return_inverse=True)
    urls = pa.array([f"http://www.site{n}.com/page/{n % 7}" for n in sites.tolist()])
    return pa.table(
        {
            "user": decode(user, [f"u{i:07d}" for i in names]),
            "time": pa.array(FIRST_DAY + time.astype("timedelta64[us]")),
            "query": _taken(text.texts(distinct), codes),
            "url": _taken(urls, pa.array(place, mask=~clicked)),
            "number": pa.array(names[user], pa.int64()),
        }
    )


def _taken(values: pa.Array, codes: np.ndarray | pa.Array) -> pa.ChunkedArray:
    """The value of each code, in pieces whose text stays well below Arrow's 2 GB."""
    piece = 10_000_000
    pieces = [codes[at : at + piece] for at in range(0, len(codes), piece)]
    return pa.chunked_array([values.take(pa.array(some)) for some in pieces])


def write(rows: int, out: Path, *, plain: bool) -> None:
    """The log as Parquet, by time."""
    numbered = "query || CASE WHEN hash(query) % 5 = 0 THEN ' ' || hash(query) % 2000 ELSE '' END"
    columns = f'number AS "user", {numbered} AS query' if plain else '"user", time, query, url'
    connection = duckdb.connect()
    connection.register("invented", table_of(rows))
    connection.execute(
        f"COPY (SELECT {columns} FROM invented ORDER BY time) TO $file "
        "(FORMAT parquet, COMPRESSION zstd)",
        {"file": str(out)},
    )


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]), plain="--plain" in sys.argv[3:])
