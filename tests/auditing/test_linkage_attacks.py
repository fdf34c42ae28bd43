"""The attacks of benchmarks/attacks.py in small: each succeeds where it should, and can fail."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.mechanisms import Threshold
from murmurlog.privacy.sampler import SeededEntropy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def attacks():
    spec = importlib.util.spec_from_file_location("attacks", ROOT / "benchmarks" / "attacks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def log_of(rows):
    """A log of (user, day, query)."""
    users, days, queries = zip(*rows, strict=True)
    times = np.array([f"2026-01-{day:02}" for day in days], "datetime64[us]")
    urls = pa.nulls(len(rows), pa.string())
    return pa.table({"user": users, "time": times, "query": queries, "url": urls})


# --- sybils ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sybils"), [("k-query:5", 4), ("users-30", 29)])
def test_sybils_see_one_person_through_k_anonymity(attacks, name, sybils):
    log = log_of([(f"u{i}", 1, "maps") for i in range(40)])

    def shown(sybils, victim):
        attacked = attacks.with_sybils(log, attacks.TARGET, sybils, victim=victim)
        return attacks.is_published(
            attacked, attacks.TARGET, mechanism=name, accept_no_guarantee=True
        )

    assert shown(sybils, True)
    assert not shown(sybils, False)
    # One sybil fewer or more, and the attacker learns nothing.
    assert [shown(sybils - 1, victim) for victim in (False, True)] == [False, False]
    assert [shown(sybils + 1, victim) for victim in (False, True)] == [True, True]


@pytest.mark.parametrize("d", [1, 10])
@pytest.mark.parametrize("attack", ["sybils_by_presence", "sybils_by_count"])
def test_the_same_attacker_gains_from_threshold_no_more_than_the_bound(attacks, attack, d):
    m = Threshold.solve(epsilon=1.0, delta=1e-6, d=d)
    gain = getattr(attacks, attack)(m, trials=20_000, entropy=SeededEntropy(d))
    bound = attacks.most_advantage(1.0, 1e-6)
    assert gain.advantage - gain.margin <= bound
    assert gain.advantage > 0.03  # it is an attack, not a coin


def test_for_one_query_the_bound_is_reached(attacks):
    # P(published with) - P(published without) = P(Z = 0) = (1 - a)/(1 + a), the bound itself.
    m = Threshold.solve(epsilon=1.0, delta=1e-6, d=1, noise="geometric")
    exact = m.pass_probability(m.T) - m.pass_probability(m.T - 1)
    assert exact == pytest.approx(attacks.most_advantage(1.0, 0.0), rel=1e-3)
    gain = attacks.sybils_by_presence(m, trials=20_000, entropy=SeededEntropy(1))
    assert abs(gain.advantage - exact) < gain.margin
    assert gain.posterior == pytest.approx(math.e / (1 + math.e), abs=0.02)


@pytest.mark.parametrize("attack", ["sybils_by_presence", "sybils_by_count"])
def test_too_little_noise_is_seen(attacks, attack):
    claimed = Threshold.solve(epsilon=1.0, delta=1e-6, d=1, noise="geometric")
    broken = Threshold(noise="geometric", d=1, scale=claimed.scale / 2, T=claimed.T)
    gain = getattr(attacks, attack)(broken, trials=20_000, entropy=SeededEntropy(1))
    assert gain.advantage - gain.margin > attacks.most_advantage(1.0, 1e-6)


def test_no_attacker_beats_the_formula_of_the_bound(attacks):
    assert attacks.most_advantage(0.0, 0.0) == 0.0
    assert attacks.most_advantage(0.0, 0.25) == 0.25
    assert attacks.most_advantage(50.0, 0.0) == pytest.approx(1.0)


# --- pseudonyms -----------------------------------------------------------------------------------


def habits(people, *, again):
    """Everyone asks the news; half of them a query of their own, in the second period, too."""
    rows = []
    for i in range(people):
        own = f"own {i}"
        rows += [(f"u{i:02}", 1, "news"), (f"u{i:02}", 2, own)]
        rows += [(f"u{i:02}", 15, "news"), (f"u{i:02}", 16, own if again and i % 2 else "maps")]
    return log_of(rows)


def test_pseudonyms_are_joined_by_what_people_ask_again(attacks):
    joined = attacks.join_pseudonyms(habits(20, again=True), seed=3)
    assert joined.users == 20
    assert joined.share() == 0.5
    assert np.array_equal(joined.right, np.arange(20) % 2 == 1)  # exactly those who do
    assert joined.share(2) == 0.5


def test_without_a_query_of_their_own_nobody_is_joined(attacks):
    assert attacks.join_pseudonyms(habits(20, again=False), seed=3).share() == 0.0


# --- hashes ---------------------------------------------------------------------------------------


def log_of_words(counts):
    return log_of([("u", 1, word) for word, n in counts.items() for _ in range(n)])


def test_hashes_are_inverted_by_rank_as_far_as_the_ranks_agree(attacks):
    log = log_of_words({"free": 50, "maps": 30, "news": 20, "rare": 1})
    public = log_of_words({"free": 500, "news": 290, "maps": 300, "other": 5})
    inverted = attacks.invert_hashes(log, public, key=b"secret")
    assert inverted.right.tolist() == [True, True, True, False]
    assert inverted.share(2) == 1.0
    assert inverted.volume == pytest.approx(100 / 101)
    other = attacks.invert_hashes(log, log_of_words({"x": 3, "free": 2}), key=b"secret")
    assert other.share(4) == 0.0
    again = attacks.invert_hashes(log, public, key=b"another secret")
    assert again.right.tolist() == inverted.right.tolist()  # the key is no help
