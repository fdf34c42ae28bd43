"""What a release costs straight from a PostgreSQL server, next to the same log as Parquet.

    python benchmarks/postgres.py [--rows 1000000] [--memory 500MB]

Starts a server of its own (tests/support/postgres_server.py finds or installs one), copies an invented log
into it, then runs `murmurlog release --tables query,click` on the file and on the table, each in a
process of its own, and prints one table. `server` is the CPU of the server's own process for it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from measure import measure


def server_cpu(process: int) -> float | None:
    """CPU seconds of the sessions that a server has ended so far, where the system tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from postgres_server import run_server

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="500MB")
    options = parser.parse_args()
    murmurlog = str(Path(sys.executable).with_name("murmurlog"))
    with tempfile.TemporaryDirectory() as folder, run_server() as server:
        log = Path(folder) / "log.parquet"
        rows = str(options.rows)
        measure([murmurlog, "generate", "--rows", rows, "--seed", "1", "--out", str(log)])
        server.load("log", pq.read_table(log))
        sources = {"Parquet": str(log), "PostgreSQL": f"{server.local}::log"}
        print(f"{options.rows} rows, --memory {options.memory}")
        print(f"{'':12} {'CPU s':>7} {'server':>7} {'wall s':>7} {'peak MB':>8}  rows published")
        for name, source in sources.items():
            out = Path(folder) / name
            before = server_cpu(server.process.pid)
            cost = measure(
                [
                    *(murmurlog, "release", source, "--tables", "query,click", "--json"),
                    *("--memory", options.memory, "--out", str(out)),
                ]
            )
            time.sleep(0.5)  # until the session has ended
            after = server_cpu(server.process.pid)
            there = f"{after - before:7.1f}" if before is not None and after is not None else ""
            tables = json.loads(cost.output)["tables"]
            made = ", ".join(f"{kind} {table['rows']}" for kind, table in tables.items())
            print(
                f"{name:12} {cost.cpu:7.1f} {there:>7} {cost.wall:7.1f} {cost.peak_mb:8.0f}  {made}"
            )


if __name__ == "__main__":
    main()
