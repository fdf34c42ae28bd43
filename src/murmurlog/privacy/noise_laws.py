"""The three noise laws as mathematics: tails, and the exact privacy loss of shifting them by one.

"laplace" is the continuous law of the papers, "geometric" its integer form (discrete Laplace) and
"gaussian" the normal law, whose rounding to integers is what mechanisms draw. Scales are the
paper's letters: b for the first two, sigma for the third. Nothing here draws noise.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, log_ndtr, ndtr

from murmurlog.errors import UsageError
from murmurlog.privacy.long_arithmetic import mp, precision

Floats = npt.NDArray[np.floating[Any]]
NOISES = ("laplace", "geometric", "gaussian")
MOST_LAPLACE_COPIES = 400  # quadratically many terms, in long arithmetic
# Of a binomial tail by bdtrc, relative: at least three times what was measured for 1 to 10^5 copies.
TAIL_ERROR = 1e-14
ULPS = 4e-16  # of epsilon and 1/b, which are exponents


def check_noise(noise: str, scale: float) -> None:
    """Raises unless the law is known and its scale is a positive number."""
    if noise not in NOISES:
        raise UsageError(f"unknown noise {noise!r}: use one of {', '.join(NOISES)}")
    if not (scale > 0 and math.isfinite(scale)):
        raise UsageError(f"the noise scale must be a positive number, not {scale!r}")


def survival(*, noise: str, scale: float, x: float) -> float:
    """P(Z > x), and for the integer law "geometric" P(Z >= x)."""
    check_noise(noise, scale)
    if noise == "gaussian":
        return float(ndtr(-x / scale))
    if noise == "laplace":
        return math.exp(-x / scale) / 2 if x >= 0 else 1 - math.exp(x / scale) / 2
    if x != int(x):
        raise UsageError(f"geometric noise lives on the integers; {x!r} is not one")
    a = math.exp(-1 / scale)
    return math.exp(-x / scale) / (1 + a) if x >= 1 else 1 - math.exp((x - 1) / scale) / (1 + a)


def noise_sd(*, noise: str, scale: float) -> float:
    """The standard deviation of one draw as mechanisms make it (rounded, for gaussian)."""
    check_noise(noise, scale)
    if noise == "gaussian":
        return math.sqrt(scale**2 + 1 / 12)
    if noise == "laplace":
        return math.sqrt(2) * scale
    return math.exp(-0.5 / scale) * math.sqrt(2) / -math.expm1(-1 / scale)


def hockey_stick(*, noise: str, epsilon: float, copies: int, scale: float) -> float:
    """sup over sets S of P(S) - e^epsilon Q(S), P and Q being `copies` draws shifted by 1 or not.

    epsilon may be any real number. Exact for all three laws (docs/explanation/guarantee.md), but for
    floating point: for "geometric" an upper bound, see `exact_geometric`.
    """
    check_noise(noise, scale)
    if copies < 0:
        raise UsageError(f"copies must be at least 0, not {copies}")
    return float(hockey_sticks(noise, np.array([epsilon]), np.array([copies]), scale)[0])


def hockey_sticks(
    noise: str, epsilon: Floats, copies: npt.NDArray[np.int64], scale: float
) -> Floats:
    """hockey_stick for arrays of epsilon and copies of one shape."""
    nothing = np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0.0)))
    some = np.maximum(copies, 1)
    if noise == "gaussian":
        value = _gaussian(epsilon, np.sqrt(some) / scale)
    elif noise == "geometric":
        value = _geometric(epsilon, some, scale)
    else:
        pairs = zip(epsilon.ravel(), some.ravel(), strict=True)
        value = np.array([_laplace(float(e), int(j), scale) for e, j in pairs])
        value = value.reshape(epsilon.shape)
    return np.where(copies == 0, nothing, np.clip(value, 0.0, 1.0))


def _gaussian(epsilon: Floats, mu: Floats) -> Floats:
    # Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), as exp(first) * (1 - exp(second - first)).
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of the Gaussian mechanism whose sensitivity is mu standard deviations."""
    if mu == 0:
        return max(0.0, -math.expm1(min(epsilon, 0.0)))
    return float(_gaussian(np.array([epsilon]), np.array([mu]))[0])


def _geometric(epsilon: Floats, copies: npt.NDArray[np.int64], scale: float) -> Floats:
    # The loss of one coordinate is +-1/b with odds 1 : a, so the sum over i of T1 is a
    # difference of two binomial tails: at most `last` of the copies lose 1/b the other way.
    # Where the two are nearly equal few digits of it are right, so their error is added.
    a = math.exp(-1 / scale)
    last = np.ceil((copies - epsilon * scale) / 2) - 1
    last = np.clip(last, -1, copies)
    inside, complete = last >= 0, last >= copies
    at = np.clip(last, 0, copies - 1)
    with np.errstate(divide="ignore"):
        # P(X <= last), as P(copies - X > copies - last - 1): 1 - p would lose digits.
        first = np.where(complete, 1.0, bdtrc(copies - at - 1, copies, 1 / (1 + a)))
        second = np.where(complete, 1.0, bdtrc(copies - at - 1, copies, a / (1 + a)))
        value = first - np.exp(np.minimum(epsilon + np.log(second), 0.0))
    error = TAIL_ERROR * (1 + copies) + ULPS * (copies / scale + np.abs(epsilon))
    return np.where(inside, np.maximum(value, 0.0) + error * first, 0.0)


def exact_geometric(epsilon: Any, copies: int, scale: float) -> Any:
    """The hockey stick of `copies` geometric draws in long arithmetic: the sum of T1, term by term."""
    b = mp.mpf(scale)
    if copies == 0 or epsilon * b <= -copies:
        return max(mp.mpf(0), -mp.expm1(epsilon))
    last = min(copies, int(mp.ceil((copies - epsilon * b) / 2)) - 1)
    if last < 0:
        return mp.mpf(0)
    a = mp.exp(-1 / b)
    chance = mp.binomial(copies, last) * a**last / (1 + a) ** copies
    total, mode = mp.mpf(0), copies * a / (1 + a)
    for i in range(last, -1, -1):
        total += chance * -mp.expm1(epsilon - (copies - 2 * i) / b)
        if i < mode and chance < total * mp.mpf(2) ** -70:
            break  # the rest falls faster than a geometric series
        chance *= mp.mpf(i) / ((copies - i + 1) * a)
    return total


def _laplace(epsilon: float, copies: int, scale: float) -> float:
    """The exact hockey stick of continuous Laplace noise, as a finite sum.

    The loss of one coordinate has the transform cosh(s/b) + sinh(s/b)/(2s). Expanding its power
    and inverting term by term gives exponentials at the lattice points k/b, times the series
    f_m(t) = 2 sum_i (t/2)^(2i+m+1)/(2i+m+1)!. The signs alternate, hence the long arithmetic.
    """
    if copies > MOST_LAPLACE_COPIES:
        raise UsageError(
            f"the exact loss of {copies} copies of continuous Laplace noise takes too long "
            f"(at most {MOST_LAPLACE_COPIES}); use geometric noise, its integer form"
        )
    if epsilon >= copies / scale:
        return 0.0
    if epsilon <= -copies / scale:
        return -math.expm1(epsilon)
    last = min(copies, math.ceil((copies - epsilon * scale) / 2) - 1)
    with precision(160 + 5 * copies + int(4 * copies / scale)):
        b, e = mp.mpf(scale), mp.mpf(epsilon)
        f = [_chopped_series((copies - 2 * r) / b - e, copies) for r in range(last + 1)]
        signs = [math.comb(copies, r) for r in range(last + 1)]  # (1+y)^j, coefficients of y^r
        total = mp.mpf(0)
        for m in range(copies + 1):
            part = mp.fsum(c * f[r][m] for r, c in enumerate(signs))
            total += math.comb(copies, m) * part
            turned: list[int] = []  # times (1-y)/(1+y)
            for r, c in enumerate(signs):
                turned.append(c - (signs[r - 1] + turned[r - 1] if r else 0))
            signs = turned
        return float(total * mp.exp(e / 2 - copies / (2 * b)) / mp.mpf(2) ** copies)


def _chopped_series(t: Any, most: int) -> list[Any]:
    """f_0(t) ... f_most(t) of `_laplace`, from the smallest term up."""
    if t <= 0:
        return [mp.mpf(0)] * (most + 1)
    tau, terms = t / 2, [mp.mpf(2)]  # terms[p] = 2 tau^p / p!
    while len(terms) < most + 4 or terms[-1] > mp.eps * terms[most + 1]:
        terms.append(terms[-1] * tau / len(terms))
    f = [mp.mpf(0)] * (len(terms) + 1)
    for m in range(len(terms) - 2, -1, -1):
        f[m] = f[m + 2] + terms[m + 1]
    return f[: most + 1]
