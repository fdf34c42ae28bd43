"""Several releases about the same users: what they cost together.

`compose` adds (epsilon, delta); it holds even when later parameters depend on earlier output.
`NoisyParts` describes thresholded tables that are fixed together; its delta is the smallest that
three valid accounts give: the sum, the pure-epsilon form of T3 (ii), and the privacy-loss
distribution of all noise plus the threshold's own delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from murmurlog.errors import UsageError
from murmurlog.privacy.guarantee import Guarantee
from murmurlog.privacy.thresholds import delta_of_threshold, pass_probability

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
    return Guarantee(
        epsilon=math.fsum(part.epsilon for part in parts),
        delta=min(1.0, math.fsum(part.delta for part in parts)),
        unit=first.unit,
        neighbours=first.neighbours,
        notion=first.notion,
        assumptions=tuple(sorted({name for part in parts for name in part.assumptions})),
    )


def advanced(*, epsilon: float, delta: float, releases: int, slack: float) -> tuple[float, float]:
    """(epsilon, delta) of `releases` equal releases by advanced composition, for comparison."""
    root = math.sqrt(2 * releases * math.log(1 / slack))
    return (
        epsilon * root + releases * epsilon * math.expm1(epsilon),
        releases * delta + slack,
    )


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
    c = 1 if neighbours == "add-remove" else 2
    keys = -math.expm1(math.fsum(math.log1p(-part.key_delta()) for part in parts))
    if all(part.noise != "gaussian" for part in parts):
        pure = c * math.fsum(part.d / part.scale for part in parts)
        if epsilon >= pure:
            return keys  # T3 (ii)
    return min(1.0, c * keys + _noise_delta(parts, epsilon, c))


def _noise_delta(parts: Sequence[NoisyPart], epsilon: float, c: int) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld  # a second to import

    total = None
    for part in parts:
        if part.noise == "gaussian":
            # d (or 2d) coordinates shifted by 1 are one coordinate shifted by their root.
            one = pld.from_gaussian_mechanism(
                part.scale,
                sensitivity=math.sqrt(c * part.d),
                value_discretization_interval=PLD_GRID,
            )
        else:
            make = (
                pld.from_laplace_mechanism
                if part.noise == "laplace"
                else pld.from_discrete_laplace_mechanism
            )
            argument = part.scale if part.noise == "laplace" else 1 / part.scale
            one = make(argument, value_discretization_interval=PLD_GRID).self_compose(c * part.d)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_delta_for_epsilon(epsilon))
