"""Twelve monthly releases under one cap of (3, 1e-5): a twelfth of it each, published keys, windows.

    python benchmarks/series.py [--users 100000] [--months 12] [--seed 7301]
                                [--settings filter keys ...] [--out FILE.json]

A year is invented here: users with 18 searches on average, half of them with 9 or fewer; every user is active in
80 % of the months; queries by Zipf-Mandelbrot (s = 1.1, q = 5) without end, whose log popularity takes a random step
of standard deviation 0.15 each month; one query in ten is born in the year. Every month is released by the command,
with a ledger, in three settings:

    filter      --of-cap 1/12
    keys        --of-cap 1/12 --after ledger: published keys are free
    all rows    the same, keys selected from all rows so far and counted over the month, from a state

`distinct`: queries published after 1, 3, 6 and 12 months; then, a month on average: rows with a count, reliable ones,
and the median error of the month's 100 most frequent queries (1 for one that has no count).
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.stats import norm

ROOT = Path(__file__).resolve().parents[1]
EPSILON, DELTA = 3.0, 1e-5
SETTINGS = ("filter", "keys", "all rows")
SHOWN = (1, 3, 6, 12)
STEP, BORN, ACTIVE, TRIES = 0.15, 0.1, 0.8, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7301)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = write_year(Path(folder), options.users, options.months, options.seed)
        found = [run(setting, logs, Path(folder)) for setting in options.settings]
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))


def write_year(folder: Path, users: int, months: int, seed: int) -> list[Path]:
    rng = np.random.default_rng(seed)
    size = np.maximum(1, np.rint(rng.lognormal(math.log(9.4), 1.138, users))).astype(np.int64)
    active = rng.random((users, months)) < ACTIVE
    active[np.arange(users), rng.integers(months, size=users)] = True
    user = np.repeat(np.arange(users), size)
    share = active / active.sum(axis=1, keepdims=True)
    month = (
        (rng.random((len(user), 1)) > share.cumsum(axis=1)[user]).sum(axis=1).clip(0, months - 1)
    )
    item = drawn_queries(month, seed, rng)
    second = (rng.random(len(user)) * 27 * 86_400).astype("timedelta64[s]")
    paths = []
    for each in range(months):
        here = month == each
        start = np.datetime64(f"2025-{each + 1:02}-01", "s")
        table = pa.table(
            {
                "user": pa.array(user[here]).cast(pa.string()),
                "time": pa.array(start + second[here]).cast(pa.timestamp("us")),
                "query": pa.array([word(number) for number in item[here].tolist()]),
            }
        )
        paths.append(folder / f"2025-{each + 1:02}.parquet")
        pq.write_table(table, paths[-1])
        if each in (0, months - 1):
            people = len(np.unique(user[here]))
            print(f"{paths[-1].stem}: {table.num_rows:,} rows of {people:,} users", flush=True)
    print(f"the year: {len(user):,} rows, {len(np.unique(item)):,} queries", flush=True)
    return paths


def word(number: int) -> str:
    """A text of letters alone, so that no pattern for personal data matches it."""
    letters = ""
    while number:
        number, last = divmod(number, 26)
        letters += chr(ord("a") + last)
    return f"query {letters}"


def drawn_queries(month: np.ndarray, seed: int, rng: np.random.Generator) -> np.ndarray:
    """A query for every row, by its popularity in the month: proposals of the first law, accepted or not."""
    item = np.full(len(month), -1, np.int64)
    for attempt in range(TRIES):
        open_rows = np.flatnonzero(item < 0)
        rank = 5.5 * (1 - rng.random(len(open_rows))) ** -10.0 - 5
        proposed = np.minimum(np.floor(rank), 2.0**62).astype(np.int64)
        walk, born = drift(proposed, month[open_rows], seed)
        accept = np.exp(np.minimum(walk, 1.0) - 1.0)
        taken = (rng.random(len(open_rows)) < accept) & (month[open_rows] >= born)
        if attempt == TRIES - 1:
            taken[:] = True
        item[open_rows[taken]] = proposed[taken]
    return item


def drift(item: np.ndarray, month: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The change of an item's log popularity by a month, and the month of its birth, as functions of the item."""
    walk = np.zeros(len(item))
    for step in range(1, int(month.max(initial=0)) + 1):
        walk += np.where(month >= step, STEP * norm.ppf(uniform(item, seed + 100 + step)), 0.0)
    late = uniform(item, seed + 99) < BORN
    return walk, np.where(late, np.floor(12 * uniform(item, seed + 98)), 0)


def uniform(item: np.ndarray, salt: int) -> np.ndarray:
    """Splitmix64 of the item, as a number strictly between 0 and 1."""
    with np.errstate(over="ignore"):
        z = item.astype(np.uint64) + np.uint64(salt) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def run(setting: str, logs: Sequence[Path], folder: Path) -> dict:
    here = folder / setting.replace(" ", "-")
    here.mkdir()
    ledger = ["--ledger", str(here / "ledger.db")]
    cap = ["--epsilon", str(EPSILON), "--delta", str(DELTA), "--pure", "0", "--reason", "a year"]
    command("ledger", "cap", "searches", *ledger, *cap)
    distinct, rows, began = set(), [], time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for number, log in enumerate(logs):
        budget = ["--of-cap", f"1/{len(logs)}"]
        if setting in ("keys", "all rows") and number:
            budget += ["--after", "ledger"]
        if setting == "all rows":
            start = f"{log.stem}-01"
            budget += ["--select-from", "all", "--count-from", start]
        out = here / log.stem
        all_logs = here / "logs"
        all_logs.mkdir(exist_ok=True)
        (all_logs / log.name).symlink_to(log.resolve())
        source = ["--source", "searches", "--tables", "query", "--out", str(out)]
        rows_of = all_logs if setting == "all rows" else log
        command("release", str(rows_of), *budget, *ledger, *source)
        published = pq.read_table(out / "data" / "query.parquet")
        distinct |= set(published["query"].to_pylist())
        rows.append({"month": log.stem, "distinct": len(distinct)} | score(log, published))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shown = ", ".join(str(rows[n - 1]["distinct"]) for n in SHOWN if n <= len(rows))
    print(
        f"{setting}: distinct {shown}; a month: counts {mean(r['counts'] for r in rows):.0f}, reliable "
        f"{mean(r['reliable'] for r in rows):.0f}, top 100 {mean(r['top'] for r in rows):.2f}; "
        f"{cpu:.0f} CPU s, {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return {"setting": setting, "months": rows, "cpu": cpu}


def score(log: Path, published: pa.Table) -> dict:
    pairs = pq.read_table(log, columns=["user", "query"]).group_by(["user", "query"]).aggregate([])
    truth = (
        pairs.group_by("query")
        .aggregate([("user", "count")])
        .sort_by([("user_count", "descending")])
    )
    counts = dict(zip(published["query"].to_pylist(), published["users"].to_pylist(), strict=True))
    top = truth.slice(0, 100).to_pylist()
    errors = [abs(counts.get(r["query"], 0) - r["user_count"]) / r["user_count"] for r in top]
    reliable = pc.sum(published["reliable"]).as_py() or 0
    return {"counts": published.num_rows, "reliable": reliable, "top": float(np.median(errors))}


def command(*arguments: str, checkout: Path = ROOT) -> None:
    code = "from murmurlog.cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"murmurlog {' '.join(arguments)} failed:\n{done.stderr}")


if __name__ == "__main__":
    main()
