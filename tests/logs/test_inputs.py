"""A log as an object: every kind gives the tables of the file it came from, and rows decide nothing."""

import enum
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from uuid import UUID

import duckdb
import frames_fuzz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_readers import read_rows

import murmurlog
from murmurlog.errors import DiskError, InputError, UsageError
from murmurlog.logs.inputs import local_source
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.options import SourceOptions
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.ledger import Ledger

BUDGET = {"epsilon": 8.0, "delta": 1e-4}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(invent(rows=12000, seed=3), path)
    return path


def release_tables(source, out, **options):
    """The tables of a release whose noise is always the same."""
    murmurlog.release(source, out=out, entropy=SeededEntropy(5), **BUDGET, **options)
    return dict(murmurlog.load(out).tables)


@pytest.fixture(scope="module")
def tables_of_file(log, tmp_path_factory):
    tables = release_tables(str(log), tmp_path_factory.mktemp("file") / "b")
    assert min(table.num_rows for table in tables.values()) > 10
    return tables


class Expression:
    """A table that is a query, as Ibis has it: only its batches come as a stream."""

    def __init__(self, path):
        self._file = pq.ParquetFile(path)

    def __arrow_c_stream__(self, requested_schema=None):
        raise AssertionError("this would hold all rows")

    def to_pyarrow_batches(self, *, chunk_size):
        batches = self._file.iter_batches(chunk_size)
        return pa.RecordBatchReader.from_batches(self._file.schema_arrow, batches)


KINDS = {
    "Path": lambda path: path,
    "pandas": lambda path: pd.read_parquet(path),
    "polars": lambda path: pl.read_parquet(path),
    "polars, lazy": lambda path: pl.scan_parquet(path),
    "Arrow table": lambda path: pq.read_table(path),
    "Arrow reader": lambda path: pq.ParquetFile(path).iter_batches(700),
    "DuckDB": lambda path: duckdb.read_parquet(str(path)),
    "Ibis": Expression,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_object_gives_the_tables_of_its_file(kind, log, tables_of_file, tmp_path):
    source = KINDS[kind](log)
    if kind == "Arrow reader":
        source = pa.RecordBatchReader.from_batches(pq.read_schema(log), source)
    assert release_tables(source, tmp_path / "b") == tables_of_file


PANDAS = {
    "objects": lambda frame: frame.astype({"user": object, "query": object, "url": object}),
    "strings": lambda frame: frame.astype({"user": "string", "query": "string[pyarrow]"}),
    "categories": lambda frame: frame.astype({"user": "category", "query": "category"}),
    "categories of objects": lambda frame: frame.astype({"query": object}).astype(
        {"query": "category"}
    ),
    "zone": lambda frame: frame.assign(
        time=frame.time.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    ),
    "nanoseconds": lambda frame: frame.assign(time=frame.time.astype("datetime64[ns]")),
    "times as objects": lambda frame: frame.assign(time=frame.time.astype(object)),
    "an index": lambda frame: frame.set_index(frame.index[::-1]),
}


@pytest.mark.parametrize("kind", PANDAS)
def test_types_of_pandas_columns_do_not_change_the_tables(kind, log, tables_of_file, tmp_path):
    assert release_tables(PANDAS[kind](pd.read_parquet(log)), tmp_path / "b") == tables_of_file


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), None])
def test_types_of_arrow_columns_do_not_change_the_tables(kind, log, tables_of_file, tmp_path):
    table = pq.read_table(log)
    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table[name].type):
            column = table[name].dictionary_encode() if kind is None else table[name].cast(kind)
            table = table.set_column(place, name, column)
    assert release_tables(table, tmp_path / "b") == tables_of_file


def test_numbers_as_users_are_those_of_the_file(log, tmp_path):
    table = pq.read_table(log)
    table = table.set_column(0, "user", table["user"].dictionary_encode().combine_chunks().indices)
    pq.write_table(table, tmp_path / "numbers.parquet")
    from_file = release_tables(tmp_path / "numbers.parquet", tmp_path / "a")
    assert release_tables(table.to_pandas(), tmp_path / "b") == from_file
    assert release_tables(table.to_pandas().astype({"user": object}), tmp_path / "c") == from_file


def copy_columns(source):
    with local_source(source, SourceOptions()) as path:
        return pq.read_table(path).to_pydict()


def copied_values(values, dtype=object, say=lambda _: None):
    """The texts of the values of a frame's column, and what the owner is told."""
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    with local_source(frame, SourceOptions(), say=say) as path:
        return pq.read_table(path)["x"].to_pylist()


Country = enum.Enum("Country", {"DE": "DE"}, type=str)
MOMENT = datetime(2026, 1, 31, 18, tzinfo=UTC)
TEXTS = [
    ("a", "a"), (Country.DE, "DE"), (np.str_("b"), "b"), (1, "1"), (IntEnum("I", "A").A, "1"),
    (np.uint64(2**64 - 1), "18446744073709551615"), (2.5, "2.5"), (7.0, "7"), (1e18, "1" + "0" * 18),
    (1e30, "1e+30"), (-0.0, "0"), (np.float32(0.5), "0.5"), (7 + 0j, "7"), (True, "true"), (np.False_, "false"),
    (Decimal("1.50"), "1.50"), (b"b", "b"), (bytearray(b"b"), "b"), (memoryview(b"b"), "b"),
    (MOMENT, "2026-01-31 18:00:00+00"), (pd.Timestamp(MOMENT).tz_convert("Asia/Tokyo"), "2026-01-31 18:00:00+00"),
    (pd.Timestamp("2026-01-31 18:00:00.000000005"), "2026-01-31 18:00:00.000000005"),
    (np.datetime64("2026-01-31"), "2026-01-31 00:00:00"), (np.datetime64("2026-01-31T18:00:00.500"), "2026-01-31 18:00:00.5"),
    (MOMENT.date(), "2026-01-31"), (MOMENT.time(), "18:00:00"), (pd.Period("2026-01", "M"), "2026-01"),
    (pd.Interval(0.0, 2.5), "(0, 2.5]"), (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
]  # fmt: skip
MISSING = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"),
           Decimal("NaN"), Decimal("sNaN")]  # fmt: skip
NO_TEXT = [
    [1],
    {"a": 1},
    (1,),
    b"\xff",
    "\ud800",
    10**5000,
    1j,
    timedelta(1),
    Fraction(1, 3),
    object(),
]


def test_each_value_of_an_object_column_has_its_text_whatever_stands_beside_it():
    values = [(*pair, 0) for pair in TEXTS] + [(value, None, 0) for value in MISSING]
    values += [(value, None, 1) for value in NO_TEXT]
    messages = []
    column = np.empty(len(values), dtype=object)
    for place, (value, _, _) in enumerate(values):
        column[place] = value
    assert copied_values(column, say=messages.append) == [text for _, text, _ in values]
    assert f'{len(NO_TEXT)} values of the column "x" of the DataFrame have no text' in messages[-1]
    for value, text, lost in values:
        messages = []
        alone = np.empty(1, dtype=object)
        alone[0] = value
        assert copied_values(alone, say=messages.append) == [text]
        assert sum("have no text" in line for line in messages) == lost


def test_the_owner_learns_where_the_first_value_without_a_text_is_and_not_the_value(monkeypatch):
    monkeypatch.setattr("murmurlog.logs.tables.ROWS_A_BATCH", 2)
    messages = []
    assert copied_values(["a", "b", "c", ["secret"]], say=messages.append)[:3] == ["a", "b", "c"]
    assert "1 values" in messages[-1]
    assert "the first is in row 3, of type list" in messages[-1]
    assert "secret" not in "".join(messages)


def test_a_row_whose_user_or_query_has_no_text_is_broken_and_the_others_are_read(tmp_path):
    users = [f"u{n}" for n in range(300)]
    frame = pd.DataFrame({"user": users, "query": ["weather"] * 300}).astype(object)
    frame.at[7, "query"] = ["weather"]
    messages = []
    outcome = murmurlog.release(frame, out=tmp_path / "b", **BUDGET, say=messages.append)
    assert outcome.rows["query"] == 1
    assert any(
        "1 of 300 rows of DataFrame.parquet are broken (1 x no query)" in t for t in messages
    )


FRAMES = {
    "a missing value": ([2**27, 10**18], None),
    "a fraction": ([2**27, 10**18], 2.5),
    "an imaginary number": ([2**27, 10**18], 1j),
    "a text": ([2**27, 10**18], "x"),
    "a text beside floats": ([1e18, 1_769_882_400.5], "x"),
    "another zone": ([MOMENT, MOMENT], MOMENT.astimezone(timezone(timedelta(hours=9)))),
    "nanoseconds": ([MOMENT.replace(tzinfo=None)], pd.Timestamp(5, unit="ns")),
    "a text beside times": ([MOMENT.replace(microsecond=500_000)], "x"),
    "another interval": ([pd.Interval(0, 1)], pd.Interval(0, 2.5)),
    "a number beside members": ([Country.DE, "DE"], 7),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_the_type_that_pandas_chooses_for_a_value_changes_no_other_text(kind):
    values, other = FRAMES[kind]

    def texts(column):
        users = [f"{number:03}" for number in range(len(column))]
        frame = pd.DataFrame({"user": users, "query": ["q"] * len(column), "x": column})
        with local_source(frame, SourceOptions()) as path:
            options = {"columns": {"user": "user", "query": "query", "time": "x"}}
            rows, _ = read_rows(path, source_options=options, keep={"kept": "x"})
        return [(row["kept"], row["time"]) for row in rows]

    assert texts([*values, other])[: len(values)] == texts(values)


def test_a_value_that_its_arrow_type_cannot_have_is_missing_and_refuses_no_other_row():
    for kind, number in (
        (pa.timestamp("s"), 2**62), (pa.timestamp("ms"), -(2**63)), (pa.timestamp("us", "UTC"), -(2**63)),
        (pa.time64("us"), 2**63 - 1), (pa.time32("ms"), -1),
    ):  # fmt: skip
        stored = pa.array([5, number], f"int{kind.bit_width}").view(kind)
        assert pa.array(copy_columns(pa.table({"x": stored}))["x"]).is_null().to_pylist() == [
            False,
            True,
        ]
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")]
    )
    assert copy_columns(pa.table({"x": bad})) == {"x": ["a", None]}
    assert copy_columns(pa.table({"x": bad.dictionary_encode()})) == {"x": ["a", None]}


def test_columns_of_objects_and_categories_of_polars_are_refused_and_read():
    frame = pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(InputError, match='"x" of the DataFrame is of objects'):
        copy_columns(frame)
    assert copy_columns(pl.DataFrame({"x": pl.Series(["a"], dtype=pl.Categorical)})) == {"x": ["a"]}


def test_some_hundred_frames_are_read_alike_beside_any_value():
    """`make fuzz` reads 20,000."""
    counts, moved = frames_fuzz.run(150, 5)
    assert moved == []
    assert counts.total() == 150


def test_the_fuzz_sees_a_column_that_is_read_as_a_whole(monkeypatch):
    def whole(column, field, losses, start):
        return pa.array(column.astype(str), field.type, from_pandas=True)

    monkeypatch.setattr("murmurlog.logs.tables._pandas_column", whole)
    assert len(frames_fuzz.run(60, 5)[1]) > 5


def test_columns_that_no_file_can_hold_are_named():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(InputError, match='"x" of the Table is sparse_union.*which Parquet'):
        copy_columns(pa.table({"x": union}))


@pytest.mark.parametrize(
    ("source", "kind"),
    [(None, "NoneType"), (3, "int"), (["a"], "list"), ({"user": []}, "dict"), (b"log", "bytes"),
     (pl.LazyFrame, "type"), (datetime(2026, 1, 1), "datetime.datetime")],
)  # fmt: skip
@pytest.mark.parametrize("ask", [murmurlog.release, murmurlog.profile, murmurlog.evaluate])
def test_other_objects_are_refused_with_what_is_accepted(source, kind, ask, tmp_path):
    keywords = {"out": tmp_path / "b"} if ask is murmurlog.release else {}
    with pytest.raises(UsageError, match=f"cannot be a {kind}: give a path .*pandas, polars"):
        ask(source, **keywords)


@pytest.mark.parametrize("column", [pd.Series([1]), pl.Series([1]), pa.chunked_array([[1]])])
def test_a_single_column_is_refused(column, tmp_path):
    with pytest.raises(InputError, match="has no named columns: give a table"):
        murmurlog.release(column, out=tmp_path / "b")


def test_columns_that_cannot_be_mapped_are_shown(tmp_path):
    with pytest.raises(InputError, match=r"DataFrame.parquet.*who.*what"):
        murmurlog.release(pd.DataFrame({"who": ["a"], "what": ["b"]}), out=tmp_path / "b")


def broken_stream(log):
    def batches():
        yield from pq.ParquetFile(log).iter_batches(700)
        raise RuntimeError("somebody's query")

    return pa.RecordBatchReader.from_batches(pq.read_schema(log), batches())


def test_a_stream_that_fails_books_and_leaves_nothing(log, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with pytest.raises(InputError, match="RecordBatchReader.*raised RuntimeError") as error:
        murmurlog.release(
            broken_stream(log), out=tmp_path / "b", ledger=tmp_path / "ledger", source_name="web"
        )
    assert "somebody" not in str(error.value)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "b").exists()
    assert Ledger(tmp_path / "ledger").entries() == []
    missing = pl.scan_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="LazyFrame could not be read to its end"):
        murmurlog.release(missing, out=tmp_path / "b")


def test_the_copy_is_private_and_removed(log):
    with local_source(pq.read_table(log), SourceOptions()) as path:
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert not Path(path).parent.exists()


def test_a_full_disk_is_said(log, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with (
        pytest.raises(DiskError, match="No space left on device.*set TMPDIR"),
        local_source(pq.read_table(log), SourceOptions()),
    ):
        pass


def test_a_dry_run_leaves_the_rows_of_a_reader_where_they_are(log, tables_of_file, tmp_path):
    with pq.ParquetFile(log) as file:
        reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        assert not murmurlog.release(reader, out=tmp_path / "b", dry_run=True, **BUDGET).rows
        assert release_tables(reader, tmp_path / "b") == tables_of_file


def test_what_is_refused_before_reading_leaves_a_reader_as_it_is(log, tables_of_file, tmp_path):
    with pq.ParquetFile(log) as file:
        reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        (tmp_path / "b").mkdir()
        with pytest.raises(UsageError, match="exists"):
            murmurlog.release(reader, out=tmp_path / "b", **BUDGET)
        assert release_tables(reader, tmp_path / "c") == tables_of_file


def test_spark_takes_no_object(tmp_path):
    with pytest.raises(UsageError, match="a DataFrame is in this process"):
        murmurlog.release(pd.DataFrame(), out=tmp_path / "b", engine="spark")


@pytest.mark.slow
def test_profile_evaluate_sweep_and_plan_take_objects(log):
    frame = pd.read_parquet(log)
    assert murmurlog.profile(frame)["users"] == frame.user.nunique()
    assert murmurlog.profile(pl.from_pandas(frame))["users"] == frame.user.nunique()

    def scores(source, test):
        return murmurlog.evaluate(source, test=test, tasks=["statistics", "ad-hoc"]).results

    assert scores(frame, pq.read_table(log)) == scores(log, log)
    swept = murmurlog.sweep(
        duckdb.from_df(frame), mechanisms=["threshold"], vary=("epsilon", [2, 8])
    )
    assert {point.at for point in swept.points} == {2, 8}
    assert murmurlog.plan(target="queries=5", raw=frame).settings["epsilon"] > 0


BIG = """
import resource, sys
from pathlib import Path
import pyarrow as pa
import murmurlog
from murmurlog.logs.inputs import local_source
from murmurlog.logs.options import SourceOptions

rows = 50_000
schema = pa.schema([("user", pa.int64()), ("query", pa.string()), ("agent", pa.string())])
queries = pa.array([f"query {i % 100}" for i in range(rows)])
agents = pa.array([f"browser {i} " * 60 for i in range(rows)])
size = 0

def batches(times):
    global size
    for n in range(times):
        users = pa.array([(n * rows + i) // 20 for i in range(rows)])
        yield (batch := pa.record_batch([users, queries, agents], schema=schema))
        size += batch.nbytes

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

def stream(times):
    return pa.RecordBatchReader.from_batches(schema, batches(times))

with local_source(stream(2), SourceOptions()):
    first = peak()
with local_source(stream(20), SourceOptions()):
    last = peak()
out = Path(sys.argv[1])
made = murmurlog.release(stream(20), out=out, memory="650MB", epsilon=5.0, delta=1e-6)
assert made.rows["query"] == 100
print(first, last, peak(), size >> 20)
"""


@pytest.mark.slow
def test_memory_is_flat_for_a_stream(tmp_path):
    """A stream of ten times the rows takes no more memory, and a release less than the rows do."""
    done = subprocess.run(
        [sys.executable, "-c", BIG, str(tmp_path / "b")],
        env=os.environ, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    first, last, whole, size = map(int, done.stdout.split())
    assert size > 1000  # MB: of these 20 parts, twice
    assert last - first < 60
    assert 3 * whole < 2 * size  # DuckDB takes more memory on a busy machine
