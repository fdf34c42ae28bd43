"""Partitions on the workers of a Spark cluster: the third class of partitions.

A value is written once, by a task that Spark may repeat, and is read from there: what a lost executor or a
task that ran twice has made does not count. Only what `results` makes and sums, a range of keys at a
time, come to this process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from murmurlog.logs.engines.spark_worker import (
    Work,
    derive,
    derive_with,
    merge,
    split_sums,
    unpack,
    work_with,
)
from murmurlog.logs.partitions import (
    Answer,
    Answers,
    Columns,
    Partitions,
    SharedAnswers,
    Sums,
    answer_in_list,
)
from murmurlog.logs.rows import RowReader
from murmurlog.logs.text_keys import TextKeys

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


class Stored(Protocol):
    """Values with numbers, where all workers reach them."""

    def read(self, number: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The values, packed, one after the other, by number; or those with one number."""

    def numbers(self) -> list[int]:
        """The number of each value, in order."""

    def close(self) -> None:
        """Deletes the values."""


class Workers(Protocol):
    """Runs functions on workers, where values stay."""

    def run(self, values: Any, work: Work, *, reader: Callable[[], RowReader]) -> Stored:
        """What `work` makes of values, stored."""

    def exchange(
        self, values: Any, work: Work, then: Work, *, reader: Callable[[], RowReader]
    ) -> Stored:
        """The stored results of `then` on the results of `work`; values with one number come to one task, together."""

    def share(self, value: U) -> Callable[[], U]:
        """A value that is opened on the workers."""


@dataclass(frozen=True, eq=False)
class SparkPartitions(Partitions[T]):
    """Values of the partitions of a log, on workers."""

    stored: Stored
    numbers: Sequence[int]  # of partitions, in order
    workers: Workers
    reader: Callable[[], RowReader]  # with the numbers of the keys, on the workers
    text_keys: TextKeys

    @property
    def count(self) -> int:
        return len(self.numbers)

    def derive(self, work: Callable[[T], U]) -> "SparkPartitions[U]":
        stored = self.workers.run(self.stored, partial(derive, work=work), reader=self.reader)
        return SparkPartitions(stored, self.numbers, self.workers, self.reader, self.text_keys)

    def derive_with(
        self, answers: Answers, work: Callable[[T, Columns], U]
    ) -> "SparkPartitions[U]":
        assert isinstance(answers, SharedAnswers)
        return self.derive(partial(work_with, work=work, columns=self.share(answers.all_columns)))

    def add_up(self, work: Callable[[T], Sums]) -> "SparkShards":
        stored = self.workers.exchange(
            self.stored, partial(split_sums, work=work), merge, reader=self.reader
        )
        return SparkShards(stored, self.text_keys)

    def results(self, work: Callable[[T], U]) -> Iterator[U]:
        return self._bring(partial(derive, work=work))

    def results_with(self, work: Callable[[T, V], U], values: Sequence[V]) -> Iterator[U]:
        shared = self.share(dict(zip(self.numbers, values, strict=True)))
        return self._bring(partial(derive_with, work=work, values=shared))

    def share(self, value: U) -> Callable[[], U]:
        return self.workers.share(value)

    def set_aside(self) -> None:
        """Nothing: the disks are those of the cluster."""

    def _bring(self, work: Work) -> Iterator[Any]:
        with closing(self.workers.run(self.stored, work, reader=self.reader)) as stored:
            for _, packed in stored.read():
                yield unpack(packed, self.text_keys)

    def close(self) -> None:
        self.stored.close()


@dataclass(frozen=True, eq=False)
class SparkShards:
    """Sums that workers have merged and stored."""

    stored: Stored
    text_keys: TextKeys

    def __iter__(self) -> Iterator[Sums]:
        for _, packed in self.stored.read():
            yield unpack(packed, self.text_keys)

    def map(self, work: Callable[[Sums], U]) -> Iterator[U]:
        return map(work, self)

    def answer(self, work: Answer[U]) -> tuple[list[U], SharedAnswers]:
        return answer_in_list(self, work)

    def close(self) -> None:
        self.stored.close()
