"""Times of a row: which years there are, what is no time, and how long a pause is."""

import re
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counts import tally_of_log
from hypothesis import given
from hypothesis import strategies as st

from murmurlog.bundle.keys import ALREADY_NORMAL, ODD
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find


def unreadable(path):
    with connect() as engine:
        return read(find(str(path)), engine=engine).broken.get("unreadable time", 0)


def log_of(times, path):
    n = len(times)
    pq.write_table(pa.table({"user": ["u"] * n, "query": ["q"] * n, "time": times}), path)
    return path


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e300, -1e18, 5e20])
def test_a_number_that_is_in_no_year_is_a_broken_row_not_a_failure(tmp_path, value):
    assert unreadable(log_of([value, 1.7e9, 1.7e18], tmp_path / "log.parquet")) == 1


def test_times_without_an_end_are_unreadable(tmp_path):
    texts = ["infinity", "-infinity", "0044-03-15 (BC)", "10000-01-01", "0001-01-01", "9999-12-30"]
    assert unreadable(log_of(texts, tmp_path / "log.parquet")) == 4


@pytest.mark.parametrize(("pause", "pairs"), [(0, 1), (1, 0)])
def test_a_pause_is_measured_to_the_microsecond(tmp_path, pause, pairs):
    first = datetime(2024, 1, 1, 12, 0, 0, 100_001)
    second = first + timedelta(minutes=30, microseconds=pause)
    table = pa.table({"user": ["u", "u"], "query": ["a", "b"], "time": [first, second]})
    pq.write_table(table, tmp_path / "log.parquet")
    assert len(tally_of_log(tmp_path / "log.parquet", kind="pair")) == pairs


HOSTILE = (
    "a", "é", "İ", "ς", "x'y", "", " ", "a b", "a  b", " a", "a ", "\u05d0", "👩\u200d🔬",
    "wea\u034fther", "wea\u200dther\u2800", "Z", "z[", "\uffff", "a\n", "a\r\n", "\n", "a\x00b",
    "a\\b", "~", "\x7f", "\ud7ff", "\ue000", "\U0001f600", "ǅ", "ﬁ", "e\u0301", "a\u2028", "%_",
    "[&&b]", "${x}", "$1",
)  # fmt: skip


@given(st.text(st.sampled_from("ab Z~[\n\x00é")) | st.sampled_from(HOSTILE))
def test_both_ways_to_say_already_normal_agree(text):
    odd = re.search(ODD, text) or text.startswith(" ") or text.endswith(" ") or text == ""
    assert bool(odd) != bool(re.fullmatch(ALREADY_NORMAL, text))
