"""The memory of a process is divided so that all parts together fit, and the largest unit has room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import murmurlog.logs.row_typer
import murmurlog.logs.rows
import murmurlog.logs.source_batches
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.memory import BYTES_A_ROW, PROCESS, MemoryPlan, bytes_of_a_unit, least_memory
from murmurlog.logs.source import find
from murmurlog.logs.typed_rows import Selection
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release

UNITS = ("user", "user-day", "user-week", "user-month")
LEAST = f"{-(-least_memory() // 10**6)}MB"


@pytest.mark.parametrize("cores", [1, 2, 16, 200])
def test_all_parts_together_are_no_more_than_the_memory(cores):
    for memory in np.geomspace(least_memory(), 10**13, 60).astype(int).tolist():
        plan = MemoryPlan.of(memory, cores=cores)
        assert 1 <= plan.threads <= cores
        reading = plan.duckdb + (plan.threads + 2) * plan.rows_a_batch * BYTES_A_ROW
        partitions = plan.threads * plan.most_rows * BYTES_A_ROW
        for work in (reading, partitions, plan.threads * bytes_of_a_unit()):
            assert PROCESS + plan.values + work <= memory
        assert plan.rows_a_partition < plan.most_rows
        assert plan.rows_a_batch > 20_000


def test_the_largest_unit_fits_into_a_partition():
    assert MemoryPlan.of(least_memory(), cores=64).most_rows >= murmurlog.logs.rows.MOST_ROWS_A_UNIT


def test_the_least_memory_is_the_one_that_is_documented():
    docs = Path(__file__).parents[2] / "docs"
    least = f"**{-(-least_memory() // 10**6)} MB**"
    assert least in (docs / "explanation" / "scale.md").read_text("utf-8")
    assert 550e6 < least_memory() <= 600e6  # as --help says


def test_batches_end_after_so_many_rows_or_bytes(tmp_path, monkeypatch):
    rows = 9_000
    texts = ["x" * (3_000 if row < 3_000 else 3) for row in range(rows)]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": pa.array(range(rows)), "query": texts}), path)
    for module in (murmurlog.logs.row_typer, murmurlog.logs.source_batches):
        monkeypatch.setattr(module, "BYTES_A_BATCH", 1_000_000)
    with connect() as engine:
        source = find(str(path))
        batches = list(engine.batches(source, Selection(urls=False), broken={}))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == rows
    assert max(sizes) < rows  # 3,000 rows of 3,000 bytes
    read = [text for batch in batches for text in batch["query"].to_pylist()]
    assert sorted(map(len, read)) == sorted(map(len, texts))


def large_log(path, *, rows, values, size):
    """A user with many rows, one with long values, and others with a few common queries."""
    rng = np.random.default_rng(3)
    day = 86_400_000_000
    with pq.ParquetWriter(path, SCHEMA) as out:
        for start in range(0, rows, 500_000):
            count = min(500_000, rows - start)
            numbers = rng.integers(0, 50, count)
            out.write_table(pa.table({
                "user": np.full(count, "many"), "time": pa.array(start + np.arange(count), pa.timestamp("us")),
                "query": np.array([f"query {n}" for n in range(50)])[numbers],
                "url": np.full(count, "http://a.example/b"),
            }, SCHEMA))  # fmt: skip
        for number in range(values):
            out.write_table(pa.table({
                "user": ["long"], "time": pa.array([number], pa.timestamp("us")),
                "query": [str(number) + "x" * size], "url": ["http://a.example/b"],
            }, SCHEMA))  # fmt: skip
        few = 40_000
        out.write_table(pa.table({
            "user": [f"u{n % 4_000}" for n in range(few)],
            "time": pa.array(rng.integers(0, 60, few) * day, pa.timestamp("us")),
            "query": [f"query {n}" for n in rng.integers(0, 60, few)],
            "url": np.full(few, "http://a.example/b"),
        }, SCHEMA))  # fmt: skip
    return path


SCHEMA = pa.schema([
    ("user", pa.string()), ("time", pa.timestamp("us")), ("query", pa.string()), ("url", pa.string()),
])  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_units_that_are_too_large_have_the_same_tables_at_the_least_memory(
    unit, tmp_path, monkeypatch
):
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_ROWS_A_UNIT", 300)
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_BYTES_A_UNIT", 9_000)
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_BYTES_A_VALUE", 400)
    log = large_log(tmp_path / "log.parquet", rows=3_000, values=30, size=500)
    tables = []
    for memory in (LEAST, None):
        outcome = release(
            str(log), out=tmp_path / f"out-{memory}", memory=memory, unit=unit, epsilon=20.0, delta=1e-4,
            per_user=5, entropy=SeededEntropy(1),
        )  # fmt: skip
        assert outcome.broken["value too long"] == 30
        tables.append(outcome.tables)
    assert tables[0]["query"].num_rows > 20
    assert tables[0] == tables[1]


RELEASE = """
import json, resource, sys
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release
log, out, unit, memory = sys.argv[2:]
made = release(log, out=out, memory=memory, unit=unit, epsilon=20.0, delta=1e-4, per_user=5,
               entropy=SeededEntropy(1))
tables = {kind: table.to_pylist() for kind, table in made.tables.items()}
with open("/proc/self/status") as status:  # getrusage begins with the peak of the process that started this one
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print(json.dumps([tables, int(peak)]))
"""


def released(log, out, *, unit, memory, limit=0):
    """The tables of a release in a process of its own, and its peak memory in bytes."""
    # An allocator that reserves a gigabyte of addresses at once would be all that is measured.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        [sys.executable, "-c", RELEASE, str(limit), str(log), str(out), unit, memory],
        stdout=subprocess.PIPE, env=environment, check=True,
    )  # fmt: skip
    tables, peak = json.loads(done.stdout)
    return tables, peak * 1024


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_ten_million_rows_of_a_unit_are_counted_under_a_limit_of_the_least_memory(unit, tmp_path):
    """Of all private memory that the process may write (RLIMIT_DATA); its peak is below, too."""
    log = large_log(tmp_path / "log.parquet", rows=10**7, values=12, size=8_000_000)
    limit = least_memory()
    tables, peak = released(log, tmp_path / "a", unit=unit, memory=LEAST, limit=limit)
    assert peak < limit
    plenty, _ = released(log, tmp_path / "b", unit=unit, memory="6GB")
    assert tables == plenty
    assert len(tables["query"]) > 20


@pytest.mark.slow
def test_five_million_rows_stay_below_what_was_asked_under_a_real_limit(tmp_path):
    log = Path(tmp_path / "log.parquet")
    script = Path(__file__).parents[2] / "benchmarks" / "peers" / "log.py"
    subprocess.run([sys.executable, script, "5000000", log], check=True)
    _, peak = released(log, tmp_path / "a", unit="user", memory="1GB", limit=10**9)
    assert peak < 10**9
