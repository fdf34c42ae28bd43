"""Not private: users of each item, at most CAP distinct items of each user counted. Polars.

    python benchmarks/peers/capped_polars.py LOG [TABLES] [CAP]

The first items by time, or without times those with the least hash of user and item.
"""

import sys
from datetime import timedelta

import polars as pl

TABLES = (sys.argv[2] if len(sys.argv) > 2 else "query").split(",")
CAP = int(sys.argv[3]) if len(sys.argv) > 3 else 10
TIMED = "time" in pl.read_parquet_schema(sys.argv[1])
KEYS = {
    "query": ["query"],
    "click": ["query", "url"],
    "pair": ["query", "next_query"],
    "session": ["queries"],
}
GAP = timedelta(minutes=30)
needed = ["user", *(["time"] if TIMED else []), "query", *(["url"] if "click" in TABLES else [])]
log = pl.read_parquet(sys.argv[1], columns=needed)
if {"pair", "session"} & {*TABLES}:
    log = log.sort("user", "time", "query")


def rows_of(table: str) -> pl.DataFrame:
    """user, time and the key columns."""
    if table == "click":
        return log.filter(pl.col("url").is_not_null())
    if table == "pair":
        same = pl.col("user") == pl.col("user").shift(-1)
        near = pl.col("time").shift(-1) - pl.col("time") <= GAP
        pairs = log.with_columns(next_query=pl.col("query").shift(-1))
        return pairs.filter(same & near & (pl.col("query") != pl.col("next_query")))
    if table == "session":
        other = pl.col("user") != pl.col("user").shift(1)
        far = pl.col("time") - pl.col("time").shift(1) > GAP
        starts = (other | far).fill_null(True)
        numbered = log.with_columns(starts=starts, session=starts.cum_sum())
        asked = numbered.filter(pl.col("starts") | (pl.col("query") != pl.col("query").shift(1)))
        whole = asked.group_by("user", "session", maintain_order=True).agg(
            pl.col("time").min(), queries=pl.col("query")
        )
        return whole.filter(pl.col("queries").list.len() >= 2)
    return log


for table in TABLES:
    keys = KEYS[table]
    if TIMED:
        firsts = rows_of(table).group_by("user", *keys).agg(pl.col("time").min().alias("first"))
    else:
        firsts = rows_of(table).select("user", *keys).unique()
        firsts = firsts.with_columns(first=pl.struct("user", *keys).hash())
    found = (
        firsts.filter(pl.col("first").rank("ordinal").over("user") <= CAP)
        .group_by(keys)
        .agg(pl.len().alias("users"))
    )
    print(found.height)
