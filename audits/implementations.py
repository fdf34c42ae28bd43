"""Count random small logs with every implementation and compare: all must find the same rows, sets and counts.

    python audits/implementations.py [--logs 2000] [--combined 10] [--spark 80] [--postgres 200] [--seed 1]
        [--first 0]

A table has any of the options at once: --by, published queries, earlier keys, windows, the bound, the
unit. `--combined` are long logs, each with many tables that have several of these.
The implementations are `encoded` (DuckDB, texts as numbers), `general` (without numbers), `parts` (numbers on
disk, some users at a time), `workers` (what the workers of a cluster run, in this process), `spark` (on
this machine), `postgres` (the log is a table of a server), and `model` (docs in plain Python, `reference_model.py`).
After each engine its folder for temporary files must be empty, and while it runs that of the engine must be private. Exit 0 only if nothing differed.
"""

import argparse
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from random_logs import Case, Table, arrow, case, write
from reference_model import EMPTY, SCREEN, Outcome, counts_holders, in_order, outcome, published

import murmurlog.logs.partitions
from murmurlog.bundle.schema import BY_VALUE, By, keys_of, keys_schema
from murmurlog.counting.bound import bound
from murmurlog.counting.items import items, without
from murmurlog.counting.tally import tally
from murmurlog.errors import MurmurlogError
from murmurlog.logs.engines.duckdb import DuckEngine, connect
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.log import EncodedLog, Log, read
from murmurlog.logs.partitions import Partitions
from murmurlog.logs.source import Source, find
from murmurlog.mechanisms import View
from murmurlog.mechanisms.rounds.holders import find_holders
from murmurlog.mechanisms.rounds.weights import hold
from murmurlog.privacy.sampler import SeededEntropy

LOGS_AN_ENGINE = 25
ROWS_A_BATCH = 7  # of a log in parts
LONG = 60  # rows: such a log is in few parts


@dataclass
class Comparison:
    """What came of the comparison."""

    runs: Counter[str] = field(default_factory=Counter)  # by implementation
    taken: Counter[str] = field(default_factory=Counter)  # logs that were in parts, refused, ...
    differences: list[str] = field(default_factory=list)

    def differs(self, words: str) -> None:
        self.differences.append(words)
        print(f"DIFFERENCE: {words}", flush=True)


def count_log(made: Case, source: Source, engine: Engine, found: Comparison) -> Outcome:
    """What an engine makes of a log."""
    by = any(table.by for table in made.tables)
    try:
        log = read(
            source, engine=engine, url=made.url, since=made.since, until=made.until,
            where=made.where, keep={BY_VALUE: "country"} if by else None,
            screen=SCREEN if made.screen else None, deny=frozenset(made.deny),
        )  # fmt: skip
    except MurmurlogError as error:
        none = "no usable rows" in str(error)
        return Outcome(refused=EMPTY if none else f"{type(error).__name__}: {error}")
    if isinstance(log, EncodedLog) and isinstance(log.encoded, Partitions):
        found.taken["in parts"] += 1
    sets, counts, holders = zip(*(_table(log, table) for table in made.tables), strict=True)
    return Outcome(
        rows=in_order(_rows(engine, log.table)),
        broken=in_order(log.broken.items()),
        screened=in_order(log.screened.items()),
        bounded=sets,
        counts=counts,
        holders=holders,
    )


def _table(log: Log, table: Table) -> tuple[Any, Any, Any]:
    """The bounded sets of one table, their counts, and who holds what is published of them."""
    by = By(column=BY_VALUE, values=table.by) if table.by else None
    known = None if table.known is None else _keys(table.known, keys_of("query", by))
    earlier = _keys(table.earlier, keys_of(table.kind, by)) if table.earlier else None
    held = items(
        log, kind=table.kind, unit=table.unit, by=by, gap=table.gap, known=known,
        since=table.select_from,
    )  # fmt: skip
    if earlier is not None:
        held = without(held, earlier)
    kept = bound(
        held, per_user=table.per_user, way=table.way, count=table.count,
        entropy=SeededEntropy(table.seed),
    )  # fmt: skip
    sums = tally(kept)
    rows = _rows(log.engine, kept.table.select("unit", *kept.keys))
    holders: tuple[str, ...] = ()
    if counts_holders(table):
        view = View(
            kind=table.kind, unit=table.unit, by=by, way=table.way, gap=table.gap,
            published={} if known is None else {"query": known},
            earlier={} if earlier is None else {table.kind: earlier},
            select_from=table.select_from, count_from=table.count_from,
        )  # fmt: skip
        listed = published(table, (tuple(item) for _, *item in rows))
        holders = _holders(log, view, table, listed)
    counts = in_order(_rows(log.engine, sums.table.select(*sums.keys, sums.count)))
    return in_order(rows), counts, holders


def _holders(log: Log, view: View, table: Table, listed: list[Any]) -> tuple[str, ...]:
    """Who holds published items, as `rounds` counts them."""
    held = hold(log, view, per_user=table.per_user, entropy=SeededEntropy(table.seed))
    holders = find_holders(held, _keys(listed, held.keys))
    units: Counter[tuple[Any, ...]] = Counter()
    for item, m, count in zip(holders.item, holders.m, holders.units, strict=True):
        units[*listed[item], int(m)] += int(count)  # one pair may stand in several rows
    return in_order((*key, count) for key, count in units.items())


def _keys(rows: Sequence[Sequence[str]], names: tuple[str, ...]) -> pa.Table:
    """Keys as a table."""
    schema = keys_schema(names)
    columns = [[row[place] for row in rows] for place in range(len(names))]
    return pa.table(columns, schema=schema)


def _rows(engine: Any, table: Any) -> list[list[Any]]:
    return [[*row.values()] for batch in engine.batches(table) for row in batch.to_pylist()]


# The implementations on DuckDB


@contextmanager
def _changed(module: Any, **values: Any) -> Iterator[None]:
    """A module or class with other values for a while."""
    before = {name: vars(module)[name] for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def encoded(made: Case, source: Source, engine: DuckEngine, found: Comparison) -> Outcome:
    return count_log(made, source, engine, found)


def general(made: Case, source: Source, engine: DuckEngine, found: Comparison) -> Outcome:
    with _changed(DuckEngine, local=None):
        return count_log(made, source, engine, found)


def parts(made: Case, source: Source, engine: DuckEngine, found: Comparison) -> Outcome:
    # About the bytes of the largest of few users: some logs are in parts, some have no room at all.
    long = len(made.rows) >= LONG
    bytes_a_row = 40 if long else 20 + 15 * (made.number % 5)
    room = len(made.rows) * bytes_a_row / engine.memory
    rows = LONG // 2 if long else ROWS_A_BATCH
    with _changed(murmurlog.logs.partitions, ROOM=room, ROWS_A_BATCH=rows):
        return count_log(made, source, engine, found)


def workers(made: Case, source: Source, engine: DuckEngine, found: Comparison) -> Outcome:
    with _support("workers").connect(folder=engine.folder.parent) as cluster:
        return count_log(made, source, cluster, found)


def _support(name: str) -> Any:
    """A module of the tests."""
    folder = str(Path(__file__).parents[1] / "tests" / "support")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


IMPLEMENTATIONS: dict[str, Callable[[Case, Source, DuckEngine, Comparison], Outcome]] = {
    "encoded": encoded, "general": general, "parts": parts, "workers": workers,
}  # fmt: skip


def _source(made: Case, home: Path) -> Source:
    """The log, written to a folder of its own and found again."""
    place = home / f"log{made.number}"
    place.mkdir()
    return find(
        write(made, place), columns={name: name for name in made.columns if name != "country"}
    )


def compare(name: str, made: Case, here: Outcome, expected: Outcome, found: Comparison) -> None:
    found.runs[name] += 1
    for part in fields(Outcome):
        one, other = getattr(here, part.name), getattr(expected, part.name)
        if one != other:
            several = isinstance(one, tuple)
            extra = [row for row in one if row not in other][:2] if several else one
            missing = [row for row in other if row not in one][:2] if several else other
            found.differs(
                f"log {made.number} ({made.format}, time {made.time}) on {name}: {part.name}: "
                f"has {extra!a:.400}, lacks {missing!a:.400}"
            )
            return


def on_duckdb(cases: Sequence[Case], home: Path, found: Comparison) -> None:
    """The implementations on DuckDB against the model, an engine for some logs at a time."""
    for start in range(0, len(cases), LOGS_AN_ENGINE):
        some = cases[start : start + LOGS_AN_ENGINE]
        with _logs(home) as (logs, scratch):
            sources = [(made, _source(made, logs)) for made in some]
            with connect(folder=scratch) as engine:
                for made, source in sources:
                    expected = outcome(made)
                    found.taken["refused"] += bool(expected.refused)
                    for name, count in IMPLEMENTATIONS.items():
                        compare(name, made, count(made, source, engine, found), expected, found)
                _private(scratch, found)
            _empty(home, found)
        if start % 500 == 0 and start:
            print(f"{start} logs", file=sys.stderr, flush=True)


@contextmanager
def _logs(home: Path) -> Iterator[tuple[Path, Path]]:
    """A folder for logs and one for what engines keep, beside it."""
    logs, scratch = home / "logs", home / "scratch"
    logs.mkdir()
    scratch.mkdir(exist_ok=True)
    try:
        yield logs, scratch
    finally:
        shutil.rmtree(logs)


def _private(scratch: Path, found: Comparison) -> None:
    for folder in scratch.iterdir():
        if folder.stat().st_mode & 0o077:
            found.differs(f"{folder.name} can be read by others: {folder.stat().st_mode:o}")


def _empty(home: Path, found: Comparison) -> None:
    """Nothing is left beside the logs."""
    left = [p for p in home.rglob("*") if "logs" not in p.relative_to(home).parts and not _ours(p)]
    if left:
        found.differs(f"left behind: {left[:3]}")
        for path in left:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(
                missing_ok=True
            )


def _ours(path: Path) -> bool:
    """Whether it is a folder of this audit, or what a Java that still runs keeps without any row."""
    if path.name in ("scratch", "scratch ü=%20", "tmp") and path.is_dir():
        return True
    empty = path.is_dir() and not any(path.iterdir())
    return path.suffix in (".so", ".lck") or (
        empty and path.name.startswith(("artifacts-", "spark-"))
    )


# Spark and PostgreSQL


def _no_spark() -> str:
    """Why Spark cannot run here; nothing if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    return "" if shutil.which("java") or os.environ.get("JAVA_HOME") else "there is no Java"


def on_spark(cases: Sequence[Case], home: Path, found: Comparison) -> None:
    """Logs of types that Spark reads, all in one session, against the model."""
    some = [_without_sessions(made) for made in cases if made.spark]
    scratch = home / "scratch ü=%20"
    scratch.mkdir()
    with _logs(home) as (logs, _):
        sources = [(made, _source(made, logs)) for made in some]
        with connect_spark(master="local[2]", scratch_at=str(scratch)) as engine:
            for made, source in sources:
                compare("spark", made, count_log(made, source, engine, found), outcome(made), found)
            _private(scratch, found)
            tables = {path for path in home.rglob("t*") if path.suffix in ("", ".parquet")}
            inside = set(scratch.rglob("t*"))
            if outside := [p for p in tables - inside if "logs" not in p.parts and not _ours(p)
                           and ".murmurlog-" not in str(p)]:  # fmt: skip
                found.differs(f"tables outside the scratch folder: {outside[:3]}")
        _empty(home, found)
    scratch.rmdir()


def _without_sessions(made: Case) -> Case:
    """The log without tables of whole sessions, which Spark does not make."""
    tables = tuple(
        replace(table, kind="query") if table.kind == "session" else table for table in made.tables
    )
    return replace(made, tables=tables)


def on_postgres(cases: Sequence[Case], found: Comparison) -> str:
    """Logs as tables of a server, if there is one; else why there is none."""
    servers = _support("postgres_server")
    if servers.find_binaries() is None:
        return "no PostgreSQL server on this machine"
    with ExitStack() as stack:
        try:
            server = stack.enter_context(servers.run_server())
        except (servers.NoServer, RuntimeError, OSError) as error:
            return f"the PostgreSQL server did not start: {error}"
        for made in cases:
            if _of_server(made):
                _on_server(made, server, found)
    return ""


def _of_server(made: Case) -> bool:
    """Whether a server has the types and takes the texts."""
    texts = [value for cell in made.cells for value in cell.values() if isinstance(value, str)]
    plain = made.format in ("csv", "tsv", "jsonl", "duckdb") and made.time in (
        None,
        "us",
        "text",
        "unix s",
    )
    return plain and not any("\x00" in text for text in texts)


def _on_server(made: Case, server: Any, found: Comparison) -> None:
    table = arrow(made, made.cells, 0)
    table = table.cast(pa.schema([(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type)
                                  for f in table.schema]))  # fmt: skip
    server.load(f"log{made.number}", table)
    source = find(
        f"{server.url()}::log{made.number}",
        columns={name: name for name in made.columns if name != "country"},
    )
    with connect() as engine:
        compare("postgres", made, count_log(made, source, engine, found), outcome(made), found)


def run(
    *,
    logs: int,
    spark: int,
    postgres: int,
    seed: int,
    combined: int = 0,
    tables: int = 40,
    first: int = 0,
    patterns: bool = True,
) -> Comparison:
    """All implementations on random logs; `combined` are long logs with so many tables of several options each."""
    found = Comparison()
    cases = [case(first + i, seed, patterns=patterns) for i in range(logs)]
    cases += [
        case(first + i, seed, patterns=patterns, tables=tables, whole=True) for i in range(combined)
    ]
    with tempfile.TemporaryDirectory() as folder, _temporary(Path(folder) / "tmp"):
        home = Path(folder)
        on_duckdb(cases, home, found)
        if spark and (why := _no_spark()):
            print(f"spark: skipped, {why}", flush=True)
        elif spark:
            on_spark(
                [case(first + logs + i, seed, patterns=patterns) for i in range(spark)], home, found
            )
    if postgres:
        some = [case(first + logs + spark + i, seed) for i in range(postgres)]
        if why := on_postgres(some, found):
            print(f"postgres: skipped, {why}", flush=True)
    return found


@contextmanager
def _temporary(folder: Path) -> Iterator[None]:
    """A folder for temporary files of this process and of Java, to look at later."""
    folder.mkdir()
    before = {name: os.environ.get(name) for name in ("TMPDIR", "JAVA_TOOL_OPTIONS")}
    os.environ |= {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
    tempfile.tempdir = None
    try:
        yield
    finally:
        tempfile.tempdir = None
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def main() -> int:
    parser = argparse.ArgumentParser(
        description="One log, every implementation: the same sets and counts."
    )
    parser.add_argument("--logs", type=int, default=2000, help="for DuckDB")
    parser.add_argument("--combined", type=int, default=10, help="long logs with many tables each")
    parser.add_argument("--spark", type=int, default=80, help="for Spark")
    parser.add_argument("--postgres", type=int, default=400, help="for PostgreSQL, where it fits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first log")
    asked = parser.parse_args()
    started = time.monotonic()
    found = run(
        logs=asked.logs, combined=asked.combined, spark=asked.spark, postgres=asked.postgres,
        seed=asked.seed, first=asked.first,
    )  # fmt: skip
    for name, n in {**found.runs, **found.taken}.items():
        print(f"{name:<12}{n:>8}")
    print(f"{len(found.differences)} differences, {time.monotonic() - started:.0f} s")
    return 0 if not found.differences else 1


if __name__ == "__main__":
    sys.exit(main())
