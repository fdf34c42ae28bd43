"""Lower bounds on epsilon from samples; each is wrong with at most a stated probability.

Two methods. Independent samples of both neighbours: Clopper-Pearson bounds on the probability of an
event under each. One run with many canaries, each included by a fair coin: the number of right
guesses against a binomial law (Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training
run", 2023), which needs no independence. Neither can show that a guarantee holds.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom

MOST_EPSILON = 30.0  # larger values protect nothing, so bounds stop here


def lower_bound(hits: int, trials: int, alpha: float) -> float:
    """The Clopper-Pearson lower bound on a probability; wrong with probability at most alpha."""
    return float(beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0


def upper_bound(hits: int, trials: int, alpha: float) -> float:
    """The Clopper-Pearson upper bound on a probability; wrong with probability at most alpha."""
    return float(beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often an event occurred: under the log where it is likely, and under its neighbour."""

    hits: int
    trials: int
    hits_of_neighbour: int
    trials_of_neighbour: int

    def least(self, *, delta: float, alpha: float) -> float:
        """The lower bound on epsilon at this delta; wrong with probability at most alpha."""
        p = lower_bound(self.hits, self.trials, alpha / 2)
        q = upper_bound(self.hits_of_neighbour, self.trials_of_neighbour, alpha / 2)
        return loss(p, q, delta)

    def most(self, *, delta: float, alpha: float) -> float:
        """The upper bound on the epsilon that this event can show."""
        p = upper_bound(self.hits, self.trials, alpha / 2)
        q = lower_bound(self.hits_of_neighbour, self.trials_of_neighbour, alpha / 2)
        return loss(p, q, delta)

    def near(self, *, delta: float) -> float:
        """The point estimate of epsilon, from the observed frequencies."""
        return loss(
            self.hits / max(1, self.trials),
            self.hits_of_neighbour / max(1, self.trials_of_neighbour),
            delta,
        )


def loss(p: float, q: float, delta: float) -> float:
    """The smallest epsilon >= 0 with p <= e^epsilon q + delta, at most MOST_EPSILON."""
    if p <= delta or p <= q:
        return 0.0
    if q <= 0:
        return MOST_EPSILON
    return min(MOST_EPSILON, max(0.0, math.log((p - delta) / q)))


def p_value(*, canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The p-value of this many right guesses in one run under (epsilon, delta)-DP.

    A fair coin includes each canary; the attacker may abstain. Steinke et al. 2023, Theorem 5.2.
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
    """The lower bound on epsilon by one run; wrong with probability at most alpha."""

    def is_refuted(epsilon: float) -> bool:
        return (
            p_value(canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta)
            < alpha
        )

    if not guesses or not is_refuted(0.0):
        return 0.0
    low, high = 0.0, MOST_EPSILON
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low
