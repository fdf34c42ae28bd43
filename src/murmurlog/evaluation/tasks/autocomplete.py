"""Autocomplete: held-out queries, typed part of the way and looked for among the completions.

No paper of the three measures this; the measures are those of the literature on completion: MRR (the
mean of 1 / place of the query that was meant) and the share of questions where it is shown at all,
both among the ten completions that a page would show.

A question is a search of a held-out user and how much of it has been typed: 1, 3 or 5 characters, or
half of it (rounded down, at least 1); a prefix that is the whole query is no question. The measures
without a number of characters are those after half. A query is a question as often as held-out users
asked it. There is no answer where no published query has the prefix.
"""

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle.models.autocomplete import Completer
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Tables, complete
from murmurlog.evaluation.tasks.sampling import spread

K = 10
TYPED = (None, 1, 3, 5)  # characters; None: half of the query


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """MRR@10 and success@10 after half of the query, and after 1, 3 and 5 characters."""
    all_tables = complete(tables, "query")
    sessions = sessions_of(truth)
    at = spread(np.arange(len(sessions.query)), settings.questions)
    texts = sessions.texts.take(pa.array(sessions.query[at])).to_pylist()
    completer = Completer(all_tables)
    scores: Scoring = []
    for typed in TYPED:
        questions = [(prefix(text, typed), text) for text in texts]
        long = np.array([len(text) > len(start) for start, text in questions], bool)
        place = places(completer, list(itertools.compress(questions, long)))
        after = "" if typed is None else f" after {typed} character" + "s" * (typed > 1)
        users = sessions.user[at][long]
        with np.errstate(divide="ignore"):
            reciprocal = np.where(place > 0, 1 / place, place)
        success = np.where(place > 0, 1.0, place)
        scores += [
            Scores(measure=f"MRR@{K}{after}", values=reciprocal, users=users),
            Scores(measure=f"success@{K}{after}", values=success, users=users),
        ]
    return scores


def prefix(text: str, typed: int | None) -> str:
    """What has been typed of a query."""
    return text[: max(1, len(text) // 2) if typed is None else typed]


def places(completer: Completer, questions: list[tuple[str, str]]) -> npt.NDArray[np.float64]:
    """The place of each query among the completions of its prefix: 0 if not there, NaN if none."""
    lists = {start: _rank_completions(completer, start) for start in {s for s, _ in questions}}
    ranks = [lists[start].get(text, 0.0 if lists[start] else np.nan) for start, text in questions]
    return np.array(ranks, np.float64)


def _rank_completions(completer: Completer, start: str) -> dict[str, float]:
    """The place of each completion of a prefix, from 1."""
    completions = completer.complete(start, K)
    return {text: float(place) for place, (text, _) in enumerate(completions, start=1)}
