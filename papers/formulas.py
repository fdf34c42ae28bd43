"""Formulas that only the papers' tables use: those that are false or loose as printed, and rows beside ours.

Letters are the papers'. ZEALOUS (Götz et al. 2012): m distinct items a user, first threshold tau, Laplace noise lam,
second threshold tau2. SafeLog (Zhang 2017): q_f queries and c_f clicks a user, l_s sessions of l_q queries, noise b,
threshold K, p_g the chance that a query is in the pool. Formulas that do not hold as stated have `printed` in their
name and certify nothing.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

from murmurlog.errors import UsageError
from murmurlog.privacy.korolova import korolova, korolova_alpha
from murmurlog.privacy.noise_laws import check_noise, survival
from murmurlog.privacy.safelog import (
    check_positive,
    check_threshold,
    sessions_sensitivity,
)
from murmurlog.privacy.thresholds import any_of, check_budget, per_item, turning_point
from murmurlog.privacy.zealous import (
    check_m,
    check_tau,
    check_users,
    critical_items,
    pdp_tau2,
    scale_of,
)

MOST_QUERIES = 9  # l_s * l_q: the ways in which so many queries can be equal are 21,147


def korolova_tight_optimum(d: int, epsilon: float, delta: float) -> tuple[float, float]:
    """(b, K) when a user's queries may repeat, with the exact delta in place of the printed one."""
    check_budget(epsilon, delta)
    b = d / epsilon
    repeated = d + b * math.log(1 / (2 * delta))
    distinct = 1 - b * math.log(2 * per_item(delta, d))
    return b, max(repeated, distinct, turning_point(b), d)


def zealous_pdp_threshold(
    *, m: int, epsilon: float, delta: float, users: int, tau: int, neighbours: str = "add-remove"
) -> float:
    """tau2 for a chosen tau: as `zealous_pdp`, for the other rows of the paper's Table 2."""
    return pdp_tau2(m, delta, users, tau, scale_of(m, epsilon, neighbours))


def zealous_breach_mass(*, m: int, tau: int, tau2: float, lam: float, users: int) -> float:
    """The exact delta of probabilistic DP: that some item of exactly tau users is published."""
    p = survival(noise="laplace", scale=lam, x=tau2 - tau)
    return any_of(p, critical_items(m, tau, users))


def zealous_printed_tau(m: int, epsilon: float) -> int:
    """Proposition 4 as printed, ceil(2 m / epsilon): not always the minimiser; see `zealous_tau`."""
    return math.ceil(scale_of(m, epsilon, "replace"))


def zealous_printed_tau2(m: int, epsilon: float, delta: float) -> float:
    """Eq. (3) as printed: with the paper's lam = 2 m / epsilon its delta is NOT kept."""
    check_m(m)
    check_budget(epsilon, delta)
    return m * (1 - math.log(2 * delta / m) / epsilon)


def zealous_printed_pdp_tau2(
    *, m: int, epsilon: float, delta: float, users: int, tau: int
) -> float:
    """Eq. (5) as printed, by which Table 2 is made: true, by the union bound."""
    check_users(users)
    check_tau(tau)
    check_budget(epsilon, delta)
    lam = scale_of(m, epsilon, "replace")
    union = -lam * math.log(2 * delta * tau / (users * m))
    return tau + max(turning_point(lam) - 1, union)


def zealous_printed_deltas(
    *, m: int, tau: int, tau2: float, lam: float, users: int
) -> tuple[float, float]:
    """(delta, delta') by the formulas that give the paper's Table 1; delta' is not from eq. (3)."""
    check_m(m)
    check_users(users)
    check_tau(tau)
    check_noise("laplace", lam)
    return (
        users * m / (2 * tau) * math.exp((tau - tau2) / lam),
        m / 2 * math.exp((m - tau2) / lam),
    )


def sessions_exact_delta(*, l_s: int, l_q: int, b: float, K: float) -> float:
    """The exact delta of A_Session when a user's equal subsequences count as often as they occur.

    The most likely to show over all ways in which the user's queries can be equal, all enumerated.
    """
    sessions_sensitivity(l_s, l_q)
    check_noise("laplace", b)
    if l_s * l_q > MOST_QUERIES:
        raise UsageError(
            f"{l_s} sessions of {l_q} queries are too many to enumerate (at most {MOST_QUERIES} "
            "queries in all); count distinct subsequences, whose delta is a formula"
        )
    tail = cache(lambda n: survival(noise="laplace", scale=b, x=K - n))
    return max(_any_of([tail(n) for n in counts]) for counts in _multiplicities(l_s, l_q))


def _any_of(tails: list[float]) -> float:
    """The probability that at least one of independent items passes, each with its own tail."""
    if any(p >= 1 for p in tails):
        return 1.0
    return -math.expm1(math.fsum(math.log1p(-p) for p in tails))


@cache
def _multiplicities(l_s: int, l_q: int) -> frozenset[tuple[int, ...]]:
    """How often each subsequence occurs, for every pattern of equal queries."""
    found = set()
    for queries in _equality_patterns(l_s * l_q):
        counts: Counter[tuple[int, ...]] = Counter()
        for start in range(0, l_s * l_q, l_q):
            session = queries[start : start + l_q]
            for length in range(2, l_q + 1):
                counts.update(itertools.combinations(session, length))
        found.add(tuple(sorted(counts.values())))
    return frozenset(found)


def _equality_patterns(n: int) -> Iterator[tuple[int, ...]]:
    """Every way in which n queries can be equal or not, once: a new query gets the next number."""
    if n == 0:
        yield ()
        return
    for first in _equality_patterns(n - 1):
        for query in range(max(first, default=-1) + 2):
            yield (*first, query)


def sessions_with_clicks(
    *, l_s: int, l_q: int, clicks: int, b: float, K: float
) -> tuple[float, float]:
    """(epsilon, delta) of A_Session with its clicks, eq. 4.7: both parts add up.

    The thesis reports the session part alone for runs that publish both.
    """
    check_positive(clicks=clicks)
    check_threshold(K)
    parts = (korolova(d, 0, b, b, b, K) for d in (clicks, sessions_sensitivity(l_s, l_q)))
    (epsilon_c, delta_c, *_), (epsilon_s, delta_s, *_) = parts
    return epsilon_c + epsilon_s, delta_c + delta_s


def _check_chance(p_g: float) -> None:
    if not 0 < p_g <= 1:
        raise UsageError(
            f"p_g must lie between 0 and 1, not {p_g!r}; where it is 0 no pure epsilon exists"
        )


def click_printed_epsilon(
    *, q_f: int, c_f: int, b: float, b_q: float, b_c: float, K: float, p_g: float = 1.0
) -> float:
    """epsilon of A_Click by the thesis's Theorem 1. It is claimed pure, and is not as run."""
    check_positive(q_f=q_f, c_f=c_f)
    _check_chance(p_g)
    check_threshold(K)
    for name, scale in (("b_q", b_q), ("b_c", b_c)):
        if scale <= 0:
            raise UsageError(f"{name} must be positive, not {scale!r}")
    alpha = max(korolova_alpha(b, K), math.exp(1 / b) / p_g)
    return q_f * math.log(alpha) + q_f / b_q + c_f / b_c


def click_printed_transition_epsilon(*, q: int, b: float) -> float:
    """(4 q - 1) / b, which gives Tables 3.7 and 3.10.

    It is Theorem 1 at K beyond the turning point plus (q - 1) / b for query transitions, which
    Algorithm 1 does not publish.
    """
    check_positive(q=q)
    check_noise("laplace", b)
    return (4 * q - 1) / b


def click_delta(*, q_f: int, b: float, K: float) -> float:
    """The delta that A_Click needs for queries outside its pool: that one of a user's shows."""
    check_positive(q_f=q_f)
    return any_of(survival(noise="laplace", scale=b, x=K - 1), q_f)


def pool_epsilon(*, q_f: int, c_f: int, b: float, b_q: float, b_c: float) -> float:
    """epsilon, pure, of selection, query counts and click counts over finite public lists."""
    check_positive(q_f=q_f, c_f=c_f)
    for name, scale in (("b", b), ("b_q", b_q), ("b_c", b_c)):
        if scale <= 0:
            raise UsageError(f"{name} must be positive, not {scale!r}")
    return q_f / b + q_f / b_q + c_f / b_c
