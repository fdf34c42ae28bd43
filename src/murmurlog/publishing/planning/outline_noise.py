"""How an outline is measured: its public bins and blocks, the noise, and the theorem.

Sorted counts without their keys are Hay, Rastogi, Miklau and Suciu's unattributed histogram (2010);
the blocks of ranks and the noise for each are ours. Proof: docs/explanation/profile.md. Sees counts only, no log.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from murmurlog.errors import UsageError
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    Loss,
    check_budget,
    check_neighbours,
    gaussian_delta,
    mu_of,
    noise_sd,
    rounded_up,
    sides,
)
from murmurlog.privacy.projections import length_above_noise, nonincreasing, nonnegative
from murmurlog.privacy.sampler import MOST_SCALE, Entropy, draw, sampler_delta

Floats = npt.NDArray[np.floating[Any]]

RANKS = 1 << 20  # the most popular items that are measured
MOST_ITEMS = 100_000  # of a unit
LEAST_SCALE = 1e-4
SHARE = 0.1  # of mu^2, for the sizes
DIGITS = 3  # of what is published


def _bins() -> tuple[tuple[int, int], ...]:
    """1, 2, 3, 4, 5-6, 7-8, 9-12 and so on: two an octave up to 64, then one."""
    mosts = [1, 2, 3, 4, *(n for k in (2, 3, 4, 5) for n in (3 * 2 ** (k - 1), 2 ** (k + 1)))]
    mosts += [2**k for k in range(7, 12)]
    return tuple((before + 1, most) for before, most in zip([0, *mosts], mosts, strict=False))


def _blocks() -> tuple[int, ...]:
    """How many ranks each block has: one at first, then a tenth of all ranks before it."""
    sizes: list[int] = []
    done = 0
    while done < RANKS:
        sizes.append(min(max(1, done // 10), RANKS - done))
        done += sizes[-1]
    return tuple(sizes)


def _groups() -> tuple[int, ...]:
    """How many blocks are measured together: as many as make half of all ranks before them."""
    groups: list[int] = []
    done, ranks, blocks = 0, 0, 0
    for size in BLOCKS:
        ranks, blocks = ranks + size, blocks + 1
        if 2 * ranks >= done:
            groups.append(blocks)
            done, ranks, blocks = done + ranks, 0, 0
    return (*groups, blocks) if blocks else tuple(groups)


# All public: nothing of them depends on a log.
BINS = _bins()  # of sizes; the last one also holds all larger units
BLOCKS = _blocks()  # of ranks, as they are published
GROUPS = _groups()  # of blocks, as they are noised


def in_groups(numbers: Sequence[int]) -> list[int]:
    """A number for each block, added up by group."""
    ends = list(accumulate(GROUPS))
    return [sum(numbers[end - many : end]) for end, many in zip(ends, GROUPS, strict=True)]


def check_per_user(d: int) -> None:
    """Raises unless a unit may hold so many items."""
    if not 1 <= d <= MOST_ITEMS:
        raise UsageError(f"--per-user must lie between 1 and {MOST_ITEMS}, not {d}")


WIDTHS = tuple(in_groups(BLOCKS))  # ranks in each group


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Gaussian noise on the number of units of each size, and on sums of sorted counts.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a tally bounded to d distinct items a unit.  Drops: what lies beyond the last rank.
    """

    d: int
    sigma_sizes: float
    sigma_ranks: float

    def __post_init__(self) -> None:
        check_per_user(self.d)
        for scale in (self.sigma_sizes, self.sigma_ranks, self.largest()):
            if not LEAST_SCALE <= scale <= MOST_SCALE:
                raise UsageError(
                    f"a scale of noise must lie between {LEAST_SCALE:g} and 2^40, not {scale:.6g}: "
                    "choose another epsilon or --per-user"
                )

    def __str__(self) -> str:
        return (
            f"outline(d={self.d}, sigma_sizes={self.sigma_sizes!r}, "
            f"sigma_ranks={self.sigma_ranks!r})"
        )

    @classmethod
    def solve(cls, *, epsilon: float, delta: float, d: int, neighbours: str = "add-remove") -> Self:
        """The least noise that keeps (epsilon, delta)."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_per_user(d)
        # Half of delta needs more noise than delta: an upper bound on the cost of the sampler.
        rough = cls._of(mu_of(epsilon=epsilon, delta=delta / 2), d, neighbours)
        spare = sampler_delta(scale=rough.largest(), epsilon=epsilon)
        if spare > delta / 4:
            raise UsageError(f"delta {delta!r} is below what the noise sampler can certify")
        return cls._of(mu_of(epsilon=epsilon, delta=delta / SAFETY - spare), d, neighbours)

    @classmethod
    def _of(cls, mu: float, d: int, neighbours: str) -> Self:
        """The least noise that costs at most this mu."""
        c = sides(neighbours)
        return cls(
            d=d,
            sigma_sizes=rounded_up(math.sqrt(c / SHARE) / mu),
            sigma_ranks=rounded_up(math.sqrt(c * d / (1 - SHARE)) / mu),
        )

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """Noise alone: no key is published."""
        check_neighbours(neighbours)
        squared = 1 / self.sigma_sizes**2 + self.d / self.sigma_ranks**2
        return Loss(mu=math.sqrt(sides(neighbours) * squared), keys=0.0)

    def guarantee(
        self, *, epsilon: float, unit: str = "user", neighbours: str = "add-remove"
    ) -> Guarantee:
        """That of the Gaussian mechanism, at this epsilon."""
        mu = self.loss(neighbours=neighbours).mu
        exact = gaussian_delta(epsilon=epsilon, mu=mu) * math.sqrt(SAFETY)
        sampling = sampler_delta(scale=self.largest(), epsilon=epsilon)
        return Guarantee(
            epsilon=float(epsilon),
            delta=min(1.0, exact + sampling),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def scales(self) -> list[float]:
        """The noise on the sum of each group: sigma times the root of min(ranks, d)."""
        return [self.sigma_ranks * math.sqrt(min(width, self.d)) for width in WIDTHS]

    def largest(self) -> float:
        """The largest scale of all draws."""
        return max(self.sigma_sizes, *self.scales())

    def sizes(self, units: Sequence[int], *, entropy: Entropy) -> Floats:
        """Noisy numbers of units in BINS that are not negative and have the noisy sum.

        Beyond the largest size that exceeds the noise they are 0: a few spurious units there would be
        many items.
        """
        noise = draw(noise="gaussian", scale=self.sigma_sizes, count=len(BINS), entropy=entropy)
        noisy = (np.array(units) + noise).astype(np.float64)
        kept = length_above_noise(noisy, noise_sd(noise="gaussian", scale=self.sigma_sizes))
        found = np.zeros(len(BINS))
        found[:kept] = nonnegative(noisy[:kept], float(noisy.sum()))
        return np.round(found, DIGITS)

    def popularity(self, sums: Sequence[int], *, entropy: Entropy) -> Floats:
        """Noisy means of the sorted counts in BLOCKS, from their sums; they do not rise."""
        noisy = [
            true + int(draw(noise="gaussian", scale=scale, count=1, entropy=entropy)[0])
            for true, scale in zip(in_groups(sums), self.scales(), strict=True)
        ]
        return np.round(smooth_blocks(noisy), DIGITS)


def smooth_blocks(noisy: Sequence[int]) -> Floats:
    """A mean for each block, from the noisy sum of each group: not rising, not negative.

    The groups' means, made non-increasing, are joined by lines over the logarithm of the rank; blocks of a
    group are then scaled to its sum.
    """
    widths, blocks = np.array(WIDTHS, np.float64), np.array(BLOCKS, np.float64)
    means = np.maximum(nonincreasing(np.array(noisy) / widths, widths), 0.0)
    curve = np.interp(np.log(_middles(blocks)), np.log(_middles(widths)), means)
    group = np.repeat(np.arange(len(GROUPS)), GROUPS)
    sums = np.bincount(group, weights=curve * blocks)
    factor = np.divide(means * widths, sums, out=np.zeros(len(sums)), where=sums > 0)
    return nonincreasing(curve * factor[group], blocks)


def _middles(sizes: Floats) -> Floats:
    """The middle rank of each run of ranks, from 1."""
    ends = np.cumsum(sizes)
    return np.asarray(ends - (sizes - 1) / 2)
