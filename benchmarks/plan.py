"""Whether plan --target reaches its target on logs it has not seen.

    python benchmarks/plan.py [--rows 1000000] [--epsilon 0.5] [--per-user 50]

Three logs are generated. For each one its profile is measured privately, `plan` finds the least
epsilon for a target from the profile alone, and the release is made with what was planned. Printed are
the target, the forecast, and what was reached: published queries; the volume, that is the share of
all pairs of a user and a query of theirs whose query is published; and beside it the share of rows.
The last column is reached over the target.
"""

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from murmurlog.logs.invented.generate import invent, write
from murmurlog.publishing.planning.forecast import Simulation
from murmurlog.publishing.planning.goals import Search, Target, Terms, release_flags
from murmurlog.publishing.planning.private_profile import survey
from murmurlog.publishing.planning.stand_in_log import of_outline
from murmurlog.publishing.release import release

DELTA = 1e-6
LOGS = {
    "plain, seed 41": (None, 41, ("volume=0.22", "volume=0.3", "queries=300", "queries=1500")),
    "aol, seed 42": ("aol", 42, ("volume=0.08", "volume=0.12", "queries=200", "queries=800")),
    "zealous, seed 43": (
        "zealous",
        43,
        ("volume=0.12", "volume=0.2", "queries=300", "queries=1500"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--per-user", type=int, default=50)
    options = parser.parse_args()
    print("| log | target | epsilon | CPU s | forecast | reached | rows | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (like, seed, targets) in LOGS.items():
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.parquet"
            write(invent(rows=options.rows, seed=seed, like=like), log)
            seen = survey(str(log), epsilon=options.epsilon, delta=DELTA, per_user=options.per_user)
            started = time.process_time()
            simulation = Simulation(of_outline(seen.outline))
            fitted = time.process_time() - started
            for text in targets:
                one(name, text, simulation, log, options.per_user, fitted)


def one(
    name: str, text: str, simulation: Simulation, log: Path, per_user: int, fitted: float
) -> None:
    """Prints a line: the plan for a target, and what its release came to."""
    which, _, amount = text.partition("=")
    target = Target(name=which, amount=float(amount))
    terms = Terms(delta=DELTA, reach=per_user)
    started = time.process_time()
    choice = Search(simulation, terms).least(target)
    spent = fitted + time.process_time() - started
    flags = {key.replace("-", "_"): value for key, value in release_flags(choice, terms).items()}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bundle"
        release(str(log), out=out, **flags)
        reached = survives(log, next(out.rglob("query.parquet")))
    queries, volume, rows = reached
    now = volume if which == "volume" else queries
    print(
        f"| {name} | {target} | {choice.epsilon:g} | {spent:.0f} | {choice.forecast.queries:.0f}, "
        f"{choice.forecast.volume:.1%} | {queries}, {volume:.1%} | {rows:.1%} | "
        f"{now / target.amount:.3f} |",
        flush=True,
    )


def survives(log: Path, table: Path) -> tuple[int, float, float]:
    """Published queries, and their share of pairs and of rows."""
    published = pq.read_table(table).select(["query"])
    connection = duckdb.connect()
    connection.register("published", published)
    pairs, rows = connection.execute(
        "WITH log AS (SELECT user, query, query IN (SELECT query FROM published) AS there "
        "FROM read_parquet(?)), pairs AS (SELECT DISTINCT * FROM log) "
        "SELECT (SELECT avg(there::int) FROM pairs), (SELECT avg(there::int) FROM log)",
        [str(log)],
    ).fetchone()
    connection.close()
    return published.num_rows, pairs, rows


if __name__ == "__main__":
    main()
