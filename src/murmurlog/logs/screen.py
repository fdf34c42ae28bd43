"""A screen for queries that look like personal data: an extra precaution, not part of the guarantee.

Patterns are in patterns.toml or in a file of the owner; docs/reference/hygiene.md says what they
find and what they miss. Every rule is a pure function of one normalised query (A5).
"""

import json
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import cleaner, without_start
from murmurlog.bundle.joiners import without_joiners
from murmurlog.bundle.keys import normalise
from murmurlog.errors import UsageError
from murmurlog.logs.prefilter import relax

LOOKED_AT = 1000  # characters; some patterns take quadratic time
MOST_SECONDS = 0.25  # of the CPU, for one query
KEYS = {"about", "patterns", "check", "needs"}
_IBAN = {
    "ad": 24, "at": 20, "be": 16, "bg": 22, "ch": 21, "cy": 28, "cz": 24, "de": 22, "dk": 18,
    "ee": 20, "es": 24, "fi": 18, "fr": 27, "gb": 22, "gr": 27, "hr": 21, "hu": 28, "ie": 22,
    "is": 26, "it": 27, "li": 21, "lt": 20, "lu": 20, "lv": 21, "mc": 27, "mt": 31, "nl": 18,
    "no": 15, "pl": 28, "pt": 25, "ro": 24, "sa": 24, "se": 24, "si": 19, "sk": 24, "tr": 26,
    "ae": 23, "br": 29, "il": 23, "ua": 29,
}  # fmt: skip


def _luhn(match: str) -> bool:
    digits = [int(c) for c in match if c.isdigit()]
    doubled = [2 * d - 9 * (d > 4) for d in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban(match: str) -> bool:
    text = match.replace(" ", "")
    text = text[: _IBAN.get(text[:2], 0)]
    if len(text) != _IBAN.get(text[:2]) or not text.isalnum() or not text.isascii():
        return False
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1


def _cn_id(match: str) -> bool:
    total = sum(int(c) * (2 ** (17 - i) % 11) for i, c in enumerate(match[:17]))
    return "10x98765432"[total % 11] == match[17]


def _es_dni(match: str) -> bool:
    number = match[:-1].translate(str.maketrans("xyz", "012", "-. "))
    return "trwagmyfpdxbnjzsqvhlcke"[int(number) % 23] == match[-1]


def _br_cpf(match: str) -> bool:
    digits = [int(c) for c in match if c.isdigit()]
    for n in (9, 10):
        total = sum(d * (n + 1 - i) for i, d in enumerate(digits[:n]))
        if total * 10 % 11 % 10 != digits[n]:
            return False
    return len(set(digits)) > 1


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "luhn": _luhn,
    "iban": _iban,
    "cn-id": _cn_id,
    "es-dni": _es_dni,
    "br-cpf": _br_cpf,
}


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Regular expressions under one name, and a check of digits that a match must pass."""

    name: str
    expressions: tuple[re.Pattern[str], ...]
    check: str | None
    needs: str | None  # a query without any of these characters cannot match

    @cached_property
    def _needed_characters(self) -> frozenset[str] | None:
        return None if self.needs is None else frozenset(self.needs)

    def hits(self, text: str) -> bool:
        if self._needed_characters is not None and self._needed_characters.isdisjoint(text):
            return False
        if self.check is None:
            return any(e.search(text) for e in self.expressions)
        passes = CHECKS[self.check]
        return any(passes(m[0]) for e in self.expressions for m in e.finditer(text))


@dataclass(frozen=True, kw_only=True)
class Screen:
    """The patterns of a file, in its order."""

    patterns: tuple[Pattern, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(pattern.name for pattern in self.patterns)

    @property
    def needs(self) -> str | None:
        """Characters of which a query with a hit has at least one; None if there is no such set."""
        needs = [pattern.needs for pattern in self.patterns]
        if None in needs:
            return None
        return "".join(sorted({c for characters in needs for c in characters or ""}))

    @cached_property
    def prefilters(self) -> tuple[str, ...] | None:
        """Expressions for Arrow, one of which matches every ASCII query with a hit; None if there are none.

        One for each pattern: all together have more states than RE2 keeps, which makes it ten times slower.
        """
        expressions = tuple(relax(pattern.expressions) or "" for pattern in self.patterns)
        try:
            for expression in expressions:
                pc.match_substring_regex(pa.array([""], pa.string()), expression)
        except pa.ArrowInvalid:  # it counts further than Arrow can
            return None
        return expressions if all(expressions) else None

    def suspects(self, queries: pa.Array) -> pa.Array:
        """The places of the normalised queries that may have a hit, as far as Arrow can tell."""
        may = pc.is_valid(queries)
        if self.needs is not None:
            may = pc.match_substring_regex(queries, f"[{re.escape(self.needs)}]")
        places = pc.indices_nonzero(may)
        if not len(places) or self.prefilters is None:
            return places
        candidates = queries.take(places)
        # Joiners and digits of other scripts are not ASCII.
        may = pc.invert(pc.string_is_ascii(candidates))
        for expression in self.prefilters:
            may = pc.or_(may, pc.match_substring_regex(candidates, expression))
        return places.filter(may)

    def hits(self, text: str) -> list[str]:
        """The names of the patterns that a normalised query matches in its first characters.

        With its joiners or without: they are invisible and must not hide the text around them.
        """
        starts = dict.fromkeys((text[:LOOKED_AT], without_joiners(text)[:LOOKED_AT]))
        return [p.name for p in self.patterns if any(p.hits(start) for start in starts)]


def load(path: Path | None = None) -> Screen:
    """The screen of a TOML file; by default the one that comes with murmurlog.

    A file with `extend = true` adds to that screen; a pattern of the same name replaces the original.
    """
    tables: dict[str, Any] = tomllib.loads(
        (resources.files("murmurlog.logs") / "patterns.toml").read_text("utf-8")
    )
    where = "patterns.toml"
    if path is not None:
        where = path.name
        try:
            patterns = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read the patterns in {path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is not TOML in UTF-8: {str(error)[:200]}") from None
        extends = patterns.pop("extend", False) is True
        tables = tables | patterns if extends else patterns
        for name, table in patterns.items():
            _try_out(_pattern(name, table, where), where)
    if not tables:
        raise UsageError(f"{where} has no pattern: write a section such as [badge] into it")
    return Screen(patterns=tuple(_pattern(name, t, where) for name, t in tables.items()))


def _pattern(name: str, table: Any, where: str) -> Pattern:
    if not isinstance(table, dict) or (unknown := set(table) - KEYS):
        what = (
            f"unknown keys {', '.join(sorted(unknown))}" if isinstance(table, dict) else "no keys"
        )
        raise UsageError(f"{where}: [{name}] has {what}; it may have {', '.join(sorted(KEYS))}")
    patterns, check, needs = table.get("patterns"), table.get("check"), table.get("needs")
    if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
        raise UsageError(f"{where}: [{name}] needs patterns = ['...'], a list of texts")
    if check is not None and (not isinstance(check, str) or check not in CHECKS):
        raise UsageError(
            f"{where}: [{name}] has check {check!r:.80}; there are {', '.join(CHECKS)}"
        )
    if needs is not None and not (isinstance(needs, str) and needs):
        raise UsageError(f"{where}: [{name}] has needs {needs!r:.80}; it is a text of characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expressions = tuple(re.compile(pattern) for pattern in patterns)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{where}: [{name}] is not a regular expression: {error}") from None
    return Pattern(name=name, expressions=expressions, check=check, needs=needs)


# Runs in a process of its own, because a regular expression that never ends can only be killed.
# Texts grow slowly; after some seconds of CPU time the system kills the process.
_TRIAL = """
import json, re, resource, sys, time, warnings
warnings.simplefilter("ignore")
trial = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_CPU, (trial["limit"], trial["limit"]))
for text in trial["patterns"]:
    expression = re.compile(text)
    for letter in sorted({*"a1 .-@", *filter(str.isprintable, text[:200])}):
        length = 1
        while length <= trial["longest"]:
            started = time.process_time()
            for end in ("\\n", "\\x00"):  # a dot stops at the first, $ at the other
                for _ in expression.finditer(letter * length + end):
                    pass
            if time.process_time() - started > trial["most"]:
                sys.exit(1)
            length += max(1, length // 8)
"""


def _try_out(pattern: Pattern, where: str) -> None:
    """Raises if a query of one repeated letter would stall a release."""
    trial = {
        "patterns": [expression.pattern for expression in pattern.expressions],
        "longest": LOOKED_AT,
        "most": MOST_SECONDS,
        "limit": 2 + len(pattern.expressions),
    }
    tried = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TRIAL],
        input=json.dumps(trial),
        text=True,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if tried.returncode:
        raise UsageError(
            f"{where}: [{pattern.name}] takes too long on a query of one repeated letter: a "
            "repetition inside a repetition takes exponential time"
        )


def load_deny(path: Path) -> frozenset[str]:
    """The queries in a file of denied queries, one a line; * at the end makes it a prefix."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read the queries in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path.name} is not UTF-8 text: convert it first") from None
    return frozenset(line for line in lines if line.strip())


def matcher(entries: frozenset[str], keys: str | None = None) -> Callable[[str], bool]:
    """A test whether a clean query is one of the entries or starts with one that ends in *.

    Joiners are ignored in both: they are invisible. With canonical keys an entry is folded as queries
    are; a prefix loses its scheme and www., and if it is a whole address its key is denied, too.
    """
    exact, prefixes, clean_key = set(), set(), cleaner(keys)
    for entry in entries:
        entry = entry.rstrip()
        if not entry.endswith("*"):
            exact.add(without_joiners(clean_key(entry) or ""))
        elif clean := normalise(entry[:-1]):
            # A space before the * stays: "new york *" is not the start of "new yorker".
            clean = without_joiners(clean) + " " * entry[:-1].endswith(" ")
            if keys is not None:
                clean = without_start(clean)
                exact.add(without_joiners(clean_key(clean) or ""))
            prefixes.add(clean)
        else:
            raise UsageError("a denied query is only '*', which would drop every query: remove it")
    lengths = sorted({len(prefix) for prefix in prefixes})

    def is_denied(query: str) -> bool:
        bare = without_joiners(query)
        return bare in exact or any(bare[:n] in prefixes for n in lengths)

    return is_denied
