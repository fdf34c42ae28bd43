"""OpenDP's Context on Polars: 10 distinct queries a user, unknown keys, (1, 1e-6), noisy counts."""

import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib", "honest-but-curious")
context = dp.Context.compositor(
    data=pl.scan_parquet(sys.argv[1]).select("user", "query"),
    privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user")),
    privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    split_evenly_over=1,
)
found = (
    context.query()
    .truncate_num_groups(10, by=["query"], keep="first")
    .truncate_per_group(1, by=["query"])
    .group_by("query")
    .agg(dp.len())
    .release()
    .collect()
)
print(found.height)
