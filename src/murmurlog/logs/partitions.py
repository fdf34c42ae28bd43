"""Encodes a log: in memory if there is room, else in partitions of users on the engine's disk.

Rows that do not fit are written as they are read, those of a bucket of users together, and are
encoded some buckets at a time. Bounding looks at one user only, so partitions are independent.
A hash of the user's name chooses the bucket: it decides where a user is counted, never what.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.encoded import (
    NEVER,
    EncodedColumn,
    EncodedRows,
    Integers,
    columns_to_encode,
    encode,
)
from murmurlog.logs.engines.protocol import LocalEngine

# The share of the engine's memory for the rows of a partition; work on them takes twice as much.
ROOM = 1 / 6
PART = 1 / 4  # of the room: small partitions are sorted faster, in memory already allocated
MOST_TEXT = 1_800_000_000  # bytes of a column of a partition: Arrow's lists end at 2 GB
ROWS_A_BATCH = 1_000_000
BUCKETS = 256  # of users: no partition is smaller than one of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Partitions:
    """Encoded rows on disk, all rows of a user in one partition."""

    files: tuple[Path, ...]
    rows: int

    def table(self) -> pa.Table:
        """Every row, as `EncodedRows.table` has it; stays on disk."""
        return pa.concat_tables([map_file(file) for file in self.files])

    def empty(self) -> EncodedRows:
        """None of the rows."""
        return next(self.partitions()).empty()

    def partitions(self) -> Iterator[EncodedRows]:
        """The partitions, one after the other."""
        for file in self.files:
            yield load_rows(map_file(file))


def map_file(file: Path) -> pa.Table:
    """The table of an Arrow file; its bytes stay on disk until they are used."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def encode_log(
    raw: Any,
    engine: LocalEngine,
    cleaning: Cleaning,
    advance: Callable[[int], None] = lambda _: None,
) -> EncodedRows | Partitions | None:
    """The rows of a source, cleaned; None if one bucket of users alone has no room.

    The available memory decides between memory, partitions and None, and one user's rows can change
    the decision. All three give each unit the same bounded items, so no output depends on it.
    """
    columns = columns_to_encode(raw, cleaning)
    rows = raw.select(**columns)
    room = room_of(engine)
    held: list[pa.RecordBatch] = []
    starts: list[list[int]] = []
    needs = np.zeros(BUCKETS)
    used = 0.0
    with ExitStack() as shared, ExitStack() as open_file:
        for batch in engine.read_in_order(rows, rows=ROWS_A_BATCH):
            advance(batch.num_rows)
            if not starts:
                held.append(batch)
                used += share_of_room(batch, room)
                if used <= 1:
                    continue
                shared.enter_context(engine.halve_memory())
                file, writer = open_file.enter_context(engine.open_file(batch.schema))
                waiting, held = held, []
            else:
                waiting = [batch]
            del batch
            while waiting:
                placed, start = _by_bucket(waiting.pop(0), engine)
                needs += [share_of_room(placed.slice(a, b - a), room) for a, b in pairwise(start)]
                writer.write_batch(placed)
                starts.append(start)
        if not starts:
            pieces = {name: [batch.column(name) for batch in held] for name in columns}
            held.clear()
            return encode(pieces, cleaning)
        open_file.close()  # all of it is on disk now
        shared.callback(file.unlink)
        fits = needs.max() <= 1
        return _encode_file(file, starts, group_buckets(needs), engine, cleaning) if fits else None


def room_of(engine: LocalEngine) -> float:
    """The bytes that rows may take in memory."""
    return engine.memory * ROOM


def share_of_room(batch: pa.RecordBatch | pa.Table, room: float) -> float:
    """The share of a partition's memory that a batch takes."""
    largest = max((column.nbytes for column in batch.columns), default=0)
    return float(max(batch.nbytes / room, largest / MOST_TEXT))


def _by_bucket(batch: pa.RecordBatch, engine: LocalEngine) -> tuple[pa.RecordBatch, list[int]]:
    """The rows put together by bucket, else in their order; and where each starts, and the end."""
    bucket = engine.buckets(batch.column("user"), BUCKETS)
    ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
    order = pa.array(np.argsort(bucket, kind="stable"))
    return batch.take(order), [0, *ends.tolist()]


def group_buckets(needs: Integers, part: float = PART) -> list[tuple[int, int]]:
    """Runs of buckets, none larger than a part of the room unless one bucket is."""
    whole = needs.sum()
    most = whole / max(np.ceil(whole / part), 1)  # of one size, not full ones and a rest
    ends, size = [0], 0.0
    for bucket, need in enumerate(needs):
        if size and size + need > most:
            ends.append(bucket)
            size = 0.0
        size += need
    return list(pairwise([*ends, len(needs)]))


def _encode_file(
    file: Path,
    starts: Sequence[list[int]],
    runs: Sequence[tuple[int, int]],
    engine: LocalEngine,
    cleaning: Cleaning,
) -> Partitions:
    """The rows of a file encoded, some buckets at a time."""
    files, rows = [], 0
    for first, last in runs:
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_file(source)
            batches = [
                reader.get_batch(i).slice(start[first], start[last] - start[first])
                for i, start in enumerate(starts)
            ]
        pieces = {name: [batch.column(name) for batch in batches] for name in reader.schema.names}
        del batches, reader
        log = encode(pieces, cleaning)
        files.append(engine.store(log.table()))
        rows += log.rows
    return Partitions(files=tuple(files), rows=rows)


def load_rows(table: pa.Table) -> EncodedRows:
    """The rows whose `EncodedRows.table` this is."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    time = columns["time"].view(pa.int64())
    linked = pa.types.is_dictionary(columns["url"].type)
    return EncodedRows(
        user=_column(columns["user"]),
        time=(time.fill_null(NEVER) if time.null_count else time).to_numpy(),
        query=_column(columns["query"]),
        url=_column(columns["url"]) if linked else None,
        rank=columns["rank"] if linked else None,
        kept={name: _column(columns[name]) for name in table.column_names[5:]},
    )


def _column(column: pa.DictionaryArray) -> EncodedColumn:
    codes = column.indices.fill_null(-1) if column.null_count else column.indices
    return EncodedColumn(codes=codes.to_numpy(), texts=column.dictionary)
