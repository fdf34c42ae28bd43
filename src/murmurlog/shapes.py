"""The shapes of well-known logs, told by their first lines, and lines of text as columns.

A shape (docs/shapes.md) settles columns, encoding and the form of times before the rows are read
(A8). Lines end at a line feed and nothing else, fields at a tab, and nothing quotes: what is in one
line never changes how another is read. Knows nothing about an engine, but writes SQL for it.
"""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from murmurlog.errors import InputError

LOOKED_AT = 1 << 16  # bytes, after decompression
BLOCK = 1 << 24
LONGEST_LINE = 2_000_000
MOST_TIMES = 200  # what a file may unpack to, by its size; logs come to about ten
LITTLE = 1 << 26  # bytes that any file may unpack to
ENCODINGS = ("utf-8", "utf-16", "gb18030", "latin-1")
NO_DAY = "1970-01-01"  # of a time without a date, in a file whose name has none
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_BINARY = (b"PAR1", b"PK\x03\x04")
_DAY_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")

_AOL = (b"anonid", b"query", b"querytime", b"itemrank", b"clickurl")
_CLOCK = rb"(?:[01]\d|2[0-3])[0-5]\d[0-5]\d"
_SHORT_TIME = rb"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])" + _CLOCK
_EXCITE = re.compile(rb"[^\t]+\t" + _SHORT_TIME + rb"\t[^\t]*")
_SOGOU = re.compile(
    rb"(?:\d\d?:\d\d:\d\d|(?:19|20)\d{6}" + _CLOCK + rb"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
    rb"\t[^\t]+\t[^\t]*\t\d+[ \t]\d+\t[^\t]*"
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the lines of a file become columns: names, and how many fields a line may have."""

    name: str
    columns: tuple[str, ...]
    least: int
    most: int
    header: bool


@dataclass(frozen=True, kw_only=True)
class Head:
    """The start of a file, unpacked: whole lines in the file's encoding, without a mark."""

    lines: tuple[bytes, ...]
    compression: str | None
    marked: str | None  # the encoding that a byte order mark tells


def tabbed(columns: Sequence[str]) -> Shape:
    """The shape of any .tsv: a header and as many fields in each line."""
    return Shape(
        name="tsv", columns=tuple(columns), least=len(columns), most=len(columns), header=True
    )


def head(file: Path) -> Head | None:
    """The first lines of a file of text, compressed or not; None if it is no text."""
    try:
        with file.open("rb") as raw:
            magic = raw.read(4)
        compression = next(
            (name for start, name in _MAGIC.items() if magic.startswith(start)), None
        )
        with pa.input_stream(file, compression=compression) as stream:
            start = stream.read(LOOKED_AT)
    except (OSError, pa.ArrowInvalid):
        return None
    marked = None
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        marked = "utf-16"
        start = start[: len(start) // 2 * 2].decode("utf-16", "replace").encode()
    elif start.startswith(codecs.BOM_UTF8):
        marked, start = "utf-8", start.removeprefix(codecs.BOM_UTF8)
    if start.startswith(_BINARY):
        return None
    whole = start if b"\n" not in start else start[: start.rfind(b"\n")]
    lines = tuple(line.rstrip(b"\r") for line in whole.split(b"\n"))
    return Head(lines=lines, compression=compression, marked=marked)


def recognise(first: Head, roles: Mapping[str, Sequence[str]]) -> Shape | None:
    """The well-known shape of a file, if most of its first lines have it; `roles` names columns."""
    names = tuple(name.strip() for name in first.lines[0].split(b"\t"))
    lines = [line for line in first.lines if line]
    if tuple(name.lower() for name in names) == _AOL:
        columns = tuple(name.decode() for name in names)
        return Shape(name="aol", columns=columns, least=3, most=5, header=True)
    if _most(lines, _EXCITE):
        return Shape(
            name="excite", columns=("user", "time", "query"), least=3, most=3, header=False
        )
    if _most(lines, _SOGOU):
        columns = ("time", "user", "query", "rank", "order", "url")
        return Shape(name="sogou", columns=columns, least=5, most=6, header=False)
    text = tuple(name.decode("utf-8", "replace") for name in names)
    held = [next((r for r, known in roles.items() if n.lower() in known), "") for n in text]
    if sorted(held) == ["query", "time", "user"]:
        fields = [rb"[^\t]*"] * 3
        fields[held.index("time")] = _SHORT_TIME
        if _most(lines[1:], re.compile(rb"\t".join(fields))):
            return Shape(name="excite", columns=text, least=3, most=3, header=True)
    return None


def _most(lines: Sequence[bytes], pattern: re.Pattern[bytes]) -> bool:
    # Most, not all: no single line, which is somebody's, settles how the others are read.
    return 2 * sum(bool(pattern.fullmatch(line)) for line in lines) > len(lines)


def encoding_of(first: Head, shape: Shape | None) -> str:
    """What the mark says; else GB18030 for Sogou unless most lines are UTF-8; else UTF-8."""
    if first.marked or shape is None or shape.name != "sogou":
        return first.marked or "utf-8"
    foreign = [line for line in first.lines if not line.isascii()]
    readable = sum(_decoded(line, "utf-8") is not None for line in foreign)
    return "utf-8" if 2 * readable >= len(foreign) else "gb18030"


def blocks(
    file: Path, *, compression: str | None, encoding: str, broken: dict[str, int]
) -> Iterator[bytes]:
    """The file as blocks of whole lines in UTF-8. Lines that cannot be had are counted, by reason."""
    first = True
    for lines in _whole_lines(_decoded_pieces(pieces(file, compression), encoding), broken):
        if first:
            lines, first = lines.removeprefix(codecs.BOM_UTF8), False
        yield _in_utf8(lines, encoding, broken)


def pieces(file: Path, compression: str | None, *, block: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a file, unpacked; raises if they grow out of all proportion."""
    try:
        most, size = MOST_TIMES * file.stat().st_size + LITTLE, 0
        with pa.input_stream(file, compression=compression) as stream:
            while piece := stream.read(block):
                size += len(piece)
                if compression and size > most:
                    raise InputError(
                        f"{file.name} unpacks to more than {MOST_TIMES} times its size, as no log "
                        "does. Unpack it yourself if you trust it."
                    )
                yield piece
    except (OSError, pa.ArrowInvalid, UnicodeEncodeError):
        raise InputError(
            f"{file.name} could not be read to its end: it is damaged, or changed meanwhile"
        ) from None


def _decoded_pieces(stream: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    if encoding != "utf-16":
        yield from stream
        return
    # Half a pair of surrogates becomes bytes that are no UTF-8, so its line is found broken later.
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    for piece in stream:
        yield decoder.decode(piece).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        yield b"\xff"


def _whole_lines(pieces: Iterator[bytes], broken: dict[str, int]) -> Iterator[bytes]:
    """The pieces cut anew at line feeds; a line that is too long is left out."""
    rest, skipping = b"", False
    for piece in pieces:
        if skipping:
            _, found, piece = piece.partition(b"\n")
            skipping = not found
        start = rest + piece
        cut = start.rfind(b"\n") + 1
        if cut:
            yield _short_lines(start[:cut], broken)
        rest = start[cut:]
        if len(rest) > LONGEST_LINE:
            broken["line too long"] = broken.get("line too long", 0) + 1
            rest, skipping = b"", True
    if rest:
        yield _short_lines(rest + b"\n", broken)


def _short_lines(lines: bytes, broken: dict[str, int]) -> bytes:
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))
    long = np.diff(ends, prepend=-1) > LONGEST_LINE
    if not long.any():
        return lines
    broken["line too long"] = broken.get("line too long", 0) + int(long.sum())
    start, kept = 0, []
    for end, left_out in zip(ends.tolist(), long.tolist(), strict=True):
        if not left_out:
            kept.append(lines[start : end + 1])
        start = end + 1
    return b"".join(kept)


def _in_utf8(lines: bytes, encoding: str, broken: dict[str, int]) -> bytes:
    source = "utf-8" if encoding == "utf-16" else encoding
    if (text := _decoded(lines, source)) is not None:
        return text
    kept = [_decoded(line + b"\n", source) for line in lines.removesuffix(b"\n").split(b"\n")]
    reason = "not UTF-8" if encoding == "utf-8" else "not decodable"
    broken[reason] = broken.get(reason, 0) + kept.count(None)
    return b"".join(line for line in kept if line is not None)


def _decoded(line: bytes, encoding: str) -> bytes | None:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError:
        return None
    return line if encoding == "utf-8" else text.encode()


def day_of(file: Path) -> str:
    """The date in a file's name (access_log.20080601.txt), or a day that says there is none."""
    found = _DAY_IN_NAME.search(file.name)
    return "-".join(found.groups()) if found else NO_DAY


def fields_sql(shape: Shape) -> str:
    """SQL: `parts`, the fields of a line, as columns c0, c1, ..., and `fault`, why it is broken."""
    values = [f"parts[{i + 1}]" for i in range(len(shape.columns))]
    if shape.name == "sogou":  # rank and order are one field with a space between, or two
        values[2] = r"regexp_replace(parts[3], '^\[(.*)\]$', '\1')"
        values[3] = "split_part(parts[4], ' ', 1)"
        values[4] = "CASE WHEN len(parts) = 6 THEN parts[5] ELSE split_part(parts[4], ' ', 2) END"
        values[5] = "parts[len(parts)]"
    columns = ", ".join(f"nullif({value}, '') AS c{i}" for i, value in enumerate(values))
    return (
        f"{columns}, CASE WHEN len(parts) < {shape.least} THEN 'too few columns' "
        f"WHEN len(parts) > {shape.most} THEN 'too many columns' END AS fault"
    )


def time_sql(shape: str | None, value: str, day: str) -> str:
    """SQL: a time of this shape as ISO text; what looks like one and is none becomes '?'."""
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
