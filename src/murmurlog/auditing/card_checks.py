"""Checks of the cards of a bundle: byte by byte where this version wrote it, else by their facts.

Other versions word their cards differently. The content that the format fixes (metadata, tables,
titles) must then equal what the certificate and the tables give. Passages that this version words
differently must state the required facts and no other epsilon, delta or number. The rest of their
wording cannot be checked, and the message says so.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog import __version__
from murmurlog.auditing.card_reading import Card, read_card
from murmurlog.auditing.check import is_same_version, require
from murmurlog.auditing.table_checks import read_checked
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.certificate_schema import FORMAT
from murmurlog.bundle.files import sums
from murmurlog.bundle.joiners import JOINERS
from murmurlog.bundle.label import booked_numbers, needs
from murmurlog.bundle.read import stated_json
from murmurlog.bundle.report import make_report
from murmurlog.bundle.write import make_cards
from murmurlog.charts.html import chance, guess, odds, up

# The largest size of a card of another version: a multiple of the size of this version's card, and a
# constant.
MOST_TIMES, LITTLE = 3, 1 << 16
MOST_STRINGS = 500  # of a certificate that contain digits; all values of its --by column are one
NUMBER = re.compile(r"(?:(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")
MARKUP = re.compile(r"<|&#?\w+;|\A.+\\", re.S)  # in Markdown: elements, entities, escapes
MARKS = re.compile("[*_`~" + "".join(JOINERS) + "]")  # not visible in rendered Markdown
_BETWEEN = r"(?:\W|is|of|at|most|up|to|below|under|only|just|about|the){0,12}?"
CLAIMS = {
    name: re.compile(rf"(?:{words}){_BETWEEN}({NUMBER.pattern})", re.I)
    for name, words in (("epsilon", "epsilon|ε"), ("delta", "delta|δ"))
}
# Numbers in fixed phrases of the cards: neither facts nor claims.
WORDED = re.compile(r"\b1 in (?=\d)|a weight of 1 over|with 95 %|with 99 %")
BARE = re.compile(r"[-+−]?[\d,. ]*\d ?[%kM]?")  # a tick of an axis


def check_cards(root: Path, certificate: Certificate) -> str:
    """Raises unless the cards state what certificate and tables give; returns how it was checked."""
    tables = {name: read_checked(root, certificate, name) for name in certificate.tables}
    sha256 = sums(root)
    made = make_cards(certificate, sha256, tables)
    other = [name for name, text in made.items() if not _is_same(root / name, text)]
    if not other:
        return "equal to what the certificate gives, byte by byte"
    require(not is_same_version(certificate), f"{other[0]} is not what the certificate gives")
    facts = _Facts(certificate, stated_json(root), tables)
    # How uncertainty is written has changed within a format: reports of either form are accepted.
    earlier = {"report.html": make_report(certificate, tables, sha256, plus_minus=True)}
    unchecked = [
        f"{name}: {passage!r:.90}"
        for name in other
        for passage in facts.check(name, root / name, made[name], earlier.get(name))
    ]
    text = (
        f"cards of murmurlog {certificate.murmurlog}, format {certificate.format}: stated facts "
        f"checked, wording and look of {', '.join(other)} not (this is murmurlog {__version__}, "
        f"format {FORMAT})"
    )
    if unchecked:
        text += f"; {len(unchecked)} passages are worded differently, the first in {unchecked[0]}"
    return text


def _is_same(path: Path, text: str) -> bool:
    wanted = text.encode(errors="replace")
    return path.stat().st_size == len(wanted) and path.read_bytes() == wanted


class _Facts:
    """The facts that cards of a release must state, and the numbers that they may state."""

    def __init__(
        self, certificate: Certificate, stated: Any, tables: Mapping[str, pa.Table]
    ) -> None:
        self.certificate, self.stated, self.tables = certificate, stated, tables
        claims = [certificate.guarantee, *(c.guarantee for c in certificate.tables.values())]
        proved = [g for g in claims if g.notion != "none"]
        self.claims = {
            "epsilon": {up(g.epsilon, 6) for g in proved},
            "delta": {up(d) for g in proved for d in (g.delta, g.plain_delta)},
        }
        self.values = ", ".join(certificate.by.values) if certificate.by else ""
        # The strings of the certificate that have digits and letters in them, longest first.
        mixed = re.compile(r"(?=.*\d)(?=.*[^\W\d]|.*-)")
        more = [self.values, f"murmurlog {certificate.murmurlog}"]
        every = {
            text for text in _strings({**stated, "by": more, "after": None}) if mixed.match(text)
        }
        require(len(every) <= MOST_STRINGS, "privacy.json holds more texts than a release has")
        self.quoted = re.compile("|".join(map(_whole, sorted(every, key=len, reverse=True))))

    def check(self, name: str, path: Path, made: str, earlier: str | None = None) -> Iterator[str]:
        """Yields the passages of a card that are worded differently; raises where a fact differs.

        The content that the format fixes must be as in `made`, or all as in its `earlier` form.
        """
        who = f"{name} of murmurlog {self.certificate.murmurlog}"
        large = path.stat().st_size > MOST_TIMES * len(made.encode(errors="replace")) + LITTLE
        require(not large, f"{who} is longer than a card of this release can be")
        found = read_card(name, path.read_bytes())
        ours = read_card(name, made.encode(errors="replace"))
        if earlier is not None and found.fixed != ours.fixed:
            before = read_card(name, earlier.encode(errors="replace"))
            ours = before if before.fixed == found.fixed else ours
        for at in {**ours.fixed, **found.fixed}:
            require(
                at in found.fixed and at in ours.fixed and found.fixed[at] == ours.fixed[at],
                f"{who} states another {'/'.join(map(str, at)):.80} than the certificate gives",
            )
        for what, text in self._required(name, found):
            missing = [fact for fact in what if not _states(text, fact)]
            require(not missing, f"{who} does not state {missing[:1]}, which the certificate gives")
        known = set(ours.passages)
        allowed = self._numbers(ours)
        for at, passage in found.passages:
            if (at, passage) not in known:
                self._check_passage(who, at, passage, allowed)
                yield passage

    def _check_passage(self, who: str, at: Any, passage: str, allowed: set[float]) -> None:
        odd = next(
            (c for c in passage if not (c.isprintable() or c in JOINERS or c.isspace())), None
        )
        require(odd is None, f"{who} holds characters that cannot be seen")
        if at == ("svg",) and BARE.fullmatch(passage):
            return
        # Quotations from the certificate are not claims of the card.
        booked, text = self.certificate.booked, self.quoted.sub(" ", passage)
        require(at or not MARKUP.search(text), f"{who} holds markup: {passage!r:.60}")
        text = MARKS.sub("", text)
        for name, pattern in CLAIMS.items():
            given = {_value(number) for number in self.claims[name]}
            if booked and repr(booked["source"]) in passage:
                given.add(_value(booked_numbers(booked)[name]))
            for number in pattern.findall(text):
                require(
                    _value(number) in given,
                    f"{who} states {name} {number}, which the certificate does not give",
                )
        text = WORDED.sub(" ", text)
        strange = [n for n in NUMBER.findall(text) if _value(n) not in allowed]
        strange += [c for c in text if c.isnumeric() and not ("0" <= c <= "9")]
        require(
            not strange,
            f"{who} states the number {strange[:1]}, which neither certificate nor tables give",
        )

    def _numbers(self, ours: Card) -> set[float]:
        """The numbers that a passage may state: those in this version's wording, and derived ones."""
        g, users = self.certificate.guarantee, self.certificate.declared_users
        texts = [self.quoted.sub(" ", text) for _, text in ours.passages]
        texts += [*self.claims["epsilon"], *self.claims["delta"]]
        for name, claim in self.certificate.tables.items():
            texts += [str(claim.rows), *needs(claim, g.unit), *map(str, claim.passes.values())]
            texts += [str(claim.parameters.get(n, "")) for n in ("per_user", "count_per_user")]
            texts.append(str((claim.counting or {}).get("d2", "")))
            if "reliable" in self.tables[name].column_names:
                texts.append(str(self.tables[name]["reliable"].to_pylist().count(True)))
        if g.notion != "none":
            texts += [odds(g), guess(g), chance(g.plain_delta)]
            texts += [] if users is None else [str(users), up(g.plain_delta * users)]
        return {_value(n) for text in texts for n in NUMBER.findall(WORDED.sub(" ", text))}

    def _required(self, name: str, card: Card) -> Iterator[tuple[list[str], str]]:
        """Pairs of facts and the text of the card that must state them."""
        c, g, about = self.certificate, self.certificate.guarantee, self.certificate.about
        warning = [] if c.private or g.notion == "none" else ["NOT PRIVATE"]
        if g.notion == "none":
            total = ["NO FORMAL PRIVACY GUARANTEE"]
        else:
            total = [f"epsilon {up(g.epsilon, 6)}", f"one {g.unit}", odds(g), up(g.plain_delta)]
        conditions = ["; ".join(c.unprotected), c.planned_by or ""] * (g.notion != "none")
        made = [c.release_id, c.published, f"murmurlog {c.murmurlog}"]
        assumed = list(self.stated["assumptions"].values())
        if name == "README.md":
            notes = [str(note) for t in c.tables.values() for note in t.notes.values()]
            # One passage states the guarantee.
            passages = [text for _, text in card.passages if _states(text, total[0])]
            yield [*total, *warning], passages[0] if passages else ""
            facts = [g.neighbours, *conditions, *made, *assumed, *notes, self.values]
            yield facts, card.text()
        elif name == "report.html":
            booked = []
            if c.booked:
                booked = [repr(c.booked["source"]), str(c.booked["releases_before"])]
                booked.append(f"epsilon {booked_numbers(c.booked)['epsilon']}")
            owner = [about[key] for key in ("publisher", "license") if key in about]
            owner += [f"{claim.rows:,}" for claim in c.tables.values()]
            # Texts of the page have single spaces.
            facts = [*total, *warning, *conditions, *made, *assumed, *booked, *owner]
            yield [" ".join(fact.split()) for fact in facts], card.text()
        elif name == "croissant.json":
            for key in ("description", "rai:personalSensitiveInformation"):
                yield [*total, *warning], card.text(key)
            yield conditions, card.text("rai:dataLimitations")
        elif name == "datapackage.json":
            yield [*total, *warning], card.text("description")
        else:
            users = [] if c.declared_users is None else [str(c.declared_users)]
            made = [f"murmurlog {c.murmurlog}", str(c.sampler["entropy"])]
            made += [f"{table}: {claim.mechanism}" for table, claim in c.tables.items()]
            screened = ", ".join(c.text["screen"]) or "nothing"
            read = f"({c.text_rules}; urls: {c.text['url']}; screened for: {screened})"
            yield [*warning, *users, *made, read, f"({c.bound})", c.composition], card.text()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from (key, *_strings(each))
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str):
        yield value


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _whole(text: str) -> str:
    """A pattern that matches a text where it is not part of a longer number or word."""
    before = r"(?<![\w.,])" if text[:1].isalnum() else ""
    after = r"(?!\w|-\w|[.,]\d)" if text[-1:].isalnum() else ""
    return before + re.escape(text) + after


def _states(text: str, fact: str) -> bool:
    return re.search(_whole(fact), text) is not None
