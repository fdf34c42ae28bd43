"""Known numbers for weighted counts, their histogram, the estimates from both, and the theorem."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from murmurlog.mechanisms.rounds.user_estimates import (
    LEAST_RATIO,
    Profile,
    _mean_in_bin,
    choose_d2,
    estimate_users,
    smooth,
    weights_of_holders,
)
from murmurlog.privacy import (
    WeightedCounts,
    count_weight,
    gaussian_delta,
    histogram_bins,
)
from murmurlog.privacy.counts import CHOICES, GRID
from murmurlog.privacy.rounds import (
    Schedule,
    _sides,
    delta_of_rounds,
    loss_of_rounds,
    solve_rounds,
)

VECTORS = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parent / "vectors_counts.json").read_text())
}
ALLOWANCE = 0.4  # the vectors were computed with it
ANY_NOISE = WeightedCounts(scale=1.0, histogram_scale=1.0)


def near(vector, expected):
    return pytest.approx(expected, rel=VECTORS[vector]["rel_tol"], abs=0)


def input_of(vector):
    return VECTORS[vector]["input"]


def output_of(vector):
    return VECTORS[vector]["output"]


def test_the_weights_of_m_items():  # C1
    assert [count_weight(m, d2) for m, d2 in input_of("C1")["cases"]] == output_of("C1")


def test_weights_never_exceed_the_norm_and_rounding_to_the_nearest_does():  # C2
    (first, last), choices = input_of("C2")["m"], input_of("C2")["d2"]
    assert choices == list(CHOICES)
    over = {"floor": 0, "nearest": 0}
    for d2 in choices:
        for m in range(first, last + 1):
            g = count_weight(m, d2)
            over["floor"] += m * g * g > d2 * GRID**2
            # Half a step more is nearer where its square is still below the exact weight's.
            nearest = g + (m > d2 and (2 * g + 1) ** 2 * m < 4 * d2 * GRID**2)
            over["nearest"] += m * nearest**2 > d2 * GRID**2
    assert over == output_of("C2")


def test_the_bins_of_a_histogram():  # C3
    assert [histogram_bins(size) for size in input_of("C3")["size"]] == output_of("C3")


def test_the_mean_of_m_in_a_bin():  # C4
    means = [_mean_in_bin(a, b, steepness) for a, b, steepness in input_of("C4")["cases"]]
    assert means == near("C4", output_of("C4"))


def profile_of(vector):
    x = input_of(vector)
    return smooth(np.array(x["h"]), sd=x["sigma_h"], size=x["size"])


@pytest.mark.parametrize("vector", ["C5", "C6"])
def test_a_noisy_histogram_is_smoothed(vector):
    profile, want = profile_of(vector), output_of(vector)
    assert profile.units.tolist() == near(vector, want["n"])
    assert profile.m.tolist() == near(vector, want["m"])
    assert profile.measured.tolist() == near(vector, want["raw"])


@pytest.mark.parametrize("vector", ["C5a", "C6a"])
def test_d2_follows_from_the_histogram(vector):
    profile, want = profile_of(input_of(vector)["of"]), output_of(vector)
    assert [profile.ratio(d2) for d2 in (4, 11, 16, 40)] == near(vector, want["ratio"])
    assert choose_d2(ANY_NOISE, profile, allowance=ALLOWANCE) == want["choose"]
    given_by_owner = WeightedCounts(scale=1.0, histogram_scale=1.0, per_user=5)
    assert choose_d2(given_by_owner, profile) == 5


def test_the_weights_of_an_item_s_holders():  # C7
    x, want = input_of("C7"), output_of("C7")
    n, m = np.array(x["n"]), np.array(x["m"])
    profile = Profile(units=n, m=m, measured=np.ones(len(n)), fitted=np.zeros(len(n)))
    mean, variance = weights_of_holders(profile, 2, np.array(x["C"], float))
    assert mean.tolist() == near("C7", want["r"])
    assert variance.tolist() == near("C7", want["var"])


def estimates_of(histogram):
    x = input_of("C8")
    X = np.array(x["X"])
    profile = smooth(np.array(histogram), sd=x["sigma_h"], size=len(X))
    return estimate_users(
        X, profile, sd=x["sigma_h"], d2=x["d2"], sigma=x["sigma"], allowance=ALLOWANCE
    )


def test_estimates_of_users():  # C8
    estimates, want = estimates_of(input_of("C8")["h"]), output_of("C8")
    for name in ("users", "stderr", "low", "high"):
        assert getattr(estimates, name)[:5].tolist() == near("C8", want[name])
    assert estimates.ratio[:5].tolist() == near("C8", want["r"])
    assert estimates.common == near("C8", want["common"])
    reliable = (4 * estimates.stderr <= estimates.users) & (estimates.ratio >= LEAST_RATIO)
    assert reliable.sum() == want["reliable"]


def test_estimates_where_hardly_anybody_holds_more_than_d2():  # C9
    estimates, want = estimates_of(input_of("C9")["h"]), output_of("C9")
    assert estimates.ratio.min() == near("C9", want["r_min"])
    assert estimates.common == near("C9", want["common"])


# --- the theorem ----------------------------------------------------------------------------------


class WithoutOwnItems(WeightedCounts):
    """A broken theorem: counts cost nothing for a unit all of whose bounded items are its own."""

    def squared_shift(self, t, d):
        return np.where(t < d, super().squared_shift(t, d), 0.0)


def schedule_of(vector, counts):
    x = input_of(vector)
    if "schedule" in x:
        s = x["schedule"]
        return Schedule(
            d=s["d"], scales=tuple(s["s"]), own=tuple(s["own"]), past=tuple(s["past"]),
            thresholds=tuple(s["T"]), counts=counts,
        )  # fmt: skip
    T = x["T"] * GRID
    return Schedule(
        d=x["d"], scales=tuple(x["s"]), own=(1,), past=(), thresholds=(T,), counts=counts
    )


def counts_of(vector, counts_class=WeightedCounts):
    return counts_class(
        scale=input_of(vector)["sigma1"], histogram_scale=input_of(vector)["sigma_h"]
    )


def test_what_one_unit_shows_and_moves():  # T1
    schedule = schedule_of("T1", counts_of("T1"))
    leaks, squares = _sides(schedule)
    t, d = np.divmod(np.arange((schedule.d + 1) ** 2), schedule.d + 1)
    t, d = (x[(t <= d) & (d > 0)] for x in (t, d))
    at = [int(np.flatnonzero((t == a) & (d == b))[0]) for a, b in input_of("T1")["pairs"]]
    assert leaks[at].tolist() == near("T1", output_of("T1")["leak"])
    # The counts' term also at (1, 1) and (99, 99): such a unit may hold published items beyond a
    # bound that is smaller than the certified d. A first version of the theorem had 0 there.
    assert squares[at].tolist() == near("T1", output_of("T1")["m"])


def test_the_deltas_of_a_schedule():  # T2
    want, schedule = output_of("T2"), schedule_of("T1", counts_of("T1"))
    broken = schedule_of("T1", counts_of("T1", WithoutOwnItems))
    for neighbours in ("add-remove", "replace"):
        at = {"epsilon": 1.0, "neighbours": neighbours}
        assert delta_of_rounds(schedule, **at) == near("T2", want[f"{neighbours} theorem"])
        wrong = want[f"{neighbours} without the term at t = d"]
        assert delta_of_rounds(broken, **at) == near("T2", wrong)


def test_a_theorem_without_the_term_where_all_items_are_own_claims_too_little():  # T3
    at, want = {"epsilon": input_of("T3")["epsilon"]}, output_of("T3")
    right = delta_of_rounds(schedule_of("T3", counts_of("T3")), **at)
    wrong = delta_of_rounds(schedule_of("T3", counts_of("T3", WithoutOwnItems)), **at)
    assert right == near("T3", want["theorem"])
    assert wrong == near("T3", want["without the term at t = d"])


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 1), ("replace", 2)])
def test_the_loss_in_one_account(neighbours, factor):  # T4
    loss = loss_of_rounds(schedule_of("T1", counts_of("T1")), neighbours=neighbours)
    assert loss.mu == near("T4", output_of("T4")["mu"] * math.sqrt(factor))
    assert loss.keys == near("T4", output_of("T4")["keys"] * factor)


@pytest.mark.parametrize(
    ("d2", "sigma", "neighbours", "mu"),
    [(40, 57.0, "add-remove", 0.110957110883), (10, 28.5, "replace", 0.156917051053)],
)
def test_known_and_new_keys_share_one_vector_of_counts(d2, sigma, neighbours, mu):
    """What counts over known and new keys add to the account: sqrt(d2) / sigma, or sqrt(2 d2) / sigma."""
    counts = WeightedCounts(scale=sigma / math.sqrt(d2), histogram_scale=1e6)
    with_counts, without = (
        loss_of_rounds(schedule_of("T1", some), neighbours=neighbours) for some in (counts, None)
    )
    assert with_counts.mu**2 - without.mu**2 == pytest.approx(mu**2, rel=1e-8)
    assert with_counts.keys == without.keys  # known keys have no chance of their own


def test_a_unit_may_hold_known_keys_besides_items_of_its_own():
    """The exact law of one round, d = 1: a unit holds an item of its own and ten known keys.

    It shows by its item, with chance p, or else by the counts of known keys alone.
    """
    at = {"epsilon": 3.0}
    schedule = solve_rounds(
        **at, delta=1e-5, d=1, shares=(1.0,), memory=0.0, late=1.0, count_share=0.3
    )

    def exact(square):
        p = float(schedule.leak(0, np.ones(1), np.ones(1))[0])
        return p + (1 - p) * gaussian_delta(epsilon=3.0 - math.log1p(-p), mu=math.sqrt(square))

    loss = schedule.counts.loss
    assert exact(loss) <= delta_of_rounds(schedule, **at) <= 1e-5
