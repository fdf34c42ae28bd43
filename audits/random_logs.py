"""Random small logs whose meaning is known, written in many types, formats and places.

Every value is drawn together with what docs/reference/sources.md says that it means, so that a model need not
read the file that an engine reads.
"""

import itertools
import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle.canonical import CANONICAL, cleaner
from murmurlog.bundle.keys import clean_url

QUERIES = (
    *("red", "Red", " red ", "blue shoes", "blue  shoes", "BLUE SHOES", "İstanbul", "istanbul"),
    *("straße", "STRASSE", "ﬁre", "fire", "東京 天気", "ขอบคุณ", "e\u0301", "é", "a\x00b", "a\nb"),
    *("tab\there", "\u200b", "  ", "", "mail@x.org", "4111 1111 1111 1111", "x'y", '"q"', "a,b"),
    *("back\\slash", "${x}", "%_", "[&&c]", "\ufdd0", "\ufeffbom", "👩\u200d🔬", "~", "null", "1"),
)
USERS = ("a", "A", "b", "ü", " ", "u|1", "2024-01-01|a", "null", "u\x00", "")
URLS = (
    *("http://www.Example.com/A?b=c#d", "example.com/A", "https://exämple.de/ü", "not a url"),
    *("http://[bad", "http://u:p@h.org:80/x/", "h.org/x", "HTTP://EXAMPLE.ORG/", "", "doc 7"),
    *("aBcD", "abcd", "SKU 12/A", "//X.org/A", "www.Example.com/A?b=c", "e\u0301", "é"),
)
COUNTRIES = ("DE", "FR", "ÑÑ", "", "de")
BAD_TIMES = ("x", "2023-02-29", "2024-01-05 25:00:00", "12:30", "yesterday")
# Pauses between queries, in microseconds: up to a session's longest, and just beyond.
PAUSES = (0, 0, 1, 60_000_000, 1_799_999_999, 1_800_000_000, 1_800_000_001, 86_400_000_000)
TIMES = (
    "us",
    "ms",
    "zone",
    "int96",
    "date",
    "text",
    "text",
    "unix s",
    "unix ms",
    "unix us",
    "float",
)
FORMATS = ("parquet",) * 6 + ("csv", "tsv", "jsonl", "duckdb")
# Names that a URI, a list, a partition or a shell would read in another way; and a pattern.
ODD = ("plain", "a b", "day=1", "ü", "100%", "a%20b", "a+b#c", "a:b", "a,b", "{a}", "~$'", "a\\b")
PATTERNS = ("[a]", "a*b", "a?b", "**")


UNITS = ("user", "user", "user-day", "user-week", "user-month")
FOLLOWING = ("click", "pair", "session")  # tables that name queries
LISTED = ("query", "click", "pair")  # tables whose keys can be public before

Keys = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row as it is meant: texts as they stand in the source, its time, or that it has a bad one."""

    user: str | None
    query: str | None
    url: str | None
    country: str | None
    rank: int | None
    time: datetime | None
    bad_time: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that is asked for, and how its units are bounded."""

    kind: str
    way: str
    count: str = "users"
    per_user: int
    by: tuple[str, ...] = ()  # values of the column country
    seed: int
    gap: float = 1800
    longest: int | None = None  # queries of a session
    repeats: bool | None = None  # of sessions all subsequences, with or without equal neighbours
    set_size: int = 2  # queries of an itemset
    consecutive: bool = False
    known: Keys | None = None  # keys of the query table, if only items of these count
    earlier: Keys = ()  # keys that are public already: not selected, but counted
    pools: tuple[Keys, ...] = ()  # public keys in classes, none of them earlier
    select_from: datetime | None = None  # rows from then on are selected from
    count_from: datetime | None = None

    @property
    def selects(self) -> bool:
        """Whether `rounds` makes it."""
        return self.kind != "session" and self.count == "users"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A log in a place, how it is read, and what is asked about it."""

    number: int
    format: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    cells: tuple[dict[str, Any], ...]  # of each row, as the source has them
    types: dict[str, tuple[pa.DataType, ...]]  # of each column, one or several for its files
    unit: str
    time: str | None
    files: int
    folder: str
    name: str
    url: str
    keys: str | None
    screen: bool
    deny: tuple[str, ...]
    since: str | None
    until: str | None
    where: dict[str, str]
    tables: tuple[Table, ...]
    limits: tuple[int, int, int] | None = None  # rows and bytes of a unit, bytes of a value
    numbered: bool = False  # whether users are whole numbers
    spark: bool = True  # whether Spark reads these types


def case(number: int, seed: int, *, tables: int = 3, whole: bool | None = None) -> Case:
    """A log, always the same for the same numbers; a `whole` one, every third, is long and has every column."""
    whole = number % 3 == 2 if whole is None else whole
    draw = random.Random(f"{seed}:{number}")
    format = draw.choice(FORMATS)
    time = draw.choice((None, *TIMES)) if draw.random() < 0.9 else None
    if format != "parquet" and time is not None:
        time = "text" if format != "duckdb" else draw.choice(("us", "date", "text", "unix s"))
    if whole:
        time = None if number % 4 == 3 else "text" if format in ("csv", "tsv", "jsonl") else "us"
    columns = ["user", "query"] + ["time"] * (time is not None)
    columns += [name for name in ("url", "rank", "country") if whole or draw.random() < 0.75]
    draw.shuffle(columns)
    users = _typed(draw, format)
    rows, cells = [], []
    last = datetime(2024, 1, 1) + timedelta(days=draw.randrange(60), hours=draw.randrange(24))
    for _ in range(draw.choice((60, 120) if whole else (1, 3, 8, 20, 40))):
        last += timedelta(microseconds=draw.choice(PAUSES))
        row, cell = _row(draw, columns, time, last, users, format)
        rows.append(row)
        cells.append(cell)
    order = list(range(len(rows)))
    draw.shuffle(order)
    names = (*ODD, *PATTERNS)
    folder, name = draw.choice(names), draw.choice(names)
    if "\\" in folder + name:  # with a pattern beside it DuckDB refuses the path
        folder, name = (
            "".join(c for c in part if c not in "*?[]") or "plain" for part in (folder, name)
        )
    if format == "duckdb":  # which writes its journal elsewhere if there is a question mark
        folder, name = folder.replace("?", "*"), name.replace("?", "*")
    made = Case(
        number=number, format=format, rows=tuple(rows[i] for i in order), columns=tuple(columns),
        cells=tuple(cells[i] for i in order), types={}, time=time,
        files=min(len(rows), draw.choice((1, 1, 2, 3))) if format != "duckdb" else 1,
        folder=folder, name=name, url=draw.choice(("host", "path", "full", "id")),
        screen=draw.random() < 0.5, deny=draw.choice(((), (), ("red", "blue *"))), keys=None,
        unit=draw.choice(UNITS if time else UNITS[:1]), since=None, until=None, where={}, tables=(),
        numbered=users.numbered, spark=users.spark,
    )  # fmt: skip
    if draw.random() < 0.3:
        limits = (draw.choice((1, 2, 5)), draw.choice((20, 60, 10**6)), draw.choice((12, 10**6)))
        made = replace(made, limits=limits)
    if not made.deny and draw.random() < 0.3:
        made = replace(made, keys=CANONICAL)
    types = {name: _types(draw, name, made, users) for name in columns}
    restricted = {} if whole else _restricted(draw, made)
    return replace(
        made,
        types=types,
        **restricted,
        tables=tuple(_table(draw, made) for _ in range(tables)),
    )


def _restricted(draw: random.Random, made: Case) -> dict[str, Any]:
    """A period and a value of a column."""
    found: dict[str, Any] = {}
    times = sorted(row.time for row in made.rows if row.time)
    if times and draw.random() < 0.25:
        found["since"] = draw.choice(times).isoformat()
    if times and draw.random() < 0.25:
        until = draw.choice(times) + timedelta(seconds=1)
        if "since" not in found or until.isoformat() > found["since"]:
            found["until"] = until.isoformat()
    if "country" in made.columns and draw.random() < 0.2:
        found["where"] = {"country": draw.choice(("DE", ""))}
    return found


def _table(draw: random.Random, made: Case) -> Table:
    """A table and its options. Each option is there by a draw of its own, so that any may meet any other."""
    kinds, ways = ["query", "query", "keyword", "itemset"], ["random"]
    if "url" in made.columns:
        kinds += ["click"] * 3
    if made.time:
        ways += ["first", "first"]
        kinds += ["pair", "pair", "session"]
    kind, way = draw.choice(kinds), draw.choice(ways)
    by: tuple[str, ...] = ()
    if "country" in made.columns and kind not in ("session", "itemset") and draw.random() < 0.4:
        by = draw.choice((("DE", "FR"), ("FR",), ("ÑÑ", "de", "nobody")))
    rows = way == "first" and kind not in ("session", "itemset") and draw.random() < 0.2
    table = Table(
        kind=kind, way=way, count="rows" if rows else "users", by=by,
        per_user=draw.choice((1, 1, 2, 3, 5)), seed=draw.randrange(1000),
        gap=draw.choice((1800, 1800, 1800, 60, 0.5)),
    )  # fmt: skip
    changes: dict[str, Any] = {}
    if kind in FOLLOWING and draw.random() < 0.4:
        changes["known"] = _some_keys(draw, made, "query", by)
    if kind in LISTED and draw.random() < 0.4:
        changes["earlier"] = _some_keys(draw, made, kind, by)
    if kind in LISTED and draw.random() < 0.4:
        new = [
            key for key in _some_keys(draw, made, kind, by) if key not in changes.get("earlier", ())
        ]
        parts = (new[::2], new[1::2]) if draw.random() < 0.5 else (new,)
        changes["pools"] = tuple(tuple(part) for part in parts if part)
    if kind == "session":
        changes["longest"] = draw.choice((None, 2, 3, 4))
        if changes["longest"]:  # else there are too many
            changes["repeats"] = draw.choice((None, False, True))
    if kind == "itemset":
        changes["set_size"] = draw.choice((1, 2, 3))
        changes["consecutive"] = draw.random() < 0.5
        changes["per_user"] = draw.choice((1, 4, 7, 12))
    times = sorted(row.time for row in made.rows if row.time)
    if times:
        for name in ("select_from", "count_from"):
            if draw.random() < 0.4:
                changes[name] = draw.choice(times)
    if changes.get("consecutive"):  # such runs are counted as they were cut
        changes["count_from"] = changes.get("select_from")
    return replace(table, **changes)


def _some_keys(draw: random.Random, made: Case, kind: str, by: tuple[str, ...]) -> Keys:
    """About half of the keys that a table could have. A value of --by is drawn for each by itself."""
    clean = cleaner(made.keys)
    queries = sorted({key for row in made.rows if (key := clean(row.query or ""))})
    urls = sorted({key for row in made.rows if (key := clean_url(row.url or "", made.url))})
    columns = [queries, *([urls] if kind == "click" else [queries] if kind == "pair" else [])]
    every = itertools.product(*columns, *([by] if by else []))
    return tuple(key for key in every if draw.random() < 0.5)


# Values


@dataclass(frozen=True, kw_only=True)
class Typed:
    """How the users of a log are written: a value and its text for each number."""

    types: tuple[pa.DataType, ...]
    value: Callable[[int], Any]
    text: Callable[[int], str]
    numbered: bool = False
    spark: bool = True


def _same(i: int) -> str:
    return USERS[i % len(USERS)]


TEXT = Typed(types=(pa.string(), pa.large_string()), value=_same, text=_same)
USER_TYPES = (
    Typed(types=(pa.int64(), pa.int32(), pa.int16(), pa.int8()), value=lambda i: i - 3,
          text=lambda i: str(i - 3), numbered=True),
    Typed(types=(pa.decimal128(10, 2), pa.decimal128(38, 2)), value=lambda i: Decimal(i) / 4,
          text=lambda i: f"{Decimal(i) / 4:.2f}"),
    Typed(types=(pa.bool_(),), value=lambda i: i % 2 == 0, text=lambda i: str(i % 2 == 0).lower()),
    Typed(types=(pa.date32(),), value=lambda i: date(2000, 1, 1 + i), text=lambda i: f"2000-01-{1 + i:02}"),
    Typed(types=(pa.binary(), pa.binary(3)), value=lambda i: b"u\xff" + bytes([65 + i]),
          text=lambda i: f"u\\xFF{chr(65 + i)}"),
    Typed(types=(pa.list_(pa.int32()),), value=lambda i: [i, None], text=lambda i: f"[{i}, NULL]"),
    Typed(types=(pa.uuid(),), value=lambda i: uuid.UUID(int=i).bytes,
          text=lambda i: str(uuid.UUID(int=i)), spark=False),
)  # fmt: skip


def _typed(draw: random.Random, format: str) -> Typed:
    if format != "parquet" or draw.random() < 0.6:
        return TEXT
    return USER_TYPES[0] if draw.random() < 0.5 else draw.choice(USER_TYPES)


def _types(draw: random.Random, name: str, made: Case, users: Typed) -> tuple[pa.DataType, ...]:
    """The types of a column, of which each file has one."""
    if name == "user":
        several = users.types
    elif name == "rank":
        several = (pa.int64(), pa.int32())
    elif name == "time":
        several = _time_types(str(made.time))
    else:
        several = (pa.string(), pa.large_string())
    return tuple(draw.choice(several) for _ in range(made.files))


def _time_types(time: str) -> tuple[pa.DataType, ...]:
    return {
        "us": (pa.timestamp("us"), pa.timestamp("us")), "ms": (pa.timestamp("ms"), pa.timestamp("us")),
        "zone": (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")),
        "int96": (pa.timestamp("ns"),), "date": (pa.date32(),), "text": (pa.string(),),
        "float": (pa.float64(),),
    }.get(time, (pa.int64(),))  # fmt: skip


def _row(
    draw: random.Random,
    columns: Sequence[str],
    time: str | None,
    moment: datetime,
    users: Typed,
    format: str,
) -> tuple[Row, dict[str, Any]]:
    """A row as it is meant, and its cells."""

    def text(values: Sequence[str], none: float) -> str | None:
        chosen = draw.choice(values)
        if format in ("tsv", "csv"):  # tabs end fields, and nothing is no text
            chosen = "".join(c for c in chosen if c not in "\t\r\n") if format == "tsv" else chosen
            return chosen or None
        return None if draw.random() < none else chosen

    cells: dict[str, Any] = {
        "query": text(QUERIES, 0.05), "url": text(URLS, 0.3), "country": text(COUNTRIES, 0.1),
        "rank": draw.choice((None, 1, 7, 2**31 - 1)),
    }  # fmt: skip
    number = draw.randrange(8 if draw.random() < 0.5 else 3)
    none = draw.random() < 0.03
    shown = text([users.text(number)], 0) if users is TEXT else users.text(number)
    cells["user"] = None if none else shown if users is TEXT else users.value(number)
    user = None if none else shown
    when, bad = None, False
    if time:
        cells["time"], when, bad = _time(draw, time, moment)
    meant = {name: cells[name] if name in columns else None for name in ("query", "url", "country")}
    row = Row(user=user, time=when, bad_time=bad, **meant,
              rank=cells["rank"] if "rank" in columns and "url" in columns else None)  # fmt: skip
    return row, {name: cells[name] for name in columns}


def _time(draw: random.Random, kind: str, moment: datetime) -> tuple[Any, datetime | None, bool]:
    """A cell, the moment that it means, and whether it means none although there is something."""
    if draw.random() < 0.05:
        return None, None, False
    milli = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    second = moment.replace(microsecond=0)
    if kind == "text":
        return _time_text(draw, moment)
    if kind == "date":
        midnight = datetime.combine(moment.date(), datetime.min.time())
        return moment.date(), midnight, False
    if kind == "ms":
        return milli, milli, False
    if kind == "zone":
        return moment.replace(tzinfo=UTC), moment, False
    if kind == "unix s":
        return int(_unix(second)), second, False
    if kind == "unix ms":
        return round(_unix(milli) * 1000), milli, False
    if kind == "unix us":
        return round(_unix(milli) * 1000) * 1000, milli, False
    if kind == "float":
        return (float("nan"), None, True) if draw.random() < 0.1 else (_unix(milli), milli, False)
    return moment, moment, False


def _unix(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


def _time_text(draw: random.Random, moment: datetime) -> tuple[str | None, datetime | None, bool]:
    if draw.random() < 0.1:
        return draw.choice(BAD_TIMES), None, True
    if draw.random() < 0.05:
        return " ", None, False
    how = draw.randrange(5)
    if how == 0:
        second = moment.replace(microsecond=0)
        return str(int(_unix(second))), second, False
    if how == 1:
        away = moment + timedelta(hours=2)
        return f"{away.isoformat(timespec='microseconds')}+02:00", moment, False
    if how == 2:
        return f"{moment.isoformat(sep=' ', timespec='microseconds')}Z", moment, False
    return moment.isoformat(sep=draw.choice(" T"), timespec="microseconds"), moment, False


def batches(made: Case, rows: Sequence[Row], size: int, *, by: bool) -> Iterator[pa.RecordBatch]:
    """Rows as the engine gives them to who cleans them, so many at a time."""
    users = pa.int64() if made.numbered else pa.string()
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        columns: dict[str, pa.Array] = {
            "user": pa.array([None if r.user is None else int(r.user) for r in some], users)
            if made.numbered
            else pa.array([row.user for row in some], users),
            "query": pa.array([row.query for row in some], pa.string()),
        }
        if made.time:
            columns["time"] = pa.array([row.time for row in some], pa.timestamp("us"))
            columns["bad_time"] = pa.array([row.bad_time for row in some])
        if "url" in made.columns:
            columns["url"] = pa.array([row.url for row in some], pa.string())
            columns["rank"] = pa.array([row.rank for row in some], pa.int32())
        if by:
            columns["k0"] = pa.array([row.country for row in some], pa.string())
        yield pa.record_batch(columns)


# Places


def write(made: Case, home: Path) -> str:
    """Writes a log below a folder of its own and says what to call it."""
    folder = home / made.folder
    folder.mkdir()
    if made.files == 1 and made.format == "parquet":
        for twin in {"a*b": ("axb",), "a?b": ("axb",), "[a]": ("a",), "**": ("x",)}.get(
            made.name, ()
        ):
            # It matches the name, were that a pattern, and nobody asked for it.
            stranger = pa.table({"user": ["stranger"], "query": ["not asked for"]})
            pq.write_table(stranger, folder / f"{twin}0.parquet")
    for i in range(made.files):
        cells = made.cells[i :: made.files]
        path = folder / f"{made.name}{i}.{made.format}"
        _WRITERS.get(made.format, _parquet)(made, cells, path, i)
    if made.files > 1:
        return str(folder)
    return f"{path}::log" if made.format == "duckdb" else str(path)


def arrow(made: Case, cells: Sequence[dict[str, Any]], file: int) -> pa.Table:
    """Some rows as a table."""
    columns = {}
    for name in made.columns:
        kind = made.types[name][file]
        values = [cell[name] for cell in cells]
        if kind == pa.uuid():
            columns[name] = pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
        else:
            columns[name] = pa.array(values, kind)
    return pa.table(columns)


def _parquet(made: Case, cells: Sequence[dict[str, Any]], path: Path, file: int) -> None:
    pq.write_table(
        arrow(made, cells, file), path, row_group_size=7,
        use_deprecated_int96_timestamps=made.time == "int96",
    )  # fmt: skip


def _csv(made: Case, cells: Sequence[dict[str, Any]], path: Path, file: int) -> None:
    def shown(value: Any) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text

    lines = [",".join(made.columns)]
    lines += [",".join(shown(cell[name]) for name in made.columns) for cell in cells]
    path.write_bytes("\n".join([*lines, ""]).encode())


def _tsv(made: Case, cells: Sequence[dict[str, Any]], path: Path, file: int) -> None:
    lines = ["\t".join(made.columns)]
    lines += [
        "\t".join("" if cell[name] is None else str(cell[name]) for name in made.columns)
        for cell in cells
    ]
    path.write_bytes("\n".join([*lines, ""]).encode())


def _jsonl(made: Case, cells: Sequence[dict[str, Any]], path: Path, file: int) -> None:
    path.write_text("".join(json.dumps(cell) + "\n" for cell in cells), encoding="utf-8")


def _duckdb(made: Case, cells: Sequence[dict[str, Any]], path: Path, file: int) -> None:
    table = arrow(made, cells, file)
    with duckdb.connect(str(path)) as connection:
        connection.register("incoming", table)
        connection.execute("CREATE TABLE log AS SELECT * FROM incoming")


_WRITERS: dict[str, Callable[[Case, Sequence[dict[str, Any]], Path, int], None]] = {
    "csv": _csv, "tsv": _tsv, "jsonl": _jsonl, "duckdb": _duckdb,
}  # fmt: skip
