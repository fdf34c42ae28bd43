"""Releases chosen by what earlier ones showed, as exact trees: nothing is sampled or taken from a theorem.

A step is a pair of laws on finitely many outcomes. Given a rule that accepts or refuses a further step by what is
booked, `largest_delta` is the largest hockey stick that any strategy of a few steps reaches.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from murmurlog.privacy import mu_of_pure


@dataclass(frozen=True, eq=False)
class Step:
    """Probabilities under P with ln(P/Q), coarse for branches and fine at the end; and what it books."""

    name: str
    coarse: tuple[np.ndarray, np.ndarray]
    fine: tuple[np.ndarray, np.ndarray]
    mu2: float = 0.0
    keys: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0


def gaussian(mu, *, bins=12, fine=400, epsilon=math.inf, delta=1.0):
    """A Gaussian moved by mu, in bins."""

    def pair(number):
        # Bins are finer where losses are large: there the hockey stick is decided.
        edges = np.linspace(-4, 6, number - 1) + mu / 2
        low, high = np.append(-np.inf, edges), np.append(edges, np.inf)
        p = np.where(low > mu, ndtr(mu - low) - ndtr(mu - high), ndtr(high - mu) - ndtr(low - mu))
        q = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return p, np.log(p) - np.log(q)

    return Step(
        f"gaussian {mu:.4g}", pair(bins), pair(fine), mu2=mu**2, epsilon=epsilon, delta=delta
    )


def leak(kappa):
    """An outcome of probability kappa under P that Q never has."""
    pair = np.array([kappa, 1 - kappa]), np.array([np.inf, math.log1p(-kappa)])
    return Step(f"leak {kappa:.4g}", pair, pair, keys=kappa, delta=kappa)


def response(epsilon):
    """A randomised response."""
    truth = 1 / (1 + math.exp(-epsilon))
    pair = np.array([truth, 1 - truth]), np.array([epsilon, -epsilon])
    return Step(
        f"response {epsilon:.4g}", pair, pair, mu2=mu_of_pure(epsilon) ** 2, epsilon=epsilon
    )


def largest_delta(accepts, menu, epsilon, depth, booked=()):
    """The largest H_epsilon(P || Q) of at most `depth` steps that a rule accepts, whoever chooses them."""
    best = max(0.0, -math.expm1(min(epsilon, 0.0)))
    if depth == 0:
        return best
    for step in menu:
        taken = (*booked, step)
        if not accepts(taken):
            continue
        if depth == 1:
            p, loss = step.fine
            value = float(p @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))))
        else:
            p, loss = step.coarse
            value = sum(
                mass
                * (
                    1.0
                    if math.isinf(lost)
                    else largest_delta(accepts, menu, epsilon - lost, depth - 1, taken)
                )
                for mass, lost in zip(p, loss, strict=True)
            )
        best = max(best, value)
    return best


def compose(steps, epsilon):
    """H_epsilon(P || Q) of these steps, all of them fixed in advance."""
    p, loss = np.ones(1), np.zeros(1)
    for step in steps:
        p, loss = np.outer(p, step.coarse[0]).ravel(), np.add.outer(loss, step.coarse[1]).ravel()
    return float(p @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))))
