"""Some rows of a source, as text: spread over text files, the first ones of tables.

For the owner's eyes: nothing of it is published.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import EngineError, InputError
from murmurlog.logs.duckdb_statements import run_statement
from murmurlog.logs.inspection.blocks import TextFile, whole_lines
from murmurlog.logs.json_array import array_lines
from murmurlog.logs.parquet_types import as_texts
from murmurlog.logs.records import Dialect, Records, cut
from murmurlog.logs.source import table_of
from murmurlog.logs.sql import identifier

ROWS_A_BLOCK = 2_000  # of text
ROWS = 5_000  # of a table


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Values of columns as text; empty where a row has none."""

    columns: dict[str, list[str]]
    typed_times: tuple[str, ...] = ()  # columns whose type is that of times


def read_utf8(file: TextFile, encoding: str, *, whole: bool = False) -> Iterator[bytes]:
    """The blocks of a text file in UTF-8, cut after line feeds; what cannot be decoded is replaced.

    `whole`: of a large file, too.
    """
    if whole or encoding == "utf-16":
        yield from whole_lines(
            text.encode("utf-8", "replace") for text in _decode(file.whole(), encoding)
        )
    elif encoding == "utf-8":
        yield from file.blocks()
    else:  # line feeds are never part of another character
        for block in file.blocks():
            yield block.decode(encoding, "replace").encode()


def _decode(stream: Iterable[bytes], encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in stream:
        yield decoder.decode(piece)


def records(file: TextFile, dialect: Dialect, encoding: str) -> Iterator[Records]:
    """The records of a text file that are not empty, the first one included."""
    stream = read_utf8(file, encoding)
    for block in cut(stream, dialect, encoding="utf-8", broken={}, name=file.path.name):
        if len(rows := block.at(~block.empty)):
            yield rows


def sample_rows(
    files: Sequence[TextFile],
    dialect: Dialect,
    encoding: str,
    fields: int,
    *,
    most: int | None = None,
) -> tuple[tuple[str, ...], list[list[str]]]:
    """The first record, and for each field values of other records with as many fields.

    `most`: of so many blocks of each file.
    """
    first: tuple[str, ...] = ()
    columns: list[list[str]] = [[] for _ in range(fields)]
    for file in files:
        for number, block in enumerate(islice(records(file, dialect, encoding), most)):
            if number == 0 and not first:
                first = tuple(block.fields[: block.counts[0]].to_pylist())
            places = np.flatnonzero(block.counts == fields)
            places = places[places > 0] if number == 0 else places
            chosen = places[:: max(1, len(places) // ROWS_A_BLOCK)]
            for place, column in enumerate(columns):
                values_of_field = block.column(place).take(pa.array(chosen))
                column += ["" if value is None else value for value in values_of_field.to_pylist()]
    return first, columns


def sample_objects(files: Sequence[TextFile], encoding: str, *, array: bool) -> Sample:
    """The keys of JSON objects, and values of some of them."""
    rows: list[dict[str, Any]] = []
    for file in files:
        blocks = read_utf8(file, encoding, whole=array)
        for block in array_lines(blocks, file.path.name) if array else blocks:
            lines = block.split(b"\n")
            for line in lines[:: max(1, len(lines) // ROWS_A_BLOCK)]:
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                rows += [value] if isinstance(value, dict) else []
    keys = dict.fromkeys(key for row in rows for key in row)
    return Sample(columns={key: [_text(row.get(key)) for row in rows] for key in keys})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def sample_parquet(file: Path) -> Sample:
    """The columns of a Parquet file, and their first values."""
    try:
        with pq.ParquetFile(file) as stored:
            rows = next(stored.iter_batches(ROWS), None)
            schema = stored.schema_arrow
    except (pa.ArrowException, OSError):
        raise InputError(f"{file.name} is not readable as parquet") from None
    table = schema.empty_table() if rows is None else pa.Table.from_batches([rows])
    return _of_arrow(table)


def sample_duckdb(file: Path, table: str | None) -> Sample:
    """The columns of a table in a DuckDB file, and their first values."""
    name = table_of(file, table)
    try:
        return _of_arrow(
            run_statement(f"SELECT * FROM main.{identifier(name)} LIMIT {ROWS}", file=file)
        )
    except EngineError:
        raise InputError(f"{file.name} is not a readable DuckDB file") from None


def _of_arrow(table: pa.Table) -> Sample:
    times = [
        field.name
        for field in table.schema
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
    ]
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns[name] = [text or "" for text in as_texts(column)]
    return Sample(columns=columns, typed_times=tuple(times))
