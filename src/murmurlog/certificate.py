"""The certificate of a bundle (privacy.json): what was done, and what is claimed about it.

Everything in it is a public parameter or noisy output. `verify` recomputes the claim from the
mechanisms' texts and does not believe the stated numbers.
"""

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from murmurlog.errors import BundleError, UsageError
from murmurlog.privacy import ASSUMPTIONS, Guarantee
from murmurlog.tables import By

FORMAT = "murmurlog-bundle-1"
METHOD = "exact inversion of 127 bits, integers only"  # how noise is drawn
ENTROPY = {True: "operating system", False: "known seed"}  # by whether the bundle is private
BOOKED = {"source", "releases_before", "epsilon_before", "delta_before"}  # before this release
ABOUT = ("title", "publisher", "license", "url", "contact", "description", "region")
MOST_CHARACTERS = 10_000  # of what the owner says in his own words


def odd_line(texts: Iterable[str]) -> str | None:
    """The first of these texts that is not one plain line, which a card could be broken with."""
    for text in texts:
        plain = (
            c.isprintable() or c in "\u200c\u200d" or unicodedata.category(c) == "Zs" for c in text
        )
        if len(text) > MOST_CHARACTERS or not all(plain):
            return text
    return None


def check_lines(*said: Mapping[str, str] | Sequence[Any] | str | None) -> None:
    """Raises unless everything that the owner says, in lists or by name, is plain lines."""
    texts: list[str] = []
    for each in said:
        if isinstance(each, Mapping):
            texts += [*each, *each.values()]
        elif isinstance(each, str):
            texts.append(each)
        else:
            for text in each or ():
                texts += [text] if isinstance(text, str) else text
    if (odd := odd_line(texts)) is not None:
        raise UsageError(
            f"{odd!r:.60} goes into the certificate and its cards: write it as one plain line of at "
            f"most {MOST_CHARACTERS} characters"
        )


# What a log was read as, and what said so before its rows were read (A8): never the rows.
SOURCE = {
    "format": ("parquet", "csv", "tsv", "jsonl", "duckdb", "postgresql", "aol", "sogou", "excite"),
    "format_from": ("name", "header", "--shape", "server"),
    "columns_from": ("names", "shape", "--columns"),
}


@dataclass(frozen=True, kw_only=True)
class TableClaim:
    """One table: how many rows, by which mechanism, with which guarantee."""

    rows: int
    mechanism: str  # its text: parse() gives it back
    guarantee: Guarantee
    count: str | None  # what is counted: "users", "rows"; None: keys without counts
    parameters: Mapping[str, Any] = field(default_factory=dict)
    passes: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)  # public remarks on how it was made


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """All that is said about a release."""

    release_id: str
    published: str  # a date
    murmurlog: str  # version
    private: bool  # False: drawn from a known seed
    guarantee: Guarantee
    tables: Mapping[str, TableClaim]
    bound: str
    text: Mapping[str, Any]  # which rows were read and how their text was cleaned
    engine: str
    sampler: Mapping[str, Any]
    by: By | None
    declared_users: int | None
    unprotected: tuple[str, ...]
    booked: Mapping[str, Any] | None
    about: Mapping[str, str]
    planned_by: str | None = None  # output that parameters were chosen by; its cost is not in here
    consistent: bool = False  # counts of tables that limit each other were brought together

    @property
    def title(self) -> str:
        return self.about.get("title", f"Search log release {self.release_id[:8]}")

    @property
    def composition(self) -> str:
        """How the tables' costs come to the total: it is below their sum only in one account."""
        epsilons = [claim.guarantee.epsilon for claim in self.tables.values()]
        if math.fsum(epsilons) <= self.guarantee.epsilon * (1 + 1e-9):
            return "sum of the tables"
        return "one account of all noise, and the chance that a key shows"

    def as_json(self) -> dict[str, Any]:
        users = self.declared_users
        return {
            "format": FORMAT,
            "murmurlog": self.murmurlog,
            "release_id": self.release_id,
            "published": self.published,
            "private": self.private,
            "guarantee": self.guarantee.as_json(),
            "declared_users": users,
            "delta_times_users": None if users is None else self.guarantee.plain_delta * users,
            "assumptions": {name: ASSUMPTIONS[name] for name in self.guarantee.assumptions},
            "unprotected": list(self.unprotected),
            "planned_by": self.planned_by,
            "tables": {
                name: {
                    "rows": claim.rows,
                    "mechanism": claim.mechanism,
                    "parameters": dict(claim.parameters),
                    "guarantee": claim.guarantee.as_json(),
                    "count": claim.count,
                    "passes": dict(claim.passes),
                    "notes": dict(claim.notes),
                }
                for name, claim in self.tables.items()
            },
            "composition": self.composition,
            "consistent": self.consistent,
            "bound": self.bound,
            "by": None
            if self.by is None
            else {"column": self.by.column, "values": list(self.by.values)},
            "text": dict(self.text),
            "noise": dict(self.sampler),
            "engine": self.engine,
            "ledger": None if self.booked is None else dict(self.booked),
            "about": dict(self.about),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Certificate":
        """The certificate in a parsed privacy.json; raises BundleError where it is not one."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise BundleError(f"privacy.json is not of the format {FORMAT}")
        try:
            if not data["tables"]:
                raise ValueError("no table")
            names = tuple(data["assumptions"])
            return cls(
                release_id=_a(str, data["release_id"]),
                published=_a(str, data["published"]),
                murmurlog=_a(str, data["murmurlog"]),
                private=_a(bool, data["private"]),
                guarantee=_guarantee(data["guarantee"], names),
                tables={
                    _a(str, name): TableClaim(
                        rows=_a(int, claim["rows"]),
                        mechanism=_a(str, claim["mechanism"]),
                        guarantee=_guarantee(claim["guarantee"], names),
                        count=_or_none(str, claim["count"]),
                        parameters=_a(dict, claim["parameters"]),
                        passes=_a(dict, claim["passes"]),
                        notes=_a(dict, claim["notes"]),
                    )
                    for name, claim in _a(dict, data["tables"]).items()
                },
                bound=_a(str, data["bound"]),
                text=_text(data["text"]),
                engine=_a(str, data["engine"]),
                sampler=_a(dict, data["noise"]),
                by=None
                if data["by"] is None
                else By(column=_a(str, data["by"]["column"]), values=_texts(data["by"]["values"])),
                declared_users=_or_none(int, data["declared_users"]),
                unprotected=_texts(data["unprotected"]),
                booked=_or_none(dict, data["ledger"]),
                about={name: _a(str, text) for name, text in _a(dict, data["about"]).items()},
                planned_by=_or_none(str, data["planned_by"]),
                consistent=_a(bool, data["consistent"]),
            )
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise BundleError(
                f"privacy.json is damaged: {type(error).__name__} at {str(error)[:200]}"
            ) from None


def _text(data: Any) -> dict[str, Any]:
    """Which rows were read; only keys that mean something here."""
    where = _or_none(dict, data["where"])
    # Bundles of before say nothing about the source.
    source = {"source": _source(data["source"])} if "source" in data else {}
    return source | {
        "normaliser": _a(str, data["normaliser"]),
        "url": _a(str, data["url"]),
        "screen": list(_texts(data["screen"])),
        "deny": _a(bool, data["deny"]),
        "since": _or_none(str, data["since"]),
        "until": _or_none(str, data["until"]),
        "where": where and {column: _a(str, value) for column, value in where.items()},
        "gap": None if data.get("gap") is None else float(_a(float, data["gap"])),
        "set_size": _or_none(int, data.get("set_size")),
        "consecutive": _or_none(bool, data.get("consecutive")),
    }


def _source(data: Any) -> dict[str, str]:
    """What the log was read as, and what said so."""
    found = {name: _a(str, data[name]) for name in SOURCE}
    for name, known in SOURCE.items():
        if found[name] not in known:
            raise ValueError(f"{name} {found[name]!r:.60}")
    return found


def _guarantee(data: Any, assumptions: tuple[str, ...]) -> Guarantee:
    unit, neighbours = _a(str, data["unit"]), _a(str, data["neighbours"])
    if data["notion"] == "none":
        return Guarantee.nothing(unit=unit, neighbours=neighbours)
    plain = data.get("delta_dp")
    return Guarantee(
        epsilon=float(_a(float, data["epsilon"])),
        delta=float(_a(float, data["delta"])),
        unit=unit,
        neighbours=neighbours,
        notion=_a(str, data["notion"]),
        assumptions=assumptions,
        delta_dp=None if plain is None else float(_a(float, plain)),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_a(str, text) for text in _a(list, value))


def _or_none(kind: type, value: Any) -> Any:
    return None if value is None else _a(kind, value)


def _a(kind: type, value: Any) -> Any:
    """The value, which must be of this kind (an int will do for a float)."""
    if not isinstance(value, (int, float) if kind is float else kind) or (
        isinstance(value, bool) and kind is not bool
    ):
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value
