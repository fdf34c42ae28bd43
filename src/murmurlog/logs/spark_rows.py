"""The rows of a source on Spark, the same ones that DuckDB reads.

Spark reads Parquet itself, and the workers run DuckDB's SQL on each batch, so that texts of values and times
are the same. Everything else (text files, tables, servers) is read in this process, with the rules for
broken rows, and sent to the workers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from murmurlog.errors import EngineError, InputError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import LITERALLY, SparkEngine, literal
from murmurlog.logs.engines.spark_errors import translate_errors
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.parquet_types import INT96, NOTHING, Kind, types_of
from murmurlog.logs.row_typer import INCOMING, RowTyper
from murmurlog.logs.source import Source, check_case, with_roles
from murmurlog.logs.typed_rows import Selection, column_types, typer_of

WHOLE = ("tinyint", "smallint", "int", "bigint")
LARGEST = "decimal(20,0)"  # unsigned integers of 64 bits


def find_at(uri: str, options: SourceOptions, *, engine: SparkEngine) -> Source:
    """The Parquet files at a URI that only Spark reads: s3a://..., hdfs://..."""
    source = Source(
        format="parquet", settled={"format": "name"}, uri=uri,
        time_format=options.time_format, missing=tuple(options.missing or ()),
    )  # fmt: skip
    names = tuple(_open_uri(source, engine).columns)
    return with_roles(source, names, options.columns or {})


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source on Spark, what makes typed rows of them, and what could not be read."""

    frame: Any
    typer: RowTyper
    broken: Mapping[str, int]


def source_rows(
    source: Source,
    selection: Selection,
    engine: SparkEngine,
    *,
    read: Callable[[int], None] = lambda _: None,
) -> SourceRows:
    """The rows of a source, where Spark's workers read them."""
    if source.format != "parquet":
        return _read_here(source, selection, engine, read)
    names = selection.columns(source)
    with translate_errors():
        if source.uri:
            time, texts = source.columns.get("time"), (*selection.where, *selection.keep)
            frame = _read_uri(source, engine, [n for n in names if n != time or n in texts])
        else:
            frame = _read_files(source, engine, names)
        frame = frame.select(*map(_name, names))
        return SourceRows(frame, _typer_of(source, selection, frame), {})


def _read_files(source: Source, engine: SparkEngine, names: Sequence[str]) -> Any:
    """The needed columns of files on a shared disk; other columns are not read."""
    check_case(source, source.column_names)
    types = types_of(source.files, names, source.name)
    common = {
        name: _common([kinds[name] for kinds in types.values() if name in kinds], name, source.name)
        for name in names
    }
    groups: dict[tuple[Kind | None, ...], list[Path]] = {}
    for file, kinds in types.items():
        groups.setdefault(tuple(kinds.get(name) for name in names), []).append(file)
    with translate_errors():
        frames = [
            _read_group(engine, files, dict(zip(names, kinds, strict=True)), common)
            for kinds, files in groups.items()
        ]
        read = sum(count for _, count in frames)
        if read != len(source.files):
            raise InputError(
                f"Spark would read {read} of the {len(source.files)} files of the source: rename "
                "those that begin with _ or ."
            )
        return reduce(lambda frame, other: frame.union(other), (frame for frame, _ in frames))


def _common(kinds: Sequence[Kind], name: str, source_name: str) -> str:
    """The type of Spark that holds the values of a column in all files, with the same texts."""
    types = []
    for kind in kinds:
        if kind.spark is None:
            how = "in microseconds" if "timestamp" in kind.name else "as text"
            raise InputError(
                f'the column "{name}" of {source_name} is {kind.name}, which Spark does not read. '
                f"Write it {how}, or use --engine duckdb."
            )
        if kind.name != NOTHING:
            types.append("timestamp_ntz" if kind.name == INT96 else kind.spark)
    distinct = dict.fromkeys(types)
    if len(distinct) < 2:
        return next(iter(distinct), "string")
    if all(kind in (*WHOLE, LARGEST) for kind in distinct):
        return LARGEST if LARGEST in distinct else "bigint"
    # The only other types of one form are decimals of the same scale.
    return max(distinct, key=lambda kind: [int(digits) for digits in re.findall(r"\d+", kind)])


def _read_group(
    engine: SparkEngine,
    files: Sequence[Path],
    kinds: Mapping[str, Kind | None],
    common: Mapping[str, str],
) -> tuple[Any, int]:
    """The columns of files that have the same ones, cast to common types; and how many it reads."""
    from pyspark.sql.types import StructType

    present = {name: kind for name, kind in kinds.items() if kind and kind.name != NOTHING}
    schema = ", ".join(f"{_name(name)} {kind.spark}" for name, kind in present.items())
    reader = engine.session.read.options(**LITERALLY).schema(schema or StructType([]))
    frame = reader.parquet(*map(literal, files))
    cast = [
        f"CAST({_name(name) if name in present else 'NULL'} AS {kind}) AS {_name(name)}"
        for name, kind in common.items()
    ]
    return frame.selectExpr(*cast), len(frame.inputFiles())


def _read_uri(source: Source, engine: SparkEngine, as_text: Sequence[str]) -> Any:
    """The files at a URI, with the columns that are to be text; see `_open_uri`."""
    frame = _open_uri(source, engine)
    for name in as_text:
        # Spark has one type for INT96, which has no zone, and for times with one.
        if re.search(r"\btimestamp\b", frame.schema[name].dataType.simpleString()):
            raise InputError(
                f'the column "{name}" of {source.name} is a timestamp whose time zone Spark '
                "does not report: write it as text"
            )
    return frame


def _open_uri(source: Source, engine: SparkEngine) -> Any:
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


def _typer_of(source: Source, selection: Selection, frame: Any) -> RowTyper:
    """What makes typed rows of a batch on the workers."""
    from pyspark.sql.pandas.types import to_arrow_schema

    with duckdb.connect() as connection:
        connection.register(INCOMING, to_arrow_schema(frame.schema).empty_table())
        types = column_types(connection, INCOMING, selection.columns(source))
    return typer_of(source, selection, types)


def _read_here(
    source: Source, selection: Selection, engine: SparkEngine, read: Callable[[int], None]
) -> SourceRows:
    """The rows that DuckDB reads here, moved to where the workers reach them."""
    file, broken = engine.private / "source.parquet", dict[str, int]()
    with connect(folder=engine.private) as duck, ExitStack() as stack:
        out = None
        for batch in duck.batches(source, selection, broken=broken, read=read):
            out = out or stack.enter_context(pq.ParquetWriter(file, batch.schema))
            out.write_batch(batch)
    if out is None:
        raise InputError(f"{source.name} has no usable rows: there are none")
    return SourceRows(engine.adopt(file), RowTyper.of_typed(out.schema.names), broken)
