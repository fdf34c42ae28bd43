"""SafeLog (Zhang 2017): A_Click and A_Session as printed, beside corrected formulas, and the pool.

Letters are the thesis's: q_f queries and c_f clicks a user, l_s sessions of l_q queries, noise b,
threshold K with the rule "> K", p_g the chance that a query is in the pool. Formulas that do not
hold as stated have `printed` in their name and certify nothing.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

from murmurlog.errors import UsageError
from murmurlog.privacy.korolova import korolova, korolova_alpha
from murmurlog.privacy.noise_laws import check_noise, survival
from murmurlog.privacy.thresholds import check_neighbours, sides

LONGEST = 12  # queries of a session, which has 2^12 - 13 subsequences
MOST_QUERIES = 9  # l_s * l_q: the ways in which so many queries can be equal are 21,147


def _at_least_one(**numbers: int) -> None:
    for name, n in numbers.items():
        if n < 1:
            raise UsageError(f"{name} must be at least 1, not {n}")


def _check_threshold(K: float) -> None:
    if not K >= 1:
        raise UsageError(f"the threshold K must be at least 1, not {K!r}: the formulas begin there")


def sessions_sensitivity(l_s: int, l_q: int) -> int:
    """Delta f: how many subsequences of two or more queries one user has, after trimming to l_q."""
    _at_least_one(l_s=l_s)
    if l_q < 2:
        raise UsageError(f"l_q must be at least 2: a session of {l_q} queries has no subsequence")
    return l_s * ((1 << l_q) - 1 - l_q)


def sessions(l_s: int, l_q: int, b: float, K: float) -> tuple[float, float, float, float]:
    """(epsilon_thesis, delta_thesis, epsilon, delta) of A_Session without clicks, add-remove.

    The thesis's pair (eq. 4.5) counts subsequences with repeats and draws twice; it is true and
    loose. The other pair is for distinct subsequences of a user and one draw: a threshold with
    d = Delta f. Under replace both epsilons double.
    """
    d = sessions_sensitivity(l_s, l_q)
    _check_threshold(K)
    epsilon, delta, _, _ = korolova(d, 0, b, b, b, K)
    p = survival(noise="laplace", scale=b, x=K - 1)
    return epsilon, delta, d / b, _any_shown([p] * d)


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
    return max(_any_shown([tail(n) for n in counts]) for counts in _multiplicities(l_s, l_q))


def _any_shown(tails: list[float]) -> float:
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
    _at_least_one(clicks=clicks)
    _check_threshold(K)
    parts = (korolova(d, 0, b, b, b, K) for d in (clicks, sessions_sensitivity(l_s, l_q)))
    (epsilon_c, delta_c, *_), (epsilon_s, delta_s, *_) = parts
    return epsilon_c + epsilon_s, delta_c + delta_s


def pool_threshold(
    epsilon: float, per_user: int, pool_size: int, fakes: float, neighbours: str = "add-remove"
) -> tuple[float, float]:
    """(b, K) of a public pool: pure epsilon, and so many pool items nobody asked on average.

    K sets only the expected number of fakes; the guarantee holds for any K.
    """
    b = _pool_scale(epsilon, per_user, pool_size, fakes, neighbours)
    return b, max(0.0, b * math.log(pool_size / (2 * fakes)))


def _pool_scale(
    epsilon: float, per_user: int, pool_size: int, fakes: float, neighbours: str
) -> float:
    _at_least_one(per_user=per_user, pool_size=pool_size)
    check_neighbours(neighbours)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    if not (fakes > 0 and math.isfinite(fakes)):
        raise UsageError(f"the expected number of fakes must be positive, not {fakes!r}")
    return sides(neighbours) * per_user / epsilon


def _check_chance(p_g: float) -> None:
    if not 0 < p_g <= 1:
        raise UsageError(
            f"p_g must lie between 0 and 1, not {p_g!r}; where it is 0 no pure epsilon exists"
        )


def click_printed_epsilon(
    *, q_f: int, c_f: int, b: float, b_q: float, b_c: float, K: float, p_g: float = 1.0
) -> float:
    """epsilon of A_Click by the thesis's Theorem 1. It is claimed pure, and is not as run."""
    _at_least_one(q_f=q_f, c_f=c_f)
    _check_chance(p_g)
    _check_threshold(K)
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
    _at_least_one(q=q)
    check_noise("laplace", b)
    return (4 * q - 1) / b


def click_delta(*, q_f: int, b: float, K: float) -> float:
    """The delta that A_Click needs for queries outside its pool: that one of a user's shows."""
    _at_least_one(q_f=q_f)
    return _any_shown([survival(noise="laplace", scale=b, x=K - 1)] * q_f)


def pool_epsilon(*, q_f: int, c_f: int, b: float, b_q: float, b_c: float) -> float:
    """epsilon, pure, of selection, query counts and click counts over finite public lists."""
    _at_least_one(q_f=q_f, c_f=c_f)
    for name, scale in (("b", b), ("b_q", b_q), ("b_c", b_c)):
        if scale <= 0:
            raise UsageError(f"{name} must be positive, not {scale!r}")
    return q_f / b + q_f / b_q + c_f / b_c


def subsequences_a_session(l_q: int) -> int:
    """How many ordered subsequences of at least two queries a session of l_q queries has."""
    if not 2 <= l_q <= LONGEST:
        raise UsageError(
            f"--queries-per-session must lie between 2 and {LONGEST}, not {l_q}: a session of one "
            "query says nothing more than the query, and each further query doubles the noise"
        )
    return sessions_sensitivity(1, l_q)
