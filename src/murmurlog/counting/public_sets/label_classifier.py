"""Labels for all queries, learned from a public list of labelled ones: naive Bayes on words.

The classifier is a function of a query's own words and of a public file (A4), so that paths of its labels
are a finite, public domain. Scores are whole numbers: their sums do not depend on an order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.counting.public_sets.labels import OTHER, LabelList
from murmurlog.errors import InputError

MOST_LABELS = 100  # each has a score for every word
MOST_WORDS = 100_000  # the most frequent ones
STEPS = 1000  # of a natural logarithm: scores are counted in thousandths
SMOOTHING = 0.5  # added to every count of a word


@dataclass(frozen=True, kw_only=True, eq=False)
class WordClassifier:
    """The label of a listed query; for others the likeliest by their words; "other" if no word is known."""

    names: tuple[str, ...]
    stated: Mapping[str, str]  # the labels of listed queries
    labels: tuple[str, ...]
    priors: tuple[int, ...]
    scores: Mapping[str, tuple[int, ...]]  # of each word, one for each of the labels

    def label_of(self, query: str) -> str:
        """The label of a query; the first of equally likely ones by name."""
        word_scores = [self.scores[word] for word in set(query.split(" ")) if word in self.scores]
        if query in self.stated or not word_scores:
            return self.stated.get(query, OTHER)
        sums = [sum(column) for column in zip(self.priors, *word_scores, strict=True)]
        return self.labels[sums.index(max(sums))]

    def codes(self, queries: pa.Array) -> npt.NDArray[Any]:
        place = {name: place for place, name in enumerate(self.names)}
        return np.array([place[self.label_of(query)] for query in queries.to_pylist()], np.int64)


def learn(examples: LabelList, *, name: str) -> WordClassifier:
    """A classifier from labelled queries; `name` is that of their file, for messages."""
    queries, stated = (examples.table[column].to_pylist() for column in ("query", "label"))
    labels = tuple(sorted(set(stated)))
    if not 2 <= len(labels) <= MOST_LABELS:
        raise InputError(
            f"{name} has {len(labels)} labels: a classifier is learned from 2 to {MOST_LABELS}"
        )
    queries_of = Counter(stated)
    words_of: dict[str, Counter[str]] = {label: Counter() for label in labels}
    for query, label in zip(queries, stated, strict=True):
        words_of[label].update(set(query.split(" ")))
    word_counts: Counter[str] = sum(words_of.values(), Counter())
    words = sorted(word_counts, key=lambda word: (-word_counts[word], word))[:MOST_WORDS]
    totals = [queries_of[label] + 2 * SMOOTHING for label in labels]

    def score(word: str, label: str, total: float) -> int:
        return round(STEPS * math.log((words_of[label][word] + SMOOTHING) / total))

    return WordClassifier(
        names=examples.names,
        stated=dict(zip(queries, stated, strict=True)),
        labels=labels,
        priors=tuple(round(STEPS * math.log(queries_of[label] / len(queries))) for label in labels),
        scores={word: tuple(map(score, [word] * len(labels), labels, totals)) for word in words},
    )
