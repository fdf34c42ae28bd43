"""The budget filter: known numbers, exact trees of adaptive releases, and wrong rules that such trees refute."""

import functools
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from adaptive_steps import compose, gaussian, largest_delta, leak, response
from scipy.integrate import quad
from scipy.optimize import brentq

from murmurlog.errors import UsageError
from murmurlog.mechanisms import Threshold
from murmurlog.privacy import (
    Amounts,
    Guarantee,
    Loss,
    amounts_of,
    delta_of_limits,
    delta_of_losses,
    gaussian_delta,
    join_losses,
    limits_of,
    loss_of_part,
    mu_of,
    mu_of_draws,
    mu_of_pure,
    rectangle,
)
from murmurlog.privacy.budget_filter import contains, fits, sum_of
from murmurlog.privacy.sampler import KEY_DISTANCE, noise_distance, sampler_distance

VECTORS = json.loads((Path(__file__).parent / "vectors_filter.json").read_text())


def vectors(what):
    cases = [(vector["given"], vector["expect"]) for vector in VECTORS if vector["what"] == what]
    assert cases
    return cases


def near(number, rel=1e-9):
    return pytest.approx(number, rel=rel, abs=0)


# --- known numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "result"), [(gaussian_delta, "delta"), (mu_of, "mu"), (mu_of_pure, "mu"), (mu_of_draws, "mu")]
)  # fmt: skip
def test_functions_give_the_known_numbers(function, result):
    for x, expect in vectors(function.__name__):
        assert function(**x) == near(expect[result])
        assert function(*x.values()) == near(expect[result])  # by position, too


def test_a_rectangle_is_that_of_the_known_numbers_less_the_sampler():
    for x, expect in vectors("rectangle"):
        share = x["keys_share"]
        assert mu_of(x["epsilon"], (1 - share) * x["delta"]) == near(expect["mu"])
        limits = rectangle(**x)
        assert limits.keys == near(expect["keys"])
        assert expect["squares"] * 0.9995 < limits.mu2 < expect["squares"]
        assert limits.distance == near(1e-3 * x["delta"] / (1 + math.exp(x["epsilon"])))


@pytest.mark.parametrize(("epsilon", "delta", "share", "pure"), [(3, 1e-5, 0.4, 0), (1, 1e-6, 0.3, 0.2)])  # fmt: skip
def test_the_noise_of_a_rectangle_by_long_arithmetic(epsilon, delta, share, pure):
    noise, rest = delta * (1 - share - 1e-3) / (1 + 1e-9), epsilon - pure
    with mpmath.workdps(40):

        def excess(mu):
            near_, far = mu / 2 - rest / mu, -mu / 2 - rest / mu
            return mpmath.ncdf(near_) - mpmath.exp(rest) * mpmath.ncdf(far) - noise

        low, high = mpmath.mpf("0.01"), mpmath.mpf(3)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
        squares = float(low**2 * (1 - 4e-9))
    assert rectangle(epsilon, delta, share, pure).mu2 == near(squares)


def test_equal_releases_by_filter_and_by_sums():
    for x, expect in vectors("equal_releases"):
        epsilon, delta, n = x["epsilon"], x["delta"], x["releases"]
        mu_of_one = mu_of(epsilon, delta * (1 - x["keys_share"])) / math.sqrt(n)
        assert mu_of_one == near(expect["mu_filter"])
        noise = delta * (1 - x["keys_share"]) / n
        assert gaussian_delta(expect["epsilon_filter"], mu_of_one) == near(noise)
        assert mu_of(epsilon / n, noise) == near(expect["mu_sum"])


def test_known_decisions():
    for x, expect in vectors("decisions"):
        limits = Amounts(expect["squares_cap"], expect["keys_cap"])
        assert mu_of(x["epsilon"], 0.6 * x["delta"]) ** 2 == near(expect["squares_cap"])
        for most in (limits, limits_of(x["epsilon"], x["delta"])._replace(distance=0.0)):
            booked, accepted = [], []
            for mu, keys in x["entries"]:
                more = Amounts(mu**2, keys)
                accepted.append(fits(most, booked, more))
                booked += [more] * accepted[-1]
            assert accepted == expect["accepted"]
            assert sum_of(booked)[:2] == near((expect["squares"], expect["keys"]))


def test_known_remainders():
    for x, expect in vectors("remainder"):
        epsilon = x["epsilon"] - x["spent_epsilon"]
        delta = x["delta"] - x["spent_delta"]
        assert mu_of(epsilon, 0.6 * delta) == near(expect["mu"])
        limits = limits_of(epsilon, delta)
        assert limits.keys == near(expect["keys"])
        assert expect["squares"] * 0.999 < limits.mu2 < expect["squares"]


def test_an_account_with_pure_releases_has_the_known_delta():
    for x, expect in vectors("with_pure_account"):
        limits = Amounts(x["mu"] ** 2, x["keys"], 0.0, x["pure"])
        assert delta_of_limits(limits, epsilon=x["epsilon"]) == near(expect["delta"])


def test_the_sampler_has_the_known_distance():
    for x, expect in vectors("sampler"):
        scale, epsilon = x["scale"], x["epsilon_cap"]
        assert noise_distance(scale) == near(expect["total_variation"])
        assert sampler_distance(scale) == noise_distance(scale) + KEY_DISTANCE
        delta = (1 + math.exp(epsilon)) * noise_distance(scale)
        assert delta == near(expect["delta"])


def test_the_loss_of_a_threshold_has_the_known_numbers():
    for x, expect in vectors("loss_of_threshold"):
        mechanism = Threshold(noise="gaussian", d=x["d"], scale=x["sigma"], T=x["T"])
        loss = mechanism.loss(neighbours=x["neighbours"])
        assert loss.mu == near(expect["mu"])
        assert loss.keys == near(expect["keys"])


# --- limits and amounts -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("pure", [0.0, 0.5])
@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-5), (1.0, 1e-6), (0.6, 0.5), (15.0, 1e-9)])
def test_everything_that_fits_stays_below_the_cap_with_the_tolerance_of_comparing(
    share, pure, epsilon, delta
):
    limits = limits_of(epsilon, delta, keys_share=share, pure=pure)
    fullest = Amounts(*(number * (1 + 1e-9) for number in limits))
    assert fits(limits, [], fullest)
    assert not fits(limits, [], Amounts(*(number * (1 + 2e-9) for number in limits)))
    # The tolerance of `pure` is in epsilon: the cap is stated at the full one.
    assert 0.99 * delta < delta_of_limits(fullest, epsilon=epsilon) <= delta


@pytest.mark.parametrize("n", [1, 3, 7, 12, 365])
def test_n_parts_of_1_in_n_fit_and_one_more_does_not(n):
    limits = limits_of(3.0, 1e-5)
    part = amounts_of(loss_of_part(limits, 1 / n))
    assert fits(limits, [part] * (n - 1), part)
    assert not fits(limits, [part] * n, part)


def test_a_changed_cap_keeps_the_distance_and_gives_noise_the_rest():
    first = limits_of(1.0, 1e-6)
    higher = limits_of(2.0, 1e-6, distance=first.distance)
    assert contains(higher, [first])
    assert not contains(limits_of(2.0, 1e-6), [first])  # the formula's own distance is smaller
    assert delta_of_limits(higher, epsilon=2.0) <= 1e-6
    with pytest.raises(UsageError, match="leaves no delta for noise"):
        limits_of(12.0, 1e-6, distance=first.distance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 21, "delta": 1e-5}, "epsilon 20 or less"),
        ({"epsilon": 1, "delta": 1e-5, "keys_share": 0.95}, "share of delta for keys"),
        ({"epsilon": 1, "delta": 1e-5, "pure": 1}, "pure part"),
        ({"epsilon": 0, "delta": 1e-5}, "epsilon must be"),
    ],
)
def test_impossible_caps_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        rectangle(**options)


def test_what_a_release_books():
    loss = join_losses(
        [Loss(mu=0.3, keys=1e-7), Loss(mu=0.4, keys=2e-7, draws=((7.0, 20),), pure=(0.25,))]
    )
    squares = 0.25 + mu_of_draws(7.0, 20) ** 2
    assert amounts_of(loss, distance=1e-17) == near(
        (squares + mu_of_pure(0.25) ** 2, 3e-7, 1e-17, 0.0), rel=2e-9
    )
    assert amounts_of(loss, limits=limits_of(3.0, 1e-5, pure=1.0)) == near(
        (squares, 3e-7, 0.0, 0.25), rel=2e-9
    )
    plain = amounts_of(Loss.of(Guarantee(epsilon=0.25, delta=1e-6)))
    assert plain[:2] == near((mu_of_pure(0.25) ** 2, 1e-6), rel=2e-9)
    # Rounded up: a sum of bookings is never below the sum of what was spent.
    assert plain.mu2 > mu_of_pure(0.25) ** 2
    assert plain.keys > 1e-6
    assert amounts_of(loss).mu2 > squares + mu_of_pure(0.25) ** 2
    assert amounts_of(loss).keys > 3e-7


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_pure_release_is_covered_by_its_mu_and_by_no_smaller_one(epsilon):
    mu = mu_of_pure(epsilon)
    grid = np.linspace(-epsilon, epsilon, 101)
    assert all(compose([response(epsilon)], e) <= gaussian_delta(e, mu) + 1e-15 for e in grid)
    assert compose([response(epsilon)], 0.0) > gaussian_delta(0.0, 0.999 * mu)


# --- the filter by exact trees ------------------------------------------------------------------------


def filter_rule(limits):
    """The rule: sums of mu^2 and of keys stay within the limits."""

    def accepts(steps):
        *earlier, last = [Amounts(step.mu2, step.keys) for step in steps]
        return fits(limits, earlier, last)

    return accepts


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-5), (1.0, 1e-6), (0.5, 0.01), (1.0, 0.2)])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_no_strategy_of_three_releases_exceeds_the_cap(epsilon, delta, share):
    limits = limits_of(epsilon, delta, keys_share=share)
    menu = [gaussian(math.sqrt(part * limits.mu2)) for part in (0.2, 0.4, 0.6, 0.8, 1.0)]
    menu += [leak(part * limits.keys) for part in (0.5, 1.0)]
    reached = largest_delta(filter_rule(limits), menu, epsilon, 3) / delta
    assert 0.85 < reached <= 1


def test_no_strategy_with_pure_releases_exceeds_the_cap():
    limits = limits_of(1.0, 0.05, pure=0.4)
    menu = [gaussian(math.sqrt(part * limits.mu2)) for part in (0.4, 0.6, 1.0)]
    menu += [leak(limits.keys), response(0.2), response(0.4)]

    def accepts(steps):
        booked = [
            Amounts(0.0, 0.0, 0.0, step.epsilon)
            if step.name.startswith("response")
            else Amounts(step.mu2, step.keys)
            for step in steps
        ]
        return fits(limits, booked[:-1], booked[-1])

    assert 0.7 < largest_delta(accepts, menu, 1.0, 4) / 0.05 <= 1
    # Without a part of epsilon that was kept for them the same releases exceed the cap.
    whole = limits_of(1.0, 0.05)._replace(pure=0.4)
    menu[:3] = [gaussian(math.sqrt(part * whole.mu2)) for part in (0.4, 0.6, 1.0)]
    limits = whole
    assert largest_delta(accepts, menu, 1.0, 4) / 0.05 > 1.3


# --- wrong rules --------------------------------------------------------------------------------------

EPSILON, DELTA = 3.0, 1e-5
WHOLE = mu_of(EPSILON, DELTA) ** 2
FIRST = gaussian(math.sqrt(0.68 * WHOLE), bins=100)


def keeps_cap(menu, epsilon=EPSILON, delta=DELTA, depth=2):
    """Whether the filter keeps the cap with the steps that refute a wrong rule, and smaller ones."""
    limits = limits_of(epsilon, delta)
    more = [gaussian(math.sqrt(part * limits.mu2)) for part in (0.32, 0.68)]
    return (
        largest_delta(filter_rule(limits), [*menu, *more, leak(limits.keys)], epsilon, depth)
        <= delta
    )


def test_an_open_split_between_noise_and_keys_is_wrong():
    def accepts(steps):
        mu2, keys = (math.fsum(getattr(step, n) for step in steps) for n in ("mu2", "keys"))
        return gaussian_delta(EPSILON, math.sqrt(mu2)) + keys <= DELTA * (1 + 1e-12)

    left = DELTA - gaussian_delta(EPSILON, math.sqrt(FIRST.mu2))
    menu = [FIRST, gaussian(math.sqrt(0.32 * WHOLE)), leak(left)]
    assert largest_delta(accepts, menu, EPSILON, 2) / DELTA > 1.9
    assert keeps_cap(menu)


def test_the_open_split_reaches_the_known_number():
    ((vector, expect),) = vectors("counterexample_open_split")
    mu, rest = (
        math.sqrt(vector["first_share"] * WHOLE),
        math.sqrt((1 - vector["first_share"]) * WHOLE),
    )
    keys = DELTA - gaussian_delta(EPSILON, mu)

    def value(x):
        loss = mu * x - mu * mu / 2
        noise = gaussian_delta(EPSILON - loss, rest)
        return math.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi) * max(noise, keys)

    cross = brentq(lambda x: gaussian_delta(EPSILON - mu * x + mu * mu / 2, rest) - keys, -5, 12)
    total = sum(quad(value, a, b, epsabs=0, epsrel=1e-11)[0] for a, b in ((-9, cross), (cross, 12)))
    assert total == near(expect["hockey_stick"], rel=1e-8)


def test_composing_privacy_loss_distributions_as_a_filter_is_wrong():
    def accepts(steps):
        return compose(steps, EPSILON) <= DELTA * (1 + 1e-9)

    keys = brentq(lambda kappa: compose([FIRST, leak(kappa)], EPSILON) - DELTA, 0, DELTA)
    mu = brentq(lambda m: compose([FIRST, gaussian(m, bins=100)], EPSILON) - DELTA, 0.1, 1)
    menu = [FIRST, gaussian(mu * (1 - 1e-9), bins=100), leak(keys * (1 - 1e-9))]
    assert largest_delta(accepts, menu, EPSILON, 2) / DELTA > 1.9
    assert keeps_cap(menu)


def test_delta_of_losses_as_a_filter_is_wrong():
    """The project's own composition is for losses that are fixed in advance."""

    def accepts(steps):
        losses = [Loss(mu=math.sqrt(step.mu2), keys=step.keys) for step in steps]
        return delta_of_losses(losses, epsilon=EPSILON) <= DELTA * (1 + 1e-12)

    left = DELTA - gaussian_delta(EPSILON, math.sqrt(FIRST.mu2))
    menu = [FIRST, gaussian(math.sqrt(0.32 * WHOLE)), leak(left)]
    assert largest_delta(accepts, menu, EPSILON, 2) / DELTA > 1.9


def test_optimal_composition_of_epsilons_as_a_filter_is_wrong():
    epsilon, delta, sizes = 1.0, 0.02, (0.1, 0.3, 0.5, 0.7)
    optimal = functools.cache(lambda used: compose([response(e) for e in used], epsilon))

    @functools.cache
    def largest_from(used, loss, depth):
        best = max(0.0, -math.expm1(min(epsilon - loss, 0.0)))
        for size in sizes if depth else ():
            used_with = tuple(sorted((*used, size)))
            if optimal(used_with) <= delta * (1 + 1e-12):
                yes, no = response(size).coarse[0]
                after = [
                    largest_from(used_with, round(loss + s * size, 9), depth - 1) for s in (1, -1)
                ]
                best = max(best, yes * after[0] + no * after[1])
        return best

    assert largest_from((), 0.0, 6) / delta > 1.4
    assert keeps_cap([response(size) for size in sizes], epsilon, delta, depth=3)


@pytest.mark.parametrize("releases", [2, 3])
def test_epsilon_so_far_is_no_guarantee_for_who_stops_by_what_was_seen(releases):
    mu = 0.3
    so_far = [
        brentq(lambda e, n=n: gaussian_delta(e, mu * math.sqrt(n)) - DELTA, 0, 20)
        for n in range(1, releases + 1)
    ]
    p, losses = gaussian(mu, bins=60).coarse

    def largest_from(step, loss):
        """The best of stopping now, at the epsilon stated now, and going on; for all losses at once."""
        now = -np.expm1(np.minimum(so_far[step - 1] - loss, 0.0)) if step else np.zeros(len(loss))
        if step == releases:
            return now
        later = largest_from(step + 1, np.add.outer(loss, losses).ravel()).reshape(len(loss), -1)
        return np.maximum(now, later @ p)

    assert largest_from(0, np.zeros(1))[0] / DELTA > (1.7 if releases == 2 else 2.2)


def test_counting_only_what_was_published_is_wrong():
    """Two draws of the whole cap, of which the one with the larger loss is published and booked."""
    limits = limits_of(EPSILON, DELTA)
    whole = gaussian(math.sqrt(limits.mu2), bins=300).coarse
    p = np.append(whole[0] * (1 - limits.keys), limits.keys)
    q = np.append(whole[0] * np.exp(-whole[1]), 0.0)  # outcomes are sorted by their loss

    def of_larger(law):
        return np.diff(np.cumsum(law) ** 2, prepend=0.0)

    def hockey(first, second):
        return np.maximum(0.0, first - math.exp(EPSILON) * second).sum()

    assert hockey(p, q) <= DELTA
    assert hockey(of_larger(p), of_larger(q)) / DELTA > 1.9


def test_the_rule_with_more_room_is_wrong():
    """Sum or filter, whichever still accepts: after a small loss the rest of delta goes to keys."""
    limits = limits_of(EPSILON, DELTA)
    mu = math.sqrt(0.5 * limits.mu2)
    alone = brentq(lambda e: gaussian_delta(e, mu) - 0.1 * DELTA, 0.1, 5)
    menu = [
        gaussian(mu, bins=100, epsilon=alone, delta=0.1 * DELTA),
        leak(0.9 * DELTA),
        leak(limits.keys),
    ]
    in_limits = filter_rule(limits)

    def in_sums(steps):
        epsilon, delta = (
            math.fsum(getattr(step, n) for step in steps) for n in ("epsilon", "delta")
        )
        return epsilon <= EPSILON * (1 + 1e-9) and delta <= DELTA * (1 + 1e-9)

    for rule in (in_limits, in_sums):
        assert largest_delta(rule, menu, EPSILON, 3) <= DELTA * (1 + 1e-9)
    assert largest_delta(lambda s: in_limits(s) or in_sums(s), menu, EPSILON, 3) / DELTA > 1.2


def test_a_share_of_keys_that_is_chosen_again_with_a_higher_cap_is_wrong():
    """From (3, 1e-6) to (3, 1e-5): after a small loss all of delta for keys, else all for noise."""
    first = limits_of(EPSILON, DELTA / 10)
    by_share = [limits_of(EPSILON, DELTA, keys_share=share) for share in (0.9, 0.0)]
    menu = [
        gaussian(math.sqrt(first.mu2), bins=100),
        leak(by_share[0].keys),
        gaussian(math.sqrt(by_share[1].mu2 - first.mu2)),
    ]

    def accepts(steps):
        return any(filter_rule(limits)(steps) for limits in (first, *by_share))

    assert largest_delta(accepts, menu, EPSILON, 2) / DELTA > 1.5
    assert not contains(by_share[0], [by_share[1]])


def test_a_cap_raised_one_way_or_another_by_what_was_seen_is_wrong():
    """From (1, 1e-6) either to (1.2, 1e-6) or to (1, 1e-5): neither contains the other."""
    first = limits_of(1.0, 1e-6)
    epsilon = limits_of(1.2, 1e-6, distance=first.distance)
    delta = limits_of(1.0, 1e-5, distance=first.distance)
    assert contains(epsilon, [first])
    assert contains(delta, [first])
    assert not contains(epsilon, [delta])
    assert not contains(delta, [epsilon])
    menu = [gaussian(math.sqrt(first.mu2), bins=100), leak(first.keys), leak(delta.keys)]
    menu += [gaussian(math.sqrt(cap.mu2 - first.mu2)) for cap in (epsilon, delta)]

    def accepts(steps):
        return any(filter_rule(limits)(steps) for limits in (first, epsilon, delta))

    assert largest_delta(accepts, menu, 1.0, 3) / 1e-5 > 1.7
    assert largest_delta(filter_rule(delta), menu, 1.0, 3) / 1e-5 <= 1
