"""Values of a log's partitions, and sums over them: the whole interface between a log and its readers.

A log is a list of partitions of units: no unit is in two. Whatever looks at rows is a function of one
partition; everything else is a sum of integers. Where a partition is (in memory, in a file, on a worker)
decides where a unit is counted, never what.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from murmurlog.logs.text_keys import NO_KEYS, group_keys
from murmurlog.logs.workspace import Handle, StoredRuns, Workspace, split_rows
from murmurlog.privacy.sampler import Keys

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

Integers = npt.NDArray[np.int64]
Columns = tuple[npt.NDArray[Any], ...]

SHARDS = 16  # ranges of keys at least, so that the sums of one range are in memory at a time
PARTITIONS_A_SHARD = 8  # at most, so that a range is no larger in a larger log


@dataclass(frozen=True, eq=False)
class Sums:
    """Whole numbers by key: each key once, in order of keys."""

    keys: Keys
    sums: Integers

    def __post_init__(self) -> None:
        if self.sums.dtype != np.int64:
            raise TypeError(f"sums are whole numbers of 64 bits, not {self.sums.dtype}")


class Partitions(Protocol[T_co]):
    """A value of each partition of a log."""

    @property
    def count(self) -> int:
        """How many partitions there are."""

    def derive(self, work: Callable[[T_co], U]) -> "Partitions[U]":
        """What `work` makes of each value, computed once and kept where the partitions are."""

    def add_up(self, work: Callable[[T_co], Sums]) -> "SummedShards":
        """The sums of what `work` makes of each value, stored before this returns."""

    def derive_with(
        self, answers: "Answers", work: Callable[[T_co, Columns], U]
    ) -> "Partitions[U]":
        """What `work` makes of each value and the answers about its keys (or about more keys), computed once."""

    def results(self, work: Callable[[T_co], U]) -> Iterator[U]:
        """What `work` makes of each value, brought here one after the other."""

    def results_with(self, work: Callable[[T_co, V], U], values: Sequence[V]) -> Iterator[U]:
        """What `work` makes of each value and the one beside it in `values`, brought here in order."""

    def share(self, value: U) -> Callable[[], U]:
        """A value that is opened inside `work`: what is public, or was published."""

    def set_aside(self) -> None:
        """Reserves as much disk space as all values take now, for values that are stored from now on."""

    def close(self) -> None:
        """Deletes the values."""


class Shards(Protocol):
    """Sums by key, in ranges of keys; each key is in one of them."""

    def __iter__(self) -> Iterator[Sums]: ...

    def map(self, work: Callable[[Sums], U]) -> Iterator[U]:
        """What `work` makes of each range, in order; several may be at work at once."""

    def close(self) -> None:
        """Deletes the sums."""


class SummedShards(Shards, Protocol):
    """Sums of values of partitions, which can send answers about keys back to the partitions."""

    def answer(self, work: "Answer[U]") -> "tuple[list[U], Answers]":
        """What `work` makes of each range and its number: a result, places of keys, and columns about these keys.

        Places ascend. The answers are never in one place: together they may be as large as the sums.
        """


Answer = Callable[[int, Sums], tuple[U, Integers, Columns]]


class Answers(Protocol):
    """Keys and columns about them, in ranges of keys, on their way to the partitions that have the keys."""

    def shard(self, number: int) -> Columns:
        """The keys and the columns of a range."""


@dataclass(frozen=True, eq=False)
class LocalPartitions(Partitions[T]):
    """Partitions in the memory and the files of a workspace of this process."""

    parts: Sequence[Handle[T]]
    workspace: Workspace
    shards: int = SHARDS  # of sums

    @property
    def count(self) -> int:
        return len(self.parts)

    def derive(self, work: Callable[[T], U]) -> "LocalPartitions[U]":
        parts = self.workspace.map(lambda part: self.workspace.keep(work(part.load())), self.parts)
        return LocalPartitions(_all_or_none(parts), self.workspace, self.shards)

    def add_up(self, work: Callable[[T], Sums]) -> "LocalShards":
        shards = max(self.shards, self.count // PARTITIONS_A_SHARD)

        def shards_of(part: Handle[T]) -> StoredRuns[tuple[Keys, Integers]]:
            sums = work(part.load())
            ends = shard_ends(sums.keys, shards)
            return self.workspace.keep_runs(split_rows((sums.keys, sums.sums), ends))

        pieces = _all_or_none(self.workspace.map(shards_of, self.parts))
        return LocalShards(pieces, self.workspace, shards)

    def derive_with(
        self, answers: Answers, work: Callable[[T, Columns], U]
    ) -> "LocalPartitions[U]":
        assert isinstance(answers, LocalAnswers)

        def derive_part(number: int) -> Handle[U]:
            pieces = [runs.load(number) for runs in answers.routed]
            columns = tuple(map(np.concatenate, zip(*pieces, strict=True)))
            return self.workspace.keep(work(self.parts[number].load(), columns))

        parts = self.workspace.map(derive_part, range(self.count))
        return LocalPartitions(_all_or_none(parts), self.workspace, self.shards)

    def results(self, work: Callable[[T], U]) -> Iterator[U]:
        return self.workspace.map(lambda part: work(part.load()), self.parts)

    def results_with(self, work: Callable[[T, V], U], values: Sequence[V]) -> Iterator[U]:
        pairs = zip(self.parts, values, strict=True)
        return self.workspace.map(lambda pair: work(pair[0].load(), pair[1]), pairs)

    def share(self, value: U) -> Callable[[], U]:
        return partial(identity, value)

    def set_aside(self) -> None:
        self.workspace.set_aside()

    def close(self) -> None:
        for part in self.parts:
            part.close()


@dataclass(frozen=True, eq=False)
class LocalShards:
    """The sums of local partitions; each shard is merged when it is read."""

    partitions: Sequence[StoredRuns[tuple[Keys, Integers]]]
    workspace: Workspace
    shards: int

    def __iter__(self) -> Iterator[Sums]:
        return self.workspace.map(self._merge, range(self.shards))

    def map(self, work: Callable[[Sums], U]) -> Iterator[U]:
        return self.workspace.map(lambda shard: work(self._merge(shard)), range(self.shards))

    def answer(self, work: Answer[U]) -> "tuple[list[U], LocalAnswers]":
        def answer_shard(number: int) -> _ShardResult[U]:
            pieces = self._pieces(number)
            keys, values = map(np.concatenate, zip(*pieces, strict=True))
            shard, codes = group_sums(keys, values)
            result, places, columns = work(number, shard)
            columns = shard.keys.take(places, axis=0), *columns
            answer = np.full(len(shard.keys), -1, np.int32)  # to each key
            answer[places] = np.arange(len(places), dtype=np.int32)
            rows = np.flatnonzero(answer[codes] >= 0)
            ends = np.cumsum([0, *(len(piece) for piece, _ in pieces)])
            answer_rows = answer[codes[rows]]
            return _ShardResult(
                result,
                self.workspace.keep(columns),
                self.workspace.keep_runs(
                    split_rows(
                        tuple(column.take(answer_rows, axis=0) for column in columns),
                        np.searchsorted(rows, ends).tolist(),
                    )
                ),
            )

        outcomes = _all_or_none(self.workspace.map(answer_shard, range(self.shards)))
        answers = LocalAnswers(
            [outcome.columns for outcome in outcomes],
            [outcome.routed for outcome in outcomes],
        )
        return [outcome.result for outcome in outcomes], answers

    def _merge(self, shard: int) -> Sums:
        return sum_by_key(*map(np.concatenate, zip(*self._pieces(shard), strict=True)))

    def _pieces(self, shard: int) -> list[tuple[Keys, Integers]]:
        """The sums of each partition in a range; of none where a source has no batch."""
        none = NO_KEYS, np.zeros(0, np.int64)
        return [pieces.load(shard) for pieces in self.partitions] or [none]

    def close(self) -> None:
        for pieces in self.partitions:
            pieces.close()


@dataclass(frozen=True, eq=False)
class _ShardResult(Generic[U]):
    """The result of a range of sums, and the answers about its keys."""

    result: U
    columns: Handle[Columns]
    routed: StoredRuns[Columns]

    def close(self) -> None:
        self.columns.close()
        self.routed.close()


@dataclass(frozen=True, eq=False)
class LocalAnswers:
    """Answers in a workspace: the columns of each range, and of each range a run for each partition."""

    columns: Sequence[Handle[Columns]]
    routed: Sequence[StoredRuns[Columns]]

    def shard(self, number: int) -> Columns:
        return self.columns[number].load()


@dataclass(frozen=True, eq=False)
class SharedAnswers:
    """Answers in a list; each partition gets all of them."""

    columns: Sequence[Columns]

    @property
    def all_columns(self) -> Columns:
        """Those of all ranges."""
        return tuple(map(np.concatenate, zip(*self.columns, strict=True)))

    def shard(self, number: int) -> Columns:
        return self.columns[number]


def answer_in_list(shards: Iterable[Sums], work: Answer[U]) -> tuple[list[U], SharedAnswers]:
    """The results and the answers to ranges of sums, all in this process."""
    results, answers = list[U](), list[Columns]()
    for number, shard in enumerate(shards):
        result, places, columns = work(number, shard)
        results.append(result)
        answers.append((shard.keys.take(places, axis=0), *columns))
    return results, SharedAnswers(answers)


def sum_by_key(keys: Keys, values: Integers) -> Sums:
    """The sums of values with equal keys, in order of keys."""
    return group_sums(keys, values)[0]


def group_sums(keys: Keys, values: Integers) -> tuple[Sums, npt.NDArray[np.int32]]:
    """The sums of values with equal keys, and of each row the place of its key among them."""
    codes = np.zeros(len(keys), np.int32)
    if not len(keys):
        return Sums(NO_KEYS, values[:0].astype(np.int64)), codes
    order, new = group_keys(keys)
    codes[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    sums = np.add.reduceat(values.take(order, axis=0), np.flatnonzero(new), axis=0)
    return Sums(keys.take(order[new], axis=0), sums), codes


def shard_ends(keys: Keys, shards: int) -> list[int]:
    """Where each shard begins and ends among ordered keys; a shard is a range of their first words."""
    bounds = np.array([(n << 64) // shards for n in range(1, shards)], np.uint64)
    return [0, *np.searchsorted(np.ascontiguousarray(keys[:, 0]), bounds).tolist(), len(keys)]


class _Closing(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closing)


def _all_or_none(results: Iterator[C]) -> list[C]:
    """All results; an error on the way closes those that are there."""
    with ExitStack() as stack:
        values = []
        for result in results:
            stack.callback(result.close)
            values.append(result)
        stack.pop_all()
        return values


def identity(value: Any) -> Any:
    return value
