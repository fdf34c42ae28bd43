"""The mechanism `rounds`: its accounting, its law on tiny worlds against its claim, its steps."""

import itertools
import json
import math
from collections import Counter
from functools import partial

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import hostile_log
from hypothesis import given, settings
from hypothesis import strategies as st
from log_readers import read_in_partitions
from round_laws import largest_delta, law, worlds_near
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from tallies import candidates_of, same, weights_of

import murmurlog.mechanisms.rounds.select as module
import murmurlog.privacy.rounds as account
from murmurlog.auditing.verify import verify
from murmurlog.counting.unit_weights import give_weights
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import KeyList, order_of_keys
from murmurlog.mechanisms import Rounds, View, parse
from murmurlog.mechanisms.rounds import count
from murmurlog.mechanisms.rounds.select import Alive, keep_alive, weigh
from murmurlog.privacy import (
    WeightedCounts,
    delta_of_threshold,
    gaussian_delta,
)
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import (
    FULL,
    Schedule,
    delta_of_rounds,
    epsilon_of_rounds,
    solve_rounds,
)
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from murmurlog.publishing.release import release


def schedule_of(*, T, s, own=None, past=None, d=2, counts=None):
    R = len(s)
    return Schedule(
        d=d,
        scales=tuple(s),
        own=tuple(own or [1] * R),
        past=tuple([0] * (R - 1) if past is None else past),
        thresholds=tuple(math.ceil(GRID * x) for x in T),
        counts=counts,
    )


# --- the accounting -------------------------------------------------------------------------------


def slow_delta(schedule, epsilon, neighbours):
    """MR-J term by term in long arithmetic, over every pair of holdings."""
    mp, s = mpmath.mp, schedule

    def phi(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    def stick(e, square):
        if square == 0:
            return max(mpmath.mpf(0), 1 - mpmath.exp(e))
        mu = mpmath.sqrt(square)
        return phi(mu / 2 - e / mu) - mpmath.exp(e) * phi(-mu / 2 - e / mu)

    def side(t, d):
        leak = mpmath.mpf(0)
        for k in range(s.rounds):
            c = [*s.past[:k], s.own[k]]
            sd = mpmath.sqrt(
                sum((mpmath.mpf(x) * y) ** 2 for x, y in zip(c, s.scales, strict=False))
            )
            heaviest = sum(c[1:]) + c[0] / mpmath.sqrt(d)
            limit = mpmath.mpf(s.thresholds[k]) / GRID - mpmath.mpf(sum(c)) / (2 * GRID) - heaviest
            leak += 1 - phi(limit / sd) ** t
        square = sum(1 / mpmath.mpf(x) ** 2 for x in s.scales) if t < d else mpmath.mpf(0)
        square -= mpmath.mpf(t) / d / mpmath.mpf(s.scales[0]) ** 2 if t < d else 0
        if isinstance(s.counts, WeightedCounts):  # whatever t and d are
            square += 1 / mpmath.mpf(s.counts.scale) ** 2
            square += 1 / mpmath.mpf(s.counts.histogram_scale) ** 2
        elif s.counts:
            square += mpmath.mpf(min(s.counts.per_user, d - t)) / mpmath.mpf(s.counts.scale) ** 2
        return 1 - leak, square

    with mp.workdps(40):
        sides = [side(t, d) for d in range(1, s.d + 1) for t in range(d + 1)]
        nobody = (mpmath.mpf(1), mpmath.mpf(0))
        pairs = [*((x, nobody) for x in sides), *((nobody, x) for x in sides)]
        if neighbours == "replace":
            pairs = itertools.product(sides, repeat=2)
        return float(
            max(
                1 - psi + psi * stick(epsilon + mpmath.log(other / psi), square + more)
                for (psi, square), (other, more) in pairs
            )
        )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("rounds", "d", "counts"),
    [
        (1, 4, None),
        (3, 5, None),
        (1, 1, WeightedCounts(scale=6.0, histogram_scale=20.0)),
        (3, 5, WeightedCounts(scale=6.0, histogram_scale=20.0)),
        (2, 6, WeightedCounts(scale=9.0, histogram_scale=7.0, per_user=2)),
    ],
)
def test_delta_agrees_with_long_arithmetic(rounds, d, counts, neighbours):
    s = [7.0, 5.0, 4.0][:rounds]
    schedule = schedule_of(
        d=d,
        s=s,
        own=[2, 3, 5][:rounds],
        past=[1, 2][: rounds - 1],
        T=[56, 105, 185][:rounds],
        counts=counts,
    )
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        fast = delta_of_rounds(schedule, epsilon=epsilon, neighbours=neighbours)
        assert fast == pytest.approx(slow_delta(schedule, epsilon, neighbours), rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_solving_keeps_the_budget_and_uses_it(neighbours, share):
    at = {"epsilon": 1.0, "delta": 1e-6, "neighbours": neighbours}
    for rounds, d in ((1, 1), (4, 30), (8, 10)):
        mechanism = Rounds.solve(d=d, rounds=rounds, count_share=share, **at)
        claim = mechanism.guarantee(epsilon=1.0, neighbours=neighbours)
        assert 0.99e-6 < claim.delta <= 1e-6
        back = mechanism.guarantee(delta=1e-6, neighbours=neighbours)
        assert back.epsilon == pytest.approx(1.0, rel=1e-3)
        assert back.delta <= 1e-6


def test_joint_calibration_is_better_than_the_sum_of_the_parts():
    shares, delta = (0.1, 0.15, 0.25, 0.5), 1e-6
    joint = solve_rounds(epsilon=1.0, delta=delta, d=100, shares=shares, memory=0.8, late=0.85)
    leak = max(
        sum(float(joint.leak(k, np.array([t]), np.array([100.0]))[0]) for k in range(4))
        for t in range(1, 101)
    )
    mu = math.sqrt(sum(1 / s**2 for s in joint.scales))
    assert leak > 0.5 * delta  # about 0.65 was expected
    assert leak + gaussian_delta(epsilon=1.0, mu=mu) > 1.5 * delta  # what the simple sum would say
    assert delta_of_rounds(joint, epsilon=1.0) <= delta


def test_one_item_and_one_round_is_the_threshold_mechanism():
    schedule = schedule_of(d=1, s=[4.0], T=[22.5])
    for epsilon in (0.2, 1.0):
        plain = delta_of_threshold(
            noise="gaussian", epsilon=epsilon, d=1, scale=4.0, threshold=22.5
        )
        assert delta_of_rounds(schedule, epsilon=epsilon) == pytest.approx(plain, rel=1e-4)


def test_counts_are_paid_for_also_where_a_unit_s_bounded_items_are_its_own():
    """It may hold published items beyond its bound."""
    base = {"d": 1, "s": [50.0], "T": [200.0]}  # the threshold's delta is all there is
    alone = delta_of_rounds(schedule_of(**base), epsilon=0.5)
    deltas = [
        delta_of_rounds(
            schedule_of(**base, counts=WeightedCounts(scale=sigma, histogram_scale=1e4)),
            epsilon=0.5,
        )
        for sigma in (5.0, 2.0, 1.0)
    ]
    assert alone < deltas[0] < deltas[1] < deltas[2]
    assert deltas[2] > 100 * alone


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"s": [1.0, 2.0], "T": [3.0]}, "each with its scale"),
        ({"s": [1.0] * 9, "T": [3.0] * 9}, "between 1 and 8 rounds"),
        ({"s": [1.0], "T": [3.0], "d": 0}, "d must lie between 1"),
        ({"s": [-1.0], "T": [3.0]}, "a scale must lie"),
        ({"s": [1.0, 1.0], "T": [3.0, 3.0], "past": [-1]}, "past ones in 0"),
    ],
)
def test_a_schedule_that_nothing_is_proved_about_is_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        schedule_of(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": 1e-5, "histogram_scale": 1.0}, "between 0.0001 and 92681.9"),
        ({"scale": math.nan, "histogram_scale": 1.0}, "not nan"),
        ({"scale": 1e5, "histogram_scale": 1.0}, "not 100000.0"),
        ({"scale": 1.0, "histogram_scale": 2e6}, "not 2000000.0"),
        ({"scale": 1.0, "histogram_scale": 1.0, "per_user": 0}, "d2 must lie"),
        ({"scale": 1.0, "histogram_scale": 1.0, "per_user": 10**5}, "d2 must lie"),
    ],
)
def test_counts_that_nothing_is_proved_about_are_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        WeightedCounts(**wrong)


def test_thresholds_that_prove_nothing_have_delta_1():
    assert delta_of_rounds(schedule_of(d=3, s=[1.0, 1.0], T=[-9.0, -9.0]), epsilon=1.0) == 1.0
    assert epsilon_of_rounds(schedule_of(d=3, s=[1.0], T=[1.0]), delta=1e-6) == math.inf


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_stated_epsilon_has_room_for_the_rounding_of_its_delta(neighbours):
    """Where delta is met to the last digit at a round epsilon, a larger one is stated."""
    schedule = schedule_of(d=3, s=[4.0, 3.0], T=[40.0, 30.0])
    for epsilon in (0.5, 1.25):
        exact = delta_of_rounds(schedule, epsilon=epsilon, neighbours=neighbours)
        claim = {"delta": exact, "neighbours": neighbours}
        assert epsilon < epsilon_of_rounds(schedule, **claim) < epsilon * 1.00001
        cost = exact / 2  # of the sampler: it is added, whatever epsilon is
        least = epsilon_of_rounds(schedule, **claim, cost=lambda _, cost=cost: cost)
        assert delta_of_rounds(schedule, epsilon=least, neighbours=neighbours) <= exact / 2


# --- the law of two rounds on two items -----------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "memory", "rules"),
    [
        (1.0, 1e-2, 0.0, {"C": 2.0}),  # 2R
        (1.0, 1e-2, 0.0, {}),  # DP-SIPS
        (1.0, 1e-2, 0.9, {"C": 3.0, "reach": 1.3, "focus": 0.3}),
        (3.0, 1e-2, 1.0, {"C": 1.0, "reach": 1.0, "focus": 0.1}),
        (0.3, 5e-2, 0.5, {"C": 0.5}),
    ],
)
def test_no_world_of_two_items_exceeds_the_claim(epsilon, delta, memory, rules, neighbours):
    schedule = solve_rounds(
        epsilon=epsilon, delta=delta, d=2, shares=(0.4, 0.6), memory=memory, late=0.7,
        neighbours=neighbours,
    )  # fmt: skip
    mechanism = Rounds(schedule=schedule, **rules)
    top = math.ceil(1.6 * schedule.thresholds[1] / GRID / sum(schedule.coefficients(1)))
    worst = largest_delta(
        mechanism,
        epsilon=epsilon,
        worlds=worlds_near(top, seed=7, count=12),
        neighbours=neighbours,
    )
    assert 0.2 * delta < worst <= delta


def test_the_law_catches_halved_noise():
    schedule = solve_rounds(epsilon=1.0, delta=1e-2, d=2, shares=(0.4, 0.6), memory=0.9, late=0.7)
    mechanism = Rounds(schedule=schedule, C=3.0, reach=1.3, focus=0.3)
    worlds = [(n, 0, 0) for n in range(0, 25, 3)]
    assert largest_delta(mechanism, epsilon=1.0, worlds=worlds, noise=0.5) > 5e-2


def test_the_law_catches_an_add_remove_claim_sold_as_replace():
    schedule = solve_rounds(epsilon=1.0, delta=1e-3, d=2, shares=(0.4, 0.6), memory=0.0, late=0.7)
    mechanism = Rounds(schedule=schedule)
    worst = largest_delta(mechanism, epsilon=1.0, worlds=[(16, 10, 0)], neighbours="replace")
    assert delta_of_rounds(schedule, epsilon=1.0, neighbours="replace") > worst
    assert worst > 2e-3


# --- broken twins ---------------------------------------------------------------------------------


def publication_chance(schedule, give_up, t):
    """P(one of t items that a single unit holds shows) in two rounds with memory, exactly."""
    s1, s2 = schedule.scales
    a1, a2, b = *schedule.own, schedule.past[0]
    T1, T2 = (T / GRID for T in schedule.thresholds)
    W = 1 / math.sqrt(t)
    edges = np.linspace(give_up, min(T1 / a1, W + 10 * s1), 2_001)
    z, mass = (edges[1:] + edges[:-1]) / 2, np.diff(ndtr((edges - W) / s1))
    at_once, alive = float(ndtr((W - T1 / a1) / s1)), mass.sum()
    none = 0.0
    for m in range(t + 1):
        lost = 0.0
        if m:
            later = ndtr((a2 / math.sqrt(m) + b * z - T2) / (a2 * s2))
            lost = float(mass @ later) / alive
        # m are alive, the others neither passed nor alive
        ways = binom.pmf(m, t, min(1.0, alive / (1 - at_once))) * (1 - at_once) ** t
        none += ways * (1 - lost) ** m
    return 1 - none


def replace_last_threshold(schedule, rho):
    """The schedule with another last threshold, in weights times coefficients."""
    first = schedule.thresholds[0]
    return Schedule(**{**vars(schedule), "thresholds": (first, math.ceil(GRID * rho))})


def two_rounds(*, delta, d, epsilon=8.0):
    return solve_rounds(epsilon=epsilon, delta=delta, d=d, shares=(0.5, 0.5), memory=1.0, late=0.99)


def test_credit_for_spread_weights_is_caught_once_there_is_memory():
    d, delta = 100, 1e-3
    right = two_rounds(delta=delta, d=d)
    a, b = right.own[1], right.past[0]
    q = -float(ndtri(-math.expm1(math.log1p(-0.99 * delta) / d)))
    credited = replace_last_threshold(right, (a + b) / math.sqrt(d) + right.sd(1) * q)
    ups = np.linspace(1.0, 3.0, 5) * right.scales[0]
    assert max(publication_chance(credited, up, d) for up in ups) > 1.2 * delta
    assert max(publication_chance(right, up, d) for up in ups) <= delta


def test_thresholds_without_the_noise_of_memory_are_caught():
    right = two_rounds(delta=1e-3, d=1, epsilon=2.0)
    short = replace_last_threshold(
        right, sum(right.coefficients(1)) - right.own[1] * right.scales[1] * float(ndtri(0.99e-3))
    )
    assert publication_chance(short, -9 * right.scales[0], 1) > 5e-3
    assert publication_chance(right, -9 * right.scales[0], 1) <= 1e-3
    assert delta_of_rounds(short, epsilon=2.0) > 5e-3  # the accounting sees it too


def test_thresholds_for_one_item_are_caught_when_a_unit_holds_many():
    right = two_rounds(delta=1e-3, d=50, epsilon=2.0)
    q = -float(ndtri(0.99e-3))
    single = replace_last_threshold(right, right.own[1] + right.past[0] + right.sd(1) * q)
    assert publication_chance(single, -9 * right.scales[0], 50) > 5e-3
    assert delta_of_rounds(single, epsilon=2.0) > 5e-3


# --- the steps ------------------------------------------------------------------------------------


def sum_weights(candidates, attention=None):
    """The weights of a round as the code sums them, by the item's text."""
    if attention is None:
        return weights_of(candidates, candidates.first)
    texts = list(attention)
    keys = candidates.text_keys.texts(pa.array(texts, pa.string()))
    order = order_of_keys(keys)
    h = np.array([attention[text] for text in texts], np.int64)[order]
    alive = Alive(KeyList(keys[order]), h, np.zeros_like(h), np.zeros_like(h))
    items = candidates.bounded.derive(partial(keep_alive, alive=lambda: alive))
    return weights_of(candidates, items.add_up(weigh))


def exact_weights(holdings, attention):
    """The same in whole numbers, unit by unit."""
    weights = Counter()
    for items in holdings:
        h = {item: attention.get(item, 0) for item in items}
        squares = sum(x * x for x in h.values())
        for item, x in h.items():
            if x:
                weights[item] += math.isqrt(x * x * GRID**2 // squares)
    return weights


@settings(deadline=None, max_examples=40)
@given(
    holdings=st.lists(st.sets(st.sampled_from("abcdefg"), min_size=1), min_size=1, max_size=6),
    attention=st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, FULL)),
    parts=st.integers(1, 4),
)
def test_weights_are_roots_in_whole_numbers(holdings, attention, parts):
    candidates = candidates_of(holdings, parts=parts)
    every = dict.fromkeys("abcdefg", FULL)
    assert sum_weights(candidates) == exact_weights(holdings, every)
    assert sum_weights(candidates, attention) == exact_weights(holdings, attention)


def test_weights_are_rounded_down_whatever_the_rounding_of_the_root():
    """Attention whose quotient rounds up to a whole number: no unit gives more than its root.

    Attention up to FULL has no such quotient, if a root is rounded as IEEE 754 says; this one has.
    """
    heavy, root, others = 1959, 263443, [2047] * 13 + [1577, 39, 1, 1, 1]
    squares = heavy**2 + sum(h * h for h in others)
    assert squares == 60798851
    assert math.floor(heavy * GRID / math.sqrt(squares)) == root  # and that is too much:
    assert root**2 * squares > heavy**2 * GRID**2
    attention = np.array([heavy, *others], np.int64)
    exact = [math.isqrt(h * h * GRID**2 // squares) for h in attention.tolist()]
    unit = np.zeros(len(attention), np.int64)
    assert give_weights(unit, attention, grid=GRID).tolist() == exact
    assert sum(w * w for w in exact) <= GRID**2


@pytest.mark.parametrize("many", [255, 256, 257, 1000])
def test_weights_of_units_with_more_items_than_a_byte_counts(many):
    """With equal attention and with that of later rounds."""
    texts = [f"q{n}" for n in range(many)]
    holdings = [texts, ["q0"]]
    candidates = candidates_of(holdings, d=1000)
    attention = {text: FULL if n % 2 else 1 for n, text in enumerate(texts)}
    assert sum_weights(candidates) == exact_weights(holdings, dict.fromkeys(texts, FULL))
    assert sum_weights(candidates, attention) == exact_weights(holdings, attention)


def test_every_round_draws_the_noise_that_is_certified(monkeypatch):
    """A draw for each item that is alive, of the schedule's scales."""
    draws = Counter()

    def note(*, noise, scale, count, keys, **_):
        assert len(keys) == count
        draws[noise, scale] += count
        return np.zeros(count, np.int64)

    monkeypatch.setattr(module, "draw", note)
    schedule = schedule_of(s=[3.0, 0.5, 7.25], T=[900.0] * 3, d=2)
    candidates = candidates_of([("a", "b"), ("b", "c")], d=2)
    selected = Rounds(schedule=schedule).select(candidates, entropy=SystemEntropy())
    assert len(selected.keys) == 0
    assert draws == {("gaussian", s * GRID): 3 for s in schedule.scales}


TEXTS = "abcdefgh"


@settings(max_examples=40, deadline=None)
@given(
    holdings=st.lists(st.sets(st.sampled_from(TEXTS), min_size=1), min_size=2, max_size=6),
    attention=st.dictionaries(st.sampled_from(TEXTS), st.integers(1, FULL), min_size=4),
)
def test_one_unit_moves_the_weights_by_a_norm_of_at_most_1(holdings, attention):
    with_it, without = candidates_of(holdings), candidates_of(holdings[1:])
    for h in (None, attention):
        whole, less = sum_weights(with_it, h), sum_weights(without, h)
        moved = [whole[item] - less.get(item, 0) for item in whole]
        assert set(less) <= set(whole)
        assert min(moved, default=0) >= 0  # no item may have attention
        assert sum(x * x for x in moved) <= GRID**2
        if h is None:  # equal in the first round
            n = len(holdings[0])
            assert sorted(moved)[-n:] == [math.isqrt(GRID**2 // n)] * n


@pytest.mark.parametrize(
    ("copies", "units", "s", "T", "rules", "wrong"),
    [
        (8000, (2, 1, 3), [2.0, 1.5], [12.0, 19.0], {"C": 1.0, "focus": 0.3}, (0.8, 1.25)),
        (4000, (2, 0, 8), [1.0, 1.0], [30.0, 27.0], {"focus": 0.1}, (0.5, 2.0)),
    ],
)
def test_released_sets_follow_the_law(copies, units, s, T, rules, wrong):
    """Many pairs of items, each pair with units of its own: a run is thousands of tiny worlds."""
    A, B, AB = units
    schedule = schedule_of(s=s, own=[2, 3], past=[1], T=T)
    mechanism = Rounds(schedule=schedule, **rules)
    holdings = [
        items
        for n in range(copies)
        for items in [*[(f"{n}a",)] * A, *[(f"{n}b",)] * B, *[(f"{n}a", f"{n}b")] * AB]
    ]
    released = mechanism.release(candidates_of(holdings, d=2), entropy=SystemEntropy())
    assert released.column_names == ["query"]
    queries = set(released["query"].to_pylist())
    kinds = [2 * (f"{n}a" in queries) + (f"{n}b" in queries) for n in range(copies)]
    observed = np.bincount(kinds, minlength=4)

    def misfit(mechanism, noise=1.0):
        P = copies * law(mechanism, A, B, AB, noise=noise, nodes=800)
        return float(((observed - P) ** 2 / P).sum())

    assert misfit(mechanism) < 50  # chi-squared with 3 degrees: p > 1e-10
    for noise in wrong:  # five standard deviations and more beyond 50
        assert misfit(mechanism, noise) > 50
    if "C" not in rules:
        assert misfit(Rounds(schedule=schedule)) > 50  # equal weights would be another law


def test_items_come_once_bounded_and_bounding_again_is_caught(monkeypatch):
    """Others hold x too, but beyond their bound: only re-bounding would bring it back."""
    schedule = solve_rounds(epsilon=1.0, delta=1e-4, d=1, shares=(0.5, 0.5), memory=0.0, late=0.5)
    mechanism = Rounds(schedule=schedule)
    holdings = [*[("a", "x")] * 400, ("x",)]
    full, bounded = (candidates_of(holdings, d=d, way="first") for d in (2, 1))
    with pytest.raises(Refused, match="up to 2 a user, the mechanism is proved for 1"):
        mechanism.release(full, entropy=SystemEntropy())
    assert mechanism.release(bounded, entropy=SystemEntropy())["query"].to_pylist() == ["a"]
    unbounded = dict(zip(map(id, bounded.bounded.values), full.bounded.values, strict=True))
    monkeypatch.setattr(
        module, "keep_alive", lambda items, *, alive: keep_alive(unbounded[id(items)], alive=alive)
    )
    assert mechanism.release(bounded, entropy=SystemEntropy())["query"].to_pylist() == ["a", "x"]


@pytest.mark.parametrize("way", ["first", "random"])
@pytest.mark.parametrize(
    ("kind", "unit", "d"),
    [("click", "user", 20), ("query", "user-day", 3), ("pair", "user", 5), ("itemset", "user", 10)],
)
def test_partitions_change_nothing(tmp_path, monkeypatch, kind, unit, d, way):
    """The same sums in every round, a draw for each, and the same rows in the end."""
    pq.write_table(hostile_log(1500, seed=1), tmp_path / "log.parquet")
    mechanism = Rounds.solve(epsilon=30.0, delta=1e-2, d=d, rounds=4)
    real, outcomes = module.draw, {}
    for name, log in read_in_partitions(tmp_path / "log.parquet", unit=unit):
        draws = Counter()

        def note(*, scale, keys, draws=draws, **more):
            draws[scale] += len(keys)
            return real(scale=scale, keys=keys, **more)

        monkeypatch.setattr(module, "draw", note)
        view = View(kind=kind, unit=unit, way=way, gap=3 * 86_400.0)
        candidates = mechanism.gather(log, view, entropy=SeededEntropy(7))
        sums = sum_weights(candidates) if kind == "query" else None
        table = mechanism.release(candidates, entropy=SeededEntropy(2))
        outcomes[name] = (sums, list(draws.items()), table.to_pylist())
    (_, draws, rows), *others = outcomes.values()
    assert len(draws) == 4
    alive = [count for _, count in draws]
    assert alive == sorted(alive, reverse=True)
    assert 0 < alive[3] < alive[0]
    assert len(rows) > 1
    assert all(other == outcomes["one"] for other in others)


def test_nothing_in_nothing_out():
    candidates = candidates_of([("a",)])
    counts = ["users", "users_stderr", "reliable", "users_low", "users_high"]
    for share, columns in ((0.0, ["query"]), (0.5, ["query", *counts])):
        mechanism = Rounds.solve(epsilon=1.0, delta=1e-9, d=100, count_share=share)
        released = mechanism.release(candidates, entropy=SystemEntropy())
        assert released.num_rows == 0
        assert released.column_names == columns


# --- whole releases -------------------------------------------------------------------------------


@pytest.fixture
def log(write_tsv):
    rng = np.random.default_rng(2)
    rows = [
        {"user": f"u{u}", "time": f"2024-01-01 10:{i:02}:00", "query": f"word{q}", "url": "e.org/x"}
        for u in range(700)
        for i, q in enumerate(rng.geometric(0.3, 5))
    ]  # fmt: skip
    return write_tsv(rows)


def test_a_release_is_verified_and_a_seed_repeats_it(log, tmp_path):
    options = {
        "mechanism": "rounds", "tables": ["query", "itemset"], "epsilon": 4.0, "delta": 1e-6,
        "per_user": 20, "rounds": 3, "count_per_user": 4,
    }  # fmt: skip
    outcome = release(str(log), out=tmp_path / "out", **options)
    assert min(outcome.rows.values()) > 0
    report = verify(tmp_path / "out")
    assert report.ok, report.as_json()
    claim = json.loads((tmp_path / "out" / "privacy.json").read_text())["tables"]["query"]
    assert claim["parameters"]["rounds"] == 3
    assert parse(claim["mechanism"]).parameters() == claim["parameters"]


def test_a_seed_repeats_a_release():
    candidates = candidates_of([("a", "b", str(n % 9)) for n in range(60)])
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=100, rounds=3)
    first, again, other = (
        mechanism.release(candidates, entropy=SeededEntropy(n)) for n in (5, 5, 6)
    )
    assert first.num_rows > 1
    assert first.equals(again)
    assert not first.equals(other)


def test_keys_alone_get_everything_and_show_more(log, tmp_path):
    options = {"mechanism": "rounds", "tables": ["query"], "epsilon": 1.0, "delta": 1e-6}
    keys = release(str(log), out=tmp_path / "keys", set_only=True, **options)
    counts = release(str(log), out=tmp_path / "counts", **options)
    assert verify(tmp_path / "keys").ok
    at = {"epsilon": 1.0}
    for outcome in (keys, counts):
        mechanism = outcome.plans["query"].mechanism
        assert 0.99e-6 < mechanism.guarantee(**at).delta <= 1e-6
    scales = [o.plans["query"].mechanism.schedule.scales[0] for o in (keys, counts)]
    assert scales[1] == pytest.approx(scales[0] / math.sqrt(0.7), rel=1e-4)
    with pytest.raises(UsageError, match="--count-per-user is about counts"):
        release(str(log), out=tmp_path / "no", set_only=True, count_per_user=3, **options)


def test_gathering_fixes_distinct_items_in_the_unit_s_own_order(engine, log):
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=3)
    candidates = mechanism.gather(
        read(find(str(log)), engine=engine), View(kind="query"), entropy=SystemEntropy()
    )
    rows = [
        (part, unit, item)
        for part, bounded in enumerate(candidates.bounded.results(same))
        for unit, item in zip(bounded.unit.tolist(), bounded.item.tolist(), strict=True)
    ]
    assert len(set(rows)) == len(rows)
    assert max(Counter(row[:2] for row in rows).values()) == 3


# --- the text -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    R=st.integers(1, 8),
    d=st.integers(1, 1000),
    scale=st.floats(1e-3, 1e5),
    T=st.integers(1, 2**50),
    C=st.sampled_from([0.0, 2.5, math.inf]),
    counts=st.sampled_from(
        [
            None,
            WeightedCounts(scale=12.25, histogram_scale=40.5),
            WeightedCounts(scale=12.25, histogram_scale=40.5, per_user=3),
        ]
    ),
)
def test_text_is_the_name(R, d, scale, T, C, counts):
    schedule = Schedule(
        d=d,
        scales=tuple(scale * (k + 1) / 8 for k in range(R)),
        own=tuple(range(1, R + 1)),
        past=tuple(range(R - 1)),
        thresholds=tuple(T + k for k in range(R)),
        counts=counts,
    )
    mechanism = Rounds(schedule=schedule, C=C, reach=1.25, focus=0.5)
    again = parse(str(mechanism))
    assert again == mechanism
    assert json.loads(json.dumps(mechanism.parameters(), allow_nan=False)) == again.parameters()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds", "missing parameter s"),
        ("rounds(d=1, s=1_x, T=3_3)", "s must be a number"),
        ("rounds(d=1, s=1_1, T=3)", "each with its scale"),
        ("rounds(d=1, s=1, T=3.5)", "T must be a whole number"),
        ("rounds(d=1, s=1, T=3, e=2)", "no parameter e"),
        ("rounds(d=1, s=1, T=3, C=-1)", "C must be at least 0"),
        ("rounds(d=1, s=1, T=3, focus=0)", "focus must lie between"),
        ("rounds(d=1, s=1, T=3, reach=0)", "reach must be a positive number"),
        ("rounds(d=1, s=1, T=3, d2=2)", "counts need sigma1 and sigma_h"),
        ("rounds(d=1, s=1, T=3, sigma1=2)", "counts need sigma1 and sigma_h"),
        ("rounds(d=1, s=1, T=3, d2=2, sigma=2, sigma1=2)", "counts need sigma1 and sigma_h"),
        ("rounds(d=1, s=1, T=3, d2=1.5, sigma1=2, sigma_h=2)", "d2 must be a whole number"),
        ("rounds(noise=geometric, d=1, s=1, T=3)", "gaussian noise only"),
    ],
)
def test_text_that_names_no_mechanism_says_what_is_wrong(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_what_cannot_be_solved_says_why():
    at = {"epsilon": 1.0, "delta": 1e-6, "d": 10}
    with pytest.raises(UsageError, match="--rounds must lie between 1 and 8, not 9"):
        Rounds.solve(**at, rounds=9)
    with pytest.raises(UsageError, match="--count-share must be at least 0 and below 1"):
        Rounds.solve(**at, count_share=1.0)
    with pytest.raises(UsageError, match="below what the noise sampler can certify"):
        Rounds.solve(epsilon=1.0, delta=1e-16, d=10)
    with pytest.raises(UsageError, match="no epsilon of its own"):
        Rounds.solve(**at).guarantee()
    with pytest.raises(UsageError, match="at no epsilon"):
        Rounds.solve(**at).guarantee(delta=1e-12)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_only_the_worst_that_a_unit_can_hold_decides(neighbours):
    """The exact law over all that a unit can hold, and over those that no other exceeds, is the same."""
    schedule = solve_rounds(
        epsilon=1.0,
        delta=1e-6,
        d=12,
        shares=(0.4, 0.6),
        memory=1.0,
        late=0.5,
        neighbours=neighbours,
    )
    every = account._sides(schedule)
    few = account._worst(*every)
    assert len(few[0]) < len(every[0])
    for epsilon in (0.01, 0.5, 1.0, 4.0):
        deltas = [
            account._largest_delta(sides, epsilon=epsilon, neighbours=neighbours)
            for sides in (every, few)
        ]
        assert deltas[0] == deltas[1] > 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_number_that_is_none_is_no_guarantee(place, monkeypatch):
    schedule = solve_rounds(epsilon=1.0, delta=1e-6, d=3, shares=(1.0,), memory=0.0, late=1.0)
    broken = [side.copy() for side in account._sides(schedule)]
    broken[place][-1] = math.nan
    monkeypatch.setattr(account, "_sides", lambda _: tuple(broken))
    assert epsilon_of_rounds(schedule, delta=1e-6) == math.inf


def test_holders_of_all_partitions_are_added_up_on_the_way(monkeypatch):
    """However many partitions there are, an item and m come once; the units of all partitions count."""
    holdings = [("a",), ("a", "b"), ("a", "b"), ("b",), ("a", "b", "c"), ("a",)] * 5
    published = pa.table({"query": ["a", "b"]})
    for together in (0, 10**6):
        monkeypatch.setattr(count, "ROWS_TOGETHER", together)
        holders = count.find_holders(candidates_of(holdings, parts=4), published)
        pairs = zip(holders.item.tolist(), holders.m.tolist(), holders.units.tolist(), strict=True)
        assert sorted(pairs) == [(0, 1, 10), (0, 2, 15), (1, 1, 5), (1, 2, 15)]
