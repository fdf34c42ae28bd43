"""The programs of Hong et al. on the clicks of an AOL-like log: what they find and what it costs.

    python benchmarks/hong.py [--users 51922] [--seed 1] [--only size|diversity]

First the largest output (O-UMP) for as many users as the paper's log had, at its e^epsilon = 2,
delta = 0.5, and the diversity (D-UMP) on the same. Then the D-UMP on smaller logs and on random
matrices: the paper's heuristic SPE, ours, the optimum where it is found within a minute, and the
bound that the linear relaxation proves. The logs are invented; nothing here is private.
"""

import argparse
import math
import resource
import time

import duckdb
import numpy as np
from scipy import sparse

from murmurlog.logs.invented.generate import POPULATIONS, invent
from murmurlog.mechanisms.hong.diversity import diverse_output, eliminate, most_diverse_output
from murmurlog.mechanisms.hong.histories import Histories, exposures, preprocess, sample
from murmurlog.mechanisms.hong.programs import budget, frequent_output, largest_output, size_bound
from murmurlog.privacy.sampler import SystemEntropy

SPARE = 1.26  # drawn users for each that is taken: some never click
SMALL = 1500  # pairs up to which the optimum is looked for
SECONDS = 60


def clicks(users: int, seed: int) -> tuple[Histories, np.ndarray]:
    """The clicks of that many clicking users of an AOL-like log, and the query of each pair."""
    population = POPULATIONS["aol"]
    log = invent(
        rows=round(population.rows * users * SPARE / population.users), seed=seed, like="aol"
    )
    connection = duckdb.connect()
    connection.register("log", log.table)
    connection.execute(
        """
        CREATE TABLE part AS
        WITH chosen AS (
            SELECT user FROM log WHERE url IS NOT NULL GROUP BY user ORDER BY md5(user) LIMIT $users
        )
        SELECT dense_rank() OVER (ORDER BY user) - 1 AS user,
            dense_rank() OVER (ORDER BY query, url) - 1 AS pair,
            dense_rank() OVER (ORDER BY query) - 1 AS query
        FROM log SEMI JOIN chosen USING (user) WHERE url IS NOT NULL
        """,
        {"users": users},
    )
    cells = connection.execute(
        "SELECT user, pair, count(*) AS n FROM part GROUP BY ALL"
    ).fetchnumpy()
    query = connection.execute(
        "SELECT any_value(query) AS q FROM part GROUP BY pair ORDER BY pair"
    ).fetchnumpy()["q"]
    connection.close()
    return Histories.of(sparse.csr_array((cells["n"], (cells["user"], cells["pair"])))), query


class Clock:
    """CPU seconds since the last look."""

    def __init__(self) -> None:
        self._at = time.process_time()

    def look(self) -> str:
        now = time.process_time()
        text, self._at = f"{now - self._at:.1f} CPU s", now
        return text


def show_size(users: int, seed: int, B: float) -> None:
    """Prints the O-UMP and the D-UMP of a log of that many users."""
    clock = Clock()
    given, query = clicks(users, seed)
    print(f"log: {given.users} users, {given.pairs} pairs, {given.rows} clicks ({clock.look()})")
    kept = preprocess(given)
    inner, query = kept.histories, query[kept.pairs]
    print(
        f"without pairs of one user: {inner.users} users, {inner.pairs} pairs, {inner.rows} clicks, "
        f"{inner.counts.nnz} counts ({clock.look()})"
    )
    plan = largest_output(inner, B=B)
    print(f"O-UMP: lambda in [{plan.optimum:.6f}, {plan.bound:.6f}], proved ({clock.look()})")
    filled = largest_output(inner, B=B, fill=True)
    print(f"rounded down {plan.size}, filled up {filled.size} ({clock.look()})")
    print(f"bound floor(n B): {size_bound(inner.users, B)} of these users")
    print(
        f"largest exposure {exposures(inner, filled.x).max():.12f} at delta {-math.expm1(-B):.6f}"
    )
    drawn = sample(inner, filled.x, entropy=SystemEntropy())
    people = len(np.unique(drawn.users))
    print(f"a sample: {len(drawn.users)} triplets of {people} users ({clock.look()})")
    size = plan.size // 2
    often = frequent_output(inner, B=B, support=1 / 500, size=size)
    print(
        f"F-UMP, support 1/500, size {size}: distance in [{often.bound:.6f}, {often.optimum:.6f}], "
        f"rounded down {often.size} ({clock.look()})"
    )
    spe = eliminate(inner, B=B)
    ours = diverse_output(inner, B=B)
    print(f"D-UMP pairs: SPE {spe.sum()}, ours {ours.size}, bound {ours.bound} ({clock.look()})")
    asked = diverse_output(inner, B=B, queries=query)
    print(
        f"D-UMP queries: SPE {len(np.unique(query[spe > 0]))}, ours {asked.size}, "
        f"bound {asked.bound} ({clock.look()})"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB\n", flush=True)


def instances():
    """(name, histories, B): small logs, and matrices that are hard on heuristics."""
    for users, seed in ((100, 1), (300, 2), (1000, 3), (2500, 4)):
        given = preprocess(clicks(users, seed)[0]).histories
        for delta in (0.01, 0.1, 0.5):
            yield f"log of {users} users", given, budget(epsilon=math.log(2), delta=delta)
    rng = np.random.default_rng(7)
    for users, pairs, density in ((20, 60, 0.1), (40, 200, 0.05), (60, 100, 0.1), (30, 40, 0.4)):
        for shape in (0.2, 0.9):
            held = rng.random((users, pairs)) < density
            given = Histories.of(held * rng.geometric(shape, held.shape))
            yield f"random {users} x {pairs}, {density}", given, math.log(2)
    # One user has a little of everything: the worst pair of all is dropped over and over for him.
    held = np.kron(np.eye(200, dtype=int), np.ones((2, 1), int))
    yield "200 twos and one who has all", Histories.of(np.vstack([held, np.ones(200, int)])), 0.9
    # Hubs: few users in many pairs.
    hubs = np.hstack([np.ones((3, 30), int), np.zeros((3, 30), int)])
    own = np.kron(np.eye(60, dtype=int), np.ones((4, 1), int))
    yield "three hubs", Histories.of(np.vstack([hubs, own])), math.log(2)


def show_diversity() -> None:
    """Prints the D-UMP table."""
    print(
        f"{'D-UMP':34} {'delta':>6} {'pairs':>6} {'SPE':>6} {'ours':>6} {'exact':>6} {'bound':>6}"
    )
    for name, given, B in instances():
        pairs = preprocess(given).histories.pairs
        spe, ours = int(eliminate(given, B=B).sum()), diverse_output(given, B=B)
        exact = most_diverse_output(given, B=B, seconds=SECONDS) if pairs <= SMALL else None
        best = "-" if exact is None else str(exact.size)
        delta = -math.expm1(-B)
        print(
            f"{name:34} {delta:6.3f} {pairs:6} {spe:6} {ours.size:6} {best:>6} {ours.bound:6}",
            flush=True,
        )
        if ours.size < spe or (exact is not None and not ours.size <= exact.size <= ours.bound):
            raise SystemExit("the columns are not in order")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=51_922)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["size", "diversity"])
    options = parser.parse_args()
    if options.only != "diversity":
        show_size(options.users, options.seed, budget(epsilon=math.log(2), delta=0.5))
    if options.only != "size":
        show_diversity()


if __name__ == "__main__":
    main()
