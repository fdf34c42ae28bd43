"""A log, read: rows of user, time, query, url with normalised text, in the engine.

Rows that cannot be used are dropped and counted by reason; the counts are for the owner and
never reach a bundle. Steps follow A5: parse, drop rows without a user, normalise record by record.
Restricting and screening look at one record at a time, too.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa

from murmurlog.engine import Engine, identifier, quoted
from murmurlog.errors import InputError, UsageError
from murmurlog.screen import Screen, matcher
from murmurlog.shapes import Shape, blocks, day_of, fields_sql, time_sql
from murmurlog.source import Source
from murmurlog.text import ALREADY_NORMAL, check_url_level, clean_url, normalise

LINES_A_BATCH = 20_000
STANDARD = ("user", "time", "query", "url", "rank")
REJECTED = {
    "MISSING COLUMNS": "too few columns",
    "TOO MANY COLUMNS": "too many columns",
    "UNQUOTED VALUE": "quote not closed",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "line too long",
    "INVALID STATE": "quote not closed",
}


@dataclass(frozen=True, kw_only=True)
class Log:
    """Clean rows in the engine, and what was dropped on the way (for the owner's eyes)."""

    engine: Engine
    table: Any  # user, time, query, url, rank, then the columns kept; ibis, materialised
    source: Source
    rows: int
    broken: Mapping[str, int] = field(default_factory=dict)
    screened: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_times(self) -> bool:
        return "time" in self.source.columns

    @property
    def has_urls(self) -> bool:
        return "url" in self.source.columns


def check(
    source: Source,
    *,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> None:
    """Raises unless `read` can restrict the source so. Looks at no row."""
    start, end = _moment("--since", since), _moment("--until", until)
    if start and end and start >= end:
        raise UsageError(f"--since {since} is not before --until {until}: no row can be between")
    if (start or end) and "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so --since and --until cannot be kept to. "
            "Map one with --columns time=..."
        )
    for column in (*(where or {}), *keep):
        if column not in source.found:
            raise InputError(
                f'column "{column}" is not in {source.name}. Found: {", ".join(source.found)}.'
            )
    names = [column.lower() for column in keep]
    for name in names:
        if name in STANDARD or names.count(name) > 1:
            raise UsageError(f"the column {name!r} cannot be kept beside itself: rename it first")


def read(
    source: Source,
    *,
    engine: Engine,
    url: str = "path",
    urls: bool = True,
    strict: bool = False,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    screen: Screen | None = None,
    deny: frozenset[str] = frozenset(),
    say: Callable[[str], None] = lambda _: None,
) -> Log:
    """The log of a source. `strict` refuses broken rows; urls=False leaves the urls out.

    Only rows from `since` on and before `until` are read, and of these only where every column of
    `where` has the text given. `keep` adds columns of the source, as text. Queries that `screen`
    finds something in or that `deny` lists (one ending in * as a prefix) are dropped.
    """
    check_url_level(url)
    check(source, since=since, until=until, where=where, keep=keep)
    say(f"reading {source.name}")
    broken: dict[str, int] = {}
    raw = _raw(source, engine, broken, where or {}, keep)
    say("normalising text")
    table = _cleaned(raw, engine, url, has_urls=urls and "url" in source.columns)
    table = _between(table, broken, _moment("--since", since), _moment("--until", until))
    kept = _usable(table, broken, keep)
    screened: dict[str, int] = {}
    if screen or deny:
        say("screening queries")
        kept = _screened(kept, engine, screen, deny, screened)
    rows = int(kept.count().to_pyarrow().as_py())
    broken = {reason: n for reason, n in sorted(broken.items()) if n}
    if strict and broken:
        raise InputError(
            f"{source.name} has {sum(broken.values())} broken rows ({_listed(broken)}) and "
            "--strict is set. Mend them, or leave --strict out to drop them."
        )
    if rows == 0:
        why = _listed(broken | screened) or "there are none"
        if since or until or where:
            why += "; others are not in the period or not of the kind asked for"
        raise InputError(f"{source.name} has no usable rows: {why}")
    return Log(
        engine=engine, table=kept, source=source, rows=rows, broken=broken, screened=screened
    )


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} x {reason}" for reason, n in reasons.items())


def _moment(flag: str, text: str | None) -> datetime | None:
    """An ISO date or time as a moment in UTC, without a zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is no date or time: write 2026-01-31 or 2026-01-31T18:00:00"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _raw(
    source: Source,
    engine: Engine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
) -> Any:
    """Every row as (user, time, query, url, rank, kept columns), as it stands in the source."""
    try:
        if source.lines:
            _from_lines(source, source.lines, engine, broken, where, keep)
        else:
            # Text is parsed once; columnar sources are cheap to scan again, so are not copied.
            kind = "VIEW" if source.format in ("parquet", "duckdb") else "TABLE"
            select = _select(source, _relation(source, engine, broken), where, keep)
            engine.sql(f"CREATE {kind} raw AS {select}")
    except duckdb.Error as error:
        raise InputError(f"cannot read {source.name}: {_first_line(error)}") from None
    raw = engine.backend.table("raw")
    if source.format == "csv":
        # One line may break in two ways; it is one broken row.
        for reason, n in engine.sql(
            "SELECT reason, count(*) FROM (SELECT file_id, line, min(error_type::VARCHAR) AS reason"
            " FROM reject_errors GROUP BY ALL) GROUP BY ALL"
        ).fetchall():
            name = REJECTED.get(reason, reason.lower())
            broken[name] = broken.get(name, 0) + n
    if source.lines or source.format == "jsonl":
        for reason, n in engine.sql(
            "SELECT fault, count(*) FROM raw WHERE fault IS NOT NULL GROUP BY ALL"
        ).fetchall():
            broken[reason] = broken.get(reason, 0) + n
        raw = raw.filter(raw.fault.isnull())
    return raw


def _select(
    source: Source, relation: str, where: Mapping[str, str], keep: Sequence[str], day: str = ""
) -> str:
    """The rows of a relation where all is as asked; broken ones pass, to be counted."""
    columns = [_column(source, role, day) for role in STANDARD]
    columns += [f"{_text(source, name)} AS k{i}" for i, name in enumerate(keep)]
    passes = "false"
    if source.lines:
        columns.append("fault")
        passes = "fault IS NOT NULL"
    elif source.format == "jsonl":
        columns.append("CASE WHEN row IS NULL THEN 'not JSON' END AS fault")
        passes = "row IS NULL"
    tests = [f"coalesce({_text(source, name)}, '') = {quoted(v)}" for name, v in where.items()]
    fine = " AND ".join(tests) or "true"
    return f"SELECT {', '.join(columns)} FROM {relation} WHERE {passes} OR ({fine})"


def _from_lines(
    source: Source,
    shape: Shape,
    engine: Engine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
) -> None:
    """Fills the table `raw` from lines whose fields are cut at tabs."""
    skipped = ["", "\ufeff"]
    if shape.header and shape.name != "tsv":
        # Where files of a well-known shape were put together, headers stand between the rows.
        skipped += [mark + "\t".join(shape.columns) for mark in skipped]
    lines = f"SELECT line FROM incoming WHERE line NOT IN ({', '.join(map(quoted, skipped))})"
    parts = f"SELECT string_split(line, chr(9)) AS parts FROM ({lines})"
    relation = f"(SELECT {fields_sql(shape)} FROM ({parts}))"
    made = False
    for file, compression, encoding in zip(
        source.files, source.compressions, source.encodings, strict=True
    ):
        select = _select(source, relation, where, keep, day_of(file))
        first = shape.header
        for block in blocks(file, compression=compression, encoding=encoding, broken=broken):
            rest = block.partition(b"\n")[2] if first else block
            first = False
            engine.backend.con.register("incoming", _lines(rest))
            engine.sql(f"INSERT INTO raw {select}" if made else f"CREATE TABLE raw AS {select}")
            engine.backend.con.unregister("incoming")
            made = True


def _lines(block: bytes) -> pa.Table:
    """The lines of a block, without their ends, as a column `line` in a few batches."""
    block = block.replace(b"\r\n", b"\n")
    feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.concatenate([[0], feeds - np.arange(len(feeds))]).astype(np.int32)
    text = pa.py_buffer(block.translate(None, b"\n"))
    lines = pa.StringArray.from_buffers(len(feeds), pa.py_buffer(offsets), text)
    schema = pa.schema([("line", pa.string())])
    batch = pa.RecordBatch.from_arrays([lines], schema=schema)
    return pa.Table.from_batches(
        [batch.slice(i, LINES_A_BATCH) for i in range(0, len(feeds), LINES_A_BATCH)], schema
    )


def _relation(source: Source, engine: Engine, broken: dict[str, int]) -> str:
    if source.format == "duckdb":
        engine.sql(f"ATTACH {quoted(str(source.files[0]))} AS source (READ_ONLY)")
        return f"source.{identifier(source.table or '')}"
    compression = source.compressions[0]
    paths = source.files
    if set(source.encodings) != {"utf-8"}:
        paths, compression = _in_utf8(source, engine, broken), None
    files = "[" + ", ".join(quoted(str(file)) for file in paths) + "]"
    if source.format == "parquet":
        return f"read_parquet({files}, union_by_name=true)"
    packed = f", compression={quoted(compression)}" if compression else ""
    if source.format == "jsonl":
        return f"read_ndjson_objects({files}, ignore_errors=true{packed}) AS t(row)"
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in source.found)
    return (
        f"read_csv({files}, columns={{{types}}}, header=true, auto_detect=false, delim=',', "
        f"quote='\"', escape='\"', nullstr='', store_rejects=true{packed})"
    )


def _in_utf8(source: Source, engine: Engine, broken: dict[str, int]) -> tuple[Path, ...]:
    """The files copied to the engine's private folder, unpacked and in UTF-8."""
    copies = []
    for i, (file, compression, encoding) in enumerate(
        zip(source.files, source.compressions, source.encodings, strict=True)
    ):
        copy = engine.folder / f"source{i}.{source.format}"
        with copy.open("xb") as out:
            for block in blocks(file, compression=compression, encoding=encoding, broken=broken):
                out.write(block)
        copies.append(copy)
    return tuple(copies)


def _text(source: Source, name: str) -> str:
    """The SQL of one column of the source, as text."""
    if source.lines:
        return f"c{source.found.index(name)}"
    if source.format == "jsonl":
        path = '$."' + name.replace('"', '\\"') + '"'
        return f"json_extract_string(row, {quoted(path)})"
    return f"{identifier(name)}::VARCHAR"


def _column(source: Source, role: str, day: str) -> str:
    """The SQL of one role, as text (a time keeps its type if it has one)."""
    if role not in source.columns:
        return f"NULL::{'TIMESTAMP' if role == 'time' else 'VARCHAR'} AS {role}"
    name = source.columns[role]
    if role == "time" and source.format in ("parquet", "duckdb"):
        return f"{identifier(name)} AS time"
    if role == "time":
        return f"{time_sql(source.shape, _text(source, name), day)} AS time"
    return f"{_text(source, name)} AS {role}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _cleaned(raw: Any, engine: Engine, url: str, *, has_urls: bool) -> Any:
    """The rows with clean text; `timed` and `linked` say that a time or a url was given."""
    queries = _map(raw.query, engine, normalise, skip=ALREADY_NORMAL)
    joined = raw.left_join(queries, raw.query == queries.raw_query)
    normal = raw.query.re_search(f"^{ALREADY_NORMAL}$")
    time = raw.time.strip().nullif("") if raw.time.type().is_string() else raw.time
    columns = {
        "user": raw.user.nullif(""),
        "time": _parsed_time(time),
        "query": ibis.ifelse(normal, raw.query, queries.clean_query),
        "url": ibis.null("string"),
        "rank": raw["rank"].try_cast("int32"),
        "timed": time.notnull(),
        "linked": ibis.literal(False),
    }
    if has_urls:
        urls = _map(raw.url, engine, lambda text: clean_url(text, url), skip=None)
        joined = joined.left_join(urls, raw.url == urls.raw_url)
        columns |= {"url": urls.clean_url, "linked": raw.url.nullif("").notnull()}
    columns |= {name: raw[name].nullif("") for name in raw.columns if re.fullmatch(r"k\d+", name)}
    return engine.materialise(joined.select(**columns))


def _map(
    column: Any, engine: Engine, function: Callable[[str], str | None], *, skip: str | None
) -> Any:
    """A table (raw_..., clean_...) over the distinct strings of a column, cleaned in Python.

    Strings that match the pattern `skip` from end to end are left out.
    """
    name = column.get_name()
    schema = pa.schema([(f"raw_{name}", pa.string()), (f"clean_{name}", pa.string())])
    distinct = column.as_table().filter(column.notnull()).distinct()
    if skip:
        distinct = distinct.filter(~distinct[name].re_search(f"^{skip}$"))

    def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
        raw = batch.column(0)
        cleaned = pa.array([function(text) for text in raw.to_pylist()], pa.string())
        return pa.RecordBatch.from_arrays([raw, cleaned], schema=schema)

    return engine.filled(schema, distinct, clean)


def _parsed_time(time: Any) -> Any:
    """A timestamp in UTC: typed columns as they are, text as ISO 8601, numbers as Unix time."""
    if time.type().is_numeric():
        return _unix(time.cast("float64"))
    if not time.type().is_string():
        return time.cast("timestamp(6)")
    digits = time.re_search(r"^[0-9]{9,19}(\.[0-9]+)?$")
    return ibis.ifelse(digits, _unix(time.try_cast("float64")), time.try_cast("timestamp(6)"))


def _unix(number: Any) -> Any:
    """Unix seconds, milli-, micro- or nanoseconds, told apart by size, to the millisecond."""
    milli = ibis.cases(
        (number < 1e11, number * 1e3),
        (number < 1e14, number),
        (number < 1e17, number / 1e3),
        else_=number / 1e6,
    )
    return milli.round().try_cast("int64").as_timestamp("ms").cast("timestamp(6)")


def _between(
    table: Any, broken: dict[str, int], since: datetime | None, until: datetime | None
) -> Any:
    """The rows of a period; those whose time was not given are broken then."""
    if since is None and until is None:
        return table
    untimed = ~table.timed & table.user.notnull() & table.query.notnull()
    broken["no time"] = int(untimed.sum().to_pyarrow().as_py() or 0)
    inside = ibis.literal(True)
    if since:
        inside &= table.time >= ibis.literal(since)
    if until:
        inside &= table.time < ibis.literal(until)
    # Rows without a user, a query or a readable time stay, to be counted as such.
    return table.filter(~untimed & (table.time.isnull() | inside))


def _usable(table: Any, broken: dict[str, int], keep: Sequence[str]) -> Any:
    """The rows with a user, a query and no unreadable time; counts the others.

    A row whose url is unreadable is counted too, but stays, as a query without a click.
    """
    no_user = table.user.isnull()
    no_query = table.query.isnull()
    bad_time = table.timed & table.time.isnull()
    bad_url = table.linked & table.url.isnull()
    reasons = {
        "no user": no_user,
        "no query": ~no_user & no_query,
        "unreadable time": ~no_user & ~no_query & bad_time,
        "unreadable url": ~no_user & ~no_query & ~bad_time & bad_url,
    }
    counted = (
        table.aggregate(
            **{f"n{i}": condition.sum() for i, condition in enumerate(reasons.values())}
        )
        .to_pyarrow()
        .to_pylist()[0]
    )
    for i, reason in enumerate(reasons):
        broken[reason] = counted[f"n{i}"] or 0
    kept = table.filter(~(no_user | no_query | bad_time))
    return kept.select(*STANDARD, **{name: kept[f"k{i}"] for i, name in enumerate(keep)})


def _screened(
    kept: Any, engine: Engine, screen: Screen | None, deny: frozenset[str], counts: dict[str, int]
) -> Any:
    """The rows without a hit; counts the others, each once, by the first reason."""
    denied = matcher(deny, normalise)

    def why(query: str) -> list[str]:
        if denied(query):
            return ["denied"]
        return [f"screened: {name}" for name in (screen.hits(query) if screen else [])][:1]

    found = _hits(kept, engine, why, needs=None if deny or not screen else screen.needs)
    counts |= _rows_by_reason(kept, found)
    return kept.anti_join(found, kept.query == found.hit) if counts else kept


def rows_hit(log: Log, screen: Screen) -> dict[str, int]:
    """How many rows each pattern of a screen would drop by itself, for the owner."""
    found = _hits(log.table, log.engine, screen.hits, needs=screen.needs)
    return dict.fromkeys(screen.names, 0) | _rows_by_reason(log.table, found)


def _hits(
    rows: Any, engine: Engine, reasons: Callable[[str], list[str]], *, needs: str | None
) -> Any:
    """A table (hit, reason) over the distinct queries that there is a reason to drop.

    Queries without any character of `needs` are not looked at.
    """
    schema = pa.schema([("hit", pa.string()), ("reason", pa.string())])
    distinct = rows.select("query").distinct()
    if needs is not None:
        distinct = distinct.filter(distinct.query.re_search(f"[{re.escape(needs)}]"))

    def find(batch: pa.RecordBatch) -> pa.RecordBatch:
        pairs = [(q, why) for q in batch.column(0).to_pylist() for why in reasons(q)]
        columns = [pa.array([pair[i] for pair in pairs], pa.string()) for i in (0, 1)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return engine.filled(schema, distinct, find)


def _rows_by_reason(rows: Any, found: Any) -> dict[str, int]:
    counted = rows.join(found, rows.query == found.hit).group_by("reason").agg(n=ibis._.count())
    return {row["reason"]: row["n"] for row in counted.order_by("reason").to_pyarrow().to_pylist()}
