"""Functions that run on the workers of a Spark cluster, on streams of Arrow batches.

A value of a partition (or of a range of keys) is a row: its number, and the value as bytes, or the place
of these bytes in a file that all workers reach. The functions of partitions that run there are those that
run in this process. Workers import this module from the zip file that is sent to them.
"""

import gc
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache, partial
from io import BytesIO
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO
from zipimport import zipimporter

import numpy as np
import pyarrow as pa

from murmurlog.bundle.keys import NORMALISER
from murmurlog.logs.cleaning import column_cleaners
from murmurlog.logs.partitions import Sums, identity, shard_ends, sum_by_key
from murmurlog.logs.row_typer import SETTINGS, Batch, RowTyper, join_chunks
from murmurlog.logs.rows import RowCounts, RowReader, Rows, Texts, in_column
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.workspace import open_workspace

VALUES = pa.schema([("number", pa.int32()), ("value", pa.binary())])
COUNTS = -1  # the number of the row that has `RowCounts`
MOST_BITS = 12  # of a partition's number; the others tell the parts of one that was split
ROWS_A_BATCH = 200_000  # of a source, that are cleaned at once
BYTES_A_ANSWER = 8 << 20
BYTES_IN_A_ROW = 4096  # of a piece that is not worth a place in a file
SHARDS = 64  # ranges of keys, each of which one task adds up
MEMORY = 1 << 28  # bytes for the rows of one partition; others go to a worker's disk
ALIGNED = 64
ELSEWHERE = bytes(8)  # in the place of the number of parts, which is never 0

Batches = Iterator[pa.RecordBatch]
Values = Iterator[tuple[int, Any]]  # with their numbers
Work = Callable[[Batches, RowReader], Values]


class PartitionTexts(Texts):
    """The clean texts of a partition, a batch of columns; they are read when they are needed."""

    def __init__(self, columns: Callable[[], Sequence[pa.Array]], place: Any = None) -> None:
        self._clean = ()
        self.columns = columns
        self.place = place  # of the texts in a file

    def _column(self, column: int, batch: int) -> pa.Array:
        return self.columns()[column]

    def __reduce__(self) -> Any:
        return PartitionTexts, (partial(identity, self.columns()),)


class Packer:
    """Makes bytes of values; more than `in_rows` bytes go to a file in a folder, if there is one.

    The numbers of the keys are in no value: they are sent once. Texts of partitions go to a file once.
    """

    def __init__(
        self, folder: Path | None = None, texts: Path | None = None, *, in_rows: int = 0
    ) -> None:
        self._folder, self._texts, self._in_rows = folder, texts, in_rows
        self._open, self._files = dict[Path, BinaryIO](), ExitStack()

    def pack(self, value: Any) -> bytes:
        """The bytes of a value, or where they are."""
        parts = self._parts(value)
        if self._folder is None or sum(map(len, parts)) <= self._in_rows:
            return b"".join(parts)
        return ELSEWHERE + pickle.dumps(self._write(parts, self._folder))

    def close(self) -> None:
        """Ends the files."""
        self._files.close()

    def _parts(self, value: Any) -> list[Any]:
        """The bytes of a value: the sizes of its parts, and these, each from an aligned place on."""
        head, buffers = BytesIO(), list[pickle.PickleBuffer]()
        pickler = _Pickler(head, protocol=5, buffer_callback=buffers.append)
        pickler.place = self._place_of_texts
        pickler.dump(value)
        pieces = [memoryview(head.getvalue()), *(buffer.raw() for buffer in buffers)]
        sizes = np.array([len(pieces), *map(len, pieces)], np.int64)
        parts = list[Any]()
        for part in (sizes.tobytes(), *pieces):
            parts += [part, bytes(-len(part) % ALIGNED)]
        return parts

    def _place_of_texts(self, texts: PartitionTexts) -> Any:
        if self._texts is not None and texts.place is None:
            texts.place = self._write(self._parts(texts.columns()), self._texts)
        return texts.place

    def _write(self, parts: Sequence[Any], folder: Path) -> tuple[str, int, int]:
        """Appends the parts to this packer's file in a folder; its name, and where they start and end."""
        if folder not in self._open:
            # Another task of the same work has another file.
            file: Any = tempfile.NamedTemporaryFile(dir=folder, delete=False)  # noqa: SIM115
            self._open[folder] = self._files.enter_context(file)
        file = self._open[folder]
        start = file.tell()
        file.writelines(parts)
        return file.name, start, file.tell()


class _Pickler(pickle.Pickler):
    place: Callable[[PartitionTexts], Any]

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, TextKeys):
            return "text keys"
        return self.place(value) if isinstance(value, PartitionTexts) else None


class _Unpickler(pickle.Unpickler):
    text_keys: TextKeys | None

    def persistent_load(self, name: Any) -> Any:
        if name == "text keys":
            return self.text_keys
        return PartitionTexts(cache(partial(_load, name)), name)


def unpack(packed: bytes, text_keys: TextKeys) -> Any:
    """The value of these bytes; large arrays stay in their file."""
    if packed.startswith(ELSEWHERE):
        return _load(pickle.loads(packed[len(ELSEWHERE) :]), text_keys)
    return _whole(memoryview(packed), text_keys)


def _load(place: tuple[str, int, int], text_keys: TextKeys | None = None) -> Any:
    """The value at a place in a file."""
    name, start, end = place
    return _whole(np.memmap(name, np.uint8, "r", start, end - start).data, text_keys)


def _whole(packed: memoryview, text_keys: TextKeys | None) -> Any:
    """The value that was made into bytes by `Packer._parts`."""
    count = int(np.frombuffer(packed, np.int64, 1)[0])
    sizes = np.frombuffer(packed, np.int64, 1 + count)
    sizes = np.append(sizes.nbytes, sizes[1:])
    starts = accumulate((sizes + -sizes % ALIGNED).tolist(), initial=0)
    _, head, *buffers = [
        packed[start : start + size] for start, size in zip(starts, sizes.tolist(), strict=False)
    ]
    unpickler = _Unpickler(BytesIO(head), buffers=buffers)
    unpickler.text_keys = text_keys
    return unpickler.load()


def run(
    batches: Batches,
    *,
    work: Work,
    reader: Callable[[], RowReader],
    packer: Callable[[], Packer],
    normaliser: str,
) -> Batches:
    """The rows that `work` makes; raises if the text rules here are not those of the sending process."""
    if normaliser != NORMALISER:
        raise RuntimeError("another normaliser")
    opened = reader()
    _freeze_modules()
    rows, size = list[tuple[int, bytes]](), 0
    with closing(packer()) as packing:
        for number, value in work(batches, opened):
            rows.append((number, packing.pack(value)))
            size += len(rows[-1][1])
            if size > BYTES_A_ANSWER:
                yield _batch(rows)
                rows, size = [], 0
    if rows:
        yield _batch(rows)
    _forget_zip_files()


@cache
def _freeze_modules() -> None:
    """Once: Spark collects garbage after every task, and would look at all modules each time."""
    gc.freeze()


def _forget_zip_files() -> None:
    """Forgets the known zip files: before each task Spark lists all of them again, which takes longer than a small task."""
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _batch(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    numbers, values = zip(*rows, strict=True)
    columns = [
        pa.array(column, kind) for column, kind in zip((numbers, values), VALUES.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=VALUES)


def _values(batches: Batches, reader: RowReader) -> Values:
    """The values of a stream, one after the other: only one is unpacked at a time."""
    for batch in batches:
        for number, value in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            if number != COUNTS:
                yield number, unpack(value.as_py(), reader.text_keys)


def _group_values(batches: Batches, reader: RowReader) -> Iterator[tuple[int, Iterator[Any]]]:
    """Values with one number together; rows come in order of numbers."""
    rows = (
        (number, value)
        for batch in batches
        for number, value in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
    )
    for number, group in groupby(rows, itemgetter(0)):
        yield number, (unpack(value.as_py(), reader.text_keys) for _, value in group)


def derive(batches: Batches, reader: RowReader, *, work: Callable[[Any], Any]) -> Values:
    """What `work` makes of each value."""
    for number, value in _values(batches, reader):
        yield number, work(value)


def derive_with(
    batches: Batches,
    reader: RowReader,
    *,
    work: Callable[[Any, Any], Any],
    values: Callable[[], dict[int, Any]],
) -> Values:
    """What `work` makes of each value together with the one of its partition's number."""
    for number, value in _values(batches, reader):
        yield number, work(value, values()[number])


def work_with(value: Any, *, work: Callable[[Any, Any], Any], columns: Callable[[], Any]) -> Any:
    """What `work` makes of a value and columns that are shared."""
    return work(value, columns())


def split_sums(batches: Batches, reader: RowReader, *, work: Callable[[Any], Sums]) -> Values:
    """The sums that `work` makes of each value, by shard."""
    for _, value in _values(batches, reader):
        sums = work(value)
        for shard, (start, end) in enumerate(pairwise(shard_ends(sums.keys, SHARDS))):
            yield shard, Sums(sums.keys[start:end], sums.sums[start:end])


def merge(batches: Batches, reader: RowReader) -> Values:
    """The sums of each shard."""
    for shard, pieces in _group_values(batches, reader):
        parts = [*pieces]
        keys = np.concatenate([sums.keys for sums in parts])
        yield shard, sum_by_key(keys, np.concatenate([sums.sums for sums in parts]))


def read_pieces(batches: Batches, reader: RowReader, *, typer: RowTyper) -> Values:
    """The clean rows of each partition, with their texts, and how many there are."""
    import duckdb  # late: other functions do without

    counts = RowCounts()
    with duckdb.connect() as connection:
        for name, value in {**SETTINGS, "threads": "1"}.items():  # a task has one core
            connection.execute(f"SET {name} = '{value}'")
        for batch in join_chunks(batches, ROWS_A_BATCH):
            rows, broken = Batch(batch, typer).type_rows(connection)
            clean, own_counts = reader.clean(rows)
            counts.add(own_counts)
            counts.add(RowCounts(broken=broken))
            for number, lines in enumerate(reader.lines(clean, 0)):
                if lines.rows or not number:  # so that there is a partition, if without rows
                    texts = [texts.take(pa.array(lines.text_id)) for texts in clean.texts]
                    yield number, (lines.with_ids(np.arange(lines.rows)), texts)
    yield COUNTS, counts


def settle(batches: Batches, reader: RowReader) -> Values:
    """The rows of each partition in order, with its own texts; and how many rows there are in all.

    A partition with too many rows comes in parts, as where this process reads.
    """
    for number, pieces in _group_values(batches, reader):
        if number == COUNTS:
            total = RowCounts()
            for counts in pieces:
                total.add(counts)
            yield COUNTS, total
            continue
        with open_workspace(memory=MEMORY, threads=1, folder=_local_disk()) as workspace:
            texts = Texts(workspace, column_cleaners(reader.cleaning))
            lines = [
                workspace.keep(lines.with_ids(lines.text_id + texts.add(columns)))
                for lines, columns in pieces
            ]
            parts = replace(reader, texts=texts).partitions(lines, workspace)
            for part, rows in enumerate(parts):
                yield number + (part << MOST_BITS), _with_own_texts(rows.load())


def _local_disk() -> Path:
    """The folder for files that only this worker reads."""
    return Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())


def _with_own_texts(rows: Rows) -> Rows:
    """The rows with texts of their own: the clean texts that they refer to, each once."""
    columns = [column for column in (rows.query, rows.url, *rows.kept_columns.values()) if column]
    texts = [rows.texts.take(column.ids) for column in columns]
    moved = [
        replace(column, ids=in_column(np.arange(len(column.ids)), number))
        for number, column in enumerate(columns)
    ]
    return replace(
        rows,
        query=moved[0],
        url=moved[1] if rows.url else None,
        kept_columns=dict(
            zip(rows.kept_columns, moved[len(moved) - len(rows.kept_columns) :], strict=True)
        ),
        texts=PartitionTexts(partial(identity, texts)),
    )
