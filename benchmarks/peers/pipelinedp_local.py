"""PipelineDP on its local backend: privacy id counts, 10 partitions a user, (1, 1e-6)."""

import sys

import pipeline_dp
import pyarrow.parquet as pq

batches = pq.ParquetFile(sys.argv[1]).iter_batches(columns=["user", "query"])
rows = (
    row
    for b in batches
    for row in zip(b.column(0).to_pylist(), b.column(1).to_pylist(), strict=True)
)
budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
parameters = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
    max_partitions_contributed=10,
    max_contributions_per_partition=1,
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
)
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: 0,
)
found = engine.aggregate(rows, parameters, extractors)
budget.compute_budgets()
print(sum(1 for _ in found))
