"""A cap on all releases of a source that holds although each release may depend on earlier output.

A cap (E, D) is turned once, before the first release, into a rectangle: how much mu^2, how much probability that
a rare key shows, and how much total variation of the sampler all releases together may spend. Every release books
its own amount of each; one that does not fit is refused. Then everything together is (E, D)-DP, however the
releases were chosen (T14, docs/explanation/budget-filter.md). The split between the amounts is fixed with the
cap: leaving it open is wrong, and so is composing privacy-loss distributions or adding up "epsilon so far".
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, ndtri

from murmurlog.errors import UsageError
from murmurlog.privacy.composition import Loss, mu_of
from murmurlog.privacy.noise_laws import gaussian_delta
from murmurlog.privacy.thresholds import SAFETY, check_budget

KEYS_SHARE = 0.4  # of delta; the last threshold of `rounds` is within 0.1 % of its best
MOST_KEYS_SHARE = 0.9
DISTANCE_SHARE = 1e-3  # of delta, for the sampler
TOLERANCE = 1e-9  # of comparing sums; rectangles leave room for it
MOST_EPSILON = 20.0  # beyond, e^epsilon times the error of the sampler leaves no release


class Amounts(NamedTuple):
    """What releases may spend in all, what they spent, or what one of them books."""

    mu2: float = 0.0
    keys: float = 0.0
    distance: float = 0.0
    pure: float = 0.0  # of epsilon, for releases that are booked as pure epsilon-DP


class Rectangle(NamedTuple):
    """What all releases of a source may spend, beside pure epsilon."""

    mu2: float
    keys: float
    distance: float


def rectangle(
    epsilon: float, delta: float, keys_share: float = KEYS_SHARE, pure: float = 0.0
) -> Rectangle:
    """The rectangle of a cap; `pure` of its epsilon is kept for releases booked as pure epsilon."""
    return Rectangle(*limits_of(epsilon, delta, keys_share=keys_share, pure=pure)[:3])


def limits_of(
    epsilon: float,
    delta: float,
    *,
    keys_share: float = KEYS_SHARE,
    pure: float = 0.0,
    distance: float | None = None,
) -> Amounts:
    """All limits of a cap. A changed cap keeps the sampler's `distance` of the first one.

    For (E, D), with the tolerance of all comparisons counted in,
    G(E - pure, sqrt(mu2)) + keys + (1 + e^E) distance <= D.
    """
    check_budget(epsilon, delta)
    if epsilon > MOST_EPSILON:
        raise UsageError(
            f"a cap of epsilon {epsilon:.6g} is above {MOST_EPSILON:g}, the most that a ledger can keep: all "
            "releases together\n  have e^epsilon times the error of the sampler in their delta, which leaves "
            "nothing of it, and odds that\n  may change by e^epsilon protect nobody. Set a cap of epsilon "
            f"{MOST_EPSILON:g} or less"
        )
    if not 0 <= keys_share <= MOST_KEYS_SHARE:
        raise UsageError(
            f"the share of delta for keys must lie between 0 and {MOST_KEYS_SHARE}, not {keys_share!r}"
        )
    if not 0 <= pure < epsilon:
        raise UsageError(f"the pure part must be at least 0 and below epsilon, not {pure!r}")
    if distance is None:
        distance = DISTANCE_SHARE * delta / (1 + math.exp(epsilon))
    keys = keys_share * delta
    aside = (keys + (1 + math.exp(epsilon)) * distance) * (1 + TOLERANCE)
    if aside >= delta:
        raise UsageError(
            f"a cap of epsilon {epsilon:.6g}, delta {delta:.3g} leaves no delta for noise: the sampler of "
            "this source may use as much as under its first cap. Use a larger delta or a smaller epsilon"
        )
    mu = mu_of(epsilon - pure * (1 + TOLERANCE), (delta - aside) / SAFETY)
    return Amounts(mu2=mu * mu * (1 - 4 * TOLERANCE), keys=keys, distance=distance, pure=pure)


def delta_of_limits(limits: Amounts, *, epsilon: float) -> float:
    """delta(epsilon) of everything that fits the limits, for any epsilon (T14)."""
    noise = gaussian_delta(epsilon - limits.pure, math.sqrt(limits.mu2))
    return min(1.0, noise + limits.keys + (1 + math.exp(min(epsilon, 700))) * limits.distance)


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
    moved = np.where(
        bdtrc(below, draws, q) < 0.5, -ndtri(bdtrc(below, draws, q)), ndtri(bdtr(below, draws, q))
    )
    unmoved = np.where(
        bdtr(below, draws, p) < 0.5, -ndtri(bdtr(below, draws, p)), ndtri(bdtrc(below, draws, p))
    )
    return float(np.max(moved + unmoved))


def amounts_of(loss: Loss, *, distance: float = 0.0, limits: Amounts | None = None) -> Amounts:
    """What a release with this loss books under these limits, rounded up.

    A pure epsilon, or n geometric draws, which are n/scale-DP, may be booked as the mu that covers them or as
    such: the one that takes the smaller share of its limit. It depends on nothing but loss and limits.
    """
    squares, pure = [loss.mu**2], []
    parts = [(mu_of_draws(scale, n) ** 2, n / scale) for scale, n in loss.draws]
    parts += [(mu_of_pure(epsilon) ** 2, epsilon) for epsilon in loss.pure]
    for square, epsilon in parts:
        if limits is not None and epsilon * limits.mu2 < square * limits.pure:
            pure.append(epsilon)
        else:
            squares.append(square)
    return Amounts(
        mu2=math.fsum(squares) * (1 + TOLERANCE),
        keys=loss.keys * (1 + TOLERANCE),
        distance=distance,
        pure=math.fsum(pure),
    )


def loss_of_part(limits: Amounts, part: float) -> Loss:
    """The loss that spends this part of the limits: n releases of 1/n fit, rounding included."""
    if not 0 < part <= 1:
        raise UsageError(f"a part of a cap must lie above 0 and be at most 1, not {part!r}")
    spare = 1 - 2 * TOLERANCE
    return Loss(mu=math.sqrt(part * limits.mu2 * spare), keys=part * limits.keys * spare)


def sum_of(booked: Iterable[Amounts]) -> Amounts:
    """The sums, exact up to one rounding."""
    return Amounts(*map(math.fsum, zip(*booked, Amounts(), strict=True)))


def fits(limits: Amounts, booked: Iterable[Amounts], more: Amounts) -> bool:
    """Whether a further release stays within the limits."""
    spent = sum_of([*booked, more])
    return all(some <= most * (1 + TOLERANCE) for some, most in zip(spent, limits, strict=True))


def contains(limits: Amounts, others: Iterable[Amounts]) -> bool:
    """Whether limits are at least as large as all others in every amount."""
    return all(some <= most for other in others for some, most in zip(other, limits, strict=True))
