"""The click graph of published tables, and walks on it.

Queries and urls are nodes, published clicks link them, published pairs link a query to the one asked
next. A walk is a product of sparse matrices, computed for the requested rows only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.bundle.models.derived_tables import (
    Floats,
    Ints,
    Tables,
    add_derived_tables,
    weights,
)
from murmurlog.errors import UsageError

FAINT = 1e-3  # smaller probabilities are dropped: rows would fill up
DECIMALS = 12  # smaller differences are ties, ordered by text
BLOCK = 256  # rows that walk together


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickGraph:
    """The urls clicked for each query and the queries asked after it, by published counts."""

    queries: pa.Array  # in order of text, so that ties are too
    urls: pa.Array
    clicks: Any  # sparse: queries x urls
    follows: Any  # sparse: queries x queries, without the diagonal; empty without pairs

    def query(self, text: str) -> int:
        """The row of a query, -1 if it is not published."""
        return _place(text, self.queries)

    def url(self, text: str) -> int:
        """The column of a url, -1 if it is not published."""
        return _place(text, self.urls)


def click_graph(tables: Tables, *, pairs: bool = True) -> ClickGraph:
    """The graph of the click table and, unless `pairs` is false, of the pair table."""
    if "click" not in tables or (pairs and "pair" not in tables and "session" in tables):
        tables = add_derived_tables(tables)
    if "click" not in tables:
        raise UsageError("this release has no clicks: a click graph needs a click table")
    click = tables["click"]
    follow = tables.get("pair") if pairs else None
    columns = [click["query"]]
    if follow is not None:
        follow = follow.filter(pc.not_equal(follow["query"], follow["next_query"]))
        columns += [follow["query"], follow["next_query"]]
    queries, urls = _distinct(columns), _distinct([click["url"]])
    shape = (len(queries), len(queries))
    return ClickGraph(
        queries=queries,
        urls=urls,
        clicks=sum_matrix(
            places(click["query"], queries),
            places(click["url"], urls),
            weights(click),
            (len(queries), len(urls)),
        ),
        follows=sparse.csr_array(shape)
        if follow is None
        else sum_matrix(
            places(follow["query"], queries),
            places(follow["next_query"], queries),
            weights(follow),
            shape,
        ),
    )


def places(texts: pa.Array | pa.ChunkedArray | Sequence[str], among: pa.Array) -> Ints:
    """The place of each text in an array of distinct texts, -1 for those that are not in it."""
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        texts = pa.array(texts, pa.string())
    place = pc.fill_null(pc.index_in(texts.cast(pa.string()), value_set=among), -1)
    return np.asarray(place.to_numpy(), dtype=np.int64)


def sum_by_place(place: Ints, weight: Floats, size: int) -> Floats:
    """The sum of the weights at each place below `size`; a weight at -1 is ignored."""
    sums: Floats = np.bincount(place + 1, weight, size + 1)[1:].astype(np.float64)
    return sums


def normalise(matrix: Any) -> Any:
    """The matrix with rows that sum to 1, or to 0 where there is nothing."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ matrix)


def prune(matrix: Any) -> Any:
    """A copy of the matrix without its faint entries."""
    matrix = matrix.copy()
    matrix.data[matrix.data < FAINT] = 0.0
    matrix.eliminate_zeros()
    return matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """For each requested row, columns with their scores, the best first."""

    starts: Ints  # row r has places starts[r] to starts[r + 1]
    columns: Ints
    scores: Floats

    def row(self, r: int, names: pa.Array) -> list[tuple[str, float]]:
        """One row as names with scores."""
        part = slice(self.starts[r], self.starts[r + 1])
        texts: list[str] = names.take(pa.array(self.columns[part])).to_pylist()
        return list(zip(texts, self.scores[part].tolist(), strict=True))

    @property
    def lengths(self) -> Ints:
        """How many columns each row has."""
        return np.diff(self.starts)

    @property
    def rows(self) -> Ints:
        """Of each column, its row."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def ranks(self) -> Ints:
        """Of each column, its place in its row; the best has 1."""
        return np.arange(len(self.columns)) - self.starts[self.rows] + 1

    def rank_of(self, rows: Ints, columns: Ints) -> Ints:
        """The places of some columns in some rows, 0 where they are not."""
        if not len(self.columns):
            return np.zeros(len(rows), np.int64)
        width = 1 + max(int(x.max(initial=0)) for x in (self.columns, columns))
        keys, wanted = self.rows * width + self.columns, rows * width + columns
        order = np.argsort(keys)
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        return np.where((keys[at] == wanted) & (columns >= 0), self.ranks[at], 0)


def best(matrix: Any, depth: int) -> Ranking:
    """The best `depth` columns of each row; ties by column."""
    matrix = sparse.csr_array(matrix)
    count = np.diff(matrix.indptr).astype(np.int64)
    candidate = matrix.data > 0
    for row in np.flatnonzero(count > depth):
        # Long rows are cut before sorting, except for entries that may tie with the last one.
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        last = np.partition(matrix.data[part], -depth)[-depth]
        candidate[part] &= matrix.data[part] >= last - 10.0**-DECIMALS
    rows = np.repeat(np.arange(len(count)), count)[candidate]
    columns = matrix.indices[candidate].astype(np.int64)
    scores = np.round(matrix.data[candidate], DECIMALS)
    positive = scores > 0
    return in_rows(
        rows[positive], columns[positive], scores[positive], size=len(count), depth=depth
    )


def in_rows(
    row: Ints, columns: Ints, scores: Floats, *, size: int, depth: int, second: Ints | None = None
) -> Ranking:
    """Scored columns of `size` rows as a ranking; ties by a second number, else by column."""
    order = np.lexsort((columns if second is None else second, -np.round(scores, DECIMALS), row))
    row = row[order]
    starts = np.searchsorted(row, np.arange(size + 1))
    order = order[np.arange(len(row)) - starts[row] < depth]
    return Ranking(
        starts=np.concatenate([[0], np.cumsum(np.minimum(np.diff(starts), depth))]),
        columns=columns[order],
        scores=scores[order],
    )


def concatenate(parts: Sequence[Ranking]) -> Ranking:
    """One ranking with the rows of all, in order."""
    if not parts:
        return Ranking(
            starts=np.zeros(1, np.int64), columns=np.zeros(0, np.int64), scores=np.zeros(0)
        )
    return Ranking(
        starts=np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))]),
        columns=np.concatenate([part.columns for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
    )


class Walker:
    """Related queries by a random walk from a query to a clicked url and back."""

    def __init__(self, tables: Tables) -> None:
        self.graph = click_graph(tables, pairs=False)

    @cached_property
    def out(self) -> Any:
        """From queries to urls, in proportion to clicks."""
        return normalise(self.graph.clicks)

    @cached_property
    def back(self) -> Any:
        """From urls to queries, in proportion to clicks."""
        return normalise(self.graph.clicks.T.tocsr())

    def related(self, query: str, k: int) -> list[tuple[str, float]]:
        """The k queries where a walker is most likely after two steps, with the probabilities.

        Excludes the query itself; empty for a query without a published click.
        """
        row = np.array([self.graph.query(query)])
        return self.of_queries(row, k, rounds=1).row(0, self.graph.queries)

    def of_queries(self, rows: Ints, k: int, *, rounds: int) -> Ranking:
        """For each query (a row of the graph, or -1), the queries met in `rounds` rounds."""
        return self._walk(rows, len(self.graph.queries), k, rounds, from_urls=False)

    def of_urls(self, rows: Ints, k: int, *, rounds: int) -> Ranking:
        """For each url, the queries that a walker from it meets; the first round is the return step."""
        return self._walk(rows, len(self.graph.urls), k, rounds, from_urls=True)

    def _walk(self, rows: Ints, size: int, k: int, rounds: int, *, from_urls: bool) -> Ranking:
        parts = []
        for begin in range(0, len(rows), BLOCK):
            block = rows[begin : begin + BLOCK]
            at = walkers_at(block, size)
            met = None
            for step in range(rounds):
                if step or not from_urls:
                    at = prune(at) @ self.out
                # The first round is not pruned, so that every query with clicks has related ones.
                at = (prune(at) if step else at) @ self.back
                met = at if met is None else met + at
            parts.append(best(met if from_urls else _without(met, block), k))
        return concatenate(parts)


def walkers_at(rows: Ints, size: int) -> Any:
    """A walker at each of these places; none for a place that is -1."""
    walkers = np.flatnonzero(rows >= 0)
    return sparse.csr_array(
        (np.ones(len(walkers)), (walkers, rows[walkers])),
        shape=(len(rows), size),
        dtype=np.float64,
    )


def _without(matrix: Any, columns: Ints) -> Any:
    """The matrix with one column of each row set to 0."""
    matrix.data[matrix.indices == np.repeat(columns, np.diff(matrix.indptr))] = 0.0
    return matrix


def _place(text: str, among: pa.Array) -> int:
    return int(pc.index(among, pa.scalar(text, pa.string())).as_py())


def _distinct(columns: Sequence[Any]) -> pa.Array:
    """Every text of some columns once, in order."""
    chunks = [chunk for column in columns for chunk in column.cast(pa.string()).chunks]
    texts = pc.unique(pa.chunked_array(chunks, pa.string()))
    return texts.take(pc.sort_indices(texts))


def sum_matrix(row: Ints, column: Ints, values: Floats, shape: tuple[int, int]) -> Any:
    """The values summed by row and column, as a sparse matrix without zeros."""
    matrix = sparse.csr_array((values, (row, column)), shape=shape)
    matrix.eliminate_zeros()
    return matrix
