"""Encodings of text files that can be cut into records before they are decoded.

In all of them but UTF-16, which is decoded first, the bytes 0 to 127 are ASCII at the start of a
character, and no character of other bytes is one of ASCII. Encodings with a state (iso-2022-jp, hz,
utf-7) are left out: what one user wrote would change how the next user's record is read (A8).
"""

import codecs
from difflib import get_close_matches

from murmurlog.errors import UsageError

SINGLE = (
    "ascii", "latin-1", *(f"iso-8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
    *(f"cp125{n}" for n in range(9)), "cp437", "cp775", "cp850", "cp852", "cp855", "cp857", "cp858",
    "cp860", "cp861", "cp862", "cp863", "cp865", "cp866", "cp869", "cp874", "cp1125", "koi8-r", "koi8-u",
    "kz1048", "mac-roman", "mac-cyrillic", "mac-greek", "mac-iceland", "mac-latin2", "mac-turkish",
    "ptcp154", "tis-620",
)  # fmt: skip
HIGH = ("utf-8", "euc-jp", "euc-jis-2004", "euc-jisx0213", "euc-kr", "gb2312")
# Later bytes of their characters may be ASCII, from the digit 0 on.
MIXED = ("gb18030", "gbk", "big5", "big5hkscs", "cp950", "shift_jis", "cp932", "cp949", "johab")
ENCODINGS = ("utf-8", "utf-16", *MIXED, *HIGH[1:], *SINGLE)
COMMON = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1250", "cp1251", "gb18030", "shift_jis", "euc-kr", "big5")  # fmt: skip
LOWEST_LATER_BYTE = ord("0")  # of a character that does not begin with ASCII


def _canonical(name: str) -> str | None:
    try:
        return codecs.lookup(name).name
    except (LookupError, UnicodeError, ValueError):
        return None


_BY_CODEC = {_canonical(name): name for name in ENCODINGS} | {"utf-8-sig": "utf-8"}


def check_encoding(name: str) -> str:
    """The name of an encoding in `ENCODINGS`, from any of its names; raises UsageError if it is not read."""
    codec = _canonical(name)
    if codec in _BY_CODEC:
        return _BY_CODEC[codec]
    near = get_close_matches(name.lower(), ENCODINGS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(COMMON)} and others"
    why = "cannot be read record by record" if codec else "is not known"
    raise UsageError(f"--encoding {name!r:.60} {why}: {hint}")


def may_hide(encoding: str, wanted: bytes) -> bool:
    """Whether a byte of `wanted` may be part of another character, so that text is decoded first."""
    return encoding in MIXED and any(byte >= LOWEST_LATER_BYTE for byte in wanted)
