"""Query suggestion on sessions of held-out users (Zhang 2017, 4.3.1 and 4.4.2): P@5 and R@5.

A question is a search that others follow in its session; the truth is the set of the later queries,
t of them, without the one just asked.

    P@5 = hits among the first five suggestions / 5        R@5 = the same hits / t        (4.8)

Where a release has a session table both are reported a second time with it (`with sessions`): there the
flow counts every later query, without it only the one asked next. lambda = 1 is clicks alone, which
is what the thesis means by a log without sessions.

Differs: the thesis keeps a tenth of the log for testing and does not say how it is sampled; here whole
users are kept, so that no test user is in the release.
"""

import numpy as np

from murmurlog.bundle.models.suggestion import LAMBDA, Suggester
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.ranking_metrics import curve_point, precision, recall, relevant
from murmurlog.evaluation.scores import Ints, Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import Sessions, places_in_groups, sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Tables, complete, lacking
from murmurlog.evaluation.tasks.sampling import spread

K = 5
LAMBDAS = tuple(step / 10 for step in range(11))


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """P@5 and R@5 at lambda 0.5, and their means at 0, 0.1, ..., 1."""
    all_tables = complete(tables)
    if not {"pair", "click"} & set(all_tables):
        raise lacking(tables, "click", "pair", "session")
    sessions = sessions_of(truth)
    at = spread(questions(sessions), settings.questions)
    scores = _score_suggester(Suggester(all_tables, sessions=False), sessions, at, "")
    if "session" in all_tables:
        scores += _score_suggester(
            Suggester(all_tables, sessions=True), sessions, at, " with sessions"
        )
    return scores


def questions(sessions: Sessions) -> Ints:
    """The searches that others follow in their session."""
    last = np.zeros(len(sessions.query), bool)
    last[sessions.end - 1] = True
    return np.flatnonzero(~last)


def truths(sessions: Sessions, at: Ints) -> tuple[Ints, Ints]:
    """(question, a later query of its session), each once, without the query just asked."""
    question, offset = places_in_groups(sessions.end[sessions.session[at]] - at - 1)
    query = sessions.query[at[question] + 1 + offset]
    other = query != sessions.query[at[question]]
    pairs = np.unique(np.stack([question[other], query[other]]), axis=1)
    return pairs[0], pairs[1]


def _score_suggester(suggester: Suggester, sessions: Sessions, at: Ints, how: str) -> Scoring:
    number = suggester.numbers(sessions.texts)
    queries, place = np.unique(number[sessions.query[at]], return_inverse=True)
    best = suggester.suggest_all(queries, K, LAMBDAS)[place]
    question, query = truths(sessions, at)
    hit = relevant(best, question, number[query])
    answered = best[:, :, 0] >= 0
    values = {
        f"P@{K}{how}": np.where(answered, precision(hit), np.nan),
        f"R@{K}{how}": np.where(
            answered, recall(hit, np.bincount(question, minlength=len(at))), np.nan
        ),
    }
    users, default = sessions.user[at], LAMBDAS.index(LAMBDA)
    scores: Scoring = [
        Scores(measure=name, values=v[:, default], users=users) for name, v in values.items()
    ]
    for name, v in values.items():
        for column, lam in enumerate(LAMBDAS):
            scores += curve_point(f"{name}, lambda {lam:g}", v[:, column])
    return scores
