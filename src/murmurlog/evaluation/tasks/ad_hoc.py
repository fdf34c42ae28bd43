"""Ad-hoc search on the clicks of held-out users (Zhang 2017, 3.4): is what they clicked found first?

A question is a query of one user, each query once, and what that user clicked for it is relevant,
all alike. Beside it is the thesis' way, `per query`: a question is a query, those that the most users
clicked something for, and what any of them clicked is relevant; it belongs to no user, so its
intervals are over queries.

    nDCG@10 = sum of 1 / log2(r + 1) over relevant urls at ranks r <= 10
              / the same if they were at the first ranks                                   (3.9)
    P@k     = relevant urls at ranks r <= k, over k
    MAP     = mean over questions of (sum of i / r_i over the relevant ones found, the i-th at rank
              r_i) / how many are relevant
    recall  = relevant urls found / how many are relevant

Rankings end at rank 100, so MAP and recall look no further.

Differs: the thesis keeps a fifth of the log for testing and does not say how it is sampled; here whole
users are kept. It averages over the queries that were released; here all count, those without an
answer apart. Its implicit feedback ranks by clicks of the test log, which are also the truth: that is
reported under a name that says so, and the one to rely on uses the release's own clicks. As the
thesis' original ranking is by the very same clicks, ours corrects that of the walk instead; `clicks`,
per query, is what the thesis' formula comes to when both of its ranks are by the release's clicks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.click_graph import ClickGraph, Ranking, click_graph, in_rows, places
from murmurlog.bundle.models.search import Searcher, merge_feedback, rank_by_clicks
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Floats, Ints, Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import searches
from murmurlog.evaluation.tasks.protocol import Settings, Tables, require_clicks
from murmurlog.evaluation.tasks.sampling import spread

DEPTH = 100
CUT = 10  # of nDCG
USUAL = ("nDCG@10", "MAP", "P@5", "P@10", "recall")
THESIS = ("nDCG@10", "MAP", "P@5", "P@10")  # tables 3.5 and 3.6
WAYS = ("walk", "walk with impact", "feedback")
LEAK = "feedback (leaks test clicks)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Clicks:
    """The clicks of held-out users, each (user, query, url) once, as numbers of users and texts."""

    queries: pa.Array
    urls: pa.Array
    user: Ints
    query: Ints
    url: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Queries to find urls for, and which urls are relevant."""

    user: Ints  # of each question
    query: Ints
    of: Ints  # the question of each relevant url
    url: Ints


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """nDCG@10, MAP, P@5, P@10 and recall of each ranking, a user's questions and per query."""
    clicks = held_out_clicks(truth)
    require_clicks(tables)
    graph = click_graph(tables)
    by_user, by_query = (
        questions(clicks, per_query=per_query, most=settings.questions)
        for per_query in (False, True)
    )
    queries = np.unique(np.concatenate([by_user.query, by_query.query]))
    by_way = rankings(graph, clicks, queries)
    urls = places(clicks.urls, graph.urls)
    scores: Scoring = []
    for posed, ways, names, note in (
        (by_user, WAYS, USUAL, ""),
        (by_query, tuple(by_way), THESIS, ", per query"),
    ):
        row = np.searchsorted(queries, posed.query)
        for way in ways:
            values = measures(by_way[way], row, posed.of, urls[posed.url])
            scores += [
                Scores(measure=f"{name}, {way}{note}", values=values[name], users=posed.user)
                for name in names
            ]
    return scores


def held_out_clicks(truth: Truth) -> Clicks:
    """What held-out users clicked. Raises Unfit where nobody is held out."""
    rows = searches(truth).select(["user", "query", "url"])
    rows = rows.filter(pc.is_valid(rows["url"]))
    rows = rows.group_by(["user", "query", "url"]).aggregate([])
    rows = rows.sort_by([(name, "ascending") for name in ("user", "query", "url")])
    query, url = (rows[name].combine_chunks().dictionary_encode() for name in ("query", "url"))
    return Clicks(
        queries=query.dictionary,
        urls=url.dictionary,
        user=rows["user"].to_numpy(),
        query=query.indices.to_numpy().astype(np.int64),
        url=url.indices.to_numpy().astype(np.int64),
    )


def questions(clicks: Clicks, *, per_query: bool, most: int) -> Questions:
    """At most `most` questions, the same for every system.

    Questions of users are evenly spread over all. Per query they are the queries of the most users: a
    release would have next to none of an even choice.
    """
    asker = clicks.query if per_query else clicks.user
    size = max(len(clicks.queries), 1)
    wide = max(len(clicks.urls), 1)
    key, of = np.unique(asker * size + clicks.query, return_inverse=True)
    if per_query:
        queries = np.unique(clicks.user * size + clicks.query) % size
        users = np.bincount(queries, minlength=len(key))
        chosen = np.sort(np.argsort(-users, kind="stable")[:most])
    else:
        chosen = spread(np.arange(len(key)), most)
    place = np.full(len(key), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    relevant = np.unique(of * wide + clicks.url)  # a url that several users clicked counts once
    of, url = place[relevant // wide], relevant % wide
    return Questions(
        user=key[chosen] // size, query=key[chosen] % size, of=of[of >= 0], url=url[of >= 0]
    )


def rankings(graph: ClickGraph, clicks: Clicks, queries: Ints) -> dict[str, Ranking]:
    """Every ranking for these queries. Only the last one sees the test clicks."""
    rows = places(clicks.queries, graph.queries)[queries]
    walk = Searcher({}, graph=graph).rank_rows(rows, DEPTH)
    released = rank_by_clicks(graph, rows, DEPTH)
    return {
        "walk": walk,
        "walk with impact": Searcher({}, graph=graph, impact=True).rank_rows(rows, DEPTH),
        "feedback": merge_feedback(walk, released),
        "clicks": released,
        LEAK: merge_feedback(released, _test_order(graph, clicks, queries)),
    }


def _test_order(graph: ClickGraph, clicks: Clicks, queries: Ints) -> Ranking:
    """The urls of each query by how many held-out users clicked them: the thesis' feedback."""
    wide = max(len(clicks.urls), 1)
    key, users = np.unique(clicks.query * wide + clicks.url, return_counts=True)
    query, url = key // wide, key % wide
    row = np.minimum(np.searchsorted(queries, query), len(queries) - 1)
    is_question = queries[row] == query if len(queries) else np.zeros(len(query), bool)
    place = places(clicks.urls, graph.urls)[url]
    # A url that is not released takes up its rank all the same.
    column = np.where(place >= 0, place, len(graph.urls) + url)[is_question]
    scores = users[is_question].astype(np.float64)
    return in_rows(row[is_question], column, scores, size=len(queries), depth=len(clicks.urls))


def measures(ranked: Ranking, row: Ints, of: Ints, url: Ints) -> dict[str, Floats]:
    """Each measure of each question: its row of the ranking, and the columns that are relevant."""
    size = len(row)
    total = np.bincount(of, minlength=size)
    rank = ranked.rank_of(row[of], url)
    order = np.lexsort((rank, of))
    order = order[rank[order] > 0]
    at, rank = of[order], rank[order]
    nth = np.arange(len(at)) - np.searchsorted(at, at) + 1  # among the relevant urls in the ranking
    ideal = np.cumsum(1 / np.log2(np.arange(CUT) + 2))[np.clip(total, 1, CUT) - 1]

    def sum_by_question(values: npt.NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(at, weights=values, minlength=size), np.float64)

    by_measure = {
        "nDCG@10": sum_by_question(np.where(rank <= CUT, 1 / np.log2(rank + 1), 0.0)) / ideal,
        "MAP": sum_by_question(nth / rank) / total,
        "P@5": sum_by_question(rank <= 5) / 5,
        "P@10": sum_by_question(rank <= 10) / 10,
        "recall": sum_by_question(rank > 0) / total,
    }
    unanswered = ranked.lengths[row] == 0
    return {name: np.where(unanswered, np.nan, values) for name, values in by_measure.items()}
