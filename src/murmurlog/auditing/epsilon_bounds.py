"""What samples prove about a guarantee: lower bounds on epsilon that are wrong with a stated chance.

Two ways. Independent samples of both neighbours: a bound of Clopper and Pearson on the chance of an
event under each. One run with many canaries, each there or not by a fair coin: the number of right
guesses against a binomial law (Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training
run", 2023), which needs no independence. Neither can show that a guarantee holds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, binom

MOST_EPSILON = 30.0  # beyond it nothing is protected, and nothing more need be said


def at_least(hits: int, trials: int, alpha: float) -> float:
    """What a chance is at least, but for a chance of alpha (Clopper and Pearson)."""
    return float(beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0


def at_most(hits: int, trials: int, alpha: float) -> float:
    """What a chance is at most, but for a chance of alpha (Clopper and Pearson)."""
    return float(beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often an event was seen: under the log where it is likely, and under its neighbour."""

    hits: int
    trials: int
    hits_of_neighbour: int
    trials_of_neighbour: int

    def least(self, *, delta: float, alpha: float) -> float:
        """epsilon is at least this at this delta, but for a chance of alpha; never below 0."""
        p = at_least(self.hits, self.trials, alpha / 2)
        q = at_most(self.hits_of_neighbour, self.trials_of_neighbour, alpha / 2)
        return loss(p, q, delta)

    def most(self, *, delta: float, alpha: float) -> float:
        """What this event can say of epsilon is at most this, but for a chance of alpha."""
        p = at_most(self.hits, self.trials, alpha / 2)
        q = at_least(self.hits_of_neighbour, self.trials_of_neighbour, alpha / 2)
        return loss(p, q, delta)

    def near(self, *, delta: float) -> float:
        """What the shares themselves say of epsilon, without any confidence."""
        return loss(
            self.hits / max(1, self.trials),
            self.hits_of_neighbour / max(1, self.trials_of_neighbour),
            delta,
        )


def loss(p: float, q: float, delta: float) -> float:
    """The least epsilon >= 0 with p <= e^epsilon q + delta, at most MOST_EPSILON."""
    if p <= delta or p <= q:
        return 0.0
    if q <= 0:
        return MOST_EPSILON
    return min(MOST_EPSILON, max(0.0, math.log((p - delta) / q)))


def p_value(*, canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are at most under (epsilon, delta)-DP, in one run.

    Each canary is in by a fair coin; a guess may be left out. Steinke et al. 2023, Theorem 5.2.
    """
    q = 1 / (1 + math.exp(-epsilon))
    at_chance = float(binom.sf(right - 1, guesses, q))
    if delta <= 0 or not right:
        return min(1.0, at_chance)
    missed = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, q))
    steepest = float((missed / np.arange(1, right + 1)).max(initial=0.0))
    return min(1.0, at_chance + 2 * canaries * delta * steepest)


def least_by_guesses(
    *, canaries: int, guesses: int, right: int, delta: float, alpha: float
) -> float:
    """epsilon is at least this at this delta, but for a chance of alpha, by one run."""

    def refuted(epsilon: float) -> bool:
        return (
            p_value(canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta)
            < alpha
        )

    if not guesses or not refuted(0.0):
        return 0.0
    low, high = 0.0, MOST_EPSILON
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def fit(values: npt.NDArray[np.int64], chances: npt.NDArray[np.floating[Any]], first: int) -> float:
    """The p-value of whole numbers against the law with these chances from `first` on; exact.

    How often each number comes, one up to it, and one no further from the middle than it: each is
    held against its binomial law, and the least p-value pays for all of them. Chi-squared would be
    wrong in the far tail, where it matters here.
    """
    n, ends = len(values), len(chances) - 1
    seen = np.bincount(np.clip(values - first, 0, ends), minlength=ends + 1)
    chances = np.asarray(chances, dtype=np.float64).copy()
    chances[[0, -1]] += max(0.0, 1 - chances.sum()) / 2  # what lies further out
    expected, hits = np.minimum(1.0, _events(chances)), _events(seen)
    p = 2 * np.minimum(binom.cdf(hits, n, expected), binom.sf(hits - 1, n, expected))
    return float(min(1.0, p.min() * len(p)))


def _events(masses: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The mass of each place, of all up to it, and of all as near to the middle."""
    middle, below = len(masses) // 2, np.cumsum(masses)
    reach = np.arange(1, middle)
    around = below[middle + reach] - below[middle - reach - 1]
    return np.concatenate([masses, below[:-1], around])
