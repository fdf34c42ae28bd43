"""One log, every implementation: the same rows, bounded sets and counts, and nothing left behind."""

import itertools
import subprocess
import sys
from pathlib import Path

import implementations
import numpy as np
import pytest
from cluster import TIMEOUT, environment, needs_spark
from implementations import Comparison
from random_logs import case
from reference_model import outcome

import murmurlog.counting.items
import murmurlog.logs.encoded
from murmurlog.counting.holdings import PERIODS, Holdings, places_of

ON_CODES = (" on encoded: ", " on parts: ", " on workers: ")


def compare_logs(logs=4, first=0, **more):
    return implementations.run(
        logs=logs, spark=0, postgres=0, seed=7, first=first, patterns=False, **more
    )


def test_the_implementations_on_duckdb_and_a_plain_model_agree():
    found = compare_logs(logs=2)
    assert found.differences == []
    assert found.runs == dict.fromkeys(implementations.IMPLEMENTATIONS, 2)
    assert found.taken["in parts"] > 0


def test_options_that_meet_in_one_table_mean_the_same_in_every_implementation():
    found = compare_logs(logs=0, combined=1, tables=8, first=41)
    assert found.differences == []
    assert found.runs == dict.fromkeys(implementations.IMPLEMENTATIONS, 1)
    assert found.taken["in parts"] == 1


def test_an_implementation_that_compares_the_query_but_not_its_value_of_by_is_seen(monkeypatch):
    """The defect of version 0.2 and before: each of the two options alone was right."""

    def by_query_alone(self, known, *, queries):
        places = [places_of((key,), known.select(["query"])) for key in self.keys[:queries]]
        return self._only(np.minimum.reduce(places) >= 0)

    monkeypatch.setattr(Holdings, "of_known", by_query_alone)
    found = compare_logs(logs=0, combined=1, tables=1, first=25)
    assert len(found.differences) == 3
    for name in ON_CODES:
        assert any(name in words for words in found.differences)


def test_every_option_meets_every_other():
    """Of the tables that `make fuzz` makes; --by has no session table."""
    cases = [case(i, 1, tables=40, whole=True) for i in range(40)]
    every = [options_of(table) for made in cases for table in made.tables]
    names = sorted(set().union(*every))
    apart = {("by", "session table")}
    alike = [{n for n in names if n.endswith(" table")}, {"user", *PERIODS}]
    for one, other in itertools.combinations(names, 2):
        if {one, other} <= alike[0] or {one, other} <= alike[1]:
            continue
        if {(one, other), (other, one)} & apart or not can_meet(one, other):
            continue
        assert any({one, other} <= options for options in every), (one, other)


def options_of(table):
    """The options that a table has, by name."""
    given = {
        name for name in ("by", "earlier", "select_from", "count_from") if getattr(table, name)
    }
    given |= {"known"} if table.known is not None else set()
    return given | {f"{table.kind} table", table.unit, f"bound {table.way}"}


def can_meet(one, other):
    """Published queries restrict tables that name queries, and earlier keys are of single items."""
    never = {
        "known": {"query table", "keyword table"},
        "earlier": {"keyword table", "session table"},
        "bound first": {"bound random"},
        "bound random": {"bound first"},
    }
    return other not in never.get(one, ()) and one not in never.get(other, ())


def test_logs_are_of_many_kinds():
    cases = [case(i, 1) for i in range(300)]
    assert {made.format for made in cases} == {"parquet", "csv", "tsv", "jsonl", "duckdb"}
    assert {table.kind for made in cases for table in made.tables} == {
        *("query", "click", "keyword", "pair", "session")
    }
    assert {table.unit for made in cases for table in made.tables} == {
        *("user", "user-day", "user-week", "user-month")
    }
    assert {table.way for made in cases for table in made.tables} == {"first", "random"}
    assert any(made.since for made in cases)
    assert any(made.where for made in cases)
    some = [outcome(made) for made in cases]
    assert 0 < sum(bool(one.refused) for one in some) < 60
    assert sum(any(one.counts) for one in some) > 200
    assert sum(bool(one.screened) for one in some) > 20


def test_an_implementation_that_differs_is_seen(monkeypatch):
    monkeypatch.setattr(murmurlog.logs.encoded, "_without_empty", lambda column: column)
    found = compare_logs(logs=2)
    assert found.differences
    assert all(any(name in words for name in ON_CODES) for words in found.differences)


def test_a_model_that_differs_is_seen(monkeypatch):
    monkeypatch.setattr(implementations, "outcome", lambda made: outcome(case(made.number + 1, 7)))
    assert len(compare_logs(logs=1).differences) == 4


def test_what_is_left_behind_or_open_to_others_is_seen(tmp_path):
    found = Comparison()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "logs").mkdir()
    implementations._empty(tmp_path, found)
    assert not found.differences
    (tmp_path / "tmp" / "spark-1").mkdir(parents=True)
    implementations._empty(tmp_path, found)
    assert not found.differences
    (tmp_path / "tmp" / "spark-1" / "rows").write_text("somebody's")
    implementations._empty(tmp_path, found)
    (tmp_path / "scratch" / "folder").mkdir(mode=0o755)
    implementations._private(tmp_path / "scratch", found)
    assert ["left behind" in found.differences[0], "by others" in found.differences[1]] == [
        True
    ] * 2


@pytest.mark.slow
def test_a_table_of_a_server_is_counted_as_a_file_is():
    pytest.importorskip("adbc_driver_postgresql", reason="needs murmurlog[postgres]")
    found = Comparison()
    if why := implementations.on_postgres([case(i, 3) for i in range(60)], found):
        pytest.skip(why)
    assert found.differences == []
    assert found.runs["postgres"] > 5


class TestOnSpark:
    pytestmark = needs_spark

    def test_spark_and_a_plain_model_agree(self):
        done = subprocess.run(
            [sys.executable, str(Path(implementations.__file__)), "--logs", "0", "--combined", "0", "--spark", "80",
             "--postgres", "0"],
            env=environment(), capture_output=True, text=True, timeout=TIMEOUT * 4,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        (ran,) = [line for line in done.stdout.splitlines() if line.startswith("spark")]
        assert int(ran.split()[1]) >= 68
