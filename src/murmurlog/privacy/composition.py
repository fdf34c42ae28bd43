"""Several releases about the same users: what they cost together.

`compose` adds (epsilon, delta); it holds even when later parameters depend on earlier output.
`Loss` is what a table of Gaussian noise costs: a mu, and a chance that a key shows. Losses add up as
mu^2 and chances, also adaptively, and `delta_of_losses` is what they come to: far less than the sum
of epsilons.
`delta_together` is for thresholded tables that are fixed together: exact for one table, T3 (ii)
where epsilon covers all pure parts, else the loss of all the noise (Gaussian parts in closed form,
others by privacy-loss distributions) plus the probability that a key shows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.privacy.guarantee import Guarantee
from murmurlog.privacy.noises import gaussian_delta
from murmurlog.privacy.thresholds import delta_of_threshold, pass_probability, sides

PLD_GRID = 1e-4


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """The sum of the parts, which must share unit, neighbours and notion."""
    if not parts:
        raise UsageError("nothing to compose: give at least one guarantee")
    first = parts[0]
    for part in parts[1:]:
        for field in ("unit", "neighbours", "notion"):
            if getattr(part, field) != getattr(first, field):
                raise UsageError(
                    f"guarantees with {field} {getattr(first, field)!r} and "
                    f"{getattr(part, field)!r} do not add up: use one {field} throughout"
                )
    plain = math.fsum(part.plain_delta for part in parts)
    return Guarantee(
        epsilon=math.fsum(part.epsilon for part in parts),
        delta=min(1.0, math.fsum(part.delta for part in parts)),
        unit=first.unit,
        neighbours=first.neighbours,
        notion=first.notion,
        assumptions=tuple(sorted({name for part in parts for name in part.assumptions})),
        delta_dp=min(1.0, plain) if first.notion == "pdp" else None,
    )


def advanced(*, epsilon: float, delta: float, releases: int, slack: float) -> tuple[float, float]:
    """(epsilon, delta) of `releases` equal releases by advanced composition, for comparison."""
    root = math.sqrt(2 * releases * math.log(1 / slack))
    return (
        epsilon * root + releases * epsilon * math.expm1(epsilon),
        releases * delta + slack,
    )


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A mechanism that but for a chance of `keys` is a Gaussian one of sensitivity/noise = `mu`.

    For both orders of two neighbours P, Q: P is within `keys` (total variation) of a law that is
    mu-GDP against Q.
    """

    mu: float
    keys: float

    def __post_init__(self) -> None:
        if not (self.mu >= 0 and math.isfinite(self.mu) and 0 <= self.keys <= 1):
            raise UsageError(f"no loss has mu {self.mu!r} and a chance {self.keys!r}")


def delta_of_losses(losses: Sequence[Loss], *, epsilon: float) -> float:
    """delta(epsilon) of all together, each fixed in advance or chosen after earlier output."""
    mu = math.sqrt(math.fsum(loss.mu**2 for loss in losses))
    noise = gaussian_delta(epsilon=epsilon, mu=mu) if mu else 0.0
    return min(1.0, noise + math.fsum(loss.keys for loss in losses))


def mu_of(*, epsilon: float, delta: float) -> float:
    """The largest mu (rounded down) with gaussian_delta(epsilon, mu) <= delta."""
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon=epsilon, mu=high) <= delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if gaussian_delta(epsilon=epsilon, mu=middle) <= delta:
            low = middle
        else:
            high = middle
    return low * (1 - 1e-12)


@dataclass(frozen=True, kw_only=True)
class NoisyPart:
    """One thresholded table: d items a unit, one draw each, the theorem's threshold."""

    noise: str
    d: int
    scale: float
    threshold: float

    def key_delta(self) -> float:
        """The probability that one of d items held by a single unit is published."""
        p = pass_probability(noise=self.noise, scale=self.scale, threshold=self.threshold)
        return -math.expm1(self.d * math.log1p(-p))


def delta_together(
    parts: Sequence[NoisyPart], *, epsilon: float, neighbours: str = "add-remove"
) -> float:
    """A valid delta(epsilon) of all parts fixed together; the exact one for a single part."""
    if len(parts) == 1:
        part = parts[0]
        return delta_of_threshold(
            noise=part.noise,
            epsilon=epsilon,
            d=part.d,
            scale=part.scale,
            threshold=part.threshold,
            neighbours=neighbours,
        )
    c = sides(neighbours)
    keys = -math.expm1(math.fsum(math.log1p(-part.key_delta()) for part in parts))
    if all(part.noise != "gaussian" for part in parts):
        pure = c * math.fsum(part.d / part.scale for part in parts)
        if epsilon >= pure:
            return keys  # T3 (ii)
    return min(1.0, c * keys + _noise_delta(parts, epsilon, c))


def _noise_delta(parts: Sequence[NoisyPart], epsilon: float, c: int) -> float:
    """delta(epsilon) of all the noise, c times d coordinates a part being shifted by one."""
    if all(part.noise == "gaussian" for part in parts):
        mu = math.sqrt(math.fsum(c * part.d / part.scale**2 for part in parts))
        return gaussian_delta(epsilon=epsilon, mu=mu)
    losses = [_loss_distribution(part, c) for part in parts]
    return float(
        reduce(lambda one, other: one.compose(other), losses).get_delta_for_epsilon(epsilon)
    )


def _loss_distribution(part: NoisyPart, c: int) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld  # a second to import

    grid = {"value_discretization_interval": PLD_GRID}
    if part.noise == "gaussian":  # coordinates shifted by 1 are one shifted by their root
        return pld.from_gaussian_mechanism(part.scale, sensitivity=math.sqrt(c * part.d), **grid)
    if part.noise == "laplace":
        return pld.from_laplace_mechanism(part.scale, **grid).self_compose(c * part.d)
    return pld.from_discrete_laplace_mechanism(1 / part.scale, **grid).self_compose(c * part.d)
