"""Encodes a log on the workers of a cluster, in partitions of users.

Each partition has all rows of its users, cleaned and dictionary-encoded, and is packed into one row of
bytes. Bounding looks at one user only, so partitions are independent: where a user is counted decides
nothing. Workers import this module: it imports no engine.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.encoded import EncodedRows, columns_to_encode, encode
from murmurlog.logs.engines.protocol import ClusterEngine
from murmurlog.logs.partitions import load_rows

MOST_BYTES = 1 << 28  # of the rows of a partition, as a worker reads them
PACKED = pa.schema([("packed", pa.binary()), ("rows", pa.int64()), ("counts", pa.string())])
CLEAN = {
    "user": pa.string(),
    "time": pa.timestamp("us"),
    "query": pa.string(),
    "url": pa.string(),
    "rank": pa.int32(),
}


@dataclass(frozen=True, kw_only=True)
class ClusterPartitions:
    """Encoded rows on the workers, all rows of a user in one partition."""

    engine: ClusterEngine
    packed: Any  # a table: a row for each partition
    count: int  # of partitions
    rows: int
    schema: pa.Schema  # of the clean rows

    def empty(self) -> "ClusterPartitions":
        """None of the rows."""
        return replace(self, packed=self.engine.keep(PACKED.empty_table()), count=0, rows=0)

    def table(self) -> Any:
        """Every row, with plain text."""
        return self.map(EncodedRows.table, self.schema)

    def map(self, work: Callable[[EncodedRows], pa.Table], schema: pa.Schema) -> Any:
        """A table of what a function makes of each partition."""
        return self.engine.map_stream(
            self.packed, partial(apply_to_packed, work=work, schema=schema), schema
        )


def encode_on_workers(
    raw: Any, engine: ClusterEngine, cleaning: Cleaning
) -> ClusterPartitions | None:
    """The rows of a source, cleaned; None if the users of one partition have more rows than there is room for.

    Either way each unit has the same bounded items, so no output depends on it.
    """
    columns = columns_to_encode(raw, cleaning)
    rule = replace(cleaning, broken=Counter(), screened=Counter())
    packed = engine.group_rows(
        raw.select(**columns), "user", partial(encode_packed, cleaning=rule), PACKED
    )
    found = [row for batch in engine.read(packed, "rows", "counts") for row in batch.to_pylist()]
    if any(row["counts"] is None for row in found):
        return None
    for row in found:
        counts = json.loads(row["counts"])
        cleaning.broken.update(counts["broken"])
        cleaning.screened.update(counts["screened"])
    return ClusterPartitions(
        engine=engine,
        packed=packed,
        count=len(found),
        rows=sum(row["rows"] for row in found),
        schema=pa.schema([*CLEAN.items(), *((name, pa.string()) for name in cleaning.keep)]),
    )


def encode_packed(
    batches: Iterator[pa.RecordBatch], *, cleaning: Cleaning
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, cleaned, as one row of bytes; without bytes where they are too many."""
    held, used = [], 0
    for batch in batches:
        held.append(batch)
        used += batch.nbytes
        if used > MOST_BYTES:
            yield pa.RecordBatch.from_pylist([{"rows": 0}], PACKED)
            return
    if not held:
        return
    pieces = {name: [batch.column(name) for batch in held] for name in held[0].schema.names}
    held.clear()
    rows = encode(pieces, cleaning)
    counts = json.dumps({"broken": cleaning.broken, "screened": cleaning.screened})
    one = {"packed": pack_table(rows.table()), "rows": rows.rows, "counts": counts}
    yield pa.RecordBatch.from_pylist([one], PACKED)


def apply_to_packed(
    batches: Iterator[pa.RecordBatch],
    *,
    work: Callable[[EncodedRows], pa.Table],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """What a function makes of each partition, as rows."""
    for packed in values_of(batches, "packed"):
        yield from plain(work(load_rows(unpack_table(packed))), schema).to_batches()


def values_of(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.Buffer]:
    """The bytes of a column, row by row, without a copy."""
    for batch in batches:
        for value in batch.column(name):
            yield value.as_buffer()


def plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with these types; dictionaries become their strings."""
    return table.select(schema.names).cast(schema)


def pack_table(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack_table(packed: pa.Buffer | bytes) -> pa.Table:
    """The table that `pack_table` made bytes of."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()
