"""The rows of a source on Spark, the same ones that DuckDB reads.

Spark reads Parquet itself. Where its text of a value, or what it takes for a time, could differ from
DuckDB's, the workers ask DuckDB, batch by batch. Everything else (text files, tables) is read by
DuckDB in this process, with its rules for broken rows, and sent on; so is what a server gives.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.engine import connect
from murmurlog.errors import EngineError, InputError
from murmurlog.raw import STANDARD, needed, raw_rows, select_sql, shown
from murmurlog.source import Source, check_case, with_roles
from murmurlog.spark import SparkEngine, spark_schema, told
from murmurlog.spark_worker import asked_of_duckdb

WHOLE = ("tinyint", "smallint", "int", "bigint")
PLAIN = ("string", "boolean", *WHOLE)  # types whose text is the same in DuckDB and in Spark
TIMES = ("timestamp", "timestamp_ntz", "date")


def find_at(uri: str, *, columns: Mapping[str, str] | None, engine: SparkEngine) -> Source:
    """The Parquet files at a place that only Spark reaches: s3a://..., hdfs://..."""
    source = Source(
        format="parquet", files=(), compressions=(), encodings=(), table=None, lines=None,
        found=(), columns={}, uri=uri, settled={"format": "name"},
    )  # fmt: skip
    return with_roles(source, tuple(_frame(source, engine).columns), columns or {})


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
    frame = _frame(source, engine)
    texts = {role: name for role, name in source.columns.items() if role != "time"}
    names = needed(source, where, keep)
    types = {name: frame.schema[name].dataType.simpleString() for name in names}
    plain = all(types[name] in PLAIN for name in (*texts.values(), *where, *keep))
    plain &= "time" not in source.columns or types[source.columns["time"]] in TIMES
    plain &= "rank" not in source.columns or types[source.columns["rank"]] in WHOLE
    with told():
        if plain:
            rows = frame.selectExpr(*_expressions(source, keep)).where(_condition(where))
            return shown(engine.view(rows))
        return _asked(source, engine, frame.select(*map(_name, names)), where, keep)


def _frame(source: Source, engine: SparkEngine) -> Any:
    """The files as Spark has them; refused where it would read others, or other columns."""
    paths = [source.uri] if source.uri else [file.resolve().as_uri() for file in source.files]
    try:
        with told():
            frame = engine.session.read.option("mergeSchema", "true").parquet(*paths)
            read = len(frame.inputFiles())
    except EngineError:
        raise InputError(
            f"Spark cannot read {source.name} as Parquet: see that it is there and that its files "
            "agree on their columns"
        ) from None
    if source.files and read != len(source.files):
        raise InputError(
            f"Spark would read {read} of the {len(source.files)} files of the source: rename those "
            "that begin with _ or . or have any of *?[]{}\\ in their path"
        )
    check_case(source, tuple(frame.columns))
    return frame


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _text(column: str) -> str:
    return f"CAST({_name(column)} AS STRING)"


def _valid(column: str) -> str:
    """A text that is UTF-8; DuckDB refuses others too, and Spark would carry them along."""
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
            columns.append(f"{_valid(name)} AS `{role}`")
    return [*columns, *(f"{_valid(name)} AS `k{i}`" for i, name in enumerate(keep))]


def _condition(where: Mapping[str, str]) -> Any:
    from pyspark.sql import functions

    fine = functions.lit(True)
    for name, value in where.items():
        given = functions.coalesce(functions.expr(_text(name)), functions.lit(""))
        fine = fine & (given == functions.lit(value))
    return fine


def _asked(
    source: Source, engine: SparkEngine, frame: Any, where: Mapping[str, str], keep: Sequence[str]
) -> Any:
    """The rows as DuckDB on the workers makes them of batches."""
    from ibis.backends.pyspark.datatypes import PySparkType

    names = [*STANDARD, *(f"k{i}" for i in range(len(keep)))]
    time: Any = "timestamp"
    if "time" in source.columns:
        time = PySparkType.to_ibis(frame.schema[source.columns["time"]].dataType)
    raw = ibis.table({name: time if name == "time" else "string" for name in names}, name="raw")
    rows = shown(raw)
    asked = ibis.to_sql(rows, dialect="duckdb")
    statement = f"WITH raw AS ({select_sql(source, 'incoming', where, keep)}) {asked}"
    schema = _arrow(rows)
    work = partial(asked_of_duckdb, statement=statement, schema=schema)
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
    return engine.adopt(file)


def _arrow(rows: Any) -> pa.Schema:
    """The columns as Arrow has them, times without more digits than Spark keeps."""
    fields = rows.schema().to_pyarrow()
    return pa.schema([(f.name, pa.timestamp("us") if f.name == "time" else f.type) for f in fields])
