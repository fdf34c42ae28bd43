"""Where relational steps run: DuckDB, or Spark."""
