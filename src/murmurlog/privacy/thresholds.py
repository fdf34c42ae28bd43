"""T1 and T2: the exact cost of one noisy draw per item and a threshold, and its inverse.

The mechanism: every user holds at most d distinct items; each item somebody holds gets its number
of users plus one draw of noise, and is published with that value if it passes the threshold.
For "laplace" and "gaussian" the threshold K is real and the rule is "> K"; for "geometric" it is
the integer T of ">= T". Proofs: docs/explanation/guarantee.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from murmurlog.errors import UsageError
from murmurlog.privacy.long_arithmetic import mp, precision
from murmurlog.privacy.noise_laws import (
    check_noise,
    exact_geometric,
    hockey_stick,
    hockey_sticks,
    survival,
)
from murmurlog.privacy.sampler import MOST_SCALE

Integers = npt.NDArray[np.int64]
Pairs = tuple[Integers, Integers, Integers]

NEIGHBOURS = ("add-remove", "replace")
SAFETY = 1 + 1e-9  # a computed delta is multiplied by this before it is compared with a claim
MOST_REPLACED = 3000  # items a user under replace: all pairs (k, k') are computed
ALL_PAIRS_UP_TO = 24  # replace: a search tries all pairs (k, k') up to this d, then the rim only
LEAST = 1e-100  # of epsilon and delta: quotients of numbers stay finite
PAIRS_AT_ONCE = 1 << 20  # of pairs whose delta is computed at a time
MOST_EXACT = 64  # pairs whose delta is computed in long arithmetic


def check_neighbours(neighbours: str) -> None:
    """Raises unless the neighbour relation is one we have theorems for."""
    if neighbours not in NEIGHBOURS:
        raise UsageError(
            f"unknown neighbour relation {neighbours!r}: use {' or '.join(NEIGHBOURS)}"
        )


def check_budget(epsilon: float, delta: float) -> None:
    """Raises unless LEAST <= epsilon < infinity and LEAST <= delta < 1."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be a positive number, not {epsilon!r}")
    if not 0 < delta < 1:
        raise UsageError(f"delta must lie between 0 and 1, not {delta!r}")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value < LEAST:
            raise UsageError(
                f"{name} {value!r} is too small to compute with: use {LEAST:g} or more"
            )


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
    p = pass_probability(noise=noise, scale=scale, threshold=threshold)
    D, log_q = d * releases, math.log1p(-p)
    if noise == "geometric":
        return _exact_delta(epsilon, _pairs(D, neighbours), scale, log_q)
    parts = (_deltas(noise, epsilon, part, scale, log_q) for part in _pairs(D, neighbours))
    return max(float(part.max()) for part in parts)


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
    """delta(epsilon), at most by floating point too large: quick, for searches."""
    log_q = math.log1p(-p) if p < 1 else -math.inf
    parts = _pairs(D, neighbours, every_pair=every_pair)
    return max(float(_deltas(noise, epsilon, part, scale, log_q).max()) for part in parts)


def _pairs(D: int, neighbours: str, *, every_pair: bool = True) -> Iterator[Pairs]:
    """What two neighbours can hold, in blocks: (new, shift, copies).

    Nobody else holds `new` of one neighbour's D items and `shift` + `new` of the other's; `copies` items
    that others hold, too, tell the neighbours apart.
    """
    if neighbours == "add-remove":
        k = np.arange(D + 1)
        yield k, -k, D - k
        yield np.zeros_like(k), k, D - k
        return
    if D > MOST_REPLACED:
        raise UsageError(
            f"under replace delta is computed for at most {MOST_REPLACED} items a user, not {D}: use a "
            "smaller bound or add-remove"
        )
    if every_pair:
        rows = max(1, PAIRS_AT_ONCE // (D + 1))
        for start in range(0, D + 1, rows):
            block = np.arange(start, min(start + rows, D + 1))
            k, other = (column.ravel() for column in np.meshgrid(block, np.arange(D + 1)))
            yield k, other - k, 2 * D - k - other
        return
    line, edges = np.arange(D + 1), (0, min(1, D), D)
    k = np.concatenate([line, *(np.full(D + 1, n) for n in edges), *(line for _ in edges)])
    other = np.concatenate([line, *(line for _ in edges), *(np.full(D + 1, n) for n in edges)])
    yield k, other - k, 2 * D - k - other


def _deltas(
    noise: str, epsilon: float, pairs: Pairs, scale: float, log_q: float
) -> npt.NDArray[np.float64]:
    """delta(epsilon) of each pair; log_q is the log of "a new item is dropped"."""
    new, shift, copies = pairs
    with np.errstate(invalid="ignore"):
        log_unseen, log_ratio = (np.where(n == 0, 0.0, n * log_q) for n in (new, shift))
    seen = -np.expm1(log_unseen)
    sticks = hockey_sticks(noise, epsilon + log_ratio, copies, scale)
    return np.asarray(seen + (1 - seen) * sticks, np.float64)


def _exact_delta(epsilon: float, parts: Iterable[Pairs], scale: float, log_q: float) -> float:
    """The largest delta of geometric noise, in long arithmetic.

    The upper bounds say where it can be: of the pairs with the largest ones the delta is computed, until
    it reaches all other bounds. Where that takes too long the next bound is the result.
    """
    columns = []
    for part in parts:
        bound = _deltas("geometric", epsilon, part, scale, log_q)
        many = min(MOST_EXACT + 1, len(bound))
        top = np.argpartition(-bound, many - 1)[:many]
        columns.append((bound[top], *(column[top] for column in part)))
    rows = [np.concatenate(column) for column in zip(*columns, strict=True)]
    best = 0.0
    with precision(140):
        for n, row in enumerate(np.argsort(-rows[0])):
            bound, new, shift, copies = (column[row].item() for column in rows)
            if bound <= best or n == MOST_EXACT:
                return max(best, bound) if n == MOST_EXACT else best
            log = mp.mpf(log_q)
            stick = exact_geometric(mp.mpf(epsilon) + shift * log, copies, scale)
            seen = -mp.expm1(new * log)
            best = max(best, float(seen + (1 - seen) * stick))
    return best


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
    check_noise(noise, scale)
    check_neighbours(neighbours)
    p = pass_probability(noise=noise, scale=scale, threshold=threshold)

    def excess(epsilon: float) -> float:
        return SAFETY * _delta(noise, epsilon, d, scale, p, neighbours) - delta

    if excess(0.0) <= 0:
        return 0.0
    return round_up_within(least_epsilon(excess, most=1e4, steps=60), excess)


def turning_point(b: float) -> float:
    """K*(b): from here on the log without a user is never more than e^(d/b) likelier."""
    check_noise("laplace", b)
    return 1 - b * math.log(-2 * math.expm1(-1 / b))


def any_of(p: float, items: int) -> float:
    """1 - (1 - p)^items: the probability that at least one of independent items passes, each with p."""
    return -math.expm1(items * math.log1p(-p)) if p < 1 else 1.0


def per_item(delta: float, items: int) -> float:
    """The inverse of `any_of`: p with 1 - (1 - p)^items = delta."""
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
    return _fit_integer_threshold(noise, epsilon, delta, d, neighbours, scale, p)


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
    return _fit_integer_threshold(noise, epsilon, delta, d, neighbours, scale, p)


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
    if scale > MOST_SCALE:  # then T + 1 can be the same number as T
        raise UsageError(
            f"noise of scale {scale:.3g} cannot be drawn: use a larger epsilon or delta"
        )
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


def _fit_integer_threshold(
    noise: str, epsilon: float, delta: float, d: int, neighbours: str, scale: float, p: float
) -> tuple[float, int]:
    """The least integer threshold at which an item of one unit passes with p at most, and the least scale for it.

    The scale is rounded up, and stays as it is if a smaller one does not keep delta for all neighbours.
    """
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
    smaller = round_up_within(bisect(excess, good=scale, bad=low), excess)
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


def least_epsilon(excess: Callable[[float], float], *, most: float, steps: int) -> float:
    """The least epsilon with excess(epsilon) <= 0, as near as `bisect` finds it; inf if none is up to `most`."""
    high = 1.0
    while not excess(high) <= 0:  # also where it is not a number
        high *= 2
        if high > most:
            return math.inf
    return bisect(excess, good=high, bad=0.0, steps=steps)


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


def round_up(value: float) -> float:
    """The value rounded up to six digits, so that it prints well."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    rounded = float(f"{math.ceil(value / unit) * unit:.6g}")
    return rounded if rounded >= value else value


def geometric_scale(sensitivity: int, epsilon: float) -> float:
    """The scale of geometric noise for a part of epsilon, rounded up: parts never add up to more."""
    return round_up(sensitivity / epsilon * SAFETY)


def round_up_within(value: float, excess: Callable[[float], float]) -> float:
    """The value rounded up, if that still keeps the guarantee."""
    if math.isinf(value):
        return value
    rounded = round_up(value)
    return rounded if excess(rounded) <= 0 else value
