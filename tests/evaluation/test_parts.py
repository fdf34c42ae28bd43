"""What is scored is a function of a log's units: how they are spread over partitions decides nothing."""

from dataclasses import replace

import numpy as np
import pytest

from murmurlog.bundle.schema import in_order
from murmurlog.evaluation.ground_truth import count_exactly, searches_of
from murmurlog.evaluation.parts import key_entropy, split, with_unit
from murmurlog.evaluation.request import make_tables
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.partitions import LocalPartitions
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, parse
from murmurlog.privacy.sampler import SeededEntropy

REQUESTS = (
    "k-query:3,tables=[query,keyword,pair]",
    "k-click:3,tables=[query,click]",
    "k-keyword:4,tables=[keyword]",
    "k-session:2,tables=[session]",
    "users-30",
    "safelog-literal:epsilon=20",
    "hong(epsilon=3, delta=0.5):tables=[log]",
    "rounds:epsilon=50,delta=1e-3,per-user=20",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / "log.parquet"
    write(invent(rows=20_000, seed=4), path)
    return path


def read_log(path, engine, unit="user", **rows):
    return Reading(**rows).read(
        find(str(path)), engine=engine, urls=True, unit=unit, entropy=key_entropy(), say=str
    )


def spread(log, seed):
    """The same log with the units of each partition thrown into three, which come in any order."""
    rng = np.random.default_rng(seed)
    parts = []
    for part in log.partitions.parts:
        rows = part.load()
        place = rng.integers(0, 3, len(rows.unit_keys))[rows.unit]
        parts += [rows.at(place == n) for n in range(3)]
    workspace = log.partitions.workspace
    stored = [workspace.keep(parts[n]) for n in rng.permutation(len(parts))]
    return replace(log, partitions=LocalPartitions(stored, workspace))


def test_the_truth_is_the_same_whatever_the_partitions_are(path):
    with connect() as engine:
        log = read_log(path, engine)
        tables, holders = count_exactly(log)
        assert set(tables) == {"keyword", "query", "pair", "click", "session"}
        assert min(table.num_rows for table in tables.values()) > 500
        for seed in range(2):
            other = spread(log, seed)
            same_tables, same_holders = count_exactly(other)
            assert searches_of(other).equals(searches_of(log))
            for kind, table in tables.items():
                assert same_tables[kind].equals(table), kind
                assert (same_holders[kind].user == holders[kind].user).all()
                assert (same_holders[kind].item == holders[kind].item).all()
                assert same_holders[kind].users == holders[kind].users


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_release_is_the_same_whatever_the_partitions_are(path, request_text):
    with connect() as engine:
        log = read_log(path, engine)
        wanted, actual = (
            make_tables(request_text, part, Reading(), entropy=SeededEntropy(3))
            for part in (log, spread(log, 1))
        )
    assert max(table.num_rows for table in wanted.values()) > 10
    for kind, table in wanted.items():
        assert in_order(actual[kind]).equals(in_order(table)), kind


def test_what_a_release_derives_is_gone_with_it(path):
    with connect() as engine:
        log = read_log(path, engine)
        workspace, room = log.partitions.workspace, []
        for _ in range(3):
            training, held_out = split(log, fold=0, folds=5)
            for request_text in REQUESTS:
                make_tables(request_text, training, Reading(), entropy=SeededEntropy(3))
            searches_of(held_out)
            del training, held_out
            room.append(workspace._used)
        assert room[0] == room[1] == room[2]


def users_of(log):
    """The keys of the users who have a row."""
    return {
        tuple(key)
        for keys in log.partitions.results(lambda rows: rows.unit_keys[np.unique(rows.unit)])
        for key in keys.tolist()
    }


def rows_of(log):
    return sum(log.partitions.results(lambda rows: rows.count))


def test_a_user_is_in_one_fold_whatever_else_is_in_the_log(path):
    with connect() as engine:
        log = read_log(path, engine)
        later = read_log(path, engine, since="2026-05-01")
        folds = []
        for fold in range(5):
            training, held_out = split(log, fold=fold, folds=5)
            assert users_of(held_out).isdisjoint(users_of(training))
            assert rows_of(held_out) + rows_of(training) == log.rows
            folds.append(users_of(held_out))
            assert users_of(split(later, fold=fold, folds=5)[1]) <= folds[-1]
        assert later.rows < log.rows
        assert sum(map(len, folds)) == len(set.union(*folds)) == 500
        assert min(map(len, folds)) > 60
        # One fold of five where one is asked for.
        assert users_of(split(log, fold=0, folds=1)[1]) == folds[0]


@pytest.mark.parametrize("unit", ["user-day", "user-week", "user-month"])
def test_the_units_of_a_log_of_users_are_those_of_a_log_that_is_read_so(path, unit):
    counts = []
    with connect() as engine:
        for read_as in (unit, "user"):
            log = with_unit(read_log(path, engine, unit=read_as), unit)
            mechanism = parse("threshold(d=2, scale=0.01, T=2)")
            tally = mechanism.gather(
                log, View(kind="query", unit=unit, way="first"), entropy=key_entropy()
            )
            counts.append([(s.keys.tolist(), s.sums.tolist()) for s in tally])
            assert log.unit == tally.unit == unit
    assert counts[0] == counts[1]
    assert sum(sum(sums) for _, sums in counts[0]) > 500
