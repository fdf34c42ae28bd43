"""Numbers for the items of a log in partitions, so that rows are numbers on disk and each key is stored once.

A partition numbers its own items. A hash puts the keys of all partitions into buckets, and equal keys of a
run of buckets get one number: only the keys of one run are in memory. The hash decides where a key is
compared, never what it equals.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from murmurlog.bundle.progress import Advance
from murmurlog.counting.bound import PartitionedBounded
from murmurlog.counting.choice import KEY_BYTES, ChoiceKey
from murmurlog.counting.first_items import FirstItems
from murmurlog.counting.holdings import Holdings, join_lists, number_pairs
from murmurlog.logs.encoded import EncodedColumn, Integers
from murmurlog.logs.engines.protocol import LocalEngine
from murmurlog.logs.partitions import PART, group_buckets, map_file, room_of, share_of_room

BUCKETS = 256  # of keys
RUN = PART / 8  # of the room: the dictionary of few keys stays near the CPU's cache
# Whoever writes a log for one bucket makes the release take more memory, nothing else.
PLACING = ChoiceKey(secret=bytes(KEY_BYTES))


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberedPartitions:
    """Bounded items as numbers, in files of the engine."""

    rows: tuple[Path, ...]  # unit, item: a file for each partition, by unit; no unit is in two
    names: tuple[Path, ...]  # the key columns and item, in the order of items
    size: int  # how many items

    def keys_of(self, items: Integers) -> Iterator[pa.Table]:
        """The key columns of some items, given in order; reads no other key."""
        start = 0
        for file in self.names:
            names = map_file(file)
            first, last = np.searchsorted(items, [start, start + names.num_rows])
            yield names.take(pa.array(items[first:last] - start)).drop_columns("item")
            start += names.num_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class _Partition:
    """A partition on disk: the rows with its own numbers of items, and its items by bucket."""

    rows: Path
    keys: Path
    starts: list[int]  # of each bucket, and the end

    def keys_in(self, first: int, last: int) -> pa.Table:
        start = self.starts[first]
        return map_file(self.keys).slice(start, self.starts[last] - start)


def number_partitions(kept: PartitionedBounded, *, advance: Advance) -> NumberedPartitions:
    """A number for each distinct item, 0, 1, .."""
    engine, room, units = kept.engine, room_of(kept.engine), 0
    parts: list[_Partition] = []
    needs = np.zeros(BUCKETS)
    for held, first in kept.partitions():
        keys, starts, rows = _number_own(kept.keys, held, first, units)
        needs += [share_of_room(keys.slice(a, b - a), room) for a, b in pairwise(starts)]
        parts.append(_Partition(rows=engine.store(rows), keys=engine.store(keys), starts=starts))
        units += int(first.unit.max(initial=-1)) + 1
        del held, first, keys, rows
        advance()
    names, numbers = _number_keys(parts, group_buckets(needs, RUN), engine)
    files = []
    for part, number in zip(parts, numbers, strict=True):
        rows = map_file(part.rows)
        item = number[rows["item"].to_numpy()]
        files.append(engine.store(rows.set_column(1, "item", pa.array(item))))
        part.rows.unlink()
    return NumberedPartitions(
        rows=tuple(files), names=tuple(names), size=sum(map_file(file).num_rows for file in names)
    )


def _number_own(
    keys: Sequence[str], held: Holdings, kept: FirstItems, units: int
) -> tuple[pa.Table, list[int], pa.Table]:
    """The keys of a partition's items by bucket, where each starts, and its rows; so many units before."""
    some = np.flatnonzero(np.bincount(kept.item, minlength=1))
    bucket = (held.item_hashes(some, PLACING) % np.uint64(BUCKETS)).astype(np.uint8)
    some = some[np.argsort(bucket, kind="stable")]
    number = np.zeros(int(some.max(initial=-1)) + 1, np.int32)
    number[some] = np.arange(len(some))
    columns = {
        name: key.texts.take(pa.array(key.codes[some]))
        for name, key in zip(keys, held.keys, strict=True)
    }
    starts = [0, *np.cumsum(np.bincount(bucket, minlength=BUCKETS)).tolist()]
    rows = {"unit": kept.unit.astype(np.int64) + units, "item": number[kept.item]}
    return pa.table(columns), starts, pa.table(rows)


def _number_keys(
    parts: Sequence[_Partition],
    runs: Sequence[tuple[int, int]],
    engine: LocalEngine,
) -> tuple[list[Path], list[Integers]]:
    """Files of distinct keys with their numbers, and the number of each item of each partition."""
    most = sum(part.starts[-1] for part in parts)
    numbers: list[Integers] = [
        np.empty(part.starts[-1], np.int32 if most < 1 << 31 else np.int64) for part in parts
    ]
    names, size = [], 0
    for first, last in runs:
        pieces = [part.keys_in(first, last) for part in parts]
        number, keys = _number_run(pa.concat_tables(pieces))
        at = 0
        for part, piece, found in zip(parts, pieces, numbers, strict=True):
            own = slice(part.starts[first], part.starts[last])
            found[own] = number[at : at + piece.num_rows]
            found[own] += size
            at += piece.num_rows
        item = pa.array(np.arange(size, size + keys.num_rows))
        names.append(engine.store(keys.append_column("item", item)))
        size += keys.num_rows
        del pieces, number, keys
    for part in parts:
        part.keys.unlink()
    return names, numbers


def _number_run(table: pa.Table) -> tuple[Integers, pa.Table]:
    """The number of each row's key among the distinct ones, and these."""
    columns = [_encode(table[name]) for name in table.column_names]
    number, row = columns[0].codes, _row_of_each(columns[0])
    for column in columns[1:]:
        number, row = number_pairs(number, column.codes)
    keys = tuple(column.at(row) for column in columns)
    texts = [key.texts.take(pa.array(key.codes)) for key in keys]
    return number, pa.table(texts, table.column_names)


def _encode(column: pa.ChunkedArray) -> EncodedColumn:
    """A column with one dictionary. Lists are equal if their texts, which hold no separator, are."""
    lists = pa.types.is_list(column.type)
    texts = join_lists(column.combine_chunks()) if lists else column
    encoded = texts.dictionary_encode()
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    codes = np.concatenate(
        [chunk.indices.to_numpy() for chunk in chunks] or [np.zeros(0, np.int32)]
    )
    if not len(codes):
        return EncodedColumn(codes=codes, texts=pa.array([], column.type))
    found = EncodedColumn(codes=codes, texts=chunks[0].dictionary)
    if not lists:
        return found
    some = column.combine_chunks().take(pa.array(_row_of_each(found)))
    return EncodedColumn(codes=codes, texts=some)


def _row_of_each(column: EncodedColumn) -> Integers:
    """A row that has the text of each code."""
    row = np.zeros(len(column.texts), np.int64)
    row[column.codes] = np.arange(len(column.codes))
    return row
