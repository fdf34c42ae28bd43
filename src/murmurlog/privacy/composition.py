"""Several releases about the same users: what they cost together.

`compose` adds (epsilon, delta); it holds even when later parameters depend on earlier output.
`Loss` is the cost of a table for joint accounting: the noise that separates neighbours, and the
probability that a new key is published. Losses that are fixed in advance compose: Gaussian noise as
mu^2, other noise as privacy-loss distributions, probabilities as sums. `delta_of_losses` is the total,
far less than the sum of (epsilon, delta). Losses that are chosen by earlier output compose only under a
budget filter (`budget_filter`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from murmurlog.errors import UsageError
from murmurlog.privacy.guarantee import Guarantee
from murmurlog.privacy.noise_laws import gaussian_delta
from murmurlog.privacy.thresholds import bisect

PLD_GRID = 1e-4
MOST_MU, MOST_EPSILON, MOST_DRAWS = 8.0, 100.0, 100_000  # beyond, delta is taken to be 1
PLD_ERROR = 1e-11  # of floating point in a composed distribution, which is sums of 1e-16


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


def advanced_composition(
    *, epsilon: float, delta: float, releases: int, slack: float
) -> tuple[float, float]:
    """(epsilon, delta) of `releases` equal releases by advanced composition, for comparison."""
    root = math.sqrt(2 * releases * math.log(1 / slack))
    return (
        epsilon * root + releases * epsilon * math.expm1(epsilon),
        releases * delta + slack,
    )


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What separates two neighbours, except with probability `keys`.

    For both orders of two neighbours P, Q: P is within `keys` (total variation) of a law that is no
    easier to tell from Q than all of these at once: a Gaussian moved by `mu` standard deviations; for
    each of `draws`, (scale, n), n geometric draws of that scale moved by 1; and for each epsilon of
    `pure` a randomised response.
    """

    mu: float = 0.0
    keys: float
    draws: tuple[tuple[float, int], ...] = ()
    pure: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (self.mu >= 0 and math.isfinite(self.mu) and 0 <= self.keys <= 1):
            raise UsageError(f"no loss has mu {self.mu!r} and a chance {self.keys!r}")

    @classmethod
    def of(cls, guarantee: Guarantee) -> "Loss":
        """The loss of anything that is (epsilon, delta)-DP.

        The worst such pair is a mixture of a randomised response and, with probability delta, an
        outcome that gives the neighbour away (Kairouz et al. 2015); to move that outcome of P to
        the one of Q costs delta in total variation.
        """
        if guarantee.notion != "dp":
            raise UsageError(f"a guarantee of notion {guarantee.notion} has no loss")
        return cls(keys=guarantee.delta, pure=(guarantee.epsilon,))


def delta_of_losses(losses: Sequence[Loss], *, epsilon: float) -> float:
    """delta(epsilon) of all together, if these losses are fixed in advance.

    What is drawn may depend on earlier output, as long as the losses do not: the tables of one release
    are so. It is wrong for releases whose losses are chosen after earlier output, as a filter that
    refuses what would exceed a cap: such a filter can pass twice its delta (docs/explanation/budget-filter.md).
    """
    mu = math.sqrt(math.fsum(loss.mu**2 for loss in losses))
    keys = math.fsum(loss.keys for loss in losses)
    draws = [draw for loss in losses for draw in loss.draws]
    pure = [value for loss in losses for value in loss.pure]
    bounded = math.fsum(n / scale for scale, n in draws) + math.fsum(pure)
    if not draws and not pure:
        noise = gaussian_delta(epsilon=epsilon, mu=mu) if mu else 0.0
    elif not mu and bounded <= epsilon:
        noise = 0.0
    elif mu > MOST_MU or bounded > MOST_EPSILON or sum(n for _, n in draws) > MOST_DRAWS:
        noise = 1.0  # true of everything, and distributions this wide do not fit into memory
    else:
        noise = _noise_delta(epsilon, mu, draws, pure) + PLD_ERROR
    return min(1.0, noise + keys)


def _noise_delta(
    epsilon: float, mu: float, draws: Sequence[tuple[float, int]], pure: Sequence[float]
) -> float:
    """delta(epsilon) of all noise by privacy-loss distributions, rounded up to their grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # a second to import
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    grid = {"value_discretization_interval": PLD_GRID}
    parts = [
        pld.from_discrete_laplace_mechanism(1 / scale, **grid).self_compose(n) for scale, n in draws
    ]
    parts += [
        pld.from_privacy_parameters(DifferentialPrivacyParameters(value), **grid) for value in pure
    ]
    if mu:
        parts.append(pld.from_gaussian_mechanism(1 / mu, **grid))
    composed = reduce(lambda first, second: first.compose(second), parts)
    return float(composed.get_delta_for_epsilon(epsilon))


def join_losses(losses: Sequence[Loss]) -> Loss:
    """The loss of all of them together."""
    return Loss(
        mu=math.sqrt(math.fsum(loss.mu**2 for loss in losses)),
        keys=min(1.0, math.fsum(loss.keys for loss in losses)),
        draws=tuple(draw for loss in losses for draw in loss.draws),
        pure=tuple(value for loss in losses for value in loss.pure),
    )


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu (rounded down) with gaussian_delta(epsilon, mu) <= delta."""
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon=epsilon, mu=high) <= delta:
        low, high = high, 2 * high
    mu = bisect(
        lambda mu: gaussian_delta(epsilon=epsilon, mu=mu) - delta, good=low, bad=high, steps=100
    )
    return mu * (1 - 1e-12)
