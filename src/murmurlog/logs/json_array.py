"""The elements of a JSON array as lines, so that `records` reads an array as it reads lines of JSON.

Only strings, brackets and commas are looked at: an element ends at a comma or bracket outside strings
and outside other brackets. What is inside an element matters for its own row only. A line feed inside
an element becomes a space; inside a string, where JSON forbids one, another character that JSON
forbids there.
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from murmurlog.errors import InputError

STRUCTURE = b'[]{},"\\'  # what splits an array
SPACE = b" \t\r\n"
MOST_HELD = 1 << 26  # bytes of an unfinished element; no log has more
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_OPENS, _CLOSES, _COMMA, _QUOTE, _FEED = 1, 2, 3, 4, 5
_KINDS = np.zeros(256, np.uint8)
for _kind, _bytes in ((_OPENS, b"[{"), (_CLOSES, b"]}"), (_COMMA, b","), (_QUOTE, b'"'), (_FEED, b"\n")):  # fmt: skip
    _KINDS[list(_bytes)] = _kind
_STEPS = np.array([0, 1, -1, 0, 0, 0], np.int64)


def array_lines(stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The bytes of an array, from a stream of them, as one element a line.

    Raises if the file is not one array, for then the borders of users' rows are not known.
    """
    rest, begun, ended = b"", False, False
    for piece in stream:
        text = rest + piece if begun and not ended else (rest + piece).lstrip(SPACE)
        rest = b""
        if not text:
            continue
        if ended:
            raise InputError(f"{name} goes on after the end of its JSON array. {_REPAIR}")
        if not begun:
            if text[:1] != b"[":
                raise InputError(f"{name} is not a JSON array of objects. {_REPAIR}")
            text, begun = text[1:], True
        lines, rest, ended = _split(text)
        if len(rest) > MOST_HELD:
            raise InputError(
                f"{name} has an element of more than {MOST_HELD >> 20} MB, or a quote that is never "
                "closed: it is damaged, or its content does not match its name"
            )
        yield lines
        if ended and rest.strip(SPACE):
            raise InputError(f"{name} goes on after the end of its JSON array. {_REPAIR}")
    if not ended:
        what = "ends before its JSON array does" if begun else "holds no JSON array"
        raise InputError(f"{name} {what}. {_REPAIR}")


_REPAIR = "Write one array of objects, [{...}, {...}], or one object a line and name it .jsonl."


def _split(text: bytes) -> tuple[bytes, bytes, bool]:
    """Whole elements as lines, what follows them, and whether the array ended; begins at an element."""
    data = np.frombuffer(_ESCAPED.sub(b"__", text), np.uint8)
    kinds = _KINDS[data]
    places: npt.NDArray[np.int64] = np.flatnonzero(kinds)
    kinds = kinds[places]
    quotes = kinds == _QUOTE
    inside = np.logical_xor.accumulate(quotes)
    outside = ~(inside | quotes)
    depth = np.cumsum(np.where(outside, _STEPS[kinds], 0))
    ends = np.flatnonzero(depth < 0)
    ended = len(ends) > 0
    upto = int(ends[0]) if ended else len(places)
    between = places[:upto][(outside & (kinds == _COMMA) & (depth == 0))[:upto]]
    whole = int(between[-1]) + 1 if len(between) else 0
    stop = int(places[upto]) if ended else whole
    lines = np.frombuffer(text, np.uint8)[:stop].copy()
    feeds = kinds == _FEED
    for places_of, byte in ((feeds & outside, b" "), (feeds & ~outside, b"\x01")):
        at = places[places_of]
        lines[at[at < stop]] = byte[0]
    lines[between[between < stop]] = b"\n"[0]
    return lines.tobytes() + (b"\n" if ended else b""), text[stop + ended :], ended
