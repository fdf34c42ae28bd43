"""The rows of a source in typed batches, and counts of the records that could not be read.

Every record is split, decoded and checked on its own (A8). One SELECT of DuckDB turns a relation into
rows, whether that is a file of columns or a batch of records: all sources and engines read the same time
from a string. It first renames the columns that are read (c0, c1, ...), so that a source may give its
columns any names. What it does with a column is decided by the column's declared type, never by rows.
"""

import re
import string
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.errors import InputError
from murmurlog.logs.formats import Shape, day_of, field_sql, pieces, time_sql
from murmurlog.logs.parquet_types import types_of
from murmurlog.logs.postgres import Address, batches
from murmurlog.logs.records import Records, cut
from murmurlog.logs.rows import MOST_BYTES_A_VALUE, TOO_LONG
from murmurlog.logs.source import Source
from murmurlog.logs.sql import identifier, literal, quoted
from murmurlog.logs.times import pattern

ROWS_A_BATCH = 400_000  # that are handed on, of at most so many bytes
BYTES_A_BATCH = 32_000_000
ROWS_A_CHUNK = 2_048  # that DuckDB makes at once
ROWS_A_THREAD = 20_000  # of records, which DuckDB reads with several threads
WHOLE_NUMBERS = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT")
TEXTS = r"VARCHAR|ENUM\(.*\)"
NUMBERS = r"U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)"
MOMENTS = r"TIMESTAMP(?:_S|_MS|_NS| WITH TIME ZONE)?|DATE"
CLOCKS = r"TIME(?:_NS| WITH TIME ZONE)?"
MOST_WHOLE = 2**64  # floats below it are written as integers are, if they are whole
INCOMING = "incoming"  # the relation that a batch of records is

# A time in text: a Unix time, or ISO 8601 with or without an offset.
UNIX_TEXT = r"^[0-9]{9,19}(\.[0-9]+)?$"
WITH_OFFSET = r":[0-9.]+ ?[+-][0-9]{2}(:?[0-9]{2})?$"
YEARS = ("TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31'")
# Unix time from the year 1 on; the largest number is one of nanoseconds.
LEAST_UNIX, MOST_UNIX = "-62135596800", "1e19"

Types = Mapping[str, str]  # of columns, in DuckDB's words


def read_batches(
    source: Source,
    *,
    connection: duckdb.DuckDBPyConnection,
    where: Mapping[str, str],
    keep: Sequence[str],
    urls: bool,
    broken: dict[str, int],
    read: Callable[[int], None] = lambda _: None,
    rows: int = ROWS_A_BATCH,
) -> Generator[pa.RecordBatch, None, None]:
    """Every row of the source that meets `where`, with the columns of `select_sql`; so many in a batch.

    Records that cannot be read are counted in `broken` as they pass. `read` is called with the numbers of
    bytes that were read of files of text.
    """
    names = needed_columns(source, where, keep, urls=urls)
    if source.format in ("parquet", "duckdb"):
        if source.format == "parquet":  # one file's type must not change another's values
            types_of(source.files, names, source.name)
        relation = _relation(source, connection)
        types = column_types(connection, relation, names)
        select = select_sql(source, relation, types, where=where, keep=keep, urls=urls)
        for typed in _run(connection, _without_long_values(connection, select), rows):
            yield _without_faults(typed, broken)
        return
    with closing(_stream(source, names, broken, read)) as stream:
        for batch, day in stream:
            connection.register(INCOMING, batch)
            types = _types_from_server(source, connection)
            select = select_sql(
                source, incoming(source, names), types, where=where, keep=keep, urls=urls, day=day
            )
            for typed in _run(connection, select, rows):
                yield _without_faults(typed, broken)
            connection.unregister(INCOMING)


def _without_long_values(connection: duckdb.DuckDBPyConnection, select: str) -> str:
    """SQL: the rows of a SELECT, with a fault instead of values that are too long.

    A batch ends after some thousand rows at the earliest, so that it must not have such values. Records of
    text are no longer than they may be.
    """
    types = connection.execute(f"DESCRIBE {select}").fetchall()
    texts = [name for name, kind, *_ in types if kind == "VARCHAR"]
    long = " OR ".join(f"strlen({name}) > {MOST_BYTES_A_VALUE}" for name in texts)
    short = {
        name: f"CASE WHEN strlen({name}) <= {MOST_BYTES_A_VALUE} THEN {name} END" for name in texts
    }
    fault = f"CASE WHEN {long} THEN {quoted(TOO_LONG)} END AS fault"
    return f"SELECT * REPLACE ({_as(short)}), {fault} FROM ({select})"


def needed_columns(
    source: Source, where: Mapping[str, str], keep: Sequence[str], *, urls: bool
) -> list[str]:
    """The columns of the source that are read; number i is called c{i} from then on."""
    roles = (name for role, name in source.columns.items() if urls or role not in ("url", "rank"))
    return list(dict.fromkeys([*roles, *where, *keep]))


def column_types(
    connection: duckdb.DuckDBPyConnection, relation: str, names: Sequence[str]
) -> Types:
    """The types that columns of a relation are declared with."""
    columns = ", ".join(f"src.{identifier(name)}" for name in names)
    rows = connection.execute(f"DESCRIBE SELECT {columns} FROM {relation} AS src").fetchall()
    return {name: row[1] for name, row in zip(names, rows, strict=True)}


def select_sql(
    source: Source,
    relation: str,
    types: Types,
    *,
    where: Mapping[str, str],
    keep: Sequence[str],
    urls: bool,
    day: str = "",
) -> str:
    """SQL: the rows of a relation that meet `where`, and broken ones, to be counted later.

    Columns: user (BIGINT if its column is of whole numbers and no text stands for none), query; with
    times time (TIMESTAMP in UTC) and bad_time (whether one is stated that cannot be read); with `urls`
    url and rank (INTEGER); the columns of `keep` as k0, k1, ...; and of records `fault`, null if there is
    none. The relation has the source's own columns, of these types, or those of a batch of records.
    """
    names = needed_columns(source, where, keep, urls=urls)
    own = {name: f"c{i}" for i, name in enumerate(names)}
    rows = f"SELECT {', '.join(_own_columns(source, names, types))} FROM {relation} AS src"
    roles = ["user", "query", *(("url", "rank") if urls else ())]
    columns = {role: _role(source, role, own, types) for role in roles}
    columns |= {f"k{i}": own[name] for i, name in enumerate(keep)}
    fine = [f"coalesce({own[name]}, '') = {quoted(text)}" for name, text in where.items()]
    passes = " AND ".join(fine) or "true"
    if source.server or source.keyed:
        columns["fault"] = "fault"
        passes = f"fault IS NOT NULL OR ({passes})"
    if "time" not in source.columns:
        return f"SELECT {_as(columns)} FROM ({rows}) WHERE {passes}"
    kind = _kind_of_time(source, types)
    stated = own[source.columns["time"]] if kind == "text" else "moment"
    if re.fullmatch(TEXTS, types.get(source.columns["time"], "VARCHAR"), re.DOTALL):
        stated = _stated_text(source, stated, day)
    rows = f"SELECT {_as(columns)}, {stated} AS stated FROM ({rows}) WHERE {passes}"
    rows = f"SELECT *, {_as(_parsed(source, kind))} FROM ({rows})"
    rows = f"SELECT * EXCLUDE (unix, parsed), {_time()} AS time FROM ({rows})"
    return f"SELECT * EXCLUDE stated, stated IS NOT NULL AND time IS NULL AS bad_time FROM ({rows})"


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in columns.items())


def _own_columns(source: Source, names: Sequence[str], types: Types) -> Iterator[str]:
    """The SQL of c0, c1, ... as text; of `moment`, a time with its type; of whole numbers; of `fault`."""
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
            yield f"{_plain_text(f'src.{identifier(name)}', types[name])}{exact} AS c{i}"
        if time:
            yield f"src.{identifier(time)} AS moment"
        for role in ("user", "rank"):
            name = source.columns.get(role, "")
            if name in names and _is_whole(source, name, types):
                yield f"src.{identifier(name)} AS whole_{role}"


def _plain_text(column: str, kind: str) -> str:
    """The SQL of a column's text; whole numbers have their digits, also in a column of floats.

    pandas makes floats of integers beside one that is missing.
    """
    if kind == "VARCHAR":
        return column
    text = f"{column}::VARCHAR"
    if kind not in ("FLOAT", "DOUBLE"):
        return text
    number = f"TRY_CAST({text} AS DOUBLE)"
    whole = f"{number} = trunc({number}) AND abs({number}) < {MOST_WHOLE}"
    return f"(CASE WHEN {whole} THEN {number}::HUGEINT::VARCHAR ELSE {text} END)"


def _is_whole(source: Source, name: str, types: Types) -> bool:
    """Whether a column is of whole numbers, none of which stands for no value."""
    return types.get(name) in WHOLE_NUMBERS and not source.missing and not source.server


def _role(source: Source, role: str, own: Mapping[str, str], types: Types) -> str:
    """The SQL of one role but the time."""
    name = source.columns.get(role)
    if name is None:
        return "NULL::INTEGER" if role == "rank" else "NULL::VARCHAR"
    value = own[name]
    if role in ("user", "rank") and _is_whole(source, name, types):
        value = f"whole_{role}"
    elif nothing := source.nothing if role in ("url", "rank") else source.missing:
        value = (
            f"CASE WHEN {value} IN ({', '.join(map(quoted, nothing))}) THEN NULL ELSE {value} END"
        )
    if role == "rank":
        return f"TRY_CAST({value} AS INTEGER)"
    return f"{value}::BIGINT" if value == "whole_user" else value


def _kind_of_time(source: Source, types: Types) -> str:
    """What a time is, by the type of its column: text, number or moment."""
    kind = types.get(source.columns["time"], "VARCHAR")
    if source.time_format is not None:
        if re.fullmatch(f"{MOMENTS}|{CLOCKS}", kind):
            raise InputError(
                f'the column "{source.columns["time"]}" of {source.name} is a time already: leave '
                "--time-format out"
            )
        return "text"
    if re.fullmatch(NUMBERS, kind):
        return "number"
    return "moment" if re.fullmatch(MOMENTS, kind) else "text"


def _stated_text(source: Source, value: str, day: str) -> str:
    """The SQL of the text of a time, null if there is none."""
    if not source.time_format:
        value = time_sql(source.shape, value, day)
    text = f"nullif(trim({value}, {quoted(string.whitespace)}), '')"
    for nothing in source.missing:
        text = f"nullif({text}, {quoted(nothing)})"
    return text


def _parsed(source: Source, kind: str) -> dict[str, str]:
    """The SQL of `unix`, a time as a number, and `parsed`, as a timestamp in UTC; one of them is null."""
    nothing = {"unix": "NULL::DOUBLE", "parsed": "NULL::TIMESTAMP"}
    if kind == "number":
        return nothing | {"unix": "stated::DOUBLE"}
    if kind == "moment":
        return nothing | {"parsed": "TRY_CAST(stated AS TIMESTAMP)"}
    if source.time_format is not None:
        matching = f"CASE WHEN {_matches(pattern(source.time_format))} THEN stated END"
        parsed = f"try_strptime({matching}, {quoted(source.time_format)})::TIMESTAMP"
        return nothing | {"parsed": parsed}
    # DuckDB reads an offset only for a type that has a zone, and that takes four times as long.
    parsed = (
        f"CASE WHEN {_matches(UNIX_TEXT)} THEN NULL "
        f"WHEN {_matches(WITH_OFFSET)} THEN TRY_CAST(stated AS TIMESTAMPTZ)::TIMESTAMP "
        "ELSE TRY_CAST(stated AS TIMESTAMP) END"
    )
    unix = f"CASE WHEN {_matches(UNIX_TEXT)} THEN TRY_CAST(stated AS DOUBLE) END"
    return {"unix": unix, "parsed": parsed}


def _matches(form: str) -> str:
    return f"regexp_matches(stated, {quoted(form)})"


def _time() -> str:
    """The SQL of a time from `unix` and `parsed`; null outside the years 1 to 9999, infinity included.

    Unix seconds, milli-, micro- and nanoseconds are told apart by their size, and read to the millisecond.
    """
    first, end = YEARS
    milli = (
        "CASE WHEN unix < 1e11 THEN unix * 1e3 WHEN unix < 1e14 THEN unix "
        "WHEN unix < 1e17 THEN unix / 1e3 ELSE unix / 1e6 END"
    )
    # Tested explicitly: comparisons miss a NaN that the statistics of a Parquet file leave out.
    inside = f"NOT isnan(unix) AND unix >= {LEAST_UNIX} AND unix < {MOST_UNIX}"
    return (
        f"CASE WHEN parsed >= {first} AND parsed < {end} THEN parsed "
        f"WHEN {inside} THEN epoch_ms(round({milli}, 0)::BIGINT) END"
    )


def incoming(source: Source, names: Sequence[str]) -> str:
    """The relation that a batch is; of JSON, `found` has the values of a line, if it is JSON."""
    if not source.keyed:
        return INCOMING
    # JSON pointers, because paths have wildcards; only for objects: pointers also index arrays.
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in names]
    values = f"json_extract_string(f0, [{', '.join(map(quoted, pointers))}])"
    nothing = f"[{', '.join(['NULL::VARCHAR'] * len(names))}]"
    return (
        f"(SELECT CASE WHEN NOT json_valid(f0) THEN NULL WHEN starts_with(bare, '{{') THEN {values} "
        f"ELSE {nothing} END AS found "
        f"FROM (SELECT f0, trim(f0, ' ' || chr(9) || chr(13)) AS bare FROM {INCOMING}) WHERE bare <> '')"
    )


def _run(connection: duckdb.DuckDBPyConnection, select: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT in batches, which end after so many rows or bytes.

    Their texts are in buffers of their size: those of DuckDB are up to twice as large. Arrow's own pool
    would take huge pages, which cost more here than they save.
    """
    pool = pa.system_memory_pool()
    chunks, count, size = list[pa.RecordBatch](), 0, 0
    for chunk in connection.execute(select).to_arrow_reader(ROWS_A_CHUNK):
        chunks.append(chunk)
        count, size = count + chunk.num_rows, size + chunk.nbytes
        if count > rows - ROWS_A_CHUNK or size >= BYTES_A_BATCH:
            yield pa.concat_batches(chunks, memory_pool=pool)
            chunks, count, size = [], 0, 0
    if chunks:
        yield pa.concat_batches(chunks, memory_pool=pool)


def _relation(source: Source, connection: duckdb.DuckDBPyConnection) -> str:
    if source.format == "duckdb":
        file = quoted(str(source.files[0].resolve()))
        connection.execute(f"ATTACH {file} AS source (READ_ONLY)")
        return f"source.main.{identifier(source.table or '')}"
    files = "[" + ", ".join(map(literal, source.files)) + "]"
    return f"read_parquet({files}, union_by_name=true, hive_partitioning=false)"


def _types_from_server(source: Source, connection: duckdb.DuckDBPyConnection) -> Types:
    """The type of the time; everything else is text."""
    if not source.server or "time" not in source.columns:
        return {}
    return {source.columns["time"]: column_types(connection, INCOMING, ["time"])["time"]}


def _without_faults(rows: pa.RecordBatch, broken: dict[str, int]) -> pa.RecordBatch:
    """The rows without a fault; the others are counted."""
    if "fault" not in rows.schema.names:
        return rows
    faults = rows["fault"]
    if faults.null_count == len(faults):
        return rows.drop_columns(["fault"])
    for count in pc.value_counts(faults.drop_null()).to_pylist():
        broken[count["values"]] = broken.get(count["values"], 0) + count["counts"]
    return rows.filter(pc.is_null(faults)).drop_columns(["fault"])


def size_of(source: Source) -> int | None:
    """The bytes of the source's files; None on a server."""
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


def _stream(
    source: Source, names: Sequence[str], broken: dict[str, int], read: Callable[[int], None]
) -> Generator[tuple[pa.Table, str], None, None]:
    """Batches of records, each with the day for times without a date."""
    if source.server:
        for batch in _from_server(source, source.server, names):
            yield pa.Table.from_batches([batch]), ""
        return
    shape = source.lines
    places = [shape.columns.index(name) for name in names] if shape else [0]
    if shape and shape.name == "sogou":
        places = list(range(shape.most))  # which field is a column depends on their number
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
            if len(rows):
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


def _headers(records: Records, shape: Shape) -> npt.NDArray[np.bool_]:
    """Which records hold the names of the columns, ignoring case."""
    same: npt.NDArray[np.bool_] = records.counts == len(shape.columns)
    for place, name in enumerate(shape.columns):
        if not same.any():
            break
        trimmed = pc.utf8_trim_whitespace(pc.utf8_ltrim(records.column(place), "\ufeff"))
        equal = pc.equal(pc.ascii_lower(trimmed), name.lower())
        same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return same


def _table(records: Records, places: Sequence[int]) -> pa.Table:
    """Some fields of all records as columns f0, f1, ..., and n, how many fields there are."""
    columns = {f"f{place}": records.column(place) for place in dict.fromkeys(places)}
    whole = pa.table({**columns, "n": records.counts})
    return pa.Table.from_batches(whole.to_batches(ROWS_A_THREAD), whole.schema)
