"""The tables a bundle may hold: names, key columns, count columns, order of rows."""

from dataclasses import dataclass

import pyarrow as pa

from murmurlog.errors import UsageError

KEYS = {
    "keyword": ("keyword",),
    "query": ("query",),
    "pair": ("query", "next_query"),
    "click": ("query", "url"),
}
COUNTED = ("users", "rows")  # what a count is of
DESCRIPTIONS = {
    "keyword": "a word of a query, normalised",
    "query": "a query, normalised",
    "next_query": "the query asked next in the same session, normalised",
    "url": "a clicked address, without scheme, user name and fragment",
    "users": "estimated number of {unit}s that hold the item, after bounding; noisy",
    "users_stderr": "standard error of `users`; does not cover what bounding took away",
    "rows": "estimated number of rows with the item, after bounding; noisy",
    "rows_stderr": "standard error of `rows`; does not cover what bounding took away",
    "reliable": "true where the standard error is at most a quarter of the count",
}
CONTENTS = {
    "keyword": "words of queries",
    "query": "queries",
    "pair": "queries with the query asked next",
    "click": "queries with a url clicked for them",
}


def count_columns(count: str | None) -> dict[str, pa.DataType]:
    """The columns of a count of users or rows; none for keys alone."""
    if count is None:
        return {}
    return {count: pa.int64(), f"{count}_stderr": pa.float64(), "reliable": pa.bool_()}


@dataclass(frozen=True, kw_only=True)
class By:
    """A column of the log with public, finite values that becomes part of every key."""

    column: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise UsageError(
                f"--by {self.column} needs its public values, each once: {self.column}=DE,FR"
            )
        if self.column in DESCRIPTIONS or self.column in ("user", "time", "rank", "unit"):
            raise UsageError(
                f"--by cannot use a column called {self.column!r}: rename it in the log"
            )


def keys_of(kind: str, by: By | None = None) -> tuple[str, ...]:
    """The key columns of a table."""
    return (*KEYS[kind], *((by.column,) if by else ()))


def schema(kind: str, *, count: str | None = "users", by: By | None = None) -> pa.Schema:
    """The columns of a table."""
    columns = {**dict.fromkeys(keys_of(kind, by), pa.string()), **count_columns(count)}
    return pa.schema(list(columns.items()))


def count_of(table: pa.Table) -> str | None:
    """What the table counts, told by its columns."""
    return next((name for name in COUNTED if name in table.column_names), None)


def in_order(table: pa.Table) -> pa.Table:
    """The rows by count descending, then by key; nothing of the engine's order is left (A9)."""
    count = count_of(table)
    order = [(count, "descending")] if count else []
    keys = [field.name for field in table.schema if pa.types.is_string(field.type)]
    return table.sort_by([*order, *((key, "ascending") for key in keys)])
