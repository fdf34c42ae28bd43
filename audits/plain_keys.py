"""Keys of texts, users and items by their definition, in plain Python, from the numbers of a seed.

A lane gives the upper half of m + sum m_i s_i mod 2^64 over the 32-bit words s_i of a value; two lanes are
the key and two its check. It shares no code with `logs/text_keys.py`; `mask` keeps only some bits of the
key, so that different values have equal ones everywhere and only checks tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from murmurlog.privacy.sampler import SeededEntropy

WORD = 1 << 64
WHOLE = WORD - 1
NARROW = 0xC000_0000_0000_0003  # the two bits that partitions and ranges go by, and two more
LANES = 4
MOST_WORDS = 4_000

Key = tuple[int, int]
Numbers = list[tuple[int, ...]]  # of each word, one for each lane


@dataclass(frozen=True)
class PlainKeys:
    """The keys of a seed."""

    seed: int
    mask: int = WHOLE

    @cached_property
    def _texts(self) -> Numbers:
        return _numbers(self.seed, "texts")

    @cached_property
    def _items(self) -> Numbers:
        return _numbers(self.seed, "items")

    @cached_property
    def _lists(self) -> Numbers:
        return _numbers(self.seed, "lists")

    @cached_property
    def _number(self) -> int:
        drawn = SeededEntropy(self.seed).stream("keys").stream("numbers")
        return int.from_bytes(drawn.bytes(8), "little")

    def text(self, text: str) -> Key:
        """The key of a text: its length in bytes, then its words."""
        data = text.encode()
        words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
        return self._hash([len(data), *words], self._texts)

    def number(self, number: int) -> Key:
        """The key of a user who is a whole number."""
        return mix(number % WORD ^ self._number), 0

    def combination(self, parts: Sequence[Key]) -> Key:
        """The key of a combination of values; that of one value alone is its own."""
        if len(parts) == 1:
            return parts[0]
        return self._hash([word for part in parts for word in (1, *_words(part))], self._items)

    def sequence(self, members: Sequence[Key]) -> Key:
        """The key of a list of values: their number, then their words."""
        words = [len(members), *(word for member in members for word in _words(member))]
        return self._hash(words, self._lists)

    def _hash(self, words: Sequence[int], numbers: Numbers) -> Key:
        first, *following = numbers[: len(words) + 1]
        lanes = []
        for lane in range(LANES):
            total = first[lane] + sum(
                row[lane] * word for row, word in zip(following, words, strict=True)
            )
            lanes.append(total % WORD >> 32)
        return (lanes[0] << 32 | lanes[1]) & self.mask, lanes[2] << 32 | lanes[3]


def _words(key: Key) -> tuple[int, int, int, int]:
    return key[0] >> 32, key[0] % 2**32, key[1] >> 32, key[1] % 2**32


@lru_cache(maxsize=8)
def _numbers(seed: int, kind: str) -> Numbers:
    data = SeededEntropy(seed).stream("keys").stream(kind).bytes(8 * LANES * MOST_WORDS)
    drawn = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return [tuple(drawn[i : i + LANES]) for i in range(0, len(drawn), LANES)]


def mix(word: int) -> int:
    """The finaliser of splitmix64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB % WORD
    return word ^ word >> 31
