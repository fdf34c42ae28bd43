"""Which posting lists of an index to keep in memory, by the frequency of words in queries.

ZEALOUS 7.2, after Baeza-Yates. The index is public and not part of the release; only the frequencies
come from the release.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.click_graph import places
from murmurlog.bundle.models.derived_tables import Ints, weights

POSTING = 8  # bytes
LONGEST = 200_000  # postings of a list that are kept in memory


@dataclass(frozen=True, kw_only=True)
class Index:
    """The length of each word's posting list: how many documents contain the word."""

    words: pa.Array
    lengths: Ints

    def of(self, words: pa.Array | pa.ChunkedArray) -> Ints:
        """The lengths of these words' lists. A word that is not listed counts as in one document."""
        place = places(words, self.words)
        lengths = np.ones(len(place), np.int64)
        lengths[place >= 0] = self.lengths[place[place >= 0]]
        return np.maximum(lengths, 1)

    @property
    def size(self) -> int:
        """What all its lists would take in memory, in bytes."""
        return int(bytes_of_lists(self.lengths).sum())


def bytes_of_lists(lengths: Ints) -> Ints:
    """What lists take in memory, in bytes."""
    return np.minimum(lengths, LONGEST) * POSTING


def words_to_cache(keywords: pa.Table, index: Index, memory: int) -> pa.Array:
    """The words whose lists are kept in `memory` bytes.

    Words are chosen by frequency divided by the number of documents, ties by text. A list that no
    longer fits is skipped. Words without a positive count are not chosen.
    """
    frequency = weights(keywords)
    length = index.of(keywords["keyword"])
    worth = pa.table({"word": keywords["keyword"], "worth": pa.array(frequency / length)})
    order = pc.sort_indices(worth, sort_keys=[("worth", "descending"), ("word", "ascending")])
    order = order.to_numpy()
    order = order[frequency[order] > 0]
    chosen = order[_pack(bytes_of_lists(length[order]), memory)]
    return pc.take(keywords["keyword"], pa.array(chosen)).combine_chunks()


def _pack(sizes: Ints, room: int) -> Ints:
    """The positions chosen in order, each if it still fits into `room`."""
    rest, chosen = np.arange(len(sizes)), [np.zeros(0, np.int64)]
    while len(rest := rest[sizes[rest] <= room]):
        filled = np.cumsum(sizes[rest])
        fit = int(np.searchsorted(filled, room, side="right"))
        chosen.append(rest[:fit])
        room -= int(filled[fit - 1])
        rest = rest[fit + 1 :]  # the list at `fit` does not fit, and never will
    return np.concatenate(chosen)
