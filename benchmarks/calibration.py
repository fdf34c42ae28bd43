"""How near an invented log comes to the known one it is like.

    python benchmarks/calibration.py [--like aol] [--like zealous] [--fraction 1.0] [--seed 1]

Generates each log in a process of its own, counts with DuckDB what is known of the real one, and
prints quantity, target, generated, ratio; then what generating cost. With a smaller fraction the
targets of the whole log are scaled with it: right for rows, clicks and users, too low for distinct
things. The part of the AOL log is never scaled: it needs 51,922 users, about a tenth of the log.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import duckdb
from measure import measure

from murmurlog.logs.invented.generate import POPULATIONS

PART = 51_922  # users with a click, at random
WHOLE = {
    "aol": {
        "rows": (36_389_567, "SELECT count(*) FROM log"),
        "users": (657_426, "SELECT count(DISTINCT user) FROM log"),
        "distinct queries": (10_154_742, "SELECT count(DISTINCT query) FROM log"),
        "clicks": (19_442_629, "SELECT count(url) FROM log"),
    },
    "zealous": {
        "users": (500_000, "SELECT count(DISTINCT user) FROM log"),
        "distinct keywords": (
            1_000_000,
            """
            SELECT count(DISTINCT word) FROM
            (SELECT unnest(string_split(query, ' ')) AS word FROM (SELECT DISTINCT query FROM log))
            """,
        ),
        "distinct queries": (3_000_000, "SELECT count(DISTINCT query) FROM log"),
        "distinct query pairs": (
            3_000_000,
            """
            SELECT count(*) FROM (
                SELECT DISTINCT before, query FROM (
                    SELECT query, time, lag(query) OVER w AS before, lag(time) OVER w AS then_
                    FROM log WINDOW w AS (PARTITION BY user ORDER BY time)
                ) WHERE query <> before AND time - then_ < INTERVAL 30 MINUTE
            )
            """,
        ),
        "distinct clicks (query, url)": (
            4_500_000,
            "SELECT count(*) FROM (SELECT DISTINCT query, url FROM log WHERE url IS NOT NULL)",
        ),
    },
}
OF_PART = {
    "part: click rows": (1_864_860, "SELECT count(*) FROM part"),
    "part: distinct (query, url)": (
        1_190_491,
        "SELECT count(*) FROM (SELECT DISTINCT query, url FROM part)",
    ),
    "part: distinct queries": (583_084, "SELECT count(DISTINCT query) FROM part"),
    "part: distinct urls": (373_837, "SELECT count(DISTINCT url) FROM part"),
}


def calibrate(like: str, *, fraction: float, seed: int) -> None:
    """Prints one log's table."""
    rows = round(POPULATIONS[like].rows * fraction)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        murmurlog = str(Path(sys.executable).with_name("murmurlog"))
        arguments = {"--like": like, "--rows": rows, "--seed": seed, "--out": log}
        flags = [str(one) for pair in arguments.items() for one in pair]
        cost = measure([murmurlog, "generate", *flags])
        size = log.stat().st_size
        connection = duckdb.connect(str(Path(folder) / "count.db"))
        connection.execute(f"CREATE VIEW log AS FROM '{log}'")
        print(f"{like}: {rows} rows, seed {seed}")
        print(f"{'':30} {'target':>12} {'generated':>12} {'ratio':>6}")
        for name, (target, query) in WHOLE[like].items():
            _show(connection, name, round(target * fraction), query)
        if like == "aol":
            _show_part(connection)
        connection.close()
    print(
        f"{cost.wall:.0f} s, {cost.cpu:.0f} CPU s, {cost.peak_mb:.0f} MB of memory, "
        f"file of {size / 2**20:.0f} MB\n",
        flush=True,
    )


def _show_part(connection: duckdb.DuckDBPyConnection) -> None:
    """Prints the part's rows, or that the log has too few users for it."""
    clicking, every = connection.execute(
        "SELECT count(DISTINCT user) FILTER (url IS NOT NULL), count(DISTINCT user) FROM log"
    ).fetchone()
    print(f"users with a click: {clicking} of {every}")
    if clicking < PART:
        print(f"part: needs {PART} of them")
        return
    connection.execute(
        f"""
        CREATE TABLE part AS
        WITH chosen AS (
            SELECT user FROM log WHERE url IS NOT NULL GROUP BY user ORDER BY md5(user) LIMIT {PART}
        )
        SELECT query, url FROM log SEMI JOIN chosen USING (user) WHERE url IS NOT NULL
        """
    )
    for name, (target, query) in OF_PART.items():
        _show(connection, name, target, query)


def _show(connection: duckdb.DuckDBPyConnection, name: str, target: int, query: str) -> None:
    (found,) = connection.execute(query).fetchone()
    print(f"{name:30} {target:12} {found:12} {found / target:6.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--like", action="append", choices=sorted(POPULATIONS))
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for like in options.like or sorted(POPULATIONS):
        calibrate(like, fraction=options.fraction, seed=options.seed)


if __name__ == "__main__":
    main()
