"""Tables derived from published ones, by post-processing alone.

Queries give keywords, sessions give pairs, and a synthetic log gives all of them. A table that cannot
be derived is left out, and the task that needs it says so. A session table that lists labels or
keywords is left out, too: nothing that reads queries may read it.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.schema import count_of, lists_of

Tables = Mapping[str, pa.Table]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def weights(table: pa.Table) -> Floats:
    """The weight of each row: its noisy count, at least 0; 1 where there are no counts."""
    count = count_of(table)
    if count is None:
        return np.ones(table.num_rows)
    counts: Floats = table[count].to_numpy().astype(np.float64)
    return np.maximum(counts, 0.0)


def texts(table: pa.Table, column: str) -> list[str]:
    """A column of texts as a list."""
    values: list[str] = table[column].to_pylist()
    return values


def add_derived_tables(tables: Tables) -> dict[str, pa.Table]:
    """The tables with those derived from them: all from a log, pairs from sessions, words from queries."""
    result = {name: table for name, table in tables.items() if lists_of(table) == "queries"}
    if "log" in result:
        result |= {n: table for n, table in _of_log(result["log"]).items() if n not in result}
    if "session" in result and "pair" not in result:
        result["pair"] = _pairs(result["session"])
    if "query" in result and "keyword" not in result:
        result["keyword"] = _words(result["query"])
    return result


def _of_log(log: pa.Table) -> dict[str, pa.Table]:
    """Queries and clicks of a synthetic log, with the number of its users that have them.

    Clicks of a log that says how often its users did something also have `rows`, the sum of that.
    """
    tables = {}
    for name, keys in (("query", ["query"]), ("click", ["query", "url"])):
        rows = log.filter(pc.is_valid(log[keys[-1]]))
        holdings = rows.group_by(["user", *keys]).aggregate([])
        users = holdings.group_by(keys).aggregate([("user", "count")])
        tables[name] = _sum_groups(users, "user_count")
    if "count" in log.column_names and (pc.max(log["count"]).as_py() or 0) > 1:
        clicks = log.filter(pc.is_valid(log["url"])).group_by(["query", "url"])
        sums = clicks.aggregate([("count", "sum")]).rename_columns({"count_sum": "rows"})
        tables["click"] = (
            tables["click"]
            .join(sums, ["query", "url"])
            .sort_by([("users", "descending"), ("query", "ascending"), ("url", "ascending")])
        )
    return tables


def _pairs(sessions: pa.Table) -> pa.Table:
    """Each query of a published session with the next one."""
    first, second, count = list[str](), list[str](), list[float]()
    for queries, users in zip(sessions["queries"].to_pylist(), weights(sessions), strict=True):
        first += queries[:-1]
        second += queries[1:]
        count += [users] * (len(queries) - 1)
    table = pa.table(
        {
            "query": pa.array(first, pa.string()),
            "next_query": pa.array(second, pa.string()),
            "users": pa.array(count, pa.float64()),
        }
    )
    grouped = table.group_by(["query", "next_query"]).aggregate([("users", "sum")])
    return _sum_groups(grouped, "users_sum")


def _words(queries: pa.Table) -> pa.Table:
    """Each word with the sum of the counts of the published queries that contain it."""
    word, count = list[str](), list[float]()
    for query, users in zip(texts(queries, "query"), weights(queries), strict=True):
        words = keywords(query)
        word += words
        count += [users] * len(words)
    table = pa.table(
        {"keyword": pa.array(word, pa.string()), "users": pa.array(count, pa.float64())}
    )
    return _sum_groups(table.group_by("keyword").aggregate([("users", "sum")]), "users_sum")


def _sum_groups(grouped: pa.Table, column: str) -> pa.Table:
    """The groups with their sum as whole `users`, the largest first, then by text."""
    users = pc.cast(pc.round(grouped[column]), pa.int64())
    table = grouped.drop_columns([column]).append_column("users", users)
    keys = [(name, "ascending") for name in table.column_names if name != "users"]
    return table.sort_by([("users", "descending"), *keys])
