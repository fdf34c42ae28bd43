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
pool, at least 1; fakes are not counted as items. A public list of one's own covers what it covers:
`python -m tools.pool`.
"""

import argparse
import math
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rounds import (
    D0,
    as_rows,
    count_errors,
    count_items,
    draw_items,
    keys_alone,
    mean_rows,
    open_log,
    publish,
    with_counts,
)

from murmurlog.counting.public_sets.sets import Listed
from murmurlog.mechanisms import Rounds

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
    for name, rows in logs.items():
        users = pc.value_counts(rows["query"]).field("counts").to_numpy()
        items = pc.value_counts(rows["user"]).field("counts").to_numpy()
        print(
            f"{name}: {len(items):,} users, {len(users):,} items, {(users == 1).sum():,} of one user; "
            f"{items.mean():.1f} a user, median {np.median(items):.0f}, p99 {np.percentile(items, 99):.0f}"
        )
    parts = []
    if not (options.counts_only or options.pools_only):
        parts += [("keys alone", keys_alone, count_items, title) for title in BUDGETS]
    if not options.pools_only:
        parts.append(("with counts", with_counts, count_errors, next(iter(BUDGETS))))
    for what, solve, measure, title in parts:
        epsilon, delta = BUDGETS[title]
        mechanisms = solve(epsilon=epsilon, delta=delta)
        print(f"\n{what}, {title}")
        for name, rows in logs.items():
            with open_log(rows) as log:
                cells = measure(log, mechanisms, options.repeats)
            print(f"{name}: " + "; ".join(f"{n} {cell}" for n, cell in cells.items()), flush=True)
    if not options.counts_only:
        print("\nkeys alone with a public pool, epsilon 1, delta 1e-6")
        with_pools(logs["queries"], options.repeats, options.seed)


def with_pools(rows: pa.Table, repeats: int, seed: int) -> None:
    """Items of pools of each size and cover, more than without a pool, and fakes."""
    rng = np.random.default_rng(seed)
    users = rows.group_by("query").aggregate([("user", "count")])
    frequent = users.filter(pc.greater_equal(users["user_count"], 10))["query"].to_numpy()
    solve = partial(Rounds.solve, epsilon=1.0, delta=1e-6, d=D0, count_share=0.0)
    with open_log(rows) as log:
        for R in (4, 8):
            mechanism = solve(rounds=R)
            usual = mean_rows(publish(log, mechanism, repeats))
            print(
                f"R={R}, no pool: {usual:.0f}, an item needs {mechanism.needed_weight():.1f}",
                flush=True,
            )
            F = max(1, round(0.01 * usual))
            for size, cover in product((100_000, 1_000_000), (0.3, 0.6, 0.9)):
                members = rng.choice(frequent, round(cover * len(frequent)), replace=False)
                nobody = [f"nobody {n}" for n in range(size - len(members))]
                pool = Listed(table=pa.table({"query": [*members.tolist(), *nobody]}))
                mechanism = solve(rounds=R, pools=((size, F),))
                tables = publish(log, mechanism, repeats, pool=pool)
                real = [t.filter(pc.invert(pc.starts_with(t["query"], "nobody"))) for t in tables]
                items = mean_rows(real)
                print(
                    f"R={R}, N={size:,}, cover {cover:.0%}: {items:.0f} ({items / usual - 1:+.0%}), a key "
                    f"of the pool needs {mechanism.needed_weight(1):.1f}, fakes {mean_rows(tables) - items:.1f} of {F}",
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
    return as_rows(user[kept], item[kept])


def vocabulary(users: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    size = np.clip(rng.lognormal(math.log(23), 0.9, users), 1, 400).astype(np.int64)
    rows = draw_items(rng, size, words=46_500, shift=3, exponent=1.05)
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


if __name__ == "__main__":
    main()
