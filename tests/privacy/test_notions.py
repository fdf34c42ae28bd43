"""The notions of privacy of docs/explanation/notions.md, held against each other by exact laws on tiny domains."""

import itertools
import math

import pytest
from laws import fresh_law, worst_delta
from laws import hockey_stick as sum_hockey_stick

from murmurlog.privacy import hockey_stick, korolova, korolova_delta, survival, zealous_dp
from papers.formulas import zealous_printed_tau2

CLOSE = 1 + 1e-12


def divergence(P, Q, epsilon):
    """H_epsilon of two laws, each a mapping from outputs to probabilities."""
    return math.fsum(max(0.0, P[o] - math.exp(epsilon) * Q.get(o, 0.0)) for o in P)


def breaches(law, neighbours, epsilon):
    """The outputs whose probability some neighbour changes by more than e^epsilon, either way."""
    outputs = set(law).union(*neighbours)
    most = math.exp(epsilon) * CLOSE

    def breaks(o):
        here = law.get(o, 0.0)
        there = [other.get(o, 0.0) for other in neighbours]
        return any(here > most * p or p > most * here for p in there)

    return {o for o in outputs if breaks(o)}


def breach_mass(law, neighbours, epsilon):
    """The least delta of (epsilon, delta)-probabilistic DP for this log."""
    return math.fsum(law.get(o, 0.0) for o in breaches(law, neighbours, epsilon))


def law_of_image(law, f):
    """The law of f(output)."""
    result = {}
    for o, p in law.items():
        result[f(o)] = result.get(f(o), 0.0) + p
    return result


# Example 1 of ZEALOUS: publish a history of nobody in particular, but never the first user's.


def any_history_but_the_first(log, domain):
    others = [h for h in domain if h != log[0]]
    return dict.fromkeys(others, 1 / len(others))


@pytest.mark.parametrize("size", [3, 10, 60])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 5.0])
def test_an_algorithm_can_be_indistinguishable_while_every_output_is_a_breach(size, epsilon):
    domain = range(size)
    log = (0, 1, 1)
    law = any_history_but_the_first(log, domain)
    neighbours = [any_history_but_the_first((h, *log[1:]), domain) for h in domain]
    neighbours += [any_history_but_the_first((log[0], h, log[2]), domain) for h in domain]
    worst = max(
        max(divergence(law, other, epsilon), divergence(other, law, epsilon))
        for other in neighbours
    )
    assert worst == pytest.approx(1 / (size - 1))
    assert breaches(law, neighbours, epsilon) == set(domain)
    assert breach_mass(law, neighbours, epsilon) == pytest.approx(1.0)


def test_randomised_response_has_no_breach():
    epsilon = 1.0
    lie = 1 / (1 + math.exp(epsilon))
    yes, no = {1: 1 - lie, 0: lie}, {1: lie, 0: 1 - lie}
    assert breaches(yes, [no], epsilon) == set()
    assert breaches(yes, [no], 0.99 * epsilon) == {0, 1}
    assert divergence(yes, no, 0.99 * epsilon) > 0


# ZEALOUS with integer noise, one item a user, its law summed exactly.


def item_law(c, *, tau, T, lam, bins=6):
    """Dropped, or shown with a value; from T + bins on all values have the same odds."""
    if c < tau:
        return {None: 1.0}
    at_least = [survival(noise="geometric", scale=lam, x=T + i - c) for i in range(bins + 1)]
    law = {T + i: p - q for i, (p, q) in enumerate(itertools.pairwise(at_least))}
    return {None: 1 - at_least[0], "more": at_least[-1], **law}


def zealous_law(counts, **parameters):
    items = [item_law(c, **parameters).items() for c in counts]
    return {
        tuple(o for o, _ in chosen): math.prod(p for _, p in chosen)
        for chosen in itertools.product(*items)
    }


def neighbours_of(counts):
    for i, c in enumerate(counts):
        yield (*counts[:i], c + 1, *counts[i + 1 :])
        if c:
            yield (*counts[:i], c - 1, *counts[i + 1 :])


def logs(users, items):
    return [c for c in itertools.product(range(users + 1), repeat=items) if sum(c) == users]


@pytest.mark.parametrize(("tau", "users", "items"), [(1, 2, 3), (1, 3, 3), (2, 4, 3)])
def test_breach_mass_grows_with_the_users_and_plain_delta_does_not(tau, users, items):
    parameters = {"tau": tau, "T": 6, "lam": 1.5}
    epsilon = 1 / parameters["lam"]
    p = survival(noise="geometric", scale=parameters["lam"], x=parameters["T"] - tau)
    mass, delta = 0.0, 0.0
    for counts in logs(users, items):
        law = zealous_law(counts, **parameters)
        near = [zealous_law(other, **parameters) for other in neighbours_of(counts)]
        mass = max(mass, breach_mass(law, near, epsilon))
        delta = max(
            delta, *(max(divergence(law, o, epsilon), divergence(o, law, epsilon)) for o in near)
        )
    assert mass == pytest.approx(1 - (1 - p) ** (users // tau), rel=1e-9)
    assert delta == pytest.approx(p, rel=1e-9)
    assert mass > 1.9 * delta


def test_a_threshold_below_the_turning_point_makes_every_output_a_breach():
    # T = tau: half of the rare items pass, and "dropped" itself tells more than e^epsilon.
    parameters = {"tau": 1, "T": 1, "lam": 1.5}
    counts = (1, 0)
    law = zealous_law(counts, **parameters)
    near = [zealous_law(other, **parameters) for other in neighbours_of(counts)]
    assert breach_mass(law, near, 1 / parameters["lam"]) == pytest.approx(1.0)


def test_probabilistic_privacy_is_lost_by_post_processing_and_plain_delta_is_not():
    epsilon = math.log(2)
    here = {"breach": 0.001, "likely": 0.6, "rest": 0.399}
    there = {"likely": 0.3, "rest": 0.7}

    def merge(output):
        return "either" if output in ("breach", "likely") else output

    after_here, after_there = law_of_image(here, merge), law_of_image(there, merge)
    assert breach_mass(here, [there], epsilon) == pytest.approx(0.001)
    assert breach_mass(after_here, [after_there], epsilon) == pytest.approx(0.601)
    assert divergence(here, there, epsilon) == pytest.approx(0.001)
    assert divergence(after_here, after_there, epsilon) == pytest.approx(0.001)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 50.0])
def test_k_anonymity_gives_no_differential_privacy_at_any_epsilon(epsilon):
    k = 5
    with_key, without = ({("query", c)} if c >= k else {None} for c in (k, k - 1))
    assert divergence(dict.fromkeys(with_key, 1.0), dict.fromkeys(without, 1.0), epsilon) == 1.0


# Claims of the papers that an exact law refutes, each beside its correction that it confirms.


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("m", "epsilon", "delta"), [(1, 1.0, 1e-6), (2, 1.0, 1e-3)])
def test_equation_3_of_zealous_does_not_keep_its_delta(m, epsilon, delta, neighbours):
    lam = 2 * m / epsilon
    law = {"noise": "geometric", "scale": lam, "d": m, "epsilon": epsilon, "items": 2}
    law["neighbours"] = neighbours
    T = math.floor(zealous_printed_tau2(m, epsilon, delta)) + 1  # "> tau2" on the integers
    p = survival(noise="geometric", scale=lam, x=T - 1)
    true = worst_delta(T=T, **law)
    assert true == pytest.approx(1 - (1 - p) ** m, rel=1e-6)
    assert true > 20 * delta
    _, tau2 = zealous_dp(m, epsilon, delta, "replace")
    # The integer law passes T with a^(T-1)/(1+a), the continuous one with a^(T-1)/2.
    wider = tau2 + lam * math.log(2 / (1 + math.exp(-1 / lam)))
    assert worst_delta(T=math.ceil(wider), **law) <= delta


def query_law(c, base, *, b, K, b_q):
    """The law of one query of Korolova's algorithm, selected and counted with integer noise."""
    return fresh_law(b, K + 1, b_q, c, base)


def test_korolova_claimed_for_replaced_users_fails():
    d, b, b_q, K = 1, 2.0, 2.0, 20
    epsilon, claimed, _, _ = korolova(d, 0, b, b_q, 1.0, K)
    assert epsilon == pytest.approx(1.0)
    assert claimed == pytest.approx(3.7e-5, rel=0.02)

    def delta_of_a_move(x, y, epsilon):
        """One user's query moves from the second (y others) to the first (x others)."""
        P = [query_law(x + 1, x, b=b, K=K, b_q=b_q), query_law(y, y, b=b, K=K, b_q=b_q)]
        Q = [query_law(x, x, b=b, K=K, b_q=b_q), query_law(y + 1, y, b=b, K=K, b_q=b_q)]
        return sum_hockey_stick(P, Q, epsilon)

    near = range(K - 2, K + 3)
    worst = max(delta_of_a_move(x, y, epsilon) for x in near for y in near)
    assert worst > 0.05 > 1000 * claimed
    twice = max(delta_of_a_move(x, y, 2 * epsilon) for x in (0, *near) for y in (0, *near))
    assert twice <= korolova_delta(d=d, b=b, T=K + 1) * (1 + 1e-9)


def test_the_same_failure_with_the_noise_of_the_paper_is_0_0658():
    # K - 1 others pose the first query and K the second. Which of them show is a pair of coins;
    # a shown query adds its count, a shift of Laplace noise by one.
    b, K, epsilon = 2.0, 20, 1.0

    def shows(c):
        return survival(noise="laplace", scale=b, x=K - c)

    total = 0.0
    for first, second in itertools.product((True, False), repeat=2):
        here = math.prod(shows(c) if s else 1 - shows(c) for c, s in ((K, first), (K, second)))
        there = math.prod(
            shows(c) if s else 1 - shows(c) for c, s in ((K - 1, first), (K + 1, second))
        )
        left = epsilon - math.log(here / there)
        total += here * hockey_stick(noise="laplace", epsilon=left, copies=first + second, scale=b)
    assert total == pytest.approx(0.0658, abs=5e-5)


def test_lemma_1_of_zealous_has_a_counter_example():
    # Say whether item i has at least T users, with noise 1/epsilon. Users have m = 2 items.
    m, epsilon, T = 2, 0.8, 12

    def pass_probability(f):
        return survival(noise="geometric", scale=1 / epsilon, x=T - f)

    def fail_probability(f):
        return survival(noise="geometric", scale=1 / epsilon, x=f - T + 1)  # the law is symmetric

    for f in range(40):  # epsilon-DP: a user, whatever else it holds, moves f by at most one
        for here, there in ((f, f + 1), (f + 1, f)):
            assert pass_probability(here) <= math.exp(epsilon) * CLOSE * pass_probability(there)
            assert fail_probability(here) <= math.exp(epsilon) * CLOSE * fail_probability(there)
    # One user gives up item i and keeps its other item: L1 distance 1.
    p, distance = pass_probability(T), 1
    assert pass_probability(T - 1) < 0.7 * p * math.exp(-epsilon * distance / m) * CLOSE
    assert (
        pass_probability(T - 1) >= p * math.exp(-epsilon) / CLOSE
    )  # what a step of one user does allow
