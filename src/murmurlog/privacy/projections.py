"""Projections that make noisy numbers consistent: non-increasing sequences, non-negative numbers.

They are applied to noisy numbers only, so they cost no privacy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]


def nonincreasing(values: Floats, weights: Floats) -> Floats:
    """The nearest sequence that does not rise, in weighted squares (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many values
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, many = value, weight, 1
        while pools and pools[-1][0] <= mean:
            before, its_weight, its_many = pools.pop()
            mean = (before * its_weight + mean * total) / (its_weight + total)
            total, many = total + its_weight, many + its_many
        pools.append((mean, total, many))
    return np.repeat([mean for mean, _, _ in pools], [many for _, _, many in pools])


def nonnegative(values: Floats, total: float) -> Floats:
    """The nearest numbers of this sum that are not negative; zeros if the sum is not positive."""
    if total <= 0:
        return np.zeros(len(values))
    high = np.sort(values)[::-1]
    over = (np.cumsum(high) - total) / np.arange(1, len(high) + 1)
    last = int(np.flatnonzero(high > over)[-1])
    return np.asarray(np.maximum(values - over[last], 0.0))


def length_above_noise(values: Floats, stderr: float) -> int:
    """The number of leading values before a tail that noise alone explains.

    In such a tail, every suffix has a sum of less than two of its standard errors.
    """
    ends = np.cumsum(values[::-1])
    errors = 2 * stderr * np.sqrt(np.arange(1, len(values) + 1))
    seen = np.flatnonzero(ends >= errors)
    return len(values) - int(seen[0]) if len(seen) else 1
