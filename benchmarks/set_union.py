"""How many queries each mechanism publishes at one budget: the set union problem.

    python benchmarks/set_union.py [--users 100000] [--repeats 3] [--counts-only | --pools-only]

Two logs, invented here: "queries" (100,000 users with 17.2 distinct queries on average, half of them
with 9 or fewer, 1 in 100 with about 129; ranks by Zipf-Mandelbrot, s = 1.1, q = 5, without end, so
that nine queries in ten are one user's) and "vocabulary" (50,000 users, 30 words each, 46,000 in
all). korolova and threshold get the best of several bounds, chosen by looking; all others are bounded
to 100 items a user. Means over the repeats. The second table is with counts, at the same total
budget: items, and the median error of the 100 most frequent (1 for one that is missing).

The third table is keys alone with a public pool of N keys: 30, 60 or 90 % of the items that at least 10
users hold, chosen at random, and keys that nobody holds. Accepted fakes are 1 % of the items without a
pool; fakes are not counted as items. A public list of one's own covers what it covers: `python -m tools.pool`.
"""

import argparse
import math
from functools import partial
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from murmurlog.mechanisms.rounds.weights import in_pools, numbered
from rounds import D0, ENTROPY, as_items, as_rows, best, weighted

from murmurlog.counting.bound import bound
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.mechanisms import Korolova, Rounds, Threshold

BUDGETS = {"epsilon 1, delta 1e-6": (1.0, 1e-6), "epsilon 3, delta e^-10": (3.0, math.exp(-10))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--counts-only", action="store_true")
    parser.add_argument("--pools-only", action="store_true")
    options = parser.parse_args()
    logs = {
        "queries": queries(options.users, options.seed),
        "vocabulary": vocabulary(options.users // 2, options.seed),
    }
    for name, table in logs.items():
        users = table.group_by("query").aggregate([("unit", "count")])["unit_count"].to_numpy()
        held = table.group_by("unit").aggregate([("query", "count")])["query_count"].to_numpy()
        print(
            f"{name}: {len(held):,} users, {len(users):,} items, {(users == 1).sum():,} of one user; "
            f"{held.mean():.1f} a user, median {np.median(held):.0f}, p99 {np.percentile(held, 99):.0f}"
        )
    if not (options.counts_only or options.pools_only):
        print("\nkeys alone")
        for name, table in logs.items():
            for title, (epsilon, delta) in BUDGETS.items():
                keys_alone(name, title, table, epsilon, delta, options.repeats)
    if not options.pools_only:
        print("\nwith counts, epsilon 1, delta 1e-6: items, median error of the top 100")
        for name, table in logs.items():
            with_counts(name, table, options.repeats)
    if not options.counts_only:
        print("\nkeys alone with a public pool, epsilon 1, delta 1e-6")
        with_pools(logs["queries"], options.repeats, options.seed)


def keys_alone(
    name: str, title: str, table: pa.Table, epsilon: float, delta: float, repeats: int
) -> None:
    budget = {"epsilon": epsilon, "delta": delta}
    ours = {
        "W": weighted(budget, (1.0,)),
        "DP-SIPS": weighted(budget, (0.1, 0.9)),
        "2R": weighted(budget, (0.3, 0.7), C=2.0),
        **{
            f"rounds R={R}": Rounds.solve(**budget, d=D0, rounds=R, count_share=0.0)
            for R in (4, 6, 8)
        },
    }
    with connect() as engine:
        held = as_items(engine, table)
        counted = partial(best, held, budget, repeats)
        found = {
            "korolova": counted(Korolova, (1, 2, 4)),
            "threshold": counted(Threshold, (1, 5, 10, 15, 20, 40)),
        }
        fixed = numbered(bound(held, per_user=D0, entropy=ENTROPY), held)
        for each, mechanism in ours.items():
            found[each] = mean(
                len(mechanism.select(fixed, entropy=ENTROPY)) for _ in range(repeats)
            )
    print(f"{name}, {title}: " + ", ".join(f"{n} {v:.0f}" for n, v in found.items()), flush=True)


def with_counts(name: str, table: pa.Table, repeats: int) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    mechanisms = {
        "threshold d=5": Threshold.solve(**budget, d=5),
        "threshold d=15": Threshold.solve(**budget, d=15),
        **{
            f"rounds R={R} share {share} d2={d2 or 'chosen'}": Rounds.solve(
                **budget, d=D0, rounds=R, count_share=share, count_per_user=d2
            )
            for R, share, d2 in (
                (4, 0.3, 16),
                (4, 0.3, 40),
                (4, 0.3, None),
                (4, 0.5, None),
                (6, 0.3, None),
            )
        },
    }
    true = table.group_by("query").aggregate([("unit", "count")])
    top = true.sort_by([("unit_count", "descending")]).slice(0, 100).to_pydict()
    with connect() as engine:
        held = as_items(engine, table)
        for title, mechanism in mechanisms.items():
            d = mechanism.parameters()["per_user"]
            kept = bound(held, per_user=d, entropy=ENTROPY)
            gathered = numbered(kept, held) if isinstance(mechanism, Rounds) else tally(kept)
            rows, errors = [], []
            for _ in range(repeats):
                shown = mechanism.release(gathered, entropy=ENTROPY).to_pydict()
                users = dict(zip(shown["query"], shown["users"], strict=True))
                pairs = zip(top["query"], top["unit_count"], strict=True)
                rows.append(len(users))
                errors.append(np.median([abs(users.get(q, 0) - n) / n for q, n in pairs]))
            print(f"{name}, {title}: {mean(rows):.0f}, {mean(errors):.1%}", flush=True)


def with_pools(table: pa.Table, repeats: int, seed: int) -> None:
    """Items of pools of each size and cover, more than without a pool, and fakes."""
    rng = np.random.default_rng(seed)
    true = table.group_by("query").aggregate([("unit", "count")])
    known = true.filter(pc.greater_equal(true["unit_count"], 10))["query"].to_numpy()
    solve = partial(Rounds.solve, epsilon=1.0, delta=1e-6, d=D0, count_share=0.0)
    with connect() as engine:
        items = as_items(engine, table)
        held = numbered(bound(items, per_user=D0, entropy=ENTROPY), items)
        for R in (4, 8):
            without = solve(rounds=R)
            usual = mean(len(without.select(held, entropy=ENTROPY)) for _ in range(repeats))
            print(f"R={R}, no pool: {usual:.0f}, an item needs {without.bar():.1f}", flush=True)
            for size, cover in ((n, c) for n in (100_000, 1_000_000) for c in (0.3, 0.6, 0.9)):
                covered = rng.choice(known, round(cover * len(known)), replace=False)
                nobody = [f"nobody {n}" for n in range(size - len(covered))]
                keys = Listed(table=pa.table({"query": [*covered.tolist(), *nobody]}))
                fixed = in_pools(held, (keys,))
                F = round(0.01 * usual)
                mechanism = solve(rounds=R, pools=((size, F),))
                found = [mechanism.release(fixed, entropy=ENTROPY) for _ in range(repeats)]
                fakes = [pc.sum(pc.starts_with(t["query"], "nobody")).as_py() for t in found]
                rows = mean(t.num_rows - n for t, n in zip(found, fakes, strict=True))
                print(
                    f"R={R}, N={size:,}, cover {cover:.0%}: {rows:.0f} ({rows / usual - 1:+.0%}), a key "
                    f"of the pool needs {mechanism.bar(1):.1f}, fakes {mean(fakes):.1f} of {F}",
                    flush=True,
                )


def queries(users: int, seed: int) -> pa.Table:
    """Distinct queries of users, by rank of a power law without end."""
    rng = np.random.default_rng(seed)
    size = np.maximum(1, np.rint(rng.lognormal(math.log(9), 1.138, users))).astype(np.int64)
    user = np.repeat(np.arange(users), np.ceil(1.6 * size + 3).astype(np.int64))
    # P(rank > r) = ((r + 5.5) / 5.5)^-0.1, the integral of (r + 5)^-1.1
    rank = 5.5 * (1 - rng.random(len(user))) ** -10.0 - 5
    item = np.minimum(np.floor(rank), 2.0**62).astype(np.int64)
    _, first = np.unique(np.stack([user, item], 1), axis=0, return_index=True)
    first.sort()
    user, item = user[first], item[first]
    kept = np.arange(len(user)) - np.searchsorted(user, user) < size[user]
    return as_rows(*(pa.array(column[kept]).cast(pa.string()) for column in (user, item)))


def vocabulary(users: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    size = np.clip(rng.lognormal(math.log(23), 0.9, users), 1, 400).astype(np.int64)
    law = (np.arange(46_500) + 3.0) ** -1.05
    item = rng.choice(len(law), int(size.sum()), p=law / law.sum())
    table = as_rows(
        pa.array(np.repeat(np.arange(users), size)).cast(pa.string()),
        pa.array(item).cast(pa.string()),
    )
    return table.group_by(table.column_names, use_threads=False).aggregate([])


if __name__ == "__main__":
    main()
