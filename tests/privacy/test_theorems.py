"""The theorems against other derivations of the same number: long arithmetic, dp-accounting, OpenDP."""

import itertools
import math

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.errors import UsageError
from murmurlog.privacy import (
    Guarantee,
    compose,
    delta_of_threshold,
    epsilon_of_threshold,
    gaussian_delta,
    hockey_stick,
    noise_sd,
    real_threshold,
    solve_integer_threshold,
    solve_threshold,
    survival,
    turning_point,
)
from murmurlog.privacy import thresholds as module
from murmurlog.privacy.thresholds import MOST_REPLACED

dp.enable_features("contrib")
LN10 = math.log(10)


@pytest.mark.parametrize("epsilon", [-0.4, 0.0, 0.2, 0.45])
def test_laplace_loss_of_two_copies_equals_numerical_integration(epsilon):
    step = 0.01
    x = np.arange(-30, 31, step) + step / 2
    p, q = (np.exp(-np.abs(x - shift) / 2) / 4 * step for shift in (1, 0))
    integral = np.maximum(0, np.outer(p, p) - math.exp(epsilon) * np.outer(q, q)).sum()
    exact = hockey_stick(noise="laplace", epsilon=epsilon, copies=2, scale=2)
    assert exact == pytest.approx(integral, rel=1e-4)


@pytest.mark.parametrize(
    ("noise", "make"),
    [
        ("laplace", lambda s: pld.from_laplace_mechanism(s)),
        ("geometric", lambda s: pld.from_discrete_laplace_mechanism(1 / s)),
        ("gaussian", lambda s: pld.from_gaussian_mechanism(s)),
    ],
)
@pytest.mark.parametrize(
    ("copies", "scale", "epsilon"), [(1, 2.0, 0.3), (10, 5.0, 1.0), (40, 40, 0.5)]
)
def test_hockey_stick_is_just_below_a_pessimistic_loss_distribution(
    noise, make, copies, scale, epsilon
):
    upper = make(scale).self_compose(copies).get_delta_for_epsilon(epsilon)
    exact = hockey_stick(noise=noise, epsilon=epsilon, copies=copies, scale=scale)
    assert exact <= upper * (1 + 1e-9) + 1e-12
    assert exact == pytest.approx(upper, rel=0.02)


def test_pure_epsilon_and_rho_agree_with_opendp():
    d, scale = 20, 7.5
    integers = dp.vector_domain(dp.atom_domain(T="i64"))
    laplace = dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=scale)
    assert laplace.map(d) == pytest.approx(d / scale, rel=1e-9)
    assert hockey_stick(noise="geometric", epsilon=d / scale, copies=d, scale=scale) < 1e-12
    assert hockey_stick(noise="geometric", epsilon=d / scale * 0.9, copies=d, scale=scale) > 0
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T="f64"), scale=scale)
    rho = gaussian.map(math.sqrt(d))
    assert rho == pytest.approx(d / (2 * scale**2), rel=1e-9)
    profile = dp.c.make_zCDP_to_approxDP(gaussian).map(math.sqrt(d))
    exact = gaussian_delta(epsilon=1.0, mu=math.sqrt(d) / scale)
    assert exact <= profile.delta(1.0)
    assert exact >= profile.delta(1.0) / 30  # zCDP is the looser bound


@pytest.mark.parametrize("noise", ["laplace", "geometric", "gaussian"])
def test_replace_is_never_cheaper_than_add_remove(noise):
    arguments = {"noise": noise, "epsilon": 1.0, "d": 4, "scale": 4.0, "threshold": 40}
    both = [delta_of_threshold(neighbours=n, **arguments) for n in ("add-remove", "replace")]
    assert both[0] < both[1] < 3 * both[0] + 0.2


def plain_delta(*, noise, epsilon, d, scale, threshold, neighbours):
    """T1 term by term: k items of the one side are new, `other` of the other side."""
    dropped = 1 - survival(noise=noise, scale=scale, x=threshold - 1)
    deltas = []
    for k, other in itertools.product(range(d + 1), repeat=2):
        if neighbours == "add-remove":
            cases = [(k, 0, d - k), (0, k, d - k)]
        else:
            cases = [(k, other, 2 * d - k - other)]
        for new, others, copies in cases:
            at = epsilon + (others - new) * math.log(dropped)
            stick = hockey_stick(noise=noise, epsilon=at, copies=copies, scale=scale)
            deltas.append(1 - dropped**new + dropped**new * stick)
    return max(deltas)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["laplace", "geometric", "gaussian"])
def test_delta_is_the_largest_over_all_that_can_be_new(noise, neighbours):
    """Also at low thresholds, where the log without a user tells more than the one with it."""
    for scale, threshold in ((1.0, 2), (2.0, 5), (2.0, 1), (4.0, 40)):
        law = {"noise": noise, "epsilon": 0.1, "d": 2, "scale": scale, "threshold": threshold}
        deltas = delta_of_threshold(**law, neighbours=neighbours)
        assert deltas == pytest.approx(plain_delta(**law, neighbours=neighbours), rel=1e-9)


def test_a_stated_delta_is_that_of_every_pair_of_replaced_users(monkeypatch):
    """A pair far from the rim that searches try; for no noise known it is the worst."""
    tried = []

    def sticks(noise, epsilon, copies, scale):
        tried.extend(zip(np.round(epsilon - 1.0, 9), copies, strict=True))
        return np.zeros(len(copies))

    monkeypatch.setattr(module, "hockey_sticks", sticks)
    D, law = 6, {"noise": "geometric", "epsilon": 1.0, "scale": 2.0, "threshold": 9}
    delta_of_threshold(d=2, releases=3, neighbours="replace", **law)
    log_q = math.log1p(-survival(noise="geometric", scale=2.0, x=8))
    pairs = itertools.product(range(D + 1), repeat=2)
    assert sorted(tried) == sorted(
        (round((other - k) * log_q, 9), 2 * D - k - other) for k, other in pairs
    )


def test_more_pairs_of_items_than_can_be_tried_are_refused():
    law = {"noise": "geometric", "epsilon": 1.0, "scale": 2.0, "threshold": 9}
    for d, releases in ((MOST_REPLACED + 1, 1), (1, MOST_REPLACED + 1), (MOST_REPLACED, 2)):
        with pytest.raises(UsageError, match="use a smaller bound or add-remove"):
            delta_of_threshold(**law, d=d, releases=releases, neighbours="replace")
        with pytest.raises(UsageError, match="at least 1, not 0"):
            delta_of_threshold(**law, d=0, releases=releases)
    with pytest.raises(UsageError, match="at least 1, not 5 and 0"):
        delta_of_threshold(**law, d=5, releases=0)


def test_replace_at_add_remove_epsilon_fails_badly():
    # d=1, b=2, K=20: one user's item counts for b=2 alone give epsilon 0.5; replace needs 1.
    at = {"noise": "laplace", "d": 1, "scale": 2.0, "threshold": 20}
    claimed = delta_of_threshold(epsilon=0.5, **at)
    truly = delta_of_threshold(epsilon=0.5, neighbours="replace", **at)
    assert truly > 1000 * claimed
    assert delta_of_threshold(epsilon=1.0, neighbours="replace", **at) <= claimed * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@settings(max_examples=12, deadline=None)
@given(
    epsilon=st.floats(0.05, 6),
    log_delta=st.floats(-11, -2),
    d=st.integers(1, 40),
)
def test_solved_thresholds_keep_their_promise_and_are_not_wasteful(
    noise, neighbours, epsilon, log_delta, d
):
    delta = 10.0**log_delta
    scale, T = solve_integer_threshold(
        noise=noise, epsilon=epsilon, delta=delta, d=d, neighbours=neighbours
    )
    at = {"noise": noise, "epsilon": epsilon, "d": d, "neighbours": neighbours}
    delta_at = delta_of_threshold(scale=scale, threshold=real_threshold(noise, T), **at)
    assert delta_at <= delta
    if T > 2:
        for factor in (0.9, 0.97, 1.0, 1.03, 1.1):
            lower = real_threshold(noise, T - 1)
            assert delta_of_threshold(scale=scale * factor, threshold=lower, **at) > delta


@pytest.mark.parametrize(
    ("d", "geometric", "gaussian"),
    [(1, 6, 9), (5, 29, 20), (10, 59, 28), (20, 104, 40), (40, 160, 58), (80, 239, 83), (160, 355, 120)],
)  # fmt: skip
def test_thresholds_are_at_most_the_known_best(d, geometric, gaussian):
    budget = {"epsilon": LN10, "delta": 1e-5, "d": d}
    assert solve_integer_threshold(noise="geometric", **budget)[1] <= geometric
    assert solve_integer_threshold(noise="gaussian", **budget)[1] <= gaussian


def test_passing_T_where_K_is_due_understates_delta():
    at = {"noise": "gaussian", "epsilon": LN10, "d": 1, "scale": 2.5}
    right = delta_of_threshold(threshold=real_threshold("gaussian", 12), **at)
    wrong = delta_of_threshold(threshold=12, **at)
    assert right > 2 * wrong  # a claim made with T would be broken twice over


def test_exact_search_is_never_worse_than_the_closed_form():
    for d in (1, 3, 20):
        budget = {"noise": "geometric", "epsilon": 1.0, "delta": 1e-6, "d": d}
        closed, exact = (solve_threshold(method=m, **budget)[1] for m in ("closed", "exact"))
        assert exact <= closed


def test_least_epsilon_is_where_delta_is_met():
    at = {"noise": "gaussian", "d": 5, "scale": 4.0, "threshold": 25.5}
    epsilon = epsilon_of_threshold(delta=1e-5, **at)
    assert delta_of_threshold(epsilon=epsilon, **at) <= 1e-5
    assert delta_of_threshold(epsilon=epsilon * 0.999, **at) > 1e-5
    assert epsilon_of_threshold(delta=1e-9, **at) == math.inf  # a key alone shows more often


def test_guarantees_add_up_only_within_one_unit():
    day = Guarantee(epsilon=1, delta=1e-6, unit="user-day")
    total = compose([day, day])
    assert (total.epsilon, total.delta, total.unit) == (2, 2e-6, "user-day")
    with pytest.raises(UsageError, match="'user-day' and 'user' do not add up"):
        compose([day, Guarantee(epsilon=1, delta=1e-6)])
    with pytest.raises(UsageError, match="nothing to compose"):
        compose([])


def test_a_guarantee_is_checked_at_birth():
    with pytest.raises(UsageError, match="unknown unit 'household'"):
        Guarantee(epsilon=1, delta=0, unit="household")
    with pytest.raises(UsageError, match="whole users only"):
        Guarantee(epsilon=1, delta=0, unit="user-day", neighbours="replace")
    with pytest.raises(UsageError, match="no guarantee has epsilon"):
        Guarantee(epsilon=-1, delta=0)
    with pytest.raises(UsageError, match="unknown assumptions: A17"):
        Guarantee(epsilon=1, delta=0, assumptions=("A17",))
    with pytest.raises(UsageError, match="unknown notion 'almost'"):
        Guarantee(epsilon=1, delta=0, notion="almost")
    for notion, delta_dp in (("dp", 1e-9), ("pdp", None)):
        with pytest.raises(UsageError, match="and it alone, states the delta of plain DP"):
            Guarantee(epsilon=1, delta=1e-6, notion=notion, delta_dp=delta_dp)
    for notion, epsilon in (("none", 1.0), ("dp", math.inf)):
        with pytest.raises(UsageError, match="an infinite epsilon and the notion none"):
            Guarantee(epsilon=epsilon, delta=1, notion=notion)


def test_linked_units_lose_privacy_together():
    epsilon, delta = Guarantee(epsilon=0.5, delta=1e-6).for_linked(3)
    assert epsilon == 1.5
    grown = 1e-6 * (math.exp(1.5) - 1) / (math.exp(0.5) - 1)
    assert delta == pytest.approx(grown, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": "cauchy"}, "unknown noise 'cauchy'"),
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"delta": 1}, "delta must lie between 0 and 1"),
        ({"d": 0}, "d must be at least 1"),
        ({"neighbours": "swap"}, "unknown neighbour relation 'swap'"),
        ({"method": "guess"}, "unknown method 'guess'"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    good = {"noise": "geometric", "epsilon": 1.0, "delta": 1e-6, "d": 5}
    with pytest.raises(UsageError, match=message):
        solve_threshold(**(good | arguments))


def test_tails_are_those_of_the_laws():
    assert survival(noise="gaussian", scale=2.0, x=2.0) == pytest.approx(0.158655, rel=1e-5)
    total = sum(
        survival(noise="geometric", scale=3.0, x=k)
        - survival(noise="geometric", scale=3.0, x=k + 1)
        for k in range(-400, 400)
    )
    assert total == pytest.approx(1, abs=1e-12)
    variance = sum(
        k * k * (survival(noise="geometric", scale=3.0, x=k) - survival(noise="geometric", scale=3.0, x=k + 1))
        for k in range(-400, 400)
    )  # fmt: skip
    assert noise_sd(noise="geometric", scale=3.0) == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert turning_point(1.0) == pytest.approx(0.765528, rel=1e-5)
