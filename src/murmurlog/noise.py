"""The only place where privacy noise is drawn: integer noise, from the system's entropy.

Each draw inverts the exact law at 127 uniform bits: it returns the k with
P(|Z| > k) <= V < P(|Z| >= k), V being the bits read as a fraction, and a fair sign. Floating point
only proposes k. Wherever V lies so near a border between two integers that rounding could matter,
or so far in the tail that 63 bits do not tell, 64 further bits are drawn and the border is
computed with 300-bit arithmetic. So the result is a function of V alone, not of the platform's
rounding, and any scale works without a table.

Laws: "geometric" has P(k) proportional to exp(-|k|/scale); "gaussian" is the *rounded* normal,
round(Z), for which every theorem about Z holds because rounding is post-processing (it is not
the discrete Gaussian).
"""

import hashlib
import math
import os
from typing import Protocol

import mpmath
import numpy as np
import numpy.typing as npt
from scipy.special import erfcinv

from murmurlog.errors import UsageError

Integers = npt.NDArray[np.int64]

BATCH = 1 << 20
MOST_DRAWS = 1 << 40  # a public bound on the draws of a release, for `sampler_delta`
MOST_SCALE = 2.0**40
# Far above the error of erfcinv, log and the arithmetic after them (a few 1e-16, relative);
# tests compare with long arithmetic at random and at hostile points.
GUARD = 1e-12
TAIL = 1 << 43  # below this the upper 63 bits alone are coarser than GUARD


class Entropy(Protocol):
    """A source of uniform bytes. `seeded` sources make what they touch not private."""

    seeded: bool

    def bytes(self, count: int) -> bytes: ...


class SystemEntropy:
    """The operating system's generator: secret, and fresh in every process and fork."""

    seeded = False

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SeededEntropy:
    """Reproducible bytes for demonstrations and tests. What it makes is not private."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def bytes(self, count: int) -> bytes:
        self._calls += 1
        return hashlib.shake_128(f"{self._seed}:{self._calls}".encode()).digest(count)


def draw(*, noise: str, scale: float, count: int, entropy: Entropy) -> Integers:
    """`count` independent integers of the law."""
    if noise not in ("geometric", "gaussian"):
        raise UsageError(f"unknown noise {noise!r}: mechanisms draw geometric or gaussian")
    if not 0 < scale <= MOST_SCALE:
        raise UsageError(f"the noise scale must lie between 0 and 2^40, not {scale!r}")
    parts = [
        _draw_batch(noise, scale, min(BATCH, count - start), entropy)
        for start in range(0, count, BATCH)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _draw_batch(noise: str, scale: float, count: int, entropy: Entropy) -> Integers:
    words = np.frombuffer(entropy.bytes(8 * count), np.uint64)
    upper = words >> np.uint64(1)  # 63 bits of V
    k, sure = _propose(noise, scale, upper)
    for i in np.flatnonzero(~sure):
        lower = int.from_bytes(entropy.bytes(8), "little")
        k[i] = _exactly(noise, scale, (int(upper[i]) << 64) | lower)
    negative = (words & np.uint64(1)).astype(bool)
    return np.where(negative, -k, k)


def _propose(
    noise: str, scale: float, upper: npt.NDArray[np.uint64]
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """k by floating point, and whether rounding cannot have changed it."""
    V = (upper.astype(np.float64) + 0.5) * 2.0**-63
    if noise == "gaussian":
        y = scale * math.sqrt(2) * erfcinv(V) + 0.5
        size = 10 * scale + 1
    else:
        y = scale * (math.log(2 / (1 + math.exp(-1 / scale))) - np.log(V))
        size = 50 * scale + 1
    k = np.floor(y)
    to_border = np.minimum(y - k, k + 1 - y)
    sure = (to_border > GUARD * size) & (upper >= TAIL)
    return np.maximum(k, 0).astype(np.int64), sure


def _exactly(noise: str, scale: float, V: int) -> int:
    """The largest k >= 0 with P(|Z| >= k) > V / 2^127, in long arithmetic."""
    with mpmath.workprec(300):
        fraction, s = (mpmath.mpf(V) + 0.5) / mpmath.mpf(2) ** 127, mpmath.mpf(scale)
        if noise == "gaussian":
            # P(|round(Z)| >= k) = erfc((k - 1/2) / (s sqrt 2))
            y = s * mpmath.sqrt(2) * _erfc_inverse(fraction) + 0.5
        else:
            # P(|Z| >= k) = 2 a^k / (1 + a)
            y = s * (mpmath.log(2 / (1 + mpmath.exp(-1 / s))) - mpmath.log(fraction))
        return max(0, int(mpmath.floor(y)))


def _erfc_inverse(fraction: "mpmath.mpf") -> "mpmath.mpf":
    """x >= 0 with erfc(x) = fraction, by Newton's method from a floating-point start."""
    x = mpmath.mpf(float(erfcinv(float(fraction))))
    for _ in range(8):
        step = (mpmath.erfc(x) - fraction) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(x * x)
        x += step
        if abs(step) < mpmath.mpf(2) ** -250:
            break
    return x


def sampler_delta(*, scale: float, epsilon: float) -> float:
    """What the 127 bits cost: added to delta for any release of at most 2^40 draws.

    Each of the integers within 100 scales of 0 has its probability wrong by at most 2^-126, and
    the rest has less than 2^-126 together; n draws from a law within total variation eta of the
    exact one cost (1 + e^epsilon) n eta.
    """
    eta = (200 * scale + 3) * 2.0**-126
    return (1 + math.exp(min(epsilon, 700))) * MOST_DRAWS * eta
