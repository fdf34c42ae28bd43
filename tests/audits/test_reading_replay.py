"""Logs go through the text readers, the normaliser and the screen; what changes them is caught."""

import pytest
from reading_replay import (
    check_by,
    check_distinct,
    check_reading,
    check_screen,
    make_rows,
)
from twins import TWINS

from murmurlog.bundle.keys import normalise
from murmurlog.mechanisms import parse

BROKEN = {twin.name: twin for twin in TWINS}
SIMPLE = parse("threshold(noise=geometric, d=4, scale=1.0, T=9)")


def test_every_variant_of_a_text_has_one_clean_form():
    rows = make_rows()
    assert all(normalise(row.query) == row.clean for row in rows)
    assert sum(row.query != row.clean for row in rows) > len(rows) / 2


@pytest.mark.slow
def test_a_screen_that_spares_frequent_queries_is_caught(tmp_path):
    assert check_screen(tmp_path) == []
    with BROKEN["screen that spares frequent queries"].broken():
        found = check_screen(tmp_path)
    assert all("personal data" in what for what in found)
    assert len(found) > 1


def test_items_made_distinct_before_they_are_clean_are_caught(tmp_path):
    assert check_distinct(SIMPLE, "query", tmp_path) == []
    with BROKEN["distinct before normalising"].broken():
        assert "count more than once" in check_distinct(SIMPLE, "query", tmp_path)[0]


@pytest.mark.slow
def test_a_reader_that_loses_rows_at_borders_is_caught(tmp_path):
    assert check_reading(tmp_path) == []
    with BROKEN["a reader that loses rows at chunk borders"].broken():
        found = check_reading(tmp_path)
    assert len(found) >= 3
    assert all("rows are lost" in what for what in found)


@pytest.mark.slow
def test_a_release_by_a_column_does_not_depend_on_its_name(tmp_path):
    assert check_by("rounds", tmp_path) == []
