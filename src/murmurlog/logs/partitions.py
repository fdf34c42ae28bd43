"""A log as numbers: in memory if there is room, else in parts by user on the engine's disk.

What does not fit is written as it is read, the rows of a bucket of users together, and becomes
numbers some buckets at a time. Bounding looks at one user only, so parts need nothing of each other.
A bucket is chosen by a hash of the user's name, which decides where a user is counted, never what.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.logs.encoded import NEVER, Cleaning, Coded, Holdings, Integers, Texts, holdings
from murmurlog.logs.engines.duckdb import DuckEngine, mapped

ROOM = (
    1 / 6
)  # of the engine's memory for the rows of a part; work on them takes twice what they take
PART = 1 / 4  # of the room: what is small is sorted sooner, in memory that is already there
MOST_TEXT = 1_800_000_000  # bytes of a column of a part: Arrow's lists end at 2 GB
ROWS_A_BATCH = 1_000_000
BUCKETS = 256  # of users: no part is smaller than one of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """A log on disk, all rows of a user in one part."""

    files: tuple[Path, ...]
    rows: int

    def table(self) -> pa.Table:
        """Every row, as `Coded.table` has them; stays on disk."""
        return pa.concat_tables([mapped(file) for file in self.files])

    def logs(self) -> Iterator[Coded]:
        """The parts, one after the other."""
        for file in self.files:
            yield _loaded(mapped(file))


@dataclass(frozen=True, kw_only=True, eq=False)
class Wanted:
    """Which items of a log are wanted, with the table of the same items that an engine shows."""

    log: Coded | Parts
    of: Any
    kind: str
    unit: str
    known: pa.Array | None  # only these queries

    def holdings(self) -> Iterator[Holdings]:
        """The items of every unit, as often as they occur; all of a unit together."""
        for log in self.log.logs() if isinstance(self.log, Parts) else (self.log,):
            yield holdings(log, kind=self.kind, unit=self.unit, known=self.known)


def gathered(raw: Any, engine: DuckEngine, cleaning: Cleaning) -> Coded | Parts | None:
    """The log of a source; None if one bucket of users alone has no room.

    How much room there is decides on the road, and one user's rows can tip it. All roads give every
    unit the same bounded items, so nothing that is published depends on the choice.
    """
    columns = cleaning.columns(raw)
    rows = raw.select(**columns, bucket=engine.bucket(raw.user, BUCKETS))
    room = engine.memory * ROOM
    held: list[pa.RecordBatch] = []
    starts: list[list[int]] = []
    needs = np.zeros(BUCKETS)
    used = 0.0
    with ExitStack() as shared, ExitStack() as open_file:
        for batch in engine.batches(rows, rows=ROWS_A_BATCH, ordered=True):
            if not starts:
                held.append(batch)
                used += _need(batch, room)
                if used <= 1:
                    continue
                shared.enter_context(engine.sharing())
                file, writer = open_file.enter_context(engine.storing(batch.schema))
                waiting, held = held, []
            else:
                waiting = [batch]
            del batch
            while waiting:
                placed, start = _by_bucket(waiting.pop(0))
                needs += [_need(placed.slice(a, b - a), room) for a, b in pairwise(start)]
                writer.write_batch(placed)
                starts.append(start)
        if not starts:
            pieces = {name: [batch.column(name) for batch in held] for name in columns}
            held.clear()
            return cleaning.clean(pieces)
        open_file.close()  # all of it is on disk now
        shared.callback(file.unlink)
        fits = needs.max() <= 1
        return _cleaned(file, starts, _runs(needs), engine, cleaning) if fits else None


def _need(batch: pa.RecordBatch, room: float) -> float:
    """The share that a batch takes of what a part may have."""
    largest = max((column.nbytes for column in batch.columns), default=0)
    return float(max(batch.nbytes / room, largest / MOST_TEXT))


def _by_bucket(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    """The rows put together by bucket, else in their order; and where each starts, and the end."""
    bucket = batch.column("bucket").to_numpy()
    ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
    order = pa.array(np.argsort(bucket, kind="stable"))
    return batch.take(order), [0, *ends.tolist()]


def _runs(needs: Integers) -> list[tuple[int, int]]:
    """Runs of buckets, none larger than a part should be unless one bucket is."""
    whole = needs.sum()
    most = whole / np.ceil(whole / PART)  # parts of one size, not full ones and a rest
    ends, size = [0], 0.0
    for bucket, need in enumerate(needs):
        if size and size + need > most:
            ends.append(bucket)
            size = 0.0
        size += need
    return list(pairwise([*ends, len(needs)]))


def _cleaned(
    file: Path,
    starts: Sequence[list[int]],
    runs: Sequence[tuple[int, int]],
    engine: DuckEngine,
    cleaning: Cleaning,
) -> Parts:
    """The rows of a file as numbers, some buckets at a time."""
    files, rows = [], 0
    for first, last in runs:
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_file(source)
            batches = [
                reader.get_batch(i).slice(start[first], start[last] - start[first])
                for i, start in enumerate(starts)
            ]
        names = [name for name in reader.schema.names if name != "bucket"]
        pieces = {name: [batch.column(name) for batch in batches] for name in names}
        del batches, reader
        log = cleaning.clean(pieces)
        files.append(engine.store(log.table()))
        rows += log.rows
    return Parts(files=tuple(files), rows=rows)


def _loaded(table: pa.Table) -> Coded:
    """The rows of `Coded.table` as numbers again."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    time = columns["time"].view(pa.int64())
    linked = pa.types.is_dictionary(columns["url"].type)
    return Coded(
        user=_numbers(columns["user"]),
        time=(time.fill_null(NEVER) if time.null_count else time).to_numpy(),
        query=_numbers(columns["query"]),
        url=_numbers(columns["url"]) if linked else None,
        rank=columns["rank"] if linked else None,
        kept={name: _numbers(columns[name]) for name in table.column_names[5:]},
    )


def _numbers(column: pa.DictionaryArray) -> Texts:
    codes = column.indices.fill_null(-1) if column.null_count else column.indices
    return Texts(codes=codes.to_numpy(), texts=column.dictionary)
