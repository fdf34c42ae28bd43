"""The programs of Hong et al.: what they compute, and by exact laws why that is not private."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.stats import chi2

from murmurlog.errors import UsageError
from murmurlog.logs.invented.generate import invent
from murmurlog.mechanisms.hong.diversity import diverse_output, eliminate, most_diverse_output
from murmurlog.mechanisms.hong.histories import Histories, budget_use, exposures, preprocess, sample
from murmurlog.mechanisms.hong.packing import SLACK, extend, packing_of
from murmurlog.mechanisms.hong.programs import (
    budget,
    frequent_output,
    largest_output,
    least_breach,
    precision,
    recall,
    round_down,
    size_bound,
    support_distance,
)
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from papers.hong import clicks

LN2 = math.log(2)
VECTORS = json.loads((Path(__file__).parents[1] / "privacy" / "vectors.json").read_text())


def vectors(family):
    return [pytest.param(v, id=v["id"]) for v in VECTORS if v["id"].startswith(f"hong/{family}")]


def common_histories(n):
    """n users who have one pair once."""
    return Histories.of(np.ones((n, 1), int))


def random_histories(rng, most=(25, 40)):
    users, pairs = (int(rng.integers(2, m)) for m in most)
    holdings = rng.random((users, pairs)) < rng.choice([0.05, 0.1, 0.3, 0.6])
    return Histories.of(holdings * rng.geometric(rng.choice([0.2, 0.5, 0.9]), holdings.shape))


# The exact law of what is published, by enumeration of every sequence of draws.


def law(counts, x):
    """P(output) for totals x; an output is the sorted tuple of its (user, pair, times)."""
    counts = np.asarray(counts)
    outputs = {(): Fraction(1)}
    for pair, total in enumerate(x):
        for _ in range(total):
            column = counts[:, pair]
            after = Counter()
            for output, chance in outputs.items():
                for user in np.flatnonzero(column):
                    after[(*output, (int(user), pair))] += chance * Fraction(
                        int(column[user]), int(column.sum())
                    )
            outputs = after
    law = Counter()
    for output, chance in outputs.items():
        law[tuple(sorted(Counter(output).items()))] += chance
    return law


def hockey_stick(P, Q, epsilon):
    grow = Fraction(math.exp(epsilon))
    return sum(max(Fraction(0), P[o] - grow * Q.get(o, Fraction(0))) for o in P)


def remove_user(counts, user):
    """The log without a user's rows; the others keep their names."""
    left = np.array(counts)
    left[user] = 0
    return left


SMALL = [[2, 1], [1, 1], [3, 0], [0, 2]]


# Known numbers.


@pytest.mark.parametrize("vector", vectors("single_pair"))
def test_one_common_pair_is_published_as_often_as_computed_by_hand(vector):
    n, growth, delta = (vector["inputs"][name] for name in ("n", "exp_eps", "delta"))
    plan = largest_output(common_histories(n), B=budget(epsilon=math.log(growth), delta=delta))
    assert plan.size == vector["expected"]


@pytest.mark.parametrize("vector", vectors("size_bound"))
def test_the_size_bound_refutes_the_papers_table_3(vector):
    n, growth, delta = (vector["inputs"][name] for name in ("n", "exp_eps", "delta"))
    bound = size_bound(n, budget(epsilon=math.log(growth), delta=delta))
    assert bound == vector["expected"]


@pytest.mark.parametrize("vector", vectors("sampling_delta"))
def test_exposures_of_the_small_log(vector):
    assert exposures(Histories.of(SMALL), np.array([1, 2])) == pytest.approx(vector["expected"])


def test_the_vectors_have_arrived():
    counts = Counter(v["id"].split("/")[1] for v in VECTORS if v["id"].startswith("hong/"))
    assert counts == {
        "single_pair": 11,
        "size_bound": 3,
        "sampling_delta": 1,
        "prep_instability": 1,
    }


# Figure 1 of the paper.

FIGURE_1 = Histories.of(
    # pregnancy test, book, google, diabetes medicine, car price
    [[2, 3, 15, 0, 0], [0, 0, 7, 0, 2], [0, 1, 17, 1, 5]]
)


def test_figure_1_drops_the_two_pairs_of_one_user():
    reduced = preprocess(FIGURE_1)
    assert FIGURE_1.rows == 53
    assert FIGURE_1.totals.tolist() == [2, 4, 39, 1, 7]
    assert reduced.pairs.tolist() == [1, 2, 4]
    assert (reduced.histories.pairs, reduced.histories.users, reduced.histories.rows) == (3, 3, 50)


def test_figure_1_shows_an_output_that_exposes_everyone():
    x = np.array([0, 3, 20, 0, 4])  # "assume that it is the optimal solution"
    by_hand = [
        3 * math.log(4) + 20 * math.log(39 / 24),
        20 * math.log(39 / 32) + 4 * math.log(7 / 5),
        3 * math.log(4 / 3) + 20 * math.log(39 / 22) + 4 * math.log(7 / 2),
    ]
    assert budget_use(FIGURE_1, x) == pytest.approx(by_hand)
    assert exposures(FIGURE_1, x).min() > 0.995
    assert exposures(FIGURE_1, x).max() > 1 - 1e-7  # the delta it would need
    assert math.exp(max(by_hand)) > 3e7  # and its e^epsilon
    # At the paper's most generous parameters the three users allow one or two rows, not 27.
    B = budget(epsilon=math.log(2.3), delta=0.8)
    assert largest_output(FIGURE_1, B=B).size <= size_bound(3, B) == 2


def test_figure_1_can_be_sampled():
    draws = sample(FIGURE_1, np.array([0, 3, 20, 0, 4]), entropy=SystemEntropy())
    table = np.zeros((3, 5), int)
    table[draws.users, draws.pairs] = draws.counts
    assert table.sum(axis=0).tolist() == [0, 3, 20, 0, 4]
    assert (table[FIGURE_1.counts.toarray() == 0] == 0).all()
    assert (draws.counts > 0).all()


# What is true: for totals that are given, the exposure is the whole loss.


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("user", range(4))
def test_given_totals_the_loss_is_the_exposure_at_every_epsilon(epsilon, user):
    x = [1, 2]
    with_user, left = law(SMALL, x), law(remove_user(SMALL, user), x)
    exposed = exposures(Histories.of(SMALL), np.array(x))[user]
    assert float(hockey_stick(with_user, left, epsilon)) == pytest.approx(exposed, abs=1e-12)
    back = max(0.0, 1 - math.exp(epsilon) * (1 - exposed))
    assert float(hockey_stick(left, with_user, epsilon)) == pytest.approx(back, abs=1e-12)


def test_the_expected_number_of_users_shown_is_the_sum_of_exposures():
    x = np.array([1, 2])
    users = sum(p * len({who for (who, _), _ in output}) for output, p in law(SMALL, x).items())
    assert float(users) == pytest.approx(exposures(Histories.of(SMALL), x).sum())


# What fails: each claim of the paper with the log that refutes it.


def test_the_breach_set_of_the_papers_own_definition_has_mass_one():
    # Definition 2 has one breach set for all neighbours: the outputs some neighbour cannot give.
    x = [1, 2]
    outputs = law(SMALL, x)
    impossible = {
        output
        for output in outputs
        if any(law(remove_user(SMALL, user), x).get(output, 0) == 0 for user in range(4))
    }
    assert sum(outputs[output] for output in impossible) == 1


def test_the_totals_of_neighbours_differ_so_their_outputs_are_disjoint():
    totals = [largest_output(common_histories(n), B=LN2).x for n in range(1, 6)]
    assert [int(x[0]) for x in totals] == [0, 1, 1, 2, 3]
    four, three = law(np.ones((4, 1), int), totals[3]), law(np.ones((3, 1), int), totals[2])
    for epsilon in (0.0, 1.0, 20.0):
        assert hockey_stick(four, three, epsilon) == 1
        assert hockey_stick(three, four, epsilon) == 1


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_diversity_publishes_a_pair_from_one_user_on_and_not_before(n):
    B = budget(epsilon=100.0, delta=1 / n)
    for programme in (lambda h: eliminate(h, B=B), lambda h: diverse_output(h, B=B).x):
        assert programme(common_histories(n)).tolist() == [1]
        assert programme(common_histories(n - 1)).tolist() == [0]


def test_a_public_size_does_not_make_the_frequent_totals_private():
    two = Histories.of([[1, 0], [1, 0], [0, 1], [0, 1]])
    three = Histories.of([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    assert frequent_output(two, B=LN2, support=0.1, size=2).x.tolist() == [1, 1]
    assert frequent_output(three, B=LN2, support=0.1, size=2).x.tolist() == [0, 1]


@pytest.mark.parametrize("r", [2, 10, 60])
def test_one_user_changes_every_total_by_one_and_their_sum_by_nearly_all(r):
    twos = np.kron(np.eye(r, dtype=int), np.ones((2, 1), int))
    before = largest_output(Histories.of(twos), B=LN2).x
    with_user = Histories.of(np.vstack([twos, np.ones(r, int)]))
    after = largest_output(with_user, B=LN2).x
    assert before.tolist() == [1] * r
    assert after.sum() <= 1  # the user's own constraint allows 1.7 draws in all
    assert most_diverse_output(with_user, B=LN2).size == 1
    assert np.abs(before - after).max() <= 1
    assert np.abs(before - after).sum() >= r - 1  # so Lap(1/epsilon) costs (r - 1) epsilon


def repair_as_in_paper(counts, *, d=1):
    """The total of one pair after the paper's "remove a user who matters and start again"."""
    counts = sorted(counts)

    def total(left):
        return int(largest_output(Histories.of(np.array(left)[:, None]), B=LN2).x[0]) if left else 0

    while True:
        here = total(counts)
        for count in sorted(set(counts)):  # users of the same count are alike
            left = list(counts)
            left.remove(count)
            if abs(total(left) - here) > d:
                counts = left
                break
        else:
            return here


@pytest.mark.parametrize("vector", vectors("prep_instability"))
def test_the_papers_preprocessing_is_unstable_against_another_neighbour(vector):
    for (light, heavy), expected in zip(vector["inputs"]["cases"], vector["expected"], strict=True):
        whole = [1] * light + [heavy] * 2
        assert [repair_as_in_paper(whole), repair_as_in_paper(whole[:-1])] == expected


def test_noisy_totals_break_the_constraints():
    r, epsilon = 100, 1.0
    pairs = Histories.of(np.kron(np.eye(r, dtype=int), np.ones((2, 1), int)))
    x = largest_output(pairs, B=LN2).x
    assert exposures(pairs, x).max() == pytest.approx(0.5)
    assert exposures(pairs, x + 1).min() == pytest.approx(0.75)
    # Rounded down again, x + Lap(1/epsilon) is at least x + 1 with this chance, for every pair:
    up = math.exp(-epsilon) / 2
    assert 1 - (1 - up) ** r > 0.999999


def test_a_small_delta_leaves_the_output_nearly_empty():
    rng = np.random.default_rng(3)
    for _ in range(20):
        log = random_histories(rng)
        delta = 0.5 / log.users
        plan = largest_output(log, B=budget(epsilon=50.0, delta=delta), fill=True)
        assert exposures(log, plan.x).sum() <= log.users * delta * (1 + 1e-9) <= 0.5 + 1e-9
        assert plan.size == 0  # whoever is drawn is shown


def test_the_largest_size_is_proportional_to_the_budget():
    log = random_histories(np.random.default_rng(1))
    small, large = (largest_output(log, B=B).optimum for B in (1e-4, 1e-3))
    assert large == pytest.approx(10 * small)
    # So Table 3, with 3759 at delta = 1e-4 and 4007 at 1e-3, is not of one log, whichever it was.
    B = [budget(epsilon=LN2, delta=delta) for delta in (1e-4, 1e-3)]
    assert 3759 * B[1] / B[0] > 9 * 4007


def test_a_size_up_to_lambda_need_not_have_a_whole_solution():
    # The paper: "if |O| is specified to be no greater than lambda, the ILP should be feasible".
    pairs, B = Histories.of(np.kron(np.eye(3, dtype=int), np.ones((2, 1), int))), 1.9 * LN2
    assert largest_output(pairs, B=B).optimum == pytest.approx(5.7)
    assert (
        budget_use(pairs, np.array([2, 0, 0])).max() > B
    )  # so at most one draw a pair, three in all
    assert frequent_output(pairs, B=B, support=0.1, size=5).x.tolist() == [1, 1, 1]


def test_spe_as_printed_drops_a_pair_even_if_all_fit_and_ours_does_not():
    log = Histories.of(np.kron(np.eye(2, dtype=int), np.ones((9, 1), int)))
    assert eliminate(log, B=LN2).tolist() == [1, 1]


# The programs.


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.1, LN2, 1.6, 5.0]))
def test_whole_totals_keep_every_constraint_and_bound(seed, B):
    log = random_histories(np.random.default_rng(seed))
    plan, filled = (largest_output(log, B=B, fill=fill) for fill in (False, True))
    for output in (plan, filled):
        assert budget_use(log, output.x).max() <= B * (1 + SLACK)
        assert output.x[log.holders < 2].sum() == 0
        assert output.size <= min(size_bound(log.users, B), output.optimum + 1e-6)
    assert filled.size >= plan.size
    assert plan.optimum <= plan.bound * (1 + 1e-9)
    assert plan.bound <= plan.optimum * (1 + 1e-6) + 1e-9
    # Filled up: nothing more fits.
    packing = packing_of(log, B=B)
    nothing = np.zeros(log.pairs, bool)
    nonempty = log.holders > 0
    assert not extend(packing, nothing, np.arange(log.pairs), x=filled.x)[nonempty].any()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 1), st.sampled_from([0.001, 0.02, 0.2]))
def test_frequent_totals_keep_every_constraint_and_no_choice_is_nearer(seed, part, support):
    rng = np.random.default_rng(seed)
    log = random_histories(rng)
    lam = largest_output(log, B=LN2).optimum
    size = math.floor(lam * part)
    if size < 1:
        return
    plan = frequent_output(log, B=LN2, support=support, size=size)
    assert budget_use(log, plan.x).max() <= LN2 * (1 + SLACK)
    assert plan.size <= size
    assert plan.bound - 1e-7 <= plan.optimum <= plan.bound + 1e-6
    # The same value by the paper's own formulation, with a variable for each distance.
    assert plan.optimum == pytest.approx(optimum_as_printed(log, size, support), abs=1e-6)


def optimum_as_printed(log, size, support):
    """The optimum of the F-UMP with variables x, y and the constraints of the paper."""
    inner = preprocess(log).histories
    share = inner.totals / inner.rows
    often = np.flatnonzero(share >= support)
    A = sparse.csr_array(
        (inner.weights, inner.counts.indices, inner.counts.indptr), shape=inner.counts.shape
    ).toarray()
    pick = np.eye(inner.pairs)[often] / size
    y = np.eye(len(often))
    solution = linprog(
        np.concatenate([np.zeros(inner.pairs), np.ones(len(often))]),
        A_ub=np.block([[A, np.zeros((inner.users, len(often)))], [pick, -y], [-pick, -y]]),
        b_ub=np.concatenate([np.full(inner.users, LN2), share[often], -share[often]]),
        A_eq=np.concatenate([np.ones(inner.pairs), np.zeros(len(often))])[None],
        b_eq=[size],
    )
    return solution.fun


def test_a_size_above_lambda_is_refused_with_the_numbers():
    two = Histories.of([[1, 0], [1, 0], [0, 1], [0, 1]])
    with pytest.raises(UsageError, match=r"size 3 .* B = 0\.693147: .* lambda = 2"):
        frequent_output(two, B=LN2, support=0.1, size=3)
    with pytest.raises(UsageError, match="lambda = 0"):
        frequent_output(common_histories(1), B=LN2, support=0.1, size=1)


def test_support_distance_is_the_papers_measure():
    two = Histories.of([[1, 0, 9], [1, 0, 0], [0, 1, 0], [0, 1, 0]])  # the 9 belong to one user
    assert support_distance(two, np.array([1, 1, 0]), support=0.1) == 0
    assert support_distance(two, np.array([1, 0, 0]), support=0.1) == pytest.approx(1.0)
    assert support_distance(two, np.array([0, 0, 0]), support=0.9) == 0


def test_recall_is_the_share_of_frequent_pairs_that_stay_frequent():
    log = Histories.of(
        [[5, 3, 1, 9], [5, 3, 1, 0]]
    )  # shares 10/18, 6/18, 2/18; the 9 are one user's
    assert recall(log, np.array([1, 0, 0, 0]), support=0.1) == pytest.approx(1 / 3)
    assert recall(log, np.array([9, 9, 1, 0]), support=0.1) == pytest.approx(2 / 3)
    assert recall(log, np.array([0, 0, 0, 0]), support=0.1) == 0
    assert recall(log, np.array([0, 0, 0, 0]), support=0.9) == 1  # there is none


def test_precision_is_the_share_of_frequent_pairs_that_were_frequent():
    log = Histories.of([[5, 3, 1, 9], [5, 3, 1, 0]])  # the third is not frequent at 0.2
    assert precision(log, np.array([1, 0, 0, 0]), support=0.2) == 1
    assert precision(log, np.array([1, 0, 1, 0]), support=0.2) == pytest.approx(1 / 2)
    assert math.isnan(precision(log, np.array([0, 0, 0, 0]), support=0.2))


def test_the_least_breach_has_the_size_and_its_bound_is_proved():
    rng = np.random.default_rng(8)
    for size in (1, 5, 12, 40):
        log = random_histories(rng, most=(20, 30))
        plan = least_breach(log, size=size)
        assert plan.size == size
        assert budget_use(log, plan.x).max() == pytest.approx(plan.B)
        assert exposures(log, plan.x).max() == pytest.approx(-math.expm1(-plan.B))
        # The fractional optimum is the budget at which lambda is that size.
        assert largest_output(log, B=plan.optimum).optimum == pytest.approx(size)
        assert plan.optimum <= plan.bound * (1 + 1e-6)
        assert plan.bound <= plan.B * (1 + 1e-9)
    with pytest.raises(UsageError, match="no pair is had by two users"):
        least_breach(common_histories(1), size=1)


def least_by_branch_and_bound(log, size):
    """The least budget of whole totals of that size, exactly."""
    inner = preprocess(log).histories
    weights = np.zeros((inner.users, inner.pairs))
    weights[inner.owner, inner.counts.indices] = inner.weights
    solution = milp(
        np.append(np.zeros(inner.pairs), 1.0),
        constraints=[
            LinearConstraint(np.column_stack([weights, -np.ones(inner.users)]), ub=0),
            LinearConstraint(np.append(np.ones(inner.pairs), 0.0)[None], size, size),
        ],
        integrality=np.append(np.ones(inner.pairs), 0),
        bounds=Bounds(0, np.inf),
    )
    assert solution.status == 0
    return solution.fun


def test_the_least_breach_is_near_the_exact_one():
    rng, ratios = np.random.default_rng(1), []
    for _ in range(25):
        log, size = random_histories(rng, most=(12, 14)), int(rng.integers(1, 20))
        if not preprocess(log).histories.pairs:
            continue
        plan, exact = least_breach(log, size=size), least_by_branch_and_bound(log, size)
        assert plan.bound <= exact * (1 + 1e-6)
        assert exact * (1 - 1e-6) <= plan.B
        ratios.append(plan.B / exact)
    print(f"budget over the least: mean {np.mean(ratios):.3f}, worst {max(ratios):.3f}")
    assert len(ratios) > 15
    assert np.mean(ratios) < 1.05


def test_a_pair_that_one_draw_exposes_more_raises_the_bound_above_the_fractional_one():
    # Two users share 50 pairs, ten others one pair; fractional totals take a little of each.
    counts = np.zeros((12, 51), int)
    counts[:2, :50], counts[2:, 50] = 1, 1
    plan = least_breach(Histories.of(counts), size=2)
    assert plan.x.tolist() == [0] * 50 + [2]
    assert pytest.approx(2 * math.log(10 / 9)) == plan.B
    assert plan.optimum < 0.95 * plan.bound
    assert plan.bound >= plan.B / 1.02


def test_the_least_breach_keeps_a_budget_and_says_what_it_reached():
    rng = np.random.default_rng(12)
    for _ in range(20):
        log = random_histories(rng)
        lam = largest_output(log, B=LN2).optimum
        if lam < 2:
            continue
        size = math.floor(lam * 0.95)
        plan = least_breach(log, size=size, B=LN2)
        assert plan.B <= LN2 * (1 + SLACK)
        assert plan.size <= size
    pairs, B = Histories.of(np.kron(np.eye(3, dtype=int), np.ones((2, 1), int))), 1.9 * LN2
    assert least_breach(pairs, size=5, B=B).x.tolist() == [1, 1, 1]  # no whole solution has more
    assert least_breach(pairs, size=5).size == 5
    with pytest.raises(UsageError, match=r"size 6 .* B = 1\.31698: .* lambda = 5\.7"):
        least_breach(pairs, size=6, B=B)


def test_sizes_are_reached_on_an_invented_log():
    log = clicks(invent(rows=40_000, seed=2, like="aol").table)
    lam = largest_output(log, B=LN2).optimum
    size = math.floor(lam / 2)
    floored, filled = (
        frequent_output(log, B=LN2, support=0.001, size=size, fill=fill) for fill in (False, True)
    )
    breach = least_breach(log, size=size, B=LN2)
    assert floored.size < 0.7 * size
    assert filled.size == breach.size == size > 40
    assert breach.bound <= breach.B <= LN2 * (1 + SLACK)
    near, far = (support_distance(log, plan.x, support=0.001) for plan in (filled, floored))
    assert filled.optimum - 1e-6 <= near < far


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 1), st.sampled_from([0.001, 0.02, 0.2]))
def test_filling_frequent_totals_only_adds_draws_and_keeps_size_and_constraints(
    seed, part, support
):
    log = random_histories(np.random.default_rng(seed))
    size = math.floor(largest_output(log, B=LN2).optimum * part)
    if size < 1:
        return
    floored, filled = (
        frequent_output(log, B=LN2, support=support, size=size, fill=fill) for fill in (False, True)
    )
    assert (filled.x >= floored.x).all()
    assert filled.size <= size
    assert budget_use(log, filled.x).max() <= LN2 * (1 + SLACK)
    assert (filled.optimum, filled.bound) == (floored.optimum, floored.bound)
    if filled.size < size:  # nothing more fits
        nothing, nonempty = np.zeros(log.pairs, bool), log.holders > 0
        packing = packing_of(log, B=LN2)
        assert not extend(packing, nothing, np.arange(log.pairs), x=filled.x)[nonempty].any()


def test_filling_goes_towards_shares_then_to_other_pairs_then_above_shares():
    # A pair of 20 users (5/6 of the rows) and two of two users each, all of them strangers: within
    # B at most 16 draws of the first and one of each other, 1.2 in fractions.
    blocks = [np.ones((users, 1), int) for users in (20, 2, 2)]
    log, B = Histories.of(block_diag(*blocks)), 1.2 * LN2

    def totals(size, fill):
        return frequent_output(log, B=B, support=0.5, size=size, fill=fill).x.tolist()

    assert totals(14, fill=False)[0] == 11  # its share of 14 is 11.67
    assert totals(14, fill=True) == [12, 1, 1]
    assert totals(10, fill=True) == [8, 1, 1]  # its share is 8.33, and the other pairs have room
    assert totals(16, fill=True) == [14, 1, 1]  # its share is 13.33: only the size asks for 14


def test_rounding_takes_a_solvers_near_one_for_one_only_if_it_fits():
    two = common_histories(2)
    assert round_down(two, np.array([1 - 1e-8]), B=LN2).tolist() == [1]
    assert round_down(two, np.array([1 - 5e-7]), B=LN2 * (1 - 3e-7)).tolist() == [0]


def test_rounding_shrinks_a_solution_that_is_over_budget():
    assert round_down(common_histories(2), np.array([2.5]), B=LN2).tolist() == [1]
    assert round_down(common_histories(2), np.array([2.5]), B=LN2 * 0.99).tolist() == [0]


# Diversity.


def test_our_diversity_is_never_below_the_papers():
    rng = np.random.default_rng(5)
    for _ in range(250):
        log, B = random_histories(rng), math.log(rng.choice([1.1, 1.4, 2.0, 2.3, 4.0]))
        spe, ours = eliminate(log, B=B), diverse_output(log, B=B)
        for x in (spe, ours.x):
            assert budget_use(log, x).max() <= B * (1 + SLACK)
        assert set(ours.x) <= {0, 1}
        assert spe.sum() <= ours.size == ours.x.sum() <= ours.bound


def test_our_diversity_is_mostly_the_best_there_is():
    rng = np.random.default_rng(6)
    spe = ours = exact = as_good = 0
    for _ in range(60):
        log, B = random_histories(rng, most=(14, 20)), math.log(rng.choice([1.4, 2.0, 4.0]))
        quick, best = diverse_output(log, B=B), most_diverse_output(log, B=B)
        assert quick.size <= best.size <= quick.bound
        assert budget_use(log, best.x).max() <= B * (1 + SLACK)
        spe, ours, exact = (
            a + int(b)
            for a, b in ((spe, eliminate(log, B=B).sum()), (ours, quick.size), (exact, best.size))
        )
        as_good += quick.size == best.size
    print(f"pairs kept: SPE {spe}, ours {ours}, the most {exact}; as good in {as_good} of 60")
    assert as_good >= 54
    assert ours > spe


def test_spe_drops_the_worst_pair_first_as_printed():
    rng = np.random.default_rng(6)
    for _ in range(100):
        log = random_histories(rng, most=(8, 10))
        x = (log.holders >= 2).astype(int)
        while budget_use(log, x).max() > LN2 * (1 + SLACK):
            worst = np.zeros(log.pairs)
            np.maximum.at(
                worst,
                log.counts.indices,
                np.where(log.holders[log.counts.indices] > 1, log.weights, 0),
            )
            live = np.flatnonzero(x)
            x[live[worst[live] == worst[live].max()].max()] = 0
        assert eliminate(log, B=LN2).tolist() == x.tolist()


def test_diversity_by_brute_force_of_all_choices():
    rng = np.random.default_rng(9)
    for _ in range(25):
        log = random_histories(rng, most=(8, 9))
        queries = rng.integers(0, 3, log.pairs)
        feasible = [
            x
            for x in itertools.product((0, 1), repeat=log.pairs)
            if not (x > log.holders).any()
            and budget_use(log, np.array(x)).max() <= LN2 * (1 + SLACK)
        ]
        assert most_diverse_output(log, B=LN2).size == max(map(sum, feasible))
        most_queries = max(len(set(queries[np.flatnonzero(x)])) for x in feasible)
        assert most_diverse_output(log, B=LN2, queries=queries).size == most_queries
        ours = diverse_output(log, B=LN2, queries=queries)
        assert budget_use(log, ours.x).max() <= LN2 * (1 + SLACK)
        assert len(set(queries[ours.x > 0])) == ours.size <= most_queries <= ours.bound
        spe = eliminate(log, B=LN2)
        assert len(set(queries[spe > 0])) <= ours.size


# The sampler.


def p_value(draws, counts, blocks):
    """Chi-squared of two draws a pair, over many like pairs, against their joint law."""
    table = np.zeros((blocks, len(counts)), int)
    table[draws.pairs, draws.users] = draws.counts
    chances = {}
    for output, chance in law(np.array(counts)[:, None], [2]).items():
        row = [0] * len(counts)
        for (user, _), times in output:
            row[user] = times
        chances[tuple(row)] = float(chance)
    seen = Counter(map(tuple, table.tolist()))
    assert set(seen) <= set(chances)
    statistic = sum((seen[row] - blocks * p) ** 2 / (blocks * p) for row, p in chances.items())
    return chi2.sf(statistic, len(chances) - 1)


def test_draws_follow_their_joint_law_and_no_other_weights():
    blocks, counts = 20_000, [5, 3, 12]
    log = Histories.of(np.repeat(np.array(counts)[:, None], blocks, axis=1))
    draws = sample(log, np.full(blocks, 2), entropy=SystemEntropy())
    assert np.bincount(draws.pairs, weights=draws.counts).tolist() == [2.0] * blocks
    assert p_value(draws, counts, blocks) > 1e-9
    assert p_value(draws, [6, 3, 12], blocks) < 1e-9
    assert p_value(draws, [4, 3, 12], blocks) < 1e-9
    assert p_value(draws, [1, 1, 1], blocks) < 1e-9


def test_a_sample_repeats_for_a_seed_only():
    log, x = Histories.of(SMALL), np.array([30, 40])
    first, again, other = (sample(log, x, entropy=SeededEntropy(s)) for s in (1, 1, 2))
    assert first.counts.tolist() == again.counts.tolist()
    assert first.counts.tolist() != other.counts.tolist()


def test_an_empty_plan_samples_nothing():
    draws = sample(Histories.of(SMALL), np.array([0, 0]), entropy=SystemEntropy())
    assert len(draws.users) == len(draws.pairs) == len(draws.counts) == 0


# What goes in.


def test_histories_take_dense_and_sparse_counts_and_forget_zeros():
    dense = Histories.of(SMALL)
    entries = sparse.coo_array(
        ([2, 1, 0, 1, 1, 3, 2], ([0, 0, 2, 1, 1, 2, 3], [0, 1, 1, 0, 1, 0, 1]))
    )
    assert (dense.counts.toarray() == Histories.of(entries).counts.toarray()).all()
    assert Histories.of(entries).counts.nnz == 6
    assert dense.holders.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Histories.of([[0.5]]), "whole numbers"),
        (lambda: Histories.of([[-1, 2]]), "whole numbers"),
        (lambda: Histories.of([[math.nan, 2]]), "whole numbers"),
        (lambda: Histories.of([1, 2]), "matrix users x pairs"),
        (lambda: budget(epsilon=0.0, delta=0.5), "epsilon is above 0"),
        (lambda: budget(epsilon=1.0, delta=1.0), r"delta in \(0, 1\)"),
        (lambda: largest_output(common_histories(2), B=0.0), "budget B"),
        (lambda: diverse_output(common_histories(2), B=-1.0), "budget B"),
        (
            lambda: frequent_output(common_histories(2), B=1.0, support=0.0, size=1),
            "support is a share",
        ),
        (
            lambda: frequent_output(common_histories(2), B=1.0, support=0.1, size=0),
            "whole number from 1 on",
        ),
        (lambda: least_breach(common_histories(2), size=1, B=-1.0), "budget B"),
        (
            lambda: exposures(common_histories(2), np.array([1, 1])),
            "one total for each of the 1 pairs",
        ),
        (lambda: exposures(common_histories(2), np.array([0.5])), "totals are whole"),
        (lambda: exposures(common_histories(2), np.array([-1])), "totals are whole"),
        (
            lambda: diverse_output(common_histories(2), B=1.0, queries=np.array([1, 2])),
            "query of each",
        ),
        (
            lambda: sample(Histories.of([[1, 0]]), np.array([0, 1]), entropy=SystemEntropy()),
            "nobody has",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(wrong, message):
    with pytest.raises(UsageError, match=message):
        wrong()


def test_a_published_pair_of_one_user_exposes_that_user_for_sure():
    assert exposures(Histories.of([[1, 2], [0, 3]]), np.array([1, 0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (4, 0)])
def test_an_empty_log_gives_empty_plans(shape):
    empty = Histories.of(sparse.csr_array(shape, dtype=np.int64))
    plan = largest_output(empty, B=LN2, fill=True)
    assert plan.size == plan.optimum == plan.bound == 0
    assert diverse_output(empty, B=LN2).size == eliminate(empty, B=LN2).sum() == 0
    assert exposures(empty, plan.x).tolist() == [0.0] * shape[0]
    assert len(sample(empty, plan.x, entropy=SystemEntropy()).users) == 0


def test_columns_that_only_rounding_tells_apart_are_still_packed():
    # ln(4/3) + ln(3/2) = ln 2 to the last digit or not: each user has both pairs, exactly full.
    pairs = 200
    counts = np.zeros((6 * pairs, 2 * pairs), int)
    for i in range(pairs):
        counts[6 * i : 6 * i + 4, 2 * i] = 1  # four users: ln(4/3) each
        counts[6 * i + 3 : 6 * i + 6, 2 * i + 1] = 1  # three users, one of them the same: ln(3/2)
    choice = diverse_output(Histories.of(counts), B=LN2)
    assert choice.size == 2 * pairs == choice.bound
    assert budget_use(Histories.of(counts), choice.x).max() == pytest.approx(LN2, rel=SLACK)


def test_a_log_without_common_pairs_gives_empty_plans():
    alone = Histories.of(np.eye(3, dtype=int))
    assert largest_output(alone, B=LN2).x.tolist() == [0, 0, 0]
    assert diverse_output(alone, B=LN2).size == 0
    assert most_diverse_output(alone, B=LN2).size == 0
    assert eliminate(alone, B=LN2).tolist() == [0, 0, 0]
