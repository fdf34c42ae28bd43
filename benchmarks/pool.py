"""Seconds for a pool of ten million queries: read it, hold a log against it, release.

python benchmarks/pool.py [POOL]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from murmurlog.counting.public_sets.sets import read_pool
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented import generate as synth
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Pool, View
from murmurlog.privacy.sampler import SystemEntropy

SIZE, ROWS = 10_000_000, 1_000_000


def invented_pool(path: Path) -> None:
    words = np.random.default_rng(1).integers(0, 30_000, (SIZE, 3))
    with path.open("w") as file:
        for start in range(0, SIZE, 500_000):
            some = words[start : start + 500_000].tolist()
            file.write("".join(f"word{x} name{y} thing{z}\n" for x, y, z in some))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "pool.txt", Path(folder) / "log.parquet"
        if len(sys.argv) > 1:
            path = Path(sys.argv[1])
        else:
            invented_pool(path)
        synth.write(synth.invent(rows=ROWS, seed=1, like="aol"), log)
        started = time.perf_counter()
        pool = read_pool(path)
        print(f"{pool.size} queries read in {time.perf_counter() - started:.1f} s")
        with connect() as engine:
            rows = read(find(str(log)), engine=engine)
            view = View(kind="query", options={"pool": pool})
            m = Pool.solve(epsilon=1.0, delta=1e-6, d=10, size=pool.size)
            started = time.perf_counter()
            gathered = m.gather(rows, view, entropy=SystemEntropy())
            middle = time.perf_counter()
            table = m.release(gathered, entropy=SystemEntropy())
            ended = time.perf_counter()
            print(
                f"{m}: {middle - started:.1f} s to count {ROWS} rows, "
                f"{ended - middle:.2f} s to release {table.num_rows} rows"
            )


if __name__ == "__main__":
    main()
