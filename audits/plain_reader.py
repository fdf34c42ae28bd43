"""A second reader of text logs: slow, plain, and independent of the one it checks.

Written from the documented grammar (docs/reference/sources.md, docs/reference/shapes.md), one character at a time, with nothing
of murmurlog and nothing but the standard library (Zstandard, which Python 3.11 lacks, aside). It gives
every field as text. Times, numbers and the cleaning of text are not its business.
"""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

LONGEST = 2_000_000  # bytes of a record with its end; longer ones are broken
LARGEST = 64 << 20  # bytes of a record; the file is refused
ENDINGS = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json",
}  # fmt: skip
NOTHING = ("-", "NULL", "\\N", "(null)")  # no url
MIXED = ("gb18030", "gbk", "big5", "shift_jis", "cp932", "cp949")  # ASCII inside other characters
NAMES = {
    "user": "user user_id userid uid anonid anon_id cookie cookie_id visitor_id client_id account_id"
    " device_id",
    "query": "query q query_text querytext search_query search_term searchterm search term terms"
    " keywords",
    "time": "time timestamp ts query_time querytime event_time datetime created_at date",
    "url": "url click_url clickurl clicked_url clickedurl link doc docid doc_id document",
    "rank": "rank item_rank itemrank click_rank position pos",
}
SHAPES = {
    "aol": ("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL"),
    "sogou": ("time", "user", "query", "rank", "order", "url"),
    "excite": ("user", "time", "query"),
}
FIELDS = {"aol": (3, 5), "excite": (3, 3), "sogou": (5, 6)}
NUMBER = re.compile(r"-?(?:(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|(?i:nan|infinity|inf))")
SPACE = " \t\n\r"
BOM = "\ufeff"


class Refused(Exception):
    """The file is not in the grammar; `line` says where, if a line is at fault."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why if line is None else f"{why} in line {line}")
        self.line = line


Parts = tuple[str, tuple[str, ...]] | None  # of a record, its text and its fields


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What is in the files: the names of the columns, rows of text, and what was wrong with others."""

    columns: tuple[str, ...]
    roles: Mapping[str, str]
    rows: list[tuple[str | None, ...]]
    broken: Mapping[str, int]
    missing: tuple[str, ...] = ()

    def chosen(self, names: Sequence[str]) -> list[tuple[str | None, ...]]:
        """User, query and url of each row, without what stands for none; then the columns named."""
        wanted = [self.roles.get(role) for role in ("user", "query", "url")] + list(names)
        places = [None if name is None else self.columns.index(name) for name in wanted]
        none = [self.missing, self.missing, (*NOTHING, *self.missing), *[()] * len(names)]
        return [
            tuple(
                None if p is None or row[p] in gone else row[p]
                for p, gone in zip(places, none, strict=True)
            )
            for row in self.rows
        ]

    def texts(self, role: str) -> list[str | None]:
        """The column of a role as it is written."""
        place = self.columns.index(self.roles[role])
        return [row[place] for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record: its bytes as characters, without its end, and cut into fields if quotes count."""

    text: str
    fields: tuple[str, ...]
    size: int  # bytes, with its end


def read(
    files: Sequence[tuple[str, bytes]],
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    shape: str | None = None,
    delimiter: str | None = None,
    format: str | None = None,
    missing: tuple[str, ...] = (),
    longest: int = LONGEST,
    largest: int = LARGEST,
) -> Rows:
    """All rows of files of one format; raises Refused if one is not in the grammar."""
    broken: Counter[str] = Counter()
    rows: list[tuple[str | None, ...]] = []
    opened = []
    for name, content in files:
        name, plain = unpacked(name, content)
        form = shape or format or format_of(name, plain, encoding, delimiter)
        if format == "tsv" and not shape and not delimiter:
            form = format_of("a.tsv", plain, encoding, None)
        if not content and shape is None:
            raise Refused("the file is empty")
        cut = delimiter or {"csv": ","}.get(form)
        texts = judged(plain, form, encoding, cut, broken, longest, largest)
        opened.append((form, *with_header(texts, form, columns or {}, quotes=cut is not None)))
    form, found, _ = opened[0]
    if any((other, names) != (form, found) for other, names, _ in opened):
        raise Refused("the files have different formats or columns")
    roles = roles_of(found, columns or {}, form)
    quotes = delimiter is not None or form == "csv"
    for _, _, parts in opened:  # nothing but headers was read so far
        rows += in_columns(parts, found, form, broken, quotes=quotes)
    return Rows(columns=found, roles=roles, rows=rows, broken=broken, missing=missing)


def unpacked(name: str, content: bytes) -> tuple[str, bytes]:
    """The name and the content, unpacked as the name says it is packed."""
    if name.endswith(".zip"):
        return from_zip(content)
    return name, unpacked_stream(name, content)


def from_zip(content: bytes) -> tuple[str, bytes]:
    """The only member, or the only one with an ending that is known."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = [
                name
                for name in packed.namelist()
                if not any(part[:1] == "." or part[:2] == "__" for part in name.split("/"))
            ]
            logs = [name for name in names if name.lower().rpartition(".")[2] in ENDINGS]
            chosen = logs if len(logs) == 1 else names
            if len(chosen) != 1:
                raise Refused("no log in the .zip, or more than one")
            return chosen[0], packed.read(chosen[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
        raise Refused("damaged, or not a .zip") from None


def unpacked_stream(name: str, content: bytes) -> bytes:
    if name.endswith((".gz", ".zst")) and not content:
        raise Refused("not packed as the name says")
    if name.endswith(".gz"):
        try:
            return gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise Refused("damaged, or not gzip") from None
    if name.endswith(".zst"):
        import pyarrow as pa

        try:
            return bytes(pa.input_stream(pa.py_buffer(content), compression="zstd").read())
        except OSError:
            raise Refused("damaged, or not Zstandard") from None
    if content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")):
        raise Refused("packed, but the name does not say so")
    return content


def format_of(name: str, plain: bytes, encoding: str | None, delimiter: str | None) -> str:
    """The format that the ending says, unless the first line is the header of AOL."""
    parts = name.lower().split(".")
    if parts[-1] in ("gz", "zst"):
        parts.pop()
    named = ENDINGS.get(parts[-1])
    if delimiter is not None:
        return named or "csv"
    if named in (None, "tsv"):
        first = next(records(as_characters(plain, encoding, "", None)[0], None), None)
        if first and is_header(first.text, "aol"):
            return "aol"
    if named is None:
        raise Refused("no known ending, and no header of AOL")
    return named


def as_characters(
    plain: bytes, encoding: str | None, form: str, cut: str | None
) -> tuple[str, str, str]:
    """The bytes as characters 0 to 255, the encoding of a record, and that of the file.

    UTF-16 becomes UTF-8 here; a surrogate without its pair stays three bytes that are no UTF-8. So
    does an encoding in which brackets or the delimiter may be a part of another character.
    """
    marked = plain[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = encoding or ("utf-16" if marked else None)
    if encoding is None:
        has_mark = plain.startswith(b"\xef\xbb\xbf")
        encoding = "gb18030" if form == "sogou" and not has_mark else "utf-8"
    if encoding == "utf-16":
        plain = from_utf16(plain)
    if plain.startswith(b"\xef\xbb\xbf"):
        plain = plain[3:]
    written = "utf-8" if encoding == "utf-16" else encoding
    if encoding in MIXED and (form == "json" or (cut or " ") >= "0"):
        plain, written = from_mixed(plain, encoding), "utf-8"
    return plain.decode("latin-1"), written, encoding


def from_mixed(plain: bytes, encoding: str) -> bytes:
    """One character after another as UTF-8; a byte that begins none stays a byte that is no UTF-8."""
    out, at = [], 0
    while at < len(plain):
        for size in (1, 2, 4):
            try:
                out.append(plain[at : at + size].decode(encoding).encode())
            except UnicodeDecodeError:
                continue
            at += size
            break
        else:
            out.append(b"\xff")
            at += 1
    return b"".join(out)


def from_utf16(plain: bytes) -> bytes:
    """UTF-16 as UTF-8, unit by unit; a mark says in which order its bytes are."""
    if len(plain) >= 2 and plain[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused("UTF-16 without a byte order mark")
    order = ">" if plain[:2] == b"\xfe\xff" else "<"
    plain = plain[2:] if len(plain) >= 2 else plain
    units = list(struct.unpack(f"{order}{len(plain) // 2}H", plain[: len(plain) // 2 * 2]))
    out, i = [], 0
    while i < len(units):
        unit = units[i]
        i += 1
        if 0xD800 <= unit < 0xDC00 and i < len(units) and 0xDC00 <= units[i] < 0xE000:
            unit = 0x10000 + ((unit - 0xD800) << 10) + units[i] - 0xDC00
            i += 1
        out.append(chr(unit))
    half = b"\xff" if len(plain) % 2 else b""  # half a unit is no character
    return "".join(out).encode("utf-8", "surrogatepass") + half


def judged(
    plain: bytes,
    form: str,
    encoding: str | None,
    cut: str | None,
    broken: Counter[str],
    longest: int,
    largest: int,
) -> Iterator[Parts]:
    """The text and the fields of each record; None for one that is broken."""
    characters, codec, written = as_characters(plain, encoding, form, cut)
    for record in elements(characters) if form == "json" else records(characters, cut):
        if record.size > largest:
            raise Refused("a record is too large")
        reason = None
        if record.size > longest:
            reason = "line too long"
        else:
            try:
                text = record.text.encode("latin-1").decode(codec)
                fields = tuple(field.encode("latin-1").decode(codec) for field in record.fields)
            except UnicodeDecodeError:
                reason = "not UTF-8" if written == "utf-8" else "not decodable"
        if reason:
            broken[reason] += 1
        yield None if reason else (text, fields)


def elements(text: str) -> Iterator[Record]:
    """The elements of a JSON array, one character after another."""
    text = text.strip(SPACE)
    if text[:1] != "[":
        raise Refused("no array")
    made: list[str] = []
    depth, quoted, at = 0, False, 1
    while at < len(text):
        c = text[at]
        at += 1
        if c == "\\" and at < len(text):
            c += text[at]
            at += 1
        elif c == '"':
            quoted = not quoted
        elif not quoted and c in "[{":
            depth += 1
        elif not quoted and c in "]}":
            depth -= 1
        if depth < 0 or (c == "," and not quoted and depth == 0):
            whole = "".join(made)
            yield Record(text=whole.removesuffix("\r"), fields=(), size=len(whole) + 1)
            made = []
            if depth < 0 and at < len(text):
                raise Refused("more after the array")
            if depth < 0:
                return
        else:
            made.append(c.replace("\n", "\x01" if quoted else " "))
    raise Refused("an array without an end")


def records(text: str, cut: str | None) -> Iterator[Record]:
    """The records of a file, one character after another; quotes count where fields are cut here."""
    quotes = cut is not None
    at, line = 0, 1
    while at < len(text):
        fields: list[str] = []
        start, opened = at, 0
        field: list[str] = []
        state = "start"  # of a field; then plain, quoted, or closed
        ended = False
        while at < len(text) and not ended:
            c = text[at]
            at += 1
            if state == "quoted":
                if c != '"':
                    line += c == "\n"
                    field.append(c)
                elif text[at : at + 1] == '"':
                    field.append('"')
                    at += 1
                else:
                    state = "closed"
            elif c == "\n":
                ended = True
            elif not quotes:
                continue
            elif c == cut:
                fields.append("".join(field))
                field, state = [], "start"
            elif state == "closed":
                if c != "\r" or text[at : at + 1] not in ("\n", ""):
                    raise Refused("text after a closing quote", line)
            elif c == '"' and state == "start":
                state, opened = "quoted", line
            elif c == '"':
                raise Refused("a quote in a field without quotes", line)
            elif c == "\r" and text[at : at + 1] in ("\n", ""):
                state = "plain"
            else:
                field.append(c)
                state = "plain"
        if state == "quoted":
            raise Refused("a quote that is not closed", opened)
        line += ended
        whole = text[start : at - ended]
        if whole.endswith("\r"):
            whole = whole[:-1]
        fields.append("".join(field))
        yield Record(text=whole, fields=tuple(fields), size=at - start + (not ended))


def is_header(line: str, form: str) -> bool:
    """Whether a line holds the names of the columns of a shape, capitals of ASCII aside."""
    names = [field.strip().encode().lower() for field in line.split("\t")]
    return names == [name.encode().lower() for name in SHAPES[form]]


def with_header(
    texts: Iterator[Parts], form: str, given: Mapping[str, str], *, quotes: bool
) -> tuple[tuple[str, ...], Iterator[tuple[str, tuple[str, ...]]]]:
    """The names of the columns, and the records that are rows or have another number of fields."""
    if form in ("jsonl", "json"):
        asked = [given[role] for role in NAMES if given.get(role, "none") != "none"]
        return tuple(dict.fromkeys(asked)), filled(texts)
    if form in SHAPES:
        rows = (parts for parts in filled(texts) if not is_header(without_mark(parts[0]), form))
        return SHAPES[form], rows
    first = next(texts, None)
    if first is None:
        raise Refused("there is no header that can be read")
    names = tuple(name.strip() for name in first[1]) if quotes else stripped(first[0])
    if "" in names or len(set(names)) < len(names):
        raise Refused("an empty or a repeated name of a column")
    return names, filled(texts)


def stripped(line: str) -> tuple[str, ...]:
    """The fields of a line that may hold names."""
    return tuple(name.strip() for name in line.split("\t"))


def filled(texts: Iterable[Parts]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The records that are not broken and not empty."""
    return (parts for parts in texts if parts and parts[0] not in ("", BOM))


def without_mark(line: str) -> str:
    """A file may be put behind another with its mark."""
    return line[1:] if line.startswith(BOM) else line


def in_columns(
    parts: Iterable[tuple[str, tuple[str, ...]]],
    names: tuple[str, ...],
    form: str,
    broken: Counter[str],
    *,
    quotes: bool,
) -> Iterator[tuple[str | None, ...]]:
    """Each record as one text, or None, for each column."""
    least, most = FIELDS.get(form, (len(names), len(names)))
    for text, cut in parts:
        if form in ("jsonl", "json"):
            if text.strip(SPACE):
                try:
                    yield members(text, names)
                except NotJson:
                    broken["not JSON"] += 1
            continue
        fields = list(cut) if quotes else text.split("\t")
        if len(fields) < least:
            broken["too few columns"] += 1
        elif len(fields) > most:
            broken["too many columns"] += 1
        else:
            if form == "sogou":
                fields = sogou(fields)
            fields += [""] * (len(names) - len(fields))
            yield tuple(field or None for field in fields)


def sogou(fields: list[str]) -> list[str]:
    """Six fields: brackets round the query are taken off, rank and order are two fields.

    A rank ends at a space, whether or not the order follows in the same field.
    """
    time, user, query, *ranks, url = fields
    if len(query) >= 2 and query[0] == "[" and query[-1] == "]":
        query = query[1:-1]
    rank, _, rest = ranks[0].partition(" ")
    order = ranks[1] if len(ranks) == 2 else rest.partition(" ")[0]
    return [time, user, query, rank, order, url]


def roles_of(names: tuple[str, ...], given: Mapping[str, str], form: str) -> dict[str, str]:
    """The column of each role: as given, else the first known name that there is."""
    roles: dict[str, str] = {}
    for role, known in NAMES.items():
        if role in given:
            if given[role] != "none":
                if given[role] not in names:
                    raise Refused("a column that is asked for is not there")
                roles[role] = given[role]
            continue
        if form in ("jsonl", "json"):
            continue
        for name in known.split():
            same = [n for n in names if n.lower().replace(" ", "_") == name]
            if len(same) > 1:
                raise Refused("names that are equal but for case")
            if same:
                roles[role] = same[0]
                break
    if "user" not in roles or "query" not in roles:
        raise Refused("no column for the user or the query")
    return roles


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WIDTHS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2, "f": 6}


def time_of(text: str | None, form: str) -> datetime | None:
    """A time in a format of directives, read from left to right; in UTC."""
    text, at, found = (text or "").strip(" \t\n\r\v\f"), 0, dict[str, int]()
    parts = re.findall("%.|[^%]", form)
    try:
        for place, part in enumerate(parts):
            width, size = WIDTHS.get(part[1:], 0), 0
            if part == "%b":
                found["m"], size = MONTHS.index(text[at : at + 3].lower()) + 1, 3
            elif part == "%p":
                found["p"], size = ["am", "pm"].index(text[at : at + 2].lower()), 2
            elif part == "%z":
                written = re.match("([+-])(0[0-9]|1[0-4]):?([0-5][0-9])", text[at:])
                minutes = int(written[2]) * 60 + int(written[3]) if written else None
                found["z"] = minutes * (1 if written and written[1] == "+" else -1)  # type: ignore[operator]
                size = len(written[0]) if written else 0
            elif not width:
                size = 1
                if text[at : at + 1] != part[-1]:
                    return None
            else:
                while size < width and text[at + size : at + size + 1] in [*"0123456789"]:
                    size += 1
                beside = [p for p in (parts[place - 1 : place] + parts[place + 1 : place + 2]) if p]
                tight = any(p[1:] in WIDTHS or p.isdecimal() for p in beside)
                if not size or (size < width and (tight or part in ("%Y", "%y"))):
                    return None
                digits = text[at : at + size]
                found[part[1]] = int(digits.ljust(6, "0") if part == "%f" else digits)
            at += size
        if at < len(text):
            return None
        year = found["Y"] if "Y" in found else found["y"] + (1900 if found["y"] > 68 else 2000)
        hour = found.get("H", 0)
        if "I" in found:
            if not 1 <= found["I"] <= 12:
                return None
            hour = found["I"] % 12 + 12 * found["p"]
        made = datetime(
            year,
            found["m"],
            found["d"],
            hour,
            found.get("M", 0),
            found.get("S", 0),
            found.get("f", 0),
        )
        made -= timedelta(minutes=found.get("z", 0))
    except (ValueError, TypeError, OverflowError):
        return None
    return made if made < datetime(9999, 12, 31) else None


class NotJson(Exception):
    """The text is not one JSON value."""


class Number(str):
    """A number as it is written."""


def members(text: str, names: Sequence[str]) -> tuple[str | None, ...]:
    """The members of an object as text; of a name that is there twice, the first counts."""
    value, end = value_at(text, after_space(text, 0))
    if after_space(text, end) != len(text):
        raise NotJson
    pairs: dict[str, Any] = {}
    if isinstance(value, tuple):
        for name, member in value:
            pairs.setdefault(name, member)
    return tuple(as_text(pairs.get(name)) for name in names)


def as_text(value: Any) -> str | None:
    """A value as a column shows it: the text of a string, else its JSON text."""
    if value is None or (isinstance(value, str) and not isinstance(value, Number)):
        return value or None
    return as_json(value)


def as_json(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, tuple):
        inside = ",".join(f"{json.dumps(n, ensure_ascii=False)}:{as_json(v)}" for n, v in value)
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(as_json, value))}]"
    return json.dumps(value, ensure_ascii=False)


def after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def value_at(text: str, at: int) -> tuple[Any, int]:
    """The value that begins here (an object as a tuple of pairs), and where it ends.

    RFC 8259, and what DuckDB takes besides: NaN, Infinity, and a comma behind the last member.
    """
    c = text[at : at + 1]
    if c == '"':
        return string_at(text, at)
    if c == "{" or c == "[":
        return inside_of(text, at, "}" if c == "{" else "]")
    for word, value in (("true", True), ("false", False), ("null", None)):
        if text.startswith(word, at):
            return value, at + len(word)
    if found := NUMBER.match(text, at):
        return Number(found[0]), found.end()
    raise NotJson


def inside_of(text: str, at: int, close: str) -> tuple[Any, int]:
    """The members of an object or an array."""
    found: list[Any] = []
    at = after_space(text, at + 1)
    if text[at : at + 1] == close:
        return (() if close == "}" else []), at + 1
    while True:
        if close == "}":
            if text[at : at + 1] != '"':
                raise NotJson
            name, at = string_at(text, at)
            at = after_space(text, at)
            if text[at : at + 1] != ":":
                raise NotJson
            value, at = value_at(text, after_space(text, at + 1))
            found.append((name, value))
        else:
            value, at = value_at(text, at)
            found.append(value)
        at = after_space(text, at)
        if text[at : at + 1] == close:
            return (tuple(found) if close == "}" else found), at + 1
        if text[at : at + 1] != ",":
            raise NotJson
        at = after_space(text, at + 1)
        if text[at : at + 1] == close:
            return (tuple(found) if close == "}" else found), at + 1


def string_at(text: str, at: int) -> tuple[str, int]:
    """A string; half a pair of surrogates is no text."""
    end = at + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    try:
        value = json.loads(text[at : end + 1])
        value.encode()
    except ValueError:  # of decoding or of encoding
        raise NotJson from None
    return value, end + 1
