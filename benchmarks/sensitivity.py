"""Tries to move `rounds` by more than one unit may, and shows that broken versions are caught.

    python benchmarks/sensitivity.py [--pairs 5000] [--worlds 10000] [--seed 1]

Pairs of neighbouring logs, random and adversarial, are replayed with the real steps under one
transcript (tests/support/sensitivity.py). Printed are the largest parts of its bound that a unit moved, by
kind of world; then what further worlds say about the real steps and about broken twins; then how
often an item that one unit alone holds is published in a log of many worlds, against the claim.
Exit code 1 if a unit moved more than its bound, if an item shows more often than claimed, or if a
twin was not caught.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from murmurlog.mechanisms import Rounds
from murmurlog.privacy.sampler import SystemEntropy

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from sensitivity import (  # noqa: E402
    KINDS,
    REAL,
    STAGES,
    TWINS,
    WORST_CASES,
    Report,
    fuzz,
    fuzz_at_random,
    open_logs,
    random_worlds,
)

A_BATCH = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--worlds", type=int, default=10_000, help="for the chance that items show")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.process_time()
    good = pairs(options.pairs, options.seed)
    good &= twins(options.seed)
    good &= leaks(options.worlds)
    print(f"\n{'as it should be' if good else 'SOMETHING IS WRONG'}; ", end="")
    print(f"{time.process_time() - started:.0f} CPU seconds")
    return 0 if good else 1


def pairs(wanted: int, seed: int) -> bool:
    report = Report()
    for n, start in enumerate(range(0, wanted, A_BATCH)):
        size = min(A_BATCH, wanted - start)
        report.add(fuzz_at_random(seed=1000 * seed + n, pairs=size))
    print(f"{'pairs':22} {report.pairs:6,}")
    print(f"{'rounds with a move':22} {report.rounds:6,}")
    print(f"{'beyond the proof':22} {len(report.faults):6,}\n")
    print(f"{'largest moved / bound':22}" + "".join(f"{stage:>12}" for stage in STAGES))
    for kind in KINDS:
        shares = [report.shares.get((kind, stage)) for stage in STAGES]
        shown = "".join(f"{'must be 0' if x is None else f'{x:.7f}':>12}" for x in shares)
        print(f"{kind:22}{shown}")
    for fault in report.faults[:20]:
        print(fault)
    return not report.faults


def twins(seed: int) -> bool:
    rng = np.random.default_rng(seed)
    worlds = random_worlds(rng, 3, 450)
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=3)
    good = True
    print(f"\n{'the same worlds under':34}{'worlds with a fault':>20}{'moved / bound':>15}")
    with open_logs(worlds, rng) as logs:
        for twin in (REAL, *TWINS):
            report = fuzz(mechanism, worlds, logs, seed=seed, twin=twin)
            found = len({fault.world for fault in report.faults})
            right = not found if twin is REAL else bool(report.caught(twin.what))
            word = "" if twin is REAL else "  caught" if right else "  MISSED"
            most = max(report.shares.values())
            print(f"{twin.name:34}{f'{found} of {len(worlds)}':>20}{most:15.7f}{word}")
            good &= right
    return good


def leaks(worlds: int) -> bool:
    good = True
    print(f"\n{'chance that an own item shows':34}{'claimed':>10}{'measured':>10}{'at least':>10}")
    for case in WORST_CASES:
        right, credited = case.leaks(worlds=worlds, entropy=SystemEntropy())
        for name, found in ((case.name, right), ("  credit for survivors", credited)):
            word = "" if found is right else "  caught" if found.caught else "  MISSED"
            print(f"{name:34}{found.claim:10.4f}{found.chance:10.4f}{found.least:10.4f}{word}")
        good &= credited.caught and not right.caught
    return good


if __name__ == "__main__":
    sys.exit(main())
