"""Functions that run on the workers of a Spark cluster, on streams of Arrow batches.

A value of a partition (or of a range of keys) is a row: its number, and the value as bytes. The functions
of partitions that run there are those that run in this process. Workers import this module from the zip
file that is sent to them.
"""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.bundle.keys import NORMALISER
from murmurlog.logs.cleaning import column_cleaners
from murmurlog.logs.partitions import Sums, shard_ends, sum_by_key
from murmurlog.logs.rows import Clean, Integers, Lines, RowCounts, RowReader, Rows, Texts, in_column
from murmurlog.logs.text_keys import TextKeys

VALUES = pa.schema([("number", pa.int32()), ("value", pa.binary())])
COUNTS = -1  # the number of the row that has `RowCounts`
ROWS_A_BATCH = 200_000  # of a source, that are cleaned at once
BYTES_A_BATCH = 64 << 20
BYTES_A_ANSWER = 8 << 20

# Of DuckDB, as where it reads in this process; a worker has one core for a task.
SETTINGS = {
    "GLOBAL TimeZone": "UTC",
    "arrow_large_buffer_size": "true",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_progress_bar": "false",
    "threads": "1",
}

Batches = Iterator[pa.RecordBatch]
Packed = Iterator[tuple[int, bytes]]  # numbers and values
Work = Callable[[Batches, RowReader], Packed]


class PartitionTexts(Texts):
    """The texts of a partition, which travel with its rows, as one batch."""

    def __init__(self, clean: Sequence[Clean] = ()) -> None:
        self._clean = clean
        self._columns: list[list[pa.Array]] = []

    def add(self, columns: Sequence[pa.Array]) -> int:
        """Appends rows of all columns; the id of the first."""
        self._columns = self._columns or [[] for _ in columns]
        start = sum(map(len, self._columns[0]))
        for parts, texts in zip(self._columns, columns, strict=True):
            parts.append(texts)
        return start

    def at(self, rows: Integers) -> "PartitionTexts":
        """Some rows of all columns, which are numbered anew."""
        some = PartitionTexts(self._clean)
        numbers = range(len(self._columns))
        some.add([self._column(number, 0).take(pa.array(rows)) for number in numbers])
        return some

    def _column(self, column: int, batch: int) -> pa.Array:
        self._columns[column] = [pa.concat_arrays(self._columns[column])]
        return self._columns[column][0]

    def close(self) -> None:
        """Forgets the texts."""
        self._columns = []


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        return "text keys" if isinstance(value, TextKeys) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, packed: bytes, text_keys: TextKeys) -> None:
        super().__init__(BytesIO(packed))
        self._text_keys = text_keys

    def persistent_load(self, name: str) -> TextKeys:
        return self._text_keys


def pack(value: Any) -> bytes:
    """A value as bytes, without the numbers of the keys: these are sent once."""
    out = BytesIO()
    _Pickler(out, protocol=5).dump(value)
    return out.getvalue()


def unpack(packed: bytes, text_keys: TextKeys) -> Any:
    """The value again."""
    return _Unpickler(packed, text_keys).load()


def run(
    batches: Batches, *, work: Work, reader: Callable[[], RowReader], normaliser: str
) -> Batches:
    """The rows that `work` makes, if the text rules here are those of the sending process."""
    if normaliser != NORMALISER:
        raise RuntimeError("another normaliser")
    opened = reader()
    _freeze_modules()
    rows, size = list[tuple[int, bytes]](), 0
    for row in work(batches, opened):
        rows.append(row)
        size += len(row[1])
        if size > BYTES_A_ANSWER:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


@cache
def _freeze_modules() -> None:
    """Once: Spark collects garbage after every task, and would look at all modules each time."""
    gc.freeze()


def _batch(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    numbers, values = zip(*rows, strict=True)
    columns = [
        pa.array(column, kind) for column, kind in zip((numbers, values), VALUES.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=VALUES)


def _rows(batches: Batches) -> Packed:
    """The rows of a stream; a value at a time is outside of Arrow."""
    for batch in batches:
        for number, value in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield number, value.as_py()


def _values(batches: Batches, reader: RowReader) -> Iterator[tuple[int, Any]]:
    """The values of partitions."""
    for number, packed in _rows(batches):
        if number != COUNTS:
            yield number, unpack(packed, reader.text_keys)


def _grouped(batches: Batches, reader: RowReader) -> Iterator[tuple[int, Iterator[Any]]]:
    """Values with one number together; rows come in order of numbers. Rows without bytes are no values."""
    for number, rows in groupby(_rows(batches), itemgetter(0)):
        yield number, (unpack(packed, reader.text_keys) for _, packed in rows if packed)


def derive(batches: Batches, reader: RowReader, *, work: Callable[[Any], Any]) -> Packed:
    """What `work` makes of each value."""
    for number, value in _values(batches, reader):
        yield number, pack(work(value))


def derive_with(
    batches: Batches,
    reader: RowReader,
    *,
    work: Callable[[Any, Any], Any],
    values: Callable[[], Sequence[Any]],
) -> Packed:
    """What `work` makes of each value together with the one of its partition's number."""
    for number, value in _values(batches, reader):
        yield number, pack(work(value, values()[number]))


def work_with(value: Any, *, work: Callable[[Any, Any], Any], columns: Callable[[], Any]) -> Any:
    """What `work` makes of a value and columns that are shared."""
    return work(value, columns())


def split_sums(batches: Batches, reader: RowReader, *, work: Callable[[Any], Sums]) -> Packed:
    """The sums that `work` makes of each value, by shard."""
    for _, value in _values(batches, reader):
        sums = work(value)
        for shard, (start, end) in enumerate(pairwise(shard_ends(sums.keys))):
            yield shard, pack(Sums(sums.keys[start:end], sums.sums[start:end]))


def merge(batches: Batches, reader: RowReader) -> Packed:
    """The sums of each shard."""
    for shard, pieces in _grouped(batches, reader):
        every = [*pieces]
        keys = np.concatenate([sums.keys for sums in every])
        yield shard, pack(sum_by_key(keys, np.concatenate([sums.sums for sums in every])))


def read_pieces(batches: Batches, reader: RowReader, *, statement: str | None) -> Packed:
    """The clean rows of each partition, with their texts, and how many there are.

    DuckDB runs the statement on the source's batches, which it calls `incoming`; without one they are
    typed rows already.
    """
    counts = RowCounts()
    for batch in _typed(_large(batches), statement):
        clean, own_counts = reader.clean(batch)
        counts.add(own_counts)
        lines, ends = reader.lines(clean, 0)
        for number, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                own = Lines(column[start:end] for column in lines)
                texts = [texts.take(pa.array(own.text_id)) for texts in clean.texts]
                yield number, pack((own.with_ids(np.arange(own.rows)), texts))
    yield COUNTS, pack(counts)


def settle(batches: Batches, reader: RowReader) -> Packed:
    """The rows of each partition in order, with its own texts; and how many rows there are in all."""
    for number, pieces in _grouped(batches, reader):
        if number == COUNTS:
            total = RowCounts()
            for counts in pieces:
                total.add(counts)
            yield COUNTS, pack(total)
            continue
        texts = PartitionTexts(column_cleaners(reader.cleaning))
        waiting, size = list[Lines](), 0
        for lines, columns in pieces:
            waiting.append(lines.with_ids(lines.text_id + texts.add(columns)))
            size += lines.rows
            if size > reader.most_rows:  # rows of a large unit that do not count
                cut = reader.cut(Lines.join(waiting))
                texts = texts.at(cut.text_id)
                waiting, size = [cut.with_ids(np.arange(cut.rows))], cut.rows
        yield number, pack(_alone(replace(reader, texts=texts).settle(Lines.join(waiting))))


def _alone(rows: Rows) -> Rows:
    """The rows with the clean texts that they have, each once."""
    columns = [column for column in (rows.query, rows.url, *rows.kept.values()) if column]
    texts = PartitionTexts()
    texts.add([rows.texts.take(column.ids) for column in columns])
    moved = [
        replace(column, ids=in_column(np.arange(len(column.ids)), number))
        for number, column in enumerate(columns)
    ]
    return replace(
        rows,
        query=moved[0],
        url=moved[1] if rows.url else None,
        kept=dict(zip(rows.kept, moved[len(moved) - len(rows.kept) :], strict=True)),
        texts=texts,
    )


def _large(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches of a source, several together: what is done once a batch is done less often."""
    together, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        batch.validate(full=True)  # Spark does not check that text is UTF-8
        together.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_A_BATCH or size >= BYTES_A_BATCH:
            yield pa.Table.from_batches(together)
            together, rows, size = [], 0, 0
    if together:
        yield pa.Table.from_batches(together)


def _typed(tables: Iterator[pa.Table], statement: str | None) -> Batches:
    """The typed rows of a source's batches."""
    if statement is None:
        for table in tables:
            yield from table.combine_chunks().to_batches()
        return
    import duckdb

    with duckdb.connect() as connection:
        for name, value in SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
        for table in tables:
            connection.register("incoming", table)
            yield from connection.execute(statement).to_arrow_reader(ROWS_A_BATCH)
            connection.unregister("incoming")
