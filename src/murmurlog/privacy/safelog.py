"""SafeLog (Zhang 2017): A_Session as printed, beside corrected formulas, and the pool.

Letters are the thesis's: l_s sessions of l_q queries a user, noise b, threshold K with the rule "> K".
"""

import math

from murmurlog.errors import UsageError
from murmurlog.privacy.korolova import korolova
from murmurlog.privacy.noise_laws import survival
from murmurlog.privacy.thresholds import any_of, check_neighbours, sides

LONGEST = 12  # queries of a session, which has 2^12 - 13 subsequences


def check_positive(**numbers: int) -> None:
    """Raises unless each number is at least 1; a keyword is its letter."""
    for name, n in numbers.items():
        if n < 1:
            raise UsageError(f"{name} must be at least 1, not {n}")


def check_threshold(K: float) -> None:
    if not K >= 1:
        raise UsageError(f"the threshold K must be at least 1, not {K!r}: the formulas begin there")


def sessions_sensitivity(l_s: int, l_q: int) -> int:
    """Delta f: how many subsequences of two or more queries one user has, after trimming to l_q."""
    check_positive(l_s=l_s)
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
    check_threshold(K)
    epsilon, delta, _, _ = korolova(d, 0, b, b, b, K)
    p = survival(noise="laplace", scale=b, x=K - 1)
    return epsilon, delta, d / b, any_of(p, d)


def pool_threshold(
    epsilon: float, per_user: int, pool_size: int, fakes: float, neighbours: str = "add-remove"
) -> tuple[float, float]:
    """(b, K) of a public pool: pure epsilon, and so many pool items nobody asked on average.

    K sets only the expected number of fakes; the guarantee holds for any K.
    """
    check_positive(per_user=per_user, pool_size=pool_size)
    check_neighbours(neighbours)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    if not (fakes > 0 and math.isfinite(fakes)):
        raise UsageError(f"the expected number of fakes must be positive, not {fakes!r}")
    b = sides(neighbours) * per_user / epsilon
    return b, max(0.0, b * math.log(pool_size / (2 * fakes)))


def subsequences_a_session(l_q: int) -> int:
    """How many ordered subsequences of at least two queries a session of l_q queries has."""
    if not 2 <= l_q <= LONGEST:
        raise UsageError(
            f"--queries-per-session must lie between 2 and {LONGEST}, not {l_q}: a session of one "
            "query says nothing more than the query, and each further query doubles the noise"
        )
    return sessions_sensitivity(1, l_q)
