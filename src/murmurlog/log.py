"""A log, read: rows of user, time, query, url with normalised text, in the engine.

Rows that cannot be used are dropped and counted by reason; the counts are for the owner and
never reach a bundle. Steps follow A5: parse, drop rows without a user, normalise record by record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import ibis
import pyarrow as pa

from murmurlog.engine import Engine, identifier, quoted
from murmurlog.errors import InputError
from murmurlog.source import Source
from murmurlog.text import ALREADY_NORMAL, check_url_level, clean_url, normalise

DIALECTS = {
    "csv": "delim=',', quote='\"', escape='\"'",
    "tsv": "delim='\t', quote='', escape=''",
}
NOT_JSON = "\ufdd0 not JSON"  # a noncharacter: no user id contains it
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
    table: Any  # user, time, query, url, rank; ibis, materialised
    source: Source
    rows: int
    broken: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_times(self) -> bool:
        return "time" in self.source.columns

    @property
    def has_urls(self) -> bool:
        return "url" in self.source.columns


def read(
    source: Source,
    *,
    engine: Engine,
    url: str = "path",
    urls: bool = True,
    strict: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Log:
    """The log of a source. `strict` refuses broken rows; urls=False leaves the urls out."""
    check_url_level(url)
    say(f"reading {source.name}")
    broken: dict[str, int] = {}
    raw = _raw(source, engine, broken)
    say("normalising text")
    table = _cleaned(raw, engine, url, has_urls=urls and "url" in source.columns)
    kept = _usable(table, broken)
    rows = int(kept.count().to_pyarrow().as_py())
    broken = {reason: n for reason, n in sorted(broken.items()) if n}
    if strict and broken:
        listed = ", ".join(f"{n} x {reason}" for reason, n in broken.items())
        raise InputError(
            f"{source.name} has {sum(broken.values())} broken rows ({listed}) and --strict is set. "
            "Mend them, or leave --strict out to drop them."
        )
    if rows == 0:
        why = ", ".join(f"{n} x {reason}" for reason, n in broken.items()) or "there are none"
        raise InputError(f"{source.name} has no usable rows: {why}")
    return Log(engine=engine, table=kept, source=source, rows=rows, broken=broken)


def _raw(source: Source, engine: Engine, broken: dict[str, int]) -> Any:
    """Every row as (user, time, query, url, rank), as it stands in the source."""
    columns = ", ".join(_column(source, role) for role in ("user", "time", "query", "url", "rank"))
    # Text is parsed once; columnar sources are cheap to scan again, so they are not copied.
    kind = "VIEW" if source.format in ("parquet", "duckdb") else "TABLE"
    try:
        engine.sql(f"CREATE {kind} raw AS SELECT {columns} FROM {_relation(source, engine)}")
    except duckdb.Error as error:
        raise InputError(f"cannot read {source.name}: {_first_line(error)}") from None
    raw = engine.backend.table("raw")
    if source.format in DIALECTS:
        # One line may break in two ways; it is one broken row.
        for reason, n in engine.sql(
            "SELECT reason, count(*) FROM (SELECT file_id, line, min(error_type::VARCHAR) AS reason"
            " FROM reject_errors GROUP BY ALL) GROUP BY ALL"
        ).fetchall():
            name = REJECTED.get(reason, reason.lower())
            broken[name] = broken.get(name, 0) + n
    if source.format == "jsonl":
        bad = raw.user == NOT_JSON
        broken["not JSON"] = int(bad.sum().to_pyarrow().as_py() or 0)
        raw = raw.filter(~bad | raw.user.isnull())
    return raw


def _relation(source: Source, engine: Engine) -> str:
    files = "[" + ", ".join(quoted(str(file)) for file in source.files) + "]"
    if source.format == "parquet":
        return f"read_parquet({files}, union_by_name=true)"
    if source.format == "duckdb":
        engine.sql(f"ATTACH {quoted(str(source.files[0]))} AS source (READ_ONLY)")
        return f"source.{identifier(source.table or '')}"
    compression = f", compression={quoted(source.compression)}" if source.compression else ""
    if source.format == "jsonl":
        return f"read_ndjson_objects({files}, ignore_errors=true{compression}) AS t(row)"
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in source.found)
    return (
        f"read_csv({files}, columns={{{types}}}, header=true, auto_detect=false, "
        f"{DIALECTS[source.format]}, nullstr='', store_rejects=true{compression})"
    )


def _column(source: Source, role: str) -> str:
    """The SQL of one column, as text (a time keeps its type if it has one)."""
    if role not in source.columns:
        return f"NULL::{'TIMESTAMP' if role == 'time' else 'VARCHAR'} AS {role}"
    name = source.columns[role]
    if source.format == "jsonl":
        path = '$."' + name.replace('"', '\\"') + '"'
        value = f"json_extract_string(row, {quoted(path)})"
        if role == "user":
            value = f"CASE WHEN row IS NULL THEN {quoted(NOT_JSON)} ELSE {value} END"
        return f"{value} AS {role}"
    if role == "time" and source.format in ("parquet", "duckdb"):
        return f"{identifier(name)} AS time"
    return f"{identifier(name)}::VARCHAR AS {role}"


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


def _usable(table: Any, broken: dict[str, int]) -> Any:
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
    return kept.select("user", "time", "query", "url", "rank")
