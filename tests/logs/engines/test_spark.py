"""Spark: the same rows, tallies and releases as on this machine, on a real cluster, with a worker killed; and
what is refused."""

import json
import subprocess
import sys
import time
import zipfile
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace

import engine_results
import frozen
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from cluster import TIMEOUT, Cluster, environment, needs_spark
from hostile import hostile_log, with_numbers, with_texts
from spellings import SPELLINGS

from murmurlog.auditing.verify import verify
from murmurlog.bundle.canonical import CANONICAL
from murmurlog.bundle.schema import BY_VALUE
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.addresses import is_uri
from murmurlog.logs.engines import spark
from murmurlog.logs.engines.spark import PIP, check_settings, connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.publishing.release import release

COMMAND = "from murmurlog.cli.main import main; main()"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


def start(cluster, requests, folder):
    """The results of requests on the cluster, begun; they end up in out.json."""
    (folder / "scratch").mkdir()
    (folder / "requests.json").write_text(json.dumps(requests))
    return subprocess.Popen(
        [sys.executable, engine_results.__file__, cluster.url, str(folder / "scratch"),
         str(folder / "requests.json"), str(folder / "out.json")],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def read_result(process, folder):
    words, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, words[-3000:]
    assert list((folder / "scratch").iterdir()) == []  # nothing of the log is left
    return json.loads((folder / "out.json").read_text())


def compare(here, there):
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys()
        for name in other:
            assert one[name] == other[name], name
            assert one[name] or name in ("broken", "screened")


# Of each a release on a log of text, and of the same log as Parquet.
SETTINGS = (
    "threshold", "threshold-by", "zealous", "korolova-rows", "rounds", "rounds-by", "rounds-random",
    "rounds-weeks", "rounds-months", "rounds-itemsets", "rounds-pool", "rounds-windows",
)  # fmt: skip


class TestOnACluster:
    pytestmark = needs_spark

    def test_tallies_are_those_of_duckdb_on_hostile_text(self, cluster, tmp_path):
        log = hostile_log(3000, seed=1)
        texts = with_texts(log, seed=2)
        pq.write_table(log, tmp_path / "log.parquet")
        pq.write_table(texts, tmp_path / "texts.parquet")
        for name, kind in (("unix", pa.float64()), ("decimal", pa.decimal128(30, 2))):
            pq.write_table(with_numbers(log, kind, seed=3), tmp_path / f"{name}.parquet")
        spelled = pa.array([*SPELLINGS] * 60).slice(0, 3000)
        place = log.column_names.index("query")
        pq.write_table(log.set_column(place, "query", spelled), tmp_path / "spelled.parquet")
        (tmp_path / "two").mkdir()
        pq.write_table(log.slice(0, 1500), tmp_path / "two" / "a.parquet")
        pq.write_table(log.slice(1500).drop_columns("rank"), tmp_path / "two" / "b.parquet")
        lines = [json.dumps(row, default=str) for row in log.slice(0, 500).to_pylist()]
        (tmp_path / "log.jsonl").write_text("\n".join([*lines, "{not json"]) + "\n")
        few = engine_results.EVERY[:1]
        requests = [
            {"path": str(tmp_path / "log.parquet"), "counted": engine_results.EVERY, "keep": {BY_VALUE: "country"}},
            {"path": str(tmp_path / "log.parquet"), "counted": engine_results.EVERY, "unit": "user-week"},
            {"path": str(tmp_path / "texts.parquet"), "unit": "user-month", "counted": engine_results.EVERY[-2:]},
            {"path": str(tmp_path / "spelled.parquet"), "counted": few, "keys": CANONICAL},
            {"path": str(tmp_path / "unix.parquet"), "counted": few, "where": {"country": "DE"}},
            {"path": str(tmp_path / "decimal.parquet"), "counted": few, "since": "2024-01-09"},
            {"path": str(tmp_path / "two"), "counted": few, "where": {"country": ""}},
            {"path": str(tmp_path / "log.jsonl"), "counted": few, "url": "full",
             "source": {"columns": {name: name for name in log.column_names[:5]}}},
        ]  # fmt: skip
        running = start(cluster, requests, tmp_path)
        expected = engine_results.on_duckdb(requests)
        compare(read_result(running, tmp_path), expected)
        assert expected[-1]["broken"]["not JSON"] == 1

    def test_releases_are_those_of_this_machine(self, cluster, tmp_path):
        path = str(tmp_path / "log.parquet")
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        pq.write_table(
            pyarrow.csv.read_csv(frozen.LOG, convert_options=options), path, row_group_size=1000
        )
        requests = [{"release": name, "with": {"source": path}} for name in SETTINGS]
        requests += [{"release": name, "with": {}} for name in ("rounds", "threshold-untimed")]
        running = start(cluster, requests, tmp_path)
        expected = engine_results.on_duckdb(requests)
        compare(read_result(running, tmp_path), expected)

    def test_a_killed_worker_changes_nothing(self, cluster, tmp_path):
        pq.write_table(hostile_log(50_000, seed=3), tmp_path / "log.parquet")
        requests = [{"path": str(tmp_path / "log.parquet"), "counted": engine_results.EVERY[:2]}]
        before = len(cluster.executors(1))
        running = start(cluster, requests, tmp_path)
        expected = engine_results.on_duckdb(requests)
        end = time.monotonic() + TIMEOUT
        # Wait for a write after the rows were read, with both at work.
        while not any(int(p.parent.name[1:]) > 1 for p in tmp_path.glob("scratch/.m*/t[0-9]*/*")):
            assert running.poll() is None, running.stdout.read()[-3000:]
            assert time.monotonic() < end
            time.sleep(0.02)
        assert len(cluster.executors(1)) > before
        cluster.kill(1)
        assert running.poll() is None
        compare(read_result(running, tmp_path), expected)
        assert "Removing worker" in (cluster.folder / "master.log").read_text()
        cluster.replace(1)

    def test_a_release_by_the_usual_mechanism_passes_verify(self, cluster, tmp_path):
        write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
        (tmp_path / "scratch").mkdir()
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "release", (tmp_path / "log.parquet").as_uri(),
             *("--out", str(tmp_path / "bundle"), "--engine", "spark", "--master", cluster.url),
             *("--scratch", (tmp_path / "scratch").as_uri(), "--tables", "query,click"),
             *("--epsilon", "8", "--delta", "1e-4")],
            env=environment(), capture_output=True, text=True, timeout=TIMEOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert verify(tmp_path / "bundle").exit_code == 0
        assert list((tmp_path / "scratch").iterdir()) == []
        told = json.loads((tmp_path / "bundle" / "privacy.json").read_text())
        assert told["engine"].startswith("spark ")
        assert {t["mechanism"].partition("(")[0] for t in told["tables"].values()} == {"rounds"}
        assert pq.read_table(tmp_path / "bundle" / "data" / "query.parquet").num_rows > 0

    def test_mechanisms_that_draw_batch_by_batch_run_as_they_are(self, tmp_path):
        write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
        done = run(RELEASES, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        for name in ("zealous", "threshold", "korolova"):
            assert verify(tmp_path / name).exit_code == 0
            assert pq.read_table(tmp_path / name / "data" / "query.parquet").num_rows > 0

    def test_tasks_that_fail_or_run_twice_change_nothing(self, tmp_path):
        done = run(REPEATED, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        first, again, ran = json.loads(done.stdout.splitlines()[-1])
        assert ran > 8  # each of the two jobs ran tasks again
        assert first == again

    def test_a_unit_of_ten_million_rows_is_cut_as_here_in_bounded_memory(self, tmp_path):
        rows = 10_000_000
        place = pa.array(np.arange(rows) * 7919 % rows)
        texts = pc.cast(pc.bit_wise_and(place, 0xFFFFF), pa.string())
        time = pc.cast(pc.add(pc.divide(place, 1000), 1_700_049_600), pa.timestamp("s"))
        large = pa.array(["x" * 8_000_000, "y" * 1_999_999, "z"])
        log = pa.table(
            {"user": ["u"] * rows, "query": texts, "time": time.cast(pa.timestamp("us"))}
        )
        few = {"user": ["v"] * 3, "query": large, "time": log["time"].slice(0, 3)}
        with pq.ParquetWriter(tmp_path / "log.parquet", log.schema) as out:
            out.write_table(log, row_group_size=500_000)
            out.write_table(pa.table(few))
        done = run(LARGE, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        for unit, here, there, peak in json.loads(done.stdout.splitlines()[-1]):
            assert here == there, unit
            assert here[0] == (1 << 18) + 2  # rows of one unit that count, and the short values
            assert peak < 1500, unit  # MB

    def test_nothing_but_sums_labels_and_published_keys_comes_here(self, tmp_path):
        write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
        done = run(BROUGHT, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        kinds, largest, rows = json.loads(done.stdout.splitlines()[-1])
        # Counts of rows, sums of a shard, places and labels of published items, and how many units hold these.
        assert set(kinds) == {"RowCounts", "Sums", "ndarray", "list", "tuple of ndarray"}
        assert largest < rows / 5

    def test_a_session_that_commits_in_another_way_is_not_asked_how(self, tmp_path):
        done = run(COMMITS, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines()[-1] == "3 rows"

    def test_what_spark_would_read_in_another_way_is_refused(self, tmp_path):
        good = {"user": ["a", "b"], "query": ["x", "y"]}
        nanoseconds = pa.array([1, 2], pa.timestamp("ns"))
        pq.write_table(pa.table(good), tmp_path / "_hidden.parquet")
        pq.write_table(pa.table(good | {"USER": ["c", "d"]}), tmp_path / "capitals.parquet")
        pq.write_table(pa.table(good | {"time": nanoseconds}), tmp_path / "nano.parquet")
        uuids = pa.array([b"0123456789abcdef"] * 2, pa.binary(16))
        uuids = pa.ExtensionArray.from_storage(pa.uuid(), uuids)
        pq.write_table(pa.table(good | {"user": uuids}), tmp_path / "uuid.parquet")
        halves = pa.array([1, 2], pa.float16())
        pq.write_table(pa.table(good | {"user": halves}), tmp_path / "half.parquet")
        clock = pa.array([1, 2], pa.time64("us"))
        pq.write_table(pa.table(good | {"time": clock}), tmp_path / "clock.parquet")
        digits = pa.array([Decimal(10**39), Decimal(1)], pa.decimal256(40, 0))
        pq.write_table(pa.table(good | {"user": digits}), tmp_path / "digits.parquet")
        (tmp_path / "types").mkdir()
        pq.write_table(pa.table(good), tmp_path / "types" / "a.parquet")
        pq.write_table(pa.table(good | {"user": [1, 2]}), tmp_path / "types" / "b.parquet")
        for name in ("user", "query"):
            broken = pa.array([b"\xff\xfe", b"ok"]).view(pa.string())
            pq.write_table(pa.table(good | {name: broken}), tmp_path / f"bytes-{name}.parquet")
        (tmp_path / "unread").mkdir()  # by its URI
        pq.write_table(pa.table(good | {"user": uuids}), tmp_path / "unread" / "a.parquet")
        done = run(REFUSALS, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout.splitlines()[-1])
        words = {
            "_hidden.parquet": "Spark",
            "capitals.parquet": "differ only in case: user, USER",
            "nano.parquet": 'the column "time" of nano.parquet is timestamp in nanoseconds',
            "uuid.parquet": 'the column "user" of uuid.parquet is uuid, which Spark does not read',
            "half.parquet": 'the column "user" of half.parquet is float16, which Spark',
            "clock.parquet": 'the column "time" of clock.parquet is time, which Spark does not read',
            "digits.parquet": 'column "user" of digits.parquet is decimal(40,0), of more than 38',
            "types": 'column "user" of a.parquet and 1 more files is string in a.parquet and int64 in',
            "unread": "a type that Spark does not read",
        }
        # A text that is not UTF-8 breaks its row alone, as where this process reads.
        for name in ("user", "query"):
            assert told.pop(f"bytes-{name}.parquet") == ["read", {"not UTF-8": 1}]
        assert {name: kind for name, (kind, _) in told.items()} == dict.fromkeys(
            words, "InputError"
        )
        for name, part in words.items():
            assert part in told[name][1], told[name]

    def test_no_row_leaves_the_scratch_folder_whatever_its_name_is(self, tmp_path):
        for name in ("scratch", "temporary"):
            for odd in ODD:
                (tmp_path / name / odd).mkdir(parents=True)
        (tmp_path / "log.csv").write_text("user,query\na,x\nb,y\nc,z\n")
        before = sorted(tmp_path.rglob("*"))
        temporary = tmp_path / "temporary" / "".join(ODD).replace(",", "")
        temporary.mkdir()
        done = run(SCRATCH, tmp_path, TMPDIR=str(temporary), cwd=temporary)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == [[3, 1, "0o700", 1, "0o700"]] * len(ODD)
        temporary.rmdir()  # empty
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_folder_for_temporary_files_with_a_comma_is_refused(self, tmp_path):
        (tmp_path / "a,b").mkdir()
        done = run(COMMA, tmp_path, TMPDIR=str(tmp_path / "a,b"))
        assert "UsageError" in done.stderr
        assert "name another with TMPDIR" in done.stderr
        assert [path.name for path in tmp_path.rglob("*")] == ["a,b"]

    def test_files_are_found_whatever_their_names_are(self, tmp_path):
        for i, odd in enumerate(ODD):
            (tmp_path / "logs" / odd).mkdir(parents=True)
            for k, name in enumerate((f"{odd}.parquet", "a.parquet")):
                row = {"user": [f"u{i}"], "query": [f"q{k}"], "day": [f"d{i}"]}
                pq.write_table(pa.table(row), tmp_path / "logs" / odd / name)
        for i in range(40):  # more than Spark lists in the driver
            (tmp_path / "days" / f"day={i % 3}" / f"user={i}").mkdir(parents=True)
            row = {"user": [f"u{i}"], "query": ["q"]}
            pq.write_table(
                pa.table(row), tmp_path / "days" / f"day={i % 3}" / f"user={i}" / "a.parquet"
            )
        paths = [tmp_path / "logs" / odd / f"{odd}.parquet" for odd in ODD if "*" not in odd]
        paths += [tmp_path / "logs" / odd for odd in ODD]
        paths += [tmp_path / "logs" / "*" / "*.parquet", tmp_path / "days" / "day=*" / "*" / "*"]
        compare_rows(tmp_path, [{"path": str(path)} for path in paths])

    def test_values_have_the_text_that_duckdb_gives_them(self, tmp_path):
        moments = [1_704_423_845_123_456_789, None, -1, 0]
        columns = {
            "int96": pa.array(moments, pa.timestamp("ns")),
            "user": pa.array(["a", "b", "c", "d"]),
            "query": pa.array([b"x", b"\xff\\", b"", None]),
            "nested": pa.array([[{"a": 1, "b c": "it's"}], [], None, [None]]),
            "exact": pa.array([Decimal("1.50"), None, Decimal(0), Decimal("-1e30")], pa.decimal128(38, 2)),
            "single": pa.array([0.1, float("nan"), -0.0, 1e30], pa.float32()),
            "nothing": pa.nulls(4),
        }  # fmt: skip
        table = pa.table(columns)
        pq.write_table(table, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
        keep = {name: name for name in ("int96", "nested", "exact", "single", "nothing")}
        # A column that nobody asked for may have a type that Spark does not read.
        odd = pa.table({"user": ["a"], "query": ["x"], "clock": pa.array([1], pa.time64("us"))})
        pq.write_table(odd, tmp_path / "clock.parquet")
        (tmp_path / "widths").mkdir()
        for name, kind in (
            ("a", pa.int32()),
            ("b", pa.int64()),
            ("c", pa.uint64()),
            ("d", pa.null()),
        ):
            some = [None] if name == "d" else [7]
            row = {"user": pa.array(some, kind), "query": ["x"], "time": pa.array(some, kind)}
            pq.write_table(pa.table(row), tmp_path / "widths" / f"{name}.parquet")
        pq.write_table(pa.table({"query": ["x"]}), tmp_path / "widths" / "e.parquet")
        pq.write_table(pa.table({"other": ["x"]}), tmp_path / "widths" / "f.parquet")
        (tmp_path / "times").mkdir()
        for name, unit, old in (("a", "ms", False), ("b", "us", False), ("c", "ns", True)):
            row = {"user": ["a"], "query": ["x"], "time": pa.array([7], pa.timestamp(unit))}
            path = tmp_path / "times" / f"{name}.parquet"
            pq.write_table(pa.table(row), path, use_deprecated_int96_timestamps=old)
        requests = [
            {"path": str(tmp_path / "int96.parquet"), "source": {"columns": {"time": "int96"}}, "keep": keep},
            {"path": str(tmp_path / "int96.parquet"), "where": {"int96": "1970-01-01 00:00:00"},
             "source": {"columns": {"query": "exact"}}},
            {"path": str(tmp_path / "clock.parquet")},
            {"path": str(tmp_path / "widths"), "source": {"columns": {"url": "time"}}},
            {"path": str(tmp_path / "times"), "source": {"columns": {"url": "time"}}},
        ]  # fmt: skip
        compare_rows(tmp_path, requests)

    def test_what_the_owner_says_of_a_log_means_the_same_as_on_duckdb(self, tmp_path):
        rows = [["a", "x", "03.09.2025 03:23", "-"], ["b", "NULL", "3.9.2025 3:23", "it's"],
                ["c", "y", "31.02.2025 00:00", "\\N"], ["\\N", "z", "-", "(null)"],
                ["d", "红", "03.09.2025 03:23 ", "a'\\"]]  # fmt: skip
        names = ("user", "query", "time", "url")
        table = pa.table(dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True)))
        typed = table.set_column(
            2, "time", pa.array([datetime(2025, 1, 1)] * 5, pa.timestamp("us"))
        )
        for name, held in (("text.parquet", table), ("typed.parquet", typed)):
            pq.write_table(held, tmp_path / name)
        lines = [";".join(row) for row in (names, *rows)]
        (tmp_path / "log.txt").write_bytes("\n".join(lines).encode("gb18030"))
        with zipfile.ZipFile(tmp_path / "log.zip", "w") as packed:
            packed.writestr(
                "log.json", json.dumps([dict(zip(names, row, strict=True)) for row in rows])
            )
        asked = {"time_format": "%d.%m.%Y %H:%M", "missing": ["-", "NULL", "\\N", "a'\\"]}
        cut = {"delimiter": ";", "encoding": "gb18030"}
        requests = [
            {"path": "text.parquet", "source": asked},
            {"path": "typed.parquet", "source": {"missing": asked["missing"]}},
            {"path": "typed.parquet"},
            {"path": "log.txt", "source": asked | cut, "since": "2025-01-01"},
            {"path": "log.zip", "source": asked | {"columns": {name: name for name in names}}},
        ]
        compare_rows(tmp_path, [each | {"path": str(tmp_path / each["path"])} for each in requests])


def compare_rows(folder, requests):
    """Both engines read the same rows."""
    (folder / "requests.json").write_text(json.dumps(requests))
    done = run(ROWS, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    for asked, here, there in json.loads(done.stdout.splitlines()[-1]):
        assert here == there, asked
        assert here["rows"], asked


def run(script, folder, cwd=None, **more):
    """A script on Spark, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=cwd,
        env=environment(**more), capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip


# Names that a URI, a glob, a list or a partition would read in another way.
ODD = ("a b", "day=1", "ü", "100%", "a%20b", "a+b#c", "a:b", "[a]", "{a,b}", "a*b?", "a\\b", "~$'")
SCRATCH = """
import json, os, sys
from pathlib import Path
from murmurlog.logs.engines.spark import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find

def mode(path):
    return oct(path.stat().st_mode & 0o777)

found = []
home = Path(sys.argv[1])
temporary = Path(os.environ["TMPDIR"])
with connect(master="local[2]") as outer:
    for folder in sorted((home / "scratch").iterdir()):
        with connect(scratch_at=str(folder)) as engine:
            log = read(find(str(home / "log.csv")), engine=engine)
            (private,) = folder.iterdir()
            rows = sum(log.partitions.results(lambda rows: rows.count))
            tables = [path for path in private.iterdir() if path.name == "t2"]
            local = [path for path in temporary.glob(".murmurlog-*") if path == outer.private]
            found.append([rows, len(tables), mode(private), len(local), mode(local[0])])
print(json.dumps(found))
"""
LARGE = """
import json, resource, sys
from pathlib import Path
import numpy as np
from murmurlog.logs.engines import duckdb, spark
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy

def summary(part):
    keys = part.query.keys[part.query.codes]
    sums = [int(word) for word in keys.sum(axis=0)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return [part.count, int(part.time.sum()), *sums], peak

source, found = find(str(Path(sys.argv[1]) / "log.parquet")), []
for unit in ("user", "user-month", "user-week", "user-day"):
    both = []
    for connect, how in ((duckdb.connect, {}), (spark.connect, {"master": "local[1]"})):
        with connect(**how) as engine:
            log = read(source, engine=engine, unit=unit, entropy=SeededEntropy(1))
            sums, peaks = zip(*log.partitions.results(summary))
            both.append([sum(column) % 2**64 for column in zip(*sums)] + [log.broken])
    found.append([unit, *both, max(peaks)])
print(json.dumps(found))
"""
COMMA = """
from murmurlog.logs.engines.spark import connect
with connect(master="local[1]"):
    pass
"""
ROWS = """
import json, sys
from pathlib import Path
from engine_results import on_duckdb, on_spark
from murmurlog.logs.engines.spark import connect

with connect(master="local[2]") as spark:
    requests = json.loads((Path(sys.argv[1]) / "requests.json").read_text())
    both = zip(requests, on_duckdb(requests), json.loads(json.dumps(on_spark(spark, requests))))
    print(json.dumps([*both]))
"""
# Three tries for a task, and the first of each is lost after its work; then once more without.
REPEATED = """
import json, sys
from functools import partial
from pathlib import Path
import frozen
from murmurlog.logs.engines import spark
from murmurlog.logs.engines.spark import connect
from murmurlog.logs.engines.spark_worker import run

lost = Path(sys.argv[1]) / "lost"
lost.mkdir()

def lose(batches, **how):
    from pyspark import TaskContext
    yield from run(batches, **how)
    task = TaskContext.get()
    try:
        (lost / f"{task.stageId()}-{task.partitionId()}").touch(exist_ok=False)
    except FileExistsError:
        return
    raise RuntimeError("lost")

with connect(master="local[2,3]", scratch_at=sys.argv[1]):
    spark.run = lose
    asked = {"engine": "spark", "scratch": sys.argv[1]}
    first = [frozen.release_tables(name, **asked) for name in ("rounds-days", "threshold-by")]
    ran = len([*lost.iterdir()])
    spark.run = run
    again = [frozen.release_tables(name, **asked) for name in ("rounds-days", "threshold-by")]
    assert len([*lost.iterdir()]) == ran
    print(json.dumps([first, again, ran]))
"""
BROUGHT = """
import json, sys
import numpy as np
from pathlib import Path
from murmurlog.logs.engines import spark, spark_partitions
from murmurlog.publishing.release import release

kinds, largest = set(), 0
real = spark_partitions.unpack

def look(packed, text_keys):
    global largest
    value = real(packed, text_keys)
    kind = type(value).__name__
    if kind == "tuple" and all(isinstance(part, np.ndarray) for part in value):
        kind += " of ndarray"
    kinds.add(kind)
    if kind != "RowCounts":
        rows = {"Sums": lambda: value.keys, "ndarray": lambda: value}.get(kind, lambda: value[0])()
        largest = max(largest, len(rows))
    return value

spark.unpack = spark_partitions.unpack = look
folder = Path(sys.argv[1])
made = release(str(folder / "log.parquet"), out=folder / "bundle", epsilon=8, delta=1e-4,
               tables=["query", "pair"], engine="spark", master="local[2]")
print(json.dumps([sorted(kinds), largest, 20000]))
"""
# There is no version 3: whoever took it over from the session could write nothing.
COMMITS = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from murmurlog.logs.engines.spark import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
version = "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"
builder.config(version, "3").getOrCreate()
log = Path(sys.argv[1]) / "log.csv"
log.write_text("user,query\\na,x\\nb,y\\nc,z\\n")
with connect() as engine:
    print(sum(read(find(str(log)), engine=engine).partitions.results(lambda rows: rows.count)), "rows")
"""

RELEASES = """
import sys
from pathlib import Path
from murmurlog.publishing.release import release

folder = Path(sys.argv[1])
asked = {"tables": ["query"], "epsilon": 20, "delta": 1e-3, "per_user": 2, "engine": "spark"}
log = str(folder / "log.parquet")
release(log, out=folder / "zealous", mechanism="zealous", master="local[2]", **asked)
release(log, out=folder / "threshold", mechanism="threshold", master="local[2]", **asked)

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[2]").getOrCreate()
zone = session.conf.get("spark.sql.session.timeZone")
release(log, out=folder / "korolova", mechanism="korolova", count="rows", **asked)
assert session.range(3).count() == 3  # somebody else's session is used and left as it was
assert session.conf.get("spark.sql.session.timeZone") == zone
"""
REFUSALS = """
import json, sys
from pathlib import Path
from murmurlog.errors import MurmurlogError
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find
from murmurlog.logs.engines.spark import connect
from murmurlog.logs.spark_rows import find_at

told = {}
with connect(master="local[2]") as engine:
    for path in Path(sys.argv[1]).iterdir():
        try:
            if path.name == "unread":
                read(find_at(path.as_uri(), SourceOptions(), engine=engine), engine=engine)
            log = read(find(str(path)), engine=engine)
            told[path.name] = ("read", {why: n for why, n in log.broken.items() if n})
        except MurmurlogError as error:
            told[path.name] = (type(error).__name__, str(error))
print(json.dumps(told))
"""


def test_what_does_not_go_with_spark_is_refused_before_it_starts(tmp_path):
    write(invent(rows=300, seed=1), tmp_path / "log.parquet")
    spark = {"out": tmp_path / "b", "engine": "spark", "master": "local[1]"}
    log = str(tmp_path / "log.parquet")
    with pytest.raises(UsageError, match="--master spark://x:1 needs --scratch"):
        release(log, **spark | {"master": "spark://x:1"})
    with pytest.raises(UsageError, match="is not a folder: create it first"):
        release(log, **spark | {"scratch": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="--memory is for --engine duckdb"):
        release(log, **spark, memory="8GB")
    with pytest.raises(UsageError, match="go with --engine spark only"):
        release(log, out=tmp_path / "b", master="local[1]")
    with pytest.raises(EngineError, match="query table by k-query is not made on Spark"):
        release(log, **spark, mechanism="k-query:5", tables=["query"], accept_no_guarantee=True)
    with pytest.raises(UsageError, match="--out 'hdfs://x/y' is an address"):
        release(log, **spark | {"out": "hdfs://x/y"})
    with pytest.raises(UsageError, match="--engine 'flink' is not known"):
        release(log, out=tmp_path / "b", engine="flink")
    check_settings(master="spark://x:1", scratch_at="hdfs://y/z", memory=None)
    check_settings(master="local[*]", scratch_at=None, memory=None)


def test_a_driver_on_a_machine_of_the_cluster_is_refused(monkeypatch):
    conf = {"spark.submit.deployMode": "cluster"}
    context = SimpleNamespace(getConf=lambda: conf, master="yarn", addPyFile=pytest.fail)
    session = SimpleNamespace(sparkContext=context)
    monkeypatch.setattr(spark, "_session", lambda *_: (session, False))
    refused = pytest.raises(UsageError, match="Submit with --deploy-mode client")
    with refused, connect(scratch_at="hdfs://x/y"):
        pass


def test_missing_parts_are_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(EngineError) as caught, connect(master="local[1]"):
        pass
    assert PIP in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_uri_is_told_from_a_path():
    assert is_uri("s3a://bucket/logs")
    assert is_uri("hdfs://name:8020/logs")
    assert not is_uri("/logs/a.parquet")
    assert not is_uri("file.duckdb::table")
    assert not is_uri("logs/*.parquet")
