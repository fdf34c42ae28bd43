"""A generated log that is read once, with what experiments count in it: tallies, truth, releases, scores.

Everything is a function of the log and the seed, so that a result can be stored and made again.
"""

import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa

import murmurlog
from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import keys_of
from murmurlog.counting.bound import Bound
from murmurlog.counting.items import ItemFinder
from murmurlog.counting.tally import Tally, tally
from murmurlog.errors import UsageError
from murmurlog.evaluation.ground_truth import KINDS, Truth, count_exactly, searches_of
from murmurlog.evaluation.label_files import read_planted
from murmurlog.evaluation.parts import key_entropy, split
from murmurlog.evaluation.request import make_tables
from murmurlog.evaluation.scores import Result, results
from murmurlog.evaluation.tasks import TASKS, Settings, Tables, Unfit
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import generate
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import Entropy, SeededEntropy
from papers.experiments.experiment import LogSpec

ROWS_A_USER = {"aol": 55.35, "zealous": 24.0}  # as in the logs of the papers
KEPT_TALLIES = 8
FOLDS = 5  # one user in five is held out


class Scored(dict[str, Result]):
    """Results by measure; a measure that a system has not is NaN."""

    def value(self, measure: str) -> float:
        return self[measure].value if measure in self else math.nan

    def questions(self, measure: str) -> float:
        return float(self[measure].n) if measure in self else math.nan


class CountedTables(Mapping[str, pa.Table]):
    """The exact tables of a log, each counted when it is first used: few experiments need all."""

    def __init__(self, log: Log, say: Callable[[str], None]) -> None:
        self._log, self._say = log, say
        self._counted: dict[str, pa.Table] = {}

    def __getitem__(self, kind: str) -> pa.Table:
        if kind not in KINDS:
            raise KeyError(kind)
        if kind not in self._counted:
            self._say(f"counting {kind} items exactly")
            self._counted |= count_exactly(self._log, gap=GAP, kinds=(kind,))[0]
        return self._counted[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in KINDS

    def __iter__(self) -> Iterator[str]:
        return iter(KINDS)

    def __len__(self) -> int:
        return len(KINDS)


class PreparedLog:
    """The log of a paper's experiments, in a folder that keeps it for the next run."""

    def __init__(self, spec: LogSpec, folder: Path, say: Callable[[str], None]) -> None:
        self.spec, self.say = spec, say
        # Another version may generate another log from the same seed.
        name = f"log-{spec.like}-{spec.users}-{spec.seed}-{murmurlog.__version__}"
        self.path = folder / f"{name}.parquet"
        self.labels_path = folder / f"{name}-labels.parquet"
        self._stack = ExitStack()
        self._tallies: dict[tuple[str, int], Tally] = {}
        self._draws = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def rows(self) -> int:
        """How many rows are generated."""
        return round(self.spec.users * ROWS_A_USER[self.spec.like])

    def write(self) -> Path:
        """The file of the log, generated if it is not there."""
        if not (self.path.exists() and self.labels_path.exists()):
            # A run that is stopped must not leave half a log under the name of a whole one.
            parts = [
                p.with_name(f"part-{os.getpid()}-{p.name}") for p in (self.path, self.labels_path)
            ]
            try:
                generate(
                    rows=self.rows, out=parts[0], labels=parts[1], seed=self.spec.seed,
                    like=self.spec.like, say=self.say,
                )  # fmt: skip
                parts[1].replace(self.labels_path)
                parts[0].replace(self.path)
            finally:
                for part in parts:
                    part.unlink(missing_ok=True)
        return self.path

    @cached_property
    def log(self) -> Log:
        """The rows, read and cleaned."""
        engine = self._stack.enter_context(connect())
        return self.reading.read(
            find(str(self.write())), engine=engine, urls=True, entropy=key_entropy(), say=self.say
        )

    @cached_property
    def reading(self) -> Reading:
        return Reading()

    @cached_property
    def labels(self) -> pa.Table:
        """What was planted."""
        self.write()
        return read_planted(self.labels_path)

    @cached_property
    def truth(self) -> Truth:
        """Exact counts of all users."""
        return self._count(self.log)

    @cached_property
    def training(self) -> Log:
        """The users whom releases for held-out tasks are made from."""
        return split(self.log, fold=0, folds=FOLDS)[0]

    @cached_property
    def held_out(self) -> Truth:
        """Exact counts of the training users, and what the others did."""
        held = split(self.log, fold=0, folds=FOLDS)[1]
        return replace(self._count(self.training), searches=searches_of(held, gap=GAP))

    def _count(self, log: Log) -> Truth:
        # Who holds what is for intervals of statistics, which no experiment asks for.
        return Truth(tables=CountedTables(log, self.say), holders={}, labels=self.labels)

    def begin(self, name: str) -> None:
        """Draws from here on depend on the seed and this name alone."""
        self._draws, self._name = 0, name

    @property
    def entropy(self) -> Entropy:
        """Fresh draws; the same in every run with this seed."""
        self._draws += 1
        text = f"{self.spec.seed} {self._name} {self._draws}"
        return SeededEntropy(zlib.crc32(text.encode()))

    def tally(self, kind: str, per_user: int, *, training: bool = False) -> Tally:
        """How many users hold each item, of their first `per_user` ones; the last few are kept."""
        key = (f"{kind} training" if training else kind, per_user)
        if key not in self._tallies:
            while len(self._tallies) >= KEPT_TALLIES:
                del self._tallies[next(iter(self._tallies))]
            self.say(f"counting the first {per_user} {kind} items of each user")
            log = self.training if training else self.log
            # The first items are no draw, so a tally that is kept changes no later one.
            bound = Bound.of(per_user, "first", timed=log.has_times, entropy=SeededEntropy(0))
            self._tallies[key] = tally(
                log, ItemFinder(kind=kind), bound, kind=kind, keys=keys_of(kind), per_user=per_user
            )
        return self._tallies[key]

    def release(self, request: str, *, training: bool = False) -> Tables:
        """The tables of a one-line request."""
        self.say(f"releasing {request}")
        log = self.training if training else self.log
        return make_tables(request, log, self.reading, entropy=self.entropy)

    def score(
        self, task: str, tables: Tables, *, settings: Settings | None = None, label: str = ""
    ) -> Scored:
        """What tables get on a task; nothing if they lack what the task needs."""
        self.say(f"{task}: {label}" if label else task)
        truth = self.held_out if TASKS[task].held_out else self.truth
        try:
            scoring = TASKS[task].run(tables, truth, settings or Settings())
        except Unfit:
            return Scored()
        return Scored({each.measure: each for each in results("", task, scoring)})


def check_users(users: int) -> None:
    """Raises for a log that is too small to hold anything out."""
    if users < 100:
        raise UsageError(f"--users must be at least 100, not {users}")


def raw(truth: Truth, *kinds: str) -> Tables:
    """Exact tables of these kinds as one more system."""
    return {kind: truth.tables[kind] for kind in kinds}
