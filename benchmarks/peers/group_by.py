"""Not private: how often each query was asked. Plain GROUP BY in DuckDB."""

import sys

import duckdb

found = duckdb.sql(
    f"SELECT query, count(*) AS n FROM '{sys.argv[1]}' GROUP BY query"
).to_arrow_table()
print(found.num_rows)
