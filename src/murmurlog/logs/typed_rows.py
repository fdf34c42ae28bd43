"""The SELECT of DuckDB that makes typed rows of a source's batches, the same for every source and engine.

Every value is read on its own (A8). What is done with a column is decided by its declared type, never by
rows. The SELECT first renames the columns that are read (c0, c1, ...), so that a source may give its
columns any names.
"""

import re
import string
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import pyarrow as pa

from murmurlog.errors import InputError
from murmurlog.logs.formats import field_sql, time_sql
from murmurlog.logs.row_typer import INCOMING, Batch, Connection, RowTyper, join_chunks
from murmurlog.logs.source import Source
from murmurlog.logs.source_batches import ROWS_A_BATCH, ROWS_A_CHUNK, stored_batches
from murmurlog.logs.sql import identifier, quote
from murmurlog.logs.times import pattern

WHOLE_NUMBERS = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT")
TEXTS = r"VARCHAR|ENUM\(.*\)"
NUMBERS = r"U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)"
MOMENTS = r"TIMESTAMP(?:_S|_MS|_NS| WITH TIME ZONE)?|DATE"
CLOCKS = r"TIME(?:_NS| WITH TIME ZONE)?"
MOST_WHOLE = 2**64  # floats below it are written as integers are, if they are whole

# A time in text: a Unix time, or ISO 8601 with or without an offset.
UNIX_TEXT = r"^[0-9]{9,19}(\.[0-9]+)?$"
WITH_OFFSET = r":[0-9.]+ ?[+-][0-9]{2}(:?[0-9]{2})?$"
YEARS = ("TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31'")
# Unix time from the year 1 on; the largest number is one of nanoseconds.
LEAST_UNIX, MOST_UNIX = "-62135596800", "1e19"

Types = Mapping[str, str]  # of columns, in DuckDB's words


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows and columns of a source are read."""

    where: Mapping[str, str] = field(default_factory=dict)  # only rows with these texts, by column
    keep: Sequence[str] = ()  # further columns, as text
    urls: bool  # whether urls and ranks are read

    def columns(self, source: Source) -> list[str]:
        """The columns of the source that are read; number i is called c{i} from then on."""
        roles = source.columns.items()
        names = (name for role, name in roles if self.urls or role not in ("url", "rank"))
        return list(dict.fromkeys([*names, *self.where, *self.keep]))


def read_batches(
    source: Source,
    selection: Selection,
    *,
    connection: Connection,
    broken: dict[str, int],
    read: Callable[[int], None] = lambda _: None,
    rows: int = ROWS_A_BATCH,
) -> Generator[pa.RecordBatch, None, None]:
    """The typed rows of a source, one batch after the other; see `batches_of`."""
    batches = batches_of(source, selection, connection, broken=broken, read=read, rows=rows)
    with closing(batches):
        for batch in batches:
            typed_rows, faults = batch.type_rows(connection)
            for reason, number in faults.items():
                broken[reason] = broken.get(reason, 0) + number
            yield typed_rows


def batches_of(
    source: Source,
    selection: Selection,
    connection: Connection,
    *,
    broken: dict[str, int],
    read: Callable[[int], None] = lambda _: None,
    rows: int = ROWS_A_BATCH,
) -> Generator[Batch, None, None]:
    """Every batch of a source. Records that cannot be read are counted in `broken` as they pass.

    `read` is called with the numbers of bytes that were read of files of text.
    """
    names = selection.columns(source)
    if source.format == "duckdb":
        file = quote(str(source.files[0].resolve()))
        connection.execute(f"ATTACH {file} AS source (READ_ONLY)")
        relation = f"source.main.{identifier(source.table or '')}"
        types = column_types(connection, relation, names)
        typer = typer_of(source, selection, types, relation=relation)
        chunks = connection.execute(typer.statement or "").to_arrow_reader(ROWS_A_CHUNK)
        of_chunks = replace(
            typer, texts={name: name for name in chunks.schema.names}, statement=None
        )
        for batch in join_chunks(chunks, rows):
            yield Batch(batch, of_chunks)
        return
    typers = dict[str, RowTyper]()
    stored = stored_batches(source, names, broken=broken, read=read, rows=rows)
    with closing(stored):
        for batch, day in stored:
            if day not in typers:
                connection.register(INCOMING, batch.schema.empty_table())
                types = _types_in_batches(source, connection, names)
                connection.unregister(INCOMING)
                typers[day] = typer_of(source, selection, types, day=day)
            yield Batch(batch, typers[day])


def _types_in_batches(source: Source, connection: Connection, names: Sequence[str]) -> Types:
    """The types of the columns of batches; a column that is missing here is text."""
    if source.format == "parquet":
        return column_types(connection, INCOMING, names)
    if source.server and "time" in source.columns:
        return {source.columns["time"]: column_types(connection, INCOMING, ["time"])["time"]}
    return {}


def typer_of(
    source: Source,
    selection: Selection,
    types: Types,
    *,
    relation: str = INCOMING,
    day: str = "",
) -> RowTyper:
    """The typer of batches with the source's columns of these types, or with those of records.

    For another relation than a batch its statement makes all columns. `day` is that of times without a date.
    """
    names = selection.columns(source)
    aliases = {name: f"c{i}" for i, name in enumerate(names)}
    roles = _roles(source, urls=selection.urls)
    columns = {role: _role(source, role, aliases, types) for role in roles}
    columns |= {f"k{i}": aliases[name] for i, name in enumerate(selection.keep)}
    texts = _texts(source, names, types) if relation == INCOMING else {}
    unchanged = {name: texts[value] for name, value in columns.items() if value in texts}
    others = {name: value for name, value in columns.items() if name not in unchanged}
    conditions = [
        f"coalesce({aliases[name]}, '') = {quote(text)}" for name, text in selection.where.items()
    ]
    if source.server or source.is_json:
        others["fault"] = "fault"
        if conditions:
            conditions = [f"(fault IS NOT NULL OR ({' AND '.join(conditions)}))"]
    if conditions:
        others["passes"] = " AND ".join(conditions)
    aliased = ", ".join(_aliased_columns(source, names, types))
    rows = f"SELECT {aliased} FROM {_relation(source, relation, names)} AS src"
    timed = "time" in source.columns
    if timed:
        kind = _kind_of_time(source, types)
        stated = aliases[source.columns["time"]] if kind == "text" else "moment"
        if re.fullmatch(TEXTS, types.get(source.columns["time"], "VARCHAR"), re.DOTALL):
            stated = _stated_text(source, stated, day)
        rows = f"SELECT {_as({**others, 'stated': stated})} FROM ({rows})"
        parsed = _parse_time(source, kind)
        rows = f"SELECT *, {_as(parsed)} FROM ({rows})"
        rows = f"SELECT * EXCLUDE ({', '.join(parsed)}), {_time(parsed)} AS time FROM ({rows})"
        rows = f"SELECT * EXCLUDE stated, stated IS NOT NULL AND time IS NULL AS bad_time FROM ({rows})"
    elif others:
        rows = f"SELECT {_as(others)} FROM ({rows})"
    faults = ("fault",) if "fault" in others else ()
    return RowTyper(
        columns=(*columns, *(("time", "bad_time") if timed else ()), *faults),
        texts=unchanged,
        statement=rows if timed or others else None,
    )


def _roles(source: Source, *, urls: bool) -> list[str]:
    """The roles that have a column, without the time."""
    roles = ("user", "query", *(("url", "rank") if urls else ()))
    return [role for role in roles if role in source.columns]


def _texts(source: Source, names: Sequence[str], types: Types) -> dict[str, str]:
    """Which of c0, c1, ... are columns of texts in a batch, which is as the source has them; an empty text is none."""
    if source.server:
        return {f"c{i}": f"c{i}" for i in range(len(names))}
    if source.is_json:
        return {}
    if source.lines:
        fields = [(f"c{i}", source.lines.columns.index(name)) for i, name in enumerate(names)]
        return {
            alias: f"f{place}"
            for alias, place in fields
            if field_sql(source.lines, place) == f"nullif(f{place}, '')"
        }
    return {f"c{i}": name for i, name in enumerate(names) if types[name] == "VARCHAR"}


def column_types(connection: Connection, relation: str, names: Sequence[str]) -> Types:
    """The types that columns of a relation are declared with."""
    columns = ", ".join(f"src.{identifier(name)}" for name in names)
    rows = connection.execute(f"DESCRIBE SELECT {columns} FROM {relation} AS src").fetchall()
    return {name: row[1] for name, row in zip(names, rows, strict=True)}


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in columns.items())


def _aliased_columns(source: Source, names: Sequence[str], types: Types) -> Iterator[str]:
    """The SQL of c0, c1, ... as text; of `moment`, a time with its type; of whole numbers; of `fault`."""
    time = source.columns.get("time")
    if source.server:
        yield from (f"src.c{i}" for i in range(len(names)))
        yield "src.time AS moment"
        yield "CASE WHEN src.out_of_range THEN 'time out of range' END AS fault"
    elif source.lines:
        for i, name in enumerate(names):
            yield f"{field_sql(source.lines, source.lines.columns.index(name))} AS c{i}"
    elif source.is_json:
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


def _role(source: Source, role: str, aliases: Mapping[str, str], types: Types) -> str:
    """The SQL of one role but the time."""
    name = source.columns[role]
    value = aliases[name]
    if role in ("user", "rank") and _is_whole(source, name, types):
        value = f"whole_{role}"
    elif source.missing and role != "url":  # what stands for no url is told when urls are cleaned
        nothing = ", ".join(map(quote, source.missing))
        value = f"CASE WHEN {value} IN ({nothing}) THEN NULL ELSE {value} END"
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
    text = f"nullif(trim({value}, {quote(string.whitespace)}), '')"
    for nothing in source.missing:
        text = f"nullif({text}, {quote(nothing)})"
    return text


def _parse_time(source: Source, kind: str) -> dict[str, str]:
    """The SQL of `parsed`, a time as a timestamp in UTC, and of `unix`, a time as a number, where a column can have them."""
    if kind == "number":
        return {"unix": "stated::DOUBLE"}
    if kind == "moment":
        return {"parsed": "TRY_CAST(stated AS TIMESTAMP)"}
    if source.time_format is not None:
        matching = f"CASE WHEN {_matches(pattern(source.time_format))} THEN stated END"
        return {"parsed": f"try_strptime({matching}, {quote(source.time_format)})::TIMESTAMP"}
    # DuckDB reads an offset only for a type that has a zone, and that takes four times as long.
    parsed = (
        f"CASE WHEN {_matches(UNIX_TEXT)} THEN NULL "
        f"WHEN {_matches(WITH_OFFSET)} THEN TRY_CAST(stated AS TIMESTAMPTZ)::TIMESTAMP "
        "ELSE TRY_CAST(stated AS TIMESTAMP) END"
    )
    unix = f"CASE WHEN {_matches(UNIX_TEXT)} THEN TRY_CAST(stated AS DOUBLE) END"
    return {"parsed": parsed, "unix": unix}


def _matches(form: str) -> str:
    return f"regexp_matches(stated, {quote(form)})"


def _time(parsed: Mapping[str, str]) -> str:
    """The SQL of a time from `parsed` and `unix`; null outside the years 1 to 9999, infinity included.

    Unix seconds, milli-, micro- and nanoseconds are told apart by their size, and read to the millisecond.
    """
    first, end = YEARS
    milli = (
        "CASE WHEN unix < 1e11 THEN unix * 1e3 WHEN unix < 1e14 THEN unix "
        "WHEN unix < 1e17 THEN unix / 1e3 ELSE unix / 1e6 END"
    )
    # Tested explicitly: comparisons miss a NaN that the statistics of a Parquet file leave out.
    inside = f"NOT isnan(unix) AND unix >= {LEAST_UNIX} AND unix < {MOST_UNIX}"
    times = {
        "parsed": f"WHEN parsed >= {first} AND parsed < {end} THEN parsed",
        "unix": f"WHEN {inside} THEN epoch_ms(round({milli}, 0)::BIGINT)",
    }
    return f"CASE {' '.join(times[name] for name in parsed)} END"


def _relation(source: Source, relation: str, names: Sequence[str]) -> str:
    """A relation with the source's columns; of JSON, `found` has the values of a line, if it is JSON."""
    if not source.is_json:
        return relation
    # JSON pointers, because paths have wildcards; only for objects: pointers also index arrays.
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in names]
    values = f"json_extract_string(f0, [{', '.join(map(quote, pointers))}])"
    nothing = f"[{', '.join(['NULL::VARCHAR'] * len(names))}]"
    return (
        f"(SELECT CASE WHEN NOT json_valid(f0) THEN NULL WHEN starts_with(bare, '{{') THEN {values} "
        f"ELSE {nothing} END AS found "
        f"FROM (SELECT f0, trim(f0, ' ' || chr(9) || chr(13)) AS bare FROM {relation}) WHERE bare <> '')"
    )
