"""The number of users in the log, estimated from weighted counts and the histogram of m.

All of it is post-processing of published noise. A weighted count is a sum of parts of users: the
estimate divides it by r, the mean weight of those who hold the item. A model gives r from the
histogram alone: a unit of bin b holds item i with probability 1 - exp(-a_i g_b), with a and g such
that the expected weighted counts and the expected m of each bin are those that were measured. What
the model cannot know (units with like interests hold like items) is in the standard error as an allowance.
The constants were set on invented logs; docs/explanation/counts.md has the measurements.
"""

import math
from dataclasses import dataclass

import numpy as np

from murmurlog.bundle.schema import Z95
from murmurlog.privacy import WeightedCounts, histogram_bins
from murmurlog.privacy.counts import CHOICES
from murmurlog.privacy.noise_laws import Floats
from murmurlog.privacy.sampler import Integers

# Of 1 - r: how far r of an item may lie from the model's, as a standard deviation. Invented logs have up
# to 0.45; Debian's lists of dependencies and of files, where like units hold like items, have 1.0 to 1.2.
ALLOWANCE = 1.0
COMMON_ALLOWANCE = 0.1  # the same for all items together
TAIL_FROM = 4  # bins from this m on are smoothed by a fitted curve
TAIL_ERROR = 0.3  # relative error of the fitted curve
TAIL_MISFIT = 0.5  # relative error of what the fitted curve alone says
CURVATURE, CURVATURE_SD = -0.45, 0.15  # of ln n over ln m, before the data are seen
TYPICAL = 60.0  # d2 is chosen for items of this many users over the noise at d2 = 1
LEAN = 2.0  # counts fall off as n^-2, so what is looked at because it is large is too large
LEAST_RATIO = 0.5  # below it no estimate is reliable
DISTINCT_COUNTS = 20_000  # the model is solved for this many different counts


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How many published items units hold: the histogram, smoothed."""

    units: Floats  # of each bin
    m: Floats  # the mean number of published items of a unit of the bin
    measured: Floats  # the part of `units` that was measured; the rest comes from the curve
    fitted: Floats  # the curve

    def ratio(self, d2: int) -> float:
        """The mean weight of a holding: of all units and items."""
        holdings = self.units * self.m
        weights = (holdings * weight(self.m, d2)).sum()
        return float(weights / holdings.sum()) if holdings.sum() > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class UserEstimates:
    """Estimates of the number of users of each item, with 95 % intervals."""

    users: Floats
    stderr: Floats
    low: Floats
    high: Floats
    ratio: Floats  # r of each item
    common: float  # the relative error that all items share


def weight(m: Floats, d2: int) -> Floats:
    """The weight of each of m items, without rounding."""
    return np.minimum(1.0, np.sqrt(d2 / np.asarray(m, np.float64)))


def choose_d2(counts: WeightedCounts, profile: Profile, *, allowance: float = ALLOWANCE) -> int:
    """The d2 with the least squared error for an item of a typical size."""
    if counts.per_user is not None:
        return counts.per_user

    def loss(d2: int) -> tuple[float, int]:
        r = profile.ratio(d2)
        return d2 / (TYPICAL * r) ** 2 + (allowance * (1 - r)) ** 2, d2

    return min(CHOICES, key=loss)


def smooth(histogram: Integers, *, sd: float, size: int) -> Profile:
    """The profile behind a noisy histogram of `size` published items."""
    h = np.asarray(histogram, np.float64)
    starts = np.array(histogram_bins(size), np.float64)
    ends = np.append(starts[1:] - 1, size)[: len(starts)]  # nothing published: no bin
    m = np.array([_mean_in_bin(a, b, 2.0) for a, b in zip(starts, ends, strict=True)])
    units, measured, fitted = np.maximum(h, 0.0), np.ones(len(h)), np.zeros(len(h))
    tail = np.flatnonzero(starts >= TAIL_FROM)
    if len(tail) >= 5:
        curve = _fit_tail(np.log(m[tail]), h[tail], sd)
        variance = sd**2 + (TAIL_ERROR * curve) ** 2
        misfit = ((h[tail] - curve) ** 2 / variance).sum() / max(1, len(tail) - 3)
        error = np.maximum(TAIL_ERROR * math.sqrt(max(1.0, misfit)) * curve, 1e-9)
        measured[tail] = sd**-2.0 / (sd**-2.0 + error**-2.0)
        fitted[tail] = curve
        mixed = measured[tail] * h[tail] + (1 - measured[tail]) * curve
        units[tail] = np.maximum(mixed, 0.0)
        y, x = np.log(np.maximum(units, 0.5 * sd)), np.log(m)
        for j in tail.tolist():
            i, k = max(j - 1, 0), min(j + 1, len(h) - 1)
            steepness = -(y[k] - y[i]) / (x[k] - x[i])
            m[j] = _mean_in_bin(starts[j], ends[j], 1 + min(max(steepness, -1.0), 6.0))
    return Profile(units=units, m=m, measured=measured, fitted=fitted)


def _mean_in_bin(first: float, last: float, steepness: float) -> float:
    """The mean of m in first..last where the number of units falls as m^-steepness."""
    whole = last - first < 4000
    m = np.arange(first, last + 1) if whole else np.linspace(first, last, 4001)
    share = (m / first) ** -steepness
    return float((m * share).sum() / share.sum())


def _fit_tail(x: Floats, h: Floats, sd: float) -> Floats:
    """The curve exp(a + b x + c x^2) by least squares, c near its usual value and negative."""
    centred = x - x.mean()
    A = np.stack([np.ones_like(x), centred, centred * centred], axis=1)
    clear = h > 2 * sd
    if clear.sum() < 4:
        clear = np.arange(len(h)) < 5
    w = np.sqrt(np.where(clear, 1.0, 1e-3))
    p = np.linalg.lstsq(A * w[:, None], np.log(np.maximum(h, sd)) * w, rcond=None)[0]
    p[2] = min(p[2], -0.02)
    prior = np.diag([1e-6, 1e-6, CURVATURE_SD**-2])
    for _ in range(60):
        curve = np.exp(np.clip(A @ p, -30, 30))
        variance = sd**2 + (TAIL_ERROR * curve) ** 2
        J = A * curve[:, None]
        pull = np.array([0.0, 0.0, (CURVATURE - p[2]) / CURVATURE_SD**2])
        gradient = J.T @ ((h - curve) / variance) + pull
        step = np.clip(np.linalg.solve(J.T @ (J / variance[:, None]) + prior, gradient), -0.5, 0.5)
        p = p + step
        p[2] = min(p[2], -0.02)
        if np.abs(step).max() < 1e-6:
            break
    return np.asarray(np.exp(np.clip(A @ p, -30, 30)))


def weights_of_holders(profile: Profile, d2: int, counts: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of the weights of each item's holders under the model."""
    bins = profile.units > 0
    units, m = profile.units[bins], profile.m[bins]
    w = weight(m, d2)
    if not len(units):
        return np.ones(len(counts)), np.zeros(len(counts))
    counts = np.maximum(counts, 1e-3 * max(counts.max(), 1.0))
    counts = np.minimum(counts, 0.999 * (units * w).sum())
    # The model knows an item by its count only, so equal or nearly equal counts are solved once.
    exact = np.unique(counts)
    if len(exact) > DISTINCT_COUNTS:
        places = np.unique(np.linspace(0, len(exact) - 1, DISTINCT_COUNTS).astype(np.int64))
        exact = exact[places]
    which = np.minimum(np.searchsorted(exact, counts), len(exact) - 1)
    times = np.bincount(which, minlength=len(exact)).astype(np.float64)
    g = np.minimum(m, 0.98 * len(counts))
    wanted = g.copy()
    a = exact / (units * w * g).sum()
    for _ in range(12):
        for _ in range(4):
            E = np.exp(-np.outer(a, g))
            slope = np.maximum(E @ (units * w * g) * a, 1e-12)
            a = a * np.exp(np.clip((exact - (1 - E) @ (units * w)) / slope, -1, 1))
        for _ in range(3):
            E = np.exp(-np.outer(a, g))
            slope = np.maximum(times @ (E * a[:, None]) * g, 1e-12)
            g = g * np.exp(np.clip((wanted - times @ (1 - E)) / slope, -1, 1))
    P = 1 - np.exp(-np.outer(a, g))
    holders = P @ units
    mean = P @ (units * w) / holders
    variance = np.maximum(P @ (units * w * w) / holders - mean * mean, 0.0)
    return mean[which], variance[which]


def misfit(counts: Floats, profile: Profile, *, sd: float, d2: int, sigma: float) -> float:
    """How far the counts and the histogram contradict each other, relative, beyond what noise explains.

    The sum of all weighted counts is the sum of the weights that units of all bins give. If the two
    differ by more than three standard deviations, the smoothed histogram is wrong.
    """
    weights = profile.m * weight(profile.m, d2)
    total, expected = float(counts.sum()), float((profile.units * weights).sum())
    curve = TAIL_MISFIT * (weights * profile.fitted * (1 - profile.measured)).sum()
    noise = ((weights * profile.measured * sd) ** 2).sum() + curve**2 + len(counts) * sigma**2
    return max(0.0, abs(total - expected) - 3 * math.sqrt(noise)) / max(total, expected, 1.0)


def common_error(profile: Profile, *, sd: float, d2: int) -> float:
    """The relative error of all items that follows from the histogram, whose noise is `sd`."""
    lost = profile.m * (1 - weight(profile.m, d2))
    holdings = max(float((profile.units * profile.m).sum()), 1.0)
    noise = ((lost * profile.measured * sd) ** 2).sum()
    curve = TAIL_MISFIT * (lost * profile.fitted * (1 - profile.measured)).sum()
    return math.hypot(
        math.sqrt(noise + curve**2) / holdings, COMMON_ALLOWANCE * (1 - profile.ratio(d2))
    )


def estimate_users(
    counts: Floats,
    profile: Profile,
    *,
    sd: float,
    d2: int,
    sigma: float,
    contradiction: float = 0.0,
    allowance: float = ALLOWANCE,
) -> UserEstimates:
    """Estimates from weighted counts (in users) with noise `sigma`; `sd` is the histogram's noise.

    `contradiction` is a further relative error that all items share: see `misfit`.
    """
    common = math.hypot(common_error(profile, sd=sd, d2=d2), contradiction)
    r, variance = weights_of_holders(profile, d2, np.maximum(counts, sigma))
    users = counts / r
    size = np.maximum(users, 1.0)
    alone = (sigma / r) ** 2 + variance / r**2 * size + (allowance * (1 - r) * size) ** 2
    stderr = np.sqrt(alone + (common * size) ** 2)
    # Too little of these counts was measured: wide, and not reliable.
    stderr = np.where(r < LEAST_RATIO, np.maximum(stderr, size / 2), stderr)
    lean = LEAN * (sigma / r) ** 2 / np.maximum(users, 2 * sigma / r)
    return UserEstimates(
        users=users,
        stderr=stderr,
        low=np.maximum(0.0, users - Z95 * stderr - lean),
        high=np.maximum(0.0, users + Z95 * stderr),
        ratio=r,
        common=common,
    )
