"""The certificate of a bundle (privacy.json): how the release was made, and its guarantee.

Everything in it is a public parameter or noisy output. `verify` recomputes the guarantee from the
mechanisms' texts and does not trust the stated numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.certificate_schema import FORMAT, MOST_WORDS, check
from murmurlog.bundle.keys import LATEST, MOST_CHARACTERS, VERSIONS, odd_line
from murmurlog.bundle.schema import By
from murmurlog.errors import BundleError, UsageError
from murmurlog.privacy import ASSUMPTIONS, Guarantee

WINDOWS = ("select_from", "count_from")  # from when on rows were read for keys and for counts
ALL = "all"  # a window of all rows that were read
METHOD = "exact inversion of 127 bits, integers only"  # how noise is drawn
TEXT_KEYS = "128 bits, from numbers drawn for this release"  # how texts are told apart
ENTROPY = {True: "operating system", False: "known seed"}  # by whether the bundle is private
COUNTING = ("meaning", "d2", "common_error", "histogram")
ABOUT = ("title", "publisher", "license", "url", "contact", "description", "region")


Texts = Mapping[str, str] | Sequence[Any] | str | None


def check_lines(*texts: Texts, names: Texts = None) -> None:
    """Raises unless all texts by the owner are plain lines and not too long together.

    `names` are a column and its public values: their number is not limited.
    """
    lines = [line for text in texts for line in _lines(text)]
    if (odd := odd_line([*lines, *_lines(names)])) is not None:
        raise UsageError(
            f"{odd!r:.60} goes into the certificate and its cards: write it as one plain line of at "
            f"most {MOST_CHARACTERS} characters"
        )
    if (size := sum(map(len, lines))) > MOST_WORDS:
        raise UsageError(
            f"{size:,} characters of your own words go into the certificate: write at most "
            f"{MOST_WORDS:,}"
        )


def _lines(texts: Texts) -> Iterator[str]:
    if isinstance(texts, Mapping):
        yield from (*texts, *texts.values())
    elif isinstance(texts, str):
        yield texts
    else:
        for item in texts or ():
            yield from [item] if isinstance(item, str) else item


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
    # What the counts are about (`meaning`) and noisy numbers that they follow from; None without
    # counts, and in bundles before version 0.2, whose counts are of bounded items without intervals.
    counting: Mapping[str, Any] | None = None

    @property
    def meaning(self) -> str | None:
        return None if self.counting is None else self.counting.get("meaning")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Everything that a release states about itself."""

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
    # Releases of the same source whose published keys are counted again, and how many keys by table.
    after: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        return self.about.get("title", f"Search log release {self.release_id[:8]}")

    @property
    def normaliser(self) -> int:
        """The version of the text rules that the release used; the latest if unknown."""
        return VERSIONS.get(self.text["normaliser"], LATEST)

    @property
    def keys(self) -> str | None:
        """The rules for canonical keys; None: keys are normalised texts."""
        return self.text.get("keys")

    def period(self, window: str) -> str:
        """The rows that a window reads, in words; empty if the release has no windows."""
        if window not in self.text:
            return ""
        start = self.text["since"] if self.text[window] == ALL else self.text[window]
        until = self.text["until"]
        ends = (f"from {start} on" if start else "", f"before {until}" if until else "")
        return "rows " + " and ".join(filter(None, ends)) if any(ends) else "all rows"

    @property
    def text_rules(self) -> str:
        """The rules by which a text became a key, as cards name them."""
        return "; keys: ".join(filter(None, (self.text["normaliser"], self.keys)))

    def clean(self, text: str) -> str:
        """The key of a text by the rules of this release; empty if nothing is left."""
        return cleaner(self.keys, version=self.normaliser)(text) or ""

    @property
    def composition(self) -> str:
        """How the costs of the tables compose: joint accounting if the total is below their sum."""
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
            "planned_by": None,  # an option of version 0.2, as is `consistent`; the format has both
            "tables": {
                name: {
                    "rows": claim.rows,
                    "mechanism": claim.mechanism,
                    "parameters": dict(claim.parameters),
                    "guarantee": claim.guarantee.as_json(),
                    "count": claim.count,
                    "passes": dict(claim.passes),
                    "notes": dict(claim.notes),
                    **(claim.counting or {}),
                }
                for name, claim in self.tables.items()
            },
            "composition": self.composition,
            "consistent": False,
            "bound": self.bound,
            "by": None
            if self.by is None
            else {"column": self.by.column, "values": list(self.by.values)},
            "text": dict(self.text),
            "noise": dict(self.sampler),
            "engine": self.engine,
            "ledger": None if self.booked is None else dict(self.booked),
            "about": dict(self.about),
            **({} if self.after is None else {"after": dict(self.after)}),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Certificate":
        """The certificate in a parsed privacy.json; raises BundleError where it breaks the schema."""
        check(data)
        names = tuple(data["assumptions"])
        by = data["by"]
        try:
            return cls(
                release_id=data["release_id"],
                published=data["published"],
                murmurlog=data["murmurlog"],
                private=data["private"],
                guarantee=_guarantee(data["guarantee"], names),
                tables={name: _claim(claim, names) for name, claim in data["tables"].items()},
                bound=data["bound"],
                text=_text(data["text"]),
                engine=data["engine"],
                sampler=data["noise"],
                by=None if by is None else By(column=by["column"], values=tuple(by["values"])),
                declared_users=data["declared_users"],
                unprotected=tuple(data["unprotected"]),
                booked=data["ledger"],
                about=data["about"],
                after=data.get("after"),
            )
        except UsageError as error:  # each value is valid, but not their combination
            raise BundleError(f"privacy.json is damaged: {str(error)[:200]}") from None


def _claim(claim: Mapping[str, Any], assumptions: tuple[str, ...]) -> TableClaim:
    return TableClaim(
        rows=claim["rows"],
        mechanism=claim["mechanism"],
        guarantee=_guarantee(claim["guarantee"], assumptions),
        count=claim["count"],
        parameters=claim["parameters"],
        passes=claim["passes"],
        notes=claim["notes"],
        counting={name: claim[name] for name in COUNTING if name in claim} or None,
    )


def _text(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for reading the log; known keys only."""
    names = ("normaliser", "url", "screen", "deny", "since", "until", "where")
    gap = data["gap"]
    # Some bundles state neither the source nor the rules for keys; windows are stated where there are any.
    optional = ("keys", "source", *WINDOWS)
    return {
        **{name: data[name] for name in names},
        **{name: data[name] for name in optional if name in data},
        "gap": None if gap is None else float(gap),
        "set_size": data["set_size"],
        "consecutive": data["consecutive"],
    }


def _guarantee(data: Mapping[str, Any], assumptions: tuple[str, ...]) -> Guarantee:
    unit, neighbours = data["unit"], data["neighbours"]
    if data["notion"] == "none":
        return Guarantee.nothing(unit=unit, neighbours=neighbours)
    plain = data.get("delta_dp")
    return Guarantee(
        epsilon=float(data["epsilon"]),
        delta=float(data["delta"]),
        unit=unit,
        neighbours=neighbours,
        notion=data["notion"],
        assumptions=assumptions,
        delta_dp=None if plain is None else float(plain),
    )
