"""One log, every road: the same rows, bounded sets and counts, and nothing left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
import roads
from cluster import PATIENCE, environment, needs_spark
from road_logs import case
from road_model import outcome
from roads import Found

import murmurlog.counting.items
import murmurlog.logs.encoded


def quick(logs=4, first=0):
    return roads.run(logs=logs, spark=0, postgres=0, seed=7, first=first, patterns=False)


def test_the_roads_of_duckdb_and_a_plain_model_agree():
    found = quick()
    assert found.differences == []
    assert found.runs == {"encoded": 4, "general": 4, "parts": 4}
    assert found.taken["in parts"] > 0


def test_logs_are_of_many_kinds():
    cases = [case(i, 1) for i in range(300)]
    assert {made.format for made in cases} == {"parquet", "csv", "tsv", "jsonl", "duckdb"}
    assert {table.kind for made in cases for table in made.tables} == {
        *("query", "click", "keyword", "pair", "session")
    }
    assert {table.unit for made in cases for table in made.tables} == {
        *("user", "user-day", "user-week", "user-month", "session", "row")
    }
    assert {table.way for made in cases for table in made.tables} == {"first", "random"}
    assert any(made.since for made in cases)
    assert any(made.where for made in cases)
    some = [outcome(made) for made in cases]
    assert 0 < sum(bool(one.refused) for one in some) < 60
    assert sum(any(one.counts) for one in some) > 200
    assert sum(bool(one.screened) for one in some) > 20


def test_a_road_that_differs_is_seen(monkeypatch):
    monkeypatch.setattr(murmurlog.logs.encoded, "_without_empty", lambda column: column)
    found = quick(logs=3)
    assert found.differences
    assert all(" on encoded: " in words or " on parts: " in words for words in found.differences)


def test_a_model_that_differs_is_seen(monkeypatch):
    monkeypatch.setattr(roads, "outcome", lambda made: outcome(case(made.number + 1, 7)))
    assert len(quick(logs=2).differences) == 6


def test_what_is_left_behind_or_open_to_others_is_seen(tmp_path):
    found = Found()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "logs").mkdir()
    roads._empty(tmp_path, found)
    assert not found.differences
    (tmp_path / "tmp" / "spark-1").mkdir(parents=True)
    roads._empty(tmp_path, found)
    assert not found.differences
    (tmp_path / "tmp" / "spark-1" / "rows").write_text("somebody's")
    roads._empty(tmp_path, found)
    (tmp_path / "scratch" / "folder").mkdir(mode=0o755)
    roads._private(tmp_path / "scratch", found)
    assert ["left behind" in found.differences[0], "by others" in found.differences[1]] == [
        True
    ] * 2


@pytest.mark.slow
def test_a_table_of_a_server_is_counted_as_a_file_is():
    pytest.importorskip("adbc_driver_postgresql", reason="needs murmurlog[postgres]")
    found = Found()
    if why := roads.on_postgres([case(i, 3) for i in range(60)], found):
        pytest.skip(why)
    assert found.differences == []
    assert found.runs["postgres"] > 5


class TestOnSpark:
    pytestmark = needs_spark

    def test_spark_and_a_plain_model_agree(self):
        done = subprocess.run(
            [sys.executable, str(Path(roads.__file__)), "--logs", "0", "--spark", "80",
             "--postgres", "0"],
            env=environment(), capture_output=True, text=True, timeout=PATIENCE * 4,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        (ran,) = [line for line in done.stdout.splitlines() if line.startswith("spark")]
        assert int(ran.split()[1]) >= 68
