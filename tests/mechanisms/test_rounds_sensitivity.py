"""No unit moves a round of `rounds` by more than its bound; versions in which it could are caught."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from quick_cases import sample_cases
from sensitivity import (
    KINDS,
    POOL_TWIN,
    REAL,
    STAGES,
    TWINS,
    WORST_CASES,
    Report,
    add_pool,
    fuzz,
    fuzz_at_random,
    fuzz_pools_at_random,
    open_logs,
    random_worlds,
)

from murmurlog.mechanisms import Rounds
from murmurlog.privacy.sampler import SeededEntropy

ROOT = Path(__file__).parents[2]


def all_stages_tight(report):
    """Whether units came within a tenth of their bound at every stage, and never beyond it."""
    stages = {stage for (_, stage), share in report.shares.items() if 0.9 < share <= 1}
    return stages == set(STAGES) and max(report.shares.values()) <= 1


@pytest.mark.parametrize("seed", [18, 3])
def test_no_unit_moves_a_round_by_more_than_its_bound(seed):
    report = fuzz_at_random(seed=seed, pairs=500)
    assert report.pairs == 500
    assert report.faults == []
    assert all_stages_tight(report)
    assert report.rounds > 1000  # there is something to compare


@pytest.mark.parametrize("seed", [7, 10])
def test_no_unit_moves_a_round_with_a_pool_by_more_than_its_bound(seed):
    report = fuzz_pools_at_random(seed=seed, pairs=300)
    assert report.faults == []
    assert all_stages_tight(report)


@pytest.mark.slow
def test_no_unit_of_many_moves_a_round_by_more_than_its_bound():
    report = Report()
    for seed in range(100, 142):  # all sizes with all tables
        report.add(fuzz_at_random(seed=seed, pairs=500))
    assert report.faults == []
    assert all_stages_tight(report)
    assert {kind for kind, stage in report.shares if stage == "counts"} == set(KINDS)
    kinds = {kind for kind, stage in report.shares if stage == "later"}
    assert kinds == set(KINDS) - {"apart"}  # these may move nothing


@pytest.fixture(scope="module")
def small_worlds():
    rng = np.random.default_rng(5)
    worlds = random_worlds(rng, 3, 120)
    with open_logs(worlds, rng) as logs:
        yield worlds, logs


@pytest.mark.parametrize(
    "twin", sample_cases([REAL, *TWINS], every=2), ids=lambda twin: twin.name.replace(" ", "-")
)
def test_the_fuzzer_catches_each_broken_twin(small_worlds, twin):
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=3, rounds=2)
    report = fuzz(mechanism, *small_worlds, seed=3, twin=twin)
    if twin is REAL:
        assert report.faults == []
        assert all_stages_tight(report)
    else:
        assert len(report.caught(twin.what)) >= 3
    if twin.name == "bounds again in a later round":
        assert report.shares["hidden", "later"] > 3
        assert report.shares["hidden", "round 1"] <= 1  # the first bound is the right one
    most = {"rows that tie count twice": 2.0, "cumulative bins": math.sqrt(3)}
    if twin.name in most:
        assert max(report.shares.values()) >= most[twin.name]


@pytest.mark.parametrize("twin", [REAL, POOL_TWIN], ids=["real", "two-weights"])
def test_the_fuzzer_catches_a_second_weight_for_keys_of_the_pool(small_worlds, twin):
    mechanism, view = add_pool(
        Rounds.solve(epsilon=1.0, delta=1e-6, d=3, rounds=2), small_worlds[0]
    )
    report = fuzz(mechanism, *small_worlds, seed=1, view=view, twin=twin)
    if twin is REAL:
        assert report.faults == []
        assert all_stages_tight(report)
    else:
        assert len(report.caught("moved")) >= 3
        assert report.shares["single", "later"] <= 1  # one item has one class
        # P6 of the reference vectors: a unit with items of both classes moves twice the square.
        later = max(share for (_, stage), share in report.shares.items() if stage == "later")
        assert later == pytest.approx(math.sqrt(2), rel=1e-6)


@pytest.mark.parametrize("case", WORST_CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_own_items_show_no_more_than_claimed_and_credit_for_survivors_is_caught(case):
    right, credited = case.leaks(worlds=500, entropy=SeededEntropy(1))
    assert right.shown > 0
    assert not right.caught
    assert credited.caught
    assert credited.chance > 5 * credited.claim


@pytest.mark.slow
def test_the_claim_is_nearly_reached_by_an_item_that_is_left_alone():
    right, _ = WORST_CASES[1].leaks(worlds=10_000, entropy=SeededEntropy(2))
    assert not right.caught
    assert right.chance > 0.7 * right.claim


@pytest.mark.slow
def test_a_stranger_can_run_it():
    script = ROOT / "benchmarks" / "sensitivity.py"
    done = subprocess.run(
        [sys.executable, script, "--pairs", "1000", "--worlds", "500"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pairs                   1,000" in done.stdout
    assert done.stdout.count("caught") == len(TWINS) + len(WORST_CASES)
