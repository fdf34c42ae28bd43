"""The rows of a source on Spark, the same ones that DuckDB reads.

Spark reads Parquet itself. Where its text of a value, or its parsing of a time, could differ from
DuckDB's, the workers run DuckDB on each batch. Everything else (text files, tables, servers) is read
by DuckDB in this process, with its rules for broken rows, and sent to the workers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import EngineError, InputError
from murmurlog.logs.duckdb_rows import (
    STANDARD,
    missing_texts,
    needed_columns,
    raw_rows,
    select_sql,
    with_types,
)
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import (
    LITERALLY,
    SparkEngine,
    literal,
    spark_schema,
)
from murmurlog.logs.engines.spark_errors import translate_errors
from murmurlog.logs.engines.spark_worker import run_duckdb
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.parquet_types import INT96, NOTHING, Kind, types_of
from murmurlog.logs.source import Source, check_case, with_roles

WHOLE = ("tinyint", "smallint", "int", "bigint")
PLAIN = ("string", "boolean", *WHOLE)  # types whose text is the same in DuckDB and in Spark
LARGEST = "decimal(20,0)"  # unsigned integers of 64 bits
TIMES = ("timestamp", "timestamp_ntz", "date")


def find_at(uri: str, options: SourceOptions, *, engine: SparkEngine) -> Source:
    """The Parquet files at a URI that only Spark reads: s3a://..., hdfs://..."""
    source = Source(
        format="parquet", files=(), compressions=(), encodings=(), table=None, lines=None,
        found=(), columns={}, uri=uri, settled={"format": "name"},
        time_format=options.time_format, missing=tuple(options.missing or ()),
    )  # fmt: skip
    found = tuple(_frame_at(source, engine).columns)
    return with_roles(source, found, options.columns or {})


def spark_rows(
    source: Source,
    engine: SparkEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Any:
    """Every row as `raw_rows` has it, in Spark."""
    if source.format != "parquet":
        return _through_this_process(source, engine, broken, where, keep, say)
    texts = {role: name for role, name in source.columns.items() if role != "time"}
    as_text = [*texts.values(), *where, *keep]
    names = needed_columns(source, where, keep)
    frame = _at_uri(source, engine, as_text) if source.uri else _on_disk(source, engine, names)
    types = {name: frame.schema[name].dataType.simpleString() for name in names}
    plain = all(types[name] in PLAIN for name in as_text)
    plain &= "time" not in source.columns or types[source.columns["time"]] in TIMES
    plain &= "rank" not in source.columns or types[source.columns["rank"]] in WHOLE
    with translate_errors():
        if plain:
            rows = frame.selectExpr(*_expressions(source, keep)).where(_condition(where))
            return with_types(engine.view(rows), source)
        return _ask_duckdb(source, engine, frame.select(*map(_name, names)), where, keep)


def _on_disk(source: Source, engine: SparkEngine, names: Sequence[str]) -> Any:
    """The needed columns of files on a shared disk; other columns are not read."""
    check_case(source, source.found)
    found = types_of(source.files, names, source.name)
    common = {
        name: _common([k[name] for k in found.values() if name in k], name, source.name)
        for name in names
    }
    alike: dict[tuple[Kind | None, ...], list[Path]] = {}
    for file, kinds in found.items():
        alike.setdefault(tuple(kinds.get(name) for name in names), []).append(file)
    with translate_errors():
        frames = [
            _alike(engine, files, dict(zip(names, kinds, strict=True)), common)
            for kinds, files in alike.items()
        ]
        read = sum(count for _, count in frames)
        if read != len(source.files):
            raise InputError(
                f"Spark would read {read} of the {len(source.files)} files of the source: rename "
                "those that begin with _ or ."
            )
        return reduce(lambda some, more: some.union(more), (frame for frame, _ in frames))


def _common(kinds: Sequence[Kind], name: str, source_name: str) -> str:
    """The type of Spark that holds the values of a column in all files, with the same texts."""
    known = []
    for kind in kinds:
        if kind.spark is None:
            how = "in microseconds" if "timestamp" in kind.name else "as text"
            raise InputError(
                f'the column "{name}" of {source_name} is {kind.name}, which Spark does not read. '
                f"Write it {how}, or use --engine duckdb."
            )
        if kind.name != NOTHING:
            known.append("timestamp_ntz" if kind.name == INT96 else kind.spark)
    distinct = dict.fromkeys(known)
    if len(distinct) < 2:
        return next(iter(distinct), "string")
    if all(kind in (*WHOLE, LARGEST) for kind in distinct):
        return LARGEST if LARGEST in distinct else "bigint"
    # The only other types of one form are decimals of the same scale.
    return max(distinct, key=lambda kind: [int(digits) for digits in re.findall(r"\d+", kind)])


def _alike(
    engine: SparkEngine,
    files: Sequence[Path],
    kinds: Mapping[str, Kind | None],
    common: Mapping[str, str],
) -> tuple[Any, int]:
    """The columns of files that have the same ones, cast to common types; and how many it reads."""
    from pyspark.sql.types import StructType

    there = {name: kind for name, kind in kinds.items() if kind and kind.name != NOTHING}
    schema = ", ".join(f"{_name(name)} {kind.spark}" for name, kind in there.items())
    reader = engine.session.read.options(**LITERALLY).schema(schema or StructType([]))
    frame = reader.parquet(*map(literal, files))
    cast = [
        f"CAST({_name(name) if name in there else 'NULL'} AS {kind}) AS {_name(name)}"
        for name, kind in common.items()
    ]
    return frame.selectExpr(*cast), len(frame.inputFiles())


def _at_uri(source: Source, engine: SparkEngine, as_text: Sequence[str]) -> Any:
    """The files at a URI, with the columns that are to be text; see `_frame_at`."""
    frame = _frame_at(source, engine)
    for name in as_text:
        # Spark has one type for INT96, which has no zone, and for times with one.
        if re.search(r"\btimestamp\b", frame.schema[name].dataType.simpleString()):
            raise InputError(
                f'the column "{name}" of {source.name} is a timestamp whose time zone Spark '
                "does not report: write it as text"
            )
    return frame


def _frame_at(source: Source, engine: SparkEngine) -> Any:
    """The files at a URI as Spark finds them, patterns and folders like `day=1` included."""
    try:
        with translate_errors():
            frame = engine.session.read.option("mergeSchema", "true").parquet(source.uri)
    except EngineError:
        raise InputError(
            f"Spark cannot read {source.name} as Parquet: see that it is there and that its files "
            "agree on their columns"
        ) from None
    check_case(source, tuple(frame.columns))
    return frame


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _quoted(text: str) -> str:
    """The text as a string literal of Spark's SQL, where a backslash escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _text(column: str) -> str:
    return f"CAST({_name(column)} AS STRING)"


def _valid(column: str) -> str:
    """The text, if it is UTF-8; Spark would keep invalid text, which DuckDB refuses."""
    text = _text(column)
    fault = "raise_error('UnicodeDecodeError')"
    return f"IF(decode(CAST({text} AS BINARY), 'UTF-8') = {text}, {text}, IF({text} IS NULL, NULL, {fault}))"


def _expressions(source: Source, keep: Sequence[str]) -> list[str]:
    """Spark's SQL for the columns that `raw_rows` starts from."""
    columns = []
    for role in STANDARD:
        name = source.columns.get(role)
        if name is None:
            kind = "TIMESTAMP_NTZ" if role == "time" else "STRING"
            columns.append(f"CAST(NULL AS {kind}) AS `{role}`")
        elif role == "time":
            columns.append(f"CAST({_name(name)} AS TIMESTAMP_NTZ) AS `time`")
        else:
            given, nothing = _valid(name), missing_texts(source, role)
            if nothing:
                listed = ", ".join(map(_quoted, nothing))
                given = f"IF({_text(name)} IN ({listed}), NULL, {given})"
            columns.append(f"{given} AS `{role}`")
    return [*columns, *(f"{_valid(name)} AS `k{i}`" for i, name in enumerate(keep))]


def _condition(where: Mapping[str, str]) -> Any:
    from pyspark.sql import functions

    fine = functions.lit(True)
    for name, value in where.items():
        given = functions.coalesce(functions.expr(_text(name)), functions.lit(""))
        fine = fine & (given == functions.lit(value))
    return fine


def _ask_duckdb(
    source: Source, engine: SparkEngine, frame: Any, where: Mapping[str, str], keep: Sequence[str]
) -> Any:
    """The rows as DuckDB on the workers makes them of batches."""
    from ibis.backends.pyspark.datatypes import PySparkType

    names = [*STANDARD, *(f"k{i}" for i in range(len(keep)))]
    time: Any = "timestamp"
    if "time" in source.columns:
        time = PySparkType.to_ibis(frame.schema[source.columns["time"]].dataType)
    raw = ibis.table({name: time if name == "time" else "string" for name in names}, name="raw")
    rows = with_types(raw, source)
    query = ibis.to_sql(rows, dialect="duckdb")
    statement = f"WITH raw AS ({select_sql(source, 'incoming', where, keep)}) {query}"
    schema = _arrow(rows)
    work = partial(run_duckdb, statement=statement, schema=schema)
    return engine.write(frame.mapInArrow(work, spark_schema(schema)))


def _through_this_process(
    source: Source,
    engine: SparkEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None],
) -> Any:
    """The rows that DuckDB reads here, moved to where the workers reach them."""
    file = engine.private / "source.parquet"
    with connect() as duck:
        rows = raw_rows(source, duck, broken, where, keep, say)
        schema = _arrow(rows)
        with pq.ParquetWriter(file, schema) as out:
            for batch in duck.batches(rows):
                out.write_batch(batch.cast(schema))
    return engine.adopt(file, schema)


def _arrow(rows: Any) -> pa.Schema:
    """The columns as Arrow has them, times without more digits than Spark keeps."""
    fields = rows.schema().to_pyarrow()
    return pa.schema([(f.name, pa.timestamp("us") if f.name == "time" else f.type) for f in fields])
