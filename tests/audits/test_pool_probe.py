"""Pool keys that somebody, nobody or an earlier release holds: all of their noise is followed."""

import numpy as np
import pytest
from inspection import plans_of, pool_setting
from pool_probe import probe_pools
from probes import pass_p_value
from quick_cases import sample_cases
from twins import TWINS

from murmurlog.mechanisms import parse
from murmurlog.privacy.sampler import SeededEntropy

BROKEN = {twin.name: twin for twin in TWINS}
SETTING = pool_setting("rounds")
ANSWERS = {
    "counts weighted with a wrong sensitivity": "counts of earlier keys at d2 = 4: the noise of",
    "a unit in several bins of the histogram": "histogram: the noise of",
    "pool thresholds by how many keys are held": "at another threshold than the printed one",
    "pool noise skipped where the log lacks a key": "0 of 3000 keys nobody holds get noise",
    "pool keys of nobody in the last round only": "do not take part in every round",
    "pool fakes chosen among held keys too": "a key is published twice",
    "a second weight for pool keys": "units give other weights",
    "earlier keys only where somebody asks them": "1000 of 1200 earlier keys have no row",
    "earlier keys taken from the log": "passed in no round and are no earlier keys",
    "earlier keys without noise": "counts of earlier keys at d2 = 4: the noise of",
}


@pytest.fixture(scope="module")
def mechanism():
    plans, _ = plans_of(SETTING, epsilon=SETTING.epsilon, delta=SETTING.delta)
    return plans["query"].mechanism


def probe(folder, mechanism):
    return probe_pools(
        mechanism, SETTING.options, folder=folder, entropy=SeededEntropy(7), wanted=500
    )


def test_honest_pools_pass_and_the_power_is_stated(mechanism, tmp_path):
    made = probe(tmp_path, mechanism)
    assert made.faults == []
    stages = [each.stage for each in made.power]
    for k in (1, 2, 3):
        assert f"round {k} of pool keys" in stages
        assert f"round {k} of keys nobody holds" in stages
    assert "counts of earlier keys at d2 = 4" in stages


@pytest.mark.parametrize("name", sample_cases(ANSWERS, every=3))
def test_a_fault_of_pools_counts_or_earlier_keys_is_caught(name, mechanism, tmp_path):
    with BROKEN[name].broken():
        found = probe(tmp_path, mechanism).faults
    assert any(ANSWERS[name] in what for what in found), found


def test_keys_of_a_pool_pass_at_thresholds_of_the_pool():
    """One round of scale 1: half a standard deviation is needed inside the pool, six outside."""
    made = parse("rounds(d=1, s=1.0, own=1, T=6291456, N=40, TP=524288)")
    inside = 1 - 0.6914624612740131  # of a key that nobody holds
    shown = int(np.rint(10_000 * inside))
    some = {"shown": shown, "trials": 10_000}
    assert pass_p_value(made, users=0, pool=1, **some) > 1e-4
    assert pass_p_value(made, users=1, pool=1, **some) < 1e-9
    assert pass_p_value(made, users=0, pool=0, **some) < 1e-9
