"""Exact laws of `rounds`: which of two items show, and whether a key of a pool ever passes."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from murmurlog.privacy.counts import GRID


def law(mechanism, A, B, AB, *, noise=1.0, nodes=220, pools=(0, 0), held_only=False):
    """P(which of two items show) where so many units hold A, B or both; by integration.

    `noise` multiplies what is drawn, for a twin with too little of it. `pools` are the numbers of the
    items' pools, 0 for none; with `held_only`, keys of a pool that nobody holds get no noise: a twin.
    """
    s = mechanism.schedule
    s1, s2 = (noise * scale for scale in s.scales)
    T1, T2 = mechanism._thresholds / GRID
    give_up = mechanism._give_up_threshold(0) / GRID / s.own[0]
    held = [A + AB, B + AB]
    states = []  # of each item after the first round: passed, alive at z with these masses
    for alone, pool in zip((A, B), pools, strict=True):
        low, top = give_up[pool], T1[pool] / s.own[0]
        W = alone + AB * math.isqrt(GRID**2 // 2) / GRID
        if alone + AB == 0 and (pool == 0 or held_only):
            states.append((0.0, np.zeros(1), np.zeros(1)))
            continue
        edges = np.linspace(max(low, W - 9 * s1), max(low, min(top, W + 9 * s1)), nodes + 1)
        masses = np.diff(ndtr((edges - W) / s1))
        states.append((float(ndtr((W - top) / s1)), (edges[1:] + edges[:-1]) / 2, masses))
    (pass_A, z_A, m_A), (pass_B, z_B, m_B) = states
    h_A, h_B = (
        mechanism._attention(0, np.rint(s.own[0] * z * GRID).astype(np.int64), pool)
        for z, pool in zip((z_A, z_B), pools, strict=True)
    )

    def later(z, W, item):
        T = T2[pools[item]]
        return ndtr((s.own[1] * W + s.past[0] * z - T) / (s.own[1] * s2))

    root = np.sqrt(h_A[:, None] ** 2 + h_B[None, :] ** 2)
    both_A = later(z_A[:, None], A + AB * h_A[:, None] / root, 0)
    both_B = later(z_B[None, :], B + AB * h_B[None, :] / root, 1)
    only_A, only_B = later(z_A, held[0], 0), later(z_B, held[1], 1)
    gone_A, gone_B = 1 - pass_A - m_A.sum(), 1 - pass_B - m_B.sum()
    P = np.zeros((2, 2))
    P[1, 1] += pass_A * pass_B
    P[1, 0] += pass_A * gone_B
    P[0, 1] += gone_A * pass_B
    P[0, 0] += gone_A * gone_B
    for b, mass in ((0, gone_B), (1, pass_B)):
        P[1, b] += mass * (m_A @ only_A)
        P[0, b] += mass * (m_A @ (1 - only_A))
    for a, mass in ((0, gone_A), (1, pass_A)):
        P[a, 1] += mass * (m_B @ only_B)
        P[a, 0] += mass * (m_B @ (1 - only_B))
    for a, b in itertools.product((0, 1), repeat=2):
        P[a, b] += m_A @ (np.abs(1 - a - both_A) * np.abs(1 - b - both_B)) @ m_B
    assert P.sum() == pytest.approx(1, abs=1e-9)
    return P.ravel()


HOLDINGS = {"A": (1, 0, 0), "B": (0, 1, 0), "AB": (0, 0, 1), "nothing": (0, 0, 0)}


def largest_delta(mechanism, *, epsilon, worlds, neighbours="add-remove", **how):
    """The largest delta(epsilon) over worlds of other units and what one unit may hold."""
    found = 0.0
    for others in worlds:
        laws = [law(mechanism, *np.add(others, held), **how) for held in HOLDINGS.values()]
        for one, other in itertools.permutations(range(4), 2):
            if neighbours == "add-remove" and 3 not in (one, other):
                continue
            found = max(
                found, float(np.maximum(0, laws[one] - math.exp(epsilon) * laws[other]).sum())
            )
    return found


def worlds_near(top, *, seed, count):
    """Nobody else, and units with weights up to somewhat above the thresholds."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, top, (count, 3)) * (rng.random((count, 3)) < 0.7)
    return [(0, 0, 0), (3, 0, 0), (0, 0, 1), *map(tuple, drawn)]


def passing_chances(schedule, thresholds, *, C, reach, weight=0.0, nodes=40):
    """The chance of a pool key to pass in each round, where its weight is the same in all rounds.

    Nested Gauss-Legendre integrals over the noise of every round, apart from the code of `rounds`.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    T = [threshold / GRID for threshold in thresholds]
    c = [[*schedule.past[:k], schedule.own[k]] for k in range(schedule.rounds)]
    remembered, mass, found = np.zeros(1), np.ones(1), []
    for k, s in enumerate(schedule.scales):
        own = schedule.own[k]
        top = (T[k] - remembered) / own
        found.append(float(mass @ ndtr((weight - top) / s)))
        if k + 1 == schedule.rounds:
            break
        sd = math.hypot(*(a * b for a, b in zip(c[k], schedule.scales, strict=False)))
        give_up = reach * T[-1] * sum(c[k]) / sum(c[-1]) - C * sd
        low = np.maximum((give_up - remembered) / own, weight - 9 * s)
        half = (np.maximum(low, np.minimum(top, weight + 9 * s)) - low) / 2
        z = (low + half)[:, None] + half[:, None] * x
        density = np.exp(-0.5 * ((z - weight) / s) ** 2) / (s * math.sqrt(2 * math.pi))
        mass = (mass[:, None] * half[:, None] * w * density).ravel()
        remembered = (remembered[:, None] + schedule.past[k] * z).ravel()
    return found
