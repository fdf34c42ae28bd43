"""A cap on all releases of a source, kept while each release is chosen by what earlier ones showed.

A cap (E, D) is turned once, before the first release, into a rectangle: how much mu^2, how much chance that a key
shows, and how much total variation of the sampler all releases together may spend. Every release books its own
part of each; one that does not fit is refused. Then everything together is (E, D)-DP, however the releases
were chosen (T14, docs/explanation/budget-filter.md). The split between the parts is fixed with the cap: leaving it open
is wrong, and so is composing privacy-loss distributions or adding up "epsilon so far".
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, ndtri

from murmurlog.errors import UsageError
from murmurlog.privacy.composition import Loss, mu_of
from murmurlog.privacy.noise_laws import gaussian_delta
from murmurlog.privacy.thresholds import SAFETY, check_budget

KEYS_SHARE = 0.4  # of delta; the last threshold of `rounds` is within 0.1 % of its best
DISTANCE_SHARE = 1e-3  # of delta, for the sampler
TOLERANCE = 1e-9  # of comparing sums; it must lie inside the rectangle


class Rectangle(NamedTuple):
    """What all releases of a source may spend."""

    mu2: float
    keys: float
    distance: float


class Spending(NamedTuple):
    """What one release books; sums of these are compared with a rectangle."""

    mu2: float
    keys: float
    distance: float
    pure: float = 0.0


def rectangle(
    epsilon: float, delta: float, keys_share: float = KEYS_SHARE, pure: float = 0.0
) -> Rectangle:
    """The rectangle of a cap; `pure` of its epsilon is kept for releases booked as pure epsilon."""
    check_budget(epsilon, delta)
    if not 0 <= keys_share <= 0.9:
        raise UsageError(
            f"the share of delta for keys must lie between 0 and 0.9, not {keys_share!r}"
        )
    if not 0 <= pure < epsilon:
        raise UsageError(f"the pure part must be at least 0 and below epsilon, not {pure!r}")
    noise = (1 - keys_share - DISTANCE_SHARE) * delta / SAFETY
    mu = mu_of(epsilon=epsilon - pure, delta=noise)
    return Rectangle(
        mu2=mu * mu * (1 - 4 * TOLERANCE),
        keys=keys_share * delta,
        distance=DISTANCE_SHARE * delta / (1 + math.exp(epsilon)),
    )


def delta_of_rectangle(limits: Rectangle, *, epsilon: float, pure: float = 0.0) -> float:
    """delta(epsilon) of everything that fits into a rectangle, for any epsilon (T14)."""
    noise = gaussian_delta(epsilon=epsilon - pure, mu=math.sqrt(limits.mu2))
    return min(1.0, noise + limits.keys + (1 + math.exp(epsilon)) * limits.distance)


def mu_of_pure(epsilon: float) -> float:
    """The least mu that covers anything epsilon-DP: randomised response is the worst of it."""
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, not {epsilon!r}")
    return -2 * float(ndtri(1 / (1 + math.exp(epsilon)))) if epsilon < 700 else math.inf


def mu_of_draws(scale: float, draws: int) -> float:
    """The least mu that covers n geometric draws of a scale, each moved by one.

    The trade-off curve of the pair is piecewise linear and that of a Gaussian convex, so the vertices
    decide: k of n draws that lose 1/scale.
    """
    if draws < 1 or not scale > 0:
        raise UsageError(
            f"draws of a scale need n >= 1 and a scale above 0, not {draws}, {scale!r}"
        )
    a = math.exp(-1 / scale)
    below = np.arange(draws)  # k - 1
    p, q = 1 / (1 + a), a / (1 + a)
    # -Phi^-1(Q(X >= k)) - Phi^-1(P(X < k)), each by its smaller tail
    one = np.where(
        bdtrc(below, draws, q) < 0.5, -ndtri(bdtrc(below, draws, q)), ndtri(bdtr(below, draws, q))
    )
    other = np.where(
        bdtr(below, draws, p) < 0.5, -ndtri(bdtr(below, draws, p)), ndtri(bdtrc(below, draws, p))
    )
    return float(np.max(one + other))


def mu2_of(loss: Loss) -> float:
    """The mu^2 that covers a loss: its Gaussian part, its draws and its pure parts."""
    parts = [loss.mu**2]
    parts += [mu_of_draws(scale, n) ** 2 for scale, n in loss.draws]
    parts += [mu_of_pure(epsilon) ** 2 for epsilon in loss.pure]
    return math.fsum(parts) * (1 + TOLERANCE)


def fits(limits: Rectangle, booked: list[Spending], more: Spending, *, pure: float = 0.0) -> bool:
    """Whether a further release stays in the rectangle; sums are exact up to rounding."""
    every = [*booked, more]
    sums = [math.fsum(column) for column in zip(*every, strict=True)]
    most = (*limits, pure)
    return all(spent <= limit * (1 + TOLERANCE) for spent, limit in zip(sums, most, strict=True))
