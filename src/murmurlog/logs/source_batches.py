"""The batches of a source as it has them: columns of Parquet, fields of records, rows of a server.

Every record is split, decoded and checked on its own (A8). Types are those of the files or of the server;
`typed_rows` makes typed rows of them.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.errors import InputError
from murmurlog.logs.formats import Shape, day_of, pieces
from murmurlog.logs.parquet_types import schemas_of
from murmurlog.logs.postgres import Address, batches
from murmurlog.logs.records import Records, cut
from murmurlog.logs.row_typer import BYTES_A_BATCH, join_chunks
from murmurlog.logs.source import Source

ROWS_A_BATCH = 400_000  # that are handed on
ROWS_A_CHUNK = 8_192  # that are decoded at once
BYTES_A_READ = 1 << 20  # of a column of a file


def stored_batches(
    source: Source,
    names: Sequence[str],
    *,
    broken: dict[str, int],
    read: Callable[[int], None] = lambda _: None,
    rows: int = ROWS_A_BATCH,
) -> Generator[tuple[pa.Table, str], None, None]:
    """Batches with these columns of a source, each with the day for times without a date.

    Records that cannot be read are counted in `broken` as they pass. `read` is called with the numbers of
    bytes that were read of files of text.
    """
    if source.format == "parquet":
        yield from ((batch, "") for batch in _parquet(source, names, rows))
    elif source.server:
        for batch in join_chunks(_read_server(source, source.server, names), rows):
            yield batch, ""
    else:
        yield from _records(source, names, broken, read)


def size_of(source: Source) -> int | None:
    """The bytes of the source's files; None on a server."""
    with suppress(OSError):  # a file that is gone is reported where it is read
        return sum(file.stat().st_size for file in source.files) or None
    return None


def count_rows(source: Source) -> int | None:
    """How many rows the files say they have; None if they do not say it."""
    if source.format != "parquet" or not source.files:
        return None
    with suppress(OSError, pa.ArrowInvalid):
        return sum(int(pq.read_metadata(file).num_rows) for file in source.files)
    return None


def _parquet(source: Source, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """The columns of files of Parquet."""
    for file, schema in schemas_of(source.files, names, source.name).items():
        with pq.ParquetFile(
            file, pre_buffer=False, buffer_size=BYTES_A_READ, coerce_int96_timestamp_unit="us"
        ) as opened:
            present = [name for name in names if name in opened.schema_arrow.names]
            for batch in join_chunks(_chunks(opened, present), rows):
                columns = [
                    _cast(batch[name], kind) if name in present else pa.nulls(batch.num_rows, kind)
                    for name, kind in zip(schema.names, schema.types, strict=True)
                ]
                yield pa.table(columns, schema=schema)


def _chunks(file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A few rows of a file at a time: fewer where rows are large, on the average of their row group."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        fitting = BYTES_A_BATCH * group.num_rows // max(1, group.total_byte_size)
        rows = min(ROWS_A_CHUNK, max(1, fitting))
        yield from file.iter_batches(rows, row_groups=[number], columns=columns, use_threads=False)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The column in a type that has the same values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column.type, pa.BaseExtensionType) and column.type != kind:
        column = pa.chunked_array(
            [chunk.storage for chunk in column.chunks], column.type.storage_type
        )
    return column.cast(kind)


def _read_server(source: Source, server: Address, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    texts = {f"c{i}": name for i, name in enumerate(names)}
    with closing(batches(server, texts=texts, time=source.columns.get("time"))) as stream:
        yield from stream


def _records(
    source: Source, names: Sequence[str], broken: dict[str, int], read: Callable[[int], None]
) -> Iterator[tuple[pa.Table, str]]:
    """The fields of records of files of text."""
    shape = source.lines
    places = [shape.columns.index(name) for name in names] if shape else [0]
    if shape and shape.name == "sogou":
        places = list(range(shape.most))  # which field is a column depends on their number
    for file, compression, encoding in zip(
        source.files, source.compressions, source.encodings, strict=True
    ):
        assert source.dialect is not None
        dialect, day = source.dialect, day_of(file)
        stream = pieces(file, compression, read=read)
        header = None if shape is None or shape.well_known else shape.columns
        for records in cut(stream, dialect, encoding=encoding, broken=broken, name=file.name):
            if header and len(records):
                _check_header(records, header, file.name)
                records, header = records.at(np.arange(len(records)) > 0), None
            rows = _rows(records.at(~records.empty), shape, broken)
            if len(rows):
                yield _table(rows, places), day


def _check_header(records: Records, columns: Sequence[str], name: str) -> None:
    """Raises if the header changed since the columns were found."""
    start = [field.strip() for field in records.fields[: records.counts[0]].to_pylist()]
    if start != list(columns):
        raise InputError(f"{name} changed while it was read: its first line is another one")


def _rows(records: Records, shape: Shape | None, broken: dict[str, int]) -> Records:
    """The records that are rows: with as many fields as the shape has, and no header."""
    if shape is None:
        return records
    few, many = records.counts < shape.least, records.counts > shape.most
    for reason, faulty in {"too few columns": few, "too many columns": many}.items():
        broken[reason] = broken.get(reason, 0) + int(faulty.sum())
    mask = ~(few | many)
    if shape.well_known:
        mask &= ~_headers(records, shape)
    return records.at(mask)


def _headers(records: Records, shape: Shape) -> npt.NDArray[np.bool_]:
    """Which records hold the names of the columns, ignoring case."""
    same: npt.NDArray[np.bool_] = records.counts == len(shape.columns)
    for place, name in enumerate(shape.columns):
        if not same.any():
            break
        trimmed = pc.utf8_trim_whitespace(pc.utf8_ltrim(records.column(place), "\ufeff"))
        equal = pc.equal(pc.ascii_lower(trimmed), name.lower())
        same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return same


def _table(records: Records, places: Sequence[int]) -> pa.Table:
    """Some fields of all records as columns f0, f1, ..., and n, how many fields there are."""
    columns = {f"f{place}": records.column(place) for place in dict.fromkeys(places)}
    return pa.table({**columns, "n": records.counts})
