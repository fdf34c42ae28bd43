"""Models built from published tables: search, suggestion, completion, caching, correction."""
