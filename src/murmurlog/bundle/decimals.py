"""Parsers of plain decimal numbers, stricter than Python's int() and float().

Those accept 1_0 as 10, digits of every script, infinity and NaN. A typo in a budget must not become
another budget.
"""

import math
import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def integer(text: str) -> int:
    """A whole number in ASCII digits; raises ValueError for any other text."""
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.80} is no whole number: write digits only")
    return int(text)


def decimal(text: str) -> float:
    """A finite number in ASCII digits; raises ValueError for any other text."""
    if not _REAL.fullmatch(text.strip()) or not math.isfinite(float(text)):
        raise ValueError(f"{text!r:.80} is no number: write digits, such as 10, 0.5 or 1e-6")
    return float(text)
