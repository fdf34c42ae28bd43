"""Labels for all queries, learned from a public list of labelled ones: naive Bayes on words.

The classifier is a function of a query's own words and of a public file (A4), so that paths of its labels
are a finite, public domain. Scores are whole numbers: their sums are the same on every engine.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from murmurlog.counting.public_sets.labels import OTHER, Listed
from murmurlog.errors import InputError

if TYPE_CHECKING:
    from murmurlog.logs.engines.protocol import Engine

MOST_LABELS = 100  # each is a column of the scores
MOST_WORDS = 100_000  # the most frequent ones
STEPS = 1000  # of a natural logarithm: scores are counted in thousandths
SMOOTHING = 0.5  # added to every count of a word


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """The label of a listed query; for others the likeliest by their words; "other" if no word is known."""

    listed: Listed
    weights: pa.Table  # word, and for each of the labels its score
    labels: tuple[str, ...]
    priors: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.listed.names

    def label(self, rows: Any, engine: Engine) -> Any:
        import ibis

        known = engine.keep(self.weights)
        texts = rows.select("query").distinct()
        words = texts.mutate(word=texts.query.split(" ").unnest()).distinct()
        found = words.join(known, "word")
        places = range(len(self.labels))
        scored = found.group_by("query").aggregate(
            **{f"s{n}": found[f"w{n}"].sum() + self.priors[n] for n in places}
        )
        best = ibis.greatest(*(scored[f"s{n}"] for n in places))
        guessed = scored.select(
            scored.query,
            guess=ibis.cases(*((scored[f"s{n}"] == best, self.labels[n]) for n in places)),
        ).rename(asked="query")
        listed = engine.keep(self.listed.table.rename_columns(["listed", "stated"]))
        joined = rows.left_join(listed, rows.query == listed.listed)
        joined = joined.left_join(guessed, joined.query == guessed.asked)
        label = ibis.coalesce(joined.stated, joined.guess, OTHER)
        return joined.mutate(label=label).drop("listed", "stated", "asked", "guess")


def learn(listed: Listed, *, name: str) -> Learned:
    """A classifier from labelled queries; `name` is that of their file, for messages."""
    queries, given = (listed.table[column].to_pylist() for column in ("query", "label"))
    labels = tuple(sorted(set(given)))
    if not 2 <= len(labels) <= MOST_LABELS:
        raise InputError(
            f"{name} has {len(labels)} labels: a classifier is learned from 2 to {MOST_LABELS}"
        )
    queries_of = Counter(given)
    words_of: dict[str, Counter[str]] = {label: Counter() for label in labels}
    for query, label in zip(queries, given, strict=True):
        words_of[label].update(set(query.split(" ")))
    every: Counter[str] = sum(words_of.values(), Counter())
    words = sorted(every, key=lambda word: (-every[word], word))[:MOST_WORDS]
    columns: dict[str, Any] = {"word": pa.array(words, pa.string())}
    for place, label in enumerate(labels):
        seen = words_of[label]
        total = queries_of[label] + 2 * SMOOTHING
        scores = [round(STEPS * math.log((seen[word] + SMOOTHING) / total)) for word in words]
        columns[f"w{place}"] = pa.array(scores, pa.int64())
    priors = [round(STEPS * math.log(queries_of[label] / len(queries))) for label in labels]
    return Learned(listed=listed, weights=pa.table(columns), labels=labels, priors=tuple(priors))
