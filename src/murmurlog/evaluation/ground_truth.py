"""The ground truth: exact tables of a log, who holds what, and what held-out users did.

All of it is private and for scoring only; models never see it. Exact tables look like published ones,
so that the raw log can be evaluated as one more system.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import SEPARATOR, flattened
from murmurlog.counting.items import items
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log

Ints = npt.NDArray[np.int64]

KINDS = ("keyword", "query", "pair", "click", "session")


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Who holds which item, each pair once: numbers of users and rows of the exact table."""

    user: Ints
    item: Ints
    users: int  # how many there are in all, those who hold nothing included


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The users a release was made from, counted exactly, and users it has not seen."""

    tables: Mapping[str, pa.Table]  # key columns, users, rows; the most users first, then by key
    holders: Mapping[str, Holders]  # by the same kinds
    searches: pa.Table | None = None  # of held-out users: user, session, query, url; in order
    labels: pa.Table | None = None  # kind, query, target: what was planted
    has_urls: bool = True
    has_times: bool = True


def count_exactly(
    log: Log, *, gap: float = GAP, kinds: Sequence[str] = KINDS
) -> tuple[dict[str, pa.Table], dict[str, Holders]]:
    """The exact table of every kind that the log has, and who holds its items."""
    kinds = [
        kind
        for kind in kinds
        if (kind != "click" or log.has_urls) and (kind not in ("pair", "session") or log.has_times)
    ]
    distinct = _arrow(log.engine, log.table.select("user").distinct())
    who = distinct.sort_by("user")["user"].combine_chunks()
    tables, holders = dict[str, pa.Table](), dict[str, Holders]()
    for kind in kinds:
        tables[kind], holders[kind] = _count_table(log, kind, gap, who)
    return tables, holders


def _count_table(log: Log, kind: str, gap: float, who: pa.Array) -> tuple[pa.Table, Holders]:
    """One exact table: how many users hold an item, and how many rows it is in."""
    found = items(log, kind=kind, gap=gap)
    held = found.table.group_by(["unit", *found.keys]).aggregate(rows=found.table.count())
    pairs = _arrow(log.engine, held)
    keys = list(found.keys)
    flat = flattened(pairs.select(keys))
    # No cleaned text holds the separator.
    joined = pc.binary_join_element_wise(*(flat[key] for key in keys), SEPARATOR)
    coded = joined.combine_chunks().dictionary_encode()
    code = coded.indices.to_numpy().astype(np.int64)
    size = len(coded.dictionary)
    first = np.full(size, -1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    users = np.bincount(code, minlength=size)
    rows = np.bincount(code, weights=pairs["rows"].to_numpy(), minlength=size).astype(np.int64)
    table = pairs.select(keys).take(pa.array(first))
    table = table.append_column("users", pa.array(users)).append_column("rows", pa.array(rows))
    by = [("users", "descending"), *((key, "ascending") for key in keys)]
    order = pc.sort_indices(flattened(table), sort_keys=by).to_numpy()
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    user = pc.index_in(pairs["unit"], value_set=who).to_numpy().astype(np.int64)
    return table.take(pa.array(order)), Holders(user=user, item=place[code], users=len(who))


def searches_of(log: Log, *, gap: float = GAP) -> pa.Table:
    """What users did, in order: numbers of user and session, query, url (null: no click).

    Without times nothing is known about sessions, and every row is one of its own.
    """
    columns = ["user", "query"] + ["time"] * log.has_times + ["url"] * log.has_urls
    rows = log.table.select(*columns)
    if log.has_times:
        rows = rows.filter(rows.time.notnull())
        rows = rows.mutate(time=log.engine.microseconds(rows.time))
    order = [c for c in ("user", "time", "query", "url") if c in columns]
    table = _arrow(log.engine, rows).sort_by([(name, "ascending") for name in order])
    user = table["user"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    new = np.ones(len(user), bool)
    if log.has_times and len(user):
        time = table["time"].to_numpy()
        new[1:] = (np.diff(user) != 0) | (np.diff(time) > gap * 1e6)
    url = table["url"] if log.has_urls else pa.nulls(len(user), pa.string())
    return pa.table(
        {
            "user": pa.array(user),
            "session": pa.array(np.cumsum(new) - 1),
            "query": table["query"].cast(pa.string()),
            "url": url.cast(pa.string()),
        }
    )


def _arrow(engine: Engine, expression: Any) -> pa.Table:
    """The rows of an expression, here."""
    batches = list(engine.batches(expression))
    schema = batches[0].schema if batches else expression.schema().to_pyarrow()
    return pa.Table.from_batches(batches, schema)
