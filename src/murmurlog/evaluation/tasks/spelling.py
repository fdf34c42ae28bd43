"""Spelling (Korolova and others 2009): are planted misspellings corrected to what was meant?"""

import numpy as np
import pyarrow.compute as pc

from murmurlog.bundle.models.spelling import corrections
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Scores, Scoring, mean
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, complete
from murmurlog.evaluation.tasks.sampling import spread


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """Corrections against planted misspellings.

    A question is a planted misspelling; it is 1 if its correction is the planted one, 0 if another,
    no answer if there is none. So the score over the covered is a precision, with misses as 0 it is
    the recall. "precision of all corrections" is over every correction that the system makes, also
    of queries that nobody planted. Intervals are over questions: a misspelling belongs to no user.
    """
    released = complete(tables, "query", "pair")
    planted = misspellings(truth)
    if not planted:
        raise Unfit("needs planted misspellings")
    ours = corrections(released)
    wrong = list(planted)
    queries = [wrong[place] for place in spread(np.arange(len(wrong)), settings.questions)]
    values = [float(ours[q] in planted[q]) if q in ours else np.nan for q in queries]
    right = [float(better in planted.get(query, ())) for query, better in ours.items()]
    return [
        Scores(measure="corrected", values=np.array(values), users=np.arange(len(values))),
        mean("precision of all corrections", np.array(right), np.arange(len(right))),
    ]


def misspellings(truth: Truth) -> dict[str, set[str]]:
    """The planted misspellings with what was meant."""
    planted = dict[str, set[str]]()
    if truth.labels is not None:
        rows = truth.labels.filter(pc.equal(truth.labels["kind"], "misspelling"))
        for query, target in zip(*(rows[c].to_pylist() for c in ("query", "target")), strict=True):
            planted.setdefault(query, set()).add(target)
    return planted
