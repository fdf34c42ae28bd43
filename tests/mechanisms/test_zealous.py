"""ZEALOUS: both readings held against the exact law, and what it says when it cannot be run."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import SURE, item_law, largest_delta, mass, user_vectors

import murmurlog
from murmurlog.errors import UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, Zealous, parse
from murmurlog.privacy import SAFETY, zealous_dp, zealous_pdp
from murmurlog.privacy.sampler import SystemEntropy

RELATIONS = ("add-remove", "replace")


def law_with_two_thresholds(mechanism, tau):
    """The law of one item: nothing below tau users, then noise and T."""
    T, lam = mechanism.T, mechanism.lam
    near = np.arange(T, T + int(14 * lam) + 20)
    far = np.arange(SURE - int(14 * lam) - 9, SURE + int(14 * lam) + 11)

    def law_of(c, base):
        values = far if base >= SURE else near
        return item_law("geometric", lam, T, 0 if c < tau else c, values)

    return law_of


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("m", "tau", "T"), [(1, 1, 6), (1, 4, 8), (2, 3, 8)])
def test_the_plain_delta_is_that_of_the_exact_law(m, tau, T, neighbours):
    mechanism = Zealous(m=m, lam=1.1, tau=tau, T=T)
    stated = mechanism.guarantee(neighbours=neighbours)
    worst = largest_delta(
        law_with_two_thresholds(mechanism, tau),
        others=sorted({max(tau - 1, 0), tau, SURE}),
        holds=user_vectors(m, m + 1),
        epsilon=stated.epsilon,
        neighbours=neighbours,
    )
    assert stated.delta / 2 < worst <= stated.delta


def test_a_second_threshold_that_forgets_the_first_is_caught():
    mechanism = Zealous(m=1, lam=1.0, tau=4, T=8)
    forgot = Zealous(m=1, lam=1.0, tau=1, T=8).guarantee()
    worst = largest_delta(
        law_with_two_thresholds(mechanism, 4),
        others=(3, 4),
        holds=user_vectors(1, 1),
        epsilon=forgot.epsilon,
        neighbours="add-remove",
    )
    assert worst > 10 * forgot.delta


def breach_of(mechanism, counts, neighbours_of, epsilon):
    """P(an output that no split could keep): its ratio to some neighbour's is beyond e^epsilon."""
    values = np.arange(mechanism.T, mechanism.T + int(20 * mechanism.lam) + 30)

    def joint(vector):
        law = np.ones(1)
        for c in vector:
            marginal = item_law(
                "geometric", mechanism.lam, mechanism.T, 0 if c < mechanism.tau else c, values
            )
            law = np.outer(law, marginal).ravel()
        return law

    here, bad = joint(counts), False
    for other in neighbours_of(counts):
        there = joint(other)
        limit = math.exp(epsilon) * (1 + 1e-9)
        bad = bad | (here > limit * there) | (there > limit * here)
    return float(here[bad].sum())


def neighbouring_counts(counts, *, m, relation):
    """The counts of two or three items after one user is added, removed or replaced."""
    moves = [v for v in itertools.product((0, 1), repeat=len(counts)) if sum(v) <= m]
    for old, new in itertools.product(moves, repeat=2):
        if relation == "add-remove" and any(old) and any(new):
            continue
        moved = tuple(c - o + n for c, o, n in zip(counts, old, new, strict=True))
        if min(moved) >= 0 and moved != counts:
            yield moved


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("m", "tau", "users", "counts"), [(1, 1, 2, (1, 1)), (1, 2, 4, (2, 2)), (2, 3, 3, (3, 3))]
)
def test_the_breach_mass_is_that_of_the_exact_law(m, tau, users, counts, relation):
    """The worst log has as many items of exactly tau users as there can be."""
    mechanism = Zealous(m=m, lam=1.0 * m, tau=tau, T=tau + 6 * m, users=users)
    stated = mechanism.guarantee(epsilon=(1 if relation == "add-remove" else 2) * 1.0 * SAFETY,
                            neighbours=relation)  # fmt: skip
    assert stated.notion == "pdp"

    def others(c):
        return neighbouring_counts(c, m=m, relation=relation)

    mass = breach_of(mechanism, counts, others, stated.epsilon)
    assert stated.delta / 2 < mass <= stated.delta
    for less in itertools.product(range(tau + 2), repeat=2):
        if sum(less) <= users * m:
            assert breach_of(mechanism, less, others, stated.epsilon) <= stated.delta


def test_probabilistic_privacy_needs_the_turning_point():
    """With T next to tau the *absence* of an item is a breach, and the mechanism says so."""
    near = Zealous(m=1, lam=3.0, tau=2, T=3, users=10)
    with pytest.raises(UsageError, match="T is too near tau"):
        near.guarantee(epsilon=1.0)

    def others(c):
        return neighbouring_counts(c, m=1, relation="add-remove")

    assert breach_of(near, (2, 0), others, 1 / 3) > 0.5


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    ("m", "epsilon", "delta"), [(1, 1.0, 1e-6), (5, 2.0, 1e-5), (20, 1.0, 1e-6)]
)
def test_integers_cost_at_most_one_step_of_threshold(m, epsilon, delta, neighbours):
    lam, tau2 = zealous_dp(m, epsilon, delta, neighbours)
    mechanism = Zealous.solve(epsilon=epsilon, delta=delta, d=m, neighbours=neighbours)
    assert mechanism.lam == pytest.approx(lam, rel=1e-4)
    assert tau2 - 1 <= mechanism.T <= tau2 + 1.6
    assert mechanism.guarantee(epsilon=epsilon, neighbours=neighbours).delta <= delta
    one_less = Zealous(m=m, lam=mechanism.lam, tau=1, T=mechanism.T - 1)
    assert one_less.p > 1 - (1 - delta) ** (1 / m)


def test_the_paper_s_setting_for_probabilistic_privacy():
    """m = 2, epsilon = 1, delta = 0.001, half a million users: Table 2's optimum is tau = 4."""
    mechanism = Zealous.solve(epsilon=1.0, delta=1e-3, d=2, neighbours="replace", users=500_000)
    lam, tau, tau2, plain = zealous_pdp(2, 1.0, 1e-3, 500_000, "replace")
    assert mechanism.lam == pytest.approx(lam, rel=1e-4)
    assert abs(mechanism.tau - tau) <= 2
    assert tau2 < mechanism.T <= tau2 + 1.6
    stated = mechanism.guarantee(epsilon=1.0, neighbours="replace")
    assert stated.delta <= 1e-3
    assert plain / 4 < stated.delta_dp < 4 * plain  # tau is whole, and so is T
    assert "probabilistic; as plain DP delta" in str(stated)


@given(
    m=st.integers(1, 40),
    epsilon=st.floats(0.05, 8),
    delta=st.floats(1e-9, 1e-2),
    users=st.one_of(st.none(), st.integers(1, 10**7)),
    neighbours=st.sampled_from(RELATIONS),
)
def test_what_is_solved_keeps_its_promise_and_reads_back(m, epsilon, delta, users, neighbours):
    mechanism = Zealous.solve(epsilon=epsilon, delta=delta, d=m, users=users, neighbours=neighbours)
    stated = mechanism.guarantee(epsilon=epsilon, neighbours=neighbours)
    assert stated.delta <= delta
    if users is None or users >= mechanism.tau:
        assert stated.plain_delta <= delta * (1 + 1e-9)
    assert parse(str(mechanism)) == mechanism


def rows_of_users(n):
    return [{"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": "weather"} for i in range(n)]


@pytest.fixture
def log(tmp_path, write_tsv):
    return write_tsv(rows_of_users(400))


def test_both_readings_are_released_and_verified(log, tmp_path):
    for notion, users in (("dp", None), ("pdp", 1000)):
        out = tmp_path / notion
        done = murmurlog.release(
            str(log), out=out, tables=["query"], mechanism="zealous", epsilon=2.0, delta=1e-3,
            notion=notion, users=users, per_user=2,
        )  # fmt: skip
        assert done.guarantee.notion == notion
        assert done.rows == {"query": 1}
        report = murmurlog.verify(out)
        assert report.ok, report


def test_counts_of_the_probabilistic_reading_are_as_drawn(log, engine):
    """A correction could give two outputs one form, and probabilistic DP does not survive that."""
    mechanism = Zealous(m=1, lam=0.05, tau=2, T=10, users=1000)
    rows = read(find(str(log)), engine=engine)
    tally = mechanism.gather(rows, View(kind="query"), entropy=SystemEntropy())
    table = mechanism.release(tally, entropy=SystemEntropy())
    assert table["users"].to_pylist() == [400]  # the noise is 0 but for a chance of 4e-9
    assert mechanism.least_users() == 10
    assert mass("geometric", 0.05, 0) > 1 - 1e-8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notion": "pdp"}, "needs --users"),
        ({"notion": "both"}, "--notion must be dp or pdp"),
        ({"notion": "pdp", "users": 0}, "at least 1"),
        ({"notion": "pdp", "users": 99, "set_only": True}, "does not survive"),
        ({"notion": "pdp", "users": 99, "unit": "user-day"}, "use --unit user"),
        (
            {
                "notion": "pdp",
                "users": 99,
                "via_keywords": True,
                "tables": ["keyword", "query"],
            },
            "proved for --notion dp",
        ),
        ({"via_keywords": True}, "needs the keyword table before all others"),
        ({"fakes": 3.0}, "--fakes goes with --via-keywords"),
        ({"noise": "gaussian"}, "geometric noise only"),
        ({"per_user": 0}, "--per-user must be at least 1"),
        ({"tables": ["session"]}, "makes no session table"),
        ({"letters": {"lam": "2", "tau": "5", "T": "4"}}, "T must be larger than tau"),
        ({"letters": {"lam": "2", "tau": "0", "T": "4"}}, "tau must be at least 1"),
        ({"letters": {"lam": "2", "T": "4", "tau2": "4"}}, "give the threshold once"),
        ({"letters": {"lam": "2", "T": "4", "z": "4"}}, "no parameter z"),
    ],
)
def test_bad_choices_are_named_and_nothing_is_left(log, tmp_path, options, message):
    ledger = tmp_path / "ledger.db"
    request = {
        "tables": ["query"],
        "mechanism": "zealous",
        "ledger": ledger,
        "source_name": "s",
        "new_source": True,
    }
    with pytest.raises(UsageError, match=message):
        murmurlog.release(str(log), out=tmp_path / "out", **(request | options))
    assert not (tmp_path / "out").exists()
    assert not ledger.exists()
