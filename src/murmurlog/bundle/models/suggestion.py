"""Query suggestion by next queries and by similar clicks (Zhang 2017, 4.9).

    P(q_i, q_j) = lam cos(q_i, q_j) + (1 - lam) e(q_i, q_j) / d(q_i)

cos is of the two queries' vectors of clicked urls, weighted by their counts. e is the weight of the
edge from q_i to q_j in the query-flow graph and d(q_i) the sum of the weights that leave q_i. With a
session table e counts every later query of a published session, with a pair table only the next one.

Differs: q_i itself is no suggestion. Equal scores go by the order of the query table, the most
frequent first; the thesis specifies neither. Sees published tables only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.bundle.models.click_graph import DECIMALS, normalise, places, sum_matrix
from murmurlog.bundle.models.derived_tables import Floats, Ints, Tables, weights
from murmurlog.bundle.schema import lists_of

LAMBDA = 0.5
BLOCK = 256  # queries whose neighbours are in memory at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Candidate suggestions for one query: ascending numbers, similarity and share of the flow."""

    number: Ints
    similarity: Floats
    flow: Floats

    def rank(self, lam: float, k: int) -> tuple[Ints, Floats]:
        """The k best numbers by P, with it; those with P = 0 are no suggestions."""
        score = np.round(lam * self.similarity + (1 - lam) * self.flow, DECIMALS)
        order = np.argsort(-score, kind="stable")[:k]
        order = order[score[order] > 0]
        return self.number[order], score[order]


NOTHING = Candidates(number=np.empty(0, np.int64), similarity=np.empty(0), flow=np.empty(0))


class Suggester:
    """Suggestions from the tables of a release. Queries are numbered, the most frequent first."""

    def __init__(self, tables: Tables, *, sessions: bool | None = None) -> None:
        """`sessions`: take the flow from the session table or not; None: if there is one."""
        if sessions is None:
            sessions = "session" in tables and lists_of(tables["session"]) == "queries"
        pairs = later_pairs(tables["session"]) if sessions else tables.get("pair")
        self.queries = _queries(tables, pairs)
        self.flow = normalise(self._flow(pairs))
        self.clicks = _unit_rows(self._clicks(tables.get("click")))
        self._clicked = self.clicks.T.tocsr()

    def suggest(self, query: str, k: int = 10, *, lam: float = LAMBDA) -> list[tuple[str, float]]:
        """The k best suggestions after a query with their P, the best first."""
        (candidates,) = self.candidates(np.array([self._number.get(query, -1)]), k)
        number, score = candidates.rank(lam, k)
        texts = self.queries.take(pa.array(number)).to_pylist()
        return list(zip(texts, score.tolist(), strict=True))

    def suggest_all(self, queries: Ints, k: int, lambdas: Sequence[float]) -> Ints:
        """The numbers of the k best after each query, for each lambda; -1 where there are fewer."""
        best = np.full((len(queries), len(lambdas), k), -1, np.int64)
        for row, candidates in enumerate(self.candidates(queries, k)):
            for column, lam in enumerate(lambdas):
                number, _ = candidates.rank(lam, k)
                best[row, column, : len(number)] = number
        return best

    def numbers(self, texts: pa.Array) -> Ints:
        """The numbers of queries; -1 for a query that is not published."""
        return places(texts, self.queries)

    def candidates(self, queries: Ints, k: int) -> Iterator[Candidates]:
        """For each query all candidates that can be among its k best at any lambda."""
        candidates = self._candidates(queries[queries >= 0], k)
        return (next(candidates) if number >= 0 else NOTHING for number in queries)

    def _candidates(self, queries: Ints, k: int) -> Iterator[Candidates]:
        """The candidates of published queries."""
        similarity, flow = np.zeros(len(self.queries)), np.zeros(len(self.queries))
        for begin in range(0, len(queries), BLOCK):
            block = queries[begin : begin + BLOCK]
            alike, next_queries = self.clicks[block] @ self._clicked, self.flow[block]
            for row, number in enumerate(block):
                clicked, followed = _columns(alike, row), _columns(next_queries, row)
                similarity[clicked] = np.round(alike.data[_places(alike, row)], DECIMALS)
                flow[followed] = np.round(next_queries.data[_places(next_queries, row)], DECIMALS)
                similarity[number] = flow[number] = 0.0
                best = _select(similarity, flow, np.sort(clicked), np.sort(followed), k)
                yield Candidates(number=best, similarity=similarity[best], flow=flow[best])
                similarity[clicked] = flow[followed] = 0.0

    @cached_property
    def _number(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.queries.to_pylist())}

    def _flow(self, pairs: pa.Table | None) -> Any:
        """The query-flow graph: the weight of each edge; none from a query to itself."""
        shape = (len(self.queries), len(self.queries))
        if pairs is None:
            return sparse.csr_array(shape)
        first, second = self.numbers(pairs["query"]), self.numbers(pairs["next_query"])
        return sum_matrix(first, second, weights(pairs) * (first != second), shape)

    def _clicks(self, clicks: pa.Table | None) -> Any:
        """The click graph: a row for each query, a column for each url."""
        if clicks is None:
            return sparse.csr_array((len(self.queries), 0))
        urls = clicks["url"].combine_chunks().dictionary_encode()
        column = urls.indices.to_numpy().astype(np.int64)
        shape = (len(self.queries), len(urls.dictionary))
        return sum_matrix(self.numbers(clicks["query"]), column, weights(clicks), shape)


def later_pairs(sessions: pa.Table) -> pa.Table:
    """Each query of a published session with every later one, as a table of pairs.

    Each occurrence counts, times the session's count. Where subsequences were published, a pair
    counts in each subsequence that contains it, as in the thesis.
    """
    lists = sessions["queries"].combine_chunks()
    texts = lists.flatten().dictionary_encode()
    query = texts.indices.to_numpy().astype(np.int64)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    session = np.repeat(np.arange(len(lengths)), lengths)
    end = np.cumsum(lengths)[session]
    at, pairs = np.arange(len(query)), [np.empty((2, 0), np.int64)]
    for lag in range(1, int(lengths.max(initial=1))):
        at = at[at + lag < end[at]]
        pairs.append(np.stack([at, at + lag]))
    first, second = np.concatenate(pairs, axis=1)
    size = len(texts.dictionary)
    weight = weights(sessions)[session[first]]
    summed = sum_matrix(query[first], query[second], weight, (size, size)).tocoo()
    row, column = (texts.dictionary.take(pa.array(c)) for c in summed.coords)
    return pa.table({"query": row, "next_query": column, "users": pa.array(summed.data)})


def _queries(tables: Tables, pairs: pa.Table | None) -> pa.Array:
    """Every query, once: in the order of the query table, then of the others."""
    columns = [tables[name]["query"] for name in ("query", "click") if name in tables]
    columns += [pairs["query"], pairs["next_query"]] if pairs is not None else []
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def _select(similarity: Floats, flow: Floats, clicked: Ints, followed: Ints, k: int) -> Ints:
    """The queries that can be among the k best: where one score is 0, the other alone decides."""
    both = clicked[flow[clicked] > 0]
    clicked, followed = clicked[flow[clicked] == 0], followed[similarity[followed] == 0]
    best = (clicked[_top(similarity[clicked], k)], followed[_top(flow[followed], k)])
    return np.sort(np.concatenate([both, *best])).astype(np.int64)


def _top(values: Floats, k: int) -> Ints:
    """The places of the k largest, unordered; the first of equals."""
    if len(values) <= k:
        return np.arange(len(values))
    least = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > least)
    return np.concatenate([above, np.flatnonzero(values == least)[: k - len(above)]])


def _places(matrix: Any, row: int) -> slice:
    """The places of a row's entries."""
    return slice(matrix.indptr[row], matrix.indptr[row + 1])


def _columns(matrix: Any, row: int) -> Ints:
    columns: Ints = matrix.indices[_places(matrix, row)]
    return columns


def _unit_rows(matrix: Any) -> Any:
    """Each row divided by its length."""
    length = np.sqrt(matrix.power(2).sum(axis=1))
    divisor = np.repeat(length, np.diff(matrix.indptr))  # no row with an entry has length 0
    return sparse.csr_array((matrix.data / divisor, matrix.indices, matrix.indptr), matrix.shape)
