"""Tables as a graph: queries and urls are nodes, clicks and reformulations are edges.

Tables are identified by their key columns, so a bundle without clicks or pairs gives a smaller graph
and no error. Counts are not summed: a node has the count of its own table, or none. Sessions and
itemsets give no edges. The rows of a synthetic log do not count people: its queries and urls are
nodes, without counts. `left_out` names the tables that the graph does not fully represent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.schema import COUNTED, LISTS
from murmurlog.errors import UsageError

COUNTS = {
    **{
        f"{count}{part}": pa.float64() if part == "_stderr" else pa.int64()
        for count in COUNTED
        for part in ("", "_low", "_high", "_stderr")
    },
    "reliable": pa.bool_(),
}
ENDS = {"click": ("query", "url"), "reformulation": ("query", "next_query")}
USER = "user"  # a column that only a log has
KINDS = {"query": "query", "next_query": "query", "url": "url"}  # kind of node in each column
NODES = pa.schema(
    [("id", pa.string()), ("kind", pa.string()), ("text", pa.string()), *COUNTS.items()]
)
EDGES = pa.schema(
    [("source", pa.string()), ("target", pa.string()), ("kind", pa.string()), *COUNTS.items()]
)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes (id, kind, text, counts) and directed edges (source, target, kind, counts) as Arrow."""

    nodes: pa.Table
    edges: pa.Table
    left_out: tuple[str, ...] = ()  # tables whose rows give no edges and no counts


def graph(tables: Mapping[str, pa.Table]) -> Graph:
    """The graph of a release's tables. A count that a table does not have is null."""
    _check_keys(tables)
    edges = [
        _edges(table, kind) for kind, ends in ENDS.items() for table in _with_keys(tables, ends)
    ]
    return Graph(
        nodes=pa.concat_tables(_nodes(tables, kind) for kind in ("query", "url")),
        edges=pa.concat_tables([EDGES.empty_table(), *edges]),
        left_out=tuple(name for name, table in tables.items() if _left_out(table)),
    )


def rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows one by one, a batch in memory at a time."""
    return (row for batch in table.to_batches(max_chunksize=10_000) for row in batch.to_pylist())


def _check_keys(tables: Mapping[str, pa.Table]) -> None:
    """Raises if a table of queries has a further key: an edge would have several counts."""
    for name, table in tables.items():
        keys = set(table.column_names) - set(COUNTS)
        if not _left_out(table) and keys & set(KINDS) and (more := sorted(keys - set(KINDS))):
            raise UsageError(
                f"table {name} is split by {', '.join(more)}, which a graph cannot represent: keep "
                "the rows of one value and drop the column"
            )


def _left_out(table: pa.Table) -> bool:
    """Whether a table holds sessions, itemsets or a synthetic log."""
    return bool({*LISTS, USER} & set(table.column_names))


def _with_keys(tables: Mapping[str, pa.Table], keys: Iterable[str]) -> list[pa.Table]:
    """The tables with exactly these key columns."""
    return [t for t in tables.values() if set(t.column_names) - set(COUNTS) == set(keys)]


def _edges(table: pa.Table, kind: str) -> pa.Table:
    source, target = (_ids(table[column], KINDS[column]) for column in ENDS[kind])
    return _with_counts({"source": source, "target": target, "kind": kind}, table)


def _nodes(tables: Mapping[str, pa.Table], kind: str) -> pa.Table:
    """The nodes of a kind: those with a count, then ends of edges, then those of a synthetic log."""
    counted = pa.concat_tables(
        [
            pa.schema([(kind, pa.string()), *COUNTS.items()]).empty_table(),
            *(_with_counts({kind: table[kind]}, table) for table in _with_keys(tables, [kind])),
        ]
    )
    ends = [
        chunk
        for keys in ENDS.values()
        for table in _with_keys(tables, keys)
        for key in keys
        if KINDS[key] == kind
        for chunk in table[key].chunks
    ]
    ends += [
        chunk
        for table in tables.values()
        if USER in table.column_names and kind in table.column_names
        for chunk in table[kind].chunks
    ]
    seen = pc.unique(pa.chunked_array(ends, pa.string()))
    others = pa.table({kind: seen.filter(pc.invert(pc.is_in(seen, value_set=counted[kind])))})
    every = pa.concat_tables([counted, _with_counts({kind: others[kind]}, others)])
    text = every[kind]
    return _with_counts({"id": _ids(text, kind), "kind": kind, "text": text}, every)


def _ids(texts: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Ids such as query:weather and url:weather.example, distinct even for equal texts."""
    return pc.binary_join_element_wise(f"{kind}:", texts, "")


def _with_counts(columns: Mapping[str, pa.ChunkedArray | str], table: pa.Table) -> pa.Table:
    """The columns (a text stands for all rows) with the table's counts, null where it has none."""
    n = table.num_rows
    keys = {
        name: pa.repeat(value, n) if isinstance(value, str) else value
        for name, value in columns.items()
    }
    counts = {
        name: table[name].cast(kind) if name in table.column_names else pa.nulls(n, kind)
        for name, kind in COUNTS.items()
    }
    return pa.table({**keys, **counts})
