"""Random small logs x products of options x random partitions, against a model in plain Python.

    python audits/product_fuzz.py [--logs 500] [--narrow 100] [--files 100] [--postgres 0] [--seed 1] [--first 0]

Of each log its rows, what was dropped, and of each of its tables the bounded sets, the sums before noise, the
weights of every round under a fixed rule, what is published and who holds it must be those of
`reference_model.py`, however the log is cut: into 1 to 64 partitions, rows in any order, batches of any
size, in memory or all in files, on one thread or two. `--narrow` logs have keys of four bits, so that only
checks tell texts apart; `--files` logs are read from files of many formats and types. A setting is a table in a
partitioning. Exit 0 only if nothing differed.
"""

import argparse
import importlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from log_rows import pairs, rows_of
from plain_keys import NARROW, WHOLE, PlainKeys
from random_logs import Case, Table, arrow, batches, case, write
from reference_model import (
    ROUNDS,
    SCREEN,
    Facts,
    Outcome,
    decide,
    outcome,
    per_unit,
    sets_of,
)
from replacement import replaced

from murmurlog.bundle.schema import By, in_order, keys_of, keys_schema
from murmurlog.counting.bound import Bound, BoundedItems
from murmurlog.counting.items import ItemFinder
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.counting.subsequences import Sets, Subsequences
from murmurlog.counting.tally import tally, with_candidates
from murmurlog.errors import InputError
from murmurlog.logs import rows as rows_of_logs
from murmurlog.logs import text_keys
from murmurlog.logs.cleaning import Cleaning, column_cleaners
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import Log, moment_of, read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.rows import RowReader, Rows, Texts
from murmurlog.logs.source import Source, find
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.workspace import open_workspace
from murmurlog.mechanisms import View
from murmurlog.mechanisms.protocol import tally_view
from murmurlog.mechanisms.public_pools import PublicPool
from murmurlog.mechanisms.rounds import select as selecting
from murmurlog.mechanisms.rounds.count import find_holders
from murmurlog.mechanisms.rounds.select import Candidates, candidates_of
from murmurlog.mechanisms.rounds.select import Outcome as Decided
from murmurlog.privacy.sampler import Integers, Keys, SeededEntropy

COUNTRY = "country"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a log is cut into partitions, and where these are."""

    bits: int
    rows_a_batch: int
    memory: int
    threads: int
    most_rows: int  # of a partition, before it is split
    seed: int  # of the order of rows

    @classmethod
    def draw(cls, seed: str) -> "Cut":
        chosen = random.Random(seed)
        return cls(
            bits=chosen.choice((0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6)),
            rows_a_batch=chosen.choice((1, 2, 7, 30, 1000)),
            memory=chosen.choice((1, 3_000, 40_000, 10**9, 10**9)),
            threads=chosen.choice((1, 1, 1, 2)),
            most_rows=chosen.choice((3, 12, 10**6, 10**6)),
            seed=chosen.randrange(2**32),
        )


@dataclass
class Comparison:
    """What came of the comparison."""

    runs: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def differs(self, words: str) -> None:
        self.differences.append(words)
        print(f"DIFFERENCE: {words}", flush=True)

    def compare(self, words: str, here: Outcome, expected: Outcome) -> None:
        """Notes the first part in which two outcomes differ."""
        for part in fields(Outcome):
            one, other = getattr(here, part.name), getattr(expected, part.name)
            if part.name == "tables":
                one, other = ({(n, name): facts for n, table in enumerate(tables) for name, facts in table.items()}
                              for tables in (one, other))  # fmt: skip
            for name in {*one, *other}:
                if one.get(name) != other.get(name):
                    more, less = _apart(one.get(name), other.get(name))
                    self.differs(
                        f"{words}: {part.name} {name}: has {more!a:.300}, lacks {less!a:.300}"
                    )
                    return


def _apart(one: Any, other: Any) -> tuple[Any, Any]:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one, other
    more = {key: value for key, value in one.items() if other.get(key) != value}
    return more, {key: value for key, value in other.items() if one.get(key) != value}


# What the package makes of a log


@contextmanager
def cut_log(made: Case, cut: Cut, folder: Path) -> Iterator[Log]:
    """The log in partitions."""
    by = any(table.by for table in made.tables)
    rows = [
        r for r in made.rows if all((r.country or "") == value for value in made.where.values())
    ]
    random.Random(cut.seed).shuffle(rows)
    columns = {name: name for name in made.columns}
    cleaning = Cleaning(
        timed="time" in columns, url=made.url if "url" in columns else None, keys=made.keys,
        since=moment_of("--since", made.since), until=moment_of("--until", made.until),
        keep=(COUNTRY,) if by else (), screen=SCREEN if made.screen else None, deny=frozenset(made.deny),
    )  # fmt: skip
    with (
        limits_of(made),
        open_workspace(memory=cut.memory, threads=cut.threads, folder=folder) as workspace,
    ):
        keys = TextKeys(SeededEntropy(made.number).stream("keys"))
        texts = Texts(workspace, column_cleaners(cleaning))
        reader = RowReader(
            cleaning=cleaning, text_keys=keys, texts=texts, unit=made.unit, bits=cut.bits, most_rows=cut.most_rows,
        )  # fmt: skip
        done = reader.read(batches(made, rows, cut.rows_a_batch, by=by), workspace).settle()
        yield Log(
            partitions=done.partitions, source=cast(Source, _Columns(columns)), unit=made.unit,
            text_keys=keys, rows=done.counts.rows, keyed=done.counts.keyed, broken=done.counts.broken,
            screened=done.counts.screened,
        )  # fmt: skip


@contextmanager
def limits_of(made: Case) -> Iterator[None]:
    """The limits of units and values, which are far above any small log, as low as the log has them."""
    names = ("MOST_ROWS_A_UNIT", "MOST_BYTES_A_UNIT", "MOST_BYTES_A_VALUE")
    with ExitStack() as stack:
        for name, limit in zip(names, made.limits or (), strict=False):
            stack.enter_context(replaced(rows_of_logs, name, limit))
        yield


@dataclass(frozen=True)
class _Columns:
    """Of a source only its columns."""

    columns: dict[str, str]


def outcome_of(log: Log, made: Case) -> Outcome:
    """What the package makes of a log."""
    return Outcome(
        rows=rows_of(log, COUNTRY),
        broken=dict(+Counter(log.broken)),
        screened=dict(+Counter(log.screened)),
        tables=tuple(_facts(log, table) for table in made.tables),
    )


def _facts(log: Log, table: Table) -> dict[str, Facts]:
    """What is compared of a table."""
    by = By(column=COUNTRY, values=table.by) if table.by else None
    names = keys_of(table.kind, by)
    known = None if table.known is None else _table(table.known, keys_of("query", by))
    pools = tuple(Listed(table=_table(pool, names)) for pool in table.pools)
    view = View(
        kind=table.kind, unit=log.unit, by=by, way=table.way, gap=table.gap, set_size=table.set_size,
        consecutive=table.consecutive, published={} if known is None else {"query": known},
        earlier={table.kind: _table(table.earlier, names)} if table.earlier else {},
        select_from=table.select_from, count_from=table.count_from,
        options={"pool": {table.kind: tuple(PublicPool(keys=pool) for pool in pools)}},
    )  # fmt: skip
    facts = _sums(log, view, table, names)
    if table.selects:
        candidates = candidates_of(
            log, view, per_user=table.per_user, pools=pools, entropy=SeededEntropy(table.seed)
        )
        facts |= _rounds(candidates, table)
    return facts


def _table(items: Sequence[Sequence[Any]], names: tuple[str, ...]) -> pa.Table:
    """Items as a table."""
    columns = [[item[place] for item in items] for place in range(len(names))]
    return pa.table(columns, schema=keys_schema(names))


def _listed(table: pa.Table) -> list[tuple[Any, ...]]:
    """A table's items."""
    columns = [column.to_pylist() for column in table.columns]
    lists = [[tuple(v) if isinstance(v, list) else v for v in column] for column in columns]
    return list(zip(*lists, strict=True))


def _sums(log: Log, view: View, table: Table, names: tuple[str, ...]) -> dict[str, Facts]:
    """The bounded sets and their sums."""
    entropy = SeededEntropy(table.seed)
    excluded = None
    if table.earlier:
        earlier = text_keys.KeyList.of(log.text_keys.columns(view.earlier[table.kind].columns))
        excluded = log.partitions.share(earlier)
    finder = view.finder(log, since=table.select_from, longest=table.longest, excluded=excluded)
    bound = view.bound(
        log, per_user=per_unit(table), entropy=entropy, count=table.count, places=table.kind == "itemset"
    )  # fmt: skip
    then: Callable[[BoundedItems], BoundedItems] | None = None
    if table.kind == "itemset":
        then = Sets(size=table.set_size, consecutive=table.consecutive)
    if table.repeats is not None:
        then = Subsequences(repeats=table.repeats)
    bounded: Facts = Counter()
    for part in log.partitions.results(partial(_bounded_of, find=finder, bound=bound, then=then)):
        bounded.update(part)
    if table.select_from or table.earlier or table.kind == "session":
        counted = tally(
            log, finder, bound, then=then, kind=table.kind, keys=names, per_user=table.per_user, count=table.count
        )  # fmt: skip
    else:  # as mechanisms do that know no windows
        counted = tally_view(
            log, view, per_user=table.per_user, count=table.count, entropy=SeededEntropy(table.seed)
        )
        most = sets_of(table, per_unit(table)) if table.kind == "itemset" else table.per_user
        if counted.per_user != most:
            raise AssertionError(f"the tally states {counted.per_user} items a unit, not {most}")
    facts = {"bounded": bounded, "sums": _counted(counted)}
    if table.count == "users" and table.pools and not table.known:
        public = pa.concat_tables([_table(pool, names) for pool in table.pools])
        facts["candidates"] = _counted(with_candidates(counted, public, log.text_keys))
    return facts


def _counted(counted: Any) -> Facts:
    found: Facts = {}
    for shard in counted:
        for item, number in zip(
            _listed(counted.table(shard.keys)), shard.sums.tolist(), strict=True
        ):
            # An item that is counted twice is no item of the model.
            found[(item, "again") if item in found else item] = number
    return found


def _bounded_of(
    rows: Rows,
    *,
    find: ItemFinder,
    bound: Bound,
    then: Callable[[BoundedItems], BoundedItems] | None,
) -> Facts:
    """Units, keys and texts of the bounded items of a partition."""
    items = find(rows)
    bounded = bound(items)
    bounded = bounded if then is None else then(bounded)
    texts = _listed(
        pa.table(bounded.columns(bounded.item), names=[str(i) for i in range(len(bounded.names))])
    )
    return Counter(
        zip(
            pairs(items.unit_keys[bounded.unit]),
            pairs(bounded.keys[bounded.item]),
            texts,
            strict=True,
        )
    )


def _rounds(candidates: Candidates, table: Table) -> dict[str, Facts]:
    """The weights of every round under the fixed rule, what it publishes, and who holds that."""
    thread = threading.local()  # ranges of keys are decided side by side
    weights: Facts = {}

    def no_noise(*, keys: Keys, count: int, **_: Any) -> Integers:
        thread.keys = keys
        return np.zeros(count, np.int64)

    def rule(k: int, z: Integers, remembered: Integers, pool: Integers) -> Decided:
        for key, weight in zip(pairs(thread.keys), z.tolist(), strict=True):
            if (k, key) in weights:
                raise AssertionError("an item has two weights in a round")
            weights[k, key] = weight
        four = zip(
            z.tolist(), remembered.tolist(), np.broadcast_to(pool, len(z)).tolist(), strict=True
        )
        decided = [decide(table, k, *one) for one in four]
        passed, goes_on = (np.array([one[i] for one in decided], bool) for i in (0, 1))
        attention, known = (
            np.array([one[i] for one in decided if one[1]], np.int64) for i in (2, 3)
        )
        return Decided(passed=passed, goes_on=goes_on, attention=attention, remembered=known)

    with replaced(selecting, "draw", no_noise):
        selected = selecting.select(
            candidates, scales=[1.0] * ROUNDS, decide=rule, entropy=SeededEntropy(0)
        )
    passed = candidates.table(selected.keys)
    if candidates.earlier is not None:
        passed = pa.concat_tables([passed, candidates.earlier.cast(passed.schema)])
    passed = in_order(passed)
    holders = find_holders(candidates, passed)
    listed, units = _listed(passed), Counter[Any]()
    for item, m, count in zip(holders.item, holders.m, holders.units, strict=True):
        units[listed[item], int(m)] += int(count)  # units of several partitions
    return {
        "weights": weights,
        "published": dict(Counter(listed)),
        "pools": dict(Counter((n, key) for n, held in enumerate(selected.held_keys, 1) for key in pairs(held))),
        "holders": units,
    }  # fmt: skip


# Comparisons


def in_partitions(
    made: Case, cuts: Sequence[Cut], folder: Path, found: Comparison, *, mask: int = WHOLE
) -> None:
    """A log in several partitionings against the model."""
    with ExitStack() as stack:
        if mask != WHOLE:
            stack.enter_context(narrow_keys(mask))
        expected = outcome(made, PlainKeys(made.number, mask))
        for cut in cuts:
            with cut_log(made, cut, folder) as log:
                words = f"log {made.number} in {cut}" + " with narrow keys" * (mask != WHOLE)
                found.compare(words, outcome_of(log, made), expected)
            found.runs["narrow" if mask != WHOLE else "settings"] += len(made.tables)
    if left := list(folder.iterdir()):
        found.differs(f"log {made.number}: left behind {left}")


@contextmanager
def narrow_keys(mask: int) -> Iterator[None]:
    """Keys of few bits: different values agree everywhere, and their checks tell them apart."""
    pack = text_keys._pack

    def narrow(sums: Any) -> Keys:
        keys = pack(sums)
        keys[:, 0] &= np.uint64(mask)
        return keys

    with replaced(text_keys, "_pack", narrow):
        yield


def from_source(made: Case, source: Source, engine: Any, found: Comparison, name: str) -> None:
    """A log as an engine reads it from its source, against the model."""
    by = any(table.by for table in made.tables)
    expected = outcome(made, PlainKeys(made.number))
    found.runs[name] += 1
    try:
        with limits_of(made):
            log = read(
            source, engine=engine, url=made.url, keys=made.keys, since=made.since, until=made.until,
            where=made.where, keep={COUNTRY: COUNTRY} if by else None,
            screen=SCREEN if made.screen else None, deny=frozenset(made.deny), unit=made.unit,
            entropy=SeededEntropy(made.number),
        )  # fmt: skip
    except InputError as error:
        if expected.rows or "no usable rows" not in str(error):
            found.differs(f"log {made.number} ({made.format}) on {name} is refused: {error}")
        return
    words = f"log {made.number} ({made.format}, time {made.time}) on {name}"
    found.compare(words, outcome_of(log, made), expected)


def on_files(cases: Sequence[Case], folder: Path, found: Comparison) -> None:
    """Logs in files of many formats and types."""
    for made in cases:
        place = folder / f"log{made.number}"
        place.mkdir()
        columns = {name: name for name in made.columns if name != COUNTRY}
        with connect() as engine:
            from_source(
                made,
                find(write(made, place), SourceOptions(columns=columns)),
                engine,
                found,
                "files",
            )


def on_postgres(cases: Sequence[Case], found: Comparison) -> str:
    """Logs as tables of a server, if there is one; else why there is none."""
    folder = str(Path(__file__).parents[1] / "tests" / "support")
    if folder not in sys.path:
        sys.path.append(folder)
    servers: Any = importlib.import_module("postgres_server")
    if servers.find_binaries() is None:
        return "no PostgreSQL server on this machine"
    with ExitStack() as stack:
        try:
            server = stack.enter_context(servers.run_server())
        except (servers.NoServer, RuntimeError, OSError) as error:
            return f"the PostgreSQL server did not start: {error}"
        for made in filter(_of_server, cases):
            table = arrow(made, made.cells, 0)
            plain = [pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type)
                     for f in table.schema]  # fmt: skip
            server.load(f"log{made.number}", table.cast(pa.schema(plain)))
            columns = {name: name for name in made.columns if name != COUNTRY}
            source = find(f"{server.url()}::log{made.number}", SourceOptions(columns=columns))
            with connect() as engine:
                from_source(made, source, engine, found, "postgres")
    return ""


def _of_server(made: Case) -> bool:
    """Whether a server has the types and takes the texts."""
    texts = [value for cell in made.cells for value in cell.values() if isinstance(value, str)]
    plain = made.format != "parquet" and made.time in (None, "us", "text", "unix s")
    return plain and not any("\x00" in text for text in texts)


def run(
    *, logs: int, narrow: int = 0, files: int = 0, postgres: int = 0, seed: int = 1, first: int = 0
) -> Comparison:
    """Random logs against the model, each in several partitionings."""
    found = Comparison()
    with tempfile.TemporaryDirectory() as name:
        places = [Path(name) / "scratch", Path(name) / "logs"]
        for place in places:
            place.mkdir()
        for count, mask in ((logs, WHOLE), (narrow, NARROW)):
            for number in range(first, first + count):
                cuts = [Cut.draw(f"{seed}:{number}:{n}") for n in range(2)]
                in_partitions(case(number, seed), cuts, places[0], found, mask=mask)
        on_files([case(first + logs + i, seed) for i in range(files)], places[1], found)
    if postgres and (why := on_postgres([case(first + i, seed) for i in range(postgres)], found)):
        print(f"postgres: skipped, {why}", flush=True)
    return found


def check_partitions(folder: Path, *, logs: int = 6) -> list[str]:
    """One sentence for each of some long logs that does not come to what the model says."""
    found, place = Comparison(), folder / "partitions"
    place.mkdir()
    for number in range(2, 3 * logs, 3):
        cut = Cut(bits=2, rows_a_batch=30, memory=10**9, threads=1, most_rows=10**6, seed=number)
        in_partitions(case(number, 1), [cut], place, found)
    return [f"{words:.300}" for words in found.differences]


def main() -> int:
    parser = argparse.ArgumentParser(description="One log, any partitions, and a plain model.")
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--narrow", type=int, default=100, help="logs with keys of four bits")
    parser.add_argument("--files", type=int, default=100, help="logs in files")
    parser.add_argument(
        "--postgres", type=int, default=0, help="logs for PostgreSQL, where it fits"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first log")
    asked = parser.parse_args()
    started = time.process_time()
    found = run(**vars(asked))
    for name, n in found.runs.items():
        print(f"{name:<12}{n:>8}")
    print(f"{len(found.differences)} differences, {time.process_time() - started:.0f} CPU s")
    return 0 if not found.differences else 1


if __name__ == "__main__":
    sys.exit(main())
