"""Not private: users of each query, the first 10 distinct queries of each counted. DuckDB."""

import sys

import duckdb

found = duckdb.sql(
    f"""
    WITH firsts AS (
      SELECT "user", query, min(time) AS time FROM '{sys.argv[1]}' GROUP BY "user", query
    ), placed AS (
      SELECT query, row_number() OVER (PARTITION BY "user" ORDER BY time, query) AS place FROM firsts
    )
    SELECT query, count(*) AS users FROM placed WHERE place <= 10 GROUP BY query
    """
).to_arrow_table()
print(found.num_rows)
