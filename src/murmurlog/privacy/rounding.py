"""The numbers of a guarantee as texts, rounded so that a stated loss is never too small."""

import math
from decimal import ROUND_CEILING, Context

from murmurlog.privacy.guarantee import Guarantee


def odds(guarantee: Guarantee) -> str:
    """e to the epsilon, rounded up: the largest factor by which one unit's presence changes odds."""
    if guarantee.epsilon >= 20:
        return f"e^{round_up_text(guarantee.epsilon, 6)}"
    factor = math.exp(guarantee.epsilon)
    digits = max(0, 2 - math.floor(math.log10(factor)))
    return f"{_ceiling(factor, digits):,.{digits}f}"


def loss_of_several(unit: str) -> str:
    """The meaning for a user of a guarantee for a smaller unit."""
    return f"For a user with n {unit}s epsilon is n times as large, and delta more than n times."


def guess(guarantee: Guarantee) -> str:
    """The largest probability of a right guess between two equally likely neighbours, rounded up.

    (e^epsilon + delta)/(e^epsilon + 1), attained by the best test against (epsilon, delta)-DP.
    """
    grown = math.exp(min(guarantee.epsilon, 700.0))
    wrong = (1.0 - guarantee.plain_delta) / (grown + 1.0)
    digits = max(1, -math.floor(math.log10(wrong)) - 1) if wrong > 0 else 0
    if wrong <= 0 or digits > 8:
        return "100 %"
    return f"{_ceiling(100 * (1 - wrong), digits):.{digits}f} %"


def chance(delta: float) -> str:
    """A small probability as "1 in n", rounded up."""
    if delta <= 0:
        return "never"
    one_in = math.floor(1 / delta * (1 + 1e-9))
    if one_in >= 1000:
        keep = 10 ** (math.floor(math.log10(one_in)) - 1)
        one_in = one_in // keep * keep
    return f"1 in {one_in:,}"


def round_up_text(value: float, digits: int = 3) -> str:
    """A number rounded up to significant digits, so that a stated loss is never too small."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(rounded):.{digits}g}"


def _ceiling(value: float, digits: int) -> float:
    """A number rounded up to `digits` decimal places, ignoring floating-point errors."""
    scale = 10.0**digits
    return math.ceil(value * scale - 1e-9) / scale
