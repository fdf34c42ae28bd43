"""Completion: the most frequent published queries that begin with a prefix.

The queries are sorted by text, so those with a prefix are adjacent and two binary searches find them.
Each has a rank by its count. The best k of a range are in the k blocks with the best ranks. This is
exact for every prefix, including the empty one. Sees published tables only.
"""

from bisect import bisect_left, bisect_right
from os.path import commonprefix

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.derived_tables import Ints, Tables, weights

BLOCK = 256


class Completer:
    """Completions from the query table of a release; needs one."""

    def __init__(self, tables: Tables) -> None:
        coded = tables["query"]["query"].combine_chunks().dictionary_encode()
        place = coded.indices.to_numpy()
        counts = np.bincount(place, weights=weights(tables["query"]))
        order = pc.sort_indices(coded.dictionary).to_numpy()
        self.texts: list[str] = coded.dictionary.take(pa.array(order)).to_pylist()
        self.counts = counts[order]
        # Ranks are distinct: equal counts are ranked by text, so that answers are deterministic.
        rank = np.empty(len(order), np.int64)
        rank[np.argsort(-self.counts, kind="stable")] = np.arange(len(order))
        blocks = -(-len(rank) // BLOCK)
        self._rank = np.full(blocks * BLOCK, len(rank))
        self._rank[: len(rank)] = rank
        self._least = self._rank.reshape(blocks, BLOCK).min(axis=1)

    def complete(self, prefix: str, k: int = 10) -> list[tuple[str, float]]:
        """The k most frequent queries with a prefix, and their counts; may include the prefix itself."""
        start, end = self.prefix_range(prefix)
        return [(self.texts[i], float(self.counts[i])) for i in self._best(start, end, k)]

    def prefix_range(self, prefix: str) -> tuple[int, int]:
        """The positions at which the sorted queries with this prefix begin and end."""
        start = bisect_left(self.texts, prefix)
        end = bisect_right(self.texts, prefix, start, key=lambda text: text[: len(prefix)])
        return start, end

    def shared_prefix_length(self, text: str) -> int:
        """The length of the longest prefix of a text that a query begins with.

        One of the two sorted neighbours of the text shares the longest prefix.
        """
        at = bisect_left(self.texts, text)
        neighbours = self.texts[max(0, at - 1) : at + 1]
        return max((len(commonprefix([text, query])) for query in neighbours), default=0)

    def _best(self, start: int, end: int, k: int) -> Ints:
        """The positions of the k best ranks in a range, the best first."""
        first, last = -(-start // BLOCK), end // BLOCK  # whole blocks in it
        if first >= last:
            at = np.arange(start, end)
        else:
            whole = np.arange(first, last)
            if len(whole) > k:
                whole = first + np.argpartition(self._least[first:last], k - 1)[:k]
            inside = (whole[:, None] * BLOCK + np.arange(BLOCK)).ravel()
            at = np.concatenate(
                [np.arange(start, first * BLOCK), inside, np.arange(last * BLOCK, end)]
            )
        if len(at) > k:
            at = at[np.argpartition(self._rank[at], k - 1)[:k]]
        best: Ints = at[np.argsort(self._rank[at])]
        return best
