"""ZEALOUS (Götz et al. 2012): the corrected formulas.

Letters are the paper's: m distinct items a user, first threshold tau on exact counts, Laplace noise
lam, second threshold tau2 (tau prime) with the rule "> tau2".
"""

import math
from collections.abc import Iterable

from murmurlog.errors import UsageError
from murmurlog.privacy.noise_laws import check_noise, survival
from murmurlog.privacy.thresholds import (
    any_of,
    check_budget,
    check_neighbours,
    per_item,
    sides,
    solve_threshold,
    turning_point,
)


def check_m(m: int) -> None:
    if m < 1:
        raise UsageError(f"m must be at least 1 item a user, not {m}")


def check_users(users: int) -> None:
    if users < 1:
        raise UsageError(f"users must be a public number of at least 1, not {users}")


def scale_of(m: int, epsilon: float, neighbours: str) -> float:
    """lam: a user moves m counts by one, and under replace another m."""
    check_m(m)
    check_neighbours(neighbours)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    return sides(neighbours) * m / epsilon


def zealous_dp(
    m: int, epsilon: float, delta: float, neighbours: str = "add-remove"
) -> tuple[float, float]:
    """(lam, tau2) of ZEALOUS with tau = 1 and (epsilon, delta)-differential privacy, proved.

    Takes the place of the paper's Theorem 2, whose eq. (3) is false for its own noise.
    """
    check_m(m)
    return solve_threshold(
        noise="laplace", epsilon=epsilon, delta=delta, d=m, neighbours=neighbours, method="closed"
    )


def zealous_dp_delta(*, m: int, lam: float, tau2: float, tau: int = 1) -> float:
    """The plain-DP delta of ZEALOUS at epsilon = c m / lam: that one of m items of one user shows.

    Only items that the user lifts to tau can tell, so delta depends on tau2 - tau.
    """
    check_m(m)
    check_tau(tau)
    return any_of(survival(noise="laplace", scale=lam, x=tau2 - tau), m)


def zealous_tau(lam: float) -> int:
    """The first threshold that makes the second least: the least n with lam ln(1 + 1/n) <= 1."""
    check_noise("laplace", lam)
    return max(1, math.ceil(1 / math.expm1(min(1 / lam, 700.0))))


def zealous_pdp(
    m: int, epsilon: float, delta: float, users: int, neighbours: str = "add-remove"
) -> tuple[float, int, float, float]:
    """(lam, tau, tau2, delta_dp): probabilistic DP, and the plain-DP delta of the same release.

    users is a public number or upper bound, never read off the log. Probabilistic DP is a property
    of the raw file only: it does not survive post-processing. (epsilon, delta_dp)-DP does.
    """
    lam = scale_of(m, epsilon, neighbours)
    tau = zealous_tau(lam)
    tau2 = pdp_tau2(m, delta, users, tau, lam)
    return lam, tau, tau2, zealous_dp_delta(m=m, lam=lam, tau2=tau2, tau=tau)


def pdp_tau2(m: int, delta: float, users: int, tau: int, lam: float) -> float:
    check_budget(1.0, delta)
    exact = -lam * math.log(2 * per_item(delta, critical_items(m, tau, users)))
    # tau2 >= tau is needed too: the turning point lies below it where lam < 1 / ln 2.
    return tau + max(exact, turning_point(lam) - 1, 0.0)


def check_tau(tau: int) -> None:
    if tau < 1:
        raise UsageError(f"tau must be at least 1 user, not {tau}")


def critical_items(m: int, tau: int, users: int) -> int:
    """How many items can have exactly tau users: each takes tau of the users' m places."""
    check_m(m)
    check_users(users)
    check_tau(tau)
    return max(1, users * m // tau)


def zealous_inaccuracy(
    *, lam: float, tau_star: float, xi: float, frequencies: Iterable[int]
) -> tuple[float, int]:
    """(ZEALOUS, always empty): how many items each gets wrong on average, with slack xi.

    tau = tau_star - xi, tau2 = tau_star + xi; frequencies are counts after the bound m. An item of
    frequency tau2 is lost with probability 1/2, so no more than 1/2 is sure for a very frequent
    one. Items below tau are never shown, by either.
    """
    check_noise("laplace", lam)
    if not xi >= 0:
        raise UsageError(f"the slack xi must not be negative, but is {xi!r}")
    often = [f for f in frequencies if f >= tau_star + xi]
    lost = (survival(noise="laplace", scale=lam, x=f - tau_star - xi) for f in often)
    return math.fsum(lost), len(often)


def impossible_domain(
    users: int, m: int, tau: float, xi: float, epsilon: float, c: float
) -> tuple[float, float]:
    """(printed, corrected): from how many possible items on pure DP is worse than nothing.

    The paper's Theorem 1 for rules that publish a very frequent item with probability c or more.
    The printed size follows from its Lemma 1, which is false for m >= 2: to make an item frequent
    takes tau + xi users, each a step of epsilon, however many items a user may have.
    """
    check_users(users)
    check_m(m)
    if not 0 < c <= 1:
        raise UsageError(f"the accuracy c must lie between 0 and 1, not {c!r}")
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    if not (tau > 0 and xi >= 0 and tau - xi + 1 > 0):
        raise UsageError(f"needs tau > 0, xi >= 0 and xi < tau + 1, not tau {tau!r}, xi {xi!r}")
    top = tau + xi
    frequent = 1 / (tau - xi + 1)
    sizes = (
        users * m * (2 * _exp(exponent) / (c * top) + frequent)
        for exponent in (2 * epsilon * top / m, epsilon * top)
    )
    printed, corrected = sizes
    return printed, corrected


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf
