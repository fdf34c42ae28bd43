"""Smoothed counts over time: what neighbouring periods say about a period, weighed by noise and change.

A local-level model for each key: the number of users moves from period to period by a random step, and
what is published is that number plus noise of a known size. A Kalman filter and a smoother give the best
linear estimate and its variance. The size of steps, relative to a key's level, is estimated from the
published counts of all keys together, by the part of squared differences that noise does not explain;
for keys whose counts move more than that explains it is raised until it does. Periods are taken
as equally long. Only published numbers are used.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEADY = 1e-3  # of the noise's variance: the least variance of a step
RAISE, RAISES = 2.0, 20  # the variance of a key's steps is doubled at most so often
UNUSUAL = 1.0  # standard deviations of the sum of squared surprises that are taken as chance
DIFFUSE = 1e6  # the variance before the first count, in variances of noise and level


@dataclass(frozen=True, kw_only=True)
class Smoothed:
    """For each row, its smoothed count, the variance left, and other columns under the same weights."""

    values: Floats
    variance: Floats
    others: tuple[Floats, ...]


def smooth(
    *, key: Ints, time: Ints, values: Floats, noise: Floats, others: tuple[Floats, ...] = ()
) -> Smoothed:
    """Smoothed values of rows that are known by key and time; `noise` is the standard deviation."""
    if not len(values):
        return Smoothed(values=values, variance=values, others=others)
    shape = (int(key.max()) + 1, int(time.max()) + 1)
    there = np.zeros(shape, bool)
    there[key, time] = True
    v = np.ones(shape)
    v[key, time] = np.maximum(noise, 1e-6) ** 2
    columns = np.zeros((1 + len(others), *shape))
    columns[:, key, time] = (values, *others)
    weight = there / v
    mean = (columns[0] * weight).sum(axis=1) / weight.sum(axis=1)
    level = np.maximum(mean, 1.0) ** 2
    least = STEADY * there.sum(axis=1) / weight.sum(axis=1)
    q = np.maximum(_relative_step(columns[0], v, there, level) * level, least)
    surprises = there.sum(axis=1) - 1
    for _ in range(RAISES):
        large = _filter(columns, v, there, q, level)[3] > surprises + UNUSUAL * np.sqrt(
            2.0 * np.maximum(surprises, 1)
        )
        if not large.any():
            break
        q = np.where(large, RAISE * q, q)
    state, variance = _smooth_back(columns, v, there, q, level)
    return Smoothed(
        values=state[0, key, time],
        variance=variance[key, time],
        others=tuple(each[key, time] for each in state[1:]),
    )


def _relative_step(y: Floats, v: Floats, there: npt.NDArray[np.bool_], level: Floats) -> float:
    """The variance of a step over the square of the level: weighted moments of differences."""
    both = there[:, 1:] & there[:, :-1]
    squares = ((y[:, 1:] - y[:, :-1]) ** 2)[both]
    noise = (v[:, 1:] + v[:, :-1])[both]
    size = np.broadcast_to(level[:, None], both.shape)[both]
    found = 0.0
    for _ in range(20):  # the weights depend on the step
        weight = size / (noise + found * size) ** 2
        total = float((weight * size).sum())
        found = max(0.0, float((weight * (squares - noise)).sum()) / total) if total else 0.0
    return found


def _filter(
    columns: Floats, v: Floats, there: npt.NDArray[np.bool_], q: Floats, level: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """State and variance after each count, the variance before it, and the sum of squared surprises."""
    state, after, before = np.zeros_like(columns), np.zeros_like(v), np.zeros_like(v)
    x, P = columns[:, :, 0] * 0.0, DIFFUSE * (v.max(axis=1) + level)
    surprise, seen = np.zeros(len(v)), np.zeros(len(v), bool)
    for t in range(v.shape[1]):
        P = P + np.where(seen, q, 0.0)
        before[:, t] = P
        gain = np.where(there[:, t], P / (P + v[:, t]), 0.0)
        off = columns[:, :, t] - x
        surprise += np.where(seen & there[:, t], off[0] ** 2 / (P + v[:, t]), 0.0)
        x, P = x + gain * off, (1 - gain) * P
        seen |= there[:, t]
        state[:, :, t], after[:, t] = x, P
    return state, after, before, surprise


def _smooth_back(
    columns: Floats, v: Floats, there: npt.NDArray[np.bool_], q: Floats, level: Floats
) -> tuple[Floats, Floats]:
    """State and variance given all counts (Rauch, Tung and Striebel)."""
    state, after, before, _ = _filter(columns, v, there, q, level)
    for t in range(v.shape[1] - 2, -1, -1):
        back = after[:, t] / before[:, t + 1]
        state[:, :, t] += back * (state[:, :, t + 1] - state[:, :, t])
        after[:, t] += back**2 * (after[:, t + 1] - before[:, t + 1])
    return state, after
