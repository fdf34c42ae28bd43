"""Numbers as people write them: plain decimals. Python's own int() and float() read more than that.

They take 1_0 for 10, and digits of every script, infinity and NaN for numbers. A typo in a budget
must not become another budget.
"""

import math
import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def integer(text: str) -> int:
    """The whole number that is written there in ASCII digits; raises ValueError if none is."""
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.80} is no whole number: write digits only")
    return int(text)


def decimal(text: str) -> float:
    """The finite number that is written there in ASCII digits; raises ValueError if none is."""
    if not _REAL.fullmatch(text.strip()) or not math.isfinite(float(text)):
        raise ValueError(f"{text!r:.80} is no number: write digits, such as 10, 0.5 or 1e-6")
    return float(text)
