"""The zero-width joiners: where they change the rendering of a text, and where they are idle.

U+200C (ZWNJ) and U+200D (ZWJ) are invisible. Persian, Indic scripts and emoji need them in some
places; anywhere else a text with one looks like the text without. The rules are those of IDNA's
CONTEXTJ (RFC 5892, appendix A), with two places more for ZWJ: between emoji (Unicode Standard Annex
29, rule GB11), and before a virama, which Bengali and Kannada write after ra.

The tables are of Unicode 15.0. A letter that is newer has no joining type here, so a ZWNJ beside it
is dropped.
"""

import unicodedata
from collections.abc import Iterator

ZWNJ, ZWJ = "\u200c", "\u200d"
JOINERS = ZWNJ + ZWJ
VIRAMA = 9  # canonical combining class
SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def _characters(ranges: str) -> frozenset[str]:
    """The characters of ranges of hexadecimal code points: "61-7a c0"."""
    pairs = (text.partition("-") for text in ranges.split())
    return frozenset(
        chr(code)
        for first, _, last in pairs
        for code in range(int(first, 16), int(last or first, 16) + 1)
    )


# Letters that join the letter after them: Joining_Type D or L (DerivedJoiningType.txt).
JOINS_NEXT = _characters(
    """
    620 626 628 62a-62e 633-63f 641-647 649-64a 66e-66f 678-687 69a-6bf 6c1-6c2 6cc 6ce 6d0-6d1
    6fa-6fc 6ff 712-714 71a-71d 71f-727 729 72b 72d-72e 74e-758 75c-76a 76d-770 772 775-777
    77a-77f 7ca-7ea 841-845 848 84a-853 855 860 862-865 868 886 889-88d 8a0-8a9 8af-8b0 8b3-8b8
    8ba-8c8 1807 1820-1878 1887-18a8 18aa a840-a872 10ac0-10ac4 10acd 10ad3-10adc 10ade-10ae0
    10aeb-10aee 10b80 10b82 10b86-10b88 10b8a-10b8b 10b8d 10b90 10bad-10bae 10d00-10d21 10d23
    10f30-10f32 10f34-10f44 10f51-10f53 10f70-10f73 10f76-10f81 10fb0 10fb2-10fb3 10fb8
    10fbb-10fbc 10fbe-10fbf 10fc1 10fc4 10fca-10fcb 1e900-1e943
    """
)
# Letters that join the letter before them: Joining_Type D or R.
JOINS_PREVIOUS = _characters(
    """
    620 622-63f 641-64a 66e-66f 671-673 675-6d3 6d5 6ee-6ef 6fa-6fc 6ff 710 712-72f 74d-77f
    7ca-7ea 840-858 860 862-865 867-86a 870-882 886 889-88e 8a0-8ac 8ae-8c8 1807 1820-1878
    1887-18a8 18aa a840-a871 10ac0-10ac5 10ac7 10ac9-10aca 10ace-10ad6 10ad8-10ae1 10ae4
    10aeb-10aef 10b80-10b91 10ba9-10bae 10d01-10d23 10f30-10f44 10f51-10f54 10f70-10f81 10fb0
    10fb2-10fb6 10fb8-10fbf 10fc1-10fc4 10fc9-10fca 1e900-1e943
    """
)
# What an emoji sequence is made of: Extended_Pictographic (emoji-data.txt).
EMOJI = _characters(
    """
    a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa
    24c2 25aa-25ab 25b6 25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714
    2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1
    27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f000-1f0ff
    1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a
    1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f
    1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a
    1f93c-1f945 1f947-1faff 1fc00-1fffd
    """
)


def without_joiners(text: str) -> str:
    """The text without any joiner, for comparisons that joiners must not evade."""
    return text if text.isascii() else text.replace(ZWNJ, "").replace(ZWJ, "")


def without_idle_joiners(text: str) -> str:
    """The text without joiners that change nothing visible; at most one of a run stays."""
    if ZWNJ not in text and ZWJ not in text:
        return text
    clean: list[str] = []
    before = base = ""  # the character before this one, and the last that is not a mark
    for c, after, next_base in _with_next(text):
        if c == ZWJ:
            needed = _is_virama(before) or _joins_symbols(before, after)
        elif c == ZWNJ:
            needed = _is_virama(before) or (base in JOINS_NEXT and next_base in JOINS_PREVIOUS)
        else:
            needed = True
        if needed:
            clean.append(c)
            base = base if _is_mark(c) else c
            before = c
    return "".join(clean)


def _with_next(text: str) -> Iterator[tuple[str, str, str]]:
    """Each character, with the next that is no joiner, and the next that is neither joiner nor mark."""
    after = base = ""
    contexts = []
    for c in reversed(text):
        contexts.append((c, after, base))
        if c not in JOINERS:
            after = c
            base = base if _is_mark(c) else c
    return reversed(contexts)


def _joins_symbols(before: str, after: str) -> bool:
    """Whether a ZWJ between these makes one symbol: two emoji, or a letter with what follows it."""
    if after in EMOJI:
        return before in EMOJI or (before != "" and before in SKIN_TONES)
    return _is_virama(after) and before.isalpha()


def _is_virama(c: str) -> bool:
    return c != "" and unicodedata.combining(c) == VIRAMA


def _is_mark(c: str) -> bool:
    """Whether letters join across it: Joining_Type T in normalised text."""
    return unicodedata.category(c) in ("Mn", "Me")
