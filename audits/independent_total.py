"""A second computation of epsilon and delta from a certificate's printed texts.

It shares no code with `murmurlog.privacy`: the formulas were written again from the theorems in
docs/explanation, with sums and numerical convolution where the package has closed forms. A certificate that
states less than these formulas give claims more privacy than the theorems prove.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from noise_stages import STEPS, numbers, parameters_of
from scipy.signal import fftconvolve
from scipy.special import ndtr
from scipy.stats import binom

Floats = npt.NDArray[np.float64]

ROOM = 1e-6  # relative difference that rounding explains
CELL = 2e-5  # of a privacy loss; losses are rounded down, so the result is a lower bound
TAILS = 9.0  # standard deviations of a Gaussian loss that are convolved
MOST_CELLS = 4_000_000
LISTED = 12  # replace: all pairs of new items up to this bound, then the most different ones only


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one table adds to the account of a release."""

    squares: float = 0.0  # of the Gaussian shift, in standard deviations
    keys: float = 0.0  # the chance that a new key shows
    geometric: tuple[tuple[float, int], ...] = ()  # (scale, draws that one unit moves by one)
    pure: tuple[float, ...] = ()


def gaussian(epsilon: float, mu: float) -> float:
    """The hockey stick of two normal laws that are mu apart."""
    if mu <= 0:
        return max(0.0, 1 - math.exp(epsilon)) if epsilon < 0 else 0.0
    far = float(ndtr(-mu / 2 - epsilon / mu))
    other = math.exp(min(700.0, epsilon)) * far if far > 0 else 0.0
    return max(0.0, float(ndtr(mu / 2 - epsilon / mu)) - other)


def geometric(epsilon: float, scale: float, moved: int) -> float:
    """The hockey stick of `moved` geometric draws that are moved by one each: a sum over the losses."""
    if moved == 0:
        return max(0.0, 1 - math.exp(epsilon)) if epsilon < 0 else 0.0
    against = np.arange(moved + 1)  # how many of the draws lose 1/scale the other way
    chance = binom.pmf(against, moved, 1 / (1 + math.exp(1 / scale)))
    loss = (moved - 2 * against) / scale
    return float((chance * -np.expm1(np.minimum(0.0, epsilon - loss))).sum())


def stick(noise: str, epsilon: float, scale: float, moved: int) -> float:
    if noise == "gaussian":
        return gaussian(epsilon, math.sqrt(moved) / scale)
    return geometric(epsilon, scale, moved)


def passing(noise: str, scale: float, T: int, users: int = 1) -> float:
    """The chance that an item of this many users reaches T."""
    if noise == "gaussian":  # rounded
        return float(ndtr(-(T - users - 0.5) / scale))
    a, k = math.exp(-1 / scale), T - users
    return a**k / (1 + a) if k >= 1 else 1 - a ** (1 - k) / (1 + a)


def threshold(
    noise: str, scale: float, T: int, d: int, epsilon: float, neighbours: str
) -> float:  # fmt: skip
    """delta of one draw and a threshold (T1): the worst number of new items of the one, and of the other."""
    log_q = math.log1p(-passing(noise, scale, T))

    def at(new: int, other: int, moved: int) -> float:
        q = math.exp(new * log_q)
        return 1 - q + q * stick(noise, epsilon + (other - new) * log_q, scale, moved)

    if neighbours == "add-remove":
        return max(max(at(k, 0, d - k), at(0, k, d - k)) for k in range(d + 1))
    some = range(d + 1) if d <= LISTED else (0, 1, d)
    return max(at(k, other, 2 * d - k - other) for k in some for other in some)


@dataclass(frozen=True, kw_only=True)
class _Rounds:
    """The printed numbers of `rounds`."""

    d: int
    scales: list[float]
    own: list[float]
    past: list[float]
    T: list[float]
    counts: float  # 1/sigma_1^2 + 1/sigma_h^2, or 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "_Rounds":
        scales = numbers(given["s"])
        counts = 0.0
        if "sigma1" in given:
            counts = float(given["sigma1"]) ** -2 + float(given["sigma_h"]) ** -2
        return cls(
            d=int(given["d"]),
            scales=scales,
            own=numbers(given.get("own", "")) or [1.0] * len(scales),
            past=numbers(given.get("past", "")) or [0.0] * (len(scales) - 1),
            T=numbers(given["T"]),
            counts=counts,
        )

    def leak(self, new: int, held: int) -> float:
        """At most the chance that one of `new` own items of `held` shows in any round (step 3 of the proof)."""
        total = 0.0
        for k, T in enumerate(self.T):
            c = [*self.past[:k], self.own[k]]
            sd = math.sqrt(sum((a * s) ** 2 for a, s in zip(c, self.scales, strict=False)))
            weight = c[0] / math.sqrt(held) + sum(c[1:])  # a sole survivor has weight 1 later
            over = float(ndtr(-(T / STEPS - sum(c) / 2 / STEPS - weight) / sd))
            total += -math.expm1(new * math.log1p(-over)) if over < 1 else 1.0
        return min(1.0, total)

    def moved(self, new: int, held: int) -> float:
        """The square of what the unit moves on the items of others (step 2)."""
        first, *later = (s**-2 for s in self.scales)
        return (1 - new / held) * first + (sum(later) if new < held else 0.0) + self.counts

    def sides(self) -> list[tuple[float, float]]:
        """(leak, square) of what a unit may hold; for large bounds a selection with both extremes."""
        if self.d <= 60:
            cases = [(t, h) for h in range(1, self.d + 1) for t in range(h + 1)]
        else:
            few = sorted({0, 1, 2, 3, self.d // 2, self.d - 1, self.d})
            cases = [(t, h) for h in few if h for t in few if t <= h]
        return [(self.leak(t, h), self.moved(t, h)) for t, h in cases]

    def delta(self, epsilon: float, neighbours: str) -> float:
        sides = self.sides()
        if neighbours == "add-remove":
            pairs = [(x, (0.0, 0.0)) for x in sides] + [((0.0, 0.0), x) for x in sides]
        else:
            extreme = sorted(sides)[-20:] + sorted(sides, key=lambda x: x[1])[-20:]
            pairs = [(x, y) for x in extreme for y in extreme]
        worst = 0.0
        for (leak, square), (other_leak, other_square) in pairs:
            if leak >= 1 or other_leak >= 1:
                return 1.0
            at = epsilon + math.log1p(-other_leak) - math.log1p(-leak)
            worst = max(worst, leak + (1 - leak) * gaussian(at, math.sqrt(square + other_square)))
        return worst


def sides_of(neighbours: str) -> int:
    return 2 if neighbours == "replace" else 1


def bound_of(name: str, given: Mapping[str, str]) -> int:
    """How many distinct items of a unit count, by the printed text."""
    if name == "sessions":
        l_s, l_q = int(given["l_s"]), int(given["l_q"])
        # Subsequences of two queries or more.
        return l_s * (2**l_q - 1 - l_q if given.get("subsequences", "all") == "all" else 1)
    if name == "session-tree":  # of one length
        l_q = int(given["l_q"])
        return int(given["l_s"]) * max(math.comb(l_q, n) for n in range(2, l_q + 1))
    return int(given.get("d") or given.get("m") or 1)


def delta_of_table(text: str, epsilon: float, neighbours: str) -> float | None:
    """The delta that the theorem of this mechanism gives at epsilon; None where this module has none."""
    name, given = parameters_of(text)
    c = sides_of(neighbours)
    d = bound_of(name, given)
    if name in ("threshold", "sessions"):
        scale, T = float(given["scale"]), int(given["T"])
        return threshold(given["noise"], scale, T, d, epsilon, neighbours)
    if name == "zealous" and given.get("tau", "1") == "1":
        scale = float(given["lam"])
        return threshold("geometric", scale, int(given["T"]), d, epsilon, neighbours)
    if name == "rounds":
        return _Rounds.of(given).delta(epsilon, neighbours) if "sigma" not in given else None
    if name == "session-tree":
        return joint_delta([cost_of_table(text, (0.0, 0.0), neighbours)], epsilon)
    if name == "left-out":
        # d searches in one bin, and as many queries each of which may leave one bin for another.
        return gaussian(epsilon, c * math.sqrt(d * d + 2 * d * d) / float(given["sigma"]))
    if name in ("pool", "korolova-lists"):
        cost = c * d / float(given.get("b") or given["b_c"])
        return 0.0 if epsilon >= cost * (1 - ROOM) else 1.0
    if name == "korolova":
        cost = sum(c * d / float(given[each]) for each in ("b", "b_q") if each in given)
        if epsilon < cost * (1 - ROOM):
            return 1.0
        b, T = float(given["b"]), int(given["T"])
        distinct = -math.expm1(d * math.log1p(-passing("geometric", b, T)))
        rows = passing("geometric", b, T, users=d) if given.get("count") == "rows" else 0.0
        return max(distinct, rows)
    if name == "synthetic" and "scale_r" not in given:
        spent = sum(c / float(value) for letter, value in given.items() if letter.startswith("b_"))
        scale, T = float(given["scale"]), int(given["T"])
        return threshold(given["noise"], scale, T, d, epsilon - spent, neighbours)
    return None


def cost_of_table(text: str, stated: tuple[float, float], neighbours: str) -> Cost:
    """What a table costs in one account with others; by its stated guarantee where nothing else is known."""
    name, given = parameters_of(text)
    c = sides_of(neighbours)
    d = bound_of(name, given)
    if name in ("threshold", "sessions"):
        noise, scale, T = given["noise"], float(given["scale"]), int(given["T"])
        keys = c * -math.expm1(d * math.log1p(-passing(noise, scale, T)))
        if noise == "geometric":
            return Cost(keys=keys, geometric=((scale, c * d),))
        return Cost(squares=c * d / scale**2, keys=keys)
    if name in ("rounds", "session-tree") and "sigma" not in given:
        run = _Rounds.of({**given, "d": str(d)})
        levels = int(given["l_q"]) - 1 if name == "session-tree" else 1  # lengths, each in full
        squares = c * (levels * sum(s**-2 for s in run.scales) + run.counts)
        keys = min(1.0, c * levels * max(leak for leak, _ in run.sides()))
        return Cost(squares=squares, keys=keys)
    if name == "left-out":
        return Cost(squares=3 * (c * d / float(given["sigma"])) ** 2)
    return Cost(keys=stated[1], pure=(stated[0],))


def joint_delta(costs: Sequence[Cost], epsilon: float) -> float:
    """delta of all tables in one account: chances add up, noise is convolved. A lower bound."""
    mu = math.sqrt(sum(cost.squares for cost in costs))
    keys = sum(cost.keys for cost in costs)
    draws = [each for cost in costs for each in cost.geometric]
    pure = [each for cost in costs for each in cost.pure]
    if not draws and not pure:
        return min(1.0, keys + gaussian(epsilon, mu))
    most = sum(n / scale for scale, n in draws) + sum(pure)
    if not mu and most <= epsilon:
        return min(1.0, keys)
    parts = [_binomial_losses(1 / scale, n, 1 / (1 + math.exp(1 / scale))) for scale, n in draws]
    parts += [_binomial_losses(each, 1, 1 / (1 + math.exp(each))) for each in pure]
    parts += [_gaussian_losses(mu)] if mu else []
    if sum(len(chances) for _, chances in parts) > MOST_CELLS:
        return keys  # too wide to convolve; still a lower bound
    first, chances = parts[0]
    for start, more in parts[1:]:
        first, chances = first + start, np.maximum(0.0, fftconvolve(chances, more))
    loss = (first + np.arange(len(chances))) * CELL
    above = loss > epsilon
    return min(1.0, keys + float((chances[above] * -np.expm1(epsilon - loss[above])).sum()))


def _binomial_losses(size: float, n: int, against: float) -> tuple[int, Floats]:
    """(the first cell, the chances of the cells) of n losses of plus or minus `size`."""
    many = np.arange(n + 1)
    cells = np.floor((n - 2 * many) * size / CELL).astype(np.int64)
    found = np.zeros(int(cells[0] - cells[-1]) + 1)
    np.add.at(found, cells - cells[-1], binom.pmf(many, n, against))
    return int(cells[-1]), found


def _gaussian_losses(mu: float) -> tuple[int, Floats]:
    """The loss of a Gaussian is normal, with mean mu^2/2 and standard deviation mu."""
    low = math.floor((mu * mu / 2 - TAILS * mu) / CELL)
    high = math.ceil((mu * mu / 2 + TAILS * mu) / CELL)
    edges = ndtr((np.arange(low, high + 1) * CELL - mu * mu / 2) / mu)
    return low, np.diff(edges)


def check_total(texts: Mapping[str, str], stated: Mapping[str, Any], total: Any) -> list[str]:
    """One sentence for every guarantee that states less than the printed parameters cost.

    `stated` are the guarantees of the tables, `total` that of the release.
    """
    if total.notion != "dp":
        return []
    faults, summed = [], 0.0
    for table, text in texts.items():
        epsilon, delta = stated[table].epsilon, stated[table].delta
        computed = delta_of_table(text, epsilon, total.neighbours)
        if computed is not None and delta < computed * (1 - ROOM) - 1e-15:
            faults.append(
                f"{table}: {text:.60} has delta {computed:.4g} at epsilon {epsilon:.4g}; {delta:.4g} is stated"
            )
        summed += delta if computed is None else max(delta, computed)
    costs = [
        cost_of_table(text, (stated[table].epsilon, stated[table].delta), total.neighbours)
        for table, text in texts.items()
    ]
    each = math.fsum(stated[table].epsilon for table in texts)
    ways = [summed] if each <= total.epsilon * (1 + ROOM) else []
    ways.append(joint_delta(costs, total.epsilon))
    if len(texts) > 1 and total.delta < min(ways) * (1 - ROOM) - 1e-15:
        faults.append(
            f"all tables together have delta {min(ways):.4g} at epsilon {total.epsilon:.4g}; "
            f"{total.delta:.4g} is stated"
        )
    return faults
