"""Utility of a system: scores by question, single figures, and their intervals.

A system is a release, a baseline or the raw log itself. The papers average over the questions that
a system could answer, which makes a small release look good. Here every score is reported twice, over
the questions that were answered and over all with a miss as 0, with their numbers. Intervals are by
bootstrap over users, who asked several questions each. Knows no log and no bundle.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESAMPLES = 400
LEVEL = 0.95
COVERAGE = "coverage"
SEED = 20060804  # of the resampling, which adds no privacy noise: same input, same output


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of a system on one measure of a task: a value for each question, in a fixed order."""

    measure: str
    values: Floats  # NaN: the system had no answer
    users: Ints  # the user who asks each question

    def __post_init__(self) -> None:
        if len(self.values) != len(self.users):
            raise ValueError("a score for each question, and a user for each score")

    @property
    def has_answer(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.values)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number about a whole release, with what it is a mean or a share of."""

    measure: str
    value: float  # NaN: a mean over nothing
    n: int
    low: float | None = None
    high: float | None = None


Scoring = list[Scores | Figure]  # of one system on one task


@dataclass(frozen=True, kw_only=True)
class Result:
    """A line of the table of all results."""

    system: str
    task: str
    measure: str
    value: float  # NaN: a mean over nothing
    low: float | None
    high: float | None
    n: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "value": None if math.isnan(self.value) else self.value}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two systems on the same questions, misses as 0: a paired t-test over users."""

    system: str
    against: str
    task: str
    measure: str
    difference: float
    p: float | None  # None: there is nothing to test, as they do not differ or on one question
    n: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def results(system: str, task: str, scoring: Iterable[Scores | Figure]) -> list[Result]:
    """The lines of one system and task. Scores give two: over the answered questions, and over all.

    The share of questions with an answer comes before the first of them; for other measures it
    follows from the two numbers of questions.
    """
    figures = list[Figure]()
    for part in scoring:
        if isinstance(part, Figure):
            figures.append(part)
            continue
        if not any(figure.measure == COVERAGE for figure in figures):
            figures.append(mean(COVERAGE, part.has_answer.astype(float), part.users))
        figures += _mean_figures(part)
    return [
        Result(
            system=system, task=task, measure=f.measure,
            value=f.value, low=f.low, high=f.high, n=f.n,
        )
        for f in figures
    ]  # fmt: skip


def _mean_figures(scores: Scores) -> list[Figure]:
    """The mean over the answered questions, and over all with a miss as 0."""
    answered = scores.has_answer
    return [
        mean(f"{scores.measure} (covered)", scores.values[answered], scores.users[answered]),
        mean(f"{scores.measure} (all)", np.nan_to_num(scores.values), scores.users),
    ]


def mean(measure: str, values: Floats, users: Ints) -> Figure:
    """The mean of the values, with an interval by bootstrap over users; NaN of none."""
    if not len(values):
        return Figure(measure=measure, value=math.nan, n=0)
    low, high = interval(values, users)
    return Figure(measure=measure, value=float(values.mean()), n=len(values), low=low, high=high)


def interval(values: Floats, users: Ints, *, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The middle 95 % of the means when users are resampled (bootstrap)."""
    _, who = np.unique(users, return_inverse=True)
    sums, counts = np.bincount(who, weights=values), np.bincount(who)
    rng = np.random.default_rng(SEED)
    means = np.empty(resamples)
    for at in range(resamples):
        sample = rng.integers(0, len(sums), len(sums))
        means[at] = sums[sample].sum() / counts[sample].sum()
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def compare(
    system: str, against: str, task: str, ours: Sequence[Scores], theirs: Sequence[Scores]
) -> list[Comparison]:
    """The paired test of every measure that both were scored by, on the same questions."""
    other = {scores.measure: scores for scores in theirs}
    lines = []
    for scores in ours:
        if scores.measure not in other:
            continue
        a, b = (np.nan_to_num(s.values) for s in (scores, other[scores.measure]))
        lines.append(
            Comparison(
                system=system,
                against=against,
                task=task,
                measure=scores.measure,
                difference=float((a - b).mean()) if len(a) else 0.0,
                p=_paired_p_value(a, b, scores.users),
                n=len(a),
            )
        )
    return lines


def _paired_p_value(a: Floats, b: Floats, users: Ints) -> float | None:
    """The p-value of a paired t-test in which a user's questions form one cluster.

    With e_u = (sum of u's differences) - (mean difference) x (u's questions), the standard error of
    the mean over N questions of U users is sqrt(U / (U - 1) sum e_u^2) / N, with U - 1 degrees of
    freedom: the usual test where every user asks once. 0 where all users differ by the same.
    """
    _, who = np.unique(users, return_inverse=True)
    counts = np.bincount(who)
    if len(counts) < 2 or not np.any(a != b):
        return None
    difference = a - b
    apart = np.bincount(who, weights=difference) - difference.mean() * counts
    if np.allclose(apart, 0.0, atol=1e-12):
        return 0.0
    size = len(counts)
    error = np.sqrt(size / (size - 1) * (apart**2).sum()) / len(a)
    return float(2 * stats.t.sf(abs(difference.mean()) / error, size - 1))


def merge(folds: Sequence[Scoring]) -> Scoring:
    """One list of several folds: scores of all questions together, figures averaged by their n.

    Users of different folds are different people, whatever their numbers.
    """
    if len(folds) == 1:
        return list(folds[0])
    merged: dict[str, list[Scores | Figure]] = {}
    for fold in folds:
        for part in fold:
            merged.setdefault(part.measure, []).append(part)
    return [_merge_parts(parts) for parts in merged.values()]


def _merge_parts(parts: Sequence[Scores | Figure]) -> Scores | Figure:
    scores = [part for part in parts if isinstance(part, Scores)]
    figures = [part for part in parts if isinstance(part, Figure)]
    if scores:
        users, shift = [], 0
        for part in scores:
            users.append(part.users + shift)
            shift += int(part.users.max(initial=0)) + 1
        return Scores(
            measure=scores[0].measure,
            values=np.concatenate([part.values for part in scores]),
            users=np.concatenate(users),
        )
    # A mean over nothing in one fold says nothing about all of them.
    figures = [part for part in figures if not math.isnan(part.value)] or figures[:1]
    total = sum(part.n for part in figures)
    shares = [part.n / total if total else 1 / len(figures) for part in figures]
    low, high = (
        None
        if any(end is None for end in ends)
        else sum(s * end for s, end in zip(shares, ends, strict=True) if end is not None)
        for ends in ([part.low for part in figures], [part.high for part in figures])
    )
    value = sum(s * part.value for s, part in zip(shares, figures, strict=True))
    return Figure(measure=figures[0].measure, value=value, n=total, low=low, high=high)
