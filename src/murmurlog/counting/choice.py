"""The random bound: a unit's items in the order of a keyed hash of unit and item, then of their bytes.

The order depends on the unit's name, its own items and the key of the release, on nothing else (A7); the
proofs hold for every key. Each distinct text is hashed once, eight bytes at a time, and a fixed function
mixes the hashes of a unit and an item, so that pairs need no hash of their own. Every path uses these
functions. Imports only numpy and pyarrow: the workers of a cluster import it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.sorting import distinct_pairs

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[Any]

KEY_BYTES = 16
TEXTS_AT_ONCE = 1 << 15  # what is known of them stays in the CPU's cache
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mix(words: Words) -> Words:
    """A bijection of 64-bit words whose every bit depends on every bit (the finaliser of splitmix64)."""
    words = words ^ (words >> _SHIFTS[0])
    words *= _FACTORS[0]
    words ^= words >> _SHIFTS[1]
    words *= _FACTORS[1]
    words ^= words >> _SHIFTS[2]
    return words


@dataclass(frozen=True, kw_only=True)
class ChoiceKey:
    """The key of a release's random bound: 16 bytes."""

    secret: bytes

    def units(self, names: pa.Array) -> Words:
        """The hashes of the names of units."""
        return hash_texts(names, self._seed(0))

    def items(self, columns: Sequence[pa.Array]) -> Words:
        """The hashes of items, from their key columns."""
        hashes = (self.column(texts, place) for place, texts in enumerate(columns))
        return combine(list(hashes))

    def column(self, texts: pa.Array, place: int) -> Words:
        """The hashes of texts in the key column at this place; `combine` makes those of items of them."""
        return hash_texts(texts, self._seed(1 + place))

    def _seed(self, role: int) -> np.uint64:
        unit, item = np.frombuffer(self.secret, "<u8")
        if role == 0:
            return np.uint64(unit)
        with np.errstate(over="ignore"):
            return np.uint64(mix(np.array([item + np.uint64(role)]))[0])


def combine(columns: Sequence[Words]) -> Words:
    """The hashes of items from those of their key columns, in order."""
    found = np.zeros_like(columns[0])
    for hashes in columns:
        found = mix(found ^ hashes)
    return found


def order_of(units: Words, items: Words) -> Words:
    """The place of an item in the order of its unit, as a number: the least ones are kept."""
    return mix(units ^ items)


def hash_texts(texts: pa.Array, seed: np.uint64) -> Words:
    """A 64-bit hash of each text's UTF-8: starts with seed xor length, then mixes in eight bytes a step.

    The last step has zeros behind the text; an empty text has one step of zeros.
    """
    if len(texts) == 0:
        return np.zeros(0, np.uint64)
    texts = texts.cast(pa.large_string())
    parts = range(0, len(texts), TEXTS_AT_ONCE)
    return np.concatenate([_hash_some(texts.slice(at, TEXTS_AT_ONCE), seed) for at in parts])


def _hash_some(texts: pa.Array, seed: np.uint64) -> Words:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first = int(ends[0])
    # Eight more bytes, so that the last word of the last text can be read.
    held = np.zeros(int(ends[-1]) - first + 8, np.uint8)
    if data is not None:
        held[:-8] = np.frombuffer(data, np.uint8)[first : int(ends[-1])]
    words = np.ndarray((len(held) - 7,), "<u8", held, strides=(1,))  # the word from each byte on
    at, length = ends[:-1] - first, np.diff(ends)
    found = seed ^ length.astype(np.uint64)
    rows, left = np.arange(len(texts)), length
    while len(rows):
        rest = np.uint64(64) - np.uint64(8) * np.clip(left, 1, 8).astype(np.uint64)
        # Bytes after the text's end are shifted out. An empty text has none of its own.
        word = np.where(left > 0, (words[at] << rest) >> rest, np.uint64(0))
        found[rows] = mix(found[rows] ^ word)
        more = left > 8
        rows, at, left = rows[more], at[more] + 8, left[more] - 8
    return found


def with_order(
    batch: pa.RecordBatch, *, key: ChoiceKey, keys: Sequence[str], separator: str
) -> pa.RecordBatch:
    """A batch of distinct units and items with a column `order` of whole numbers."""

    def texts(name: str) -> pa.Array:
        column = batch.column(name)
        nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        return pc.binary_join(column, separator) if nested else column

    items = key.items([texts(name) for name in keys])
    order = order_of(key.units(batch.column("unit")), items)
    # Engines have signed integers: the first bit is flipped, so that the order stays.
    signed = (order ^ np.uint64(1 << 63)).view(np.int64)
    return batch.append_column("order", pa.array(signed))


def choose(
    *,
    unit: Integers,
    item: Integers,
    per_unit: int,
    unit_hashes: Callable[[Integers], Words],
    item_hashes: Callable[[Integers], Words],
    ranks: Callable[[Integers], Integers],
    places: bool,
) -> tuple[Integers, Integers, Integers]:
    """The units, items and places of what is kept: the first `per_unit` items of each unit in its order.

    Units and items are codes, which may repeat; `ranks` gives the ranks of distinct items in the order of
    their keys' bytes. Without `places`, places are 0, and only units that hold more are hashed.
    """
    units, items = distinct_pairs(unit, item)
    held = np.bincount(units) if len(units) else np.zeros(0, np.int64)
    large = held > per_unit
    rows = np.arange(len(units)) if places else np.flatnonzero(large[units])
    some_units, some_items = units[rows], items[rows]
    order = order_of(
        by_code(some_units, unit_hashes)[some_units], by_code(some_items, item_hashes)[some_items]
    )
    if places:
        place = _places(some_units, some_items, order, ranks)
        kept = place < per_unit
        return units[kept], items[kept], place[kept].astype(np.int32)
    kept = np.ones(len(units), bool)
    kept[rows] = _least(some_units, some_items, order, np.flatnonzero(large), held, per_unit, ranks)
    return units[kept], items[kept], np.zeros(int(kept.sum()), np.int32)


def by_code(codes: Integers, hashes: Callable[[Integers], Words]) -> Words:
    """An array with the hash of each code that occurs, at its place."""
    there = np.zeros(int(codes.max(initial=-1)) + 1, bool)
    there[codes] = True
    some = np.flatnonzero(there)
    found = np.zeros(len(there), np.uint64)
    found[some] = hashes(some)
    return found


def _least(
    units: Integers,
    items: Integers,
    order: Words,
    large: Integers,
    held: Integers,
    per_unit: int,
    ranks: Callable[[Integers], Integers],
) -> npt.NDArray[np.bool_]:
    """Which rows are among the first `per_unit` of their unit; rows are by unit, and each has more."""
    if len(units) == 0:
        return np.zeros(0, bool)
    number = np.zeros(int(large[-1]) + 1, np.int64)
    number[large] = np.arange(len(large))
    numbers = number[units]
    # Unit and the first bits of the order share a word: sorting words alone gives each unit's last one kept.
    bits = np.uint64(max(1, len(large).bit_length()))
    words = numbers.astype(np.uint64) << (np.uint64(64) - bits) | order >> bits
    in_order = np.sort(words)
    sizes = held[large]
    last = in_order[np.cumsum(sizes) - sizes + per_unit - 1]
    kept = words <= last[numbers]
    # Orders with the same first bits: the other bits decide, then bytes.
    tied = np.bincount(numbers[kept], minlength=len(large)) > per_unit
    if tied.any():
        rows = np.flatnonzero(tied[numbers])
        kept[rows] = _places(units[rows], items[rows], order[rows], ranks) < per_unit
    return np.asarray(kept)


def _places(
    units: Integers, items: Integers, order: Words, ranks: Callable[[Integers], Integers]
) -> Integers:
    """The place of each row in its unit's order, from 0; rows are by unit."""
    if len(units) == 0:
        return np.zeros(0, np.int64)
    inside = np.lexsort((order, units))
    same = (units[inside][1:] == units[inside][:-1]) & (order[inside][1:] == order[inside][:-1])
    if same.any():
        distinct, which = np.unique(items, return_inverse=True)
        inside = np.lexsort((ranks(distinct)[which], order, units))
    sizes = np.bincount(units)
    start = np.cumsum(sizes) - sizes
    place = np.empty(len(units), np.int64)
    place[inside] = np.arange(len(units)) - start[units[inside]]
    return place
