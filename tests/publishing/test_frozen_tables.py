"""Tables of many settings stay what they were: keys and integers exactly, other numbers to 1e-9."""

import json

import frozen
import pytest

from murmurlog.logs.rows import RowReader
from murmurlog.logs.workspace import Workspace


def assert_equal(tables, expected):
    assert {kind: len(rows) for kind, rows in tables.items()} == {
        kind: len(rows) for kind, rows in expected.items()
    }
    for kind, rows in expected.items():
        for row, wanted in zip(tables[kind], rows, strict=True):
            assert row == {
                name: pytest.approx(value, rel=1e-9, abs=1e-9) if type(value) is float else value
                for name, value in wanted.items()
            }, kind


def expected_of(name):
    return json.loads((frozen.FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", frozen.SETTINGS)
def test_tables_under_a_seed_and_sums_before_noise_are_frozen(name):
    expected = expected_of(name)
    assert_equal(frozen.release_tables(name), expected["seeded"])
    assert_equal(frozen.sums_before_noise(name), expected["exact"])


@pytest.mark.parametrize("name", frozen.SETTINGS)
def test_a_log_in_many_small_partitions_in_files_gives_the_same_tables(name, monkeypatch):
    """Partitions of few rows, which are split again, and no value in memory."""
    monkeypatch.setitem(RowReader.__init__.__kwdefaults__, "most_rows", 60)
    monkeypatch.setattr(Workspace, "_take", lambda *_: False)
    assert_equal(frozen.release_tables(name), expected_of(name)["seeded"])


def test_another_seed_gives_other_tables(monkeypatch):
    monkeypatch.setattr(frozen, "SEED", frozen.SEED + 1)
    assert frozen.release_tables("threshold") != expected_of("threshold")["seeded"]
