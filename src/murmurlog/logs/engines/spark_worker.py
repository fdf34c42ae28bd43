"""Functions of streams of Arrow batches that run on the workers of a Spark cluster.

Workers import it from the zip file that is sent to them, so it imports only pyarrow, the text rules
of murmurlog and, late, DuckDB.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa

from murmurlog.bundle.keys import NORMALISER, normalise


def ipc(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as a row of bytes."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"ipc": pa.array([ipc(batch)], pa.binary())})


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that `pack` made bytes of."""
    for batch in batches:
        for one in batch.column(0).to_pylist():
            with pa.ipc.open_stream(one) as stream:
                yield from stream


def apply_to_each(
    batches: Iterator[pa.RecordBatch],
    *,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    normaliser: str,
) -> Iterator[pa.RecordBatch]:
    """Applies a function to each batch, if the text rules are those of the sending process."""
    if normaliser != NORMALISER:
        raise RuntimeError("another normaliser")
    for batch in batches:
        yield function(batch)


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
