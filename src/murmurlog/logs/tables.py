"""Copies a table of pandas, polars, Arrow, DuckDB or Ibis into a Parquet file, batch by batch.

The type of a column in the file is decided by its type in the table, never by rows (A8). pandas has
columns of any objects: there each value becomes text on its own.
"""

import datetime
import decimal
import errno
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import InputError, MurmurlogError

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
ROWS_A_BATCH = 100_000
OBJECT = np.dtype(object)
BYTES_A_GROUP = 32_000_000  # in memory, of batches that are written together
PLAIN = (str, int, decimal.Decimal, UUID)  # whose str() is the text that a column of them has


def write_parquet(table: Any, file: Path, *, rows: bool = True) -> None:
    """Writes the rows of a table to a new file; without `rows`, only its columns.

    Errors of writing are OSErrors; what the table itself raises becomes an InputError.
    """
    if hasattr(table, "sink_parquet"):
        return _sink(table if rows else table.limit(0), file)
    schema, batches = _stream(table)
    plain = pa.schema([(name, _decoded(kind)) for name, kind in _types(schema)])
    with closing(batches):
        _write(batches if rows else iter(()), plain, file, type(table).__name__)


def _sink(frame: Any, file: Path) -> None:
    """polars writes a lazy frame itself, in the order of its rows."""
    try:
        frame.sink_parquet(file)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise _stopped(type(frame).__name__, error) from error


def _stream(table: Any) -> tuple[pa.Schema, Batches]:
    """The columns of a table and its batches, which are read one after the other."""
    name = type(table).__name__
    try:
        if any(c.__module__.partition(".")[0] == "pandas" for c in type(table).__mro__):
            return _of_pandas(table)
        if isinstance(table, pa.RecordBatchReader):
            reader = table
        elif isinstance(table, pa.Table):
            reader = table.to_reader(ROWS_A_BATCH)
        elif hasattr(table, "to_pyarrow_batches"):  # Ibis would hold all rows otherwise
            reader = table.to_pyarrow_batches(chunk_size=ROWS_A_BATCH)
        else:
            reader = pa.RecordBatchReader.from_stream(table)
        return reader.schema, _next(reader, name)
    except MurmurlogError:
        raise
    except pa.ArrowInvalid as error:
        raise InputError(
            f"a {name} has no named columns: give a table with a column of users and one of queries"
        ) from error
    except Exception as error:
        raise _stopped(name, error) from error


def _next(reader: Any, name: str) -> Batches:
    """The batches; an error of what makes them becomes ours, without its words, which may quote rows."""
    while True:
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                batch = reader.read_next_batch()  # Ibis calls what DuckDB will rename
        except StopIteration:
            return
        except Exception as error:
            raise _stopped(name, error) from error
        yield batch


def _stopped(name: str, error: Exception) -> InputError:
    return InputError(
        f"the {name} could not be read to its end: it raised {type(error).__name__} (see the cause "
        "above). Nothing was booked or written."
    )


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, file: Path, name: str) -> None:
    for field in schema:
        _check_type(field, name)
    with pq.ParquetWriter(file, schema, store_schema=False) as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch.cast(schema))
            rows, size = sum(b.num_rows for b in held), sum(b.nbytes for b in held)
            if rows >= ROWS_A_BATCH or size >= BYTES_A_GROUP:
                writer.write_table(pa.Table.from_batches(held), row_group_size=ROWS_A_BATCH)
                held.clear()
        writer.write_table(pa.Table.from_batches(held, schema))


def _check_type(field: pa.Field, name: str) -> None:
    """Raises if Parquet has no such type."""
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except (pa.ArrowException, NotImplementedError):
        raise InputError(
            f'the column "{field.name}" of the {name} is {field.type}, which Parquet does not have: '
            "make it text, or leave it out"
        ) from None


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _decoded(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _of_pandas(frame: Any) -> tuple[pa.Schema, Batches]:
    """A frame of pandas; its index is not read."""
    if frame.ndim != 2:
        raise pa.ArrowInvalid("one column")
    names = [str(name) for name in frame.columns]
    whole = [frame.iloc[:, place] for place in range(len(names))]
    schema = pa.schema([(n, _pandas_type(c, n)) for n, c in zip(names, whole, strict=True)])

    def batches() -> Batches:
        for start in range(0, len(frame), ROWS_A_BATCH):
            columns = [
                _pandas_column(c.iloc[start : start + ROWS_A_BATCH], field, start)
                for c, field in zip(whole, schema, strict=True)
            ]
            yield pa.record_batch(columns, schema=schema)

    return schema, batches()


def _is_text(column: Any) -> bool:
    """Whether a column of pandas may hold any objects; only its declared type is looked at."""
    kind = column.dtype
    return bool(OBJECT in (kind, getattr(getattr(kind, "categories", None), "dtype", None)))


def _pandas_type(column: Any, name: str) -> pa.DataType:
    if _is_text(column):
        return pa.large_string()
    try:
        return pa.array(column.iloc[:0], from_pandas=True).type
    except (pa.ArrowException, TypeError, NotImplementedError):
        raise InputError(
            f'the column "{name}" of the DataFrame is {column.dtype}, which Arrow does not have: '
            "make it text, or leave it out"
        ) from None


def _pandas_column(column: Any, field: pa.Field, start: int) -> pa.Array:
    if not _is_text(column):
        found = pa.array(column, field.type, from_pandas=True)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    values = column.astype(object).to_numpy()
    try:
        return pa.array(values, field.type, from_pandas=True)  # all of them are texts
    except (pa.ArrowException, UnicodeError, TypeError):
        return pa.array(_texts(values, field.name, start), field.type)


def _texts(values: Sequence[Any], name: str, start: int) -> Iterator[str | None]:
    """Each value as text, by a rule that looks at this value alone."""
    for row, value in enumerate(values, start):
        try:
            text = _text(value)
            if text is not None:
                text.encode()
        except (TypeError, UnicodeError):
            raise InputError(
                f'the column "{name}" of the DataFrame has in row {row} a value of type '
                f"{type(value).__name__} that is no text: make it text, or leave the column out"
            ) from None
        yield text


def _text(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, np.integer):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return None if value != value else repr(float(value))
    if isinstance(value, (datetime.date, datetime.time)):  # datetime and Timestamp, too
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, PLAIN):
        return str(value)
    raise TypeError
