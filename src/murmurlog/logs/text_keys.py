"""128-bit keys of texts and of combinations of texts: multilinear hashing with fresh numbers.

A text of b bytes is the word b, then its bytes in 32-bit words, little-endian, the last filled up with
zeros. A lane has random 64-bit numbers m, m_0, m_1, ..., and gives the upper 32 bits of
m + sum m_i s_i mod 2^64: two different texts agree with probability 2^-32. Four lanes with numbers of
their own make 128 bits: the first 64 are the key that arrays are sorted by, the others its check. Values
are the same if and only if both agree (docs/explanation/guarantee.md). A combination of several columns
is hashed in the same way from the words of its parts. Imports only numpy and pyarrow.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.errors import EngineError
from murmurlog.logs.workspace import Resident
from murmurlog.privacy.sampler import Entropy, Keys, SystemEntropy, mix

LANES = 4
TEXTS_AT_ONCE = 16_000  # what is known of them stays in the CPU's cache
MOST_PARTS = 8  # of a combination, where numbers are drawn ahead
NOT_DRAWN = "a text or a list is longer than the workers have numbers for"
NO_KEYS: Keys = np.zeros((0, 2), np.uint64)

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[Any]


class TextKeys(Resident):
    """The numbers of all lanes, which are drawn once, and the keys that follow from them."""

    def __init__(self, entropy: Entropy | None = None) -> None:
        entropy = SystemEntropy() if entropy is None else entropy
        # Lanes of their own, because what they hash are keys under the numbers of the others.
        self._texts, self._items, self._lists = (
            _Numbers(entropy.stream(name)) for name in ("texts", "items", "lists")
        )
        self._number = np.frombuffer(entropy.stream("numbers").bytes(8), np.uint64)[0]

    def draw_ahead(self, *, longest: int, members: int) -> None:
        """Draws the numbers for texts of so many bytes and lists of so many members.

        A copy in another process has these and draws none of its own.
        """
        self._texts.first(-(-longest // 4) + 2)
        self._items.first(1 + 5 * MOST_PARTS)
        self._lists.first(2 + 4 * members)

    def texts(self, texts: pa.Array) -> Keys:
        """The key of each text; that of a null is 0."""
        texts = texts.cast(pa.large_string())
        keys = np.zeros((len(texts), 2), np.uint64)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts.slice(start, TEXTS_AT_ONCE)
            keys[start : start + len(some)] = self._hash(some)
        if texts.null_count:
            keys[texts.is_null().to_numpy(zero_copy_only=False)] = 0
        return keys

    def numbers(self, numbers: Integers) -> Keys:
        """The keys of whole numbers of 64 bits: a bijection, so that the check is not needed."""
        keys = np.zeros((len(numbers), 2), np.uint64)
        keys[:, 0] = mix(numbers.astype(np.int64).view(np.uint64) ^ self._number)
        return keys

    def combine(self, parts: Sequence[Keys]) -> Keys:
        """The keys of combinations of values, from the keys of their parts."""
        if len(parts) == 1:
            return parts[0]
        numbers = self._items.first(1 + 5 * len(parts))
        sums = np.empty((LANES, len(parts[0])), np.uint64)
        sums[:] = numbers[0][:, None]
        for place, part in enumerate(parts):
            own = numbers[1 + 5 * place :]
            sums += own[0][:, None]  # a part that is missing would not have this word
            for word, values in enumerate(_halves(part), start=1):
                for lane in range(LANES):
                    sums[lane] += own[word, lane] * values
        return _pack(sums)

    def lists(self, members: Keys, length: Integers) -> Keys:
        """The keys of lists, from the keys of all their members and the length of each list."""
        first = np.cumsum(length) - length
        keys = np.zeros((len(length), 2), np.uint64)
        for size in np.unique(length):
            chosen = np.flatnonzero(length == size)
            at = first[chosen][:, None] + np.arange(size)
            numbers = self._lists.first(2 + 4 * int(size))
            sums = np.empty((LANES, len(chosen)), np.uint64)
            sums[:] = (numbers[0] + numbers[1] * np.uint64(size))[:, None]
            for place in range(int(size)):
                for word, values in enumerate(_halves(members[at[:, place]])):
                    for lane in range(LANES):
                        sums[lane] += numbers[2 + 4 * place + word, lane] * values
            keys[chosen] = _pack(sums)
        return keys

    def columns(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Keys:
        """The keys of the rows of a table's key columns; these are texts, or one column of lists."""
        parts = [self._column(_whole(column)) for column in columns]
        return parts[0] if len(parts) == 1 else self.combine(parts)

    def _column(self, column: pa.Array) -> Keys:
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return self.texts(column)
        length = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        return self.lists(self.texts(pc.list_flatten(column)), length)

    def _hash(self, texts: pa.LargeStringArray) -> Keys:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        start, stop = int(ends[0]), int(ends[-1])
        raw = np.empty(stop - start + 4, np.uint8)  # four bytes more: the last word may reach over
        raw[-4:] = 0
        if stop > start:
            raw[:-4] = np.frombuffer(data, np.uint8)[start:stop]
        words = np.ndarray((len(raw) - 3,), "<u4", raw, strides=(1,))
        length = np.diff(ends)
        if texts.null_count:  # a slot of a null may hold bytes
            length = np.where(texts.is_null().to_numpy(zero_copy_only=False), 0, length)
        # Longest first: the texts that still have a word at a step are a prefix.
        short = length.astype(np.uint16) if length.max(initial=0) < 1 << 16 else length
        order = np.argsort(short, kind="stable")[::-1]  # of 16 bits it is counted, not compared
        length, at = length[order], (ends[:-1] - start)[order]
        steps = -(-int(length[0]) // 4) if len(length) else 0
        numbers = self._texts.first(steps + 2)
        sums = np.empty((LANES, len(length)), np.uint64)
        for lane in range(LANES):
            sums[lane] = numbers[0, lane] + numbers[1, lane] * length.astype(np.uint64)
        products = np.empty(len(length), np.uint64)
        for step in range(steps):
            count = int(np.searchsorted(-length, -4 * step))  # texts that have bytes at this step
            word = words[at[:count] + 4 * step].astype(np.uint64)
            whole = int(np.searchsorted(-length[:count], -(4 * step + 4), side="right"))
            if whole < count:  # bytes after a text's end are no part of it
                bits = np.uint64(8) * (length[whole:] - 4 * step)[: count - whole].astype(np.uint64)
                word[whole:] &= (np.uint64(1) << bits) - np.uint64(1)
            for lane in range(LANES):
                np.multiply(word, numbers[step + 2, lane], out=products[:count])
                sums[lane, :count] += products[:count]
        keys = np.empty((len(length), 2), np.uint64)
        keys[order] = _pack(sums)
        return keys


class _Numbers:
    """The random numbers of all lanes, drawn as far as a text needs them; those that are there stay."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy: Entropy | None = entropy
        self._lock = threading.Lock()
        self._drawn = np.zeros((0, LANES), np.uint64)

    def first(self, rows: int) -> Words:
        """At least so many rows of numbers, a column for each lane."""
        with self._lock:
            if missing := max(0, rows - len(self._drawn)):
                if (
                    self._entropy is None
                ):  # other numbers would give a text another key than elsewhere
                    raise EngineError(NOT_DRAWN)
                fresh = np.frombuffer(self._entropy.bytes(8 * LANES * missing), np.uint64)
                self._drawn = np.concatenate([self._drawn, fresh.reshape(missing, LANES)])
            return self._drawn

    def __getstate__(self) -> dict[str, Any]:
        return {"_drawn": self._drawn}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _entropy=None, _lock=threading.Lock())


def order_of_keys(keys: Keys) -> Integers:
    """An order in which equal keys, check included, are side by side and first words ascend."""
    count = len(keys)
    if count < 2:
        return np.arange(count)
    bits = np.uint64(int(count - 1).bit_length())
    # A first word and a place share a machine word: sorting words is faster than sorting places.
    words = np.ascontiguousarray(keys[:, 0])
    packed = (words >> bits << bits) | np.arange(count, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    prefix = packed >> bits
    same = prefix[1:] == prefix[:-1]
    if same.any():
        sorted_keys = keys[order]
        if not np.all((sorted_keys[1:] == sorted_keys[:-1])[same]):
            return np.lexsort((keys[:, 1], words))
    return order


def starts_of_runs(keys: Keys) -> npt.NDArray[np.bool_]:
    """Whether each key differs from the one before it."""
    new = np.ones(len(keys), bool)
    if len(keys):
        np.not_equal(keys[1:, 0], keys[:-1, 0], out=new[1:])
        same = np.flatnonzero(~new)
        new[same] = keys[same, 1] != keys[same - 1, 1]
    return new


def group_keys(keys: Keys) -> tuple[Integers, Integers]:
    """A code for each distinct key, in no particular order; and a row that has each of them."""
    words = pa.array(np.ascontiguousarray(keys[:, 0])).dictionary_encode()
    codes = words.indices.to_numpy()
    rows = np.empty(len(words.dictionary), np.int64)
    rows[codes] = np.arange(len(codes))
    check = np.ascontiguousarray(keys[:, 1])
    if np.array_equal(check[rows][codes], check):
        return codes, rows
    # Keys with one first word and other checks, which hardly ever are there.
    order = np.lexsort((check, keys[:, 0]))
    new = starts_of_runs(keys[order])
    codes = np.empty(len(keys), np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return codes, order[new]


def number_keys(keys: Keys) -> tuple[Integers, Integers]:
    """The place of each key among the distinct ones, which ascend; and a row that has each of them."""
    codes, rows = group_keys(keys)
    order = order_of_keys(keys[rows])
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place[codes], rows[order]


def distinct_keys(keys: Keys) -> Keys:
    """The distinct keys, ascending."""
    keys = keys[order_of_keys(keys)]
    return keys[starts_of_runs(keys)]


def places_of(keys: Keys, listed: Keys, *, ascending: bool = False) -> Integers:
    """The place of each key in a list of distinct, ascending keys; -1 where it is not listed.

    `ascending` says that the keys, too, are distinct and in order: of two lists the longer is then searched.
    """
    places = np.full(len(keys), -1, np.int64)
    if not len(listed) or not len(keys):
        return places
    if ascending and 4 * len(listed) < len(keys):
        back = places_of(listed, keys)
        places[back[back >= 0]] = np.flatnonzero(back >= 0)
        return places
    words = np.ascontiguousarray(listed[:, 0])
    at = np.searchsorted(words, np.ascontiguousarray(keys[:, 0]))
    while True:
        # Keys with one first word and other checks follow one another: hardly ever are there any.
        inside = np.flatnonzero((places < 0) & (at < len(words)))
        inside = inside[words[at[inside]] == keys[inside, 0]]
        if not len(inside):
            return places
        right = listed[at[inside], 1] == keys[inside, 1]
        places[inside[right]] = at[inside[right]]
        at[inside] += 1


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = column.combine_chunks()
    return pa.concat_arrays(chunks.chunks) if isinstance(chunks, pa.ChunkedArray) else chunks


def _halves(keys: Keys) -> tuple[Words, Words, Words, Words]:
    """The four 32-bit words of each key."""
    key, check = np.ascontiguousarray(keys[:, 0]), np.ascontiguousarray(keys[:, 1])
    return key >> _HALF, key & _LOW, check >> _HALF, check & _LOW


def _pack(sums: Words) -> Keys:
    """The upper halves of the lanes: the first two are the key, the others its check."""
    keys = np.empty((sums.shape[1], 2), np.uint64)
    for word, (high, low) in enumerate(((0, 1), (2, 3))):
        keys[:, word] = sums[high] >> _HALF << _HALF | sums[low] >> _HALF
    return keys
