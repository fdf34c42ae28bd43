"""How many sessions of two, three and four queries are published: `sessions` against `session-tree`.

    python benchmarks/sessions_by_length.py [--users 500000] [--like aol] [--epsilon 1,3,8] [--delta 1e-6]
                                            [--seed 2] [--alone] [--few]

The log is invented. Each release publishes queries and sessions, so that published queries are the alphabet
of both; --alone publishes sessions only. `sessions` is run with its defaults (l_s = 1, l_q = 3) and with other
cuts, among them that of `session-tree`; --few: its defaults and one cut of `session-tree`. One run each.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import murmurlog
from murmurlog.logs.invented.generate import POPULATIONS, invent

LENGTHS = (2, 3, 4)
RUNS: tuple[tuple[str, dict[str, int]], ...] = (
    ("sessions", {}),
    ("sessions", {"sessions_per_user": 1, "queries_per_session": 4}),
    ("sessions", {"sessions_per_user": 3, "queries_per_session": 3}),
    ("sessions", {"sessions_per_user": 10, "queries_per_session": 4}),
    *(
        ("session-tree", {"sessions_per_user": l_s, "queries_per_session": l_q, "rounds": rounds})
        for l_s, l_q, rounds in ((3, 4, 2), (10, 3, 2), (10, 4, 1), (10, 4, 2), (10, 4, 4))
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--like", default="aol", choices=sorted(POPULATIONS))
    parser.add_argument("--epsilon", default="1,3,8")
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="publish sessions only")
    parser.add_argument("--few", action="store_true", help="one setting of each mechanism")
    options = parser.parse_args()
    population = POPULATIONS[options.like]
    rows = round(population.rows * options.users / population.users)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        pq.write_table(invent(rows=rows, seed=options.seed, like=options.like).table, log)
        print(f"{rows:,} rows like {options.like}, about {options.users:,} users")
        names = ["epsilon", "mechanism", "l_s", "l_q", "rounds", "queries", *LENGTHS, "seconds"]
        print("| " + " | ".join(map(str, names)) + " |\n" + "|---" * len(names) + "|", flush=True)
        for epsilon in map(float, options.epsilon.split(",")):
            for number, (mechanism, chosen) in enumerate(
                RUNS[:: len(RUNS) - 2] if options.few else RUNS
            ):
                budget = {"epsilon": epsilon, "delta": options.delta}
                out = Path(folder) / f"bundle-{epsilon:g}-{number}"
                line = release(log, out, mechanism, chosen, budget, alone=options.alone)
                print(f"| {epsilon:g} | {mechanism} | " + " | ".join(line) + " |", flush=True)


def release(
    log: Path,
    out: Path,
    mechanism: str,
    chosen: dict[str, int],
    budget: dict[str, float],
    *,
    alone: bool,
) -> list[str]:
    """The cells of one release: its cut, published queries, sessions of each length, seconds."""
    began = time.monotonic()
    options: dict[str, Any] = {**chosen, **budget, "mechanism": mechanism}
    tables = ["session"] if alone else ["query", "session"]
    murmurlog.release(str(log), out=out, tables=tables, **options)
    found = murmurlog.load(out).tables
    lengths = Counter(len(queries) for queries in found["session"]["queries"].to_pylist())
    cut = (chosen.get("sessions_per_user", 1), chosen.get("queries_per_session", 3))
    queries = "-" if alone else f"{found['query'].num_rows:,}"
    return [
        *map(str, cut),
        str(chosen.get("rounds", "-")),
        queries,
        *(f"{lengths[n]:,}" for n in LENGTHS),
        f"{time.monotonic() - began:.0f}",
    ]


if __name__ == "__main__":
    main()
