"""How much of a log Korolova's algorithm publishes as the bound d grows (the paper's figure).

    python benchmarks/korolova.py LOG [--epsilon 2.302585] [--delta 1e-5]

For e^epsilon = 10 and delta = 1e-5 per user by default, and d = 1 ... 160, prints the threshold and
the share of distinct queries and of query volume (rows) that are published: keys alone (all of
epsilon on the selection, as in the paper), and with fresh counts (half of it). The shares are exact
numbers about the log: for an invented one, or for the owner's eyes.
"""

import argparse
import math
import time

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Korolova
from murmurlog.privacy.sampler import SystemEntropy

BOUNDS = (1, 2, 5, 10, 20, 40, 80, 160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--epsilon", type=float, default=math.log(10))
    parser.add_argument("--delta", type=float, default=1e-5)
    options = parser.parse_args()
    started, entropy = time.process_time(), SystemEntropy()
    with connect() as engine:
        log = read(find(options.log), engine=engine, url=None)
        volume = engine.materialise(log.table.group_by("query").aggregate(n=log.table.count()))
        distinct, rows = (
            volume.aggregate(q=volume.count(), n=volume.n.sum())
            .to_pyarrow()
            .to_pylist()[0]
            .values()
        )
        print(f"{rows} rows, {distinct} distinct queries; epsilon {options.epsilon:.6g}, "
              f"delta {options.delta:.3g} per user")  # fmt: skip
        print("          keys alone                        with fresh counts")
        print("   d      T  queries  distinct  volume        T  queries  distinct  volume")
        for d in BOUNDS:
            counted = tally(bound(items(log, kind="query"), per_user=d, entropy=entropy))
            line = f"{d:4}"
            for counts in (False, True):
                mechanism = Korolova.solve(
                    epsilon=options.epsilon, delta=options.delta, d=d, counts=counts
                )
                keys = mechanism.release(counted, entropy=entropy).select(["query"])
                shown = volume.semi_join(engine.keep(keys), "query")
                kept = shown.n.sum().to_pyarrow().as_py() or 0
                line += (
                    f" {mechanism.T:6} {keys.num_rows:8} {keys.num_rows / distinct:9.4%} {kept / rows:7.2%}"
                    + "  "
                )
            print(line, flush=True)
    print(f"{time.process_time() - started:.0f} CPU s")


if __name__ == "__main__":
    main()
