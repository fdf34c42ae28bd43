"""Functions of streams of Arrow batches that run on the workers of a Spark cluster.

Workers import it from the zip file that is sent to them, so it imports only pyarrow, the text rules
of murmurlog and, late, DuckDB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from murmurlog.bundle.keys import NORMALISER, normalise

SENT = pa.schema([("shard", pa.int32()), ("packed", pa.binary())])  # rows for a shard, as bytes


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as a row of bytes."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        packed = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"ipc": packed})


def check_normaliser(
    batches: Iterator[pa.RecordBatch],
    *,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    normaliser: str,
) -> Iterator[pa.RecordBatch]:
    """What `work` makes of the batches, if the text rules are those of the sending process."""
    if normaliser != NORMALISER:
        raise RuntimeError("another normaliser")
    yield from work(batches)


def apply_to_each(
    batches: Iterator[pa.RecordBatch], *, function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Applies a function to each batch."""
    for batch in batches:
        yield function(batch)


@dataclass(frozen=True)
class MappedTable:
    """A table in an Arrow file on a disk that this process and all workers reach."""

    path: str

    def open(self) -> pa.Table:
        with pa.memory_map(self.path) as source:
            return pa.ipc.open_file(source).read_all()


@dataclass(frozen=True)
class BroadcastTable:
    """A table in an Arrow file whose bytes Spark sends to the workers."""

    sent: Any

    def open(self) -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(self.sent.value)).read_all()


def run_duckdb(
    batches: Iterator[pa.RecordBatch], *, statement: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The result of a DuckDB statement for each batch, which the statement calls `incoming`."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for batch in batches:
            connection.register("incoming", pa.Table.from_batches([batch]))
            found = connection.execute(statement).to_arrow_table()
            connection.unregister("incoming")
            yield from found.cast(schema).to_batches()


def normalise_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The texts, raw and normalised."""
    raw = batch.column(0)
    clean = pa.array([normalise(text) for text in raw.to_pylist()], pa.string())
    return pa.RecordBatch.from_arrays([raw, clean], names=["raw", "clean"])
