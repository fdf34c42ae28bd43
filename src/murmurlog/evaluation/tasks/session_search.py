"""Session search for held-out users (Zhang 2017, 4.3.2 and 4.4.3): nDCG@10 and MAP@10.

A question is the queries of a session; the truth is the set of urls clicked in it, as in the thesis.
What is clicked is never given to a system, so knowing the whole session leaks nothing of it. The
measures `of the last query` ask for less: the urls clicked for the last query alone, of sessions
that end with a click.

    nDCG@10 = sum over places r of hits of 1/log2(r + 1), over the same for the best ranking   (4.10)
    MAP@10 = sum over places r of hits of P(r), over min(urls clicked, 10)                      (4.11)

Each is reported for walks that follow the pair table where there is one, `with sessions` where there is a
session table (every later query), and for `clicks alone`, the thesis's log without sessions.

Differs: whole users are kept for testing. Only sessions with two different queries count: the thesis's
Table 4.6 has so many sessions that it seems to count single queries too, which is ad-hoc search.
"""

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.click_graph import Ranking, places
from murmurlog.bundle.models.session_search import (
    GAMMA,
    Links,
    SessionQueries,
    SessionSearcher,
    combine_rankings,
)
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.ranking_metrics import average_precision, curve_point, ndcg, relevant
from murmurlog.evaluation.scores import Ints, Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import Sessions, places_in_groups, sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Tables, complete
from murmurlog.evaluation.tasks.sampling import spread

K = 10
GAMMAS = (0.0, 0.25, 0.5, 0.75, GAMMA, 1.0, 1.25)


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """nDCG@10 and MAP@10 at gamma 0.92, and their means at others."""
    all_tables = complete(tables, "click")
    sessions = sessions_of(truth)
    chosen = spread(questions(sessions), settings.questions)
    ways: dict[str, Links] = {"": "pairs"}
    if "pair" in all_tables:
        ways[" clicks alone"] = "clicks"
    if "session" in all_tables:
        ways[" with sessions"] = "sessions"
    scores: Scoring = []
    for how, links in ways.items():
        scores += _score_way(SessionSearcher(all_tables, links=links), sessions, chosen, how)
    return scores


def questions(sessions: Sessions) -> Ints:
    """The sessions with two different queries and a click."""
    clicked = np.zeros(len(sessions.start), bool)
    clicked[sessions.session[sessions.click]] = True
    return np.flatnonzero(clicked & (sessions.end - sessions.start > 1))


def truths(sessions: Sessions, chosen: Ints, *, last: bool = False) -> tuple[Ints, Ints]:
    """(question, a url clicked in its session), each once; `last`: for its last query."""
    number = np.full(len(sessions.start), -1)
    number[chosen] = np.arange(len(chosen))
    session = sessions.session[sessions.click]
    wanted = number[session] >= 0
    if last:
        wanted &= sessions.query[sessions.click] == sessions.query[sessions.end[session] - 1]
    pairs = np.unique(np.stack([number[session[wanted]], sessions.clicked[wanted]]), axis=1)
    return pairs[0], pairs[1]


def _score_way(searcher: SessionSearcher, sessions: Sessions, chosen: Ints, how: str) -> Scoring:
    lengths = (sessions.end - sessions.start)[chosen]
    session, place = places_in_groups(lengths)
    queries, row = np.unique(
        sessions.query[sessions.start[chosen][session] + place], return_inverse=True
    )
    session_queries = SessionQueries(
        session=session, query=row, after=lengths[session] - 1 - place, sessions=len(chosen)
    )
    ranked = searcher.rank_each(sessions.texts.take(pa.array(queries)))
    best = np.stack(
        [_square(r) for r in combine_rankings(ranked, session_queries, K, GAMMAS)], axis=1
    )
    url = places(sessions.urls, searcher.urls)
    users = sessions.user[sessions.start[chosen]]
    default = GAMMAS.index(GAMMA)
    scores: Scoring = []
    for last in (False, True):
        question, clicked = truths(sessions, chosen, last=last)
        t = np.bincount(question, minlength=len(chosen))
        has_truth = t > 0
        hit = relevant(best, question, url[clicked])[has_truth]
        answered = best[has_truth, :, 0] >= 0
        for name, value in (
            ("nDCG", ndcg(hit, t[has_truth])),
            ("MAP", average_precision(hit, t[has_truth])),
        ):
            v = np.where(answered, value, np.nan)
            measure = f"{name}@{K}{how}" + " of the last query" * last
            scores.append(Scores(measure=measure, values=v[:, default], users=users[has_truth]))
            for column, gamma in enumerate(GAMMAS):
                scores += curve_point(f"{measure}, gamma {gamma:g}", v[:, column])
    return scores


def _square(ranked: Ranking) -> Ints:
    """The rankings as rows of equal length, -1 where one ends."""
    best = np.full((len(ranked.lengths), K), -1, np.int64)
    best[places_in_groups(ranked.lengths)] = ranked.columns
    return best
