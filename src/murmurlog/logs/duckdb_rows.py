"""The rows of a source, unchanged, and counts of the records that could not be read.

Every record is split, decoded and checked on its own (A8). A first SELECT renames the columns that
are read (c0, c1, ...), so that a source may give its columns any names. Uses DuckDB's SQL, and Ibis
for typed fields: DuckDB parses times, also on Spark's workers (`spark_rows`), so that all engines
read the same time from a string.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.bundle.progress import measure
from murmurlog.errors import EngineError, InputError
from murmurlog.logs.engines.duckdb import OUT_OF_MEMORY, DuckEngine, identifier, literal, quoted
from murmurlog.logs.formats import Shape, day_of, field_sql, pieces, time_sql
from murmurlog.logs.parquet_types import types_of
from murmurlog.logs.postgres import Address, batches
from murmurlog.logs.records import Records, cut
from murmurlog.logs.source import Source
from murmurlog.logs.times import pattern

USER_NUMBER = "user_number"  # a column of rows: users as whole numbers, if they are
ROWS_A_BATCH = 20_000
WHOLE_NUMBERS = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT")
MOST_WHOLE = 2**64  # floats below it are written as integers are, if they are whole
STANDARD = ("user", "time", "query", "url", "rank")


def raw_rows(
    source: Source,
    engine: DuckEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Any:
    """Every row of the source: user, query, url, time, timed (whether a time was given), rank, then
    the columns kept as k0, k1 and so on."""
    name = engine.new_name()
    try:
        if source.format in ("parquet", "duckdb"):
            if source.format == "parquet":  # one file's type must not change another's values
                types_of(source.files, needed_columns(source, where, keep), source.name)
            # Columns are cheap to scan again, so they are not copied.
            relation = _relation(source, engine)
            select = select_sql(
                source, relation, where, keep, numbered=_numbered(source, relation, engine)
            )
            engine.sql(f"CREATE VIEW {name} AS {select}")
        else:
            _fill(name, source, engine, broken, where, keep, say)
    except duckdb.OutOfMemoryException:
        raise EngineError(OUT_OF_MEMORY) from None
    except duckdb.Error as error:
        raise InputError(f"cannot read {source.name}: {_why(error)}") from None
    raw = engine.backend.table(name)
    if "fault" in raw.columns:
        for reason, n in engine.sql(
            f"SELECT fault, count(*) FROM {name} WHERE fault IS NOT NULL GROUP BY ALL"
        ).fetchall():
            broken[reason] = broken.get(reason, 0) + n
        raw = raw.filter(raw.fault.isnull())
    return with_types(raw, source)


def with_types(raw: Any, source: Source) -> Any:
    """The rows with typed fields, in the column order that all engines share."""
    kept = [name for name in raw.columns if re.fullmatch(r"k\d+", name)]
    number = {name: raw[name] for name in raw.columns if name == USER_NUMBER}
    return raw.select("user", "query", "url", *kept, **_types(raw, source), **number)


def _numbered(source: Source, relation: str, engine: DuckEngine) -> bool:
    """Whether users are whole numbers: by the column's type, never by its rows."""
    column = identifier(source.columns["user"])
    described = engine.sql(f"DESCRIBE SELECT src.{column} FROM {relation} AS src").fetchall()
    return described[0][1] in WHOLE_NUMBERS and not missing_texts(source, "user")


def _types(rows: Any, source: Source) -> dict[str, Any]:
    """`time` as a timestamp in UTC, `timed`, whether one was given, and `rank` as a number."""
    time = rows.time
    if time.type().is_string():
        time = time.strip().nullif("")
        if source.missing:
            time = ibis.ifelse(time.isin(source.missing), ibis.null("string"), time)
    given = source.time_format if "time" in source.columns else None
    return {
        "time": _parsed(time) if given is None else _formatted(time, given, source),
        "timed": time.notnull(),
        "rank": rows["rank"].try_cast("int32"),
    }


def _try_strptime(text: Any, time_format: Any) -> Any:
    """DuckDB's own; null where it cannot read a time. Without %z it is in UTC."""


_SIGNATURE = (("string", "string"), "timestamp('UTC', 6)")
TRY_STRPTIME: Any = ibis.udf.scalar.builtin(
    _try_strptime, name="try_strptime", signature=_SIGNATURE
)


def _formatted(time: Any, time_format: str, source: Source) -> Any:
    """A timestamp in UTC of text in the owner's format; null for any other text."""
    kind = time.type()
    if kind.is_temporal():
        raise InputError(
            f'the column "{source.columns["time"]}" of {source.name} is a time already: leave '
            "--time-format out"
        )
    text = time if kind.is_string() else time.cast("string")
    matching = ibis.ifelse(text.re_search(pattern(time_format)), text, ibis.null("string"))
    found = TRY_STRPTIME(matching, ibis.literal(time_format))
    return _in_years(found.cast("timestamp(6)"))


def _parsed(time: Any) -> Any:
    """A timestamp in UTC: typed columns as they are, text as ISO 8601, numbers as Unix time.

    Null outside the years 1 to 9999, infinity included.
    """
    if time.type().is_numeric():
        return _unix(time.cast("float64"))
    if time.type().is_timestamp() or time.type().is_date():
        return _in_years(time.cast("timestamp(6)"))
    if not time.type().is_string():
        time = time.cast("string")
    digits = time.re_search(r"^[0-9]{9,19}(\.[0-9]+)?$")
    # DuckDB reads an offset only for a type that has a zone, and that takes four times as long.
    offset = time.re_search(r":[0-9.]+ ?[+-][0-9]{2}(:?[0-9]{2})?$")
    zoned = time.try_cast("timestamp('UTC', 6)").cast("timestamp(6)")
    text = ibis.ifelse(offset, zoned, time.try_cast("timestamp(6)"))
    return ibis.ifelse(digits, _unix(time.try_cast("float64")), _in_years(text))


def _in_years(time: Any) -> Any:
    inside = (time >= ibis.timestamp("0001-01-01")) & (time < ibis.timestamp("9999-12-31"))
    return ibis.ifelse(inside, time, ibis.null("timestamp(6)"))


def _unix(number: Any) -> Any:
    """Unix seconds, milli-, micro- or nanoseconds, distinguished by size, to the millisecond.

    Null before the year 1 or beyond nanoseconds of 64 bits.
    """
    # Tested explicitly: comparisons miss a NaN that the statistics of a Parquet file leave out.
    inside = ~number.isnan() & (number >= -62_135_596_800) & (number < 1e19)
    number = ibis.ifelse(inside, number, ibis.null("float64"))
    milli = ibis.cases(
        (number < 1e11, number * 1e3),
        (number < 1e14, number),
        (number < 1e17, number / 1e3),
        else_=number / 1e6,
    )
    return milli.round().as_timestamp("ms").cast("timestamp(6)")


def needed_columns(source: Source, where: Mapping[str, str], keep: Sequence[str]) -> list[str]:
    """The columns of the source that are read; number i is called c{i} from then on."""
    return list(dict.fromkeys([*source.columns.values(), *where, *keep]))


def select_sql(
    source: Source,
    relation: str,
    where: Mapping[str, str],
    keep: Sequence[str],
    day: str = "",
    numbered: bool = False,
) -> str:
    """SQL: the rows of a relation that meet `where`; broken rows pass, to be counted later.

    The relation has the source's own columns, or what `_fill` makes of them. With `numbered`, users are
    there as whole numbers, too.
    """
    names = needed_columns(source, where, keep)
    own = {name: f"c{i}" for i, name in enumerate(names)}
    columns = [_role(source, role, own, day) for role in STANDARD]
    columns += [f"{own[name]} AS k{i}" for i, name in enumerate(keep)]
    passes = "false"
    if source.server or source.keyed:
        columns.append("fault")
        passes = "fault IS NOT NULL"
    tests = [f"coalesce({own[name]}, '') = {quoted(value)}" for name, value in where.items()]
    fine = " AND ".join(tests) or "true"
    given = [*_rename(source, names)]
    if numbered:
        columns.append(USER_NUMBER)
        given.append(f"src.{identifier(source.columns['user'])}::BIGINT AS {USER_NUMBER}")
    renamed = f"(SELECT {', '.join(given)} FROM {relation} AS src)"
    return f"SELECT {', '.join(columns)} FROM {renamed} WHERE {passes} OR ({fine})"


def _rename(source: Source, names: Sequence[str]) -> Iterator[str]:
    """The SQL of c0, c1, ... as text, of `moment`, a time with its type, and of `fault`."""
    time = source.columns.get("time")
    if source.server:
        yield from (f"src.c{i}" for i in range(len(names)))
        yield "src.time AS moment"
        yield "CASE WHEN src.out_of_range THEN 'time out of range' END AS fault"
    elif source.lines:
        for i, name in enumerate(names):
            yield f"{field_sql(source.lines, source.lines.columns.index(name))} AS c{i}"
    elif source.keyed:
        yield from (f"src.found[{i + 1}] AS c{i}" for i in range(len(names)))
        yield "CASE WHEN src.found IS NULL THEN 'not JSON' END AS fault"
    else:
        # A collation of a database may treat different texts as equal (COLLATE NOACCENT).
        exact = " COLLATE C" if source.format == "duckdb" else ""
        for i, name in enumerate(names):
            yield f"{_plain_text(f'src.{identifier(name)}')}{exact} AS c{i}"
        if time:
            yield f"src.{identifier(time)} AS moment"


def _plain_text(column: str) -> str:
    """The SQL of a column's text; whole numbers have their digits, also in a column of floats.

    pandas makes floats of integers beside one that is missing.
    """
    text = f"{column}::VARCHAR"
    number = f"TRY_CAST({text} AS DOUBLE)"
    whole = f"{number} = trunc({number}) AND abs({number}) < {MOST_WHOLE}"
    return (
        f"(CASE WHEN typeof({column}) IN ('FLOAT', 'DOUBLE') AND {whole} "
        f"THEN {number}::HUGEINT::VARCHAR ELSE {text} END)"
    )


def _role(source: Source, role: str, own: Mapping[str, str], day: str) -> str:
    """The SQL of one role, as text (a time keeps its type if it has one)."""
    if role not in source.columns:
        return f"NULL::{'TIMESTAMP' if role == 'time' else 'VARCHAR'} AS {role}"
    value = own[source.columns[role]]
    if role == "time":
        typed = bool(source.server) or source.format in ("parquet", "duckdb")
        if typed or source.time_format:
            value = "moment" if typed else value
        else:
            value = time_sql(source.shape, value, day)
    elif nothing := missing_texts(source, role):
        value = (
            f"CASE WHEN {value} IN ({', '.join(map(quoted, nothing))}) THEN NULL ELSE {value} END"
        )
    return f"{value} AS {role}"


def missing_texts(source: Source, role: str) -> tuple[str, ...]:
    """Texts that stand for no value; of a time, `with_types` knows whether it is text."""
    return source.nothing if role in ("url", "rank") else source.missing


def _fill(
    name: str,
    source: Source,
    engine: DuckEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Creates a table from a stream of batches."""
    names, made = needed_columns(source, where, keep), False
    advance = measure(say, total=_size(source))
    with closing(_stream(source, names, broken, partial(advance, rows=0))) as stream:
        for batch, day in stream:
            engine.backend.con.register("incoming", batch)
            select = select_sql(source, _incoming(source, names), where, keep, day)
            engine.sql(
                f"INSERT INTO {name} {select}" if made else f"CREATE TABLE {name} AS {select}"
            )
            engine.backend.con.unregister("incoming")
            made = True
            advance(0, rows=batch.num_rows)


def _size(source: Source) -> int | None:
    """The bytes of the source's files, for the share that was read; None on a server."""
    with suppress(OSError):  # a file that is gone is reported where it is read
        return sum(file.stat().st_size for file in source.files) or None
    return None


def count_rows(source: Source) -> int | None:
    """How many rows the files say they have; None if they do not say it."""
    if source.format != "parquet" or not source.files:
        return None
    with suppress(OSError, pa.ArrowInvalid):
        return sum(int(pq.read_metadata(file).num_rows) for file in source.files)
    return None


def _incoming(source: Source, names: Sequence[str]) -> str:
    """The relation that a batch is; of JSON, `found` has the values of a line, if it is JSON."""
    if not source.keyed:
        return "incoming"
    # JSON pointers, because paths have wildcards; only for objects: pointers also index arrays.
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in names]
    values = f"json_extract_string(f0, [{', '.join(map(quoted, pointers))}])"
    nothing = f"[{', '.join(['NULL::VARCHAR'] * len(names))}]"
    return (
        f"(SELECT CASE WHEN NOT json_valid(f0) THEN NULL WHEN starts_with(bare, '{{') THEN {values} "
        f"ELSE {nothing} END AS found "
        "FROM (SELECT f0, trim(f0, ' ' || chr(9) || chr(13)) AS bare FROM incoming) WHERE bare <> '')"
    )


def _stream(
    source: Source, names: Sequence[str], broken: dict[str, int], read: Callable[[int], None]
) -> Generator[tuple[Any, str], None, None]:
    """Batches of rows, an empty one first, each with the day for times without a date."""
    if source.server:
        yield from ((batch, "") for batch in _from_server(source, source.server, names))
        return
    shape = source.lines
    places = [shape.columns.index(name) for name in names] if shape else [0]
    if shape and shape.name == "sogou":
        places = list(range(shape.most))  # which field is a column depends on their number
    yield _table(None, places), ""
    for file, compression, encoding in zip(
        source.files, source.compressions, source.encodings, strict=True
    ):
        assert source.dialect is not None
        dialect, day = source.dialect, day_of(file)
        stream = pieces(file, compression, read=read)
        header = None if shape is None or shape.well_known else shape.columns
        for records in cut(stream, dialect, encoding=encoding, broken=broken, name=file.name):
            if header and len(records):
                _check_header(records, header, file.name)
                records, header = records.at(np.arange(len(records)) > 0), None
            rows = _rows(records.at(~records.empty), shape, broken)
            yield _table(rows, places), day


def _from_server(source: Source, server: Address, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    texts = {f"c{i}": name for i, name in enumerate(names)}
    with closing(batches(server, texts=texts, time=source.columns.get("time"))) as stream:
        yield from stream


def _check_header(records: Records, columns: Sequence[str], name: str) -> None:
    """Raises if the header changed since the columns were found."""
    start = [field.strip() for field in records.fields[: records.counts[0]].to_pylist()]
    if start != list(columns):
        raise InputError(f"{name} changed while it was read: its first line is another one")


def _rows(records: Records, shape: Shape | None, broken: dict[str, int]) -> Records:
    """The records that are rows: with as many fields as the shape has, and no header."""
    if shape is None:
        return records
    few, many = records.counts < shape.least, records.counts > shape.most
    for reason, some in {"too few columns": few, "too many columns": many}.items():
        broken[reason] = broken.get(reason, 0) + int(some.sum())
    kept = ~(few | many)
    if shape.well_known:
        kept &= ~_headers(records, shape)
    return records.at(kept)


def _headers(records: Records, shape: Shape) -> Any:
    """Which records hold the names of the columns, ignoring case."""
    same = records.counts == len(shape.columns)
    for place, name in enumerate(shape.columns):
        if not same.any():
            break
        trimmed = pc.utf8_trim_whitespace(pc.utf8_ltrim(records.column(place), "\ufeff"))
        equal = pc.equal(pc.ascii_lower(trimmed), name.lower())
        same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return same


def _table(records: Records | None, places: Sequence[int]) -> pa.Table:
    """Some fields of all records as columns f0, f1, ..., and n, how many fields there are."""
    found = records or Records(
        fields=pa.array([], pa.string()), counts=np.zeros(0, np.int64), empty=np.zeros(0, bool)
    )
    columns = {f"f{place}": found.column(place) for place in dict.fromkeys(places)}
    whole = pa.table({**columns, "n": found.counts})
    return pa.Table.from_batches(whole.to_batches(ROWS_A_BATCH), whole.schema)


def _relation(source: Source, engine: DuckEngine) -> str:
    if source.format == "duckdb":
        name = engine.new_name()
        engine.sql(f"ATTACH {quoted(str(source.files[0].resolve()))} AS {name} (READ_ONLY)")
        return f"{name}.main.{identifier(source.table or '')}"
    files = "[" + ", ".join(map(literal, source.files)) + "]"
    return f"read_parquet({files}, union_by_name=true, hive_partitioning=false)"


def _why(error: Exception) -> str:
    """What is wrong, without DuckDB's message, which can quote the log."""
    line = re.search(r"\bLine: (\d+)", str(error), re.IGNORECASE)
    where = f"line {line[1]} cannot be parsed" if line else "it could not be read to its end"
    return f"{where}; it is damaged, or its content does not match its name"
