"""365 daily releases of 100,000 rows each under one cap, by `murmurlog series run`, watched from outside.

    python benchmarks/daily.py [--days 365] [--rows 100000] [--select 7] [--seed 7401]

The logs are invented as in benchmarks/series.py: 100,000 users, each active on one day in three; the popularity of
queries drifts from month to month. Keys are selected from the last seven days, and published keys are counted again
every day. Printed are seconds a release (median of ten), the peak of resident memory by then, and what was published.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from series import DELTA, EPSILON, ROOT, command, drawn_queries, word

USERS, FIRST = 100_000, date(2024, 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--select", type=int, default=7)
    parser.add_argument("--seed", type=int, default=7401)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        write_days(here / "logs", options.days, options.rows, options.seed)
        watch(here, options)


def write_days(folder: Path, days: int, rows: int, seed: int) -> None:
    folder.mkdir()
    words = np.array([word(number) for number in range(200_000)], object)
    for day in range(days):
        rng = np.random.default_rng((seed, day))
        active = rng.choice(USERS, USERS // 3, replace=False)
        month = np.full(rows, min(day // 30, 11))
        item = drawn_queries(month, seed, rng)
        text = np.where(item < len(words), words[item.clip(0, len(words) - 1)], None)
        rare = np.flatnonzero(item >= len(words))
        text[rare] = [word(number) for number in item[rare].tolist()]
        start = np.datetime64(FIRST + timedelta(days=day), "s")
        second = (rng.random(rows) * 86_399).astype("timedelta64[s]")
        table = pa.table(
            {
                "user": pa.array(rng.choice(active, rows)).cast(pa.string()),
                "time": pa.array(start + second).cast(pa.timestamp("us")),
                "query": pa.array(text, pa.string()),
            }
        )
        pq.write_table(table, folder / f"{FIRST + timedelta(days=day)}.parquet")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{days} logs of {rows:,} rows, {size / 1e6:.0f} MB", flush=True)


def watch(here: Path, options: argparse.Namespace) -> None:
    spec, bundles = here / "series.toml", here / "bundles"
    os.chdir(here)
    command(
        "series", "init", str(spec), "--logs", "logs/{period}.parquet", "--period", "day",
        "--first", str(FIRST), "--source", "searches", "--epsilon", str(EPSILON), "--delta",
        str(DELTA), "--releases", str(options.days), "--select", str(options.select), "--reason",
        "a year of days",
    )  # fmt: skip
    code = "from murmurlog.cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    began = time.perf_counter()
    with (here / "said.txt").open("w") as said:
        running = subprocess.Popen(
            [sys.executable, "-c", code, "series", "run", str(spec)],
            env=environment, stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
    ends: list[float] = []
    cpu = 0.0
    while running.poll() is None:
        time.sleep(0.1)
        there = sum(1 for path in bundles.glob("2*")) if bundles.exists() else 0
        cpu = cpu_of(running.pid) or cpu
        if there > len(ends):
            ends += [time.perf_counter() - began] * (there - len(ends))
            if there in (10, 30, options.days // 2, options.days - 1):
                last = median(np.diff([0.0, *ends])[-10:])
                print(
                    f"after {there}: {last:.2f} s a release, peak {peak(running.pid):.0f} MB, {cpu:.0f} CPU s",
                    flush=True,
                )
    if running.returncode:
        raise SystemExit((here / "said.txt").read_text()[-2000:])
    tables = [pq.read_table(path / "data" / "query.parquet") for path in sorted(bundles.glob("2*"))]
    known = {key for table in tables for key in table["query"].to_pylist()}
    print(
        f"{len(tables)} releases in {ends[-1] / 60:.1f} minutes, {cpu:.0f} CPU s; {len(known):,} queries, "
        f"{sum(tables[-1]['reliable'].to_pylist()):,} reliable counts on the last day"
    )


def peak(pid: int) -> float:
    """The peak of resident memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3


def cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
