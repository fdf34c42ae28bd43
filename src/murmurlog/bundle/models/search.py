"""Ranking urls for a query from published tables: ad-hoc search (Zhang 2017, 3.4).

Three ways: a walk on the click graph, the same with impact factors, and a ranking merged with what
was clicked.
"""

from typing import Any

import numpy as np
from scipy import sparse

from murmurlog.bundle.models.click_graph import (
    BLOCK,
    ClickGraph,
    Ranking,
    best,
    click_graph,
    concatenate,
    in_rows,
    normalise,
    prune,
    walkers_at,
)
from murmurlog.bundle.models.derived_tables import Ints, Tables

STAYS = 0.1  # self-transition of a query
STEPS = 10
FEEDBACK = 0.6  # lambda of (3.8)


class Searcher:
    """Urls by where a walk from the query stops (3.5), with impact factors if asked (3.6, 3.7).

    From a query j the walker goes to k, a url clicked for it or a query asked after it, with
    probability (1 - s) C_jk / sum_i C_ji, and stays with probability s. Nothing leads on from a url:
    there it stops. With impact factors the probability of a step to k is multiplied by F_k, which is
    1 + log(1 + clicks of k) for a url and 1 for a query, and those of a query are made to sum to 1.
    """

    def __init__(
        self, tables: Tables, *, impact: bool = False, graph: ClickGraph | None = None
    ) -> None:
        self.graph = graph or click_graph(tables)
        self._stop, self._on = _transitions(self.graph, impact=impact)

    def rank(self, query: str, k: int) -> list[tuple[str, float]]:
        """The k urls where a walk from the query most likely stops; none if it is not published."""
        return self.rank_rows(np.array([self.graph.query(query)]), k).row(0, self.graph.urls)

    def rank_rows(self, rows: Ints, k: int) -> Ranking:
        """The best k urls, as columns of the graph, for each row; -1: a query not published."""
        parts = []
        for begin in range(0, len(rows), BLOCK):
            at = walkers_at(rows[begin : begin + BLOCK], len(self.graph.queries))
            seen = at
            for _ in range(STEPS - 1):
                at = prune(at @ self._on)
                seen = seen + at
            parts.append(best(seen @ self._stop, k))
        return concatenate(parts)


def rank_by_clicks(graph: ClickGraph, rows: Ints, k: int) -> Ranking:
    """The urls of each query by how often they were clicked for it."""
    return best(walkers_at(rows, len(graph.queries)) @ graph.clicks, k)


def merge_feedback(original: Ranking, feedback: Ranking) -> Ranking:
    """The original ranking, corrected by what was clicked (3.8).

    A url at rank O of the original and rank I of the feedback, both from 1, gets the score
    lambda / (I + 1) + (1 - lambda) / (O + 1), one without feedback 1 / (O + 1).
    """
    rank = feedback.rank_of(original.rows, original.columns)
    first = 1 / (original.ranks + 1)
    scores = np.where(rank > 0, FEEDBACK / (rank + 1) + (1 - FEEDBACK) * first, first)
    size, depth = len(original.lengths), int(original.lengths.max(initial=0))
    # Ties keep the original order.
    return in_rows(
        original.rows, original.columns, scores, size=size, depth=depth, second=original.ranks
    )


def _transitions(graph: ClickGraph, *, impact: bool) -> tuple[Any, Any]:
    """The steps from queries to urls and to queries; the rows of both sum to 1."""
    size = len(graph.queries)
    steps = (1 - STAYS) * normalise(sparse.hstack([graph.clicks, graph.follows], format="csr"))
    stay = sparse.hstack(
        [sparse.csr_array((size, len(graph.urls))), STAYS * sparse.eye_array(size)], format="csr"
    )
    steps = sparse.csr_array(steps + stay)
    if impact:
        clicked = np.asarray(graph.clicks.sum(axis=0)).ravel()
        factors = np.concatenate([1 + np.log1p(clicked), np.ones(size)])
        steps = normalise(steps @ sparse.diags_array(factors))
    return steps[:, : len(graph.urls)], steps[:, len(graph.urls) :]
