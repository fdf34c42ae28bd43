"""--time-format: how the text of a time is written, with directives of strptime that need no locale.

The format becomes a regular expression that fixes the digits and names of every directive, and DuckDB
reads the strings that match it (`duckdb_rows`), on every engine.
"""

import re

from murmurlog.errors import UsageError

_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]  # fmt: skip
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def _names(words: list[str]) -> str:
    return "(?i:" + "|".join(words) + ")"


# Numbers: the most digits; alone they may have fewer, but for years.
DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2, "f": 6}
WORDS = {
    "b": _names([name[:3] for name in _MONTHS]),
    "B": _names(_MONTHS),
    "a": _names([name[:3] for name in _DAYS]),
    "A": _names(_DAYS),
    "p": "(?i:am|pm)",
    "z": "[+-](?:0[0-9]|1[0-4]):?[0-5][0-9]",
}
DIRECTIVES = ", ".join(f"%{letter}" for letter in (*DIGITS, *WORDS, "%"))
_ALIKE = (("Y", "y"), ("m", "b", "B"), ("H", "I"), ("a", "A"))

# Formats that logs have, for proposals to the owner. Where both are possible, the day comes before the month.
_DATES = (
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y",
    "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d %b %Y", "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y",
    "%d-%b-%Y", "%d-%b-%y", "%Y-%m-%d", "%Y年%m月%d日",
)  # fmt: skip
_CLOCKS = (
    "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f", "%I:%M %p", "%I:%M%p", "%I:%M:%S %p", "%H.%M", "%H.%M.%S",
    "%H:%M %z", "%H:%M:%S %z", "%H:%M:%S%z",
)  # fmt: skip
COMMON_FORMATS = (
    *_DATES,
    *(f"{date}{gap}{clock}" for date in _DATES for clock in _CLOCKS for gap in (" ", ", ", "T")),
    "%d/%b/%Y:%H:%M:%S %z", "[%d/%b/%Y:%H:%M:%S %z]", "[%d/%b/%Y:%H:%M:%S]", "%d/%b/%Y:%H:%M:%S",
    "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%d %H%M%S",
    "%Y%m%dT%H%M%S", "%Y-%m-%d-%H.%M.%S",
)  # fmt: skip


def check_time_format(text: str) -> str:
    """The format without white space around it; raises UsageError if times cannot be read by it."""
    time_format = text.strip()
    letters: list[str] = re.findall(r"%(.?)", time_format, re.DOTALL)
    allowed = [*DIGITS, *WORDS, "%"]
    if unknown := [f"%{letter}" for letter in letters if letter not in allowed]:
        raise UsageError(
            f"--time-format {time_format!r:.80} has {', '.join(unknown)}, which is not read: use {DIRECTIVES}. "
            "Unix times and ISO 8601 need no --time-format."
        )
    directives = [letter for letter in letters if letter != "%"]
    for letter in ("d", "M", "S", "f", "p", "z"):
        _check_once(time_format, directives, (letter,))
    for letters_alike in _ALIKE:
        _check_once(time_format, directives, letters_alike)
    used = set(directives)
    if not (used & {"Y", "y"} and used & {"m", "b", "B"} and "d" in used):
        raise UsageError(
            f"--time-format {time_format!r:.80} has no date: it needs a year (%Y or %y), a month (%m, %b or "
            "%B) and a day (%d), such as '%d.%m.%Y %H:%M'"
        )
    if ("I" in used) != ("p" in used):
        raise UsageError(
            f"--time-format {time_format!r:.80}: %I (1 to 12) and %p (AM or PM) go together"
        )
    if any(not c.isprintable() and c != "\t" for c in time_format):
        raise UsageError("--time-format has a control character in it")
    return time_format


def _check_once(time_format: str, letters: list[str], alike: tuple[str, ...]) -> None:
    if sum(letter in alike for letter in letters) > 1:
        names = " or ".join(f"%{letter}" for letter in alike)
        raise UsageError(f"--time-format {time_format!r:.80} has {names} more than once")


def pattern(time_format: str) -> str:
    """A regular expression, for DuckDB and for Python, of the strings that the format reads.

    Numbers that stand beside each other have all their digits, so that a string is read in one way.
    """
    parts = re.findall(r"%.|[^%]", time_format, re.DOTALL)
    expressions = []
    for at, part in enumerate(parts):
        letter = part[1] if len(part) == 2 else ""
        if letter in DIGITS:
            before = at > 0 and _is_number(parts[at - 1])
            after = at + 1 < len(parts) and _is_number(parts[at + 1])
            most = DIGITS[letter]
            expressions.append(
                f"[0-9]{{{most if before or after or letter in 'Yy' else 1},{most}}}"
            )
        elif letter in WORDS:
            expressions.append(WORDS[letter])
        else:
            expressions.append(re.escape("%" if letter == "%" else part))
    return "^" + "".join(expressions) + "$"


def _is_number(part: str) -> bool:
    return (len(part) == 2 and part[1] in DIGITS) or part.isdecimal()
