"""Prefixes of rare words: which of them at least k units share, from long ones to short ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.bound import BoundedItems, Mask
from murmurlog.counting.items import Integers, PublicNames
from murmurlog.counting.sorting import distinct_pairs
from murmurlog.counting.tally import Tally, count_items, label
from murmurlog.logs.partitions import Partitions, Sums
from murmurlog.logs.text_keys import number_keys, places_of
from murmurlog.mechanisms.baselines.counts import at_least
from murmurlog.privacy.sampler import Keys


def shared_prefixes(
    words: Tally, frequent: Keys, *, k: int, cut_off: str
) -> Iterator[tuple[pa.Table, Integers]]:
    """The prefixes of words that are not frequent, with their units; each word counts for one of them.

    A prefix that matches `cut_off` is none.
    """
    left = words.bounded.derive(partial(_without, frequent=words.bounded.share(frequent)))
    for length in range(_longest(left, k), 0, -1):
        prefixes = left.derive(partial(_prefixes, length=length))
        keys, users = at_least(prefixes.add_up(count_items), k)
        table = label(prefixes, keys, words.keys)
        sound = pc.invert(pc.match_substring_regex(table["keyword"], cut_off)).to_numpy()
        yield table.filter(pa.array(sound)), users[sound]
        published = left.share(keys[sound])
        rest = left.derive(partial(_without_prefix, length=length, prefixes=published))
        prefixes.close()
        left.close()
        left = rest
    left.close()


def _longest(rare: Partitions[BoundedItems], k: int) -> int:
    """The greatest length of a prefix that k units share; shorter ones are shared by more."""
    length = 0
    while True:
        # Below a prefix of fewer than k units there is no other.
        keys, _ = at_least(rare.add_up(partial(_count_prefixes, length=length + 1)), k)
        if not len(keys):
            return length
        length += 1
        rare = rare.derive(partial(_with_prefix, length=length, prefixes=rare.share(keys)))


def _prefixes(words: BoundedItems, *, length: int) -> BoundedItems:
    """The prefixes of a length that each unit's words have, once a unit; shorter words have none."""
    place, keys, texts = _cut(words, length)
    code, row = number_keys(keys)
    number = np.full(len(words.keys), -1, np.int64)
    number[place] = code
    rows = number[words.item] >= 0
    unit, item = distinct_pairs(words.unit[rows], number[words.item[rows]])
    values = (name.at(place[row]) for name in words.names[1:])
    return replace(
        words, unit=unit, item=item, keys=keys[row], names=(PublicNames(texts, row), *values)
    )


def _count_prefixes(words: BoundedItems, *, length: int) -> Sums:
    return count_items(_prefixes(words, length=length))


def _cut(words: BoundedItems, length: int) -> tuple[Integers, Keys, pa.Array]:
    """The places of the words that are so long, and the key and the text of the prefix of each."""
    word, *values = words.columns(np.arange(len(words.keys)))
    place = pc.indices_nonzero(pc.greater_equal(pc.utf8_length(word), length))
    texts = pc.utf8_slice_codeunits(word.take(place), 0, length)
    keys = words.text_keys.columns([texts, *(value.take(place) for value in values)])
    return place.to_numpy().astype(np.int64), keys, texts


def _without(words: BoundedItems, *, frequent: Callable[[], Keys]) -> BoundedItems:
    """The words that are not frequent."""
    return words.with_items(places_of(words.keys, frequent()) < 0)


def _with_prefix(words: BoundedItems, *, length: int, prefixes: Callable[[], Keys]) -> BoundedItems:
    """The words that begin with one of these prefixes of a length."""
    return words.with_items(_begins(words, length, prefixes()))


def _without_prefix(
    words: BoundedItems, *, length: int, prefixes: Callable[[], Keys]
) -> BoundedItems:
    """The words that begin with none of these prefixes of a length."""
    return words.with_items(~_begins(words, length, prefixes()))


def _begins(words: BoundedItems, length: int, prefixes: Keys) -> Mask:
    """Which words begin with one of these prefixes of a length."""
    place, keys, _ = _cut(words, length)
    begins = np.zeros(len(words.keys), bool)
    begins[place] = places_of(keys, prefixes) >= 0
    return begins
