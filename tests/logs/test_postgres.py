"""PostgreSQL as a source: the address, and reading from a real server that can do no harm."""

import json
import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counts import tally_of_log
from hypothesis import given
from hypothesis import strategies as st
from log_readers import read_rows
from postgres_server import PASSWORD, NoServer, run_server

import murmurlog.cli.main as entry
from murmurlog import release
from murmurlog.bundle.schema import BY_VALUE
from murmurlog.errors import EngineError, InputError, MurmurlogError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.postgres import looks_like_address, parse
from murmurlog.logs.source import find
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.planning.exact_profile import profile

SLOW = pytest.mark.slow  # needs a server, which takes seconds to start and minutes to install


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("adbc_driver_postgresql", reason="needs murmurlog[postgres]")
    try:
        with run_server() as server:
            yield server
    except NoServer as why:
        pytest.skip(str(why))


# The address


@pytest.mark.parametrize(
    ("source", "url", "relation"),
    [
        ("postgresql://me@db/web::log", "postgresql://me@db/web", '"log"'),
        ("postgres://db:5432/web::a.log", "postgres://db:5432/web", '"a"."log"'),
        ("postgresql:///web::log", "postgresql:///web", '"log"'),
        ("postgresql://::log", "postgresql://", '"log"'),
        ("postgresql://[::1]:5432/web::log", "postgresql://[::1]:5432/web", '"log"'),
        ("postgresql://a:1,b:2/web::log", "postgresql://a:1,b:2/web", '"log"'),
        ("postgresql://me:%40%3A@db/web::log", "postgresql://me:%40%3A@db/web", '"log"'),
        ("postgresql://db/web?service=x::Log", "postgresql://db/web?service=x", '"Log"'),
        ("postgresql://db?host=%2Frun::log", "postgresql://db?host=%2Frun", '"log"'),
        ('postgresql://db::"a.b"."c ""d"', "postgresql://db", '"a.b"."c ""d"'),
        ("postgresql://db::журнал", "postgresql://db", '"журнал"'),
        ("postgresql://db::selected", "postgresql://db", '"selected"'),
        ("postgresql://db/web", "postgresql://db/web", ""),
        ("postgresql://db/web::", "postgresql://db/web", ""),
        (
            "postgresql://db/web::SELECT a::text AS q FROM t; ",
            "postgresql://db/web",
            "(\nSELECT a::text AS q FROM t\n)",
        ),
        (
            "postgresql://db/web::with t as (select 1) select * from t -- all",
            "postgresql://db/web",
            "(\nwith t as (select 1) select * from t -- all\n)",
        ),
    ],
)
def test_an_address_names_a_server_and_a_table_or_a_query(source, url, relation):
    assert looks_like_address(source)
    address = parse(source)
    assert (address.url, address.relation) == (url, relation)
    assert url not in repr(address)
    assert url not in str(address)


@pytest.mark.parametrize(
    "what", ["DELETE FROM log", "a.b.c", "log;", "log WHERE true", 'a"b', "COPY log TO STDOUT"]
)
def test_what_is_neither_a_table_nor_a_query_is_refused(what):
    with pytest.raises(UsageError, match="neither a table nor a query") as caught:
        parse(f"postgresql://me:secret@db/web::{what}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://me:sec@ret@db/web::log",
        "postgresql://me:sec/ret@db/web::log",
        "postgresql://me:sec?ret@db/web::log",
        "postgresql://me:sec#ret@db/web::log",
        "postgresql://me:sec:ret@db/web::log",
        "postgresql://me:sec ret@db/web::log",
        "postgresql://me::secret@db/web::log",
        "postgresql:/me:secret@db/web::log",
        "postgres+psycopg://me:secret@db/web",
        "POSTGRESQL+x://me:secret@db/web",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(source):
    with pytest.raises(UsageError, match="cannot be read") as caught:
        find(source)
    assert caught.value.exit_code == 2
    for part in ("sec", "ret@", "@db"):
        assert part not in str(caught.value)


@given(st.text(alphabet="aZ9@:/?#[],%&= '\"é\n", min_size=6, max_size=12))
def test_no_password_is_taken_for_anything_else(password):
    """Whatever stands between user and host is refused or is the password, never a host."""
    try:
        address = parse(f"postgresql://me:{password}@db.example:5432/web::log")
    except UsageError as error:
        output = str(error)
    else:
        output = ""
        assert not set(password) & set("@:/?# \n")
        assert address.url.endswith(f"me:{password}@db.example:5432/web")
    assert password not in output


def test_files_are_still_files(tmp_path):
    assert not looks_like_address("postgres.parquet")
    assert not looks_like_address("logs/postgresql.csv")


def test_a_missing_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(EngineError, match=r"pip install 'murmurlog\[postgres\]'") as caught:
        find("postgresql://me:secret@db/web::log")
    assert caught.value.exit_code == 5
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there(tmp_path, monkeypatch, capsys):
    pytest.importorskip("adbc_driver_postgresql")
    monkeypatch.chdir(tmp_path)
    output = command(
        *("release", "postgresql://me:s3cret@127.0.0.1:1/web::log", "--out", "bundle"),
        *("--ledger", "ledger.db", "--source", "web", "--new-source"),
        code=4,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    assert "cannot connect to the PostgreSQL server" in output
    assert "Connection refused" in output
    assert "s3cret" not in output
    assert not Path("bundle").exists()


def test_an_encoding_cannot_be_given_for_a_server():
    with pytest.raises(UsageError, match="--encoding is for files: leave it out"):
        find("postgresql://db/web::log", SourceOptions(encoding="latin-1"))


def command(*arguments, code, monkeypatch, capsys):
    """Runs a command in this process; what it printed."""
    monkeypatch.setattr(sys, "argv", ["murmurlog", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    out = capsys.readouterr()
    assert caught.value.code == code, out.err
    return out.out + out.err


# The rows

TEXTS = [
    "weather", "Wetter Köln", "ΟΔΟΣ", "İstanbul", "天气 北京", "東京タワー", "โรงแรม", "погода",
    "طقس", "मौसम", "👩\u200d🔬 lab", "a\tb", 'x"y', "it's", "back\\slash", "  spaces  ", "\u200b",
    "", None, "NULL", "\\N", "%s", "ﬁne",
]  # fmt: skip


def hostile_log(users=60):
    """Rows of many languages, with what is missing or empty in every column."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = []
    for u in range(users):
        for i, text in enumerate(TEXTS):
            moment = (
                None
                if (u + i) % 11 == 0
                else start + timedelta(hours=7 * u, minutes=i, microseconds=i)
            )
            rows.append(
                {
                    "user": [None, "", f"u{u}", f"ü{u}"][min((u + i) % 9, 3)],
                    "time": moment,
                    "query": text,
                    "url": [None, "", "http://a.example/x?y", "not a url ://"][(u * i) % 4],
                    "rank": [None, 1, 2][i % 3],
                    "country": [None, "", "de", "fr"][u % 4],
                    "note": {"any": "thing"},
                }
            )
    return rows


def rows_of(source, **restricted):
    """All rows of a source as a multiset, and what was broken."""
    columns = restricted.pop("columns", None)
    rows, broken = read_rows(source, source_options={"columns": columns}, **restricted)
    return Counter(tuple(row.items()) for row in rows), broken


@pytest.fixture(scope="module")
def table_and_file(server, tmp_path_factory):
    """The hostile log as a table of the server and as Parquet."""
    rows = [{k: v for k, v in row.items() if k != "note"} for row in hostile_log()]
    schema = pa.schema(
        [
            ("user", pa.string()),
            ("time", pa.timestamp("us", tz="UTC")),
            ("query", pa.string()),
            ("url", pa.string()),
            ("rank", pa.int32()),
            ("country", pa.string()),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    path = tmp_path_factory.mktemp("both") / "log.parquet"
    pq.write_table(table, path)
    server.load("log", table)
    server.execute("ALTER TABLE log ADD note json DEFAULT '{\"any\": 1}', ADD raw bytea")
    return f"{server.url()}::log", path


@SLOW
@pytest.mark.parametrize(
    "restricted",
    [
        {},
        {"since": "2026-01-03", "until": "2026-01-09T12:00:00"},
        {"where": {"country": "de"}},
        {"where": {"country": ""}},
        {"where": {"rank": "2"}, "keep": {BY_VALUE: "country"}},
        {"keep": {BY_VALUE: "country"}, "since": "2026-01-02"},
        {"url": None},
    ],
    ids=str,
)
def test_the_rows_are_those_of_the_same_log_as_parquet(table_and_file, restricted, server):
    table, path = table_and_file
    there, here = rows_of(table, **restricted), rows_of(path, **restricted)
    assert there == here
    assert sum(here[0].values()) > 50
    url = server.url()
    assert rows_of(f"{url}::SELECT * FROM log ORDER BY rank", **restricted) == here
    assert rows_of(f"{server.local}::public.log", **restricted) == here


@SLOW
@pytest.mark.parametrize("kind", ["query", "click", "pair"])
def test_the_tally_is_that_of_the_same_log_as_parquet(table_and_file, kind):
    there, here = (tally_of_log(source, kind=kind) for source in table_and_file)
    assert len(here) > 10
    assert there == here


@SLOW
def test_nothing_of_the_address_is_in_a_bundle(server, tmp_path, monkeypatch, capsys):
    write(invent(rows=30_000, seed=3), tmp_path / "log.parquet")
    server.load("tablename9", pq.read_table(tmp_path / "log.parquet"))
    monkeypatch.chdir(tmp_path)
    output = command(
        *("release", f"{server.url()}::tablename9", "--out", "bundle", "--tables", "query"),
        *("--ledger", "ledger.db", "--source", "shop", "--new-source"),
        code=0,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    secrets = [PASSWORD, server.url(), "tablename9", f"127.0.0.1:{server.port}", "owner@"]
    assert PASSWORD not in output
    assert server.url().split("@")[0] not in output
    files = [f for f in (*Path("bundle").rglob("*"), Path("ledger.db")) if f.is_file()]
    assert len(files) > 4
    for file in files:
        text = file.read_bytes()
        if file.suffix == ".parquet":
            text += str(pq.read_schema(file).metadata).encode()
        for secret in secrets:
            assert secret.encode() not in text, f"{secret} in {file}"


@SLOW
def test_profile_names_the_shape(table_and_file):
    looked = profile(table_and_file[0])
    assert looked["shape"] == "postgresql"
    assert looked["rows"] == profile(str(table_and_file[1]))["rows"]


@SLOW
@pytest.mark.parametrize(
    ("values", "expected", "fault"),
    [
        ("timestamptz '2026-01-02 01:00+02'", datetime(2026, 1, 1, 23), None),
        ("timestamp '2026-01-02 01:00'", datetime(2026, 1, 2, 1), None),
        ("date '2026-01-02'", datetime(2026, 1, 2), None),
        ("1767312000", datetime(2026, 1, 2), None),
        ("1767312000000::bigint", datetime(2026, 1, 2), None),
        ("1767312000.5::numeric", datetime(2026, 1, 2, microsecond=500_000), None),
        ("1767312000::float8", datetime(2026, 1, 2), None),
        ("'2026-01-02T01:00:00+02:00'", datetime(2026, 1, 1, 23), None),
        ("'2026-01-02 00:00:00'::varchar(30)", datetime(2026, 1, 2), None),
        ("NULL::timestamptz", None, None),
        ("NULL::numeric", None, None),
        ("timestamptz 'infinity'", None, "time out of range"),
        ("timestamp '-infinity'", None, "time out of range"),
        ("timestamp '294276-12-31'", None, "time out of range"),
        ("date '4713-01-01 BC'", None, "time out of range"),
        ("'NaN'::numeric", None, "time out of range"),
        ("1e400::numeric", None, "time out of range"),
        ("'-infinity'::float8", None, "time out of range"),
        ("'yesterday'", None, "unreadable time"),
    ],
)
def test_times_of_every_type(server, values, expected, fault):
    query = f"SELECT 1 AS user, 'a' AS query, {values} AS time UNION ALL SELECT 2, 'b', NULL"
    rows, broken = rows_of(f"{server.url()}::{query}")
    times = {dict(row)["user"]: dict(row)["time"] for row in rows}
    assert times.pop("2") is None  # one row's time changes no other's
    stays = not fault or fault == "unreadable time"  # as a row without a time
    assert times == ({"1": expected} if stays else {})
    assert broken == ({fault: 1} if fault else {})


@SLOW
def test_a_column_that_is_no_time_is_refused(server):
    with pytest.raises(InputError, match='"time" of the PostgreSQL query is not a time'):
        rows_of(f"{server.url()}::SELECT 1 AS user, 'a' AS query, interval '1 h' AS time")


@SLOW
def test_users_of_every_type_are_text(server):
    server.execute(
        "CREATE TYPE mood AS ENUM ('glad')",
        "CREATE DOMAIN code AS varchar(9)",
        """CREATE TABLE typed AS SELECT 9007199254740993::bigint AS a, 1.50::numeric AS b,
           'b5b1c1f4-0000-4000-8000-000000000001'::uuid AS c, 'glad'::mood AS d, 'x'::char(3) AS e,
           'k'::code AS f, '10.0.0.1'::inet AS g, true AS h, '{1,2}'::int[] AS i, '\\x00ff'::bytea AS j,
           'weather'::text AS query""",
    )
    expected = {
        "a": "9007199254740993", "b": "1.50", "c": "b5b1c1f4-0000-4000-8000-000000000001",
        "d": "glad", "e": "x", "f": "k", "g": "10.0.0.1/32", "h": "true", "i": "{1,2}",
        "j": "\\x00ff",
    }  # fmt: skip
    for column, text in expected.items():
        rows, broken = rows_of(f"{server.url()}::typed", columns={"user": column})
        assert [dict(row)["user"] for row in rows] == [text]
        assert not broken


@SLOW
def test_names_of_tables_and_columns_may_be_anything(server):
    names = {"user": 'us"er', "query": "q), (SELECT 1", "time": "'; DROP TABLE x; --"}
    columns = ", ".join('"' + name.replace('"', '""') + '" text' for name in names.values())
    server.execute(
        'CREATE SCHEMA "a.b"',
        f'CREATE TABLE "a.b"."t""; x" ({columns}, "log" text)',
        """INSERT INTO "a.b"."t""; x" VALUES ('u', 'q', '2026-01-01', 'kept')""",
    )
    rows, _ = rows_of(f'{server.url()}::"a.b"."t""; x"', columns=names, keep={"log": "log"})
    time = datetime(2026, 1, 1)
    expected = {"user": "u", "time": time, "query": "q", "url": None, "rank": None, "log": "kept"}
    assert [dict(row) for row in rows] == [expected]
    with pytest.raises(InputError, match=r'name one of:.*::"a\.b"\."t""; x"'):
        find(f"{server.url()}::nope")


@SLOW
def test_text_of_other_encodings_comes_as_utf_8(server, monkeypatch):
    for encoding in ("LATIN1", "SQL_ASCII"):
        server.execute(
            f"CREATE DATABASE {encoding}_db ENCODING '{encoding}' TEMPLATE template0",
            database="postgres",
        )
    server.execute(
        "SET client_encoding = 'UTF8'",
        "CREATE TABLE log AS SELECT 'ü' AS user, 'Köln' AS query",
        database="latin1_db",
    )
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    rows, _ = rows_of(f"{server.url('latin1_db')}::log")
    assert [(dict(row)["user"], dict(row)["query"]) for row in rows] == [("ü", "köln")]
    server.execute(
        "CREATE TABLE log AS SELECT 'u' AS user, 'K' || chr(246) || 'ln' AS query",
        database="sql_ascii_db",
    )
    with pytest.raises(InputError, match="text that is not valid") as caught:
        rows_of(f"{server.url('sql_ascii_db')}::log")
    assert "0xf6" not in str(caught.value)


@SLOW
def test_a_view_a_partitioned_table_and_the_only_table(server):
    server.execute("CREATE DATABASE single", database="postgres")
    server.execute(
        'CREATE TABLE log ("user" int, query text) PARTITION BY RANGE ("user")',
        "CREATE TABLE part1 PARTITION OF log FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE part2 PARTITION OF log FOR VALUES FROM (10) TO (20)",
        "INSERT INTO log VALUES (1, 'a'), (11, 'b')",
        database="single",
    )
    url = server.url("single")
    assert find(url).name == "the PostgreSQL table log"
    assert sum(rows_of(url)[0].values()) == 2
    server.execute("CREATE VIEW seen AS SELECT * FROM log WHERE query = 'a'", database="single")
    assert sum(rows_of(f"{url}::seen")[0].values()) == 1
    with pytest.raises(InputError, match="has 2 tables; name one of: ::log, ::seen"):
        find(url)


# What it cannot do


@pytest.fixture
def guarded_table(server):
    """A table, a sequence and functions that write; a check that nothing of it has changed."""
    server.execute(
        "DROP TABLE IF EXISTS guarded",
        "DROP SEQUENCE IF EXISTS numbers",
        "CREATE TABLE guarded AS SELECT 1 AS user, 'a'::text AS query",
        "CREATE SEQUENCE numbers",
        """CREATE OR REPLACE FUNCTION writes() RETURNS text LANGUAGE plpgsql AS
           $$BEGIN INSERT INTO guarded VALUES (2, 'b'); RETURN 'x'; END$$""",
        """CREATE OR REPLACE FUNCTION frees() RETURNS text LANGUAGE plpgsql AS
           $$BEGIN SET TRANSACTION READ WRITE; INSERT INTO guarded VALUES (3, 'c'); RETURN 'x'; END$$""",
    )
    yield
    assert server.execute("SELECT * FROM guarded") == [(1, "a")]
    assert server.execute("SELECT is_called FROM numbers") == [(False,)]


@SLOW
@pytest.mark.parametrize(
    "query",
    [
        "SELECT nextval('numbers') AS user, 'x' AS query",
        "SELECT setval('numbers', 7) AS user, 'x' AS query",
        "SELECT 1 AS user, writes() AS query",
        "SELECT 1 AS user, frees() AS query",
        "SELECT set_config('transaction_read_only', 'off', true) AS user, writes() AS query",
        "SELECT set_config('default_transaction_read_only', 'off', false) AS user, writes() AS query",
        "WITH w AS (INSERT INTO guarded VALUES (9, 'z') RETURNING *) SELECT * FROM w",
        "WITH w AS (DELETE FROM guarded RETURNING *) SELECT * FROM w",
        "WITH w AS (SELECT 1) DELETE FROM guarded",
        "SELECT * INTO copied FROM guarded",
        "SELECT * FROM guarded FOR UPDATE",
        "SELECT * FROM guarded; DELETE FROM guarded",
        "SELECT * FROM guarded) AS x; COMMIT; DELETE FROM guarded; SELECT * FROM (SELECT 1",
        "SELECT * FROM guarded) TO STDOUT; DELETE FROM guarded; COPY (SELECT 1",
    ],
)
def test_a_query_that_writes_is_refused_and_changes_nothing(
    server, guarded_table, query, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    output = command(
        *("release", f"{server.url()}::{query}", "--out", "bundle"),
        *("--ledger", "ledger.db", "--source", "web", "--new-source"),
        code=2,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    assert PASSWORD not in output
    assert_nothing_released(tmp_path)


def assert_nothing_released(folder):
    """Neither a bundle nor a booking."""
    assert not (folder / "bundle").exists()
    if (folder / "ledger.db").exists():
        assert Ledger(folder / "ledger.db").entries() == []
    assert {file.name for file in folder.iterdir()} <= {"ledger.db"}


@SLOW
@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("wrong password", 4, "password authentication failed"),
        ("no database", 4, 'database "nowhere" does not exist'),
        ("no table", 4, "there is no table nothing in the database; name one of: "),
        ("no rights", 4, "may not read it"),
        ("no column", 4, 'no column of the PostgreSQL query looks like "query". Found: user, x.'),
        ("wrong column", 4, 'column "x" does not exist'),
        ("no query", 2, "neither a table nor a query"),
        ("not SQL", 2, 'syntax error at or near "FORM"'),
        ("same names", 4, "has a repeated column name"),
        ("fails", 4, "the server failed while the PostgreSQL query was read"),
        ("empty", 4, "has no usable rows: there are none"),
    ],
)
def test_what_cannot_be_read_is_said_without_the_password(
    server, table_and_file, address, code, words, tmp_path, monkeypatch, capsys
):
    server.execute("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'pass9word'")
    url = server.url()
    source = {
        "wrong password": server.url(password="pass9wordX") + "::log",
        "no database": server.url("nowhere") + "::log",
        "no table": f"{url}::nothing",
        "no rights": server.url(user="reader", password="pass9word") + "::log",
        "no column": f"{url}::SELECT 1 AS user, 2 AS x",
        "wrong column": f"{url}::SELECT x FROM log",
        "no query": f"{url}::DROP TABLE log",
        "not SQL": f"{url}::SELECT * FORM log",
        "same names": f"{url}::SELECT 1 AS query, 2 AS query",
        "fails": f"{url}::SELECT 1 AS user, ('secret' || 1)::int AS query FROM log",
        "empty": f"{url}::SELECT * FROM log WHERE false",
    }[address]
    monkeypatch.chdir(tmp_path)
    output = command(
        *(
            "release",
            source,
            "--out",
            "bundle",
            "--ledger",
            "ledger.db",
            "--source",
            "web",
            "--new-source",
        ),
        code=code,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    assert words in output
    for secret in (PASSWORD, url.split("@")[0].split(":")[-1], "pass9word", "secret"):
        assert secret not in output
    assert_nothing_released(tmp_path)


@SLOW
def test_a_password_may_stand_in_the_environment_or_in_a_service(
    server, table_and_file, tmp_path, monkeypatch
):
    bare = server.url(password=None)
    with pytest.raises(InputError, match="no password supplied"):
        find(f"{bare}::log")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert find(f"{bare}::log").name == "the PostgreSQL table log"
    monkeypatch.setenv("PGPASSWORD", "another")
    with pytest.raises(InputError, match="password authentication failed") as caught:
        find(f"{bare}::log")
    assert "another" not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    (tmp_path / "services").write_text(
        f"[shop]\nhost=127.0.0.1\nport={server.port}\nuser=owner\ndbname=web\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert find("postgresql:///?service=shop::log").column_names[0] == "user"


# While it runs


class Reporter:
    """A reporter that passes parts on."""

    def __init__(self, advance):
        self.advance = advance

    def __call__(self, text): ...

    def measure(self, *, total, unit):
        return self.advance


LONG = "SELECT i AS user, repeat('x', 400) || i % 50 AS query FROM generate_series(1, 400000) AS i"


@SLOW
@pytest.mark.parametrize("how", ["backend", "server"])
def test_a_server_that_goes_away_leaves_nothing_behind(server, how, tmp_path):
    parts = []

    def advance(part=1, *, rows=None):
        parts.append(rows)
        if len(parts) == 2:
            if how == "backend":
                server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE query LIKE 'COPY%' AND pid <> pg_backend_pid()"
                )
            else:
                server.stop(signal.SIGQUIT)

    book = tmp_path / "ledger.db"
    try:
        with pytest.raises(InputError, match="closed the connection before the last row") as caught:
            release(
                f"{server.url()}::{LONG}", out=tmp_path / "bundle", tables=["query"],
                ledger=book, source_name="web", new_source=True, say=Reporter(advance),
            )  # fmt: skip
    finally:
        if how == "server":
            server.start()
    assert PASSWORD not in str(caught.value)
    assert len(parts) >= 2
    assert_nothing_released(tmp_path)
    outcome = release(
        f"{server.url()}::SELECT i AS user, 'x' AS query FROM generate_series(1, 999) AS i",
        out=tmp_path / "bundle", tables=["query"], ledger=book, source_name="web", new_source=True,
    )  # fmt: skip
    assert outcome.booked  # the next one works


def queries_of(rows):
    return set(rows.texts.take(rows.query.ids).to_pylist())


@SLOW
def test_rows_that_come_while_it_is_read_are_not_seen(server):
    server.execute("DROP TABLE IF EXISTS moving", f"CREATE TABLE moving AS {LONG}")
    added = []

    def advance(part=1, *, rows=None):
        if rows and not added:
            added.append(rows)
            server.execute("INSERT INTO moving SELECT 7, 'late' FROM generate_series(1, 1000)")
            server.execute("DELETE FROM moving WHERE query <> 'late'")

    with connect() as engine:
        log = read(find(f"{server.url()}::moving"), engine=engine, say=Reporter(advance))
        assert added
        assert log.rows == 400_000
        assert not any("late" in texts for texts in log.partitions.results(queries_of))
    assert server.execute("SELECT count(*) FROM moving") == [(1000,)]


@SLOW
def test_a_million_rows_are_released_straight_from_the_server(
    server, tmp_path, monkeypatch, capsys
):
    log = tmp_path / "log.parquet"
    write(invent(rows=1_000_000, seed=6), log)
    server.load("million", pq.read_table(log))
    monkeypatch.chdir(tmp_path)
    output = command(
        *("release", f"{server.url()}::million", "--out", "bundle", "--json", "--memory", "650MB"),
        code=0,
        monkeypatch=monkeypatch,
        capsys=capsys,
    )
    assert "reading the PostgreSQL table million" in output
    outcome = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert outcome["tables"]["query"]["rows"] > 50
    command("verify", "bundle", code=0, monkeypatch=monkeypatch, capsys=capsys)
    there, here = (tally_of_log(source) for source in (f"{server.url()}::million", log))
    assert len(here) > 10_000
    assert there == here


@SLOW
def test_no_session_stays_open(server, table_and_file):
    rows_of(table_and_file[0])
    with pytest.raises(MurmurlogError):
        find(f"{server.url()}::nothing")
    open_ones = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'web' AND pid <> pg_backend_pid()"
    )
    for _ in range(50):  # a backend takes a moment to end
        if server.execute(open_ones) == [(0,)]:
            return
        os.sched_yield()
    assert server.execute(open_ones) == [(0,)]
