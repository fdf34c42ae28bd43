"""Session search: urls for a whole session, from those of each of its queries (Zhang 2017, 4.13).

    score(S, d) = sum over i = 1 .. n of gamma^(n - i) / rank of d for q_i

The ranks are those of a walk on the click graph (4.12). Its queries are linked by a pair table (the
query asked next), by a session table (every later query), or not at all.

Differs: places beyond the fiftieth count as nothing; each would add less than a fiftieth of what a
first place adds. Sees published tables only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.click_graph import DECIMALS, Ranking, in_rows, places
from murmurlog.bundle.models.derived_tables import Floats, Ints, Tables
from murmurlog.bundle.models.search import Searcher
from murmurlog.bundle.models.suggestion import later_pairs

Links = Literal["clicks", "pairs", "sessions"]

GAMMA = 0.92
DEPTH = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class SessionQueries:
    """Sessions as rows of a ranking: one entry for each query of each session."""

    session: Ints
    query: Ints  # a row of the ranking
    after: Ints  # how many queries of the session follow it: n - i
    sessions: int


class SessionSearcher:
    """Urls for sessions from the tables of a release."""

    def __init__(self, tables: Tables, *, links: Links = "pairs") -> None:
        self._searcher = Searcher(link_queries(tables, links))

    @property
    def urls(self) -> pa.Array:
        """The published urls; rankings are of their places here."""
        return self._searcher.graph.urls

    def rank(
        self, queries: Sequence[str], k: int = 10, *, gamma: float = GAMMA
    ) -> list[tuple[str, float]]:
        """The k best urls for a session of these queries, the last one last, with their scores."""
        at = np.arange(len(queries))
        session = SessionQueries(session=np.zeros_like(at), query=at, after=at[::-1], sessions=1)
        rankings = self.rank_each(pa.array(queries, pa.string()))
        (combined,) = combine_rankings(rankings, session, k, [gamma])
        return combined.row(0, self.urls)

    def rank_each(self, queries: pa.Array) -> Ranking:
        """The ranking for each query alone; empty for a query that is not published."""
        rows = places(queries, self._searcher.graph.queries)
        published = rows >= 0  # a walk from an unpublished query would reach nothing
        ranking = self._searcher.rank_rows(rows[published], DEPTH)
        lengths = np.zeros(len(rows), np.int64)
        lengths[published] = ranking.lengths
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return Ranking(starts=starts, columns=ranking.columns, scores=ranking.scores)


def link_queries(tables: Tables, links: Links) -> dict[str, pa.Table]:
    """The click table, and a pair table with what links its queries."""
    names = ("click", "pair") if links == "pairs" else ("click",)
    linked = {name: tables[name] for name in names if name in tables}
    if links == "sessions":
        linked["pair"] = later_pairs(tables["session"])
    return linked


def combine_rankings(
    ranking: Ranking, queries: SessionQueries, k: int, gammas: Sequence[float]
) -> list[Ranking]:
    """The k best urls of each session by (4.13), once for each gamma; ties by text."""
    count = ranking.lengths[queries.query]
    entry = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count)
    url = ranking.columns[ranking.starts[queries.query[entry]] + place]
    size = int(url.max(initial=0)) + 1
    pairs, pair = np.unique(queries.session[entry] * size + url, return_inverse=True)
    session, url = np.divmod(pairs, size)
    combined = []
    for gamma in gammas:
        part: Floats = np.power(float(gamma), queries.after[entry]) / (place + 1)
        score = np.bincount(pair, weights=part, minlength=len(pairs)).astype(np.float64)
        score = np.round(score, DECIMALS)
        rows = np.flatnonzero(score > 0)  # with gamma = 0 only the last query counts
        combined.append(
            in_rows(session[rows], url[rows], score[rows], size=queries.sessions, depth=k)
        )
    return combined
