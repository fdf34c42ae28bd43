"""Reading: every format gives the same rows, broken rows are counted, the dialect is never guessed."""

import gzip
import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_readers import read_rows

from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find

ROWS = [
    {"user": "a", "time": "2026-01-02 03:04:05", "query": "Red  Shoes", "url": "http://www.x.com/1?s=2"},
    {"user": "a", "time": "2026-01-02T03:05:05Z", "query": 'quote "q"', "url": ""},
    {"user": "b", "time": "1767323045", "query": "ΣΑΣ İ", "url": "y.org"},
    {"user": "b", "time": "", "query": "tab, comma", "url": ""},
]  # fmt: skip
CLEAN = [
    ("a", "2026-01-02 03:04:05", "red shoes", "x.com/1"),
    ("a", "2026-01-02 03:05:05", 'quote "q"', None),
    ("b", "2026-01-02 03:04:05", "σασ i̇", "y.org"),
    ("b", None, "tab, comma", None),
]


def rows_of(source, **options):
    columns = options.pop("columns", None)
    if columns is None and ".jsonl" in str(source):
        columns = {role: role for role in ("user", "query", "time", "url")}
    rows, broken = read_rows(source, source_options={"columns": columns}, **options)
    extra = options.get("keep", ())
    plain = [
        (r["user"], str(r["time"] or "") or None, r["query"], r["url"], *(r[c] for c in extra))
        for r in rows
    ]
    return sort_rows(plain), broken


def sort_rows(rows):
    return sorted(rows, key=lambda row: (row[0], row[1] or "", row[2]))


EXPECTED = sort_rows(CLEAN)


def test_csv_tsv_and_jsonl_give_the_same_rows(write_csv, write_tsv, write_jsonl):
    sources = [write_csv(ROWS), write_tsv(ROWS), write_jsonl(ROWS)]
    for source in sources:
        assert rows_of(source) == (EXPECTED, {})


@pytest.mark.parametrize("compression", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_compressed_text_gives_the_same_rows(
    kind, compression, write_csv, write_tsv, write_jsonl, tmp_path
):
    plain = {"csv": write_csv, "tsv": write_tsv, "jsonl": write_jsonl}[kind](ROWS)
    packed = tmp_path / f"packed.{kind}.{compression}"
    if compression == "gz":
        packed.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        packed.write_bytes(pa.Codec("zstd").compress(plain.read_bytes()).to_pybytes())
    assert rows_of(packed) == (EXPECTED, {})


def test_parquet_folder_glob_and_duckdb_give_the_same_rows(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "notes.md").write_text("not a log")
    for i, half in enumerate((ROWS[:2], ROWS[2:])):
        table = pa.Table.from_pylist([{k: v or None for k, v in row.items()} for row in half])
        pq.write_table(table, folder / f"part{i}.parquet")
    assert rows_of(folder) == (EXPECTED, {})
    assert rows_of(folder / "part*.parquet") == (EXPECTED, {})
    base = tmp_path / "base.duckdb"
    with duckdb.connect(str(base)) as connection:
        connection.execute(f"CREATE TABLE searches AS FROM '{folder}/part*.parquet'")
    assert rows_of(base) == (EXPECTED, {})
    with duckdb.connect(str(base)) as connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
    assert rows_of(f"{base}::searches") == (EXPECTED, {})
    with pytest.raises(InputError, match=r"2 tables; name one of: base.duckdb::other"):
        find(str(base))


def test_typed_columns_keep_their_meaning(tmp_path):
    table = pa.table(
        {
            "uid": pa.array([7, 8]),
            "q": ["x", "y"],
            "ts": pa.array([1767323045000, 1767323046000], pa.timestamp("ms", tz="UTC")),
        }
    )
    path = tmp_path / "typed.parquet"
    pq.write_table(table, path)
    rows, _ = rows_of(path)
    assert rows == [
        ("7", "2026-01-02 03:04:05", "x", None),
        ("8", "2026-01-02 03:04:06", "y", None),
    ]


@pytest.mark.parametrize(
    "value",
    ["1767323045", "1767323045.0", "1767323045000", "1767323045000000", "1767323045000000000"],
)
def test_unix_times_of_any_size_and_type_mean_the_same(tmp_path, value):
    path = tmp_path / "log.csv"
    path.write_text(f"user,query,time\na,x,{value}\n")
    assert rows_of(path)[0] == [("a", "2026-01-02 03:04:05", "x", None)]
    number = float(value) if "." in value else int(value)
    pq.write_table(
        pa.table({"user": ["a"], "query": ["x"], "time": [number]}), tmp_path / "log.parquet"
    )
    assert rows_of(tmp_path / "log.parquet")[0] == [("a", "2026-01-02 03:04:05", "x", None)]


def test_an_offset_of_a_time_is_taken_into_account(tmp_path):
    path = tmp_path / "log.csv"
    times = ("05:04:05+02:00", "05:04:05+02", "05:04:05.000+0200", "02:34:05-00:30", "03:04:05Z")
    lines = [f"{i},x,2026-01-02T{time}\n" for i, time in enumerate(times)]
    path.write_text("user,query,time\n" + "".join(lines))
    rows, broken = rows_of(path)
    assert {row[1] for row in rows} == {"2026-01-02 03:04:05"}
    assert len(rows) == len(times)
    assert not broken


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (1767323045.0, [float("nan"), float("inf"), float("-inf"), 1e300, -1e15]),
        ("2026-01-02 03:04:05", ["infinity", "-infinity", "294246-01-01", "4000-01-01 (BC)"]),
    ],
)
def test_a_time_out_of_all_years_breaks_one_row_only(tmp_path, good, bad):
    path = tmp_path / "log.parquet"
    n = 1 + len(bad)
    pq.write_table(pa.table({"user": ["a"] * n, "query": ["x"] * n, "time": [good, *bad]}), path)
    rows, broken = rows_of(path)
    assert sorted(rows, key=str) == sorted(
        [("a", "2026-01-02 03:04:05", "x", None), *[("a", None, "x", None)] * len(bad)], key=str
    )
    assert broken == {"unreadable time": len(bad)}
    rows = [("a", "2026-01-02 03:04:05", "x", None)]
    assert rows_of(path, since="2026-01-01") == (rows, {"unreadable time": len(bad)})


def test_broken_rows_are_counted_by_reason(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_bytes(
        b"user,query,time,url\n"
        b"a,fine,2026-01-01,\n"
        b",no user,2026-01-01,\n"
        b"b,,2026-01-01,\n"
        b"b,\xc2\xad,2026-01-01,\n"
        b"c,bad time,yesterday,\n"
        b"d,bad url,2026-01-01,http://[x\n"
        b"e,too,many,columns,here\n"
        b"f\n"
        b"g,\xff\xfe,2026-01-01,\n"
    )
    rows, broken = rows_of(path)
    day = "2026-01-01 00:00:00"
    assert rows == [
        ("a", day, "fine", None),
        ("c", None, "bad time", None),
        ("d", day, "bad url", None),
    ]
    assert broken == {
        "no query": 2,
        "no user": 1,
        "not UTF-8": 1,
        "too few columns": 1,
        "too many columns": 1,
        "unreadable time": 1,
        "unreadable url": 1,
    }
    with pytest.raises(InputError, match=r"8 broken rows \(.*1 x no user.*--strict is set"):
        rows_of(path, strict=True)


def test_lines_that_are_no_json_are_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"user": "a", "query": "x"}\n{oops\n[1]\n{"query": "y"}\n')
    assert rows_of(path) == ([("a", None, "x", None)], {"no user": 2, "not JSON": 1})


def test_a_stray_quote_in_a_tsv_swallows_nothing(write_tsv):
    rows = [{"user": f"u{i}", "query": f'5" pipe {i}'} for i in range(200)]
    assert len(rows_of(write_tsv(rows))[0]) == 200


@given(content=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), max_size=40))
@settings(max_examples=30, deadline=None)
def test_what_one_user_writes_changes_no_other_users_row(tmp_path_factory, content):
    # A8: dialect and types are fixed before the rows are read.
    path = tmp_path_factory.mktemp("a8") / "log.tsv"
    others = "".join(f"u{i}\tquery {i}\n" for i in range(5))
    path.write_text(f"user\tquery\nvictim\t{content}\n{others}", encoding="utf-8", newline="\n")
    rows, _ = rows_of(path)
    assert [r for r in rows if r[0] != "victim"] == [
        (f"u{i}", None, f"query {i}", None) for i in range(5)
    ]


def test_columns_are_guessed_or_given(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(
        "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\tx\t2006-03-01 00:00:01\t1\ta.com\n"
    )
    assert find(str(path)).columns == {
        "user": "AnonID",
        "query": "Query",
        "time": "QueryTime",
        "url": "ClickURL",
        "rank": "ItemRank",
    }
    other = tmp_path / "other.csv"
    other.write_text("who,what\n1,x\n")
    with pytest.raises(InputError, match='looks like "user". Found: who, what. Map it'):
        find(str(other))
    with pytest.raises(
        InputError,
        match=r'looks like "query"\. Found: who, what. Map it: --columns user=who,query=...',
    ):
        find(str(other), SourceOptions(columns={"user": "who"}))
    assert (
        find(str(other), SourceOptions(columns={"user": "who", "query": "what"})).columns["user"]
        == "who"
    )
    with pytest.raises(InputError, match=r'column "nobody" is not in other.csv'):
        find(str(other), SourceOptions(columns={"user": "nobody"}))
    with pytest.raises(UsageError, match="'colour' is not a role"):
        find(str(other), SourceOptions(columns={"colour": "who"}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("only-header.csv", b"user,query\n", "no usable rows"),
        ("not.parquet", b"PAR1 nonsense", "not readable as parquet"),
        ("not.duckdb", b"nonsense", "not a readable DuckDB file"),
        ("not.jsonl", b"hello\n", "not.jsonl has no header, so name the keys"),
        ("latin.csv", b"us\xe9r,query\na,b\n", "not UTF-8 text: give --encoding"),
        ("twice.csv", b"user,query,user\na,b,c\n", "a repeated column name"),
        ("log.doc", b"x", "cannot tell the format of log.doc"),
        ("log.xlsx", b"PK\3\4", "log.xlsx is a spreadsheet.*Save as.*CSV UTF-8"),
        ("cut.csv.gz", gzip.compress(b"user,query\n" + b"a,b\n" * 100_000)[:200], "cut.csv.gz"),
    ],
)
def test_unusable_files_are_named_with_the_reason(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message), connect() as engine:
        read(find(str(path)), engine=engine)


def test_missing_and_mixed_sources_are_named(tmp_path):
    with pytest.raises(InputError, match="there is no file or folder"):
        find(str(tmp_path / "nothing.csv"))
    with pytest.raises(InputError, match="no file matches"):
        find(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="holds no log"):
        find(str(tmp_path))
    (tmp_path / "a.csv").write_text("user,query\n1,x\n")
    (tmp_path / "b.tsv").write_text("user\tquery\n1\tx\n")
    with pytest.raises(InputError, match="different formats"):
        find(str(tmp_path))
    (tmp_path / "c.csv").write_text("user,query,more\n1,x,y\n")
    with pytest.raises(InputError, match=r"c.csv has other columns than a.csv"):
        find(str(tmp_path / "*.csv"))
    (tmp_path / "c.csv").write_text("query,user\nx,1\n")  # read by position, it would swap them
    with pytest.raises(
        InputError, match=r"c.csv has other columns than a.csv, or in another order"
    ):
        find(str(tmp_path / "*.csv"))


@given(content=st.text(st.characters(codec="utf-8", exclude_characters="\n\t"), max_size=40))
@settings(max_examples=12, deadline=None)
def test_a_carriage_return_in_a_tsv_breaks_nothing(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("a8") / "log.tsv"
    path.write_text(f"user\tquery\nvictim\t{content}\rx\nb\ty\n", encoding="utf-8", newline="\n")
    rows, broken = rows_of(path)
    assert [row[:3] for row in rows if row[0] != "victim"] == [("b", None, "y")]
    assert broken == {}
    assert len(rows) == 2


def test_broken_lines_of_a_tsv_are_counted_by_reason(tmp_path):
    path = tmp_path / "broken.tsv"
    long = b"x" * 2_100_000
    path.write_bytes(
        b"user\tquery\ttime\r\n"
        b"a\tfine\t2026-01-01\r\n\r\n\n"
        b"b\tfew\n"
        b"c\ttoo\tmany\tfields\n"
        b"d\t\xff\t2026-01-01\n"
        b"e\t" + long + b"\t2026-01-01\n"
        b"user\tquery\t2026-01-01"
    )
    day = "2026-01-01 00:00:00"
    assert rows_of(path) == (
        [("a", day, "fine", None), ("user", day, "query", None)],
        {"line too long": 1, "not UTF-8": 1, "too few columns": 1, "too many columns": 1},
    )


COUNTRIES = [
    {"user": "a", "query": "one", "time": "2026-01-01", "country": "nz", "Kind": "web"},
    {"user": "b", "query": "two", "time": "2026-01-02 10:00:00", "country": "fr", "Kind": "web"},
    {"user": "c", "query": "three", "time": "2026-01-03", "country": "", "Kind": "image"},
    {"user": "d", "query": "four", "time": "", "country": "nz", "Kind": "image"},
]


@pytest.fixture(params=["csv", "tsv", "jsonl", "parquet", "duckdb"])
def countries(request, tmp_path):
    """The same log with further columns, in each format."""
    names = list(COUNTRIES[0])
    path = tmp_path / f"log.{request.param}"
    searches_table = pa.Table.from_pylist(
        [{k: v or None for k, v in row.items()} for row in COUNTRIES]
    )
    if request.param in ("csv", "tsv"):
        tab = {"csv": ",", "tsv": "\t"}[request.param]
        lines = [tab.join(names), *(tab.join(row.values()) for row in COUNTRIES)]
        path.write_text("\n".join(lines) + "\n")
    elif request.param == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in COUNTRIES))
    elif request.param == "parquet":
        pq.write_table(searches_table, path)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE searches AS FROM searches_table")
    return path


def test_rows_are_restricted_to_a_period_and_to_values(countries):
    def queries(**options):
        rows, broken = rows_of(countries, **options)
        return sorted(row[2] for row in rows), broken

    assert queries(since="2026-01-02") == (["three", "two"], {"no time": 1})
    assert queries(until="2026-01-02") == (["one"], {"no time": 1})
    assert queries(since="2026-01-02T10:00:00+00:00", until="2026-01-03") == (
        ["two"],
        {"no time": 1},
    )
    assert queries(since="2026-01-02T10:30:00+00:30", until="2026-01-02T10:00:01Z")[0] == ["two"]
    assert queries(where={"country": "nz"}) == (["four", "one"], {})
    assert queries(where={"country": "nz", "Kind": "web"}) == (["one"], {})
    assert queries(where={"country": ""}) == (["three"], {})
    assert queries(where={"user": "b"}) == (["two"], {})
    with pytest.raises(InputError, match=r"no usable rows: there are none; others are outside"):
        queries(where={"country": "x' OR 'a' = 'a"})
    with pytest.raises(InputError, match=r"broken rows \(1 x no time\)"):
        queries(since="2026-01-02", strict=True)


def test_further_columns_are_kept_as_text(countries):
    rows, _ = rows_of(countries, keep={"k": "country", "Kind": "Kind"})
    assert [(row[0], *row[4:]) for row in rows] == [
        ("a", "nz", "web"),
        ("b", "fr", "web"),
        ("c", None, "image"),
        ("d", "nz", "image"),
    ]


def test_restrictions_that_cannot_be_are_refused(write_csv, tmp_path):
    path = write_csv(ROWS)
    with pytest.raises(
        InputError, match=r'column "land" is not in log.csv. Found: user, time, query'
    ):
        rows_of(path, where={"land": "nz"})
    with pytest.raises(InputError, match=r'column "land" is not in log.csv'):
        rows_of(path, keep={"k": "land"})
    with pytest.raises(UsageError, match="--since 'soon' is not a date or time"):
        rows_of(path, since="soon")
    with pytest.raises(UsageError, match="--since 2026-01-02 is not before --until 2026-01-01"):
        rows_of(path, since="2026-01-02", until="2026-01-01")
    timeless = tmp_path / "timeless.csv"
    timeless.write_text("user,query\na,x\n")
    with pytest.raises(InputError, match="timeless.csv has no time column"):
        rows_of(timeless, until="2026-01-01")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_byte_order_mark_tells_utf_16(kind, write_csv, write_tsv, write_jsonl, tmp_path):
    plain = {"csv": write_csv, "tsv": write_tsv, "jsonl": write_jsonl}[kind](ROWS)
    other = tmp_path / f"other.{kind}"
    other.write_bytes(plain.read_text("utf-8").encode("utf-16"))
    assert find(
        str(other), SourceOptions(columns={"user": "user", "query": "query"})
    ).encodings == ("utf-16",)
    assert rows_of(other) == (EXPECTED, {})


def test_half_a_character_of_utf_16_breaks_only_its_row(tmp_path):
    path = tmp_path / "log.tsv"
    text = "user\tquery\na\tx\nb\t\ud800y\nc\tz\n"
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass") + b"q")
    rows, broken = rows_of(path)
    assert [row[0] for row in rows] == ["a", "c"]
    assert broken == {"not decodable": 2}


def test_an_encoding_may_be_given(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes("user,query\na,café\n".encode("latin-1"))
    rows, _ = read_rows(path, source_options={"encoding": "latin-1"})
    assert [row["query"] for row in rows] == ["café"]
    with pytest.raises(UsageError, match="--encoding 'klingon' is not known"):
        find(str(path), SourceOptions(encoding="klingon"))


@pytest.mark.parametrize(
    "first",
    ["1234\tmy secret", "u99\tmy secret\t2025-01-01 10:00", "secret@a.example", "secret/" + "x" * 60,
     "http://secret.example\tx", "12.09.2025\tsecret"],
)  # fmt: skip
def test_a_first_line_that_looks_like_a_row_is_not_printed(first, tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(f"{first}\n1235\tx\n")
    for columns in (None, {"query": "what"}):
        with pytest.raises(InputError, match="Its first line looks like a row") as caught:
            find(str(path), SourceOptions(columns=columns))
        assert "secret" not in str(caught.value)


def test_the_names_of_a_header_are_shown_with_the_flag_to_give(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("Nutzer,Suchanfrage,Zeitpunkt,Klick,2024\n")
    with pytest.raises(InputError) as caught:
        find(str(path))
    assert str(caught.value) == (
        'no column of log.csv looks like "user". Found: Nutzer, Suchanfrage, Zeitpunkt, Klick, and 1 that '
        "look like data, not names. Did you mean --columns "
        "user=Nutzer,query=Suchanfrage,time=Zeitpunkt,url=Klick ?"
    )
    with pytest.raises(InputError, match=r"Did you mean --columns query=Suchanfrage\?"):
        find(str(path), SourceOptions(columns={"user": "Nutzer", "query": "suchanfrage"}))
    path.write_text("uid,serch\n")
    with pytest.raises(InputError, match=r"Did you mean --columns query=serch \?"):
        find(str(path))
    path.write_text("one,two\n")
    with pytest.raises(InputError, match=r"Found: one, two. Map it: --columns user=...,query=...$"):
        find(str(path))


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolon"), ("|", "pipe")])
def test_a_header_with_another_delimiter_is_pointed_out(delimiter, name, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(f"user{delimiter}query\na{delimiter}x\n")
    with pytest.raises(InputError, match=f"One column was found.*give --delimiter {name}"):
        find(str(path))
    assert dict(find(str(path), SourceOptions(delimiter=name)).columns) == {
        "user": "user",
        "query": "query",
    }


def test_url_level_is_checked(write_tsv):
    with pytest.raises(UsageError, match="--url must be one of host, path, full, id, not 'domain'"):
        rows_of(write_tsv(ROWS), url="domain")


def test_hostile_column_names_stay_names(tmp_path):
    name = 'q"; DROP TABLE raw; --'
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"user": "a", name: "x"}) + "\n")
    rows, _ = rows_of(path, columns={"user": "user", "query": name})
    assert rows == [("a", None, "x", None)]
    table = pa.table({"user": ["a"], name: ["x"]})
    pq.write_table(table, tmp_path / "log.parquet")
    assert rows_of(tmp_path / "log.parquet", columns={"query": name})[0] == rows


@pytest.mark.parametrize(
    "name", ["log[1].parquet", "log*.parquet", "log?.parquet", "a b=%20ü.parquet"]
)
def test_a_name_is_no_pattern_for_the_engine(tmp_path, name):
    """A star in the name of one file must not read the files beside it."""
    for file, user in ((name, "a"), ("log1.parquet", "b"), ("log2.parquet", "c")):
        pq.write_table(pa.table({"user": [user], "query": ["x"]}), tmp_path / file)
    assert [row[0] for row in rows_of(tmp_path / name)[0]] == ["a"]


def test_columns_that_differ_in_case_only_are_never_taken_for_each_other(tmp_path):
    table = pa.table({"User": ["r1", "r2"], "user": ["a", "a"], "query": ["x", "y"]})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputError, match="differ only in case: User, user"):
        find(str(tmp_path / "log.parquet"), SourceOptions(columns={"user": "user"}))
    (tmp_path / "log.tsv").write_text("User\tuser\tquery\nr1\ta\tx\nr2\ta\ty\n")
    with pytest.raises(InputError, match=r"differ only in case or spaces: User, user"):
        find(str(tmp_path / "log.tsv"))
    rows, _ = rows_of(tmp_path / "log.tsv", columns={"user": "user"})
    assert [row[0] for row in rows] == ["a", "a"]


def test_a_role_may_be_settled_as_none(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,query,time,url\na,x,2026-01-01,b.example\n")
    source = find(str(path), SourceOptions(columns={"time": "none", "url": "none"}))
    assert source.columns == {"user": "user", "query": "query"}
    with pytest.raises(UsageError, match="--columns user=none: a log without a user"):
        find(str(path), SourceOptions(columns={"user": "none"}))


def test_one_files_types_change_no_other_files_users(tmp_path):
    big = 2**53
    pq.write_table(pa.table({"user": [big, big + 1], "query": ["x", "y"]}), tmp_path / "a.parquet")
    assert [row[0] for row in rows_of(tmp_path / "a.parquet")[0]] == [str(big), str(big + 1)]
    pq.write_table(pa.table({"user": [0.5], "query": ["z"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r'column "user" of .* is int64 in a.parquet and float64'):
        rows_of(tmp_path)
