"""The formulas of Korolova et al. 2009, as printed and corrected.

`korolova_optimum` and the printed delta are kept for comparison with the paper; mechanisms are
certified by the exact values. Letters are the paper's: d queries and d_c clicks a user, noise b
for the selection, b_q and b_c for the counts, threshold K with the rule "> K".
"""

import math

from murmurlog.errors import UsageError
from murmurlog.privacy.noise_laws import check_noise, survival
from murmurlog.privacy.thresholds import any_of, check_budget


def korolova_optimum(d: int, epsilon: float, delta: float) -> tuple[float, float]:
    """(b, K) as the paper chooses them: all of epsilon on the selection, nothing on counts."""
    check_budget(epsilon, delta)
    return d / epsilon, d * (1 - math.log(2 * delta / d) / epsilon)


def korolova_alpha(b: float, K: float) -> float:
    """alpha: how much likelier one user can make any output of the selection, per query."""
    check_noise("laplace", b)
    return max(math.exp(min(1 / b, 700.0)), 1 + 1 / (2 * math.exp(min((K - 1) / b, 700.0)) - 1))


def korolova(
    d: int, d_c: int, b: float, b_q: float, b_c: float, K: float
) -> tuple[float, float, float, float]:
    """(epsilon, delta_printed, delta_exact, delta_distinct) of Release-Data, add-remove.

    delta_exact is for queries that may repeat and needs K >= d; delta_distinct is for distinct
    queries. Under replace epsilon doubles and delta stays.
    """
    for name, value in (("b", b), ("b_q", b_q), ("b_c", b_c)):
        if value <= 0:
            raise UsageError(f"{name} must be positive, not {value!r}")
    if d < 1 or d_c < 0:
        raise UsageError(f"d must be at least 1 and d_c at least 0, not {d} and {d_c}")
    epsilon = d * math.log(korolova_alpha(b, K)) + d / b_q + d_c / b_c
    repeated = math.exp((d - K) / b) / 2
    distinct = any_of(math.exp((1 - K) / b) / 2, d)
    return epsilon, d * repeated, max(repeated, distinct), distinct


def korolova_delta(*, d: int, b: float, T: int, count: str = "users") -> float:
    """The exact delta of selecting items with c + Z >= T, Z geometric, at epsilon = c d / b.

    users: d distinct items a unit, 1 - (1 - p_1)^d. rows: d rows that may repeat, T > d, the larger
    of "one item d times" and "d items once" (between them the exponent is convex).
    """
    p_1, p_d = (survival(noise="geometric", scale=b, x=T - n) for n in (1, d))
    distinct = any_of(p_1, d)
    if count == "users":
        return distinct
    if d >= T:
        raise UsageError(f"counting rows needs T > d; T is {T}, d is {d}")
    return max(p_d, distinct)


def group(*, g: int, d: int, b: float, K: float) -> tuple[float, float]:
    """(epsilon, delta) for g linked user ids, Laplace, distinct items, K >= g (T3 iv)."""
    if g > K:
        raise UsageError(f"the group formula needs K >= g; K is {K!r}, g is {g}")
    together = any_of(math.exp((g - K) / b) / 2, d)
    apart = any_of(math.exp((1 - K) / b) / 2, g * d)
    return g * d / b, max(together, apart)
