"""How a mechanism is written: the paper's letters as text, and full names in a certificate.

The fields of a mechanism are annotated with a `Letter`. From them follow the text
(`threshold(noise=geometric, d=20, scale=8.7, T=122)`), the reading of that text, and `parameters`.
"""

import math
import re
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from murmurlog.bundle.decimals import decimal
from murmurlog.errors import UsageError
from murmurlog.privacy.sampler import MOST_SCALE

MOST_ITEMS = 100_000  # items a unit: the guarantee is computed for each number up to it
MOST_THRESHOLD = 1 << 40
LEAST_SCALE = 1e-4
MOST_DIGITS = 60


@dataclass(frozen=True, kw_only=True)
class Letter:
    """What a certificate calls a field, and other letters by which the field may be given."""

    parameter: str
    also: tuple[str, ...] = ()
    above: str | None = None  # a letter for the largest count that is not published
    exact: bool = False  # digits only: the number may be beyond what a float holds


class _Field(NamedTuple):
    name: str
    kind: type
    letter: Letter
    default: Any


@cache
def _fields(mechanism: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(mechanism, include_extras=True)
    letter_fields = []
    for f in fields(mechanism):
        for letter in getattr(hints[f.name], "__metadata__", ()):
            plain = hints[f.name].__origin__
            kinds = [kind for kind in get_args(plain) or (plain,) if kind is not type(None)]
            letter_fields.append(_Field(f.name, kinds[0], letter, f.default))
    return tuple(letter_fields)


def to_text(name: str, mechanism: Any) -> str:
    """name(letter=value, ...), without letters that are not set."""
    values = [(f.name, getattr(mechanism, f.name)) for f in _fields(mechanism.__class__)]
    parts = ", ".join(f"{letter}={value}" for letter, value in values if value is not None)
    return f"{name}({parts})"


def to_parameters(mechanism: Any) -> dict[str, Any]:
    """The values by their full names."""
    return {f.letter.parameter: getattr(mechanism, f.name) for f in _fields(mechanism.__class__)}


def from_letters(name: str, mechanism: type, letters: dict[str, str]) -> dict[str, Any]:
    """The fields that letters give; raises if one is missing, unknown or no number."""
    left = dict(letters)
    values: dict[str, Any] = {}
    for f in _fields(mechanism):
        if f.letter.above is not None:
            values[f.name] = _threshold(left, f.name, f.letter.above)
            continue
        names = (f.name, *f.letter.also)
        if f.default is not MISSING and not any(name in left for name in names):
            continue
        if f.kind is str:
            values[f.name] = left.pop(f.name)
        elif f.letter.exact:
            values[f.name] = _size(left, f.name)
        else:
            value = number(left, *names)
            values[f.name] = whole(value, f.name) if f.kind is int else value
    if left:
        usable = ", ".join(f.name for f in _fields(mechanism))
        raise UsageError(f"{name} has no parameter {', '.join(left)}: use {usable}")
    return values


def _size(left: dict[str, str], name: str) -> int:
    """A number that is written in digits: it may be beyond what a float holds exactly."""
    text = left.pop(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise UsageError(f"{name} must be a whole number, not {text!r:.80}")
    return int(text)


def _threshold(left: dict[str, str], at_least: str, above: str) -> int:
    """The least count that is published, given as such or as the largest one that is not."""
    K, T = (number(left, name, default=math.nan) for name in (above, at_least))
    if math.isnan(K) == math.isnan(T):
        raise UsageError(
            f"give the threshold once: as {at_least} (publish if >= {at_least}) or as {above} "
            f"(if > {above})"
        )
    return math.floor(K) + 1 if math.isnan(T) else whole(T, at_least)


def read_letters(text: str) -> dict[str, str]:
    """{"d": "20", "scale": "8.7"} from "d=20, scale=8.7"."""
    letters: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(\w+)\s*=\s*([\w.+-]+)", part)
        if not match or match[1] in letters:
            raise UsageError(f"cannot read {part!r}: write letters as K=50,b=10, each once")
        letters[match[1]] = match[2]
    return letters


def number(letters: dict[str, str], *names: str, default: float | None = None) -> float:
    """The value given under any one of the names; takes it out of `letters`."""
    spellings = [name for name in names if name in letters]
    if len(spellings) > 1:
        raise UsageError(f"{' and '.join(spellings)} are the same parameter: give one")
    if not spellings:
        if default is None:
            raise UsageError(f"missing parameter {names[0]}")
        return default
    text = letters.pop(spellings[0])
    try:
        # The text of a mechanism may hold inf; callers that need a finite number check for it.
        return float(text) if text in ("inf", "nan") else decimal(text)
    except ValueError:
        raise UsageError(f"{spellings[0]} must be a number, not {text!r}") from None


def whole(value: float, name: str) -> int:
    """The value as a whole number."""
    if not math.isfinite(value) or value != int(value):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def check_letters(*, d: int | None = None, T: int | None = None, **scales: float | None) -> None:
    """Raises unless noise of these scales can be drawn and the guarantee computed.

    Called when a mechanism is made: a limit found only while drawing would already cost the budget.
    """
    if d is not None and not 1 <= d <= MOST_ITEMS:
        raise UsageError(f"the bound must lie between 1 and {MOST_ITEMS} items a unit, not {d}")
    for name, scale in scales.items():
        if scale is not None and not LEAST_SCALE <= scale <= MOST_SCALE:
            raise UsageError(
                f"{name}, a scale of noise, must lie between {LEAST_SCALE:g} and 2^40, not {scale!r}"
            )
    if T is not None and T > MOST_THRESHOLD:
        raise UsageError(f"T must be at most 2^40, not {T}")
