"""What the owner says of a file: --format, --delimiter, --missing; .zip, .json and standard input."""

import gzip
import io
import json
import os
import stat
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_readers import read_rows

from murmurlog.errors import InputError, UsageError
from murmurlog.logs import formats
from murmurlog.logs.inputs import copy_standard_input
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find

KEYS = {"user": "user", "query": "query"}


def rows_of(path, **options):
    rows, broken = read_rows(path, source_options=options)
    return sorted((row["user"], row["query"]) for row in rows), broken


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.txt", "log.dat.gz"])
@pytest.mark.parametrize(("delimiter", "character"), [(";", ";"), ("semicolon", ";"), ("tab", "\t"), ("\\t", "\t"),
                                                  ("pipe", "|"), ("space", " "), ("\x01", "\x01")])  # fmt: skip
def test_a_delimiter_cuts_fields_that_are_quoted_as_in_csv(name, delimiter, character, tmp_path):
    path = tmp_path / name
    text = 'user;query\na;"x ""y"";\nz"\nb;,\nc;d;e\n'.replace(";", character).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    query = f'x "y"{character}\nz'
    clean = " ".join(query.replace("\x01", "").split())
    assert rows_of(path, delimiter=delimiter) == (
        [("a", clean), ("b", ",")],
        {"too many columns": 1},
    )


@pytest.mark.parametrize("delimiter", ["", ";;", "a", "7", '"', "\n", "ä", "colon"])
def test_what_is_no_delimiter_is_refused(delimiter):
    with pytest.raises(UsageError, match="not a delimiter: give one ASCII|without NUL"):
        find("log.csv", SourceOptions(delimiter=delimiter))


def test_a_delimiter_needs_text_with_fields(tmp_path):
    for name, options in (("log.jsonl", {"columns": KEYS}), ("log.txt", {"shape": "excite"})):
        (tmp_path / name).write_text("x")
        with pytest.raises(UsageError, match="--delimiter is for .csv, .tsv"):
            find(str(tmp_path / name), SourceOptions(delimiter=";", **options))
    pq.write_table(pa.table({"user": ["a"], "query": ["x"]}), tmp_path / "log.parquet")
    with pytest.raises(
        UsageError, match="log.parquet is not text: leave --delimiter and --encoding out"
    ):
        find(str(tmp_path / "log.parquet"), SourceOptions(delimiter=";", encoding="latin-1"))


def test_a_format_overrides_the_ending(tmp_path):
    (tmp_path / "log.txt").write_text("user,query\na,x\n")
    assert rows_of(tmp_path / "log.txt", format="csv") == ([("a", "x")], {})
    (tmp_path / "log.csv").write_text('{"user": "a", "query": "x"}\n')
    assert rows_of(tmp_path / "log.csv", format="jsonl", columns=KEYS) == ([("a", "x")], {})
    pq.write_table(pa.table({"user": ["a"], "query": ["x"]}), tmp_path / "part-0")
    assert rows_of(tmp_path / "part-0", format="parquet") == ([("a", "x")], {})
    with pytest.raises(UsageError, match="--format must be one of csv, tsv, jsonl, json, parquet"):
        find("log.txt", SourceOptions(format="excel"))


def test_what_stands_for_no_url_is_none_by_default_and_for_others_as_the_owner_says(tmp_path):
    path = tmp_path / "log.tsv"
    rows = [
        "a\tx\t-\t2026-01-01",
        "b\t-\tNULL\tNULL",
        "-\tz\t\\N\t-",
        "c\tnull\t(null)\t",
        "d\ty\tNone\t",
    ]
    path.write_text("user\tquery\turl\ttime\n" + "\n".join(rows) + "\n")
    rows, broken = read_rows(path)
    assert [row["url"] for row in rows if row["url"]] == ["None"]
    assert {row["user"] for row in rows} == {"a", "b", "c", "d", "-"}
    assert broken == {"unreadable time": 2}
    assert rows_of(path, missing="-,NULL,y") == (
        [("a", "x"), ("c", "null")], {"no user": 1, "no query": 2}
    )  # fmt: skip


def test_missing_that_is_no_text_is_refused():
    with pytest.raises(UsageError, match=r"--missing must be text in UTF-8, not '\\udcff'"):
        SourceOptions(missing="-,\udcff")


def write_zip(path, **members):
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in members.items():
            packed.writestr(name, text)
    return path


def test_the_only_log_of_a_zip_is_read(tmp_path):
    text = "user,query\na,x\n"
    members = {
        "logs/": "",
        "logs/a.csv": text,
        "__MACOSX/a.csv": "?",
        ".b.csv": "?",
        "README.txt": "?",
    }
    assert rows_of(write_zip(tmp_path / "a.zip", **members)) == ([("a", "x")], {})
    alone = write_zip(tmp_path / "b.zip", **{"a.txt": text})
    assert rows_of(alone, format="csv") == ([("a", "x")], {})
    assert rows_of(alone, delimiter=",") == ([("a", "x")], {})


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"a.csv": "x", "b.csv": "y"}, "must hold one log, and it holds 2: a.csv, b.csv"),
        ({"a": "x", "b": "y", "c": "z"}, "holds 3: a, b, c"),
        ({}, "holds 0: no file"),
        ({"a.csv.gz": "x"}, "cannot tell the format of l.zip"),
    ],
)
def test_a_zip_with_more_or_no_logs_is_refused_with_its_names(members, why, tmp_path):
    with pytest.raises(InputError, match=why):
        find(str(write_zip(tmp_path / "l.zip", **members)))


def test_a_zip_that_is_damaged_or_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "a.zip", **{"a.csv": "user,query\n" + "a,x\n" * 2000})
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + b"?" + whole[201:])
    with pytest.raises(InputError, match="could not be read to its end"):
        rows_of(path)
    path.write_bytes(b"user,query\n")
    with pytest.raises(InputError, match="not a readable .zip file"):
        find(str(path))
    (tmp_path / "a.csv").write_bytes(whole)
    with pytest.raises(InputError, match="is compressed with zip, which its name does not say"):
        find(str(tmp_path / "a.csv"))
    monkeypatch.setattr(formats, "LITTLE", 0)
    monkeypatch.setattr(formats, "MOST_TIMES", 0)
    (tmp_path / "b.zip").write_bytes(whole)
    with pytest.raises(InputError, match="unpacks to more than"):
        rows_of(tmp_path / "b.zip")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("block", [1, 7, 1 << 24])
def test_an_array_of_objects_is_read_as_lines_are(indent, block, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK", block)
    rows = [
        {"user": "a", "query": 'x"],[{\\'},
        {"query": [1, {"b": "]"}], "user": "b"},
        {"user": "c"},
        5,
    ]
    (tmp_path / "log.json").write_text(f"\n{json.dumps(rows, indent=indent)}\n")
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"columns": KEYS}
    assert rows_of(tmp_path / "log.json", **options) == rows_of(tmp_path / "log.jsonl", **options)


def test_a_broken_element_is_one_broken_row(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(
        '[{"user":"a","query":"x"}, {"user":tru}, {"user":"b\nc"}, {} {}, {"user":"d","query":"y"},]'
    )
    assert rows_of(path, columns=KEYS) == ([("a", "x"), ("d", "y")], {"not JSON": 3})


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"user": "a"}', "is not a JSON array of objects"), ('[{"user": "a"}', "ends before its JSON array does"),
     ('[{"user": "a}]', "ends before"), ("[{}]]", "goes on after the end"), ("[{}] {}", "goes on after"),
     (" \n", "holds no JSON array")],
)  # fmt: skip
def test_what_is_not_one_array_is_refused(text, why, tmp_path):
    (tmp_path / "log.json").write_text(text)
    with pytest.raises(InputError, match=why):
        rows_of(tmp_path / "log.json", columns=KEYS)


def pipe(monkeypatch, content, *, terminal=False):
    stdin = io.BytesIO(content)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin, isatty=lambda: terminal))


@pytest.mark.parametrize("failing", [False, True])
def test_standard_input_is_copied_to_a_private_folder_that_is_gone_afterwards(
    failing, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipe(monkeypatch, b"user;query\na;x\n")
    ends = pytest.raises(ZeroDivisionError) if failing else nullcontext()
    with ends, copy_standard_input("-", SourceOptions(format="csv")) as path:
        assert stat.S_IMODE(os.stat(Path(path).parent).st_mode) == 0o700
        assert rows_of(path, delimiter=";") == ([("a", "x")], {})
        assert 1 / (not failing)
    assert list(tmp_path.iterdir()) == []


def test_standard_input_needs_a_format_and_something_in_it(monkeypatch):
    pipe(monkeypatch, b"", terminal=True)
    for options, why in (
        (SourceOptions(), "give --format csv"),
        (SourceOptions(format="csv"), "nothing is piped"),
    ):
        with pytest.raises(UsageError, match=why), copy_standard_input("-", options):
            pass
    with copy_standard_input("log.csv", SourceOptions()) as path:
        assert path == "log.csv"
