"""Draws a CPU second: ours at several scales, and OpenDP's exact sampler for the same law.

python benchmarks/noise.py
"""

import time
from functools import partial

import opendp.prelude as dp

from murmurlog.privacy.sampler import SystemEntropy, draw

DRAWS = 4_000_000
THEIRS = 100_000


def cpu(work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    dp.enable_features("contrib")
    print(f"{'law':10} {'scale':>9} {'M draws/CPU s':>14}")
    for noise in ("geometric", "gaussian"):
        for scale in (0.5, 7.5, 300.0, 2.0**21):
            used = cpu(
                partial(draw, noise=noise, scale=scale, count=DRAWS, entropy=SystemEntropy())
            )
            print(f"{noise:10} {scale:9.1f} {DRAWS / used / 1e6:14.2f}")
    oracle = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=7.5
    )
    used = cpu(lambda: oracle([0] * THEIRS))
    print(f"{'opendp':10} {7.5:9.1f} {THEIRS / used / 1e6:14.2f}   (geometric)")


if __name__ == "__main__":
    main()
