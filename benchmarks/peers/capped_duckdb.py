"""Not private: users of each item, at most CAP distinct items of each user counted. DuckDB.

    python benchmarks/peers/capped_duckdb.py LOG [TABLES] [CAP]

The first items by time, or without times those with the least hash of user and item.
"""

import sys

import duckdb

TABLES = (sys.argv[2] if len(sys.argv) > 2 else "query").split(",")
CAP = int(sys.argv[3]) if len(sys.argv) > 3 else 10
LOG = duckdb.read_parquet(sys.argv[1])
TIMED = "time" in LOG.columns
FOLLOWING = """
    SELECT *, lead(query) OVER own AS next_query, lead(time) OVER own - time AS gap
    FROM LOG WINDOW own AS (PARTITION BY "user" ORDER BY time, query)
"""
STARTS = """
    SELECT "user", time, query, lag(query) OVER own AS previous,
           coalesce(time - lag(time) OVER own > INTERVAL 30 MINUTE, true) AS starts
    FROM LOG WINDOW own AS (PARTITION BY "user" ORDER BY time, query)
"""
NUMBERED = f"""
    SELECT *, sum(starts::int) OVER (PARTITION BY "user" ORDER BY time) AS session FROM ({STARTS})
"""
ITEMS = {
    "query": ("query", "FROM LOG"),
    "click": ("query, url", "FROM LOG WHERE url IS NOT NULL"),
    "pair": (
        "query, next_query",
        f"FROM ({FOLLOWING}) WHERE gap <= INTERVAL 30 MINUTE AND query <> next_query",
    ),
    "session": (
        "queries",
        f"""SELECT "user", min(time) AS time, list(query ORDER BY time, query) AS queries
            FROM ({NUMBERED}) WHERE starts OR query <> previous
            GROUP BY "user", session HAVING count(*) >= 2""",
    ),
}
for table in TABLES:
    keys, rows = ITEMS[table]
    first = "min(time)" if TIMED else f'hash("user", {keys})'
    found = duckdb.sql(
        f"""
        WITH firsts AS (
          SELECT "user", {keys}, {first} AS first FROM ({rows}) GROUP BY "user", {keys}
        ), placed AS (
          SELECT {keys}, row_number() OVER (PARTITION BY "user" ORDER BY first, {keys}) AS place
          FROM firsts
        )
        SELECT {keys}, count(*) AS users FROM placed WHERE place <= {CAP} GROUP BY {keys}
        """
    ).to_arrow_table()
    print(found.num_rows)
