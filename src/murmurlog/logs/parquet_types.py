"""Which types of Parquet columns are read, and what each engine does with them (docs/reference/types.md).

A column is read if its text is a function of its value alone, on every engine. The types are those
of the file itself, not those of a schema that Arrow may have added.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import InputError

MOST_DIGITS = 38  # of a decimal: DuckDB and Spark have no longer ones
INT96 = "int96 timestamp"
NOTHING = "null"
OUT_OF_RANGE = "out of range"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type of a Parquet column.

    Columns of one `form` give one text for one value, so files may differ in the rest. `spark` is
    the type that Spark reads it as, None where it reads no such column.
    """

    name: str
    form: str
    spark: str | None


def _kinds(*rows: tuple[str, str, str | None]) -> dict[str, Kind]:
    return {name: Kind(name=name, form=form, spark=spark) for name, form, spark in rows}


KINDS = _kinds(
    ("string", "text", "string"),
    ("json", "json", "string"),
    ("binary", "bytes", "binary"),
    ("boolean", "boolean", "boolean"),
    ("int8", "integer", "tinyint"),
    ("int16", "integer", "smallint"),
    ("int32", "integer", "int"),
    ("int64", "integer", "bigint"),
    ("uint8", "integer", "smallint"),
    ("uint16", "integer", "int"),
    ("uint32", "integer", "bigint"),
    ("uint64", "integer", "decimal(20,0)"),
    ("float16", "float32", None),
    ("float32", "float32", "float"),
    ("float64", "float64", "double"),
    ("date", "date", "date"),
    ("time", "time of day", None),
    ("time in nanoseconds", "time of day in nanoseconds", None),
    ("timestamp", "timestamp", "timestamp_ntz"),
    (INT96, "timestamp", "timestamp_ltz"),
    ("timestamp in nanoseconds", "timestamp in nanoseconds", None),
    ("timestamp with zone", "timestamp with zone", "timestamp_ltz"),
    ("timestamp with zone in nanoseconds", "timestamp with zone", None),
    ("uuid", "uuid", None),
    (NOTHING, NOTHING, "string"),
)
# By the type that a file annotates a column with; those without one are below.
_ANNOTATED = {"String": "string", "Enum": "string", "JSON": "json", "UUID": "uuid",
              "Float16": "float16", "Date": "date", "Null": NOTHING}  # fmt: skip
_BARE = {"BOOLEAN": "boolean", "INT32": "int32", "INT64": "int64", "INT96": INT96,
         "FLOAT": "float32", "DOUBLE": "float64", "BYTE_ARRAY": "binary",
         "FIXED_LEN_BYTE_ARRAY": "binary"}  # fmt: skip


class _UnreadableType(Exception):
    """A type that no engine reads exactly; the message names it."""


def as_texts(column: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """The values of a column as text, for the owner's eyes; Python has no times beyond the year 9999."""
    return [_as_text(value) for value in column]


def _as_text(value: pa.Scalar) -> str | None:
    try:
        return str(value.as_py()) if value.is_valid else None
    except (OverflowError, ValueError):
        return OUT_OF_RANGE


def types_of(
    files: Sequence[Path], columns: Sequence[str], source_name: str
) -> dict[Path, dict[str, Kind]]:
    """The types of the columns that each file has; raises unless they are readable and agree."""
    types = {file: _columns_of(file, columns, source_name) for file in files}
    first: dict[str, tuple[Path, Kind]] = {}
    for file, kinds in types.items():
        for name, kind in kinds.items():
            if kind.name == NOTHING:
                continue
            where, other = first.setdefault(name, (file, kind))
            if other.form != kind.form:
                raise InputError(
                    f'the column "{name}" of {source_name} is {other.name} in {where.name} and '
                    f"{kind.name} in {file.name}. Write it in one type, or read the files one by one."
                )
    return types


def schemas_of(
    files: Sequence[Path], columns: Sequence[str], source_name: str
) -> dict[Path, pa.Schema]:
    """The Arrow types that columns of each file are read in; raises unless they are readable and agree.

    A column has one type in all files, but that times may have other units. One that a file does not have
    has the type of the others.
    """
    types_by_file = {
        file: _types_in(file, kinds)
        for file, kinds in types_of(files, columns, source_name).items()
    }
    common = {
        name: _common([types[name] for types in types_by_file.values() if name in types])
        for name in columns
    }

    def field(types: Mapping[str, pa.DataType], name: str) -> tuple[str, pa.DataType]:
        timed = pa.types.is_timestamp(common[name])
        return name, types.get(name, common[name]) if timed else common[name]

    return {
        file: pa.schema([field(types, name) for name in columns])
        for file, types in types_by_file.items()
    }


def _types_in(file: Path, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
    """The types of columns of a file."""
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        types = {field.name: plain_type(field.type) for field in opened.schema_arrow}
    return {
        name: pa.string() if kind.form in ("text", "json") else types[name]
        for name, kind in kinds.items()
    }


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column of the file, which Arrow's own schema may have changed."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind == pa.uuid() else plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(plain_type(kind.value_type))
    for is_one, plain in _PLAIN.items():
        if is_one(kind):
            return plain
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


_PLAIN = {
    pa.types.is_large_string: pa.string(),
    pa.types.is_string_view: pa.string(),
    pa.types.is_binary: pa.large_binary(),
    pa.types.is_binary_view: pa.large_binary(),
    pa.types.is_fixed_size_binary: pa.large_binary(),
    pa.types.is_duration: pa.int64(),
    pa.types.is_float16: pa.float32(),  # DuckDB has no such type
}


def _common(types: Sequence[pa.DataType]) -> pa.DataType:
    """The type that holds the values of a column in all files, with the same texts."""
    distinct = [kind for kind in dict.fromkeys(types) if not pa.types.is_null(kind)]
    if not distinct:
        return pa.string()
    if len(distinct) == 1 or not all(map(pa.types.is_integer, distinct)):
        # Other types of one form are decimals of the same scale, and times.
        return max(distinct, key=lambda kind: getattr(kind, "precision", 0))
    return pa.decimal128(20) if pa.uint64() in distinct else pa.int64()


def _columns_of(file: Path, columns: Sequence[str], source_name: str) -> dict[str, Kind]:
    """The types of those columns that a file has."""
    try:
        schema = pq.read_metadata(file).schema
        fields = list(schema.to_arrow_schema())
    except (pa.ArrowException, OSError):  # their texts can quote what is in the file
        raise InputError(f"{file.name} is not readable as parquet") from None
    leaves = iter([schema.column(i) for i in range(len(schema))])
    kinds = {}
    for field in fields:
        columns_of_field = [next(leaves) for _ in range(_width(field.type))]
        if field.name in columns:
            try:
                kinds[field.name] = _kind(field.type, iter(columns_of_field))
            except _UnreadableType as error:
                raise InputError(
                    f'the column "{field.name}" of {source_name} is {error}, which is not read '
                    "exactly. Write it as text."
                ) from None
    return kinds


def _parts(kind: pa.DataType) -> list[tuple[str, pa.DataType]] | None:
    """The names and types that a nested type is made of; None if it is not nested."""
    if isinstance(kind, pa.BaseExtensionType):
        return _parts(kind.storage_type)
    if pa.types.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    if pa.types.is_map(kind):
        return [("key", kind.key_type), ("value", kind.item_type)]
    if any(is_list(kind) for is_list in _LISTS):
        return [("", kind.value_type)]
    return None


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list,
          pa.types.is_list_view, pa.types.is_large_list_view)  # fmt: skip


def _width(kind: pa.DataType) -> int:
    """How many columns of a Parquet file a type takes."""
    parts = _parts(kind)
    return 1 if parts is None else sum(_width(part) for _, part in parts)


def _kind(kind: pa.DataType, leaves: Iterator[Any]) -> Kind:
    """The type of a column; `leaves` are the file's own columns that it is made of."""
    parts = _parts(kind)
    if parts is None:
        leaf = next(leaves)
        return _leaf(leaf.physical_type, json.loads(leaf.logical_type.to_json()))
    inner = [(name, _kind(part, leaves)) for name, part in parts]
    names = ", ".join(f"{name} {part.name}".strip() for name, part in inner)
    what = "struct" if pa.types.is_struct(kind) else "map" if pa.types.is_map(kind) else "list"
    # Nested types must agree exactly: the text of a list depends on the types of its elements.
    return Kind(
        name=f"{what}({names})", form=f"{what}({names})", spark=_spark_nested_type(what, inner)
    )


def _spark_nested_type(what: str, inner: Sequence[tuple[str, Kind]]) -> str | None:
    """A nested type as Spark writes it."""
    # Spark has one type for INT96 and for times with a zone, and inside others it is not cast.
    if any(part.spark is None or INT96 in part.name for _, part in inner):
        return None
    if what == "struct":
        fields = (f"`{name.replace('`', '``')}`:{part.spark}" for name, part in inner)
        return f"struct<{','.join(fields)}>"
    types = ",".join(str(part.spark) for _, part in inner)
    return f"map<{types}>" if what == "map" else f"array<{types}>"


def _leaf(physical: str, logical: Mapping[str, Any]) -> Kind:
    """The type of a single column of a file."""
    kind = str(logical["Type"])
    if kind == "Decimal":
        return _decimal(int(logical["precision"]), int(logical["scale"]))
    if kind == "Int":
        name = f"{'' if logical['isSigned'] else 'u'}int{logical['bitWidth']}"
    elif kind in ("Time", "Timestamp"):
        zone = bool(logical["isAdjustedToUTC"])
        is_nano = logical["timeUnit"] == "nanoseconds"
        name = kind.lower() + " with zone" * zone + " in nanoseconds" * is_nano
    elif kind in ("None", "Undefined"):
        name = _BARE.get(physical, physical.lower())
    else:
        name = _ANNOTATED.get(kind, kind.lower())
    if name not in KINDS:
        raise _UnreadableType(name)
    return KINDS[name]


def _decimal(precision: int, scale: int) -> Kind:
    name = f"decimal({precision},{scale})"
    if precision > MOST_DIGITS:
        raise _UnreadableType(f"{name}, of more than {MOST_DIGITS} digits")
    return Kind(name=name, form=f"decimal with {scale} digits after the point", spark=name)
