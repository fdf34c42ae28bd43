"""One SELECT makes rows of a relation: which times there are, and that batches give the rows of files."""

import re
from collections import Counter
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counts import tally_of_log
from hypothesis import given
from hypothesis import strategies as st
from log_readers import read_rows

from murmurlog.bundle.keys import ALREADY_NORMAL, ODD
from murmurlog.logs.engines.duckdb import connect, open_duckdb
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.row_typer import Batch
from murmurlog.logs.source import find
from murmurlog.logs.typed_rows import Selection, column_types, read_batches, typer_of
from murmurlog.logs.workspace import open_workspace


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


DAYS = pa.array([0, 20_000, 110_000_000, -110_000_000, None], pa.int32()).cast(pa.date32())
COLUMNS = {
    "texts": pa.array(["2026-01-31T18:00:00+02", " 1767323045 ", "-", "", "noon"]),
    "floats": pa.array([1767323045.0, float("nan"), 2.5, 1e300, None]),
    "whole numbers": pa.array([1767323045, -(2**62), 0, 2**62, None]),
    "moments": pa.array([0, 2**60, -(2**60), 5, None], pa.timestamp("us")),
    "moments of a zone": pa.array([0, 2**60, 7, 5, None], pa.timestamp("us", "Asia/Tokyo")),
    "days": DAYS,
    "booleans": pa.array([True, False, None, True, True]),
    "bytes": pa.array([b"2026-01-31", b"\xff", b" ", None, b"1767323045"]),
}
USERS = {
    "text": pa.array(["a", "b", "a", None, "-"]),
    "int": pa.array([7, -1, 7, None, 2**40]),
    "uint64": pa.array([7, 2**64 - 1, 7, None, 0], pa.uint64()),
    "float": pa.array([7.0, 0.5, 7.0, None, 2.0**60]),
}


def rows_read(batches):
    return Counter(tuple(row.items()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("missing", [None, "-,7"])
@pytest.mark.parametrize("user", USERS)
def test_batches_of_a_relation_give_the_rows_of_the_file(name, missing, user, tmp_path):
    """As workers read them, who have the SQL and the types of columns alone."""
    log = pa.table(
        {"user": USERS[user], "query": list("qrstu"), "time": COLUMNS[name],
         "url": ["x", "-", None, "NULL", "y"], "rank": [1, 2, None, 3, 4], "x": COLUMNS[name]}
    )  # fmt: skip
    pq.write_table(log, tmp_path / "log.parquet")
    source = find(str(tmp_path / "log.parquet"), SourceOptions(missing=missing))
    where = {"query": "q"} if missing else {}
    selection = Selection(where=where, keep=["x", "user"], urls=True)
    with open_workspace() as workspace, open_duckdb(workspace) as connection:
        expected = rows_read(read_batches(source, selection, connection=connection, broken={}))
        connection.register("incoming", log.schema.empty_table())
        types = column_types(connection, "incoming", selection.columns(source))
        typer = typer_of(source, selection, types)
        found = Counter()
        for start in range(len(log)):
            rows, _ = Batch(log.slice(start, 1), typer).type_rows(connection)
            found += rows_read([rows])
    assert found == expected
    assert expected


def test_the_type_of_a_column_decides_how_it_is_read(tmp_path):
    pq.write_table(pa.table({"user": [1, None], "query": ["q", "r"]}), tmp_path / "log.parquet")

    def read_with(**options):
        source = find(str(tmp_path / "log.parquet"), SourceOptions(**options))
        with open_workspace() as workspace, open_duckdb(workspace) as connection:
            (batch,) = read_batches(source, Selection(urls=False), connection=connection, broken={})
        return batch

    assert read_with().schema.field("user").type == pa.int64()
    assert read_with().schema.names == ["user", "query"]
    assert read_with(missing="1")["user"].to_pylist() == [None, None]


def test_a_day_that_no_timestamp_can_be_breaks_one_row_only(tmp_path):
    """It refused the whole log: one user's row decided about all others."""
    assert unreadable(log_of(DAYS, tmp_path / "log.parquet")) == 2


def test_a_collation_of_a_database_makes_no_texts_equal(tmp_path):
    with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE log AS SELECT 'u' COLLATE NOACCENT AS \"user\", "
            "unnest(['café', 'cafe']) COLLATE NOACCENT AS query"
        )
    rows, _ = read_rows(tmp_path / "log.duckdb", where={"query": "cafe"})
    assert [row["query"] for row in rows] == ["cafe"]


def test_whole_floats_are_dates_as_the_numbers_that_they_were(tmp_path):
    days = pa.table({"user": ["u", "v"], "query": ["q", "r"], "time": [20260131.0, None]})
    pq.write_table(
        days, tmp_path / "log.parquet"
    )  # pandas makes floats of them beside a missing one
    rows, broken = read_rows(tmp_path / "log.parquet", source_options={"time_format": "%Y%m%d"})
    assert [row["time"] for row in rows] == [datetime(2026, 1, 31), None]
    assert broken == {}
