"""murmurlog's reader and a plain second one agree on every row; `make fuzz` reads 100,000 files."""

from collections import Counter
from dataclasses import replace

import duckdb
import plain_reader
import pytest
from old_readers import TWINS, parallel_csv
from plain_reader import Refused
from reader_checks import ERROR, difference, expected
from reader_fuzz import Task, twin_task, work
from reader_neighbours import FORMS, pair
from reader_samples import KINDS, Outcome, draw
from reader_shrink import Trials, smallest, smallest_pair, without_parts

HEAD = b"user,query\n"


def read_plainly(content, name="a.csv", **options):
    """(rows, broken) by the plain reader."""
    result = plain_reader.read([(name, content)], **options)
    return result.rows, dict(result.broken)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"u1,a\n", [("u1", "a")]),
        (b'"u1","a"\r\n"u2","b"', [("u1", "a"), ("u2", "b")]),
        (b'u1,"a,""b""\r\nc"\n', [("u1", 'a,"b"\r\nc')]),
        (b'u1,a\rb\r\n\nu2,""\r', [("u1", "a\rb"), ("u2", None)]),
        (b",\n\xef\xbb\xbf\n", [(None, None)]),
    ],
)
def test_the_plain_reader_reads_csv_as_rfc_4180_has_it(content, rows):
    assert read_plainly(HEAD + content) == (rows, {})


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'u1,a"b\n', 2),
        (b'u1,a\nu2,"b"c\n', 3),
        (b'u1,"a\nb" \n', 3),
        (b'u1,"a\nb\nu2,c\n', 2),
        (b'u1,"a"\r\r\n', 2),
    ],
)
def test_the_plain_reader_refuses_quotes_that_do_not_match_and_names_the_line(content, line):
    with pytest.raises(Refused) as refusal:
        read_plainly(HEAD + content)
    assert refusal.value.line == line


def test_the_plain_reader_counts_what_is_broken():
    content = HEAD + b"u1\nu1,a,b\nu\xff,a\nu1," + b"x" * 57 + b"\nu1," + b"x" * 56 + b"\n"
    rows, broken = read_plainly(content, longest=60)
    assert rows == [("u1", "x" * 56)]
    assert broken == {
        "too few columns": 1,
        "too many columns": 1,
        "not UTF-8": 1,
        "line too long": 1,
    }


def test_the_plain_reader_reads_lines_shapes_and_encodings():
    assert read_plainly(b'user\tquery\nu1\t"a\r\n', "a.tsv") == ([("u1", '"a')], {})
    columns = {"user": "u", "query": "q"}
    lines = (
        b'{"u":"a","q":[1, "x"],"u":"b"}\n\n \t\n[1]\n{"u":\n{"u":1.50,"q":"\\ud800"}\n{"q":true}\n'
    )
    assert read_plainly(lines, "a.jsonl", columns=columns) == (
        [("a", '[1,"x"]'), (None, None), (None, "true")],
        {"not JSON": 2},
    )
    sogou = "00:00:05\tu1\t[红]\t8 3\ta.example\n".encode("gb18030")
    assert read_plainly(sogou, "a", shape="sogou")[0] == [
        ("00:00:05", "u1", "红", "8", "3", "a.example")
    ]
    halves = "user,query\nu1,a\nu2,\ud800\n".encode("utf-16", "surrogatepass")
    assert read_plainly(halves) == ([("u1", "a")], {"not decodable": 1})


def test_every_sort_of_difference_is_seen():
    rows = Outcome(columns=("user",), rows=Counter({("u1",): 2}), broken={"not UTF-8": 1})
    refused = Outcome(refused="quotes", line=7)
    assert difference(rows, rows) == difference(refused, refused) == ""
    assert difference(rows, replace(rows, rows=Counter({("u1",): 1}))).startswith("rows: none")
    assert difference(rows, replace(rows, broken={})).startswith("broken: {} instead of")
    assert difference(rows, replace(rows, columns=("uid",))).startswith("columns: ")
    assert difference(rows, refused).startswith("refusal: refused (quotes) instead of 2 rows")
    assert difference(refused, replace(refused, line=6)).startswith("line: ")
    assert difference(refused, replace(refused, line=ERROR)).startswith("error: ")


def test_what_is_not_needed_for_a_difference_is_left_out():
    assert without_parts(b"abcXdefYg", lambda rest: b"X" in rest and b"Y" in rest) == b"XY"
    sample = replace(draw(1, 0, ("csv long",)), threads=4, block=3)
    trials = Trials(
        "rows: ...", lambda sample: "rows: x" if b"u7" in sample.files[0].content else ""
    )
    small = smallest(sample, trials)
    assert (small.files[0].content, small.threads) == (b"u7", 1)
    logs = pair(1, 0, ("csv",))
    last = logs.added[-1]
    trials = Trials("moved: ...", lambda two: "moved: x" if last in two.added else "")
    assert (smallest_pair(logs, trials).added, smallest_pair(logs, trials).base) == ((last,), ())


def test_some_files_of_every_kind_are_read_as_the_plain_reader_reads_them():
    kinds = {kind.name: kind for kind in work(Task(seed=7, first=0, files=100, forms=()))}
    assert set(kinds) == set(KINDS)
    assert [kind.shown for kind in kinds.values() if kind.differences] == []
    assert all(kind.rows and kind.refused < kind.files for kind in kinds.values())
    assert sum(kind.rows for kind in kinds.values()) > 250


def test_one_users_records_change_no_row_of_others_in_any_format():
    kinds = {kind.name: kind for kind in work(Task(seed=7, first=0, files=14, kinds=()))}
    assert set(kinds) == {f"neighbours {form}" for form in FORMS}
    assert [kind.shown for kind in kinds.values() if kind.moved] == []
    assert sum(kind.rows for kind in kinds.values()) > 25


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_of_the_reader_is_caught(twin, monkeypatch):
    monkeypatch.setattr("reader_shrink.TRIALS", 5)
    monkeypatch.setattr("reader_fuzz.ENOUGH", 1)
    kinds = work(twin_task(twin, seed=1))
    assert sum(kind.differences + kind.moved for kind in kinds) >= 1


def test_the_old_reader_of_csv_fails_at_the_ends_of_pieces_and_nowhere_else(tmp_path):
    wrong = Counter()
    with duckdb.connect() as connection:
        for number in range(60):
            sample = draw(5, number, ("csv long",))
            (tmp_path / "a.csv").write_bytes(sample.files[0].content)
            for piece in (256, 1 << 20):
                outcome = parallel_csv(sample, tmp_path, connection.execute, piece=piece)
                wrong[piece] += bool(difference(expected(sample), outcome))
    assert wrong[256] >= 1
    assert wrong[1 << 20] == 0
