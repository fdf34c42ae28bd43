"""Smoothed counts against a known truth: less error, and intervals that hold it."""

import numpy as np
import pytest

from murmurlog.bundle.smoothing import smooth

KEYS, TIMES, NOISE = 400, 12, 15.0


def world(seed, *, step=0.1, uneven=0.0, bursts=0.0, season=0.0, keys=KEYS, times=TIMES):
    """True counts that move by random steps, and the same with noise: two arrays of keys by times."""
    rng = np.random.default_rng(seed)
    sizes = step * np.exp(uneven * rng.standard_normal((keys, 1)))
    steps = sizes * rng.standard_normal((keys, times))
    true = (30 * rng.pareto(1.0, (keys, 1)) + 30) * np.exp(steps.cumsum(axis=1))
    once = rng.random(keys) < bursts
    true[once, rng.integers(0, times, keys)[once]] *= 3
    true = np.rint(true * (1 + season * np.sin(2 * np.pi * np.arange(times) / 12)))
    return true, np.rint(true + NOISE * rng.standard_normal(true.shape))


def smoothed(noisy, **more):
    key, time = (each.ravel() for each in np.indices(noisy.shape))
    return smooth(
        key=key, time=time, values=noisy.ravel(), noise=np.full(noisy.size, NOISE), **more
    )


def covered(true, made):
    return np.abs(made.values - true.ravel()) <= 1.96 * np.sqrt(made.variance) + 0.5


def error(values, true):
    return np.sqrt(np.mean((values.ravel() - true.ravel()) ** 2))


@pytest.mark.parametrize(
    ("given", "gain"),
    [
        ({"step": 0.15}, 0.75),
        ({"step": 0.02}, 0.5),
        ({"step": 0.0}, 0.4),
        ({"step": 0.1, "uneven": 1.0}, 0.85),
        ({"step": 0.05, "bursts": 0.1}, 0.8),
        ({"step": 0.05, "season": 0.2}, 0.7),
        ({"step": 0.1, "keys": 40}, 0.75),
        ({"step": 0.15, "times": 3}, 0.85),
    ],
    ids=str,
)
def test_the_error_falls_and_intervals_hold_the_truth(given, gain):
    worlds = [world(seed, **given) for seed in range(8)]
    made = [smoothed(noisy) for _, noisy in worlds]
    before = np.mean([error(noisy, true) for true, noisy in worlds])
    after = np.mean([error(m.values, true) for (true, _), m in zip(worlds, made, strict=True)])
    assert after < gain * before
    hits = [covered(true, m).mean() for (true, _), m in zip(worlds, made, strict=True)]
    assert np.mean(hits) >= 0.93


def test_a_key_that_jumps_is_smoothed_less_than_those_that_do_not():
    true, noisy = world(1, step=0.0)
    true[0, 6:] += 400
    noisy[0, 6:] += 400
    made = smoothed(noisy)
    values = made.values.reshape(true.shape)
    assert np.abs(values[0] - true[0]).max() < 3 * NOISE
    spread = np.sqrt(made.variance).reshape(true.shape)
    assert spread[0].min() > 1.5 * np.median(spread)


def test_weights_add_up_to_one_and_a_missing_time_changes_no_key_but_its_own():
    _, noisy = world(2)
    ones, rising = np.ones(noisy.size), noisy.ravel() * 2
    made = smoothed(noisy, others=(ones, rising))
    assert made.others[0] == pytest.approx(1.0, rel=1e-4)
    assert made.others[1] == pytest.approx(2 * made.values, rel=1e-9)
    key, time = (each.ravel() for each in np.indices(noisy.shape))
    kept = (key != 5) | (time == 3)
    less = smooth(
        key=key[kept], time=time[kept], values=noisy.ravel()[kept], noise=np.full(kept.sum(), NOISE)
    )
    alone = np.flatnonzero(key[kept] == 5)
    assert less.values[alone] == pytest.approx(noisy[5, 3], rel=1e-3)
    assert np.sqrt(less.variance[alone]) == pytest.approx(NOISE, rel=1e-3)


def test_nothing_and_a_single_release_are_smoothed_to_themselves():
    none = np.zeros(0)
    empty = np.zeros(0, np.int64)
    assert len(smooth(key=empty, time=empty, values=none, noise=none).values) == 0
    _, noisy = world(3, times=1)
    made = smoothed(noisy)
    assert made.values == pytest.approx(noisy.ravel(), rel=1e-3)
