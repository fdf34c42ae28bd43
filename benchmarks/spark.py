"""Tallies of one log by DuckDB and by Spark, held against each other row by row, and what they cost.

    python benchmarks/spark.py [--rows 1000000 5000000] [--rounds]

Invents logs full of hostile text (tests/support/hostile.py), starts a cluster of one master and two workers
on loopback, counts queries and clicks with both engines in processes of their own, and prints the
number of rows that differ. Memory is the most that the driver held: its Python and its Java. With
--rounds it is queries by the mechanism `rounds` instead, noise and all, which no two runs publish alike.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from cluster import Cluster, environment
from hostile import hostile_log

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.log import read
from murmurlog.logs.screen import load
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy

COUNTED = (("query", "first"), ("click", "random"))


def count(engine, log, out):
    """Writes the tallies of a log as they stream in; returns what it took."""
    started = time.monotonic()
    rows = read(find(str(log)), engine=engine, screen=load())
    sizes = {}
    for kind, way in COUNTED:
        held = items(rows, kind=kind)
        counted = tally(bound(held, per_user=10, way=way, entropy=SeededEntropy(1)))
        writer = None
        for batch in counted.batches():
            writer = writer or pq.ParquetWriter(out / f"{kind}.parquet", batch.schema)
            writer.write_batch(batch)
            sizes[kind] = sizes.get(kind, 0) + batch.num_rows
        writer.close()
    return _taken(started, sizes)


def play(engine, log, out):
    """Queries by `rounds`; returns what it took."""
    started = time.monotonic()
    rows = read(find(str(log)), engine=engine, screen=load())
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=Rounds.usual_bound)
    entropy = SystemEntropy()
    held = mechanism.gather(rows, View(kind="query", way="first"), entropy=entropy)
    published = mechanism.release(held, entropy=entropy)
    return _taken(started, {"items": held.size, "published": published.num_rows})


def _taken(started, sizes):
    seconds = time.monotonic() - started
    java = _java()
    return {
        "seconds": seconds,
        "rows": sizes,
        "python": _peak(os.getpid()),
        "java": _peak(java) if java else 0.0,
        "cpu": _cpu(os.getpid()) + (_cpu(java) if java else 0.0),
    }


def _java():
    """The driver's Java, a child of this process; 0 if there is none."""
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text(errors="replace")
        if re.search(rf"PPid:\s+{os.getpid()}\n", text) and re.search(r"Name:\s+java", text):
            return int(status.parent.name)
    return 0


def _peak(process):
    """The most memory that a process held, in MB. (What wait4 says counts its parent's, too.)"""
    text = Path(f"/proc/{process}/status").read_text(errors="replace")
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def _cpu(process):
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run(engine, log, out, master, work):
    """One engine, in this process."""
    if engine == "duckdb":
        with connect() as duck:
            found = work(duck, log, out)
    else:
        with connect_spark(master=master, scratch_at=str(out)) as spark:
            found = work(spark, log, out)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        engine, log, out, master = options.run
        return run(engine, Path(log), Path(out), master, play if options.rounds else count)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for rows in options.rows:
                _compare(rows, Path(folder), cluster, options.rounds)
        finally:
            cluster.stop()


def _compare(rows, folder, cluster, rounds):
    log = folder / f"{rows}.parquet"
    pq.write_table(hostile_log(rows, seed=rows), log, compression="zstd")
    print(f"{rows} rows of hostile text, {log.stat().st_size / 1e6:.0f} MB", flush=True)
    for engine in ("duckdb", "spark"):
        out = folder / f"{engine}-{rows}"
        out.mkdir()
        command = [sys.executable, __file__, "--run", engine, str(log), str(out), cluster.url]
        command += ["--rounds"] if rounds else []
        before = sum(_cpu(worker.pid) for worker in cluster.workers)
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        time.sleep(5)  # executors end after the driver
        workers = sum(_cpu(worker.pid) for worker in cluster.workers) - before
        print(
            f"  {engine:7} {found['seconds']:6.1f} s; CPU s: driver {found['cpu']:5.1f}, workers "
            f"{workers:5.1f}; driver's most: Python {found['python']:5.0f} MB, Java "
            f"{found['java']:5.0f} MB; items {found['rows']}",
            flush=True,
        )
    for kind, _ in () if rounds else COUNTED:
        one, other = (
            f"'{folder}/{engine}-{rows}/{kind}.parquet'" for engine in ("duckdb", "spark")
        )
        differing = duckdb.sql(
            f"SELECT count(*) FROM ((FROM {one} EXCEPT ALL FROM {other}) UNION ALL "
            f"(FROM {other} EXCEPT ALL FROM {one}))"
        ).fetchone()
        print(f"  {kind}: {differing[0]} rows of the tallies differ")


if __name__ == "__main__":
    main()
