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

import pyarrow.compute as pc
from rounds import publish

from murmurlog.evaluation.ground_truth import count_exactly
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Korolova

BOUNDS = (1, 2, 5, 10, 20, 40, 80, 160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--epsilon", type=float, default=math.log(10))
    parser.add_argument("--delta", type=float, default=1e-5)
    options = parser.parse_args()
    started = time.process_time()
    with connect() as engine:
        log = read(find(options.log), engine=engine, url=None)
        exact = count_exactly(log, kinds=["query"])[0]["query"]
        rows, distinct = pc.sum(exact["rows"]).as_py(), exact.num_rows
        print(f"{rows} rows, {distinct} distinct queries; epsilon {options.epsilon:.6g}, "
              f"delta {options.delta:.3g} per user")  # fmt: skip
        print("          keys alone                        with fresh counts")
        print("   d      T  queries  distinct  volume        T  queries  distinct  volume")
        for d in BOUNDS:
            line = f"{d:4}"
            for counts in (False, True):
                mechanism = Korolova.solve(
                    epsilon=options.epsilon, delta=options.delta, d=d, counts=counts
                )
                (table,) = publish(log, mechanism, 1)
                published = pc.is_in(exact["query"], value_set=table["query"])
                volume = pc.sum(exact["rows"].filter(published), min_count=0).as_py() / rows
                size = table.num_rows
                line += f" {mechanism.T:6} {size:8} {size / distinct:9.4%} {volume:7.2%}  "
            print(line, flush=True)
    print(f"{time.process_time() - started:.0f} CPU s")


if __name__ == "__main__":
    main()
