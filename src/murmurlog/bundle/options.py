"""Declared options: one declaration gives the keyword in Python, the flag, its text form and its help.

A group of options is a frozen dataclass whose fields are annotated with an `Option`; a mechanism
lists its own options. Flags, settings in murmurlog.toml and the reference are derived from these
declarations. Imports nothing heavy: `murmurlog --help` reads them.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.errors import UsageError

GAP = 30 * 60  # seconds without a query that end a session, unless the owner says otherwise


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its keyword, and how it is written after its flag."""

    help: str
    name: str = ""  # the keyword; of a field, the field's name
    alias: str = ""  # the flag, where it is not the name with dashes
    read: Callable[[Any], Any] | None = None  # the value of a text, or of all of them if repeated
    switch: bool = False  # given or not, without a value
    repeated: bool = False  # once for each value
    variable: bool = True  # MURMURLOG_<FLAG> sets it, too
    default: Any = None
    public_file: bool = False  # names a public file, fixed without the log
    prepare: Callable[[Any, Any], Any] | None = (
        None  # of a mechanism: checks the value, reads files
    )

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return self.alias or "--" + self.name.replace("_", "-")

    def files(self, value: Any) -> list[Path]:
        """The public files that a value names."""
        if not self.repeated:
            return [Path(str(value))]
        several = value if isinstance(value, list | tuple) else [value]  # in Python, also one alone
        return [each[0] if isinstance(each, tuple) else Path(str(each)) for each in several]

    def value(self, text: Any) -> Any:
        """The value of what is written after the flag; raises UsageError with the flag's name."""
        if text is None or self.read is None:
            return text
        try:
            return self.read(text)
        except ValueError as error:
            if isinstance(error, UsageError) and self.flag in str(error):
                raise
            raise UsageError(f"{self.flag}: {error}") from None


@cache
def options_of(group: type) -> tuple[Option, ...]:
    """The options that the fields of a group declare, in order."""
    hints = get_type_hints(group, include_extras=True)
    found = []
    for each in fields(group):
        for option in getattr(hints[each.name], "__metadata__", ()):
            if isinstance(option, Option):
                found.append(replace(option, name=each.name, default=each.default))
    return tuple(found)


@cache
def mechanism_table() -> Any:
    """What mechanisms declare, as docs/options.py wrote it: loading them all takes half a second."""
    file = Path(__file__).with_name("mechanism_table.json")
    return json.loads(file.read_text(encoding="utf-8"))


def split_keywords(
    keywords: Mapping[str, Any], *groups: type
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The keywords of each group, and those of none."""
    left = dict(keywords)
    taken = []
    for group in groups:
        names = {option.name for option in options_of(group)}
        taken.append({name: left.pop(name) for name in list(left) if name in names})
    return taken, left


def read_number(text: str) -> float:
    """A number, also written as ln(10)."""
    inner = text[3:-1] if text.startswith("ln(") and text.endswith(")") else None
    try:
        return decimal(text) if inner is None else math.log(decimal(inner))
    except ValueError:
        raise UsageError(
            f"{text!r:.80} is no number: write digits, such as 10, 0.5 or 1e-6, or ln(10)"
        ) from None


def read_part(text: str) -> float:
    """A part of a whole, written as 1/12 or 0.08."""
    above, slash, below = text.partition("/")
    try:
        part = decimal(above) / (decimal(below) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        part = math.nan
    if not 0 < part <= 1:
        raise UsageError(f"{text!r:.80} is no part of a whole: write 1/12 or 0.08")
    return part


def read_pair(text: str, flag: str) -> tuple[str, str]:
    """("a", "1") from "a=1"."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{flag} takes name=value; got {text!r}")
    return name.strip(), value.strip()


def read_pairs(flag: str) -> Callable[[str], dict[str, str] | None]:
    """Reads {"a": "1", "b": "2"} from "a=1,b=2"; nothing from an empty text."""
    return lambda text: read_repeated(flag)(text.split(",")) if text else None


def read_repeated(flag: str) -> Callable[[list[str]], dict[str, str]]:
    """Reads {"a": "1", "b": "2"} from "a=1" and "b=2"."""

    def read(texts: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in (read_pair(text, flag) for text in texts):
            if name in found:
                raise UsageError(f"{flag} names {name!r:.60} twice: leave one out")
            found[name] = value
        return found

    return read


def read_shares(flag: str) -> Callable[[str], dict[str, float] | None]:
    """Reads {"a": 0.3, "b": 0.7} from "a=0.3,b=0.7"."""
    of_pairs = read_pairs(flag)

    def read(text: str) -> dict[str, float] | None:
        given = of_pairs(text)
        return (
            None if given is None else {name: read_number(value) for name, value in given.items()}
        )

    return read


def read_list(text: str) -> list[str]:
    """["a", "b"] from "a,b"; nothing from an empty text."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_bounds(text: str) -> int | dict[str, int]:
    """20, or {"query": 20, "click": 10} from "query=20,click=10"."""
    try:
        if "=" not in text:
            return integer(text)
        return {name: integer(n) for name, n in (read_pairs("--per-user")(text) or {}).items()}
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"--per-user takes 20 or query=20,click=10; got {text!r}") from None


def read_span(text: str) -> float:
    """A span of time: 90s, 30m or 1.5h."""
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        return decimal(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError):
        raise UsageError(
            f"--gap takes a span of time such as 90s, 30m or 1h, not {text!r}"
        ) from None
