"""Counts of the published items of `rounds`: weights, bins, and how far one unit moves them.

Weighted counts look at every distinct item that a unit holds. A unit that holds m published items
gives each of them the same weight, 1 while m is at most d2 and sqrt(d2/m) beyond it, so that its
vector of weights has a norm of at most sqrt(d2) and nothing is cut off. A noisy histogram of m comes first;
d2 is chosen from it. Proof: docs/explanation/mechanisms/rounds-proof.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from murmurlog.errors import UsageError
from murmurlog.privacy.noise_laws import Floats
from murmurlog.privacy.thresholds import round_up

GRID = 1 << 20  # steps in a weight of 1
LEAST_SCALE = 1e-4
# Values of d2 that can be chosen from a histogram; each is about sqrt 2 times the one before.
CHOICES = (2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)
MOST_COUNTED = 10_000  # a d2 that the owner may give


def count_weight(m: int, d2: int) -> int:
    """The steps of 2^-20 that a unit with m published items gives to each of them.

    The largest integer g <= 2^20 with m g^2 <= d2 2^40: rounding to the nearest would exceed the norm.
    """
    if m < 1 or d2 < 1:
        raise UsageError(f"m and d2 must be at least 1, not {m} and {d2}")
    return GRID if m <= d2 else math.isqrt(GRID * GRID * d2 // m)


def histogram_bins(size: int) -> list[int]:
    """The least m of each bin of the histogram, for `size` published items: public."""
    starts = [1]
    while starts[-1] < size:
        starts.append(max(starts[-1] + 1, starts[-1] * 3 // 2))
    return [start for start in starts if start <= size]


@dataclass(frozen=True, kw_only=True)
class WeightedCounts:
    """The noise of a histogram of m and of the weighted counts, in units of what one unit moves."""

    scale: float  # sigma_1; the counts' noise is sqrt(d2) times as large
    histogram_scale: float  # sigma_h
    per_user: int | None = None  # d2 if the owner gives it

    def __post_init__(self) -> None:
        if self.per_user is not None and not 1 <= self.per_user <= MOST_COUNTED:
            raise UsageError(f"d2 must lie between 1 and {MOST_COUNTED}, not {self.per_user}")
        most = GRID / math.sqrt(self.most_counted)  # of the sampler, for steps of 2^-20
        for scale, largest in ((self.scale, most), (self.histogram_scale, GRID)):
            if not LEAST_SCALE <= scale < largest:
                raise UsageError(
                    f"a scale of the counts must lie between {LEAST_SCALE:g} and {largest:.6g}, not "
                    f"{scale!r}"
                )

    @property
    def most_counted(self) -> int:
        """The largest d2 that can be used."""
        return CHOICES[-1] if self.per_user is None else self.per_user

    def noise(self, d2: int) -> float:
        """sigma, the noise of the counts once d2 is known, in users."""
        sigma = round_up(math.sqrt(d2) * self.scale)
        while sigma * sigma < d2 * self.scale * self.scale:
            sigma = math.nextafter(sigma, math.inf)
        return sigma

    @property
    def least_noise(self) -> float:
        """The least noise of a count, whatever d2 was chosen."""
        return self.noise(self.per_user or CHOICES[0])

    @property
    def largest_scale(self) -> float:
        """The largest scale of its draws, in the integers that are drawn."""
        return max(GRID * self.noise(self.most_counted), self.histogram_scale)

    def squared_shift(self, t: Floats, d: Floats) -> Floats:
        """What one unit moves, squared and in standard deviations; the same for all t of d items.

        Also where t = d: the unit may hold published items beyond its bound.
        """
        return np.full(np.shape(t), self.loss)

    @property
    def loss(self) -> float:
        """What the histogram and the counts add to mu^2."""
        return 1 / self.scale**2 + 1 / self.histogram_scale**2
