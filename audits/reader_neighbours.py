"""Pairs of logs that differ in the records of one user, for `reader_fuzz.py`.

The records of the added user are written as the format wants them, at ends of other records, and hold
whatever breaks a reader that does not keep to its grammar. No row of anybody else may change.
"""

import json
import random
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from reader_samples import (
    BLOCKS,
    ENCODINGS,
    LONGEST,
    NOISE,
    NOT_JSON,
    OTHER_JSON,
    SHORT,
    THREADS,
    UNITS,
    UTF16,
    File,
    Sample,
    Written,
    quoted,
    text,
)

ADDED = "added"
TABLE = ("user", "time", "query", "url", "rank", "country")
COLUMNS = {
    "csv": TABLE,
    "tsv": TABLE,
    "jsonl": TABLE,
    "json": TABLE,
    "pipes": TABLE,
    "parquet": TABLE,
    "postgresql": TABLE,
    "aol": ("user", "query", "time", "rank", "url"),
    "sogou": ("time", "user", "query", "rank", "url"),
    "excite": ("user", "time", "query"),
}
FORMS = tuple(form for form in COLUMNS if form != "postgresql")
HEADERS = {
    "csv": ",".join(TABLE),
    "tsv": "\t".join(TABLE),
    "pipes": "|".join(TABLE),
    "aol": "AnonID\tQuery\tQueryTime\tItemRank\tClickURL",
}
TIMES = {
    "sogou": ("00:00:05", "20111230000005", "2008-06-01 00:00:05"),
    "excite": ("970916105432", "990101000000"),
}
KEYS = {"user": "uid", "time": "ts", "query": "q", "url": "link", "rank": "pos"}  # of JSON
SCREENED = ("anna@example.org", "4111 1111 1111 1111", "call +49 30 1234567", "10.0.0.1")
URLS = ("http://www.a.example/x?y=1#z", "b.example", "", "https://c.example:443/", "doc 7")
Record = tuple[str | None, ...] | bytes


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the log is read."""

    url: str = "path"
    keep: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    screen: bool = False


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Records of some users, and records of one more with their places among them."""

    form: str
    base: tuple[Record, ...]
    added: tuple[tuple[int, Record], ...]
    written: Written
    packing: str
    last_end: bool
    options: Options
    block: int
    longest: int
    threads: int

    def records(self, *, added: bool) -> list[Record]:
        """The records in their order, with those of the added user or without."""
        made: list[Record] = []
        for place in range(len(self.base) + 1):
            if added:
                made += [record for at, record in self.added if min(at, len(self.base)) == place]
            made += self.base[place : place + 1]
        return made

    def sample(self, *, added: bool) -> Sample:
        """The text file with these records."""
        end = encoded("\n", self.written)
        head = [encoded(HEADERS[self.form], self.written)] if self.form in HEADERS else []
        lines = [line for line in self.records(added=added) if isinstance(line, bytes)]
        content = end.join([*head, *lines]) + (end if self.last_end else b"")
        if self.form == "json":
            between, start, stop = (encoded(text, self.written) for text in (",\n", "[", "]"))
            content = start + between.join(lines) + stop
        content = self.written.mark + content
        shaped = self.form in ("aol", "sogou", "excite")
        name = "log.txt" if shaped or self.form == "pipes" else f"log.{self.form}"
        return Sample(
            kind=self.form,
            files=(File(name=name, content=content, packing=self.packing),),
            columns=KEYS if self.form in ("jsonl", "json") else {},
            delimiter="|" if self.form == "pipes" else None,
            encoding=self.written.said,
            shape=self.form if shaped else None,
            block=self.block,
            longest=self.longest,
            threads=self.threads,
        )

    def table(self, *, added: bool) -> pa.Table:
        """The same rows as a table."""
        rows = [row for row in self.records(added=added) if isinstance(row, tuple)]
        columns = zip(*rows, strict=True) if rows else [()] * len(TABLE)
        arrays = [pa.array(values, pa.string()) for values in columns]
        return pa.table(arrays, names=list(TABLE))

    def __str__(self) -> str:
        if self.form in ("parquet", "postgresql"):
            return f"{self.form} {self.base} with {self.added}, {self.options}"
        return f"{self.sample(added=False)} with {self.added} added, {self.options}"


def encoded(content: str, written: Written) -> bytes:
    return content.encode(written.codec, "replace")


def pair(seed: int, number: int, forms: tuple[str, ...]) -> Pair:
    """Pair `number` of a seed; the same every time."""
    choice = random.Random(f"{seed} pair {number}")
    form = forms[number % len(forms)]
    written = choice.choice(ENCODINGS)
    if form == "sogou" and written.said is None and not written.mark:
        written = Written(said=None, mark=b"", codec="gb18030")
    base = [_record(choice, form, _row(choice, form), written) for _ in range(choice.randint(1, 6))]
    added = []
    for _ in range(choice.choice((1, 1, 2, 5, 12))):
        place = choice.randint(0, len(base))
        added.append((place, _hostile(choice, form, written)))
    return Pair(
        form=form, base=tuple(base), added=tuple(added), written=written,
        packing=choice.choice(("", "", "", "gz", "zst")), last_end=choice.random() < 0.7,
        options=_options(choice, form), block=choice.choice(BLOCKS),
        longest=SHORT if choice.random() < 0.1 else LONGEST, threads=choice.choice(THREADS),
    )  # fmt: skip


def _options(choice: random.Random, form: str) -> Options:
    keeps = form in ("csv", "tsv", "parquet", "postgresql") and choice.random() < 0.4
    filters = form in ("csv", "tsv", "parquet", "postgresql") and choice.random() < 0.3
    return Options(
        url=choice.choice(("path", "host", "full", "id")),
        keep=("country",) if keeps else (),
        where={"country": choice.choice(("de", "fr"))} if filters else {},
        screen=choice.random() < 0.2,
    )


def _row(choice: random.Random, form: str) -> dict[str, str]:
    """What somebody else did: a user, a query and a time that can be read."""
    times = TIMES.get(form, ("2026-01-31 18:00:00", "2026-01-31T18:00:00+01:00", "1769882400"))
    row = {
        "user": f"u{choice.randint(1, 4)}",
        "time": choice.choice(times),
        "query": f"q{choice.randint(1, 9)} {text(choice)}",
        "url": choice.choice(URLS),
        "rank": choice.choice(("1 2", "12 1") if form == "sogou" else ("1", "", "12")),
        "country": choice.choice(("de", "fr", "")),
    }
    return row | ({"query": choice.choice(SCREENED)} if choice.random() < 0.1 else {})


def _hostile_row(choice: random.Random, form: str) -> dict[str, str]:
    row = _row(choice, form) | {"user": ADDED}
    for name in choice.sample(("time", "query", "url", "rank", "country"), choice.randint(1, 5)):
        row[name] = text(choice, most=12)
        if choice.random() < 0.05:
            row[name] += choice.choice(("\x00", "x", "\u0301", "\n", '"')) * 100
    return row


def _record(choice: random.Random, form: str, row: Mapping[str, str], written: Written) -> Record:
    """A row as the format writes it."""
    values = [row[name] for name in COLUMNS[form]]
    if form in ("parquet", "postgresql"):
        return tuple((value.replace("\x00", "") or None) for value in values)
    if form in ("csv", "pipes"):
        cut = "," if form == "csv" else "|"
        always = [1.0 if cut in value else 0.2 for value in values]
        fields = [quoted(choice, *each) for each in zip(values, always, strict=True)]
        return encoded(cut.join(fields), written)
    if form in ("jsonl", "json"):
        members = {KEYS.get(name, name): value for name, value in row.items()}
        return encoded(json.dumps(members, ensure_ascii=choice.random() < 0.5), written)
    return encoded("\t".join(re.sub("[\t\n]", "", value) for value in values), written)


def _hostile(choice: random.Random, form: str, written: Written) -> Record:
    """A record of the added user, or one that is broken by itself."""
    row = _hostile_row(choice, form)
    made = _record(choice, form, row, written)
    how = choice.random()
    if isinstance(made, tuple) or how < 0.6:
        return made
    if how < 0.75 and form != "json":  # a byte that is no text may hide a bracket of an array
        return _with_noise(choice, made, written)
    if form == "json":
        return encoded(choice.choice(OTHER_JSON), written)
    if form == "jsonl":
        if how < 0.85:
            members = {KEYS.get(name, name): value for name, value in row.items()}
            more: dict[str, Any] = {"user": "u1", "AnonID": "u2", "query": "x", "Q": 1, "rank": {}}
            return encoded(json.dumps(members | more), written)
        line = choice.choice(NOT_JSON + OTHER_JSON)
        return encoded(line, written)
    cut = {"csv": ",", "pipes": "|"}.get(form, "\t")
    first = "00:00:05\t" if form == "sogou" else ""
    fields = [re.sub('[\t\n,|"]', "", text(choice)) for _ in range(choice.randint(0, 9))]
    return encoded(first + cut.join([ADDED, *fields]), written)


def _with_noise(choice: random.Random, record: bytes, written: Written) -> bytes:
    """The record with bytes that are no text, in the user's name or behind it.

    None of them ends a record. In CSV they stay out of the fields that may be quoted.
    """
    made = bytearray(record)
    width = 2 if written.codec in UTF16 else 1
    start = record.index(encoded(ADDED, written))
    at = start + 2 * width
    if b'"' not in record and choice.random() < 0.7:
        at = start + len(ADDED) * width
        at += choice.randrange((len(made) - at) // width + 1) * width
    order = "<H" if written.codec == "utf-16-le" else ">H"
    noise = struct.pack(order, choice.choice(UNITS[:4])) if width == 2 else choice.choice(NOISE)
    made[at:at] = noise
    return bytes(made)


def is_added(user: str | None) -> bool:
    """Whether a row is the added user's, whose name may have noise in it."""
    return user is not None and user.startswith(ADDED[:2])
