"""A regular expression for Arrow that matches every ASCII text in which one of Python's matches, and few others.

Arrow's engine (RE2) looks at millions of texts a second but has no lookarounds and no references. Each
expression is read by Python's own parser and written down again without what only forbids: lookarounds,
anchors and upper limits of repetitions go, a reference becomes any text. So the new expression matches
wherever the old one does, and Python decides about the texts that are left.
"""

import re
from collections.abc import Callable, Iterable
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ASCII = [chr(n) for n in range(128)]
ANY = r"[\x00-\x7f]"
MOST_REPEATED = 100  # RE2 counts no further than 1,000 in all
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
ONLY_FORBIDS = {"AT", "ASSERT", "ASSERT_NOT"}
CLASSES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}


class _UnknownPartError(Exception):
    """The expression has a part that is not relaxed here."""


def relax(expressions: Iterable[re.Pattern[str]]) -> str | None:
    """The expression for Arrow; None if one of Python's cannot be relaxed."""
    try:
        return "|".join(f"(?:{_relax_one(expression)})" for expression in expressions)
    except (_UnknownPartError, RecursionError, re.error):
        return None


def _relax_one(expression: re.Pattern[str]) -> str:
    if expression.flags & ~re.UNICODE:
        raise _UnknownPartError
    return _sequence(parser.parse(expression.pattern))


def _sequence(parts: Any) -> str:
    return "".join(_part(str(kind), argument) for kind, argument in parts)


def _part(kind: str, argument: Any) -> str:
    if kind in ONLY_FORBIDS:
        return ""
    if kind in REPEATS:
        least, most, repeated = argument
        repetition = f"{{{min(least, MOST_REPEATED)},}}" if most > 1 else "" if least else "?"
        return f"(?:{_sequence(repeated)}){repetition}"
    match kind, argument:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY", _:
            return _set(kind, argument)
        case "BRANCH", (_, branches):
            return f"(?:{'|'.join(map(_sequence, branches))})"
        case "SUBPATTERN", (_, 0, 0, inside):
            return f"(?:{_sequence(inside)})"
        case "ATOMIC_GROUP", inside:
            return f"(?:{_sequence(inside)})"
        case "GROUPREF", _:
            return f"{ANY}*"
    raise _UnknownPartError


def _set(kind: str, argument: Any) -> str:
    """One character: those of ASCII that the part matches."""
    if kind == "LITERAL" and argument < len(ASCII):
        return f"\\x{argument:02x}"
    members = argument if kind == "IN" else [(getattr(constants, kind), argument)]
    negated = any(str(name) == "NEGATE" for name, _ in members)
    characters = [
        c
        for c in ASCII
        if any(_is_member(c, str(name), value) for name, value in members if str(name) != "NEGATE")
        != negated
    ]
    # Without characters it matches nothing.
    return "[" + ("".join(f"\\x{ord(c):02x}" for c in characters) or r"^\x00-\x{10FFFF}") + "]"


def _is_member(c: str, kind: str, argument: Any) -> bool:
    match kind:
        case "LITERAL":
            return bool(ord(c) == argument)
        case "NOT_LITERAL":
            return bool(ord(c) != argument)
        case "ANY":
            return True
        case "RANGE":
            return bool(argument[0] <= ord(c) <= argument[1])
        case "CATEGORY":
            name = str(argument)
            test = CLASSES.get(name.replace("_NOT_", "_"))
            if test is None:
                raise _UnknownPartError
            return bool(test(c)) != ("_NOT_" in name)
    raise _UnknownPartError
