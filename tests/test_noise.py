"""The sampler against its exact law; the same test must reject noise that is too small or large."""

import math
import os

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from murmurlog.errors import UsageError
from murmurlog.noise import (
    GUARD,
    SeededEntropy,
    SystemEntropy,
    _exactly,
    _propose,
    draw,
    sampler_delta,
)

dp.enable_features("contrib")
DRAWS = 200_000


def law(noise, scale, k):
    """P(Z <= k) of the integer law."""
    if noise == "gaussian":
        return ndtr((np.asarray(k) + 0.5) / scale)
    a = math.exp(-1 / scale)
    k = np.asarray(k, dtype=float)
    return np.where(k >= 0, 1 - a ** (k + 1) / (1 + a), a ** (-k) / (1 + a))


def p_value(sample, noise, scale):
    """Chi-squared of the sample against the law, cells of at least 20 expected."""
    edges = np.unique(np.quantile(sample, np.linspace(0.001, 0.999, 60)).astype(int))
    expected = np.diff(np.concatenate([[0], law(noise, scale, edges), [1]])) * len(sample)
    observed = np.histogram(sample, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    used = expected > 20
    statistic = np.sum((observed[used] - expected[used]) ** 2 / expected[used])
    return chi2.sf(statistic, used.sum() - 1)


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
@pytest.mark.parametrize("scale", [0.9, 7.5, 300.0, 2.0**21])
def test_draws_follow_the_law_and_no_other_scale(noise, scale):
    sample = draw(noise=noise, scale=scale, count=DRAWS, entropy=SystemEntropy())
    assert p_value(sample, noise, scale) > 1e-9
    assert p_value(sample, noise, scale * 0.9) < 1e-9  # too much noise for the claim
    assert p_value(sample, noise, scale * 1.1) < 1e-9  # too little


def test_geometric_draws_look_like_opendps():
    scale = 4.0
    ours = draw(noise="geometric", scale=scale, count=20_000, entropy=SystemEntropy())
    theirs = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )([0] * 20_000)
    assert p_value(np.array(theirs), "geometric", scale) > 1e-9
    both = np.histogram(ours, range(-12, 13))[0], np.histogram(theirs, range(-12, 13))[0]
    statistic = np.sum((both[0] - both[1]) ** 2 / (both[0] + both[1]))
    assert chi2.sf(statistic, 24) > 1e-9


def test_rounded_gaussian_is_not_the_discrete_gaussian():
    sigma = 0.5
    sample = draw(noise="gaussian", scale=sigma, count=DRAWS, entropy=SystemEntropy())
    weights = np.exp(-(np.arange(-6, 7) ** 2) / (2 * sigma**2))
    discrete_zero = weights[6] / weights.sum()
    rounded_zero = ndtr(0.5 / sigma) - ndtr(-0.5 / sigma)
    zero, sd = np.mean(sample == 0), math.sqrt(0.25 / DRAWS)
    assert abs(zero - rounded_zero) < 7 * sd
    assert abs(zero - discrete_zero) > 50 * sd


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
@pytest.mark.parametrize("scale", [0.3, 7.86, 1234.5, 2.0**21])
def test_floating_point_never_decides_near_a_border(noise, scale):
    rng = np.random.default_rng(5)
    random = rng.integers(0, 2**63, 300, dtype=np.uint64)
    with mpmath.workprec(300):  # V just beside the border of an integer
        borders = []
        for k in rng.integers(1, int(8 * scale) + 4, 100):
            s, k = mpmath.mpf(scale), int(k)
            if noise == "gaussian":
                V = mpmath.erfc((k - mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2)))
            else:
                V = 2 * mpmath.exp(-k / s) / (1 + mpmath.exp(-1 / s))
            borders += [int(V * 2**63) + step for step in (-1, 0, 1)]
    hostile = np.array([b for b in borders if 0 <= b < 2**63], dtype=np.uint64)
    for upper in (random, hostile):
        k, sure = _propose(noise, scale, upper)
        for i in np.flatnonzero(sure):
            for lower in (0, 2**64 - 1):
                assert _exactly(noise, scale, (int(upper[i]) << 64) | lower) == k[i]
    assert _propose(noise, scale, random)[1].mean() > 0.95


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_the_exact_road_changes_at_the_exact_border(noise):
    scale, k = 7.86, 12
    with mpmath.workprec(300):
        s = mpmath.mpf(scale)
        if noise == "gaussian":
            border = mpmath.erfc((k - mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2)))
        else:
            border = 2 * mpmath.exp(-k / s) / (1 + mpmath.exp(-1 / s))
        below = int(mpmath.floor(border * 2**127))
    assert _exactly(noise, scale, below - 1) == k
    assert _exactly(noise, scale, below + 1) == k - 1


def test_a_tail_of_one_in_2_to_the_100_is_reached():
    assert _exactly("geometric", 10.0, 2**27) > 600
    assert _exactly("gaussian", 10.0, 2**27) > 110


def test_every_process_draws_its_own_noise():
    draw(noise="geometric", scale=50.0, count=10, entropy=SystemEntropy())
    read, write = os.pipe()
    child = os.fork()
    here = draw(noise="geometric", scale=50.0, count=50, entropy=SystemEntropy())
    if child == 0:
        os.write(write, here.tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 400) != here.tobytes()
    os.close(read)
    os.close(write)


def test_a_seed_repeats_and_says_so():
    first, again = (
        draw(noise="gaussian", scale=9.0, count=1000, entropy=SeededEntropy(7)) for _ in range(2)
    )
    assert np.array_equal(first, again)
    assert SeededEntropy(7).seeded
    assert not SystemEntropy().seeded


def test_the_sampler_costs_next_to_nothing():
    assert sampler_delta(scale=26.4, epsilon=1.0) < 1e-20
    assert 1000 * np.finfo(float).eps < GUARD


@pytest.mark.parametrize(
    ("noise", "scale", "message"),
    [
        ("laplace", 1.0, "unknown noise 'laplace'"),
        ("geometric", 0.0, "must lie between 0 and 2"),
        ("gaussian", math.inf, "must lie between 0 and 2"),
    ],
)
def test_bad_noise_is_named(noise, scale, message):
    with pytest.raises(UsageError, match=message):
        draw(noise=noise, scale=scale, count=1, entropy=SystemEntropy())
