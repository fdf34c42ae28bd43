"""Read generated text logs twice, by murmurlog and by a plain second reader, and compare every row.

    python audits/reader_fuzz.py [--files 100000] [--seed 1] [--processes 2] [--kinds csv ...]
    python audits/reader_fuzz.py --twin csv-parallel
    python audits/reader_fuzz.py --files 0 --spark 40 --postgres 200

Files of every text format are drawn from the grammar and its edges and read in pieces of 1 byte and
more, with 1, 2 and 4 threads. `plain_reader.py` says which rows they hold, what is broken and which
are refused. One file in forty is a pair: adding the records of one user, as hostile as the format
can hold, must not change a row of anybody else, whatever is kept, filtered, cut or screened.

Exit 0 only if nothing differs. A difference is printed with the smallest input that shows it. `--twin`
puts a broken reader in murmurlog's place (`old_readers.py`), which must be caught.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from old_readers import TWINS
from reader_checks import Reader, difference, expected, moved
from reader_neighbours import FORMS, Pair, pair
from reader_samples import KINDS, Sample, draw, large
from reader_shrink import Trials, smallest, smallest_pair

from murmurlog.logs.engines.duckdb import connect

A_TASK = 480  # files that one engine reads
PAIR_EVERY = 40
LARGE_EVERY = 10_000
MOST_SHOWN = 4  # differences of a kind, in one task, that are made small and printed
ENOUGH = 3  # differences that catch a twin
TWIN_SECONDS = 50.0
SPARK_FORMS = ("parquet", "csv", "tsv", "jsonl")
TWIN_KINDS = {
    "csv-parallel": (("csv long",), ()),
    "shape-by-rows": ((), ("excite", "sogou")),
    "jsonl-roles-by-rows": ((), ("jsonl",)),
    "border": (tuple(KINDS), ()),
}


@dataclass
class Kind:
    """What came of the files of one kind."""

    name: str
    files: int = 0
    refused: int = 0
    rows: int = 0
    differences: int = 0
    moved: int = 0  # pairs in which a row of somebody else changed
    shown: list[str] = field(default_factory=list)

    def add(self, other: "Kind") -> None:
        for name in ("files", "refused", "rows", "differences", "moved"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.shown += other.shown


@dataclass(frozen=True, kw_only=True)
class Task:
    """Numbers of samples and pairs that one engine reads."""

    seed: int
    first: int
    files: int
    kinds: tuple[str, ...] = tuple(KINDS)
    forms: tuple[str, ...] = FORMS
    twin: str | None = None
    seconds: float | None = None  # after which it stops, as it does after a few differences


def work(task: Task) -> list[Kind]:
    """Reads the files of a task and says what came of each kind."""
    kinds: dict[str, Kind] = {}
    end = None if task.seconds is None else time.monotonic() + task.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reader = Reader(stack.enter_context(connect()), folder, task.twin)
        for number in range(task.first, task.first + task.files):
            if task.forms and (number % PAIR_EVERY == PAIR_EVERY - 1 or not task.kinds):
                which = number // PAIR_EVERY if task.kinds else number
                try_pair(reader, pair(task.seed, which, task.forms), number, kinds)
            else:
                try_sample(reader, draw(task.seed, number, task.kinds), number, kinds)
            if end and (_shown(kinds.values()) >= ENOUGH or time.monotonic() > end):
                break
    return list(kinds.values())


def work_large(task: Task) -> list[Kind]:
    """The same for files of many megabytes."""
    kinds: dict[str, Kind] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reader = Reader(stack.enter_context(connect()), folder)
        for number in range(task.first, task.first + task.files):
            try_sample(reader, large(task.seed, number), number, kinds)
    return list(kinds.values())


def _shown(kinds: Iterable[Kind]) -> int:
    return sum(len(kind.shown) for kind in kinds)


def try_sample(reader: Reader, sample: Sample, number: int, kinds: dict[str, Kind]) -> None:
    """Reads a sample twice and notes a difference."""

    def check(changed: Sample) -> str:
        return difference(expected(changed), reader.outcome(changed))

    kind = kinds.setdefault(sample.kind, Kind(sample.kind))
    wanted = expected(sample)
    said = difference(wanted, reader.outcome(sample))
    kind.files += 1
    kind.refused += wanted.refused is not None
    kind.rows += wanted.rows.total()
    kind.differences += bool(said)
    if said and len(kind.shown) < MOST_SHOWN:
        small = sample if sample.kind == "large" else smallest(sample, Trials(said, check))
        kind.shown.append(f"sample {number}: {check(small) or said}\n    {small}")


def try_pair(reader: Reader, one: Pair, number: int, kinds: dict[str, Kind]) -> None:
    """Reads a log without and with one user's records and notes what changed for others."""
    kind = kinds.setdefault(f"neighbours {one.form}", Kind(f"neighbours {one.form}"))
    said, rows = moved(reader, one)
    kind.files += 1
    kind.rows += rows
    kind.moved += bool(said)
    if said and len(kind.shown) < MOST_SHOWN:
        small = smallest_pair(one, Trials(said, lambda changed: moved(reader, changed)[0]))
        kind.shown.append(f"pair {number}: {moved(reader, small)[0] or said}\n    {small}")


def tasks(
    seed: int, files: int, first: int, kinds: tuple[str, ...], forms: tuple[str, ...]
) -> Iterator[Task]:
    for start in range(first, first + files, A_TASK):
        share = min(A_TASK, first + files - start)
        yield Task(seed=seed, first=start, files=share, kinds=kinds, forms=forms)


def fuzz(
    *,
    seed: int,
    files: int,
    first: int = 0,
    processes: int = 2,
    kinds: tuple[str, ...] = tuple(KINDS),
    forms: tuple[str, ...] = FORMS,
    larges: int = 0,
) -> dict[str, Kind]:
    """Reads many files, in processes of their own, and says what came of each kind."""
    found: dict[str, Kind] = {}
    every = list(tasks(seed, files, first, kinds, forms))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(work, task) for task in every]
        pending += [
            pool.submit(work_large, Task(seed=seed, first=n, files=1)) for n in range(larges)
        ]
        for done, future in enumerate(pending, 1):
            add(found, future.result())
            if done % 20 == 0:
                counted = sum(kind.files for kind in found.values())
                print(f"{counted} files", file=sys.stderr, flush=True)
    return found


def add(found: dict[str, Kind], kinds: Iterable[Kind]) -> None:
    """Adds what a task found, and prints its differences."""
    for kind in kinds:
        whole = found.setdefault(kind.name, Kind(kind.name))
        whole.add(kind)
        for shown in kind.shown:
            print(f"DIFFERENCE ({kind.name}) {shown}", flush=True)


def on_spark(seed: int, pairs: int) -> list[Kind]:
    """Pairs read on Spark, in one session on this machine."""
    from murmurlog.logs.engines.spark import connect as connect_spark

    kinds: dict[str, Kind] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine: Any = stack.enter_context(connect_spark(master="local[2]"))
        for number in range(pairs):
            try_pair(Reader(engine, folder), pair(seed, number, SPARK_FORMS), number, kinds)
    return [_named(kind, f"{kind.name} on Spark") for kind in kinds.values()]


def on_postgres(seed: int, pairs: int) -> list[Kind]:
    """Pairs in tables of a PostgreSQL server that is started for this."""
    kinds: dict[str, Kind] = {}
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reader = Reader(stack.enter_context(connect()), folder, server=server)
        for number in range(pairs):
            try_pair(reader, pair(seed, number, ("postgresql",)), number, kinds)
    return list(kinds.values())


def _named(kind: Kind, name: str) -> Kind:
    kind.name = name
    return kind


@contextmanager
def postgres() -> Iterator[Any]:
    """A server of the tests."""
    place = Path(__file__).parents[1] / "tests" / "support" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", place)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{place.name} is not in the folder of the tests")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.run_server() as server:
        yield server


def twin_task(name: str, *, seed: int, seconds: float = TWIN_SECONDS) -> Task:
    """What is read to catch a twin."""
    kinds, forms = TWIN_KINDS[name]
    return Task(
        seed=seed, first=0, files=1_000_000, kinds=kinds, forms=forms, twin=name, seconds=seconds
    )


def report(found: dict[str, Kind], seconds: float) -> int:
    """Prints a line for each kind; the number of differences."""
    line = "{:<28}{:>8}{:>9}{:>10}{:>13}{:>18}"
    print(line.format("kind", "files", "refused", "rows", "differences", "neighbours moved"))
    for kind in found.values():
        print(
            line.format(
                kind.name, kind.files, kind.refused, kind.rows, kind.differences, kind.moved
            )
        )
    files = sum(kind.files for kind in found.values())
    wrong = sum(kind.differences + kind.moved for kind in found.values())
    print(f"{files} files, {wrong} differences, {seconds:.0f} s")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Text logs read twice, and what differs.")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--large", type=int, help="files of many megabytes (one in 10,000)")
    parser.add_argument("--spark", type=int, default=0, help="pairs that are read on Spark")
    parser.add_argument("--postgres", type=int, default=0, help="pairs in a PostgreSQL server")
    parser.add_argument("--twin", choices=TWINS, help="a broken reader, to be caught")
    asked = parser.parse_args()
    started = time.monotonic()
    found: dict[str, Kind] = {}
    if asked.twin:
        add(found, work(twin_task(asked.twin, seed=asked.seed)))
    else:
        larges = asked.files // LARGE_EVERY if asked.large is None else asked.large
        found = fuzz(
            seed=asked.seed, files=asked.files, first=asked.first, processes=asked.processes,
            kinds=tuple(asked.kinds), larges=larges,
        )  # fmt: skip
        if asked.spark:
            add(found, on_spark(asked.seed, asked.spark))
        if asked.postgres:
            add(found, on_postgres(asked.seed, asked.postgres))
    return 1 if report(found, time.monotonic() - started) else 0


if __name__ == "__main__":
    sys.exit(main())
