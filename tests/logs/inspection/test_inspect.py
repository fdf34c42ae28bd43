"""Logs of many shapes are recognised, and what their rows do not settle is said."""

import gzip
import json
from itertools import product

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from owner_logs import HEADERS, QUERIES, make_rows, write_log
from quick_cases import sample_cases

from murmurlog.errors import InputError
from murmurlog.logs.inspection import blocks
from murmurlog.logs.inspection.inspect import inspect

TIMES = {
    "%d.%m.%Y %H:%M": "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M %p": "%m/%d/%Y %I:%M %p",
    "%d/%m/%Y %H:%M:%S": "%d/%m/%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S": None,
    "[%d/%b/%Y:%H:%M:%S +0200]": "[%d/%b/%Y:%H:%M:%S %z]",
    "%Y%m%d%H%M%S": "%Y%m%d%H%M%S",
    "%s": None,
}
DELIMITERS = {",": ("log.csv", None), ";": ("log.csv", ";"), "\t": ("log.csv", None), "|": ("a.txt", "|")}  # fmt: skip


def family():
    """Every encoding with every format of times, delimiters and languages in turn."""
    delimiters, headers = list(DELIMITERS), list(HEADERS)
    for n, (encoding, time) in enumerate(product(QUERIES, TIMES)):
        yield delimiters[n % 4], encoding, time, headers[n % 5 if n % 11 else 5]


@pytest.mark.parametrize(
    ("delimiter", "encoding", "time", "language"), sample_cases(family(), every=3)
)
def test_a_log_of_any_shape_is_recognised(tmp_path, delimiter, encoding, time, language):
    name, flag = DELIMITERS[delimiter]
    lines = list(make_rows(200, queries=QUERIES[encoding], time=time))
    header = HEADERS[language]
    path = write_log(tmp_path / name, lines, header=header, delimiter=delimiter, encoding=encoding)
    inspection = inspect(path)
    assert inspection.delimiter.character == delimiter
    assert inspection.encoding.name == encoding
    assert inspection.roles == dict(zip(("user", "query", "time", "url"), header, strict=True))
    assert inspection.settings.get("time_format") == TIMES[time]
    assert inspection.settings.get("delimiter") == flag
    assert inspection.settings.get("encoding") == (None if encoding.startswith("utf") else encoding)
    assert inspection.doubts == ()


def test_day_and_month_that_no_value_tells_apart_are_said_to_be_ambiguous(tmp_path):
    lines = list(make_rows(time="%d/%m/%Y %H:%M", days=9))
    inspection = inspect(write_log(tmp_path / "log.csv", lines))
    assert inspection.time.others == ("%m/%d/%Y %H:%M",)
    assert inspection.settings["time_format"] == "%d/%m/%Y %H:%M"  # spans days, not months
    assert "%m/%d/%Y %H:%M fits as well" in inspection.doubts[0]


def test_a_time_of_day_in_a_column_of_its_own_is_said_not_to_be_read(tmp_path):
    lines = [(user, query, *time.split(), url) for user, query, time, url in make_rows()]
    header = ("Nutzer", "Suchanfrage", "Datum", "Uhrzeit", "Klick")
    inspection = inspect(write_log(tmp_path / "log.csv", lines, header=header))
    assert (inspection.roles["time"], inspection.settings["time_format"]) == ("Datum", "%d.%m.%Y")
    assert "the time of day is in Uhrzeit" in inspection.doubts[0]


def test_one_row_does_not_settle_day_and_month(tmp_path):
    lines = [*make_rows(time="%d/%m/%Y %H:%M", days=9), ("x", "zoo", "09/30/2025 10:00", "")]
    assert inspect(write_log(tmp_path / "log.csv", lines)).time.others == ("%m/%d/%Y %H:%M",)


def test_one_row_in_another_encoding_changes_nothing(tmp_path):
    text = "".join(f"{user},{query}\n" for user, query, *_ in make_rows())
    odd = "x,größe\n".encode("latin-1")
    (tmp_path / "log.csv").write_bytes(b"user,query\n" + text.encode() + odd)
    inspection = inspect(str(tmp_path / "log.csv"))
    assert (inspection.encoding.name, inspection.settings) == ("utf-8", {})
    assert "all lines but 1 are valid UTF-8" in inspection.encoding.why


def test_letters_of_no_language_leave_the_encoding_open(tmp_path):
    lines = [(f"u{n % 7}", "query \u00a4 and \u00b1 5", "2025-09-01", "") for n in range(50)]
    inspection = inspect(write_log(tmp_path / "log.csv", lines))
    assert not inspection.encoding.sure
    assert {"cp1250", "cp1251"} <= set(inspection.encoding.others)
    assert "The encoding is not clear" in inspection.doubts[0]


@pytest.mark.parametrize(("quote", "settings"), [('"', {"delimiter": "tab"}), ("", {})])
def test_quotes_of_a_tsv_are_noticed(tmp_path, quote, settings):
    lines = [[f"{quote}{text}{quote}" for text in row[:2]] for row in make_rows()]
    header = [f"{quote}{name}{quote}" for name in ("user", "query")]
    path = write_log(tmp_path / "log.tsv", lines, header=header, delimiter="\t", encoding="utf-8")
    assert inspect(path).settings == settings


def test_quotes_inside_of_fields_of_a_tsv_are_signs_like_others(tmp_path):
    lines = [("u1", '"new york"'), *[row[:2] for row in make_rows()], ("u2", '15" tv')]
    path = write_log(tmp_path / "log.tsv", lines, header=("user", "query"), delimiter="\t")
    assert "delimiter" not in inspect(path).settings


def test_a_session_that_is_taken_for_the_user_is_said(tmp_path):
    header = ("session_id", "query", "time", "url")
    inspection = inspect(write_log(tmp_path / "log.csv", list(make_rows()), header=header))
    assert inspection.roles["user"] == "session_id"
    assert "protects a session, not a user" in inspection.doubts[0]


def test_a_query_of_one_value_is_doubted(tmp_path):
    inspection = inspect(
        write_log(tmp_path / "log.csv", [(row[0], "web", *row[2:]) for row in make_rows()])
    )
    assert inspection.doubts == (
        "The column Suchanfrage has one value: see that it holds the query.",
    )


def test_objects_lists_and_columns_of_one_value_are_not_proposed(tmp_path):
    """As logs of search engines have them beside the query."""
    lines = [
        {"user": {"token": user}, "client_id": user, "query": "web", "query_attributes": {"channel": n},
         "user_query": query, "actions": [n]}
        for n, (user, query, *_) in enumerate(make_rows())
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pq.write_table(pa.Table.from_pylist(lines), tmp_path / "log.parquet")
    for name in ("log.jsonl", "log.parquet"):
        inspection = inspect(str(tmp_path / name))
        assert inspection.roles == {"user": "client_id", "query": "user_query"}


def test_a_name_that_settings_cannot_hold_is_refused(tmp_path):
    lines = [{"user": user, "query ": query} for user, query, *_ in make_rows()]
    pq.write_table(pa.Table.from_pylist(lines), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="outer spaces in its name.*rename it"):
        inspect(str(tmp_path / "log.parquet"))


def test_ids_with_a_point_are_users_and_no_times(tmp_path):
    lines = [(f"1379875{n % 50:03}.1690013800", query, time) for n, (_, query, time, _) in enumerate(make_rows())]  # fmt: skip
    inspection = inspect(
        write_log(tmp_path / "log.csv", lines, header=("user_id", "query", "time"))
    )
    assert inspection.roles == {"user": "user_id", "query": "query", "time": "time"}


def test_a_column_by_its_content_where_its_name_says_nothing(tmp_path):
    header = ("A1", "feld b", "c", "d")
    inspection = inspect(write_log(tmp_path / "log.csv", list(make_rows()), header=header))
    assert inspection.settings["columns"] == {
        "user": "A1",
        "query": "feld b",
        "time": "c",
        "url": "d",
    }


def test_a_name_that_the_content_contradicts_is_not_used(tmp_path):
    lines = [(user, query, "yes") for user, query, *_ in make_rows()]
    header = ("user", "query", "date")
    inspection = inspect(write_log(tmp_path / "log.csv", lines, header=header, delimiter=","))
    assert inspection.settings["columns"] == {"user": "user", "query": "query", "time": "none"}


def test_what_stands_for_no_value_is_proposed_where_the_reader_does_not_know_it(tmp_path):
    lines = [(user if n % 4 else "NULL", query, time, "-") for n, (user, query, time, _) in enumerate(make_rows())]  # fmt: skip
    assert inspect(write_log(tmp_path / "log.csv", lines)).settings["missing"] == ("NULL",)


def test_a_file_without_a_header_is_refused_with_a_header_to_add(tmp_path):
    path = write_log(tmp_path / "log.csv", list(make_rows()), header=None)
    with pytest.raises(InputError, match=r"log\.csv looks like a row.*\n  user;query;time;url"):
        inspect(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"user,query\n", "no row of log.csv has the 2 fields of its first line"),
        (b"# May 2025\nuser,query\n1,a b\n2,c d\n", "has 1 of the 2 fields of most lines.*Delete"),
        (
            b"term,Total users\n" + b"".join(b"word %d,%d\n" % (n, n % 9) for n in range(30)),
            "number in 'Total users' and no time: this is a table of counts",
        ),
        (b"user,query,query\n1,a,b\n2,c,d\n", "has a repeated column name"),
        (b"one\ntwo\nthree\n", "has no delimiter"),
        (b"a;b\n\0\0;\0\n", "not text, or is UTF-16 without a byte order mark"),
        (b"id,day\n1,2025-01-01\n2,2025-01-02\n", "no column of .* looks like a user or a query"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, message):
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        inspect(str(tmp_path / "log.csv"))


def test_a_well_known_log_is_recognised(tmp_path):
    lines = [f"u{n}\t970916{n:06d}\tquery {n}\n" for n in range(10, 59)]
    (tmp_path / "log.txt").write_text("".join(lines))
    inspection = inspect(str(tmp_path / "log.txt"))
    assert (inspection.format, inspection.settings) == ("excite", {"shape": "excite"})
    assert [column.role for column in inspection.columns] == ["user", "time", "query"]


def objects():
    return [dict(zip(HEADERS["German"], row, strict=True)) for row in make_rows()]


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "duckdb", "jsonl.gz"])
def test_columns_of_other_formats_get_roles(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    if ending == "json":
        path.write_text(json.dumps(objects(), indent=1))
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(objects()), path)
    elif ending == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("log", pa.Table.from_pylist(objects()))
            connection.execute("CREATE TABLE searches AS FROM log")
    else:
        text = "".join(json.dumps(row) + "\n" for row in objects()).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    inspection = inspect(str(path))
    columns = {"user": "Nutzer", "query": "Suchanfrage", "time": "Zeitpunkt", "url": "Klick"}
    assert inspection.settings == {"columns": columns, "time_format": "%d.%m.%Y %H:%M"}


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_of_a_large_file_blocks_spread_over_it_are_looked_at(tmp_path, monkeypatch, ending):
    """The last tenth of the file is in another form: it weighs a tenth, not nothing."""
    lines = list(make_rows(4000, time="%d.%m.%Y %H:%M"))
    late = [(u, q, "?", url) for u, q, _, url in lines[3600:]]
    plain = write_log(tmp_path / "log.csv", [*lines[:3600], *late])
    path = tmp_path / f"log.{ending}"
    if ending.endswith("gz"):
        path.write_bytes(gzip.compress((tmp_path / "log.csv").read_bytes()))
    monkeypatch.setattr(blocks, "MOST", (tmp_path / "log.csv").stat().st_size // 4)
    monkeypatch.setattr(blocks, "BLOCK", 4096)
    monkeypatch.setattr(blocks, "RATIO", 8)
    inspection = inspect(str(path))
    assert inspection.is_sampled
    assert inspection.roles == inspect(plain).roles
    assert 0.8 < inspection.time.share < 1


def test_columns_of_a_server_get_roles_by_their_names(monkeypatch):
    names = ("Nutzer", "Suchanfrage", "Zeitpunkt", "Klick", "note")
    monkeypatch.setattr("murmurlog.logs.inspection.inspect.look", lambda address: (address, names))
    inspection = inspect("postgresql://me@host/db::searches")
    columns = dict(zip(("user", "query", "time", "url"), names, strict=False))
    assert (inspection.format, inspection.settings) == ("postgresql", {"columns": columns})
