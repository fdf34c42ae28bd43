"""Related queries: those that the same people ask.

    together(q, r) = sum of the counts of the sets that have both q and r

The best r for q are those with the highest sums; equal sums go by the order in which the table lists queries.
Sees published sets only.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.bundle.models.click_graph import places
from murmurlog.bundle.models.derived_tables import Floats, Ints, weights

BLOCK = 256  # queries whose sums are in memory at a time


class RelatedQueries:
    """Which queries sets have together; queries are numbered in the order of `texts`."""

    def __init__(self, *, texts: pa.Array, of: Ints, item: Ints, counts: Floats) -> None:
        """`of` and `item`: the set and the query of each pair of the two; a set has a query once."""
        self.texts = texts
        shape = (len(counts), len(texts))
        self._sets: sparse.csr_array = sparse.csr_array(
            (np.ones(len(item)), (of, item)), shape=shape
        )
        self._of: sparse.csr_array = sparse.csr_array((counts[of], (item, of)), shape=shape[::-1])

    @classmethod
    def from_table(cls, table: pa.Table) -> "RelatedQueries":
        """From an itemset table."""
        lists = table["items"].combine_chunks()
        queries = lists.flatten().dictionary_encode()
        return cls(
            texts=queries.dictionary,
            of=pc.list_parent_indices(lists).to_numpy().astype(np.int64),
            item=queries.indices.to_numpy().astype(np.int64),
            counts=weights(table),
        )

    def numbers(self, texts: pa.Array) -> Ints:
        """The numbers of queries; -1 for those in no set."""
        return places(texts, self.texts)

    def best(self, queries: Ints, k: int) -> Ints:
        """The k best queries for each number of a query, a row each; -1 where there are no more."""
        best = np.full((len(queries), k), -1, np.int64)
        in_sets = np.flatnonzero(queries >= 0)
        for start in range(0, len(in_sets), BLOCK):
            rows = in_sets[start : start + BLOCK]
            sums = self._of[queries[rows]] @ self._sets
            for row, first, last in zip(rows, sums.indptr, sums.indptr[1:], strict=False):
                item, value = sums.indices[first:last], sums.data[first:last]
                other = (item != queries[row]) & (value > 0)
                item, value = item[other], value[other]
                order = np.lexsort((item, -value))[:k]
                best[row, : len(order)] = item[order]
        return best
