"""Declared options: one declaration gives the keyword in Python, the flag, its text form and its help.

A group of options is a frozen dataclass whose fields are annotated with an `Option`; a mechanism
lists its own options. Flags, settings in murmurlog.toml and the reference are derived from these
declarations. Imports nothing heavy: `murmurlog --help` reads them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.errors import UsageError

GAP = 30 * 60  # seconds without a query that end a session, unless the owner says otherwise
MOST = 1 << 62  # a whole number beyond it fits into no certificate
WORDS = {
    bool: "true or false", int: "a whole number up to 2^62", float: "a finite number", str: "a text without NUL",
    Path: "a path", tuple: "a pair", Sequence: "a list", Mapping: "names with values", dict: "names with values",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its keyword, and how it is written after its flag."""

    help: str
    name: str = ""  # the keyword; of a field, the field's name
    alias: str = ""  # the flag, where it is not the name with dashes
    read: Callable[[Any], Any] | None = None  # the value of a text, or of all of them if repeated
    switch: bool = False  # a flag without a value
    repeated: bool = False  # once for each value
    variable: bool = True  # MURMURLOG_<FLAG> sets it, too
    default: Any = None
    public_file: bool = False  # names a public file, fixed without the log
    # of a mechanism: checks the value, reads files
    prepare: Callable[[Any, Any], Any] | None = None
    kind: Any = None  # the type of a value; by default that of the field, or what `read` returns

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return self.alias or "--" + self.name.replace("_", "-")

    def files(self, value: Any) -> list[Path]:
        """The public files that a value names."""
        if not self.repeated:
            return [Path(str(value))]
        values = value if isinstance(value, list | tuple) else [value]  # in Python, also one alone
        return [item[0] if isinstance(item, tuple) else Path(str(item)) for item in values]

    def fit(self, value: Any) -> Any:
        """The value, if it is of the option's type; from Python it can be anything."""
        kind = self.kind
        if kind is None:
            kind = bool if self.switch else str if self.read is None else _return_type(self.read)
        try:
            return _fit(value, kind)
        except ValueError:
            parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
            words = [WORDS[get_origin(part) or part] for part in parts if part is not type(None)]
            raise UsageError(
                f"{self.flag} must be {' or '.join(words)}, not {value!r:.60}"
            ) from None

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


def _return_type(read: Callable[[Any], Any]) -> Any:
    """The type of the values that a parser returns."""
    return str | Path if read is Path else get_type_hints(read)["return"]


def _fit(value: Any, kind: Any) -> Any:
    """The value, with numbers as Python's own; raises ValueError unless it is of this type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for part in parts:
            with suppress(ValueError):
                return _fit(value, part)
    elif kind is int and isinstance(value, Integral) and not isinstance(value, bool):
        if abs(int(value)) <= MOST:
            return int(value)
    elif kind is float and isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    elif kind is str and isinstance(value, str):
        if "\0" not in value:
            return value
    elif kind is Path and isinstance(value, PathLike):
        return value
    elif origin is tuple and isinstance(value, list | tuple) and len(value) == len(parts):
        return tuple(_fit(item, part) for item, part in zip(value, parts, strict=True))
    elif origin in (Sequence, list) and isinstance(value, list | tuple):
        return type(value)(_fit(item, parts[0]) for item in value)
    elif origin in (Mapping, dict) and isinstance(value, Mapping):
        return {_fit(name, parts[0]): _fit(item, parts[1]) for name, item in value.items()}
    elif kind in (bool, type(None)) and isinstance(value, kind):
        return value
    raise ValueError


class Group:
    """A group of options, whose values are of the types that its fields declare."""

    def __post_init__(self) -> None:
        group: type = type(self)
        for option in options_of(group):
            object.__setattr__(self, option.name, option.fit(getattr(self, option.name)))


@cache
def options_of(group: type) -> tuple[Option, ...]:
    """The options that the fields of a group declare, in order."""
    hints = get_type_hints(group, include_extras=True)
    options = []
    for field in fields(group):
        for option in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(option, Option):
                kind = option.kind or hints[field.name].__origin__
                options.append(replace(option, name=field.name, default=field.default, kind=kind))
    return tuple(options)


@cache
def mechanism_table() -> Any:
    """What mechanisms declare, as docs/options.py wrote it: loading them all takes half a second."""
    file = Path(__file__).with_name("mechanism_table.json")
    return json.loads(file.read_text(encoding="utf-8"))


def split_keywords(
    keywords: Mapping[str, Any], *groups: type
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The keywords of each group, and those of none."""
    rest = dict(keywords)
    parts = []
    for group in groups:
        names = {option.name for option in options_of(group)}
        parts.append({name: rest.pop(name) for name in list(rest) if name in names})
    return parts, rest


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
        pairs: dict[str, str] = {}
        for name, value in (read_pair(text, flag) for text in texts):
            if name in pairs:
                raise UsageError(f"{flag} names {name!r:.60} twice: leave one out")
            pairs[name] = value
        return pairs

    return read


def read_shares(flag: str) -> Callable[[str], dict[str, float] | None]:
    """Reads {"a": 0.3, "b": 0.7} from "a=0.3,b=0.7"."""
    read_texts = read_pairs(flag)

    def read(text: str) -> dict[str, float] | None:
        pairs = read_texts(text)
        return {name: read_number(value) for name, value in pairs.items()} if pairs else None

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
