"""Measures of many rankings at once, as arrays: thousands of questions for each point of a sweep.

They equal those of ir-measures, as tests check; that library is a hundred times slower where each
question has a handful of answers.
"""

import math

import numpy as np
import numpy.typing as npt

from murmurlog.evaluation.scores import Figure, Floats, Ints

Bools = npt.NDArray[np.bool_]


def relevant(ranked: Ints, question: Ints, wanted: Ints) -> Bools:
    """Where a ranking has an answer that its question wants.

    `ranked` has a question in each row and the best first along its last axis, -1 where it ends.
    `question` and `wanted` are pairs of a question and an answer that it wants; an answer that no system
    can give is -1, too.
    """
    size = max(int(ranked.max(initial=0)), int(wanted.max(initial=0))) + 1
    row = np.arange(len(ranked)).reshape(-1, *(1,) * (ranked.ndim - 1))
    can = wanted >= 0
    hit: Bools = np.isin(row * size + ranked, question[can] * size + wanted[can]) & (ranked >= 0)
    return hit


def precision(hit: Bools) -> Floats:
    """P@k, k being the length of the rankings: hits / k."""
    return np.asarray(hit.mean(axis=-1))


def recall(hit: Bools, t: Ints) -> Floats:
    """R@k: hits / t, of t that are wanted."""
    return np.asarray(hit.sum(axis=-1) / _wide(t, hit))


def ndcg(hit: Bools, t: Ints) -> Floats:
    """nDCG@k with gains of 1: sum of 1 / log2(1 + place of a hit), over the most it can be."""
    gain = 1 / np.log2(np.arange(hit.shape[-1]) + 2)
    most = np.concatenate([[0.0], np.cumsum(gain)])[np.minimum(t, hit.shape[-1])]
    return np.asarray((hit @ gain) / _wide(most, hit))


def average_precision(hit: Bools, t: Ints) -> Floats:
    """Sum of P(place of a hit) over the first k, over min(t, k): (4.11) of Zhang 2017.

    AP@k of ir-measures divides by t, which is the same unless more than k are wanted.
    """
    k = hit.shape[-1]
    at = np.cumsum(hit, axis=-1) / np.arange(1, k + 1)
    return np.asarray((at * hit).sum(axis=-1) / _wide(np.minimum(t, k), hit))


def curve_point(measure: str, values: Floats) -> list[Figure]:
    """The mean over the answered and over all questions, without intervals: a point of a curve."""
    answered = values[~np.isnan(values)]
    return [
        Figure(measure=f"{measure} (covered)", value=_mean(answered), n=len(answered)),
        Figure(measure=f"{measure} (all)", value=_mean(np.nan_to_num(values)), n=len(values)),
    ]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _wide(t: Ints | Floats, hit: Bools) -> Floats:
    """A number for each question, in the shape of hits without their last axis."""
    return t.astype(np.float64).reshape(-1, *(1,) * (hit.ndim - 2))
