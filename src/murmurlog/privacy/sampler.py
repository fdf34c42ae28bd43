"""The only place where privacy noise is drawn: integer noise, from the system's entropy.

Each draw inverts the exact law at 127 uniform bits: it returns the k with
P(|Z| > k) <= V < P(|Z| >= k), V being the bits read as a fraction, and a fair sign. Floating point
only proposes k. Where V is so near a border between two integers that rounding could matter, or so
far in the tail that 63 bits are too coarse, 64 further bits are drawn and the border is
computed in long arithmetic. So the result is a function of V alone, not of the platform's
rounding, and any scale works without a table.

Laws: "geometric" has P(k) proportional to exp(-|k|/scale); "gaussian" is the *rounded* normal,
round(Z), for which every theorem about Z holds because rounding is post-processing (it is not
the discrete Gaussian).

`draw_passers` and `draw_tails` draw what a threshold leaves of many geometric draws without making
each of them, by the same inversion; `draw_below` draws public choices (which of many equal candidates).
"""

import hashlib
import math
import os
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import erfcinv

from murmurlog.errors import UsageError
from murmurlog.privacy.long_arithmetic import Real, mp, precision

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.uint64]  # of each item a row: the two words of its 128-bit key

STEP = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64

BATCH = 1 << 20
MOST_DRAWS = 1 << 40  # a public bound on the draws of a release, for `sampler_delta`
MOST_SCALE = 2.0**40
MOST_VALUES = (
    1 << 36
)  # a public bound on the distinct texts, combinations and lists that a release keys
MOST_LISTED = 1 << 32  # of them those of tables that are public or published
# That two of them have one 128-bit key (docs/explanation/guarantee.md#keys-of-texts).
KEY_DISTANCE = MOST_VALUES * (MOST_VALUES - 1) / 2 * 2.0**-128
MOST_PASSERS = 10**8  # a bound on the mean of `draw_passers`
# Far above the error of erfcinv, log and the arithmetic after them (a few 1e-16, relative);
# tests compare with long arithmetic at random and at hostile points.
GUARD = 1e-12
TAIL = 1 << 43  # below this the upper 63 bits alone are coarser than GUARD


class Entropy(Protocol):
    """A source of uniform bytes. Output of a `seeded` source is not private."""

    seeded: bool

    def bytes(self, count: int) -> bytes:
        """Fresh bytes; of a seeded source the next ones of its stream."""

    def stream(self, *label: str | int) -> "Entropy":
        """A source of its own for one purpose: a table, a step, a round."""

    def words(self, keys: Keys, place: int) -> Words:
        """A word for each item; of a seeded source a function of its stream, the key and the place."""


class SystemEntropy:
    """The operating system's generator: secret, and fresh in every process and fork."""

    seeded = False

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def stream(self, *label: str | int) -> "SystemEntropy":
        return self

    def words(self, keys: Keys, place: int) -> Words:
        return np.frombuffer(self.bytes(8 * len(keys)), np.uint64)


_SEEDED = threading.Lock()  # two threads never take the same bytes, or the same stream


class SeededEntropy:
    """Reproducible bytes for demonstrations and tests. The output is not private.

    What an item draws depends on the seed, the stream and the item's key alone: not on the order of
    items, nor on how they are spread over batches, partitions or workers. Other draws take the bytes
    of their stream one after the other. A label that comes again is another stream.
    """

    seeded = True

    def __init__(self, seed: int, *label: str | int) -> None:
        self.seed, self.label = seed, label
        digest = hashlib.shake_128(repr((seed, *label)).encode()).digest(32)
        self._start, self._first, self._second, self._position = (
            *np.frombuffer(digest, "<u8")[:3],
            0,
        )
        self._streams: Counter[tuple[str | int, ...]] = Counter()

    def bytes(self, count: int) -> bytes:
        with _SEEDED:
            first, self._position = self._position, self._position + count
        words = np.arange(first // 8, (first + count + 7) // 8, dtype=np.uint64)
        return mix(self._start + words * STEP).tobytes()[first % 8 :][:count]

    def stream(self, *label: str | int) -> "SeededEntropy":
        with _SEEDED:
            self._streams[label] += 1
            number = self._streams[label]
        return SeededEntropy(self.seed, *self.label, *label, f"#{number}")

    def words(self, keys: Keys, place: int) -> Words:
        return mix(
            mix((keys[:, 0] ^ self._first) + np.uint64(place) * STEP) + (keys[:, 1] ^ self._second)
        )


def mix(words: Words) -> Words:
    """A bijection of 64-bit words whose every bit depends on every bit (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def draw(
    *,
    noise: str,
    scale: float,
    count: int,
    entropy: Entropy,
    keys: Keys | None = None,
) -> Integers:
    """`count` independent integers of the law; with `keys`, one for each item that has this key.

    An item must not draw twice from one stream: a seeded source would repeat its bits.
    """
    if noise not in ("geometric", "gaussian"):
        raise UsageError(f"unknown noise {noise!r}: mechanisms draw geometric or gaussian")
    _check_scale(scale)
    items = keys if entropy.seeded else None
    parts = [
        _draw_batch(noise, scale, min(BATCH, count - start), entropy, items, start)
        for start in range(0, count, BATCH)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def draw_tails(*, scale: float, T: int, count: int, entropy: Entropy) -> Integers:
    """`count` independent geometric draws Z, each given that Z >= T.

    The law has no memory: for T >= 0 it is T + G with P(G >= k) = exp(-k/scale). Below 0 draws that
    miss T, at most every second one, are made again.
    """
    _check_scale(scale)
    parts = [np.zeros(0, np.int64)]
    while (missing := count - sum(map(len, parts))) > 0:
        if T >= 0:
            parts.append(T + _draw_batch("tail", scale, min(BATCH, missing), entropy))
        else:
            values = _draw_batch("geometric", scale, min(BATCH, missing), entropy)
            parts.append(values[values >= T])
    return np.concatenate(parts)


def draw_passers(*, scale: float, T: int, count: int, entropy: Entropy) -> int:
    """How many of `count` independent geometric draws are at least T, from a single draw.

    The number is Binomial(count, s) with s = P(Z >= T). It is found by inverting its distribution
    function at 127 bits, in long arithmetic. Each of the fewer than 2^19 integers within
    20 sqrt(mean) + 200 of the mean has its probability wrong by at most 2^-126, and the rest has
    less than 2^-286 together (Bernstein), so the law is within total variation 2^-107 of the exact
    one: as much as `sampler_delta` allows for 2^18 draws of the smallest scale.
    """
    _check_scale(scale)
    if count < 0:
        raise UsageError(f"the number of draws must be at least 0, not {count}")
    check_passers(scale=scale, T=T, count=count)
    with precision(500):
        return _binomial(count, *_survival(scale, T), _bits(entropy))


def draw_binomial(count: int, p: Real, *, entropy: Entropy) -> int:
    """A draw of Binomial(count, p), by the same inversion as `draw_passers` and as exact."""
    with precision(500):
        p = +mp.mpf(p)
        if not 0 <= p <= 1 or count * p > MOST_PASSERS:
            raise UsageError(f"no binomial of {count} with {mp.nstr(p, 3)} can be drawn")
        if count == 0 or p in (0, 1):
            return count if p == 1 else 0
        return _binomial(count, p, 1 - p, _bits(entropy))


def draw_fraction(entropy: Entropy) -> Real:
    """A uniform fraction of 127 bits."""
    return (mp.mpf(_bits(entropy)) + 0.5) / mp.mpf(2) ** 127


def draw_normal(edge: Real | None, *, entropy: Entropy) -> Real:
    """A standard normal number, at the working precision; given that it is at least `edge`."""
    fraction = draw_fraction(entropy)
    if edge is not None:
        fraction *= mp.erfc(edge / mp.sqrt(2)) / 2
    # P(Z >= z) = fraction
    low = fraction <= 0.5
    z = mp.sqrt(2) * _erfc_inverse(2 * (fraction if low else 1 - fraction))
    return z if low else -z


def _bits(entropy: Entropy) -> int:
    """127 uniform bits."""
    return int.from_bytes(entropy.bytes(16), "little") >> 1


def check_passers(*, scale: float, T: int, count: int) -> None:
    """Raises if `draw_passers` would be more than 10^8 on average; call it with a public count."""
    with precision(60):
        mean = count * _survival(scale, T)[0]
    if mean > MOST_PASSERS:
        raise UsageError(
            f"about {mp.nstr(mean, 3)} of {count} draws of scale {scale:.6g} reach T={T}, more "
            "than the 10^8 that can be handled: raise T"
        )


def draw_below(
    limits: int | Sequence[int], *, count: int = 1, entropy: Entropy
) -> npt.NDArray[Any]:
    """Independent uniform integers in [0, limit): `count` for one limit, or one for each limit.

    Exact, by rejection. An array of 64-bit integers, or of Python's if a limit is above 2^63.
    """
    if isinstance(limits, int | np.integer):
        several, least, most = None, int(limits), int(limits)
    else:
        several, count = limits, len(limits)
        least, most = (int(min(limits)), int(max(limits))) if count else (1, 1)
    if least < 1:
        raise UsageError(f"there is no integer in [0, {least})")
    if most > 2**63:
        large = [most] * count if several is None else [int(limit) for limit in several]
        return np.array([_below(limit, entropy) for limit in large], dtype=object)
    n = np.full(count, most, np.uint64) if several is None else np.asarray(several, dtype=np.uint64)
    uneven = (np.uint64(0) - n) % n  # 2^64 mod n: that many words would favour the small numbers
    numbers = np.zeros(count, np.int64)
    todo = np.arange(count)
    while len(todo):
        words = np.frombuffer(entropy.bytes(8 * len(todo)), np.uint64)
        good = words >= uneven[todo]
        numbers[todo[good]] = (words[good] % n[todo[good]]).astype(np.int64)
        todo = todo[~good]
    return numbers


def _below(limit: int, entropy: Entropy) -> int:
    bits = (limit - 1).bit_length()
    while True:
        number = int.from_bytes(entropy.bytes((bits + 7) // 8), "little") & ((1 << bits) - 1)
        if number < limit:
            return number


def _check_scale(scale: float) -> None:
    if not 0 < scale <= MOST_SCALE:
        raise UsageError(f"the noise scale must lie between 0 and 2^40, not {scale!r}")


def _draw_batch(
    noise: str,
    scale: float,
    count: int,
    entropy: Entropy,
    keys: Keys | None = None,
    start: int = 0,
) -> Integers:
    if keys is not None:
        keys = keys[start : start + count]
    elif entropy.seeded:  # numbered in the order of the stream, however many are drawn at once
        keys = np.frombuffer(entropy.bytes(16 * count), np.uint64).reshape(count, 2)
    words = _words(entropy, count, keys, 0)
    upper = words >> np.uint64(1)  # 63 bits of V
    k, sure = _propose(noise, scale, upper)
    unsure = np.flatnonzero(~sure)
    lower = _words(entropy, len(unsure), None if keys is None else keys[unsure], 1)
    for i, bits in zip(unsure, lower, strict=True):
        k[i] = _exactly(noise, scale, (int(upper[i]) << 64) | int(bits))
    if noise == "tail":
        return k
    negative = (words & np.uint64(1)).astype(bool)
    return np.where(negative, -k, k)


def _words(entropy: Entropy, count: int, keys: Keys | None, place: int) -> Words:
    if keys is None:
        return np.frombuffer(entropy.bytes(8 * count), np.uint64)
    return entropy.words(keys, place)


def _propose(
    noise: str, scale: float, upper: npt.NDArray[np.uint64]
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """k by floating point, and whether rounding cannot have changed it."""
    V = (upper.astype(np.float64) + 0.5) * 2.0**-63
    if noise == "gaussian":
        y = scale * math.sqrt(2) * erfcinv(V) + 0.5
    else:
        most = 1.0 if noise == "tail" else 2 / (1 + math.exp(-1 / scale))
        y = scale * (math.log(most) - np.log(V))
    k = np.floor(y)
    to_border = np.minimum(y - k, k + 1 - y)
    # y is off by a few 1e-16 of itself and, as V is rounded near 1, of the scale; and by at most 2^-44 of the
    # scale for the bits of V that are not drawn (TAIL).
    sure = (to_border > GUARD * (np.abs(y) + scale + 1)) & (upper >= TAIL)
    return np.maximum(k, 0).astype(np.int64), sure


def _exactly(noise: str, scale: float, V: int) -> int:
    """The largest k >= 0 with P(|Z| >= k) > V / 2^127, in long arithmetic.

    100 bits and a last step of Newton's method below 2^-33 give y within 2^-22 for every scale up to 2^40
    (sqrt(2) 2^40 times 10 2^-66); where y is nearer than 2^-20 to a whole number, 300 bits decide.
    """
    with precision(100):
        y = _real_draw(noise, scale, V, near=mp.mpf(2) ** -33)
        if abs(y - mp.nint(y)) > mp.mpf(2) ** -20:
            return max(0, int(mp.floor(y)))
    with precision(300):
        return max(0, int(mp.floor(_real_draw(noise, scale, V, near=mp.mpf(2) ** -250))))


def _real_draw(noise: str, scale: float, V: int, *, near: Real) -> Real:
    """The y with P(|Z| >= k) > V / 2^127 for every k <= y, at the working precision."""
    fraction, s = (mp.mpf(V) + 0.5) / mp.mpf(2) ** 127, mp.mpf(scale)
    if noise == "gaussian":
        # P(|round(Z)| >= k) = erfc((k - 1/2) / (s sqrt 2))
        return s * mp.sqrt(2) * _erfc_inverse(fraction, near=near) + 0.5
    # P(|Z| >= k) = 2 a^k / (1 + a), and P(G >= k) = a^k for the tail
    most = 1 if noise == "tail" else 2 / (1 + mp.exp(-1 / s))
    return s * (mp.log(most) - mp.log(fraction))


def _erfc_inverse(fraction: Real, *, near: Real | None = None) -> Real:
    """x >= 0 with erfc(x) = fraction, by Newton's method from a floating-point start.

    Ends with a step below `near` (by default 2^-250): x is then within 10 near^2, as x < 10, and rounding.
    """
    x = mp.mpf(float(erfcinv(float(fraction))))
    for _ in range(8):
        step = (mp.erfc(x) - fraction) * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step
        if abs(step) < (mp.mpf(2) ** -250 if near is None else near):
            break
    return x


def _survival(scale: float, T: int) -> tuple[Real, Real]:
    """P(Z >= T) and P(Z < T) of the geometric law, at the working precision."""
    a = mp.exp(-1 / mp.mpf(scale))
    if T >= 1:
        s = a**T / (1 + a)
        return s, 1 - s
    s = a ** (1 - T) / (1 + a)
    return 1 - s, s


def _binomial(count: int, s: Real, r: Real, V: int) -> int:
    """The k with P(M < k) <= V / 2^127 < P(M <= k) for M ~ Binomial(count, s), s + r = 1."""
    with precision(500):  # 200 more than needed: the logarithms of factorials cancel
        fraction = (mp.mpf(V) + 0.5) / mp.mpf(2) ** 127
        mean = count * s
        reach = 20 * mp.sqrt(mean) + 200
        k = max(0, int(mean - reach))
        last = min(count, int(mean + reach) + 1)
        choices = mp.loggamma(count + 1) - mp.loggamma(k + 1)
        choices -= mp.loggamma(count - k + 1)
        mass = mp.exp(choices + k * mp.log(s) + (count - k) * mp.log(r))
    with precision(300):
        odds, total = s / r, +mass
        while total <= fraction and k < last:
            mass *= odds * (count - k) / (k + 1)
            k += 1
            total += mass
    return k


def sampler_delta(*, scale: float, epsilon: float) -> float:
    """What finite bits cost: added to delta for any release of at most 2^40 draws and 2^36 values.

    Each of the integers within 100 scales of 0 has its probability wrong by at most 2^-126, and
    the rest has less than 2^-126 together; n draws from a law within total variation eta of the
    exact one cost (1 + e^epsilon) n eta. A draw of `draw_tails` has no larger eta, and no error but that
    of its draws where T < 0; `draw_below` has none; a call of `draw_passers` or `draw_binomial` counts
    as 2^18 draws, however many it stands for. A number of `draw_normal` that moves up to 8 draws counts
    as 8 of them.
    Texts are known by 128-bit keys; two texts with one key cost as much as an inexact draw.
    """
    return (1 + math.exp(min(epsilon, 700))) * sampler_distance(scale)


def sampler_distance(scale: float) -> float:
    """The total variation between a release and one with exact noise that compares whole texts."""
    return noise_distance(scale) + KEY_DISTANCE


def noise_distance(scale: float) -> float:
    """The total variation that comes from inexact draws."""
    return MOST_DRAWS * (200 * scale + 3) * 2.0**-126
