"""The tables a bundle may hold: names, key columns, count columns, order of rows."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.errors import UsageError

WAYS = ("first", "random")


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What a table is. Adding one begins here (CONTRIBUTING.md)."""

    keys: tuple[str, ...]  # columns
    contents: str
    row: str  # the name of a row
    rows: str
    several: bool = False  # a row represents several records: never split
    in_sequence: bool = False  # made of rows in order of time: needs a column of times


TABLES = {
    "keyword": TableFacts(keys=("keyword",), contents="words of queries", row="word", rows="words"),
    "query": TableFacts(keys=("query",), contents="queries", row="query", rows="queries"),
    "pair": TableFacts(
        keys=("query", "next_query"), contents="pairs of a query and the query asked next",
        row="pair of queries", rows="pairs of queries", in_sequence=True,
    ),
    "click": TableFacts(
        keys=("query", "url"), contents="pairs of a query and a url clicked for it",
        row="pair of query and url", rows="pairs of query and url",
    ),
    "session": TableFacts(
        keys=("queries",), contents="queries asked one after another",
        row="sequence of queries", rows="sequences of queries", several=True, in_sequence=True,
    ),
    "itemset": TableFacts(
        keys=("items",), contents="sets of queries asked by the same people",
        row="set of queries", rows="sets of queries", several=True,
    ),
    "log": TableFacts(
        keys=("user", "query", "url"), contents="rows of a search log with invented users",
        row="row", rows="rows", several=True,
    ),
    "left_out": TableFacts(
        keys=("what", "words", "clicked"), several=True,
        contents="how many searches and queries are not in the query table",
        row="search", rows="searches",
    ),
}  # fmt: skip
KEYS = {name: table.keys for name, table in TABLES.items()}
SEVERAL = tuple(name for name, table in TABLES.items() if table.several)
LISTS = ("queries", "items")  # key columns that hold a list of texts
# What a session table lists instead of queries in their order, by the mechanism that made it.
OTHER_LISTS = {"label-paths": "labels", "k-session": "keywords"}
SEPARATOR = "\ufdd0"  # a noncharacter: normalised text never contains it
LEFT_OUT_MARGIN = "queries left out, 95 % interval, plus or minus"
NOTES = {  # the names of numbers that the notes on a table with a guarantee may hold
    *("queries that could be", "published from", "rows of the pool that nobody holds, expected"),
    *("invented users", "published profiles", "published pairs", "published pairs of pairs"),
    *("searches left out, %", "queries left out", LEFT_OUT_MARGIN),
}
BY_VALUE = "by_value"  # the internal name of the --by column while tables are made
COUNTED = ("users", "rows")  # the units of counts
IN_LOG, AT_LEAST = "users in the log", "at least"  # what a count is about: all users, or those kept
Z95 = 1.959963984540054  # standard errors to each side of a 95 % interval
DESCRIPTIONS = {
    "keyword": "a word of a query, normalised",
    "query": "a query, normalised",
    "next_query": "the query asked next in the same session, normalised",
    "url": "a clicked address, without scheme, user name and fragment",
    "queries": "queries of one session in the order they were asked, normalised",
    "items": "queries that one {unit} asked, normalised, in alphabetical order",
    "what": "searches published, searches left out, or queries left out",
    "words": "how many words the query has",
    "clicked": "whether a url was clicked; of a query, in any of the searches looked at",
    "user": "an invented name; no id of the log is in it",
    "count": "how often this row's query was asked and its url clicked by this user",
    "users": "estimated number of {unit}s in the log that hold the item",
    "users_low": "lower end of the 95 % interval of the number of {unit}s in the log",
    "users_high": "upper end of the 95 % interval of the number of {unit}s in the log",
    "users_stderr": "standard error of `users`",
    "rows": "estimated number of rows with the item, of those counted: the log has at least as many",
    "rows_low": "the log has at least this many rows with the item, 95 % sure",
    "rows_high": "empty: the log may have more rows with the item than were counted",
    "rows_stderr": "standard error of `rows`; does not cover rows that were not counted",
    "reliable": "true where the standard error is at most a quarter of the count",
}
# Of a table whose counts are of bounded items: every {unit} counts with some of its items only.
BOUNDED_DESCRIPTIONS = {
    "users": "estimated number of {unit}s counted with the item: the log has at least as many",
    "users_low": "the log has at least this many {unit}s with the item, 95 % sure",
    "users_high": "empty: the log may have more {unit}s with the item than were counted",
    "users_stderr": "standard error of `users`; does not cover items that were not counted",
}
# Optional columns of a log, as whole numbers; the parameters of its mechanism list them.
MORE = {
    "rank": "place of the clicked result, 1 to 10; 10 stands for all further ones too; drawn",
    "hour": "hour of the day in UTC, 0 to 23; drawn",
}


def count_columns(count: str | None) -> dict[str, pa.DataType]:
    """The columns of a count of users or rows; none for keys alone."""
    if count is None:
        return {}
    return {count: pa.int64(), f"{count}_stderr": pa.float64(), "reliable": pa.bool_()}


def interval_columns(count: str | None) -> dict[str, pa.DataType]:
    """The ends of the 95 % interval of a count."""
    return {} if count is None else {f"{count}_low": pa.int64(), f"{count}_high": pa.int64()}


def with_intervals(table: pa.Table) -> pa.Table:
    """The table with its columns in order and a 95 % interval for every count.

    A mechanism that estimates the number of users in the log gives both ends. Of other counts only
    the lower end is about the log.
    """
    count = count_of(table)
    if count is None:
        return table
    low, high = interval_columns(count)
    if low not in table.column_names:
        margin = pc.multiply(table[f"{count}_stderr"].cast(pa.float64()), Z95)
        ends = pc.floor(pc.max_element_wise(pc.subtract(table[count], margin), 0.0))
        table = table.append_column(pa.field(low, pa.int64()), ends.cast(pa.int64()))
        table = table.append_column(pa.field(high, pa.int64()), pa.nulls(len(table), pa.int64()))
    counts = [count, low, high, f"{count}_stderr", "reliable"]
    keys = [name for name in table.column_names if name not in counts]
    return table.select([*keys, *counts])


def with_lists(table: pa.Table, mechanism: str) -> pa.Table:
    """The table with a note on what its lists hold, unless it is queries: no model must take it for them."""
    contents = OTHER_LISTS.get(mechanism.partition("(")[0].partition(":")[0])
    return table if contents is None else with_notes(table, {"hold": contents}, name="lists")


def lists_of(table: pa.Table) -> str:
    """What the lists of a session table hold: queries, labels or keywords."""
    return str(notes_of(table, name="lists").get("hold", "queries"))


def is_reliable(count: Any, stderr: Any) -> pa.ChunkedArray:
    """Where the standard error is at most a quarter of the count, as in official statistics."""
    return pc.less_equal(pc.multiply(stderr, 4.0), count)


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
        if self.column in DESCRIPTIONS:
            raise UsageError(
                f"--by cannot use a column called {self.column!r}: rename it in the log"
            )

    def inside(self) -> "By":
        """The same under the internal name, which no column of a log can have."""
        return By(column=BY_VALUE, values=self.values)


def check_public_name(column: str) -> None:
    """Raises if the name of a --by column is too similar to the name of a table column."""
    folded = unicodedata.normalize("NFKC", column).casefold()
    if folded in DESCRIPTIONS or not folded.strip():
        raise UsageError(
            f"--by cannot use a column called {column!r}: tables have a column of that name, but for "
            "capitals or look-alike letters. Rename it in the log."
        )


def named_as(table: pa.Table, by: By | None) -> pa.Table:
    """The table with the --by column renamed from its internal to its public name."""
    if by is None:
        return table
    return table.rename_columns(
        [by.column if name == BY_VALUE else name for name in table.column_names]
    )


def keys_of(kind: str, by: By | None = None) -> tuple[str, ...]:
    """The key columns of a table."""
    return (*KEYS[kind], *((by.column,) if by else ()))


def keys_schema(keys: tuple[str, ...]) -> pa.Schema:
    """The types of key columns: text, or lists of texts."""
    return pa.schema([(k, pa.list_(pa.string()) if k in LISTS else pa.string()) for k in keys])


def schema(
    kind: str,
    *,
    count: str | None = "users",
    by: By | None = None,
    parameters: Mapping[str, Any] | None = None,
    intervals: bool = False,
) -> pa.Schema:
    """The columns of a table. In a log, `count` is how often one user did one thing.

    A log also has the columns of `MORE` that the parameters of its mechanism list. Published
    tables have `intervals`.
    """
    if kind == "log":
        optional = (parameters or {}).get("columns")
        more = [name for name in MORE if isinstance(optional, list) and name in optional]
        columns = {name: pa.int64() for name in ("count", *more)}
    else:
        columns = count_columns(count)
        if count and intervals:
            columns = {count: columns.pop(count), **interval_columns(count), **columns}
    return pa.schema([*keys_schema(keys_of(kind, by)), *(pa.field(*c) for c in columns.items())])


def count_of(table: pa.Table) -> str | None:
    """The unit of a table's counts, from its columns; None without counts."""
    return next((name for name in COUNTED if name in table.column_names), None)


def in_order(table: pa.Table) -> pa.Table:
    """The rows by count descending, then by key, which removes the engine's order (A9)."""
    count = count_of(table)
    order = [(count, "descending")] if count else []
    flat = flatten_lists(table)
    keys = [field.name for field in flat.schema if pa.types.is_string(field.type)]
    by = [*order, *((key, "ascending") for key in keys)]
    return table.take(pc.sort_indices(flat, sort_keys=by))


def flatten_lists(table: pa.Table) -> pa.Table:
    """The table with each list of texts joined into one text, so that it can be sorted and grouped."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            text = pc.binary_join(table[field.name].combine_chunks(), SEPARATOR)
            table = table.set_column(place, field.name, text)
    return table


def with_notes(table: pa.Table, notes: Mapping[str, Any], *, name: str = "notes") -> pa.Table:
    """The table with public notes on how it was made, for the certificate."""
    others = table.schema.metadata or {}
    return table.replace_schema_metadata({**others, name.encode(): json.dumps(notes)})


def notes_of(table: pa.Table, *, name: str = "notes") -> dict[str, Any]:
    """The notes that `with_notes` stored."""
    notes: dict[str, Any] = json.loads((table.schema.metadata or {}).get(name.encode(), b"{}"))
    return notes
