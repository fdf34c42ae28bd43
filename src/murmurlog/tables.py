"""The tables a bundle may hold: names, key columns, count columns, order of rows."""

import pyarrow as pa

KEYS = {"keyword": ("keyword",), "query": ("query",), "click": ("query", "url")}
COUNTS = {"users": pa.int64(), "users_stderr": pa.float64(), "reliable": pa.bool_()}
DESCRIPTIONS = {
    "keyword": "a word of a query, normalised",
    "query": "a query, normalised",
    "url": "a clicked address, without scheme, user name and fragment",
    "users": "estimated number of {unit}s that hold the item, after bounding; noisy",
    "users_stderr": "standard error of `users`; does not cover what bounding took away",
    "reliable": "true where the standard error is at most a quarter of `users`",
}
CONTENTS = {
    "keyword": "words of queries",
    "query": "queries",
    "click": "queries with a url clicked for them",
}


def schema(kind: str, *, counts: bool = True) -> pa.Schema:
    """The columns of a table; without counts only its keys."""
    columns = {**dict.fromkeys(KEYS[kind], pa.string()), **(COUNTS if counts else {})}
    return pa.schema(list(columns.items()))


def in_order(table: pa.Table, kind: str) -> pa.Table:
    """The rows by count descending, then by key; nothing of the engine's order is left (A9)."""
    order = [("users", "descending")] if "users" in table.column_names else []
    return table.sort_by([*order, *((key, "ascending") for key in KEYS[kind])])
