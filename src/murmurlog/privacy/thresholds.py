"""T1 and T2: the exact cost of one noisy draw per item and a threshold, and its inverse.

The mechanism: every user holds at most d distinct items; each item somebody holds gets its number
of users plus one draw of noise, and is published with that value if it passes the threshold.
For "laplace" and "gaussian" the threshold K is real and the rule is "> K"; for "geometric" it is
the integer T of ">= T". Proofs: docs/explanation/guarantee.md.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from murmurlog.errors import UsageError
from murmurlog.privacy.noise_laws import check_noise, hockey_stick, hockey_sticks, survival

NEIGHBOURS = ("add-remove", "replace")
SAFETY = 1 + 1e-9  # a computed delta is multiplied by this before it is compared with a claim
MOST_REPLACED = 3000  # items a user under replace: all pairs (k, k') are computed
ALL_PAIRS_UP_TO = 24  # replace: a search tries all pairs (k, k') up to this d, then the rim only


def check_neighbours(neighbours: str) -> None:
    """Raises unless the neighbour relation is one we have theorems for."""
    if neighbours not in NEIGHBOURS:
        raise UsageError(
            f"unknown neighbour relation {neighbours!r}: use {' or '.join(NEIGHBOURS)}"
        )


def check_budget(epsilon: float, delta: float) -> None:
    """Raises unless 0 < epsilon < infinity and 0 < delta < 1."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    if not 0 < delta < 1:
        raise UsageError(f"delta must lie between 0 and 1, not {delta!r}")


def pass_probability(*, noise: str, scale: float, threshold: float) -> float:
    """p: the probability that an item of a single user passes the threshold."""
    return survival(noise=noise, scale=scale, x=threshold - 1)


def delta_of_threshold(
    *,
    noise: str,
    epsilon: float,
    d: int,
    scale: float,
    threshold: float,
    neighbours: str = "add-remove",
    releases: int = 1,
) -> float:
    """The exact delta(epsilon) of the mechanism (T1), for `releases` runs fixed in advance."""
    check_noise(noise, scale)
    check_neighbours(neighbours)
    if d < 1 or releases < 1:
        raise UsageError(f"d and releases must be at least 1, not {d} and {releases}")
    if neighbours == "replace" and d * releases > MOST_REPLACED:
        raise UsageError(
            f"under replace delta is computed for at most {MOST_REPLACED} items a user, not "
            f"{d * releases}: use a smaller bound or add-remove"
        )
    p = pass_probability(noise=noise, scale=scale, threshold=threshold)
    return _delta(noise, epsilon, d * releases, scale, p, neighbours)


def _delta(
    noise: str,
    epsilon: float,
    D: int,
    scale: float,
    p: float,
    neighbours: str,
    *,
    every_pair: bool = True,
) -> float:
    # k of the user's D items are held by nobody else; log_q is the log of "one of them is dropped".
    log_q = math.log1p(-p)
    if neighbours == "add-remove":
        k = np.arange(D + 1)
        shown = -np.expm1(k * log_q)
        with_user = hockey_sticks(noise, epsilon - k * log_q, D - k, scale)
        without = hockey_sticks(noise, epsilon + k * log_q, D - k, scale)
        return float(np.max(np.maximum(shown + (1 - shown) * with_user, without)))
    k, other = np.divmod(np.arange((D + 1) ** 2), D + 1)  # new items of the one and of the other
    if not every_pair:
        rim = (k == other) | np.isin(k, (0, 1, D)) | np.isin(other, (0, 1, D))
        k, other = k[rim], other[rim]
    shown = -np.expm1(k * log_q)
    shifted = hockey_sticks(noise, epsilon + (other - k) * log_q, 2 * D - k - other, scale)
    return float(np.max(shown + (1 - shown) * shifted))


def epsilon_of_threshold(
    *,
    noise: str,
    delta: float,
    d: int,
    scale: float,
    threshold: float,
    neighbours: str = "add-remove",
) -> float:
    """The least epsilon (rounded up) at which the mechanism has this delta; inf if none has."""

    def excess(epsilon: float) -> float:
        return (
            SAFETY
            * delta_of_threshold(
                noise=noise,
                epsilon=epsilon,
                d=d,
                scale=scale,
                threshold=threshold,
                neighbours=neighbours,
            )
            - delta
        )

    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > 1e4:
            return math.inf
    if excess(0.0) <= 0:
        return 0.0
    return _rounded_up(bisect(excess, good=high, bad=0.0), excess)


def turning_point(b: float) -> float:
    """K*(b): from here on the log without a user is never more than e^(d/b) likelier."""
    check_noise("laplace", b)
    return 1 - b * math.log(-2 * math.expm1(-1 / b))


def per_item(delta: float, items: int) -> float:
    """p with 1 - (1 - p)^items = delta."""
    return -math.expm1(math.log1p(-delta) / items)


def solve_threshold(
    *,
    noise: str,
    epsilon: float,
    delta: float,
    d: int,
    neighbours: str = "add-remove",
    method: str | None = None,
) -> tuple[float, float]:
    """(scale, threshold) with the guarantee (epsilon, delta).

    method "closed" is T2: scale c d/epsilon. "exact" searches the scale with T1 for the least
    threshold, and is never worse. Default: closed for laplace, exact for the others.
    """
    check_noise(noise, 1.0)
    check_budget(epsilon, delta)
    check_neighbours(neighbours)
    if d < 1:
        raise UsageError(f"the bound d must be at least 1, not {d}")
    method = method or ("closed" if noise == "laplace" else "exact")
    if method == "closed":
        return _solve_closed(noise, epsilon, delta, d, neighbours)
    if method != "exact":
        raise UsageError(f"unknown method {method!r}: use closed or exact")
    scale, p = _search(noise, epsilon, delta, d, neighbours)
    if noise != "geometric":
        return scale, _threshold_at(noise, scale, p)
    return _with_integer_threshold(noise, epsilon, delta, d, neighbours, scale, p)


def solve_integer_threshold(
    *, noise: str, epsilon: float, delta: float, d: int, neighbours: str = "add-remove"
) -> tuple[float, int]:
    """(scale, T) for noise on the integers and the rule ">= T", as mechanisms use them.

    The least T that any scale allows, then the least scale (rounded up) that allows this T.
    """
    if noise == "laplace":
        raise UsageError("laplace noise is not drawn: use geometric, its integer form")
    check_noise(noise, 1.0)
    check_budget(epsilon, delta)
    check_neighbours(neighbours)
    if d < 1:
        raise UsageError(f"the bound d must be at least 1, not {d}")
    scale, p = _search(noise, epsilon, delta, d, neighbours)
    return _with_integer_threshold(noise, epsilon, delta, d, neighbours, scale, p)


def real_threshold(noise: str, T: int) -> float:
    """The threshold that the theorem of this noise takes for the integer rule ">= T".

    Rounded Gaussian noise passes T exactly when the unrounded passes T - 1/2.
    """
    return T - 0.5 if noise == "gaussian" else T


def _solve_closed(
    noise: str, epsilon: float, delta: float, d: int, neighbours: str
) -> tuple[float, float]:
    b = sides(neighbours) * d / epsilon
    p = per_item(delta, d)
    if noise == "laplace":
        return b, max(1 - b * math.log(2 * p), turning_point(b))
    if noise == "gaussian":
        raise UsageError("gaussian noise has no closed form here: use method exact")
    return b, _least_integer(noise, b, min(p, -math.expm1(-1 / b)))


def sides(neighbours: str) -> int:
    """c: how many units' items differ between neighbours, 1 under add-remove and 2 under replace."""
    return 1 if neighbours == "add-remove" else 2


def _threshold_at(noise: str, scale: float, p: float) -> float:
    """The real threshold that a single user's item passes with probability p."""
    if noise == "gaussian":
        return 1 - scale * float(ndtri(p))
    if noise == "laplace":
        return 1 - scale * math.log(2 * p)
    return 1 - scale * math.log(p * (1 + math.exp(-1 / scale)))


def _least_integer(noise: str, scale: float, p: float) -> int:
    """The least integer T of the rule ">= T" that a single user's item passes with at most p."""
    half = 0.5 if noise == "gaussian" else 0.0
    T = max(2, math.ceil(_threshold_at(noise, scale, p) + half - 1e-6))
    while pass_probability(noise=noise, scale=scale, threshold=T - half) > p:
        T += 1
    return T


def _search(
    noise: str, epsilon: float, delta: float, d: int, neighbours: str
) -> tuple[float, float]:
    """(scale, p): the scale whose threshold is least, and the largest p it allows (T1)."""
    copies = sides(neighbours) * d

    def noise_alone(scale: float) -> float:
        return hockey_stick(noise=noise, epsilon=epsilon, copies=copies, scale=scale) - delta

    high = 1.0
    while noise_alone(high) > 0:
        high *= 2
    low = high / 2
    while noise_alone(low) <= 0:
        low /= 2
    least = bisect(noise_alone, good=high, bad=low)
    # Pure epsilon needs no larger scale than c d / epsilon; the Gaussian optimum is near the least.
    most = 2 * least if noise == "gaussian" else copies / epsilon

    def threshold_above(x: float) -> float:
        scale = min(least * (1 + 10**x), most)
        p = _largest_p(noise, epsilon, delta, d, scale, neighbours)
        return _threshold_at(noise, scale, p) if p > 0 else math.inf

    steps = np.linspace(-7, max(-6.0, math.log10(max(most / least - 1, 1e-6))), 40)
    best = int(np.argmin([threshold_above(x) for x in steps]))
    near = _least_point(
        threshold_above, float(steps[max(best - 1, 0)]), float(steps[min(best + 1, len(steps) - 1)])
    )
    x = min((near, float(steps[best])), key=threshold_above)
    scale = min(least * (1 + 10**x), most)
    return scale, _largest_p(noise, epsilon, delta, d, scale, neighbours)


def _largest_p(
    noise: str, epsilon: float, delta: float, d: int, scale: float, neighbours: str
) -> float:
    """The largest p with delta(epsilon) <= delta at this scale; 0 if there is none."""

    def excess(log_p: float, *, every_pair: bool = d <= ALL_PAIRS_UP_TO) -> float:
        p = math.exp(log_p)
        return (
            SAFETY * _delta(noise, epsilon, d, scale, p, neighbours, every_pair=every_pair) - delta
        )

    high = math.log(per_item(delta / SAFETY, d))  # d new items alone already cost this much
    low = high - 80
    if excess(low) > 0:
        return 0.0
    log_p = high if excess(high) <= 0 else bisect(excess, good=low, bad=high)
    while d > ALL_PAIRS_UP_TO and neighbours == "replace" and excess(log_p, every_pair=True) > 0:
        log_p -= 1e-6
    return math.exp(log_p)


def _with_integer_threshold(
    noise: str, epsilon: float, delta: float, d: int, neighbours: str, scale: float, p: float
) -> tuple[float, int]:
    T = _least_integer(noise, scale, p)

    def excess(scale: float, *, every_pair: bool = d <= ALL_PAIRS_UP_TO) -> float:
        threshold = real_threshold(noise, T)
        p = pass_probability(noise=noise, scale=scale, threshold=threshold)
        return (
            SAFETY * _delta(noise, epsilon, d, scale, p, neighbours, every_pair=every_pair) - delta
        )

    low = scale / 2
    while excess(low) <= 0:
        low /= 2
    smaller = _rounded_up(bisect(excess, good=scale, bad=low), excess)
    return (smaller if excess(smaller, every_pair=True) <= 0 else scale), T


def _least_point(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum is least, within 0.001: golden section.

    SciPy's bounded search finds the same, but importing it takes a third of a second.
    """
    part = (math.sqrt(5) - 1) / 2
    inner = [high - part * (high - low), low + part * (high - low)]
    values = [value(x) for x in inner]
    while high - low > 1e-3:
        if values[0] <= values[1]:
            high, inner, values = inner[1], inner[:1], values[:1]
            inner.insert(0, high - part * (high - low))
            values.insert(0, value(inner[0]))
        else:
            low, inner, values = inner[0], inner[1:], values[1:]
            inner.append(low + part * (high - low))
            values.append(value(inner[1]))
    return inner[0] if values[0] <= values[1] else inner[1]


def bisect(excess: Callable[[float], float], *, good: float, bad: float, steps: int = 60) -> float:
    """A point with excess <= 0, within |bad - good| / 2^steps of where the sign changes."""
    for _ in range(steps):
        middle = (good + bad) / 2
        if middle in (good, bad):
            break
        if excess(middle) <= 0:
            good = middle
        else:
            bad = middle
    return good


def rounded_up(value: float) -> float:
    """The value rounded up to six digits, so that it prints well."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    rounded = float(f"{math.ceil(value / unit) * unit:.6g}")
    return rounded if rounded >= value else value


def _rounded_up(value: float, excess: Callable[[float], float]) -> float:
    """The value rounded up, if that still keeps the guarantee."""
    rounded = rounded_up(value)
    return rounded if excess(rounded) <= 0 else value
