"""Copies a table of pandas, polars, Arrow, DuckDB or Ibis into a Parquet file, batch by batch.

The type of a column in the file is decided by its type in the table, never by rows (A8). pandas has
columns of any objects, and chooses the types of others by their values: there each value becomes text on
its own, unless its column gives it the same text. A value that has none counts as missing, in its row
alone, and the owner is told.
"""

import datetime
import decimal
import errno
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.errors import InputError, MurmurlogError
from murmurlog.logs.typed_rows import MOST_WHOLE

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
ROWS_A_BATCH = 100_000
BYTES_A_GROUP = 32_000_000  # in memory, of batches that are written together
TEXT = pa.large_string()
A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in units of Arrow
A_DAY = 86_400  # seconds
# The times that DuckDB has: it would refuse a whole file because of one beyond them.
MOST_SECONDS = 9_223_372_022_400
MOST_NANOSECONDS = 2**63 - 2


@dataclass
class Losses:
    """How many values of each column have no text, and where the first is; for the owner only."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, column: str, row: int, kind: str, count: int = 1) -> None:
        self.counts[column] += count
        self.first.setdefault(column, f"in row {row}, of type {kind}")

    def tell(self, table: str, say: Callable[[str], None]) -> None:
        for column, count in self.counts.items():
            say(
                f'warning: for your eyes only: {count:,} values of the column "{column}" of the '
                f"{table} have no text and count as missing (the first is {self.first[column]}): "
                "make them text if they matter"
            )


def write_parquet(
    table: Any, file: Path, *, rows: bool = True, say: Callable[[str], None] = lambda _: None
) -> None:
    """Writes the rows of a table to a new file; without `rows`, only its columns.

    Errors of writing are OSErrors; what the table itself raises becomes an InputError.
    """
    if hasattr(table, "sink_parquet"):
        return _sink(table if rows else table.limit(0), file)
    name, losses = type(table).__name__, Losses()
    schema, batches = _stream(table, losses)
    plain = pa.schema([(name, _without_dictionary(kind)) for name, kind in _types(schema)])
    with closing(batches):
        _write(batches if rows else iter(()), plain, file, name, losses)
    losses.tell(name, say)


def _sink(frame: Any, file: Path) -> None:
    """polars writes a lazy frame itself, in the order of its rows."""
    try:
        frame.sink_parquet(file)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise _read_error(type(frame).__name__, error) from error


def _stream(table: Any, losses: Losses) -> tuple[pa.Schema, Batches]:
    """The columns of a table and its batches, which are read one after the other."""
    name = type(table).__name__
    try:
        if any(c.__module__.partition(".")[0] == "pandas" for c in type(table).__mro__):
            return _read_pandas(table, losses)
        _check_objects(table)
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
        raise _read_error(name, error) from error


def _check_objects(frame: Any) -> None:
    """Raises for columns of polars that hold any objects: its stream has addresses in their place."""
    if type(frame).__module__.partition(".")[0] == "polars" and hasattr(frame, "columns"):
        for name, kind in zip(frame.columns, frame.dtypes, strict=True):
            if str(kind) == "Object":
                raise InputError(
                    f'the column "{name}" of the DataFrame is of objects, which polars does not '
                    "give away: make it text, or leave it out"
                )


def _next(reader: Any, name: str) -> Batches:
    """The batches of a reader; its errors become InputError, without their messages, which may quote rows."""
    while True:
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                batch = reader.read_next_batch()  # Ibis calls what DuckDB will rename
        except StopIteration:
            return
        except Exception as error:
            raise _read_error(name, error) from error
        yield batch


def _read_error(name: str, error: Exception) -> InputError:
    return InputError(
        f"the {name} could not be read to its end: it raised {type(error).__name__} (see the cause "
        "above). Nothing was booked or written."
    )


def _write(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, file: Path, name: str, losses: Losses
) -> None:
    for column in schema:
        _check_type(column, name)
    with pq.ParquetWriter(file, schema, store_schema=False) as writer:
        group: list[pa.RecordBatch] = []
        start = 0
        for batch in batches:
            group.append(_readable(batch, schema, losses, start))
            start += batch.num_rows
            rows, size = sum(b.num_rows for b in group), sum(b.nbytes for b in group)
            if rows >= ROWS_A_BATCH or size >= BYTES_A_GROUP:
                writer.write_table(pa.Table.from_batches(group), row_group_size=ROWS_A_BATCH)
                group.clear()
        writer.write_table(pa.Table.from_batches(group, schema))


def _readable(
    batch: pa.RecordBatch, schema: pa.Schema, losses: Losses, start: int
) -> pa.RecordBatch:
    """The batch in the types of the file, without values that a type cannot have.

    A stream may hold them, and no row of a file with one is read.
    """
    columns = [
        _possible(_cast(column, kind), name, losses, start)
        for column, (name, kind) in zip(batch.columns, _types(schema), strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):  # its values first: Arrow cannot take views
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(kind))
    return column.cast(kind)


def _possible(column: pa.Array, name: str, losses: Losses, start: int) -> pa.Array:
    """The column with nulls for times that DuckDB does not have, and for text that is not UTF-8."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            values = column.cast(pa.large_binary()).to_pylist()
            return pa.array(_texts(values, name, losses, start), kind)
        return column
    if pa.types.is_timestamp(kind):
        last = min(MOST_SECONDS * A_SECOND[kind.unit], MOST_NANOSECONDS)
        first = -last
    elif pa.types.is_time(kind):
        first, last = 0, A_DAY * A_SECOND[kind.unit] - 1
    else:
        return column
    numbers = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    places = pc.indices_nonzero(beyond.fill_null(False))
    if not len(places):
        return column
    losses.add(name, start + places[0].as_py(), str(kind), len(places))
    return pc.if_else(beyond, pa.scalar(None, kind), column)


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


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary."""
    if not pa.types.is_dictionary(kind):
        return kind
    return TEXT if pa.types.is_string_view(kind.value_type) else kind.value_type


def _read_pandas(frame: Any, losses: Losses) -> tuple[pa.Schema, Batches]:
    """A frame of pandas; its index is not read."""
    if frame.ndim != 2:
        raise pa.ArrowInvalid("one column")
    names = [str(name) for name in frame.columns]
    whole = [frame.iloc[:, place] for place in range(len(names))]
    schema = pa.schema([(n, _pandas_type(c)) for n, c in zip(names, whole, strict=True)])

    def batches() -> Batches:
        for start in range(0, len(frame), ROWS_A_BATCH):
            columns = [
                _pandas_column(c.iloc[start : start + ROWS_A_BATCH], field, losses, start)
                for c, field in zip(whole, schema, strict=True)
            ]
            yield pa.record_batch(columns, schema=schema)

    return schema, batches()


def _pandas_type(column: Any) -> pa.DataType:
    """The type of a column in the file: its own where that gives each value the text of `_text`."""
    of_arrow = _is_of_arrow(column)
    if not of_arrow and column.dtype.kind not in "biufM":  # booleans, numbers and times
        return TEXT
    try:
        kind = pa.array(column.iloc[:0], from_pandas=True).type
    except (pa.ArrowException, TypeError, NotImplementedError):
        return TEXT
    # What pandas makes of other floats where it mixes them.
    return pa.float64() if pa.types.is_floating(kind) and not of_arrow else kind


def _is_of_arrow(column: Any) -> bool:
    """Whether a column of pandas has an Arrow type, or is text that Arrow holds."""
    kind = column.dtype
    return hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", "") == "pyarrow"


def _pandas_column(column: Any, field: pa.Field, losses: Losses, start: int) -> pa.Array:
    if field.type != TEXT or _is_of_arrow(column):
        values = pa.array(column, field.type, from_pandas=True)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    objects = column.astype(object).to_numpy()
    if set(map(type, objects)) <= {str, NoneType}:
        with suppress(UnicodeError):  # half of a surrogate pair, which is not text
            return pa.array(objects, TEXT)
    return pa.array(_texts(objects, field.name, losses, start), TEXT)


def _texts(values: Iterable[Any], name: str, losses: Losses, start: int) -> Iterator[str | None]:
    """Each value as text, by a rule that looks at this value alone."""
    for row, value in enumerate(values, start):
        text = None
        try:
            text = _text(value)
            if text is not None:
                text.encode()
        except Exception:  # whatever a value raises, it has no text
            text = None
            losses.add(name, row, type(value).__name__)
        yield text


def _text(value: Any) -> str | None:
    """The text of a value, the same that a column of its type has; None if it is missing.

    Raises for a value that has no text.
    """
    if isinstance(value, str):
        return str.__str__(value)  # of a member of an enumeration its value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, np.integer)):
        return int.__repr__(int(value))
    if isinstance(value, (complex, np.complexfloating)) and value.imag == 0:
        value = value.real
    if isinstance(value, (float, np.floating)):
        return None if value != value else _number(float(value))
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else decimal.Decimal.__str__(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _numpy_moment(value)
    if isinstance(value, datetime.datetime):  # Timestamp, too
        return _moment(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode()
    if isinstance(value, UUID) or _is_of_pandas(value, "Period"):
        return str(value)
    if _is_of_pandas(value, "Interval"):
        first, last = "[" if value.closed_left else "(", "]" if value.closed_right else ")"
        return f"{first}{_text(value.left)}, {_text(value.right)}{last}"
    raise TypeError


def _number(value: float) -> str:
    """The shortest text of a float; of a whole one its digits, as an integer has them."""
    whole = value.is_integer() and abs(value) < MOST_WHOLE
    return str(int(value)) if whole else repr(value)


def _is_of_pandas(value: Any, name: str) -> bool:
    kind = type(value)
    return kind.__name__ == name and kind.__module__.partition(".")[0] == "pandas"


def _moment(value: datetime.datetime) -> str:
    """A time in UTC if it has a zone, then to the microsecond, as DuckDB writes them."""
    if value.utcoffset() is None:
        return _without_zeros(value.replace(tzinfo=None).isoformat(" "))
    in_utc = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return _without_zeros(in_utc.isoformat(" "), digits=6) + "+00"


def _numpy_moment(value: np.datetime64) -> str:
    coarse = np.datetime_data(value)[0] in ("Y", "M", "W", "D", "h", "m")
    text = np.datetime_as_string(value.astype("M8[s]") if coarse else value)
    return _without_zeros(str(text).replace("T", " "))


def _without_zeros(text: str, digits: int | None = None) -> str:
    """The text of a time without zeros at the end of its fraction, which has at most some digits."""
    whole, _, fraction = text.partition(".")
    fraction = fraction[:digits].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
