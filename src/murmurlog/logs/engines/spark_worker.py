"""What runs on the workers of a Spark cluster: functions of streams of Arrow batches.

Workers import it from the zip file that is sent to them, so it needs pyarrow and what it names, and
nothing of murmurlog but its text rules.
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


def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as a row of bytes."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"ipc": pa.array([ipc(batch)], pa.binary())})


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that were packed."""
    for batch in batches:
        for one in batch.column(0).to_pylist():
            with pa.ipc.open_stream(one) as stream:
                yield from stream


def each(
    batches: Iterator[pa.RecordBatch],
    *,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    normaliser: str,
) -> Iterator[pa.RecordBatch]:
    """What a function makes of each batch, if text rules are the same here as where it came from."""
    if normaliser != NORMALISER:
        raise RuntimeError("another normaliser")
    for batch in batches:
        yield function(batch)


def asked_of_duckdb(
    batches: Iterator[pa.RecordBatch], *, statement: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The answers of DuckDB to a statement about each batch, which it calls `incoming`."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for batch in batches:
            connection.register("incoming", pa.Table.from_batches([batch]))
            found = connection.execute(statement).to_arrow_table()
            connection.unregister("incoming")
            yield from found.cast(schema).to_batches()


def normalised(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Texts as they are and normalised."""
    raw = batch.column(0)
    clean = pa.array([normalise(text) for text in raw.to_pylist()], pa.string())
    return pa.RecordBatch.from_arrays([raw, clean], names=["raw", "clean"])
