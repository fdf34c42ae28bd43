"""Dialect, shape, encoding and compression of text files, decided before a row is read (A8).

They follow from the file's name, the owner's options or the header, never from rows, which belong to
users. The shapes of three well-known logs are in docs/reference/shapes.md. `guess` does read rows: it
is for the owner, who then gives the answer as `--shape`. Independent of engines, but writes SQL.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.errors import InputError
from murmurlog.logs.records import ARRAY, COMMAS, LINES, TABS, Dialect, first_fields
from murmurlog.logs.zip_files import UNREADABLE, member_of, open_member

LOOKED_AT = 1 << 16  # bytes, after decompression
BLOCK = 1 << 24
MOST_TIMES = 200  # a file may decompress to this many times its size; logs reach about ten
LITTLE = 1 << 26  # bytes that any file may decompress to
SHAPES = ("aol", "sogou", "excite")
DIALECTS: Mapping[str, Dialect] = {"csv": COMMAS, "tsv": TABS, "jsonl": LINES, "json": ARRAY}
NO_DAY = "1970-01-01"  # of a time without a date, in a file whose name has none
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_BINARY = (b"PAR1", b"PK\x03\x04")
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DAY_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")

_CLOCK = r"(?:[01]\d|2[0-3])[0-5]\d[0-5]\d"
_SHORT_TIME = r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])" + _CLOCK
_EXCITE = re.compile(r"[^\t]+\t" + _SHORT_TIME + r"\t[^\t]*")
_SOGOU = re.compile(
    r"(?:\d\d?:\d\d:\d\d|(?:19|20)\d{6}" + _CLOCK + r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
    r"\t[^\t]+\t[^\t]*\t\d+[ \t]\d+\t[^\t]*"
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How records become columns: names, and how many fields a record may have."""

    name: str
    columns: tuple[str, ...]
    least: int
    most: int

    @property
    def well_known(self) -> bool:
        """Whether this is the shape of a well-known log. Such files may begin with a header and may have been
        concatenated: a record that holds the names of the columns, ignoring case, is not a row."""
        return self.name in SHAPES


def plain_shape(format: str, columns: Sequence[str]) -> Shape:
    """The shape of any .csv or .tsv: a header and as many fields in each record."""
    return Shape(name=format, columns=tuple(columns), least=len(columns), most=len(columns))


# The order of columns is fixed, whatever the first record holds: without a header it is a row.
WELL_KNOWN: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(
            name="aol",
            columns=("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL"),
            least=3,
            most=5,
        ),
        Shape(
            name="sogou",
            columns=("time", "user", "query", "rank", "order", "url"),
            least=5,
            most=6,
        ),
        Shape(name="excite", columns=("user", "time", "query"), least=3, most=3),
    )
}


def is_aol(record: Sequence[str]) -> bool:
    """Whether a record is the header of AOL's log."""
    names = WELL_KNOWN["aol"].columns
    return [name.encode().lower() for name in record] == [name.encode().lower() for name in names]


def first_lines(file: Path, compression: str | None) -> list[str] | None:
    """The lines of the first 64 kB that are not empty; None if it is not text.

    Nothing that is published may depend on them: they may be rows of users.
    """
    try:
        start = next(pieces(file, compression, block=LOOKED_AT), b"")
        encoding = encoding_of(file, compression, None)
    except InputError:
        return None
    if start.startswith(_BINARY):
        return None
    text = start.decode(encoding, "replace").removeprefix("\ufeff")
    whole = text[: text.rfind("\n") + 1] or text
    return [line for line in (line.rstrip("\r") for line in whole.split("\n")) if line]


def guess(file: Path, compression: str | None) -> dict[str, str]:
    """`shape` and `encoding` that most of the first lines suggest, if any."""
    lines = first_lines(file, compression)
    if not lines or is_aol(lines[0].split("\t")):
        return {}
    if _most(lines, _SOGOU):
        foreign = [line for line in lines if not line.isascii()]
        readable = 2 * sum("\ufffd" not in line for line in foreign) >= len(foreign)
        encoding = encoding_of(file, compression, None)
        return {"shape": "sogou"} | ({"encoding": encoding} if readable else {})
    return {"shape": "excite"} if _most(lines, _EXCITE) else {}


def _most(lines: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return 2 * sum(bool(pattern.fullmatch(line)) for line in lines) > len(lines)


def check_compression(file: Path, compression: str | None) -> None:
    """Raises unless the file is compressed as its name says."""
    try:
        with file.open("rb") as raw:
            start = raw.read(4)
    except OSError:
        raise InputError(
            f"{file.name} cannot be read: check that it exists and is readable"
        ) from None
    actual = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if actual != compression:
        mismatch = (
            f"is compressed with {actual}, which its name does not say"
            if actual
            else f"is not compressed with {compression}, although its name says so"
        )
        raise InputError(
            f"{file.name} {mismatch}: name compressed files .gz (gzip), "
            ".zst (Zstandard) or .zip, and no others"
        )


def encoding_of(file: Path, compression: str | None, shape: str | None) -> str:
    """What a byte order mark at the start says; else GB18030 for Sogou and UTF-8 for all others."""
    start = next(pieces(file, compression, block=4), b"")
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    return "gb18030" if shape == "sogou" else "utf-8"


def first_record(
    file: Path, compression: str | None, dialect: Dialect, encoding: str
) -> tuple[str, ...] | None:
    """The fields of the first record of a file; None if it is too long, not text, or missing."""
    start = pieces(file, compression, block=LOOKED_AT)
    return first_fields(start, dialect, encoding=encoding, name=file.name)


def pieces(
    file: Path,
    compression: str | None,
    *,
    block: int | None = None,
    read: Callable[[int], None] = lambda _: None,
) -> Iterator[bytes]:
    """The bytes of a file, decompressed; raises if there are far more than its size suggests.

    `read` is called with the number of bytes of the file itself that each piece took.
    """
    try:
        most, size = MOST_TIMES * file.stat().st_size + LITTLE, 0
        with pa.OSFile(str(file)) as packed, _open(packed, file, compression) as stream:
            at = 0
            while piece := stream.read(block or BLOCK):
                size += len(piece)
                read(packed.tell() - at)
                at = packed.tell()
                if compression and size > most:
                    raise InputError(
                        f"{file.name} unpacks to more than {MOST_TIMES} times its size, which no "
                        "log does. Decompress it yourself if you trust it."
                    )
                yield piece
    except (OSError, EOFError, pa.ArrowInvalid, UnicodeEncodeError, *UNREADABLE):
        raise InputError(
            f"{file.name} could not be read to its end: it is damaged, or changed while it was read. "
            "Copy or export it again."
        ) from None


def _open(packed: pa.NativeFile, file: Path, compression: str | None) -> Any:
    """A stream of the bytes inside."""
    if compression == "zip":
        return open_member(packed, member_of(file))
    return pa.input_stream(packed, compression=compression)


def day_of(file: Path) -> str:
    """The date in a file's name (access_log.20080601.txt), or `NO_DAY`."""
    match = _DAY_IN_NAME.search(file.name)
    return "-".join(match.groups()) if match else NO_DAY


def field_sql(shape: Shape, place: int) -> str:
    """SQL: a column of a shape, of fields f0, f1, ... in records of n fields; null if it is empty."""
    value = f"f{place}"
    if shape.name == "sogou":  # rank and order are one field with a space between, or two
        value = (
            "f0",
            "f1",
            r"regexp_replace(f2, '^\[(.*)\]$', '\1')",
            "split_part(f3, ' ', 1)",
            "CASE WHEN n = 6 THEN f4 ELSE split_part(f3, ' ', 2) END",
            "CASE WHEN n = 6 THEN f5 ELSE f4 END",
        )[place]
    return f"nullif({value}, '')"


def time_sql(shape: str | None, value: str, day: str) -> str:
    """SQL: a time of this shape as ISO text; an invalid time becomes '?'."""
    if shape == "excite":
        return _time_case(value, "[0-9]{12}", "%y%m%d%H%M%S", value)
    if shape == "sogou":
        clock = f"regexp_full_match({value}, '[0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}}')"
        timed = f"CASE WHEN {clock} THEN '{day} ' || lpad({value}, 8, '0') ELSE {value} END"
        return _time_case(value, "[0-9]{14}", "%Y%m%d%H%M%S", timed)
    return value


def _time_case(value: str, pattern: str, form: str, otherwise: str) -> str:
    iso = f"strftime(try_strptime({value}, '{form}'), '%Y-%m-%d %H:%M:%S')"
    return (
        f"CASE WHEN regexp_full_match({value}, '{pattern}') "
        f"THEN coalesce({iso}, '?') ELSE {otherwise} END"
    )
