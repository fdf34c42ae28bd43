"""Types of Parquet columns: which are read, that DuckDB gives each the text it should, what is refused."""

import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_readers import read_rows

from murmurlog.errors import InputError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.parquet_types import KINDS, NOTHING, types_of
from murmurlog.logs.source import find
from murmurlog.logs.sql import quote

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "types.md"


def uuids(*numbers):
    stored = pa.array([uuid.UUID(int=n).bytes for n in numbers], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


# A column, the name of its type, and the text of its first value.
READ = [
    (pa.array(["a"]), "string", "a"),
    (pa.array(["a"], pa.large_string()), "string", "a"),
    (pa.array(["a"]).dictionary_encode(), "string", "a"),
    (pa.array([b"\xff\\a"]), "binary", r"\xFF\x5Ca"),
    (pa.array([b"abc"], pa.binary(3)), "binary", "abc"),
    (pa.array([True]), "boolean", "true"),
    (pa.array([-1], pa.int8()), "int8", "-1"),
    (pa.array([7], pa.int16()), "int16", "7"),
    (pa.array([7], pa.int32()), "int32", "7"),
    (pa.array([7], pa.int64()), "int64", "7"),
    (pa.array([7], pa.duration("us")), "int64", "7"),
    (pa.array([7], pa.uint8()), "uint8", "7"),
    (pa.array([7], pa.uint16()), "uint16", "7"),
    (pa.array([7], pa.uint32()), "uint32", "7"),
    (pa.array([2**64 - 1], pa.uint64()), "uint64", "18446744073709551615"),
    (pa.array([np.float16(0.1)]), "float16", "0.099975586"),
    (pa.array([0.1], pa.float32()), "float32", "0.1"),
    (pa.array([0.1]), "float64", "0.1"),
    (pa.array([7.0], pa.float32()), "float32", "7"),
    (pa.array([7.0]), "float64", "7"),
    (pa.array([1e18]), "float64", "1000000000000000000"),
    (pa.array([1e30]), "float64", "1e+30"),
    (pa.array([Decimal("1.50")], pa.decimal128(38, 2)), "decimal(38,2)", "1.50"),
    (pa.array([Decimal("1.50")], pa.decimal256(20, 2)), "decimal(20,2)", "1.50"),
    (pa.array([date(1, 1, 1)]), "date", "0001-01-01"),
    (pa.array([1500], pa.time32("ms")), "time", "00:00:01.5"),
    (pa.array([1_000_000], pa.time64("us")), "time", "00:00:01"),
    (pa.array([1], pa.time64("ns")), "time in nanoseconds", "00:00:00.000000001"),
    (pa.array([500], pa.timestamp("ms")), "timestamp", "1970-01-01 00:00:00.5"),
    (pa.array([5], pa.timestamp("us")), "timestamp", "1970-01-01 00:00:00.000005"),
    (pa.array([5], pa.timestamp("ns")), "timestamp in nanoseconds", "1970-01-01 00:00:00.000000005"),
    (pa.array([5], pa.timestamp("us", "Asia/Tokyo")), "timestamp with zone", "1970-01-01 00:00:00.000005+00"),
    (pa.array([5000], pa.timestamp("ns", "UTC")), "timestamp with zone in nanoseconds", "1970-01-01 00:00:00.000005+00"),
    (uuids(1), "uuid", "00000000-0000-0000-0000-000000000001"),
    (pa.nulls(1), "null", None),
    (pa.array([[1, None]]), "list(int64)", "[1, NULL]"),
    (pa.array([{"a": 1, "b": "x"}]), "struct(a int64, b string)", "{'a': 1, 'b': x}"),
    (pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))), "map(key string, value list(int8))", "{k=[1]}"),
]  # fmt: skip


def write_log(column, path, **options):
    rows = {"user": ["u"], "query": ["q"], "what": column}
    pq.write_table(pa.table(rows), path, **options)
    return path


@pytest.mark.parametrize(("column", "name", "text"), READ, ids=[row[1] for row in READ])
def test_a_type_is_told_by_the_file_and_has_one_text(column, name, text, tmp_path):
    for stored in (True, False):  # whether Arrow's own schema stands beside that of the file
        path = write_log(column, tmp_path / f"{stored}.parquet", store_schema=stored)
        kinds = types_of([path], ["what"], "log")[path]
        assert kinds["what"].name == name
        rows, _ = read_rows(path, keep={"kept": "what"})
        assert [row["kept"] for row in rows] == [text]


def test_old_timestamps_are_told_from_others(tmp_path):
    column = pa.array([1_500], pa.timestamp("ns"))
    path = write_log(column, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert types_of([path], ["what"], "log")[path]["what"].name == "int96 timestamp"
    rows = duckdb.sql(f"SELECT what::VARCHAR FROM {quote(str(path))}").fetchall()
    assert rows == [("1970-01-01 00:00:00.000001",)]


def test_every_half_is_read_as_the_number_it_is(tmp_path):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    pq.write_table(pa.table({"h": pa.array(halves)}), tmp_path / "a.parquet")
    floats = duckdb.sql(f"SELECT h FROM {quote(str(tmp_path / 'a.parquet'))}").fetchnumpy()["h"]
    assert np.array_equal(np.ma.filled(floats, np.nan), halves.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([Decimal(1)], pa.decimal256(39, 0)), "decimal(39,0), of more than 38 digits"),
        (pa.array([[Decimal(1)]], pa.list_(pa.decimal256(76, 2))), "decimal(76,2)"),
    ],
)
def test_what_is_not_read_exactly_is_refused(column, words, tmp_path):
    path = write_log(column, tmp_path / "a.parquet")
    with pytest.raises(InputError) as caught:
        types_of([path], ["user", "what"], "log")
    assert str(caught.value).startswith(f'the column "what" of log is {words}')
    assert "Write it as text" in str(caught.value)
    types_of([path], ["user"], "log")  # nobody asked for it


TOGETHER = [
    (pa.int32(), pa.uint64()),
    (pa.decimal128(9, 2), pa.decimal128(30, 2)),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.string(), pa.large_string()),
    (pa.null(), pa.int64()),
    (pa.list_(pa.int8()), pa.list_(pa.int8(), 1)),
]
APART = [
    (pa.int64(), pa.float64()),
    (pa.int64(), pa.string()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(9, 2), pa.decimal128(9, 3)),
    (pa.decimal128(9, 0), pa.int64()),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.string(), pa.binary()),
    (pa.string(), pa.bool_()),
    (pa.time64("us"), pa.time64("ns")),
    (pa.list_(pa.int8()), pa.list_(pa.int64())),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
]


def two(kinds, folder):
    """Two files with a column that both have, empty but for nulls, one that only one has between."""
    files = []
    for name, kind in zip("ac", kinds, strict=True):
        files.append(write_log(pa.nulls(1, kind), folder / f"{name}.parquet"))
    pq.write_table(pa.table({"user": ["u"], "query": ["q"]}), folder / "b.parquet")
    return [files[0], folder / "b.parquet", files[1]]


@pytest.mark.parametrize("kinds", TOGETHER, ids=str)
def test_files_may_differ_where_texts_do_not(kinds, tmp_path):
    types_of(two(kinds, tmp_path), ["user", "what"], "log")


@pytest.mark.parametrize("kinds", APART, ids=str)
def test_files_of_different_types_are_refused_by_name(kinds, tmp_path):
    files = two(kinds, tmp_path)
    with pytest.raises(
        InputError, match='the column "what" of log is .* in a.parquet and .* in c.'
    ):
        types_of(files, ["user", "what"], "log")
    types_of(files, ["user", "query"], "log")


def test_integers_of_all_widths_have_one_text(tmp_path):
    for name, kind in (("a", pa.int8()), ("b", pa.int64()), ("c", pa.uint64()), ("d", pa.null())):
        write_log(pa.array([None if name == "d" else 7], kind), tmp_path / f"{name}.parquet")
    rows, _ = read_rows(tmp_path, keep={"kept": "what"})
    assert sorted((row["kept"] for row in rows), key=str) == ["7", "7", "7", None]


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match="a.parquet is not readable as parquet"):
        types_of([tmp_path / "a.parquet"], ["user"], "log")


def test_the_table_of_types_in_the_docs_is_this_one():
    lines = [line.split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = {line[1].strip(" `"): line[3].strip() == "yes" for line in lines}
    assert {name: kind.spark is not None for name, kind in KINDS.items()} == {
        name: read for name, read in documented.items() if name in KINDS
    }
    assert {*documented} - {*KINDS} == {"decimal(p,s)", "list, struct, map"}
    assert NOTHING in documented


def test_an_engine_reads_logs_one_after_the_other(tmp_path):
    path = write_log(pa.array([1]), tmp_path / "a.parquet")
    with connect() as engine:
        assert read(find(str(path)), engine=engine).rows == 1
        assert read(find(str(path)), engine=engine).rows == 1
