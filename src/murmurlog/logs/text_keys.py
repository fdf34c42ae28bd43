"""128-bit keys of texts and of combinations of texts: multilinear hashing with fresh numbers.

A text of b bytes is the word b, then its bytes in 32-bit words, little-endian, the last filled up with
zeros. A lane has random 64-bit numbers m, m_0, m_1, ..., and gives the upper 32 bits of
m + sum m_i s_i mod 2^64: two different texts agree with probability 2^-32. Four lanes with numbers of
their own make 128 bits: the first 64 are the key that arrays are sorted by, the others its check. Values
are the same if and only if both agree (docs/explanation/guarantee.md). A combination of several columns
is hashed in the same way from the words of its parts. Imports only numpy and pyarrow.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.workspace import Resident
from murmurlog.privacy.sampler import MOST_LISTED, Entropy, Keys, SystemEntropy, mix

LANES = 4
TEXTS_AT_ONCE = 16_000  # all that is computed about them fits into the CPU's cache
MOST_IN_BLOCKS = 256  # bytes of such a text
LEAST_BITS = 12  # of keys, by which a list is cut for look-ups
MOST_PARTS = 8  # of a combination, where numbers are drawn ahead
NOT_DRAWN = "a text or a list is longer than the workers have numbers for"
NO_KEYS: Keys = np.zeros((0, 2), np.uint64)

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class TextKeys(Resident):
    """The numbers of all lanes, which are drawn once, and the keys that follow from them."""

    def __init__(self, entropy: Entropy | None = None) -> None:
        entropy = SystemEntropy() if entropy is None else entropy
        # Lanes of their own, because what they hash are keys under the numbers of the others.
        self._texts, self._items, self._lists = (
            _Numbers(entropy.stream(name)) for name in ("texts", "items", "lists")
        )
        self._number = np.frombuffer(entropy.stream("numbers").bytes(8), np.uint64)[0]
        self._table_values = 0  # of the tables that `columns` keyed

    def draw_ahead(self, *, longest: int, members: int) -> None:
        """Draws the numbers for texts of so many bytes and lists of so many members.

        A copy in another process has these and draws none of its own.
        """
        self._texts.first(_numbers_of(longest))
        self._items.first(1 + 5 * MOST_PARTS)
        self._lists.first(2 + 4 * members)

    def texts(self, texts: pa.Array) -> Keys:
        """The key of each text; that of a null is 0."""
        return TextColumn.of(texts).keys(self)

    def spans(self, data: Bytes, start: Integers, length: Integers) -> Keys:
        """The keys of texts, given by where they start in the bytes and how long they are."""
        keys = np.empty((len(start), 2), np.uint64)
        for block in blocks(len(start)):
            keys[block] = self._hash(data, start[block], np.minimum(length[block], MOST_IN_BLOCKS))
        # A block takes as many steps as its longest text has words: long texts are a block of their own.
        if len(long := np.flatnonzero(length > MOST_IN_BLOCKS)):
            keys[long] = self._hash(data, start[long], length[long])
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
            part_numbers = numbers[1 + 5 * place :]
            sums += part_numbers[0][:, None]  # a part that is missing would not have this word
            for word, values in enumerate(_halves(part), start=1):
                for lane in range(LANES):
                    sums[lane] += part_numbers[word, lane] * values
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
        """The keys of the rows of a table's key columns; these are texts, or one column of lists.

        The table is public or published: how many values such tables have in all is checked here.
        """
        whole = [_whole(column) for column in columns]
        self._table_values += sum(len(column) + _members(column) for column in whole)
        if self._table_values > MOST_LISTED:
            raise UsageError(
                f"public lists and published tables have more than {MOST_LISTED:,} values in all, for which "
                "the keys of texts are proved: give shorter lists"
            )
        parts = [self._column(column) for column in whole]
        return parts[0] if len(parts) == 1 else self.combine(parts)

    def _column(self, column: pa.Array) -> Keys:
        if not _is_of_lists(column):
            return self.texts(column)
        length = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        return self.lists(self.texts(pc.list_flatten(column)), length)

    def _hash(self, data: Bytes, start: Integers, length: Integers) -> Keys:
        data, start = pad(data, start, length)
        words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
        # In order of length, so that the texts that still have a word at a step are the last ones.
        order = order_of_numbers(length)
        length, start = length[order], start[order]
        steps = -(-int(length[-1]) // 4) if len(length) else 0
        numbers = self._texts.first(steps + 3)
        sums = numbers[1][:, None] * length.astype(np.uint64)
        sums += numbers[0][:, None]
        products = np.empty(len(length), np.uint64)
        pairs = range(0, steps, 2)
        firsts, wholes = (np.searchsorted(length, 4 * np.array(pairs) + n).tolist() for n in (1, 8))
        for step, first, whole in zip(pairs, firsts, wholes, strict=True):
            pair = words[start[first:] + 4 * step]  # two words: one look-up costs as much as two
            if first < whole:  # bytes after a text's end are no part of it
                bits = np.uint64(8) * (length[first:whole] - 4 * step).astype(np.uint64)
                pair[: whole - first] &= (np.uint64(1) << bits) - np.uint64(1)
            for place, word in ((step + 2, pair & _LOW), (step + 3, pair >> _HALF)):
                for lane in range(LANES):
                    np.multiply(word, numbers[place, lane], out=products[first:])
                    sums[lane, first:] += products[first:]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return _pack(sums).take(back, axis=0)


def _is_of_lists(column: pa.Array) -> bool:
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def _members(column: pa.Array) -> int:
    """The texts of a column."""
    return len(pc.list_flatten(column)) if _is_of_lists(column) else len(column)


def bytes_of_numbers(longest: int) -> int:
    """The size of the numbers for texts of up to so many bytes."""
    return 8 * LANES * _numbers_of(longest)


def _numbers_of(longest: int) -> int:
    return -(-longest // 4) + 3


class _Numbers:
    """The random numbers of all lanes, drawn when a text first needs them."""

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


@dataclass(frozen=True, eq=False)
class TextColumn:
    """The bytes of a column of texts, where each text starts and how long it is; a null is empty."""

    texts: pa.StringArray | pa.LargeStringArray
    data: Bytes
    start: Integers
    length: Integers
    nulls: Mask

    @classmethod
    def of(cls, texts: pa.StringArray | pa.LargeStringArray) -> "TextColumn":
        wide = pa.types.is_large_string(texts.type)
        offsets = np.frombuffer(texts.buffers()[1], np.int64 if wide else np.int32)
        ends = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
        length, nulls = np.diff(ends), np.zeros(len(texts), bool)
        if texts.null_count:
            nulls = texts.is_null().to_numpy(zero_copy_only=False)
            length[nulls] = 0  # though its slot may have bytes
        return cls(texts, data, ends[:-1], length, nulls)

    def keys(self, text_keys: TextKeys) -> Keys:
        """The key of each text; that of a null is 0."""
        keys = text_keys.spans(self.data, self.start, self.length)
        if self.texts.null_count:
            keys[self.nulls] = 0
        return keys


def pad(data: Bytes, start: Integers, length: Integers) -> tuple[Bytes, Integers]:
    """The bytes of some texts and at least eight more, and where each text starts: words may reach over."""
    first, end = int(start.min(initial=len(data))), int((start + length).max(initial=0))
    if end + 8 <= len(data):
        return data[first : end + 8], start - first
    return np.append(data[first:end], np.zeros(8, np.uint8)), start - first


def blocks(texts: int) -> Iterator[slice]:
    """Slices of so many texts, small enough for the CPU's cache to hold all that is computed about one."""
    for first in range(0, texts, TEXTS_AT_ONCE):
        yield slice(first, min(first + TEXTS_AT_ONCE, texts))


def order_of_numbers(numbers: Integers) -> Integers:
    """A stable order of whole numbers from 0 on; numpy sorts 16 bits by counting."""
    if int(numbers.max(initial=0)).bit_length() <= 16:
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    return group_numbers(numbers)[0]


def group_numbers(numbers: Integers) -> tuple[Integers, Mask]:
    """A stable order of whole numbers from 0 on, and whether each differs from the one before it.

    numpy sorts words of 64 bits several times faster than places by words: a number and its place share a
    word.
    """
    bits = len(numbers).bit_length()
    if int(numbers.max(initial=0)).bit_length() + bits > 64:
        order = np.argsort(numbers, kind="stable")
        words = numbers[order]
    else:
        words = numbers.astype(np.uint64) << np.uint64(bits)
        words |= np.arange(len(words), dtype=np.uint64)
        words.sort()
        order = (words & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))).view(np.int64)
        words >>= np.uint64(bits)
    return order, np.append(True, words[1:] != words[:-1])[: len(words)]


def order_of_keys(keys: Keys) -> Integers:
    """A stable order of keys: by their first word, then by their check."""
    return group_keys(keys)[0]


def group_keys(keys: Keys) -> tuple[Integers, Mask]:
    """A stable order of keys, in which equal ones are side by side; and whether each differs from the one before."""
    bits = np.uint64(len(keys).bit_length())
    words = keys[:, 0] >> bits << bits
    words |= np.arange(len(words), dtype=np.uint64)
    words.sort()
    order = (words & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    words >>= bits
    new = _starts_of_runs(keys.take(order, axis=0))
    # Few different keys agree in the upper bits of their first words; runs of such are sorted by both words.
    differ = 1 + np.flatnonzero(new[1:] & (words[1:] == words[:-1]))
    if len(differ):
        run = np.cumsum(np.append(True, words[1:] != words[:-1]))
        rows = np.flatnonzero(np.isin(run, run[differ]))
        run_rows = order[rows]
        order[rows] = run_rows[np.lexsort((keys[run_rows, 1], keys[run_rows, 0]))]
        new = _starts_of_runs(keys.take(order, axis=0))
    return order, new


def _starts_of_runs(keys: Keys) -> Mask:
    """Whether each key differs from the one before it."""
    differs = keys[1:] != keys[:-1]
    return np.append(True, differs[:, 0] | differs[:, 1])[: len(keys)]


def number_keys(keys: Keys) -> tuple[Integers, Integers]:
    """The place of each key among the distinct ones, which ascend; and the first row of each of them."""
    order, new = group_keys(keys)
    codes = np.empty(len(order), np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return codes, order[new]


def distinct_keys(keys: Keys) -> Keys:
    """The distinct keys, ascending."""
    order, new = group_keys(keys)
    return keys.take(order[new], axis=0)


class KeyList:
    """Distinct, ascending keys, in which others are looked up.

    The list is cut by the upper bits of keys, which are uniform, so that few cuts have several keys.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    @classmethod
    def of(cls, keys: Keys) -> "KeyList":
        """The list of any keys."""
        return cls(distinct_keys(keys))

    def __len__(self) -> int:
        return len(self.keys)

    def __getstate__(self) -> Keys:
        return self.keys

    def __setstate__(self, keys: Keys) -> None:
        self.keys = keys

    @cached_property
    def _cuts(self) -> tuple[np.uint64, Integers]:
        """By which shift a key's cut follows from its first word, and where each cut starts."""
        bits = max(len(self.keys).bit_length() + 1, LEAST_BITS)
        shift = np.uint64(64 - bits)
        starts = np.zeros((1 << bits) + 1, np.int32)
        cut = (self.keys[:, 0] >> shift).view(np.int64)
        np.cumsum(np.bincount(cut, minlength=1 << bits), out=starts[1:])
        return shift, starts

    def places(self, keys: Keys) -> Integers:
        """The place of each key in the list; -1 where it is not listed."""
        shift, starts = self._cuts
        places = np.full(len(keys), -1, np.int32)
        cut = (keys[:, 0] >> shift).view(np.int64)
        at, end = starts.take(cut), starts.take(cut + 1)
        rows = np.flatnonzero(at < end)
        at, end = at[rows], end[rows]
        while len(rows):
            candidates, wanted = self.keys.take(at, axis=0), keys.take(rows, axis=0)
            same = (candidates[:, 0] == wanted[:, 0]) & (candidates[:, 1] == wanted[:, 1])
            places[rows[same]] = at[same]
            at += np.int32(1)
            rest = ~same & (at < end)
            rows, at, end = rows[rest], at[rest], end[rest]
        return places


def places_of(keys: Keys, sorted_keys: Keys) -> Integers:
    """The place of each key in a list of distinct, ascending keys; -1 where it is not listed."""
    return KeyList(sorted_keys).places(keys)


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
