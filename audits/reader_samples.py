"""Text logs of every format, drawn from the grammar and from its edges, for `reader_fuzz.py`."""

import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

WHOLE = 1 << 24  # a block that holds any small file
LONGEST = 2_000_000  # bytes of a record, as documented
LARGEST = 64 << 20  # bytes of a record that make a file be refused, as documented
SHORT = 60  # the same limits in some samples
SMALL = (30, 80, 200)
BLOCKS = (1, 2, 3, 5, 7, 13, 64, 256, WHOLE, WHOLE)
THREADS = (1, 2, 4)
BOM = "\ufeff"
UTF16 = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
PIECES = (
    "a", "b", "red shoes", "u1", "7", "", " ", "  x", "y ", ",", '"', '""', "\t", "\n", "\r", "\r\n",
    "\n\n", "\x00", "\x0b", "\x0c", "\x1a", "\x1c", "\x85", "\u2028", "'", "\\", '\\"', "\\n", "ä", "红楼",
    "\U0001f600", BOM, "\ufffe", "\xa0", "NULL", "null", "=1+1", "#", ";", "|", "{", "}", "[", "]",
    "a,b\nu2,c,d", 'x"\nu2,"y', "user", "query", "x" * 30, "e\u0301", "%", "-", "0",
)  # fmt: skip
MALFORMED = (
    'a"b', '"a"b', '"a" ', ' "a"', '"a""', '"a', '"', '"""', '"a"\r', '"a"\rb', 'a"', '"a"\t', '""a',
    '"\n', '"a\nb"c', '"a"\n"', 'a\r"b', '"a,b', "'a\"", '"\r\n', '""""" ', '"a\n\n\nb',
)  # fmt: skip
FIELDS = ("", "", "a", "b", '""', '"a"', '"\n"', '"\r\n"', '"a""b"', '""""', '","', "\r", "a\r", BOM, "\x00", '"\r"', "'", '",\n,"')  # fmt: skip
TOKENS = ("a", "b", ",", ",", "\n", "\n", '"a"', '""', "\r", "\r\n", '"', BOM, "\x00", '"\n"', ",\n")  # fmt: skip
NOISE = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\x81", b"\x81\x30", b"\x80", b"\xe7\xba")  # fmt: skip
UNITS = (0xD800, 0xDC00, 0xDBFF, 0xDFFF, 0xFEFF, 0xFFFE, 0x0A00, 0x2200)  # of UTF-16


@dataclass(frozen=True, kw_only=True)
class File:
    """A file before it is packed; `packing` is part of its name unless `named` is false."""

    name: str
    content: bytes
    packing: str = ""  # gz or zst; in parts, cut short or not at all, where a word follows
    named: bool = True

    @property
    def full_name(self) -> str:
        return (
            f"{self.name}.{self.packing.split()[0]}" if self.packing and self.named else self.name
        )

    @property
    def packed(self) -> bytes:
        """The bytes that are written."""
        how, _, fault = self.packing.partition(" ")
        packs: Mapping[str, Callable[[bytes], bytes]] = {
            "gz": gzipped, "zst": zstandard, "zip": partial(zipped, self.name)
        }  # fmt: skip
        pack = packs[how or "gz"]
        half = len(self.content) // 2
        if not how or fault == "not":
            return self.content
        if fault == "parts":
            return pack(self.content[:half]) + pack(self.content[half:])
        whole = pack(self.content)
        return whole[: len(whole) // 2] if fault == "cut" else whole


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1, mtime=0)


def zipped(name: str, content: bytes) -> bytes:
    """A .zip with the file and some that are no logs."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for member, inside in (
            (f"logs/{name}", content),
            ("__MACOSX/._x.csv", b""),
            ("README", b"a"),
        ):
            packed.writestr(zipfile.ZipInfo(member), inside)
    return made.getvalue()


def zstandard(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Files of one source, how they are read, and where pieces of them end."""

    kind: str
    files: tuple[File, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None
    shape: str | None = None
    delimiter: str | None = None
    format: str | None = None
    time_format: str | None = None
    missing: tuple[str, ...] = ()
    block: int = WHOLE
    longest: int = LONGEST
    largest: int = LARGEST
    threads: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """What the owner says of the files."""
        return {
            "columns": dict(self.columns), "encoding": self.encoding, "shape": self.shape,
            "delimiter": self.delimiter, "format": self.format, "missing": self.missing,
        }  # fmt: skip

    def __str__(self) -> str:
        files = ", ".join(f"{file.full_name!r}: {_cut(file)}" for file in self.files)
        said = {
            "columns": dict(self.columns) or None,
            "encoding": self.encoding,
            "shape": self.shape,
            "delimiter": self.delimiter,
            "format": self.format,
            "time_format": self.time_format,
            "missing": self.missing,
            "BLOCK": None if self.block == WHOLE else self.block,
            "LONGEST_RECORD": None if self.longest == LONGEST else self.longest,
            "MOST_HELD": None if self.largest == LARGEST else self.largest,
            "threads": None if self.threads == 1 else self.threads,
        }
        options = "".join(f", {name}={value!r}" for name, value in said.items() if value)
        return f"{{{files}}}{options}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of reading a sample: rows and what was broken, or that it was refused."""

    columns: tuple[str, ...] = ()
    rows: Counter[tuple[str | None, ...]] = field(default_factory=Counter)
    broken: Mapping[str, int] = field(default_factory=dict)
    refused: str | None = None
    line: int | None = None


def _cut(file: File) -> str:
    content = file.content
    shown = repr(content) if len(content) < 3000 else f"{content[:300]!r}... {len(content)} bytes"
    return shown + (f" ({file.packing})" if " " in file.packing else "")


@dataclass(frozen=True, kw_only=True)
class Written:
    """An encoding: what is said about it, the mark at the start, and the codec."""

    said: str | None
    mark: bytes
    codec: str


UTF8 = Written(said=None, mark=b"", codec="utf-8")
ENCODINGS = (
    *[UTF8] * 8,
    *[Written(said=None, mark=BOM.encode(), codec="utf-8")] * 2,
    Written(said="utf-8", mark=BOM.encode(), codec="utf-8"),
    Written(said="utf-8", mark=b"", codec="utf-8"),
    *(Written(said=None, mark=mark, codec=codec) for codec, mark in UTF16.items()),
    *(Written(said="utf-16", mark=mark, codec=codec) for codec, mark in UTF16.items()),
    *[Written(said="gb18030", mark=b"", codec="gb18030")] * 2,
    Written(said="gb18030", mark=BOM.encode(), codec="gb18030"),
    *(
        Written(said=codec, mark=b"", codec=codec)
        for codec in (
            "latin-1",
            "cp1252",
            "cp1251",
            "koi8-r",
            "shift_jis",
            "euc-jp",
            "euc-kr",
            "big5",
        )
    ),
    Written(said="latin-1", mark=BOM.encode(), codec="latin-1"),
)
RARE = (
    Written(said="utf-16", mark=b"", codec="utf-16-le"),
    Written(said=None, mark=BOM.encode() * 2, codec="utf-8"),
    Written(said="utf-8", mark=UTF16["utf-16-le"], codec="utf-16-le"),
    Written(said="utf-16", mark=UTF16["utf-16-le"] * 2, codec="utf-16-le"),
    Written(said="latin-1", mark=UTF16["utf-16-be"], codec="latin-1"),
    Written(said="utf-16", mark=b"", codec="utf-8"),
)


def text(choice: random.Random, without: str = "", most: int = 4) -> str:
    """A few pieces in a row, without some characters."""
    made = "".join(choice.choice(PIECES) for _ in range(choice.choice((0, 1, 1, 2, most))))
    for c in without:
        made = made.replace(c, "")
    return made


def encoded(choice: random.Random, content: str, written: Written, *, noise: bool = True) -> bytes:
    """The content with its mark, sometimes with a few bytes that are no text."""
    made = bytearray(content.encode(written.codec, "replace"))
    if noise and choice.random() < min(0.25, len(content) / 500):
        for _ in range(choice.randint(1, 3)):
            if written.codec in UTF16:
                at = late(choice, len(made) // 2) * 2
                order = "<H" if written.codec == "utf-16-le" else ">H"
                made[at:at] = struct.pack(order, choice.choice(UNITS))
            else:
                at = late(choice, len(made))
                made[at:at] = choice.choice(NOISE)
        if written.codec in UTF16 and choice.random() < 0.3:
            made += b"x"
    return written.mark + bytes(made)


def late(choice: random.Random, length: int) -> int:
    """A place that is more often behind the header than in it."""
    return max(choice.randint(0, length), choice.randint(0, length))


def ended(choice: random.Random, records: Sequence[str], ending: str = "") -> str:
    """Records with their ends, of one kind or mixed, the last one sometimes without."""
    ends = choice.choice((("\n",), ("\n",), ("\r\n",), ("\n", "\r\n"), ("\n", "\r\r\n", "\r\n")))
    if ending == "csv" and choice.random() < 0.9:
        ends = ends[:2]  # two carriage returns may not stand behind quotes
        ends = ("\n",) if "\r\r\n" in ends else ends
    made = "".join(record + choice.choice(ends) for record in records)
    how = choice.random()
    if how < 0.3:
        made = made.removesuffix("\n")
    return made.removesuffix("\r") if how < 0.2 else made


def between(choice: random.Random, records: list[str]) -> list[str]:
    """The records with empty ones and lone marks among them."""
    made = []
    for record in records:
        while choice.random() < 0.06:
            made.append(choice.choice(("", "", BOM, " ", "\r", BOM * 2)))
        made.append(record)
    return made


def header(choice: random.Random, *, quirks: bool) -> list[str]:
    """Names of columns, with a user and a query unless there are quirks."""
    user = choice.choice(("user", "user", "uid", "AnonID", "User ID"))
    query = choice.choice(("query", "query", "q", "Search"))
    names = [user, query, *choice.sample(("time", "url", "rank", "extra", "Click URL", "ü"), choice.randint(0, 3))]  # fmt: skip
    choice.shuffle(names)
    if quirks:
        at = choice.randrange(len(names))
        odd = choice.choice(
            (f" {names[at]} ", names[at].upper(), "", "\xa0", f"{names[at]}\u3000", "a,b", "a\nb",
             'a"b', names[0], names[-1].swapcase(), "Query", "USER", BOM + names[at], "k0", "x" * 40,
             "none", "fault", "user", "a\rb", "'", "raw.user")
        )  # fmt: skip
        if choice.random() < 0.5:
            names[at] = odd
        else:
            names.insert(at, odd)
    return names


def mapped(choice: random.Random, names: Sequence[str]) -> dict[str, str]:
    """Columns that are named for some roles, now and then one that is not there."""
    if choice.random() < 0.8:
        return {}
    asked = {}
    for role in choice.sample(("user", "query", "time", "url", "rank"), choice.randint(1, 3)):
        asked[role] = choice.choice([*list(names) * 5, "none", "missing"]).strip()
    return asked if usable(asked) else {}


def usable(asked: Mapping[str, str]) -> bool:
    """Whether --columns is not refused as usage: names for a user and a query, one role a column."""
    named = [name for name in asked.values() if name != "none"]
    needed = "none" not in (asked.get("user"), asked.get("query"))
    return needed and "" not in named and len(set(named)) == len(named)


def rows(choice: random.Random, width: int, without: str) -> list[list[str]]:
    """Fields of records, most of them as many as the header has."""
    made = []
    for _ in range(choice.choice((0, 1, 2, 3, 5, 8))):
        n = width if choice.random() < 0.9 else max(1, width + choice.choice((-2, -1, 1, 2)))
        made.append([text(choice, without) for _ in range(n)])
    return made


def quoted(choice: random.Random, value: str, always: float) -> str:
    """A field of CSV as RFC 4180 has it."""
    if any(c in value for c in '",\n') or value.endswith("\r") or choice.random() < always:
        return '"' + value.replace('"', '""') + '"'
    return value


def csv_records(choice: random.Random, names: list[str], *, malformed: float) -> list[str]:
    always = choice.choice((0.0, 0.2, 1.0))
    lines = [[quoted(choice, name, always) for name in names]]
    for row in rows(choice, len(names), ""):
        lines.append([
            choice.choice(MALFORMED) if choice.random() < malformed else quoted(choice, value, always)
            for value in row
        ])  # fmt: skip
    first, *rest = [",".join(line) for line in lines]
    return [first, *between(choice, rest)]


def csv_sample(choice: random.Random) -> Sample:
    """CSV in the grammar, but for what is in the bytes."""
    return _table(choice, "csv", lambda names: csv_records(choice, names, malformed=0.0))


def csv_quotes(choice: random.Random) -> Sample:
    """CSV with quotes that are not in the grammar."""
    rate = choice.choice((0.02, 0.1, 0.5))
    return _table(choice, "csv", lambda names: csv_records(choice, names, malformed=rate))


def csv_soup(choice: random.Random) -> Sample:
    """A header of CSV and characters that matter, in any order."""

    def made(names: list[str]) -> list[str]:
        if choice.random() < 0.7:
            width = choice.choice((len(names), len(names), 2))
            soup = "\n".join(
                ",".join(choice.choice(FIELDS) for _ in range(width + choice.choice((0, 0, 0, 1))))
                for _ in range(choice.randint(0, 8))
            )
        else:
            some = choice.sample(TOKENS, choice.randint(3, 9))
            soup = "".join(choice.choice(some) for _ in range(choice.randint(0, 16)))
        return [",".join(quoted(choice, name, 0.1) for name in names), soup]

    return _table(choice, "csv", made)


def csv_long(choice: random.Random) -> Sample:
    """Some kilobytes of sound CSV, most of it in quotes, with line feeds and commas inside."""
    pieces = ("a", "b c", ",", "\n", '"', "\nu9,b\n", ',"', '",', "7", "")
    lines = ["user,query,extra"]
    for n in range(choice.randint(10, 60)):
        values = ["".join(choice.choices(pieces, k=choice.randint(0, 6))) for _ in range(2)]
        always = choice.choice((0.0, 1.0))
        lines.append(",".join([f"u{n}", *(quoted(choice, value, always) for value in values)]))
    content = "\n".join(lines).encode() + b"\n"
    sample = Sample(kind="", files=(File(name="a.csv", content=content),))
    block = choice.choice((64, 100, 256, 1000, WHOLE))  # each record of a block of 1 takes its time
    return replace(settled(choice, sample), longest=LONGEST, largest=LARGEST, block=block)


def tsv_sample(choice: random.Random) -> Sample:
    """Fields between tabs; nothing quotes."""

    def made(names: list[str]) -> list[str]:
        first = "\t".join(name.replace("\n", "").replace("\t", "") for name in names)
        rest = ["\t".join(row) for row in rows(choice, len(names), "\t\n")]
        return [first, *between(choice, rest)]

    return _table(choice, choice.choice(("tsv", "tsv", "tab")), made)


def tsv_soup(choice: random.Random) -> Sample:
    def made(names: list[str]) -> list[str]:
        letters = choice.choice(("a\t\n", "a\t\r\n", '"\t\n', "a\t\t\n\n\r\ufeff\x00"))
        soup = "".join(choice.choice(letters) for _ in range(choice.randint(0, 30)))
        return ["\t".join(name.replace("\t", "").replace("\n", "") for name in names), soup]

    return _table(choice, "tsv", made)


def _table(choice: random.Random, ending: str, records: Callable[[list[str]], list[str]]) -> Sample:
    """A sample of CSV or TSV: one file, or several with the same header."""
    names = header(choice, quirks=choice.random() < 0.12)
    written = encoding(choice)
    files = tuple(
        file(
            choice,
            f"{letter}.{ending}",
            encoded(choice, ended(choice, records(names), ending), written),
        )
        for letter in letters(choice)
    )
    return settled(choice, Sample(
        kind="", files=files, columns=mapped(choice, names), encoding=written.said
    ))  # fmt: skip


def encoding(choice: random.Random) -> Written:
    return choice.choice(RARE) if choice.random() < 0.02 else choice.choice(ENCODINGS)


def letters(choice: random.Random) -> str:
    return choice.choice(("ab", "abc")) if choice.random() < 0.06 else "a"


def file(choice: random.Random, name: str, content: bytes) -> File:
    """The file, packed now and then, rarely not as its name says."""
    how = choice.random()
    if how < 0.75:
        return File(name=name, content=content)
    packing = choice.choice(("gz", "zst", "zip"))
    if how < 0.95:
        return File(name=name, content=content, packing=packing)
    fault = choice.choice(("cut", "not", "") if packing == "zip" else ("parts", "cut", "not", ""))
    return File(name=name, content=content, packing=f"{packing} {fault}".strip(), named=bool(fault))


def settled(choice: random.Random, sample: Sample) -> Sample:
    """The sample with a size of blocks, a limit for records, and a number of threads."""
    return replace(
        sample,
        block=choice.choice(BLOCKS),
        longest=SHORT if choice.random() < 0.12 else LONGEST,
        largest=choice.choice(SMALL) if choice.random() < 0.04 else LARGEST,
        threads=choice.choice(THREADS),
    )


def aol_sample(choice: random.Random) -> Sample:
    names = choice.choice((
        ("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL"),
        ("anonid", "query", "querytime", "itemrank", "clickurl"),
    ))  # fmt: skip
    first = "\t".join(names)
    shape = choice.choice((None, None, "aol"))
    headed = shape is None or choice.random() < 0.7

    def content() -> str:
        lines = []
        for _ in range(choice.choice((0, 1, 3, 6))):
            if choice.random() < 0.08:
                again = (
                    first,
                    first,
                    BOM + first,
                    first.lower(),
                    f" {first} ",
                    first + "\t",
                    first[:-1],
                )
                lines.append(choice.choice(again))
            n = choice.choice((3, 5, 5, 5, 4, 2, 6))
            lines.append("\t".join(text(choice, "\t\n") for _ in range(n)))
        return ended(choice, [*([first] if headed else []), *between(choice, lines)])

    return _shaped(choice, shape, content, choice.choice(("a", "a.txt", "a.log")))


def sogou_sample(choice: random.Random) -> Sample:
    def line() -> str:
        rank = choice.choice(("1 2", "3", "1\t2", "", "1  2", "8 3 9", " 3", text(choice, "\t\n")))
        query = choice.choice(("[{}]", "{}", "[{}", "[[{}]]")).format(text(choice, "\t\n{}"))
        parts = ["00:00:05", f"u{choice.randint(1, 3)}", query, rank, "a.example/x"]
        if choice.random() < 0.1:
            parts = parts[: choice.randint(1, 5)] + ["x"] * choice.choice((0, 0, 2))
        return "\t".join(parts)

    def content() -> str:
        lines = [line() for _ in range(choice.choice((0, 1, 3, 6)))]
        if choice.random() < 0.2:
            names = ("time", "user", "query", "rank", "order", "url")
            lines.insert(0, choice.choice(("\t", "\t", " ")).join(names))
        return ended(choice, between(choice, lines))

    return _shaped(choice, "sogou", content, choice.choice(("a", "a.tsv", "a.20080601.txt")))


def excite_sample(choice: random.Random) -> Sample:
    # Only the first of each kind, in this order, is a header; all others are rows.
    names = [choice.choice(some) for some in (("user", "User", "uid"), ("time", "ts"), ("query", "q"))]  # fmt: skip
    if choice.random() < 0.3:
        choice.shuffle(names)
    first = "\t".join(names) if choice.random() < 0.9 else "\t".join(names[:2])

    def content() -> str:
        lines = [first] if choice.random() < 0.4 else []
        for _ in range(choice.choice((0, 1, 3, 6))):
            if choice.random() < 0.08:
                lines.append(choice.choice((first, first, BOM + first, f"{first} ", first.upper())))
            n = choice.choice((3, 3, 3, 3, 3, 2, 4))
            lines.append("\t".join(text(choice, "\t\n") for _ in range(n)))
        return ended(choice, between(choice, lines))

    return _shaped(choice, "excite", content, choice.choice(("a", "a.tsv", "a.log")))


def _shaped(
    choice: random.Random, shape: str | None, content: Callable[[], str], name: str
) -> Sample:
    written = encoding(choice)
    if shape == "sogou" and written.said is None and not written.mark:
        written = Written(said=None, mark=b"", codec="gb18030")
    made = encoded(choice, content(), written)
    return settled(choice, Sample(
        kind="", files=(file(choice, name, made),), encoding=written.said, shape=shape
    ))  # fmt: skip


KEYS = (
    "user",
    "query",
    "url",
    "q.x",
    "a/b",
    "~t",
    "0",
    "ü",
    "$.user",
    "*",
    "a b",
    'k"',
    "time",
    "1",
)
VALUES = (
    "0", "-1", "1.5", "12345678901234567890123", "1e3", "true", "false", "null", "[]", "{}", "[1,2]",
    '{"user":"x"}', '[{"a": [1, "b"]}, null]', '"\\u0041"', '"\\ud83d\\ude00"', '"\\/"', '"\\u0000"',
    '""', '" "', '{"a" : 1 , "a":2}', '"\\t"', '"\\b\\f\\n\\r\\t"', "-0", "0.5", "-2.5",
)  # fmt: skip
NOT_JSON = (
    "", "{", "}", '{"user"}', '{"user":}', "{'user':1}", '{"user":"a"}}', '{"user":"a"} {}', "tru",
    '{"user":"\\ud800"}', '{"user":"\\x"}', '{"user":01}', '{"user":.5}', '{"user":"a\tb"}', "[1", "nul",
    '{"user":"a"', '"', "\x00", '{"user":+1}', "//", '{"user":"a",,"query":1}', "{}\x0b", "\xa0{}",
    '{"user":+NaN}', "[,]", '{"user":1,,}', "infin", '{"user":1.}', '{"user":0x1}', '{user:1}', '{"user":1e}', '{"user":"\\u12"}', "\x1c", "-", BOM + "{}",
)  # fmt: skip
OTHER_JSON = (
    '{"user":NaN}',
    '{"query":-Infinity,}',
    "[1,]",
    '{"user":{"a":[1, ],},}',
    '{"user":"a" , }',
    "nan",
    "5",
    '"x"',
    "[]",
    '["p","q"]',
    "null",
    "true",
    "{}",
    " {} ",
    "\t{}\t",
    "-0.5e-3",
    "[[]]",
)


def json_line(choice: random.Random, names: Sequence[str]) -> str:
    """An object with members that are asked for and others, with white space and escapes."""
    how = choice.random()
    if how < 0.06:
        return choice.choice(NOT_JSON)
    if how < 0.10:
        return choice.choice(OTHER_JSON)
    if how < 0.13:
        return choice.choice((" ", "\t \r", "\x0b", "\xa0", BOM))
    members = []
    for name in names:
        if choice.random() < 0.85:
            members.append((name, _value(choice)))
    if choice.random() < 0.2:
        members.append((choice.choice((*names, "other")), _value(choice)))
    if choice.random() < 0.3:
        choice.shuffle(members)
    space = choice.choice(("", "", " ", "\t", " \r"))
    inside = f"{space},{space}".join(
        f"{json.dumps(name, ensure_ascii=choice.random() < 0.5)}{space}:{space}{value}"
        for name, value in members
    )
    made = f"{space}{{{space}{inside}{space}}}"
    if choice.random() < 0.04:
        at = choice.randrange(len(made))
        made = made[:at] + choice.choice(("", '"', "\\", ",", "{", "\x00", "]")) + made[at + 1 :]
    return made.replace("\n", "")


def _value(choice: random.Random) -> str:
    if choice.random() < 0.6:
        return json.dumps(text(choice), ensure_ascii=choice.random() < 0.5)
    return choice.choice(VALUES)


def jsonl_sample(choice: random.Random) -> Sample:
    names = choice.sample(KEYS, choice.randint(2, 4))
    roles = ["user", "query", *choice.sample(("time", "url", "rank"), len(names) - 2)]
    columns = dict(zip(roles, names, strict=True))
    written = encoding(choice)
    ending = choice.choice(("jsonl", "jsonl", "ndjson"))
    files = tuple(
        file(choice, f"{letter}.{ending}", encoded(choice, ended(choice, between(choice, [
            json_line(choice, names) for _ in range(choice.choice((0, 1, 2, 4, 8)))
        ])), written))
        for letter in letters(choice)
    )  # fmt: skip
    return settled(choice, Sample(kind="", files=files, columns=columns, encoding=written.said))


DELIMITERS = ";|\t ~^:\x01,"


def delimited_sample(choice: random.Random) -> Sample:
    """Fields between any delimiter, quoted as in CSV, in files of any name."""
    delimiter = choice.choice(DELIMITERS)
    rate = choice.choice((0.0, 0.0, 0.05))
    ending = choice.choice(("csv", "tsv", "txt", "log"))

    def swapped(text: str) -> str:
        return text.translate({ord(","): delimiter, ord(delimiter): ","})

    made = _table(
        choice,
        ending,
        lambda names: [swapped(each) for each in csv_records(choice, names, malformed=rate)],
    )
    columns = {role: swapped(name).strip() for role, name in made.columns.items()}
    said = choice.choice((None, None, "csv", "tsv"))
    missing = choice.choice(((), (), ("-",), ("NULL", "u1", "'")))
    return replace(
        made, columns=columns if usable(columns) else {}, delimiter=delimiter, format=said,
        missing=missing,
    )  # fmt: skip


def json_sample(choice: random.Random) -> Sample:
    """An array, with white space and line ends anywhere, now and then damaged."""
    made = jsonl_sample(choice)
    names = list(made.columns.values())
    written = encoding(choice)

    def content() -> str:
        lines = [json_line(choice, names) for _ in range(choice.choice((0, 1, 2, 4, 8)))]
        if choice.random() < 0.9:
            lines = [line for line in lines if line not in NOT_JSON]
        gap = choice.choice((",", ",\n", ",\r\n  ", " , ", "\n,"))
        text = gap.join(line.replace(",", choice.choice((",", ",\n")), 1) for line in lines)
        start, end = choice.choice((("[", "]"), ("[", "]\n"), ("\n[\n", "\n]\r\n"), (" [", ",]")))
        text = start + text + end
        how = choice.random()
        if how < 0.03:
            return text[: choice.randrange(len(text))]
        return text + choice.choice(("x", "[]", "{}")) if how < 0.05 else text

    name = choice.choice(("a.json", "a.json", "a.txt"))
    made = replace(
        made, files=(file(choice, name, encoded(choice, content(), written)),),
        encoding=written.said, format="json" if name == "a.txt" else None,
    )  # fmt: skip
    return replace(made, largest=LARGEST)


TIME_FORMATS = (
    "%d.%m.%Y %H:%M", "%m/%d/%y %I:%M %p", "%Y%m%d%H%M%S", "%d/%b/%Y:%H:%M:%S %z", "%Y-%m-%d %H:%M:%S.%f",
    "%d %b, %Y", "%Y年%m月%d日 %H:%M", "%H:%M %d%m%y", "100%% %Y-%m-%dT%H%z", "%y1%m-%d", "%M:%S %Y.%m.%d",
)  # fmt: skip


def times_sample(choice: random.Random) -> Sample:
    """Times in the owner's format, most of them valid, some with one character changed."""
    form = choice.choice(TIME_FORMATS)
    lines = ["user,query,time"]
    for n in range(choice.randint(1, 12)):
        moment = datetime(
            choice.choice((1, 68, 1968, 1969, 2000, 2024, 2025, 9999)), choice.randint(1, 12),
            choice.randint(1, 28), choice.randint(0, 23), choice.randint(0, 59), choice.randint(0, 59),
            choice.choice((0, 5, 120_000, 999_999)),
        )  # fmt: skip
        zone = choice.choice(("+0000", "-05:30", "+14:00", "+1500", "Z", "+02"))
        text = moment.strftime(form.replace("%z", zone).replace("%Y", f"{moment.year:04}"))
        if choice.random() < 0.3:  # numbers without zeros in front
            text = re.sub(r"\b0(\d)", r"\1", text)
        if choice.random() < 0.4:
            at = choice.randrange(len(text) + 1)
            more = choice.choice(("", "0", "1", "3", "9", " ", "\t", "a", "٣", "-", ":", "\u00a0"))
            text = text[:at] + more + text[at + choice.choice((0, 1)) :]
        lines.append(
            f"u{n},q,{quoted(choice, choice.choice((text, text, text.upper(), f' {text}')), 0.1)}"
        )
    content = ("\n".join(lines) + "\n").encode()
    sample = Sample(kind="", files=(File(name="a.csv", content=content),), time_format=form)
    return replace(settled(choice, sample), longest=LONGEST, largest=LARGEST, block=WHOLE)


KINDS: Mapping[str, Callable[[random.Random], Sample]] = {
    "csv": csv_sample,
    "csv quotes": csv_quotes,
    "csv soup": csv_soup,
    "csv long": csv_long,
    "tsv": tsv_sample,
    "tsv soup": tsv_soup,
    "jsonl": jsonl_sample,
    "aol": aol_sample,
    "sogou": sogou_sample,
    "excite": excite_sample,
    "delimited": delimited_sample,
    "json": json_sample,
    "times": times_sample,
}


def draw(seed: int, number: int, kinds: Sequence[str]) -> Sample:
    """Sample `number` of a seed; the same every time."""
    choice = random.Random(f"{seed} {number}")
    kind = choice.choice(kinds)
    # It takes a while to change the number of threads.
    return replace(KINDS[kind](choice), kind=kind, threads=THREADS[number // 160 % 3])


def large(seed: int, number: int) -> Sample:
    """A file in which what matters stands across 8, 16 or 32 MB, in blocks of the usual size."""
    choice = random.Random(f"{seed} large {number}")
    ending = ("csv", "tsv", "jsonl")[number % 3]
    border = (8, 16, 32)[number // 3 % 3] << 20
    across = (
        choice.choice(('"a\nu9,b"', '"a""b"', '"a\r\nb"', "红红红")) if ending == "csv" else "红红"
    )
    first = {"csv": "user,query\n", "tsv": "user\tquery\n", "jsonl": ""}[ending]
    made, size, n = [first.encode()], len(first), 0
    line = {"csv": "u{},{}\n", "tsv": "u{}\t{}\n", "jsonl": '{{"user":"u{}","query":"{}"}}\n'}[
        ending
    ]
    while size < border + (1 << 20):
        n += 1
        room = border - size
        filler = "x" * choice.choice((700_000, 300_000, 3000))
        if 0 < room < 800_000:  # the record across the border, by some byte of what is special
            filler = "y" * max(1, room - 9 - choice.randint(0, 12)) if room > 40 else "z"
            if ending == "csv":
                filler = f'"{filler}{across[1:]}' if across[0] == '"' else filler + across
            else:
                filler += across
        made.append(line.format(n, filler).encode())
        size += len(made[-1])
    columns = {"user": "user", "query": "query"} if ending == "jsonl" else {}
    return Sample(
        kind="large", files=(File(name=f"a.{ending}", content=b"".join(made)),), columns=columns,
        threads=choice.choice(THREADS),
    )  # fmt: skip
