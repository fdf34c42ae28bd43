"""Query substitution (ZEALOUS 7.3): does a release give the substitutions that the raw log gives?"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.substitution import Substitutions
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Floats, Ints, Scores, Scoring, mean
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, complete
from murmurlog.evaluation.tasks.sampling import once_per_truth, spread

TOP = (2, 5, 20)  # the paper plots 2 and 5

Answers = tuple[pa.Array, list[list[str]]]  # questions and what the raw log answers


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """The substitutions of a release beside those of the raw log, for its most frequent queries.

    Questions are those of the `top_queries` most asked queries for which the raw log has
    substitutions. Intervals are over questions, which are queries and belong to no user.
    """
    released = complete(tables, "query", "pair")
    questions, right = raw_answers(truth, settings.top_queries, settings.questions)
    if all(released[kind] is truth.tables[kind] for kind in ("query", "pair")):
        ours = right  # the raw log as a system: the same tables give the same answers
    else:
        model = Substitutions(queries=released["query"], pairs=released["pair"])
        ours = model.top(questions, max(TOP))
    users = np.arange(len(questions))
    answered = np.array([len(answer) > 0 for answer in ours])
    scores = Scoring()
    for j in TOP:
        for measure, values in measure_answers(ours, right, j).items():
            scores.append(Scores(measure=measure, values=values, users=users))
        # Over the answered questions only: a miss as 0 has no meaning in this measure.
        literal, name = literal_map(ours, right, j)[answered], f"MAP@{j} of the paper (covered)"
        scores.append(mean(name, literal, users[answered]))
    return scores


@once_per_truth
def raw_answers(truth: Truth, top_queries: int, most: int) -> Answers:
    """The questions and the answers of the raw log."""
    queries, pairs = truth.tables["query"], truth.tables["pair"]
    model = Substitutions(queries=queries, pairs=pairs)
    top = queries["query"].slice(0, top_queries).combine_chunks()  # the most asked first
    answered = np.flatnonzero(model.answers(top))
    if not len(answered):
        raise Unfit("needs queries with substitutions, and this log is too small for any")
    chosen = spread(answered, most)
    questions = top.take(pa.array(chosen))
    return questions, model.top(questions, max(TOP))


def measure_answers(
    ours: Sequence[Sequence[str]], right: Sequence[Sequence[str]], j: int
) -> dict[str, Floats]:
    """The measures at j of each question, NaN where we have no answer.

    P: the share of our first j (or as many as there are) that are among the j of the raw log;
    R: the share of the latter that we have (ZEALOUS 7.3).
    AP: the mean over the right ones of the precision at their place, 0 for those we lack.
    nDCG: the i-th of L right ones is worth L - i (from 0), divided by log2(1 + its place).
    """
    place, long, full = _places(ours, right, j)
    hit, our = place >= 0, np.arange(j)
    hits = hit.sum(axis=1)
    precise = np.cumsum(hit, axis=1) / (our + 1)
    discount = 1 / np.log2(our + 2)
    gain = np.where(hit, full[:, None] - place, 0.0) @ discount
    ideal = np.maximum(full[:, None] - our, 0.0) @ discount
    by_measure = {
        f"P@{j}": hits / np.maximum(long, 1),
        f"R@{j}": hits / full,
        f"AP@{j}": (precise * hit).sum(axis=1) / full,
        f"nDCG@{j}": gain / ideal,
    }
    return {measure: np.where(long > 0, values, np.nan) for measure, values in by_measure.items()}


def literal_map(ours: Sequence[Sequence[str]], right: Sequence[Sequence[str]], j: int) -> Floats:
    """What ZEALOUS 7.3 calls MAP, to the letter.

    The sum over the right ones, i from 0, of (i + 1) / (our rank + 1), where the rank is 0 for one
    that we lack. So one that we lack adds i + 1, which is never less than one that we have adds,
    and a system that is all right has as much as there are right ones, not 1.
    """
    place, _, full = _places(ours, right, j)
    hit = place >= 0
    have: Floats = np.where(hit, (place + 1) / (np.arange(j) + 1), 0.0).sum(axis=1)
    lack = full * (full + 1) / 2 - np.where(hit, place + 1, 0).sum(axis=1)
    have += lack
    return have


def _places(
    ours: Sequence[Sequence[str]], right: Sequence[Sequence[str]], j: int
) -> tuple[Ints, Floats, Floats]:
    """The places of our first j among the right ones, or -1; the numbers of ours and of the right ones."""
    place = np.full((len(right), j), -1, np.int64)
    long, full = np.zeros(len(right)), np.zeros(len(right))
    for at, (mine, true) in enumerate(zip(ours, right, strict=True)):
        rank = {text: i for i, text in enumerate(true[:j])}
        place[at, : len(mine[:j])] = [rank.get(text, -1) for text in mine[:j]]
        long[at], full[at] = len(mine[:j]), len(rank)
    return place, long, full
