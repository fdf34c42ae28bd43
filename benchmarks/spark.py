"""The default release of one log on this machine and on Spark: what each costs.

    python benchmarks/spark.py [--rows 1000 1000000 5000000] [--local]

Takes the logs of peers.py and starts a cluster of one master and two workers on loopback; with --local the
master is local[2]. Each engine releases queries and clicks by `rounds` at epsilon 1 in a process of its own.
A log of 1,000 rows shows what starting costs.

CPU seconds are those of all processes: the driver's Python and Java, the workers, and their Python. Memory is
the most that the driver held. Linux only.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from peers import CACHE, invented

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from cluster import Cluster, environment

from murmurlog.publishing.release import release

BECOME_SUBREAPER = 36  # of prctl: processes whose parent ended become children of this one


def publish(engine, log, out, master):
    """The default release; returns what it took."""
    started = time.monotonic()
    options = (
        {"engine": "spark", "master": master, "scratch": str(out)} if engine == "spark" else {}
    )
    jobs = _count_jobs() if options else []
    outcome = release(
        str(log), out=out / "bundle", tables=["query", "click"], epsilon=1, delta=1e-6, **options
    )
    java = _java()
    return {
        "seconds": time.monotonic() - started,
        "rows": dict(outcome.rows),
        "jobs": sum(jobs),
        "python": _peak(os.getpid()),
        "java": _peak(java) if java else 0.0,
    }


def _count_jobs():
    """A list that gets the number of Spark's jobs when its session ends."""
    from pyspark import SparkContext

    jobs, stop = [], SparkContext.stop

    def count_and_stop(context):
        jobs.append(len(context.statusTracker().getJobIdsForGroup(None)))
        stop(context)

    SparkContext.stop = count_and_stop
    return jobs


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


class Meter(Thread):
    """Adds up the CPU seconds of all processes that this one and its children start, looking twice a second.

    (The times of ended children, as wait4 has them, lacked those of Python workers of a local master.)
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.used = {}  # by process and when it started

    def run(self):
        while True:
            self.look()
            time.sleep(0.5)

    def look(self):
        """The CPU seconds so far."""
        stats = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has just ended
                stats[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        tree = {os.getpid()}
        while (
            more := {process for process, fields in stats.items() if int(fields[1]) in tree} - tree
        ):
            tree |= more
        for process in tree - {os.getpid()}:
            ticks = sum(map(int, stats[process][11:13]))
            self.used[process, stats[process][19]] = ticks / os.sysconf("SC_CLK_TCK")
        return sum(self.used.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_000_000, 5_000_000])
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        engine, log, out, master = options.run
        print(json.dumps(publish(engine, Path(log), Path(out), master)))
        return
    ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
    meter = Meter()
    meter.start()
    with tempfile.TemporaryDirectory() as folder:
        cluster = None if options.local else Cluster(Path(folder))
        try:
            for rows in options.rows:
                master = cluster.url if cluster else "local[2]"
                _compare(rows, Path(folder), master, meter)
        finally:
            if cluster:
                cluster.stop()


def _compare(rows, folder, master, meter):
    log = invented(rows, plain=False, cache=CACHE)
    print(f"{rows} rows, {log.stat().st_size / 1e6:.0f} MB", flush=True)
    for engine in ("duckdb", "spark"):
        out = folder / f"{engine}-{rows}"
        out.mkdir()
        command = [sys.executable, __file__, "--run", engine, str(log), str(out), master]
        before = meter.look()
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
        figures = json.loads(done.stdout.splitlines()[-1])
        time.sleep(10)  # executors end after the driver
        print(
            f"  {engine:7} {figures['seconds']:6.1f} s; CPU s {meter.look() - before:6.1f}; jobs "
            f"{figures.get('jobs', 0)}; driver's most: Python {figures['python']:5.0f} MB, Java "
            f"{figures['java']:5.0f} MB; rows {figures['rows']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
