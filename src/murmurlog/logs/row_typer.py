"""Typed rows of batches: texts are taken as they are, DuckDB makes everything else. Knows no source.

Workers of a cluster import it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import duckdb

# Of a connection of DuckDB that types rows.
SETTINGS = {
    "arrow_large_buffer_size": "true",  # else a batch may not have 2 GB of text
    "GLOBAL TimeZone": "UTC",  # else cursors use that of the machine
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_progress_bar": "false",
}
INCOMING = "incoming"  # the relation that a batch is
BYTES_A_BATCH = 32_000_000
MOST_BYTES_OF_STRINGS = 1 << 30  # with offsets of 32 bits

Connection: TypeAlias = "duckdb.DuckDBPyConnection"


@dataclass(frozen=True, kw_only=True)
class RowTyper:
    """Makes typed rows of batches of one form; a value that can be sent to workers.

    Columns: user (BIGINT if its column is of whole numbers and no text stands for none), query; with
    times time (TIMESTAMP in UTC) and bad_time (whether one is stated that cannot be read); with urls
    url and rank (INTEGER); kept columns as k0, k1, ...; and of records `fault`, null if there is none.
    """

    columns: tuple[str, ...]  # in this order
    texts: Mapping[str, str]  # the column of the batch, for those that are one unchanged
    statement: str | None  # SQL of the others

    @classmethod
    def of_typed(cls, columns: Sequence[str]) -> "RowTyper":
        """The typer of batches that have these columns, typed."""
        return cls(columns=tuple(columns), texts={name: name for name in columns}, statement=None)

    def __call__(self, batch: pa.Table, connection: Connection) -> pa.Table:
        """The rows of a batch that meet `where`, and broken ones, to be counted later."""
        columns = {name: batch[column] for name, column in self.texts.items()}
        if self.statement is not None:
            connection.register(INCOMING, batch)
            others = connection.execute(self.statement).to_arrow_table()
            connection.unregister(INCOMING)
            columns |= dict(zip(others.column_names, others.columns, strict=True))
        passes = columns.pop("passes", None)
        rows = pa.table({name: columns[name] for name in self.columns})
        return rows if passes is None else rows.filter(passes)


class Batch(NamedTuple):
    """Rows as a source has them, and their typer."""

    rows: pa.Table
    typer: RowTyper

    def type_rows(self, connection: Connection) -> tuple[pa.RecordBatch, dict[str, int]]:
        """The typed rows, and how many records could not be read, by reason."""
        rows, broken = self.typer(self.rows, connection), dict[str, int]()
        if "fault" in rows.column_names:
            faults = rows["fault"]
            for count in pc.value_counts(faults.drop_null()).to_pylist():
                broken[count["values"]] = count["counts"]
            rows = rows.filter(pc.is_null(faults)).drop_columns(["fault"])
        columns = [concat_chunks(column) for column in rows.columns]
        return pa.record_batch(columns, names=rows.column_names), broken


def join_chunks(chunks: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches of chunks; a batch ends after so many rows or bytes."""
    batch, count, size = list[pa.RecordBatch](), 0, 0
    for chunk in chunks:
        batch.append(chunk)
        count, size = count + chunk.num_rows, size + chunk.nbytes
        if count >= rows or size >= BYTES_A_BATCH:
            yield pa.Table.from_batches(batch)
            batch, count, size = [], 0, 0
    if batch:
        yield pa.Table.from_batches(batch)


def concat_chunks(column: pa.ChunkedArray) -> pa.Array:
    """The chunks of a column together.

    Arrow's own memory pool would take huge pages, which cost more here than they save.
    """
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    if pa.types.is_string(column.type) and column.nbytes > MOST_BYTES_OF_STRINGS:
        column = column.cast(pa.large_string())
    return pa.concat_arrays(column.chunks, memory_pool=pa.system_memory_pool())
