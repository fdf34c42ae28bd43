"""Not private: users of each query, the first 10 distinct queries of each counted. Polars."""

import sys

import polars as pl

firsts = (
    pl.read_parquet(sys.argv[1], columns=["user", "time", "query"])
    .group_by("user", "query")
    .agg(pl.col("time").min())
)
found = (
    firsts.filter(pl.col("time").rank("ordinal").over("user") <= 10)
    .group_by("query")
    .agg(pl.len().alias("users"))
)
print(found.height)
