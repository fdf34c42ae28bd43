"""The stages at which a mechanism draws noise, by its printed text alone, and tests of recorded noise.

A certificate names a mechanism by a text, such as "threshold(noise=gaussian, d=10, scale=13.4, T=71)". This
module reads the text itself and derives the law of every draw from it with formulas of its own, so that a
mechanism that draws less than its text states is found, whatever its code believes.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chi2, nbinom

Integers = npt.NDArray[np.int64]

# Of one test of one stage. All stages of all mechanisms are below 500 tests a run, so 20 runs raise a false
# alarm with a probability below 1e-4.
STAGE_ALPHA = 1e-8
STEPS = 2**20  # of a weight of 1, as the proof of `rounds` has it
LARGE = 40.0  # from this scale on, the test of the shape looks at cells of several numbers
CELLS = 64  # of about equal chance
POWER = 0.99
ROUNDED_UP = 1e-5  # a scale that follows from printed ones may be rounded up to six digits
D2 = (2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)  # that a noisy histogram can choose


def fit_p_value(
    values: npt.NDArray[np.int64], chances: npt.NDArray[np.floating[Any]], first: int
) -> float:
    """The exact p-value of whole numbers against a law that gives `first + i` probability chances[i].

    Three families of events are tested against their binomial laws: each number, all numbers up to
    it, and all numbers at most as far from the middle. The smallest p-value gets a Bonferroni
    correction. Chi-squared would be inaccurate in the far tail, which matters here.
    """
    n, ends = len(values), len(chances) - 1
    seen = np.bincount(np.clip(values - first, 0, ends), minlength=ends + 1)
    chances = np.asarray(chances, dtype=np.float64).copy()
    chances[[0, -1]] += max(0.0, 1 - chances.sum()) / 2  # the mass beyond both ends
    expected, hits = np.minimum(1.0, _events(chances)), _events(seen)
    p = 2 * np.minimum(binom.cdf(hits, n, expected), binom.sf(hits - 1, n, expected))
    return float(min(1.0, p.min() * len(p)))


def _events(masses: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The mass of each number, of all numbers up to it, and of all as near to the middle."""
    middle, below = len(masses) // 2, np.cumsum(masses)
    reach = np.arange(1, middle)
    around = below[middle + reach] - below[middle - reach - 1]
    return np.concatenate([masses, below[:-1], around])


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law of the integers drawn at one stage."""

    noise: str  # geometric, gaussian, or tail: a geometric draw beyond a threshold
    scale: float

    def matches(self, noise: str, scale: float) -> bool:
        """Whether these are the same law; a scale that was computed may be rounded up."""
        return noise == self.noise and 1 - 1e-12 <= scale / self.scale <= 1 + ROUNDED_UP

    def p_value(self, values: Sequence[int] | Integers) -> float:
        """The p-value of recorded draws: of their spread and of their shape."""
        drawn = np.asarray(values, dtype=np.int64)
        if not len(drawn):
            return 1.0
        return min(1.0, 2 * min(self._spread(drawn), self._shape(drawn)))

    def _spread(self, drawn: Integers) -> float:
        n = len(drawn)
        if self.noise == "gaussian":
            if self.scale < 2:
                return 1.0  # the shape is tested exactly
            squares = float((drawn.astype(np.float64) ** 2).sum())
            return _both_sides(chi2(n), squares / (self.scale**2 + 1 / 12))
        a = math.exp(-1 / self.scale)
        if self.noise == "tail":
            return _both_sides(nbinom(n, 1 - a), int(drawn.sum()))
        # Zeros are binomial; beyond zero, |Z| - 1 has no memory.
        size = np.abs(drawn)
        some = size[size > 0]
        zeros = _both_sides(binom(n, (1 - a) / (1 + a)), n - len(some))
        if not len(some):
            return zeros
        return min(1.0, 2 * min(zeros, _both_sides(nbinom(len(some), 1 - a), (some - 1).sum())))

    def _shape(self, drawn: Integers) -> float:
        if self.scale >= LARGE:
            return self._shape_in_cells(drawn)
        reach = int(14 * self.scale) + 14
        k = np.arange(0 if self.noise == "tail" else -reach, reach + 1)
        return fit_p_value(drawn, self.mass(k), int(k[0]))

    def _shape_in_cells(self, drawn: Integers) -> float:
        """Cells of about equal chance with integer borders, whose chances are exact at any scale."""
        borders = np.unique(np.rint(self.quantile(np.arange(1, CELLS) / CELLS)).astype(np.int64))
        below = np.concatenate([[0.0], self.below(borders), [1.0]])
        cells = np.searchsorted(borders, drawn, side="right")
        return fit_p_value(cells, np.diff(below), 0)

    def mass(self, k: Any) -> Any:
        """P(Z = k)."""
        size = np.abs(k).astype(np.float64)
        if self.noise == "gaussian":
            return ndtr(-(size - 0.5) / self.scale) - ndtr(-(size + 0.5) / self.scale)
        a = math.exp(-1 / self.scale)
        return (1 - a) * a**size if self.noise == "tail" else (1 - a) / (1 + a) * a**size

    def below(self, k: Integers) -> Any:
        """P(Z < k)."""
        values = k.astype(np.float64)
        if self.noise == "gaussian":  # rounded
            return ndtr((values - 0.5) / self.scale)
        a = math.exp(-1 / self.scale)
        if self.noise == "tail":
            return 1 - a ** np.maximum(values, 0)
        return np.where(
            values > 0, 1 - a ** np.abs(values) / (1 + a), a ** (1 + np.abs(values)) / (1 + a)
        )

    def quantile(self, part: Any) -> Any:
        """About where this part of the law lies below."""
        if self.noise == "gaussian":
            return self.scale * ndtri(part)
        if self.noise == "tail":
            return -self.scale * np.log1p(-part)
        size = -self.scale * np.log1p(-np.abs(2 * part - 1))
        return np.where(part < 0.5, -size, size)

    def smallest_deviation(self, draws: int) -> float:
        """The part by which noise can be smaller and still be seen with a probability of 99 %.

        By the test of the spread: squares of Gaussian draws are chi-squared, sizes of geometric ones nearly.
        """
        if draws < 2:
            return 1.0
        degrees = draws if self.noise == "gaussian" else 2 * draws
        ratio = float(chi2.ppf(STAGE_ALPHA / 4, degrees) / chi2.ppf(POWER, degrees))
        return 1 - (math.sqrt(ratio) if self.noise == "gaussian" else ratio)


def _both_sides(law: Any, value: float) -> float:
    """The two-sided p-value of a number under a law of scipy."""
    at_most, at_least = law.cdf(value), law.sf(value - (1 if hasattr(law.dist, "pmf") else 0))
    return float(min(1.0, 2 * min(at_most, at_least)))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a table's mechanism, and the laws one of which its draws must have."""

    table: str
    name: str
    laws: tuple[Law, ...]

    def __str__(self) -> str:
        return f"{self.table}, {self.name}"


def parameters_of(text: str) -> tuple[str, dict[str, str]]:
    """The name of a mechanism and its parameters, from its printed text."""
    found = re.fullmatch(r"([a-z0-9-]+)(?:[:(](.*?)\)?)?", text)
    if not found:
        raise ValueError(f"{text!r} is not the text of a mechanism")
    parts = [part.partition("=") for part in (found[2] or "").split(", ") if "=" in part]
    return found[1], {name: value for name, _, value in parts}


def numbers(text: str) -> list[float]:
    """The numbers of a letter with one number a round."""
    return [float(part) for part in text.split("_") if part]


def stages(table: str, text: str) -> list[Stage]:
    """Every stage of the noise that this printed text implies."""
    name, given = parameters_of(text)

    def one(stage: str, noise: str, *scales: float) -> Stage:
        laws = tuple(Law(noise=noise, scale=scale) for scale in scales)
        return Stage(table=table, name=stage, laws=laws)

    if name in ("rounds", "session-tree"):
        found = [
            one(f"round {k}", "gaussian", scale * STEPS)
            for k, scale in enumerate(numbers(given["s"]), 1)
        ]
        if "sigma1" in given:
            choices = [int(given["d2"])] if "d2" in given else D2
            sigma = float(given["sigma1"])
            found.append(one("histogram", "gaussian", float(given["sigma_h"])))
            counts = (STEPS * math.sqrt(d2) * sigma for d2 in choices)
            found.append(one("counts", "gaussian", *counts))
        return found
    if name == "left-out":
        return [one("bins", "gaussian", float(given["sigma"]))]
    found = []
    if "scale" in given:
        found.append(one("selection", given["noise"], float(given["scale"])))
    if "scale_r" in given:
        found.append(one("together", given["noise_r"], float(given["scale_r"])))
    named = {"b": "selection", "lam": "selection", "b_q": "counts", "b_c": "counts"}
    for letter, value in given.items():
        if letter == "lam" or re.fullmatch(r"b(_[a-z]+)?", letter):
            stage = named.get(letter, f"histogram of {letter[2:]}")
            found.append(one(stage, "geometric", float(value)))
    return found
