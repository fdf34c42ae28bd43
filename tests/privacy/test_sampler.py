"""The sampler against its exact law; the same test must reject noise that is too small or large."""

import math
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from quick_cases import sample_cases
from scipy.special import ndtr
from scipy.stats import binom, chi2

from murmurlog.errors import UsageError
from murmurlog.privacy import delta_of_threshold, sampler, thresholds
from murmurlog.privacy.long_arithmetic import mp, precision
from murmurlog.privacy.sampler import (
    GUARD,
    KEY_DISTANCE,
    TAIL,
    SeededEntropy,
    SystemEntropy,
    _exactly,
    _propose,
    _survival,
    check_passers,
    draw,
    draw_below,
    draw_binomial,
    draw_fraction,
    draw_normal,
    draw_passers,
    draw_tails,
    noise_distance,
    sampler_delta,
)
from murmurlog.privacy.sampler import (
    _binomial as _invert,
)

dp.enable_features("contrib")
DRAWS = 200_000


def _binomial(scale, T, count, V):
    with precision(500):
        return _invert(count, *_survival(scale, T), V)


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


@pytest.mark.parametrize("noise", ["geometric", "gaussian", "tail"])
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
            elif noise == "tail":
                V = mpmath.exp(-k / s)
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


@pytest.mark.parametrize("noise", ["geometric", "gaussian", "tail"])
def test_the_exact_road_changes_at_the_exact_border(noise):
    scale, k = 7.86, 12
    with mpmath.workprec(300):
        s = mpmath.mpf(scale)
        if noise == "gaussian":
            border = mpmath.erfc((k - mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2)))
        elif noise == "tail":
            border = mpmath.exp(-k / s)
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
    assert noise_distance(26.4) < 1e-20
    assert 1e-18 < KEY_DISTANCE < 1e-17
    assert sampler_delta(scale=26.4, epsilon=1.0) < 1e-16
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


def share(scale, T):
    """P(Z >= T) of the geometric law, in floating point."""
    a = math.exp(-1 / scale)
    return a**T / (1 + a) if T >= 0 else 1 - a ** (1 - T) / (1 + a)


def p_of_numbers(sample, expected):
    """Chi-squared of integers against probabilities of 0, 1, 2, ..; the rest is one cell."""
    expected = np.append(expected, 1 - expected.sum()) * len(sample)
    observed = np.bincount(np.minimum(sample, len(expected) - 1), minlength=len(expected))
    used = expected > 20
    rest = expected[~used].sum()
    statistic = np.sum((observed[used] - expected[used]) ** 2 / expected[used])
    if rest > 1:
        statistic += (observed[~used].sum() - rest) ** 2 / rest
    return chi2.sf(statistic, used.sum() - (rest <= 1))


@pytest.mark.parametrize(
    ("T", "count"), sample_cases([(30, 900), (1, 20), (300, 10**15), (0, 15), (-4, 12)], every=2)
)
def test_passers_are_binomial_and_of_no_other_scale(T, count):
    scale = 10.0
    entropy = SystemEntropy()
    sample = [draw_passers(scale=scale, T=T, count=count, entropy=entropy) for _ in range(3_000)]

    def p_value(times):
        most = min(count, 2000) + 1
        return p_of_numbers(sample, binom.pmf(np.arange(most), count, share(scale * times, T)))

    assert p_value(1.0) > 1e-9
    if T > 1:  # near 0 the scale hardly matters: a^T/(1 + a) is near 1/2
        assert p_value(0.9) < 1e-9
        assert p_value(1.1) < 1e-9


@pytest.mark.parametrize("times", [0.9, 1.0])
def test_passers_are_as_many_as_draws_that_pass(times):
    scale, T, count = 6.0, 9, 40
    entropy = SystemEntropy()
    draws = draw(noise="geometric", scale=scale, count=4_000 * count, entropy=entropy)
    one_by_one = (draws.reshape(-1, count) >= T).sum(axis=1)
    at_once = [
        draw_passers(scale=scale * times, T=T, count=count, entropy=entropy) for _ in range(4_000)
    ]
    both = np.array([np.bincount(numbers, minlength=41) for numbers in (one_by_one, at_once)])
    used = both.sum(axis=0) > 40
    statistic = np.sum((both[0] - both[1])[used] ** 2 / both.sum(axis=0)[used])
    assert (chi2.sf(statistic, used.sum() - 1) > 1e-9) == (times == 1.0)


@pytest.mark.parametrize(
    ("scale", "T", "count"),
    [(3.7, 5, 9), (3.7, -6, 9), (0.05, 3, 10**18), (20.0, 300, 10**7), (20.0, 640, 10**15)],
)
def test_the_number_of_passers_changes_at_the_exact_border(scale, T, count):
    with mpmath.workprec(900):  # a second way: from 0 up, by long division
        a = mpmath.exp(-1 / mpmath.mpf(scale))
        s = a**T / (1 + a) if T >= 0 else 1 - a ** (1 - T) / (1 + a)
        mass = total = mpmath.exp(count * mpmath.log(1 - s))
        for k in range(min(count, 60)):
            border = int(mpmath.floor(total * 2**127 - 0.5))
            if 0 <= border < 2**127 - 1:
                assert _binomial(scale, T, count, border) == k
                assert _binomial(scale, T, count, border + 1) == k + 1
            mass *= (count - k) * s / ((k + 1) * (1 - s))
            total += mass


def test_passers_take_every_bit_pattern():
    assert draw_passers(scale=2.0, T=5, count=0, entropy=SystemEntropy()) == 0
    for V in (0, 1, 2**126, 2**127 - 1):
        assert 0 <= _binomial(8.0, 100, 10**6, V) <= 10**6
        assert _binomial(8.0, 10**6, 10**15, V) == 0
        assert _binomial(8.0, -(10**6), 1000, V) == 1000
    assert _binomial(8.0, 1, 200_000, 0) < 93_000 < _binomial(8.0, 1, 200_000, 2**127 - 1)


def test_too_many_passers_are_refused_with_what_to_do():
    with pytest.raises(UsageError, match=r"reach T=1, more than the 10\^8 .*: raise T"):
        draw_passers(scale=8.0, T=1, count=10**15, entropy=SystemEntropy())
    with pytest.raises(UsageError, match="raise T"):
        check_passers(scale=8.0, T=1, count=10**400)
    check_passers(scale=8.0, T=300, count=10**15)
    with pytest.raises(UsageError, match="at least 0, not -1"):
        draw_passers(scale=8.0, T=1, count=-1, entropy=SystemEntropy())


@pytest.mark.parametrize("T", [7, 1, 0, -3])
@pytest.mark.parametrize("scale", [0.9, 7.5, 300.0])
def test_tails_are_the_draws_that_pass_and_of_no_other_scale(T, scale):
    sample = draw_tails(scale=scale, T=T, count=DRAWS, entropy=SystemEntropy())
    assert len(sample) == DRAWS
    assert sample.min() == T

    def p_value(scale):
        edges = np.unique(np.quantile(sample, np.linspace(0.001, 0.999, 60)).astype(int))
        missed = law("geometric", scale, T - 1)
        inside = (law("geometric", scale, edges) - missed) / (1 - missed)
        expected = np.diff(np.concatenate([[0], inside, [1]])) * len(sample)
        observed = np.histogram(sample, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
        used = expected > 20
        statistic = np.sum((observed[used] - expected[used]) ** 2 / expected[used])
        return chi2.sf(statistic, used.sum() - 1)

    assert p_value(scale) > 1e-9
    assert p_value(scale * 0.9) < 1e-9
    assert p_value(scale * 1.1) < 1e-9


@pytest.mark.parametrize("limit", [1, 2, 6, 10, 3 * 2**61, 2**63, 3 * 2**63, 10**25])
def test_integers_below_a_limit_are_uniform(limit):
    sample = draw_below(limit, count=40_000, entropy=SystemEntropy())
    assert min(sample) >= 0
    assert max(sample) < limit
    cells = min(limit, 12)
    counts = np.bincount([int(x) * cells // limit for x in sample], minlength=cells)
    low_bits = np.bincount([int(x) % cells for x in sample], minlength=cells)
    for observed in (counts, low_bits):
        expected = 40_000 / cells
        assert chi2.sf(np.sum((observed - expected) ** 2 / expected), max(cells - 1, 1)) > 1e-9


class Words:
    """Entropy that gives known bytes."""

    seeded = True

    def __init__(self, *words):
        self.words = list(words)

    def bytes(self, count):
        return b"".join(self.words.pop(0).to_bytes(8, "little") for _ in range(count // 8))


def test_words_that_would_favour_small_numbers_are_drawn_again():
    # 2^64 mod 3 = 1: exactly one word, 0, is refused; for 3 * 2^61 it is a third of all of them.
    assert draw_below(3, count=1, entropy=Words(0, 2)).tolist() == [2]
    assert draw_below(3, count=1, entropy=Words(1)).tolist() == [1]
    assert draw_below(3 * 2**61, count=1, entropy=Words(2**62 - 1, 2**62)).tolist() == [2**62]
    assert draw_below(3 * 2**61, count=1, entropy=Words(2**62 - 1 + 3 * 2**61)).tolist() == [
        2**62 - 1
    ]


def test_limits_can_differ():
    sample = draw_below([1, 5, 10**17], entropy=SystemEntropy())
    assert sample.dtype == np.int64
    assert all(0 <= x < limit for x, limit in zip(sample, [1, 5, 10**17], strict=True))
    large = draw_below([1, 5, 10**30], entropy=SystemEntropy())
    assert large.dtype == object
    assert large[0] == 0
    assert draw_below([], entropy=SystemEntropy()).tolist() == []
    assert draw_below(9, count=0, entropy=SystemEntropy()).tolist() == []
    with pytest.raises(UsageError, match="no integer in"):
        draw_below([3, 0], entropy=SystemEntropy())


# --- every byte of entropy is used once -----------------------------------------------------------


@pytest.mark.parametrize("make", [SystemEntropy, lambda: SeededEntropy(3)])
def test_no_source_hands_out_the_same_bytes_twice(make):
    """No eight bytes in a row come again, within a block or in a later one."""
    entropy = make()
    sizes = (8, 16, 16, 3, 4096, 8, 100, 1 << 14, 4096, 16, 4095)
    blocks = [entropy.bytes(size) for size in sizes]
    assert [len(block) for block in blocks] == list(sizes)
    windows = [block[at : at + 8] for block in blocks for at in range(len(block) - 7)]
    assert len(set(windows)) == len(windows)


class Tape:
    """Entropy that hands out known bytes in order, and tells how many are left."""

    seeded = False

    def __init__(self, data):
        self.left = data

    def bytes(self, count):
        assert len(self.left) >= count, "more bytes are taken than the law needs"
        block, self.left = self.left[:count], self.left[count:]
        return block


WORDS = [int.from_bytes(SeededEntropy(5).bytes(8), "little") for _ in range(100)]


def invert(noise, scale, word):
    """The draw that one word stands for, whatever its further bits are."""
    low, high = (_exactly(noise, scale, ((word >> 1) << 64) | more) for more in (0, 2**64 - 1))
    assert low == high
    return low if noise == "tail" or word % 2 == 0 else -low


def tape_of(words):
    return Tape(b"".join(word.to_bytes(8, "little") for word in words))


@pytest.mark.parametrize("batch", [1, 16, 100, 1 << 20])
def test_every_draw_takes_words_of_its_own(batch, monkeypatch):
    """In batches of any size the draws are those of the words, each once and in order."""
    monkeypatch.setattr(sampler, "BATCH", batch)
    count, scale = len(WORDS), 7.5
    for noise in ("geometric", "gaussian"):
        tape = tape_of(WORDS)
        draws = draw(noise=noise, scale=scale, count=count, entropy=tape)
        assert draws.tolist() == [invert(noise, scale, word) for word in WORDS]
        assert not tape.left
    tape = tape_of(WORDS)
    draws = draw_tails(scale=scale, T=4, count=count, entropy=tape)
    assert draws.tolist() == [4 + invert("tail", scale, word) for word in WORDS]
    assert not tape.left


def test_choices_and_fractions_take_words_of_their_own():
    tape = tape_of(WORDS)
    assert draw_below(1 << 20, count=100, entropy=tape).tolist() == [w % (1 << 20) for w in WORDS]
    assert not tape.left
    tape = tape_of(WORDS)
    pairs = [low | high << 64 for low, high in zip(WORDS[::2], WORDS[1::2], strict=True)]
    with precision(300), mpmath.workprec(300):
        fractions = [draw_fraction(tape) for _ in pairs]
        assert fractions == [(mpmath.mpf(pair >> 1) + 0.5) / 2**127 for pair in pairs]
        assert not tape.left
        tape, edge = tape_of(WORDS), mpmath.mpf(1)
        for at, fraction in enumerate(fractions):
            least = edge if at % 2 else None
            z = draw_normal(least, entropy=tape)
            above = mpmath.erfc(z / mpmath.sqrt(2)) / 2
            whole = mpmath.erfc(edge / mpmath.sqrt(2)) / 2 if at % 2 else 1
            assert abs(above / whole - fraction) < mpmath.mpf(2) ** -200
        assert not tape.left
    tape, laws = tape_of(WORDS[:4]), (8.0, 3, 20)
    for pair in pairs[:2]:
        assert draw_passers(scale=8.0, T=3, count=20, entropy=tape) == _binomial(*laws, pair >> 1)
    assert not tape.left


@pytest.mark.parametrize("noise", ["geometric", "gaussian", "tail"])
@pytest.mark.parametrize("upper", [1, 5, TAIL - 1])
def test_a_draw_in_the_tail_has_the_127_bits_of_its_words(noise, upper):
    """The further word follows the words of its batch; the survival function brackets V."""
    scale, lower = 1000.25, 0x9E3779B97F4A7C15
    safe = WORDS[0]
    tape = tape_of([upper << 1, safe, lower])
    if noise == "tail":
        k, other = draw_tails(scale=scale, T=0, count=2, entropy=tape)
    else:
        k, other = draw(noise=noise, scale=scale, count=2, entropy=tape)
    assert not tape.left
    assert other == invert(noise, scale, safe)
    with mpmath.workprec(300):
        s, V = mpmath.mpf(scale), mpmath.mpf((upper << 64) | lower) / mpmath.mpf(2) ** 127

        def survival(k):
            if noise == "gaussian":
                return mpmath.erfc((k - mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2)))
            times = 1 if noise == "tail" else 2 / (1 + mpmath.exp(-1 / s))
            return times * mpmath.exp(-k / s)

        assert survival(int(k) + 1) <= V < survival(int(k))


def test_a_binomial_without_chance_takes_no_entropy():
    nothing = Tape(b"")
    assert draw_binomial(0, mpmath.mpf("0.5"), entropy=nothing) == 0
    assert draw_binomial(7, mpmath.mpf(0), entropy=nothing) == 0
    assert draw_binomial(7, mpmath.mpf(1), entropy=nothing) == 7
    for wrong in (-0.1, 1.1):
        with pytest.raises(UsageError, match="no binomial of 7"):
            draw_binomial(7, mpmath.mpf(wrong), entropy=nothing)


def keys_of(count):
    return np.stack([np.arange(count), np.arange(count) % 7], axis=1).astype(np.uint64)


@pytest.mark.parametrize(("noise", "scale"), [("geometric", 3.0), ("gaussian", 2.0**23)])
def test_a_seeded_item_draws_the_same_in_any_order_and_batch(noise, scale):
    """At the large scale some draws need further bits; they are the item's, too."""

    def draw_rows(rows):
        keys = keys_of(4000)[rows]
        return draw(
            noise=noise, scale=scale, count=len(rows), entropy=SeededEntropy(3).stream("x"),
            keys=keys,
        )  # fmt: skip

    rows = np.arange(4000)
    together = draw_rows(rows)
    assert (draw_rows(rows[::-1]) == together[::-1]).all()
    assert (np.concatenate([draw_rows(rows[:1500]), draw_rows(rows[1500:])]) == together).all()
    others = draw(
        noise=noise, scale=scale, count=4000, entropy=SeededEntropy(3).stream("y"),
        keys=keys_of(4000),
    )  # fmt: skip
    assert (others != together).mean() > 0.3


@pytest.mark.parametrize(("noise", "scale"), [("geometric", 3.0), ("gaussian", 2.0**23)])
def test_ten_seeded_draws_are_five_and_five(noise, scale):
    at_once, in_parts = SeededEntropy(3), SeededEntropy(3)
    together = draw(noise=noise, scale=scale, count=4000, entropy=at_once)
    parts = [
        draw(noise=noise, scale=scale, count=count, entropy=in_parts) for count in (1, 2499, 1500)
    ]
    assert (np.concatenate(parts) == together).all()


def test_seeded_bytes_do_not_depend_on_how_many_are_taken_at_once():
    whole = SeededEntropy(4).bytes(100)
    parts = SeededEntropy(4)
    assert b"".join(parts.bytes(count) for count in (1, 7, 0, 30, 62)) == whole
    assert len(set(whole)) > 60


def test_streams_differ_by_label_and_by_how_often_they_came():
    entropy = SeededEntropy(4)
    labels = [("a",), ("b",), ("a", "b"), ("a", 1), ("a",), (1, "a")]
    streams = [entropy.stream(*label) for label in labels]
    assert len({stream.bytes(8) for stream in [entropy, *streams]}) == 7
    nested = SeededEntropy(4).stream("a").stream("b")
    assert nested.bytes(8) == SeededEntropy(4).stream("a").stream("b").bytes(8)
    assert SystemEntropy().stream("a").bytes(8) != SystemEntropy().stream("a").bytes(8)


def test_seeded_draws_with_keys_follow_the_law():
    sample = draw(
        noise="geometric", scale=2.0, count=50_000, entropy=SeededEntropy(9),
        keys=keys_of(50_000),
    )  # fmt: skip
    values, counts = np.unique(np.clip(sample, -8, 8), return_counts=True)
    a = math.exp(-1 / 2.0)
    mass = np.array([(1 - a) / (1 + a) * a ** abs(k) for k in values])
    mass[[0, -1]] = a**8 / (1 + a)
    expected = mass * len(sample)
    assert chi2.sf(np.sum((counts - expected) ** 2 / expected), len(values) - 1) > 1e-9


def test_threads_that_draw_at_once_do_not_change_each_others_precision(monkeypatch):
    precisions, real_draw = [], sampler._real_draw

    def slow_draw(*law, **more):
        before = mp.prec
        time.sleep(0.001)  # another thread's turn
        precisions.append((before, mp.prec))
        return real_draw(*law, **more)

    monkeypatch.setattr(sampler, "_real_draw", slow_draw)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _exactly("gaussian", 2.0**39, number), range(40)))
    assert {*precisions} == {(100, 100)}
    assert mp.prec == 53


def test_a_delta_is_computed_at_its_own_precision_while_threads_draw(monkeypatch):
    precisions, exact = [], thresholds.exact_geometric
    law = {"noise": "geometric", "epsilon": 1.0, "d": 3, "scale": 3.0, "threshold": 30.0}
    alone = delta_of_threshold(**law)

    def slow(*parameters):
        before = mp.prec
        time.sleep(0.001)  # another thread's turn
        mpmath.mp.prec = 20  # and other code that computes with mpmath
        precisions.append((before, mp.prec))
        return exact(*parameters)

    monkeypatch.setattr(thresholds, "exact_geometric", slow)
    monkeypatch.setattr(mpmath.mp, "prec", 53)
    with ThreadPoolExecutor(3) as pool:
        deltas = [pool.submit(delta_of_threshold, **law) for _ in range(8)]
        list(pool.map(lambda number: _exactly("gaussian", 2.0**39, number), range(40)))
        assert {delta.result() for delta in deltas} == {alone}
    assert {*precisions} == {(140, 140)}
    assert mp.prec == 53


def test_threads_never_take_the_same_seeded_bytes_or_stream():
    class SlowNumber(int):
        def __add__(self, other):
            time.sleep(0.001)  # another thread's turn
            return SlowNumber(int(self) + other)

    class SlowCounter(Counter):
        def __setitem__(self, label, number):
            time.sleep(0.001)
            super().__setitem__(label, number)

    entropy = SeededEntropy(4)
    entropy._position, entropy._streams = SlowNumber(0), SlowCounter()
    with ThreadPoolExecutor(4) as pool:
        assert len({*pool.map(lambda _: entropy.bytes(8), range(40))}) == 40
        assert len({*pool.map(lambda _: entropy.stream("round").label, range(40))}) == 40
