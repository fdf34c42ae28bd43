"""Logs that somebody else wrote: every format, damaged, misnamed, oversized or full of tricks."""

import codecs
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from cases import (
    LOG_CODES,
    MOST,
    QUERY,
    USER,
    Case,
    Content,
    bomb,
    mutated,
    packed,
    release,
    table,
    text,
    writes,
)

REFUSED = frozenset({4})
FORMATS = ("csv", "tsv", "jsonl")
NAMES = (
    'user"; DROP TABLE raw; --', "user'); DROP TABLE raw; --", 'a"b', "a'b", "a\\b", 'a\\"b', "$",
    "$.user", "*", "u.x", "[0]", "k0", "fault", "row", "timed", "c0", "t", "raw", "incoming", "line",
    "parts", "__proto__", "\u202euser", "select", "a b", "ü", "\U0001f600", "x" * 3000, "%s", "{0}",
    "\x1b[2J\x1b]0;owned\x07", "-- ", "/*", "a;b", "#", "~", "null", "1", "-", "\u200b", "ſ", "İ",
)  # fmt: skip
TIMES = (
    "infinity", "-infinity", "nan", "9e999", "1e308", "epoch", "0000-00-00", "294247-01-10 04:00:54",
    "-290308-12-21 (BC)", "2026-02-30", "2026-01-31T25:61:61", "9" * 40, "-" + "9" * 18, "0x10",
    "2026-01-31 00:00:00+99:99", "12:00", "1\x000", "\u0661\u0662\u0663\u0664", "now", "today",
)  # fmt: skip
CELLS = (
    "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "+1", "@SUM(1)", "\u202eabc", "\u2066x\u2069",
    "\x1b[31mred", "a\x00b", "\ud7ff\ue000", "\ufdd0", "\uffff", "'; DROP TABLE raw; --", "${x}", "%n",
    "{{7*7}}", "\\", '"', "'", "\u2028", "a" * 100_000, "\u0301" * 5000, "\ufdfa" * 3000, "İ" * 3000,
    "(a+)+$" * 100, "1 " * 5000, "@" * 3000, "a.b@" * 2000, "4111 1111 " * 500,
)  # fmt: skip


def logs(choice: random.Random, share: float) -> Iterator[Case]:
    """Every kind of hostile log; `share` says how many of those that are drawn."""
    yield from _texts()
    yield from _packs()
    yield from _places()
    yield from (case for case in _names() if choice.random() < 0.4 * share)
    yield from _cells()
    yield from _headless()
    yield from _parquet()
    yield from _duckdb()
    yield from _changed(choice, share)


def _case(
    kind: str, what: str, name: str, content: Content, *more: str,
    codes: frozenset[int] = LOG_CODES, most: int = MOST,
) -> Case:  # fmt: skip
    return Case(kind, f"{what}, {name}", writes(name, content), release(name, *more), codes, most)


def _long_line(start: bytes) -> bytes:
    return start + b"x" * 100_000_000


def _texts() -> Iterator[Case]:
    for form in FORMATS:
        sound = text(form)
        plain = sound.encode()
        first, _, rest = plain.partition(b"\n")
        ways: dict[str, bytes] = {
            "no byte": b"",
            "only line ends": b"\n\r\n\n",
            "only a header": first + b"\n",
            "a mark": codecs.BOM_UTF8 + plain,
            "two marks": codecs.BOM_UTF8 * 2 + plain,
            "only a mark": codecs.BOM_UTF8,
            "only a mark of UTF-16": codecs.BOM_UTF16_LE,
            "UTF-16": sound.encode("utf-16"),
            "UTF-16, big": codecs.BOM_UTF16_BE + sound.encode("utf-16-be"),
            "UTF-16 without a mark": sound.encode("utf-16-le"),
            "UTF-16, half a character": sound.encode("utf-16") + b"\x00",
            "UTF-16, half a pair": sound.encode("utf-16") + b"\x00\xd8\n\x00",
            "UTF-32": sound.encode("utf-32"),
            "latin-1": plain + b"u7\xe4\xf6\xfc\n",
            "lone surrogates": plain.replace(b"common 1", b"\xed\xa0\x80\xed\xb0\x80"),
            "NUL bytes": plain.replace(b"common 1", b"com\x00mon"),
            "NUL in the header": first[:2] + b"\x00" + first[2:] + b"\n" + rest,
            "nothing but NUL": b"\x00" * 100_000,
            "lone CR": plain.replace(b"\n", b"\r"),
            "mixed line ends": plain.replace(b"\n", b"\r\n", 20).replace(b"common 0", b"a\rb"),
            "CR CR LF": plain.replace(b"\n", b"\r\r\n"),
            "vertical tabs": plain.replace(b"\n", b"\x0b\n\x0c"),
            "no last line end": plain.rstrip(b"\n"),
            "a quote that never ends": plain + b'u1,"' + plain,
            "random bytes": random.Random(1).randbytes(50_000),
            "a line of 3 MB": plain + b"u1" + b"x" * 3_000_000 + b"\n" + rest,
            "a header of 3 MB": b"x" * 3_000_000 + b"\n" + rest,
            "ten thousand columns": b",".join(b"c%d" % n for n in range(10_000)) + b"\n" + rest,
            "ten thousand tabs": plain + b"\t" * 10_000 + b"\n",
            "repeated columns": first.replace(b"url", b"user") + b"\n" + rest,
            "empty names": first.replace(b"url", b"") + b"\n" + rest,
            "deep JSON": plain + b"[" * 200_000 + b"\n" + b'{"a":' * 100_000 + b"\n",
            "deep JSON first": b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n" + plain,
            "huge numbers": b'{"user": 1e999, "query": -9' + b"9" * 400 + b"}\n" + plain,
            "huge integer": b'{"user": ' + b"9" * 6000 + b', "query": "q"}\n' + plain,
            "surrogates of JSON": b'{"user": "\\ud800", "query": "\\udfff x"}\n' + plain,
            "keys with surrogates": b'{"\\ud800": 1, "user": "u", "query": "q"}\n' + plain,
            "nested values": b'{"user": {"a": [1]}, "query": ["b"], "time": {}}\n' + plain,
            "repeated keys": b'{"user": "a", "user": "b", "query": "q"}\n' + plain,
            "JSON that is no object": b"1\nnull\n[]\n" + plain,
            "NaN and Infinity": b'{"user": NaN, "query": Infinity}\n' + plain,
        }
        for what, content in ways.items():
            yield _case("text", what, f"log.{form}", content)
        if form == "jsonl":
            yield _case(
                "text", "one array", "log.jsonl", b"[" + plain.replace(b"\n", b",\n") + b"]"
            )
        for time in TIMES:
            changed = sound.replace("2026-01-31 18:00:01", time.replace("\x00", "\\u0000"))
            yield _case("text", "times", f"log.{form}", changed)
        for encoding in ("utf-16", "gb18030", "latin-1", "utf-8"):
            yield _case(
                "text", f"said to be {encoding}", f"log.{form}", plain, "--encoding", encoding
            )
        yield _case(
            "text", "strict", f"log.{form}", plain + b"\xff\xfe\n", "--strict", codes=REFUSED
        )
        line = b'{"user": "u", "query": "' if form == "jsonl" else b"u,\tq"
        yield _case(
            "long lines", "a line of 100 MB", f"log.{form}",
            partial(_long_line, plain + line),
        )  # fmt: skip


def _packs() -> Iterator[Case]:
    for form in FORMATS:
        plain = text(form, 2000).encode()
        for how in ("gz", "zst"):
            name = f"log.{form}.{how}"
            whole = packed(plain, how)
            for part in (0.05, 0.3, 0.5, 0.9, 0.999):
                cut = whole[: max(1, int(len(whole) * part))]
                yield _case("packed", f"cut at {part}", name, cut, codes=REFUSED)
            turned = bytearray(whole)
            turned[len(whole) // 2] ^= 0xFF
            yield _case("packed", "a byte turned", name, bytes(turned))
            yield _case("packed", "garbage behind", name, whole + b"garbage" * 9)
            yield _case(
                "packed", "two in a row", name, whole + packed(plain.partition(b"\n")[2], how)
            )
            yield _case("packed", "packed twice", name, packed(whole, how), codes=REFUSED)
            yield _case("packed", "not packed", name, plain)
            yield _case("packed", "packed, not said", f"log.{form}", whole)
            yield _case("packed", "nothing inside", name, packed(b"", how), codes=REFUSED)
            yield _case("packed", "no byte", name, b"", codes=REFUSED)
            start = packed(plain[: plain.index(b"\n") + 1], how)
            for what, piece in {
                "zeros": b"\x00",
                "line ends": b"\n",
                "one letter": b"a",
                "equal rows": plain[plain.index(b"\n") + 1 :].partition(b"\n")[0] + b"\n",
            }.items():

                def content(piece: bytes = piece, start: bytes = start, how: str = how) -> bytes:
                    return start + bomb(piece * ((1 << 24) // len(piece)), 40, how)  # 640 MB

                yield _case("bombs", what, name, content, codes=REFUSED, most=2 << 30)


def _places() -> Iterator[Case]:
    def folder(root: Path) -> None:
        (root / "log.csv").mkdir()

    def loop(root: Path) -> None:
        (root / "log.csv").symlink_to(root / "other.csv")
        (root / "other.csv").symlink_to(root / "log.csv")

    def itself(root: Path) -> None:
        (root / "log.csv").symlink_to("log.csv")

    def nowhere(root: Path) -> None:
        (root / "log.csv").symlink_to("nowhere.csv")

    def pipe(root: Path) -> None:
        os.mkfifo(root / "log.csv")

    def device(name: str) -> Callable[[Path], None]:
        return lambda root: (root / "log.csv").symlink_to(name)

    def folder_of(root: Path) -> None:
        (root / "logs").mkdir()
        (root / "logs" / "a.csv").write_text(text("csv"))
        (root / "logs" / "loop.csv").symlink_to("loop.csv")
        (root / "logs" / "up").symlink_to("..")
        os.mkfifo(root / "logs" / "pipe.csv")

    for what, make in {
        "an empty folder": folder,
        "a loop of links": loop,
        "a link to itself": itself,
        "a link to nowhere": nowhere,
        "a pipe": pipe,
        "/dev/zero": device("/dev/zero"),
        "/dev/null": device("/dev/null"),
        "/dev/full": device("/dev/full"),
        "/proc/self/mem": device("/proc/self/mem"),
    }.items():
        yield Case("places", what, make, release("log.csv"), REFUSED)
        yield Case("places", f"{what}, by a glob", make, release("lo*.csv"), REFUSED)
    yield Case("places", "a folder with links and a pipe", folder_of, release("logs"))
    for source in ("", ".", "..", "/", "nothing.csv", "**", "[", "*" * 50, "::", "a::b", "\udcff.csv",
                   "x" * 5000, "log.csv/x", "~", "file:///etc/passwd", "https://a.example/log.csv",
                   "s3://a/b.parquet", "/dev/stdin", "postgresql://", "postgresql://[", "-"):  # fmt: skip
        codes = frozenset({2, 4, 5}) if source.startswith("postgresql") else frozenset({2, 4})
        yield Case(
            "places", f"source {source[:20]!r}", writes("log.txt", "x"), release(source), codes
        )
    for name in ("a'; DROP TABLE raw; --.csv", 'a"b.csv', "a\nb.csv", "\x1b[31m.csv", "*.csv", "[ab].csv",
                 "a?b.csv", "-x.csv", "$(x).csv", "%s.csv", "{}.csv", "\u202evsc.csv", "\udcff\udcfe.csv",
                 "ü.csv", " .csv", "a b.csv", "a,b.csv", "x" * 240 + ".csv", "log.CSV", "a\\b.csv"):  # fmt: skip
        for form in FORMATS:
            own = name.replace(".csv", f".{form}")

            def named(root: Path, own: str = own, form: str = form) -> None:
                (root / own).write_text(text(form))

            source = f"./{own}"
            codes = frozenset({0, 4})
            yield Case("names of files", ascii(own), named, release(source), codes)


def _names() -> Iterator[Case]:
    for form in (*FORMATS, "parquet", "duckdb"):
        for name in NAMES:
            if form == "tsv" and "\t" in name:
                continue
            for role, place in (("user", 0), ("query", 2), ("time", 1)):
                names = ["user", "time", "query", "url"]
                names[place] = name
                log = f"log.{form}"
                make = _named(log, form, names)
                others = (
                    {"user": "user", "time": "time", "query": "query"} if form == "jsonl" else {}
                )
                pairs = ",".join(f"{r}={n}" for r, n in (others | {role: name}).items())
                mapped = () if {",", "="} & set(name) else ("--columns", pairs)
                yield Case("names of columns", f"{role} {name[:20]!a}", make, release(log, *mapped),
                           frozenset({0, 2, 4}))  # fmt: skip
            extra = _named(log, form, ["user", "time", "query", name])
            for flag in ("--where", "--by"):
                value = f"{name}=a.example"
                more = (flag, value) if "=" not in name else ()
                yield Case("names of columns", f"{flag} {name[:20]!a}", extra, release(log, *more),
                           frozenset({0, 2, 4}))  # fmt: skip
            for flag in ("--where", "--by"):
                yield Case("values in SQL", f"{flag} {name[:20]!a}", _named(log, form, ["user", "time", "query", "url"]),
                           release(log, flag, f"url={name}"), frozenset({0, 2, 4}))  # fmt: skip


def _named(log: str, form: str, names: list[str]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        if form in FORMATS:
            (root / log).write_text(text(form, names=names), newline="")
            return
        made = table().rename_columns(names)
        if form == "parquet":
            pq.write_table(made, root / log)
        else:
            with duckdb.connect(str(root / log)) as connection:
                connection.register("made", made)
                connection.execute("CREATE TABLE log AS SELECT * FROM made")

    return make


def _cells() -> Iterator[Case]:
    import csv
    import io
    import json

    for cell in CELLS:
        for role in ("user", "query", "url", "time"):
            row = {"user": "u1", "time": "2026-01-01", "query": "q", "url": "a.example", role: cell}
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerow(row.values())
            yield _case("cells", f"{role} {cell[:20]!a}", "log.csv", text("csv") + out.getvalue())
            line = json.dumps(row)
            yield _case("cells", f"{role} {cell[:20]!a}", "log.jsonl", text("jsonl") + line)


def _headless() -> Iterator[Case]:
    for form in ("csv", "tsv"):
        between = {"csv": ",", "tsv": "\t"}[form]
        for first in (
            [USER, QUERY], ["17", QUERY], [QUERY], [USER, "2026-01-31 18:00:00", QUERY, "a.example"],
            [QUERY, "x"], ["user", QUERY], [f"{QUERY} {n}" for n in range(5)],
        ):  # fmt: skip
            content = between.join(first) + "\n" + "u1" + between + "q\n"
            codes = frozenset({4})
            for more in (
                (),
                ("--columns", "user=a,query=b"),
                ("--where", "a=b"),
                ("--by", "a=b,c"),
            ):
                yield _case(
                    "no header",
                    f"{len(first)} fields",
                    f"log.{form}",
                    content * 3,
                    *more,
                    codes=codes,
                )


def _parquet() -> Iterator[Case]:
    texts = [f"common {n % 2}" for n in range(60)] + [QUERY]
    numbers = list(range(61))
    types: dict[str, pa.Array] = {
        "list": pa.array([[t] for t in texts]),
        "struct": pa.array([{"a": t} for t in texts]),
        "map": pa.array([[("k", t)] for t in texts], pa.map_(pa.string(), pa.string())),
        "list of structs": pa.array([[{"a": [t]}] for t in texts]),
        "dictionary": pa.array(texts).dictionary_encode(),
        "large string": pa.array(texts, pa.large_string()),
        "binary": pa.array([t.encode() for t in texts], pa.binary()),
        "bytes that are no text": pa.array([t.encode() + b"\xff\x00" for t in texts], pa.binary()),
        "fixed binary": pa.array([b"abcd"] * 61, pa.binary(4)),
        "decimal": pa.array(numbers, pa.decimal128(38, 3)),
        "large decimal": pa.array(numbers, pa.decimal256(60, 3)),
        "bool": pa.array([n % 2 == 0 for n in numbers]),
        "null": pa.nulls(61),
        "float16": pa.array(numbers, pa.float16()),
        "float": pa.array([float("nan"), float("inf"), *map(float, numbers[2:])]),
        "time32": pa.array(numbers, pa.time32("ms")),
        "time64": pa.array(numbers, pa.time64("ns")),
        "date32": pa.array(numbers, pa.date32()),
        "date32, far": pa.array([2**31 - 1] * 61, pa.int32()).cast(pa.date32()),
        "date64": pa.array(numbers, pa.date64()),
        "duration": pa.array(numbers, pa.duration("us")),
        "uint64": pa.array([2**64 - 1] * 61, pa.uint64()),
        "int8": pa.array(numbers, pa.int8()),
        "timestamp s": pa.array([2**40] * 61, pa.timestamp("s")),
        "timestamp ns": pa.array([2**62] * 61, pa.timestamp("ns")),
        "timestamp, far": pa.array([2**63 - 1] * 61, pa.timestamp("us")),
        "timestamp on Mars": pa.array(numbers, pa.timestamp("us", "Mars/Phobos")),
        "run-end encoded": pa.array(texts),
    }

    def make(made: pa.Table) -> Callable[[Path], None]:
        return lambda root: pq.write_table(made, root / "log.parquet")

    sound = table()
    for what, column in types.items():
        for place, role in enumerate(sound.column_names):
            made = sound.set_column(place, role, column)
            yield Case("Parquet", f"{role} is {what}", make(made), release("log.parquet"))
        made = sound.append_column("rank", column)
        yield Case("Parquet", f"rank is {what}", make(made), release("log.parquet"))
        yield Case(
            "Parquet", f"where {what}", make(made), release("log.parquet", "--where", "rank=1")
        )
    yield Case("Parquet", "no rows", make(sound.slice(0, 0)), release("log.parquet"), REFUSED)
    yield Case("Parquet", "no columns", make(pa.table({})), release("log.parquet"), REFUSED)
    twice = pa.Table.from_arrays([*sound.columns, sound["user"]], [*sound.column_names, "user"])
    yield Case("Parquet", "a column twice", make(twice), release("log.parquet"), REFUSED)
    two = sound.append_column("USER", sound["url"])
    yield Case("Parquet", "a column in two cases", make(two), release("log.parquet"))
    for what, content in {
        "only the mark": b"PAR1", "two marks": b"PAR1PAR1", "a footer of 2 GB": b"PAR1\xff\xff\xff\x7fPAR1",
        "encrypted": b"PARE" * 9, "no byte": b"", "text": text("csv").encode(), "zeros": bytes(9999),
    }.items():  # fmt: skip
        yield _case("Parquet", what, "log.parquet", content, codes=REFUSED)

    def rows_for_nothing(root: Path) -> None:
        many = pa.repeat("common", 1 << 20)
        piece = pa.table({"user": many, "query": many})
        with pq.ParquetWriter(root / "log.parquet", piece.schema) as file:
            for _ in range(60):
                file.write_table(piece)

    yield Case("bombs", "Parquet, equal rows", rows_for_nothing, release("log.parquet"), REFUSED)

    def a_wide_value(root: Path) -> None:
        wide = table().append_column("more", pa.array(["x" * 200_000_000] + [""] * 60))
        pq.write_table(wide, root / "log.parquet", compression="zstd")

    yield Case(
        "bombs", "Parquet, one huge value", a_wide_value, release("log.parquet"), most=2 << 30
    )

    def other_types(root: Path) -> None:
        (root / "logs").mkdir()
        pq.write_table(sound, root / "logs" / "a.parquet")
        pq.write_table(sound.set_column(0, "user", types["struct"]), root / "logs" / "b.parquet")

    yield Case("Parquet", "files of different types", other_types, release("logs"))


def _duckdb() -> Iterator[Case]:
    def made(*statements: str) -> Callable[[Path], None]:
        def make(root: Path) -> None:
            with duckdb.connect(str(root / "log.duckdb")) as connection:
                connection.register("made", table())
                for statement in statements:
                    connection.execute(statement)

        return make

    log = "CREATE TABLE log AS SELECT * FROM made"
    yield Case("DuckDB", "no table", made(), release("log.duckdb"), REFUSED)
    yield Case(
        "DuckDB",
        "two tables",
        made(log, "CREATE TABLE b AS SELECT 1"),
        release("log.duckdb"),
        REFUSED,
    )
    view = made(log, "CREATE VIEW v AS SELECT * FROM read_csv('/etc/passwd')")
    yield Case("DuckDB", "a view of files", view, release("log.duckdb::v"), REFUSED)
    for name in NAMES:
        own = made('CREATE TABLE "{}" AS SELECT * FROM made'.format(name.replace('"', '""')))
        yield Case("DuckDB", f"table {name[:20]!a}", own, release("log.duckdb"))
        yield Case(
            "DuckDB",
            f"asks for {name[:20]!a}",
            made(log),
            release(f"log.duckdb::{name}"),
            frozenset({2, 4}),
        )
    schema = made("CREATE SCHEMA s", "CREATE TABLE s.log AS SELECT * FROM made")
    yield Case("DuckDB", "in a schema", schema, release("log.duckdb"))
    for kind in ("ENUM('a')", "UNION(a INT, b VARCHAR)", "BIT", "HUGEINT", "UHUGEINT", "UUID", "INTERVAL",
                 "TIME", "TIMETZ", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMPTZ", "BLOB", "VARCHAR[3]",
                 "STRUCT(a INT)", "MAP(INT, INT)", "DECIMAL(38,10)", "JSON", "BIGNUM", "INT[][]"):  # fmt: skip
        for role in ("user", "query", "time", "url", "rank"):
            names = {"user": "VARCHAR", "query": "VARCHAR", role: kind}
            columns = ", ".join(f'"{name}" {each}' for name, each in names.items())
            own = made(f"CREATE TABLE log ({columns})", 'INSERT INTO log ("user", "query") SELECT DISTINCT NULL, NULL' if role in ("user", "query") else 'INSERT INTO log ("user", "query") SELECT "user", query FROM made')  # fmt: skip
            yield Case("DuckDB", f"{role} is {kind}", own, release("log.duckdb"))
    for what, content in {
        "text": text("csv").encode(), "no byte": b"", "zeros": bytes(20_000), "SQLite": b"SQLite format 3\x00" + bytes(4000),
        "only the mark": bytes(8) + b"DUCK" + bytes(50),
    }.items():  # fmt: skip
        yield _case("DuckDB", what, "log.duckdb", content, codes=REFUSED)


def _changed(choice: random.Random, share: float) -> Iterator[Case]:
    """Sound logs with a few bytes changed."""
    import tempfile

    sound: dict[str, bytes] = {f"log.{form}": text(form).encode() for form in FORMATS}
    sound |= {f"log.{f}.{h}": packed(sound[f"log.{f}"], h) for f in FORMATS for h in ("gz", "zst")}
    aol = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    sound["aol.txt"] = aol.encode() + b"".join(
        b"%d\tcommon %d\t2006-03-01 0%d:00:00\t1\thttp://a.example\n" % (n, n % 2, n % 9)
        for n in range(60)
    )
    sound["sogou.txt"] = b"".join(
        b"00:00:0%d\t%d\t[common %d]\t1 2\ta.example\n" % (n % 9, 9000 + n, n % 2)
        for n in range(60)
    )
    sound["excite.txt"] = b"".join(
        b"%d\t97091600000%d\tcommon %d\n" % (n, n % 9, n % 2) for n in range(60)
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for form in ("parquet", "duckdb"):
            _named(f"log.{form}", form, ["user", "time", "query", "url"])(root)
            sound[f"log.{form}"] = (root / f"log.{form}").read_bytes()
    for name, content in sound.items():
        for n in range(round((40 if "duckdb" not in name else 20) * share)):
            yield _case("bytes changed", f"{name} {n}", name, mutated(content, choice))
