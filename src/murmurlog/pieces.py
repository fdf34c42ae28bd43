"""A log as numbers, put together from its pieces: as one, or in parts by user on the engine's disk.

Each piece has lists of its texts of its own. What fits into memory becomes one log with one list a
column. What does not is written piece by piece, its rows by user, and read again some users at a
time: bounding looks at one user only, so parts need nothing of each other. A part is chosen by a
hash of the user's name, which decides where a user is counted and never what.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.coded import Coded, Holdings, Texts, holdings
from murmurlog.engine import DuckEngine, stored
from murmurlog.firsts import NEVER, Integers, together

ROOM = 1 / 4  # of the engine's memory for the numbers of a part; work on them takes twice as much
PIECE = 1 / 16  # for the texts of a piece, before they are numbers
MOST_TEXT = 1 << 30  # bytes of a piece, or of the texts of a part: Arrow's lists end at 2 GB
BUCKETS = 256  # of users: no part is smaller than one of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """A log on disk. In each piece the rows of a bucket of users stand together."""

    files: tuple[Path, ...]
    starts: tuple[Integers, ...]  # of each piece, where each bucket starts, and the end
    parts: tuple[tuple[int, int], ...] | None  # runs of buckets; None if one of them has no room

    @property
    def rows(self) -> int:
        return int(sum(start[-1] for start in self.starts))

    def table(self) -> pa.Table:
        """Every row, as `Coded.table` has them; stays on disk."""
        return pa.concat_tables([stored(file) for file in self.files])

    def logs(self, engine: DuckEngine) -> Iterator[Coded]:
        """The parts, one after the other: all rows of some users each."""
        for first, last in self.parts or ():
            found = []
            for file, start in zip(self.files, self.starts, strict=True):
                lo, hi = int(start[first]), int(start[last])
                if lo < hi:
                    found.append(_loaded(stored(file).slice(lo, hi - lo)))
            if found:
                yield joined(found, engine)


@dataclass(frozen=True, kw_only=True, eq=False)
class Wanted:
    """Which items of a log are wanted, with the table of the same items that an engine shows."""

    log: Coded | Pieces
    of: Any
    kind: str
    unit: str
    known: pa.Array | None  # only these queries

    def holdings(self, engine: DuckEngine) -> Iterator[Holdings]:
        """The items of every unit, as often as they occur; a unit's are in one part."""
        for log in self.log.logs(engine) if isinstance(self.log, Pieces) else (self.log,):
            yield holdings(log, kind=self.kind, unit=self.unit, known=self.known)


def gathered(pieces: Iterator[Coded], engine: DuckEngine) -> Coded | Pieces:
    """The log of these pieces: in memory if there is room, else on disk."""
    room = engine.memory * ROOM
    held: list[Coded] = []
    files: list[Path] = []
    starts: list[Integers] = []
    sizes = np.zeros(BUCKETS)
    used = 0.0
    for piece in pieces:
        held.append(piece)
        used += _size(piece, room)
        del piece
        while held and used > room:
            placed, start = _by_bucket(held.pop(0), engine)
            sizes += np.diff(start) * (_size(placed, room) / max(1, placed.rows))
            files.append(engine.store(placed.table()))
            starts.append(start)
    if not files:
        return joined(held, engine)
    return Pieces(files=tuple(files), starts=tuple(starts), parts=_runs(sizes, room))


def joined(pieces: list[Coded], engine: DuckEngine) -> Coded:
    """One log of several; empties the list, so that a column goes as soon as it is joined."""
    first = pieces[0]
    if len(pieces) == 1:
        pieces.clear()
        return first
    users = [piece.user for piece in pieces]
    times = [piece.time for piece in pieces]
    queries = [piece.query for piece in pieces]
    urls = [piece.url for piece in pieces if piece.url]
    ranks = [piece.rank for piece in pieces if piece.rank is not None]
    kept = {name: [piece.kept[name] for piece in pieces] for name in first.kept}
    pieces.clear()
    del first
    return Coded(
        query=_one_list(queries, engine),
        user=_one_list(users, engine),
        time=np.concatenate(times),
        url=_one_list(urls, engine) if urls else None,
        rank=pa.concat_arrays(ranks) if ranks else None,
        kept={name: _one_list(columns, engine) for name, columns in kept.items()},
    )


def _one_list(columns: list[Texts], engine: DuckEngine) -> Texts:
    """The columns one after the other, with one list; empties what it is given."""
    texts = pa.concat_arrays([column.texts for column in columns])
    hashes = np.concatenate([engine.hashes(column.texts) for column in columns])
    equal = same_texts(texts, hashes)
    del hashes
    firsts = equal == np.arange(len(equal))
    number = np.cumsum(firsts, dtype=np.int32)
    number -= 1
    becomes = number[equal]
    del equal, number
    codes = np.empty(sum(len(column.codes) for column in columns), np.int32)
    row = place = 0
    while columns:
        column = columns.pop(0)
        some = np.append(becomes[place : place + len(column.texts)], np.int32(-1))  # none is none
        np.take(some, column.codes, out=codes[row : row + len(column.codes)], mode="wrap")
        row, place = row + len(column.codes), place + len(column.texts)
    return Texts(codes=codes, texts=texts.take(pa.array(np.flatnonzero(firsts))))


def same_texts(texts: pa.Array, hashes: Integers) -> Integers:
    """For each text the place of the first that is equal to it.

    Hashes only say which texts to compare. Where a hash stands for several texts, as few bits of it
    will now and then, these are told apart by a list of them.
    """
    # Half as slow as a list of all: most texts are alone with their hash and never looked at.
    order, numbers = together(hashes >> np.uint64(len(hashes).bit_length()))
    alike = numbers[1:] == numbers[:-1]
    del numbers
    pairs = np.flatnonzero(alike)
    left, right = (texts.take(pa.array(order[pairs + more])) for more in (0, 1))
    differ = pairs[~pc.equal(left, right).to_numpy(zero_copy_only=False)]
    del left, right, pairs
    starts = np.concatenate([[True], ~alike])[: len(order)]
    group = np.cumsum(starts, dtype=np.int32)
    group -= 1
    first = np.empty_like(order)
    first[order] = order[starts][group]
    if len(differ):
        mixed = np.zeros(len(starts), bool)
        mixed[group[differ]] = True
        places = np.sort(order[mixed[group]])
        listed = texts.take(pa.array(places)).dictionary_encode().indices.to_numpy()
        _, at = np.unique(listed, return_index=True)
        first[places] = places[at[listed]]
    return first


def _size(piece: Coded, room: float) -> float:
    """What a piece takes of the room; more where its texts would fill a list of Arrow's."""
    columns = [c for c in (piece.user, piece.query, piece.url, *piece.kept.values()) if c]
    return float(max(piece.nbytes, max(c.texts.nbytes for c in columns) / MOST_TEXT * room))


def _by_bucket(piece: Coded, engine: DuckEngine) -> tuple[Coded, Integers]:
    """The rows put together by bucket of their user, else in their order; and where each starts."""
    bucket = (engine.hashes(piece.user.texts) % BUCKETS).astype(np.uint8)[piece.user.codes]
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=BUCKETS))])
    return piece.at(np.argsort(bucket, kind="stable")), starts


def _runs(sizes: Integers, room: float) -> tuple[tuple[int, int], ...] | None:
    """As few runs of buckets of one size as there is room for; None if a bucket alone has none."""
    if sizes.max() > room:
        return None
    ends = [0]
    size = 0.0
    for bucket, more in enumerate(sizes):
        if size + more > room:
            ends.append(bucket)
            size = 0.0
        size += more
    return tuple(pairwise([*ends, len(sizes)]))


def _loaded(table: pa.Table) -> Coded:
    """The rows of a stored table as numbers, with only the texts that they name."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    time = columns["time"].view(pa.int64())
    linked = pa.types.is_dictionary(columns["url"].type)
    return Coded(
        user=_named(columns["user"]),
        time=(time.fill_null(NEVER) if time.null_count else time).to_numpy(),
        query=_named(columns["query"]),
        url=_named(columns["url"]) if linked else None,
        rank=columns["rank"] if linked else None,
        kept={name: _named(columns[name]) for name in table.column_names[5:]},
    )


def _named(column: pa.DictionaryArray) -> Texts:
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.zeros(len(column.dictionary) + 1, bool)
    used[codes] = True
    used[-1] = False
    becomes = np.cumsum(used, dtype=np.int32) - np.int32(1)
    becomes[-1] = -1  # none stays none
    texts = column.dictionary.take(pa.array(np.flatnonzero(used)))
    return Texts(codes=becomes[codes], texts=texts)
