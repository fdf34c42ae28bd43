"""Estimates of true counts from published noisy counts: bias corrected, error stated.

A count that passed a threshold is too high on average, the more so the nearer it lies to it. The
correction subtracted here is the ridge solution of "right on average for every true count from T
up", computed from the exact law of the noise. It is a function of the noisy value and of public
parameters only (A9), monotone, and leaves less than a sixth of the noise's standard deviation
of bias for true counts of T and more (uncorrected: up to four fifths).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from murmurlog.privacy import noise_sd

Floats = npt.NDArray[np.floating[Any]]

RIDGE = 0.01
CORRECTED_SD = 8  # how far above T the correction reaches, in standard deviations
RIGHT_UP_TO_SD = 6  # up to which true counts, above T, it is unbiased
WIDEST_SD = 64.0  # larger noise has the same shape: solve at this size and stretch


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Estimated true counts, their standard errors and whether they are reliable."""

    users: npt.NDArray[np.int64]
    stderr: Floats
    reliable: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Selection:
    """The law "integer noise, published iff >= T" and what it does to published values."""

    noise: str
    scale: float
    T: int

    def estimates(self, noisy: npt.NDArray[np.int64]) -> Estimates:
        """The estimates for published noisy values, each at least T."""
        above, correction, error = self._curves()
        excess = (noisy - self.T).astype(np.float64)
        sd = noise_sd(noise=self.noise, scale=self.scale)
        users = np.rint(noisy - np.interp(excess, above, correction, right=0.0)).astype(np.int64)
        users = np.maximum(users, 1)  # somebody holds it
        stderr = np.interp(excess, above, error, right=sd)
        # Official statistics' rule of thumb: a relative standard error of at most a quarter.
        return Estimates(users=users, stderr=stderr, reliable=4 * stderr <= users)

    def least_estimate(self) -> int:
        """The least value `estimates` can give."""
        above, _, _ = self._curves()
        # Linear between these points, where it may fall: the least is beside one of them.
        beside = np.concatenate([np.floor(above), np.ceil(above)]).astype(np.int64)
        return int(self.estimates(self.T + beside).users.min())

    def least_error(self) -> float:
        """The least standard error `estimates` can state."""
        _, _, error = self._curves()
        return min(float(error.min()), noise_sd(noise=self.noise, scale=self.scale))

    def _curves(self) -> tuple[Floats, Floats, Floats]:
        """(y - T, correction, standard error) at which to interpolate."""
        stretch = max(1.0, noise_sd(noise=self.noise, scale=self.scale) / WIDEST_SD)
        scale = self.scale / stretch
        sd = noise_sd(noise=self.noise, scale=scale)
        values = np.arange(int(60 * scale) + 60)  # y - T; further out there is no mass
        near = int(CORRECTED_SD * sd) + 3
        true = np.arange(int(RIGHT_UP_TO_SD * sd) + 2)  # n - T
        law = self._law(true, values, scale)
        bias = law @ values - true
        A = law[:, :near]
        h = np.linalg.solve(A.T @ A + RIDGE * np.eye(near), A.T @ bias)
        estimate = values.astype(np.float64)
        estimate[:near] -= h
        # The root mean square error if the true count were the estimate itself.
        wide = np.arange(int(np.floor(estimate[0])), near + 1)
        squares = (estimate[None, :] - wide[:, None]) ** 2
        rmse = np.sqrt(np.sum(self._law(wide, values, scale) * squares, axis=1))
        return (
            values[:near] * stretch,
            h * stretch,
            np.interp(estimate[:near], wide, rmse) * stretch,
        )

    def _law(
        self, true: npt.NDArray[np.int64], values: npt.NDArray[np.int64], scale: float
    ) -> Floats:
        """P(noisy = T + value | published, n = T + true), a row for each true count."""
        away = values[None, :] - true[:, None]
        if self.noise == "gaussian":
            mass = ndtr((away + 0.5) / scale) - ndtr((away - 0.5) / scale)
            mass = np.where(
                away > 0, ndtr((0.5 - away) / scale) - ndtr((-0.5 - away) / scale), mass
            )
        else:
            mass = np.exp(-np.abs(away) / scale)
        total = mass.sum(axis=1, keepdims=True)
        return np.asarray(mass / np.where(total > 0, total, 1.0))
