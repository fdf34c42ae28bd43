"""128-bit keys of texts and of items: multilinear hashing with fresh numbers.

A text of b bytes is the word b, then its bytes in 32-bit words, little-endian, the last filled up with
zeros. A lane has random 64-bit numbers m, m_0, m_1, ..., and gives the upper 32 bits of
m + sum m_i s_i mod 2^64: two different texts agree with probability 2^-32. Four lanes with numbers of
their own make 128 bits. An item of several columns is hashed in the same way from the words of its
parts. Imports only numpy and pyarrow.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.privacy.sampler import Entropy, Keys, SeededEntropy

LANES = 4
WORDS_A_PART = 5  # whether there is a value, then the four words of its key
TEXTS_AT_ONCE = 100_000  # what is known of them stays in the CPU's cache


class TextKeys:
    """The numbers of all lanes, which are drawn once, and the keys that follow from them."""

    def __init__(self, entropy: Entropy) -> None:
        self._texts, self._items = entropy.stream("texts"), entropy.stream("items")
        self._text_numbers = self._item_numbers = np.zeros((0, LANES), np.uint64)

    def texts(self, texts: pa.Array) -> Keys:
        """The key of each text; that of a null is 0."""
        texts = texts.cast(pa.large_string())
        parts = [
            self._hash(texts.slice(start, TEXTS_AT_ONCE))
            for start in range(0, len(texts), TEXTS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, 2), np.uint64)

    def items(self, columns: Sequence[pa.Array]) -> Keys:
        """The key of each item: of one column of texts that of the text, else of its parts together."""
        if len(columns) == 1 and not pa.types.is_list(columns[0].type):
            return self.texts(columns[0])
        parts = [self._words_of_part(column) for column in columns]
        return self._combine(np.concatenate(parts, axis=1))

    def _words_of_part(self, column: pa.Array) -> npt.NDArray[np.uint64]:
        """Of each value whether it is there and the words of its key; a list is an item of its members."""
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.uint64)
        keys = self._lists(column) if pa.types.is_list(column.type) else self.texts(column)
        return np.concatenate([present[:, None], _halves(keys)], axis=1)

    def _lists(self, column: pa.ListArray) -> Keys:
        length = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        members = self.texts(pc.list_flatten(column))
        first = np.cumsum(length) - length
        keys = np.zeros((len(column), 2), np.uint64)
        for size in np.unique(length):
            chosen = np.flatnonzero(length == size)
            at = first[chosen][:, None] + np.arange(size)
            words = _halves(members[at.reshape(-1)]).reshape(len(chosen), 4 * int(size))
            keys[chosen] = self._combine(
                np.concatenate([np.full((len(chosen), 1), size, np.uint64), words], axis=1)
            )
        return keys

    def _combine(self, words: npt.NDArray[np.uint64]) -> Keys:
        self._item_numbers = _extended(self._item_numbers, words.shape[1] + 1, self._items)
        sums = self._item_numbers[0] + words @ self._item_numbers[1 : words.shape[1] + 1]
        return _pack(sums)

    def _hash(self, texts: pa.Array) -> Keys:
        if texts.null_count:
            texts = pc.fill_null(texts, "")
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        start, stop = int(ends[0]), int(ends[-1])
        raw = np.zeros(stop - start + 4, np.uint8)  # four bytes more: the last word may reach over
        if stop > start:
            raw[:-4] = np.frombuffer(data, np.uint8)[start:stop]
        words = np.ndarray((len(raw) - 3,), "<u4", raw, strides=(1,))
        length = np.diff(ends)
        # Longest first: the texts that still have a word at a step are a prefix.
        order = np.argsort(-length, kind="stable")
        length, at = length[order], (ends[:-1] - start)[order]
        steps = -(-int(length[0]) // 4) if len(length) else 0
        self._text_numbers = M = _extended(self._text_numbers, steps + 2, self._texts)
        sums = M[0] + M[1] * length[:, None].astype(np.uint64)
        for step in range(steps):
            count = int(np.searchsorted(-length, -4 * step))
            word = words[at[:count] + 4 * step].astype(np.uint64)
            left = np.minimum(length[:count] - 4 * step, 4).astype(np.uint64)
            word &= (np.uint64(1) << (np.uint64(8) * left)) - np.uint64(1)
            sums[:count] += M[step + 2] * word[:, None]
        keys = np.empty((len(length), 2), np.uint64)
        keys[order] = _pack(sums)
        return keys


@lru_cache(maxsize=8)
def keys_of_seed(seed: int) -> TextKeys:
    """The keys under which items draw from a seed, the same for all streams."""
    return TextKeys(SeededEntropy(seed).stream("keys"))


def item_keys(columns: Sequence[pa.Array], entropy: Entropy) -> Callable[[], Keys]:
    """The keys of items for `draw`, which asks for them where a seed decides."""

    def hash_items() -> Keys:
        assert isinstance(entropy, SeededEntropy)
        return keys_of_seed(entropy.seed).items(columns)

    return hash_items


def _extended(
    numbers: npt.NDArray[np.uint64], rows: int, entropy: Entropy
) -> npt.NDArray[np.uint64]:
    """At least so many rows of numbers; those that are there stay."""
    if rows <= len(numbers):
        return numbers
    missing = rows - len(numbers)
    fresh = np.frombuffer(entropy.bytes(8 * LANES * missing), np.uint64).reshape(missing, LANES)
    return np.concatenate([numbers, fresh])


def _pack(sums: npt.NDArray[np.uint64]) -> Keys:
    """The upper halves of the lanes: the first two are the key, the others its check."""
    high = np.uint64(32)
    upper = sums >> high
    return np.stack([upper[:, 0] << high | upper[:, 1], upper[:, 2] << high | upper[:, 3]], axis=1)


def _halves(keys: Keys) -> npt.NDArray[np.uint64]:
    """The four 32-bit words of each key."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    columns = (keys[:, 0] >> high, keys[:, 0] & low, keys[:, 1] >> high, keys[:, 1] & low)
    return np.stack(columns, axis=1)
