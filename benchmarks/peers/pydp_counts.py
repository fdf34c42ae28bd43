"""PyDP on a Polars aggregate: a cap of 10 in Polars, keys chosen and counts made noisy by PyDP.

Half of epsilon chooses keys, half of it is for the counts; delta is for the keys.
"""

import math
import sys

import polars as pl
from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
from pydp.algorithms.partition_selection import create_laplace_partition_strategy

USERS, EPSILON, DELTA = 10, 1.0, 1e-6

firsts = (
    pl.read_parquet(sys.argv[1], columns=["user", "time", "query"])
    .group_by("user", "query")
    .agg(pl.col("time").min())
)
users = (
    firsts.filter(pl.col("time").rank("ordinal").over("user") <= USERS)
    .group_by("query")
    .agg(pl.len().alias("users"))
)
keep = create_laplace_partition_strategy(EPSILON / 2, DELTA, USERS)
noise = LaplaceMechanism(epsilon=EPSILON / 2, sensitivity=USERS)
found = [
    (query, math.floor(noise.add_noise(float(count)) + 0.5))
    for query, count in users.iter_rows()
    if keep.should_keep(count)
]
print(len(found))
