"""Related queries: for a query of a held-out user, the other queries of the same user.

No paper of the four measures this. It is what sets of queries are published for: which queries the same
people ask, in whatever order and however far apart.

A question is a query of a held-out user who asked at least one other; the truth is the set of the user's
other queries, t of them.

    P@5 = hits among the first five related queries / 5        R@5 = the same hits / t

The raw log is a system, too: there a set is everything that a user asked.
"""

import numpy as np

from murmurlog.bundle.models.related_queries import RelatedQueries
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.ranking_metrics import precision, recall, relevant
from murmurlog.evaluation.scores import Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import places_in_groups, searches
from murmurlog.evaluation.tasks.protocol import Settings, Tables, is_raw, lacking
from murmurlog.evaluation.tasks.sampling import once_per_truth, spread

K = 5


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """P@5 and R@5."""
    if is_raw(tables, truth):
        model = _of_users(truth)
    elif "itemset" in tables:
        model = RelatedQueries.from_table(tables["itemset"])
    else:
        raise lacking(tables, "itemset")
    rows = searches(truth).select(["user", "query"]).group_by(["user", "query"]).aggregate([])
    rows = rows.sort_by([("user", "ascending"), ("query", "ascending")])
    user, query = rows["user"].to_numpy(), rows["query"].combine_chunks().dictionary_encode()
    start = np.searchsorted(user, user)  # the first query of the same user, and how many there are
    size = np.searchsorted(user, user, "right") - start
    at = spread(np.flatnonzero(size > 1), settings.questions)
    number = model.numbers(query.dictionary)[query.indices.to_numpy()]
    queries, place = np.unique(number[at], return_inverse=True)
    best = model.best(queries, K)[place]
    question, offset = places_in_groups(size[at])
    wanted = start[at][question] + offset
    other = wanted != at[question]
    hit = relevant(best, question[other], number[wanted[other]])
    answered = best[:, 0] >= 0
    return [
        Scores(measure=f"P@{K}", values=np.where(answered, precision(hit), np.nan), users=user[at]),
        Scores(
            measure=f"R@{K}",
            values=np.where(answered, recall(hit, size[at] - 1), np.nan),
            users=user[at],
        ),
    ]


@once_per_truth
def _of_users(truth: Truth) -> RelatedQueries:
    """What users asked, as sets that one user each has."""
    holders = truth.holders["query"]
    return RelatedQueries(
        texts=truth.tables["query"]["query"].combine_chunks(),
        of=holders.user,
        item=holders.item,
        counts=np.ones(holders.users),
    )
