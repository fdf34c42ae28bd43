"""The delimiter of a text: the one by which nearly all lines have as many fields as the first line."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}
CANDIDATES = tuple(NAMES)
NEAR = 0.05
_LF, _QUOTE = b'\n"'


@dataclass(frozen=True, kw_only=True)
class Delimiter:
    """A delimiter and the number of fields of most lines."""

    character: str
    fields: int
    share: float  # of the lines that have this number of fields
    quoted: bool = False  # most quotes are at both ends of a field
    others: tuple[str, ...] = ()  # by which lines have equally many fields, too

    @property
    def name(self) -> str:
        """In words."""
        return NAMES[self.character]


def detect(blocks: Iterable[bytes], candidates: Sequence[str] = CANDIDATES) -> Delimiter | None:
    """The delimiter of a text from its blocks of whole lines; None if lines have one field."""
    counts: dict[str, Counter[int]] = {each: Counter() for each in candidates}
    firsts: dict[str, int] = {}
    ends: dict[str, int] = dict.fromkeys(candidates, 0)
    quotes = 0
    for block in blocks:
        quotes += block.count(b'"')
        for each in candidates if quotes else ():
            ends[each] += 2 * len(_quoted_field(each).findall(block))
        for each, fields in count_fields(block, candidates).items():
            firsts.setdefault(each, int(fields[0]) if len(fields) else 0)
            values, lines = np.unique(fields, return_counts=True)
            counts[each].update(dict(zip(values.tolist(), lines.tolist(), strict=True)))
    found = [_rate(each, counts[each], firsts.get(each, 0)) for each in candidates]
    rated = sorted((one for one in found if one), key=lambda one: (-one[0], -one[1].fields))
    if not rated:
        return None
    best, delimiter = rated[0]
    others = [d.character for rating, d in rated[1:] if rating > best - NEAR]
    return Delimiter(
        character=delimiter.character,
        fields=delimiter.fields,
        share=delimiter.share,
        quoted=0 < quotes < 1.1 * ends[delimiter.character],
        others=tuple(others),
    )


def _quoted_field(delimiter: str) -> re.Pattern[bytes]:
    cut = re.escape(delimiter.encode())
    return re.compile(rb"(?:(?<=\n)|(?<=" + cut + rb'))"[^"\n]*"(?=\r?\n|' + cut + rb")")


def _rate(each: str, counts: Counter[int], first: int) -> tuple[float, Delimiter] | None:
    counts.pop(0, None)  # lines that are empty or inside a quoted field
    total = counts.total()
    split = [(lines, fields) for fields, lines in counts.items() if fields > 1]
    if not split:
        return None
    lines, fields = max(split)
    share = lines / total
    rating = share if first == fields else share / 2
    if each == " ":  # in nearly every query
        rating *= 0.8
    return rating, Delimiter(character=each, fields=fields, share=share)


def count_fields(block: bytes, candidates: Sequence[str]) -> dict[str, np.ndarray]:
    """The fields of each line by each delimiter; 0 where quotes do not close in the line."""
    data = np.frombuffer(block, np.uint8)
    wanted = np.zeros(256, bool)
    wanted[[_LF, _QUOTE, *"".join(candidates).encode()]] = True
    places = np.flatnonzero(wanted[data])
    kinds = data[places]
    ends = np.flatnonzero(kinds == _LF)
    quotes = np.cumsum(kinds == _QUOTE)
    line = np.searchsorted(ends, np.arange(len(kinds)))  # of each place
    before = np.concatenate([[0], quotes[ends]])  # quotes before each line
    outside = (quotes - before[line]) % 2 == 0
    closed = np.diff(before) % 2 == 0
    lengths = np.diff(places[ends], prepend=-1)
    filled = (lengths > 2) | ((lengths == 2) & (data[places[ends] - 1] != 13))
    found = {}
    for each in candidates:
        cuts = (kinds == ord(each)) & outside
        fields = np.bincount(line[cuts], minlength=len(ends))[: len(ends)] + 1
        found[each] = np.where(closed & filled, fields, 0)
    return found
