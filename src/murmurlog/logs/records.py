"""Splits text into records and fields by the grammar of docs/reference/shapes.md.

The result is a function of the file's bytes. A file is read in pieces; a piece is cut after the last
record that ends in it, and the rest is put before the next piece, so that records are never split at
the borders of pieces. It runs in one thread.

Why quotes can be counted: in RFC 4180 a quote occurs only at both ends of a quoted field, or doubled
inside one. So a byte is inside a quoted field exactly if the number of quotes before it in its record
is odd. `_check_quotes` looks at the neighbours of every quote and refuses the file if a quote occurs
elsewhere: then the borders between one user's record and the next user's are ambiguous.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.errors import InputError
from murmurlog.logs.encodings import may_hide
from murmurlog.logs.json_array import STRUCTURE, array_lines

LONGEST_RECORD = 2_000_000  # bytes, with its end; a longer one is broken
MOST_HELD = 1 << 26  # bytes of an unfinished record; no log has more
LF, CR, QUOTE = b'\n\r"'
MARK = codecs.BOM_UTF8

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Facts = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How text is split: at a delimiter, if there is one; quoted as in RFC 4180 or not at all.

    Of an array the elements are the records, as JSON writes them.
    """

    delimiter: str | None
    quoted: bool
    array: bool = False

    @property
    def structure(self) -> bytes:
        """The bytes that split text, besides line feeds and quotes."""
        return (self.delimiter or "").encode() + (STRUCTURE if self.array else b"")


LINES = Dialect(delimiter=None, quoted=False)
TABS = Dialect(delimiter="\t", quoted=False)
COMMAS = Dialect(delimiter=",", quoted=True)
ARRAY = Dialect(delimiter=None, quoted=False, array=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Whole records: all their fields in one array, and the number of fields of each record."""

    fields: pa.StringArray
    counts: Places
    empty: Facts  # the record is empty or holds only a byte order mark

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def starts(self) -> Places:
        """The index of the first field of each record."""
        return np.asarray(np.cumsum(self.counts) - self.counts)

    def column(self, number: int) -> pa.StringArray:
        """One field of every record; null where a record has fewer fields."""
        missing = self.counts <= number
        return self.fields.take(pa.array(self.starts + number, mask=missing))

    def at(self, mask: Facts) -> "Records":
        """Some of the records."""
        if mask.all():
            return self
        fields = self.fields.filter(pa.array(np.repeat(mask, self.counts)))
        return Records(fields=fields, counts=self.counts[mask], empty=self.empty[mask])


def cut(
    stream: Iterator[bytes], dialect: Dialect, *, encoding: str, broken: dict[str, int], name: str
) -> Iterator[Records]:
    """The records of a file, from a stream of its bytes.

    Records that are too long or cannot be decoded are counted in `broken`. Raises if the text does
    not follow the dialect; `name` is the file's name, for messages.
    """
    for block, ends in _blocks(_text_of(stream, dialect, encoding, name), dialect, name):
        block = _drop_long(block, ends, broken)
        yield _records(_to_utf8(block, dialect, encoding, broken), dialect)


def first_fields(
    stream: Iterator[bytes], dialect: Dialect, *, encoding: str, name: str
) -> tuple[str, ...] | None:
    """The fields of the first record; None if it is too long, cannot be decoded or is missing."""
    for block, ends in _blocks(_text_of(stream, dialect, encoding, name), dialect, name):
        broken: dict[str, int] = {}
        record = _drop_long(block[: ends[0] + 1], ends[:1], broken)
        fields = _records(_to_utf8(record, dialect, encoding, broken), dialect).fields
        return None if broken else tuple(fields.to_pylist())
    return None


def _text_of(
    stream: Iterator[bytes], dialect: Dialect, encoding: str, name: str
) -> Iterator[bytes]:
    """The bytes that are cut into records, without a byte order mark in front."""
    if encoding == "utf-16":
        stream = _without_mark(_from_utf16(stream, name))
    else:  # some programs write the mark of UTF-8 in front of any encoding
        stream = _without_mark(stream)
        if _decodes_first(encoding, dialect):
            stream = _from_mixed(stream, encoding)
    return array_lines(stream, name) if dialect.array else stream


def _decodes_first(encoding: str, dialect: Dialect) -> bool:
    """Whether a byte that splits text may be a part of another character."""
    return encoding == "utf-16" or may_hide(encoding, dialect.structure)


def _from_utf16(stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    """UTF-16 as UTF-8."""
    start = b""
    while len(start) < 2 and (piece := next(stream, b"")):
        start += piece
    if len(start) >= 2 and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InputError(f"{name} is not UTF-16: it does not begin with a byte order mark")
    # A lone surrogate becomes bytes that are not UTF-8, so its record is counted as broken later.
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    for piece in chain([start], stream):
        yield decoder.decode(piece).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        yield b"\xff"


def _from_mixed(stream: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Any other encoding as UTF-8; a byte that cannot be decoded becomes one that is not UTF-8.

    Only that one byte: the next may end the record, which must not swallow another user's.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_ONE_BYTE)
    for piece in stream:
        yield decoder.decode(piece).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


_ONE_BYTE = "murmurlog-one-byte"


def _replace_one_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.start + 1


codecs.register_error(_ONE_BYTE, _replace_one_byte)


def _without_mark(stream: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes without a byte order mark in front."""
    start = b""
    for piece in stream:
        start += piece
        if len(start) >= len(MARK):
            yield start.removeprefix(MARK)
            yield from stream
            return
    yield start.removeprefix(MARK)


def _blocks(stream: Iterator[bytes], dialect: Dialect, name: str) -> Iterator[tuple[bytes, Places]]:
    """The same bytes in blocks of whole records, with the positions where records end.

    The last record gets a line feed if it has none.
    """
    rest, line = b"", 1
    for piece in stream:
        start = rest + piece
        ends = _ends(start, dialect)
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            block = start[:cut]
            _check_quotes(block, dialect, name, line)
            _check_size(block, ends, name, line)
            yield block, ends
            line += block.count(b"\n")
        rest = start[cut:]
        if len(rest) > MOST_HELD:
            _check_quotes(rest, dialect, name, line)
            raise InputError(_too_large(name, line))
    if rest:
        block = rest + b"\n"
        ends = _ends(block, dialect)
        _check_quotes(block, dialect, name, line)
        _check_size(block, ends, name, line)
        yield block, ends


def _check_size(block: bytes, ends: Places, name: str, line: int) -> None:
    """Raises if a record is too large, wherever the borders of pieces fall."""
    large = np.flatnonzero(np.diff(ends, prepend=-1) > MOST_HELD)
    if len(large):
        start = int(ends[large[0] - 1]) + 1 if large[0] else 0
        raise InputError(_too_large(name, line + block.count(b"\n", 0, start)))


def _too_large(name: str, line: int) -> str:
    return (
        f"{name}, line {line}: a record of more than {MOST_HELD >> 20} MB begins here. The file is "
        "damaged, or its content does not match its name."
    )


def _ends(text: bytes, dialect: Dialect) -> Places:
    """The positions of line feeds that end a record, if the text begins with a record."""
    return _outside(np.frombuffer(text, np.uint8), b"\n", quoted=_has_quotes(text, dialect))


def _has_quotes(text: bytes, dialect: Dialect) -> bool:
    return dialect.quoted and QUOTE in text


def _outside(data: Bytes, wanted: bytes, *, quoted: bool) -> Places:
    """The positions of some bytes outside quotes, that is with an even number of quotes before."""
    mask = data == wanted[0]
    for byte in wanted[1:]:
        mask |= data == byte
    if not quoted:
        return np.flatnonzero(mask)
    is_quote = data == QUOTE
    places = np.flatnonzero(mask | is_quote)
    is_quote = is_quote[places]
    inside = np.logical_xor.accumulate(is_quote)
    return np.asarray(places[~(inside | is_quote)])


def _check_quotes(text: bytes, dialect: Dialect, name: str, line: int) -> None:
    """Raises unless every quote opens or closes a field, or is doubled inside one.

    The text begins with a record, and ends with a record or with an added line feed.
    """
    if not _has_quotes(text, dialect):
        return
    data = np.frombuffer(text + b"\n\n", np.uint8)
    quotes = np.flatnonzero(data == QUOTE)
    borders = np.zeros(256, bool)
    borders[[LF, QUOTE, *(dialect.delimiter or "").encode()]] = True
    before = np.where(quotes > 0, data[quotes - 1], LF)
    after = data[quotes + 1]
    closes = borders[after] | ((after == CR) & (data[quotes + 2] == LF))
    opens = np.arange(len(quotes)) % 2 == 0
    valid = np.where(opens, borders[before], closes)
    if not valid.all():
        wrong = int(quotes[np.argmin(valid)])
        raise InputError(_misplaced_quote(name, line + text.count(b"\n", 0, wrong)))
    if len(quotes) % 2:
        opening = quotes[opens & (before != QUOTE)]
        raise InputError(_unclosed_quote(name, line + text.count(b"\n", 0, int(opening[-1]))))


def _misplaced_quote(name: str, line: int) -> str:
    return (
        f'{name}, line {line}: a quote (") occurs inside a field that is not quoted, or text follows '
        "a closing quote. Where quotes do not match, one user's rows cannot be distinguished from "
        f"another's, so nothing is read. {_REPAIR}"
    )


def _unclosed_quote(name: str, line: int) -> str:
    return (
        f'{name}, line {line}: the quote (") that opens a field here is never closed, so nothing is '
        f"read. {_REPAIR}"
    )


_REPAIR = (
    'Write the file as RFC 4180 says (quote a field that holds quotes, and double each of them: "5"" '
    'disk"), as most programs do, or as .tsv, .jsonl or .parquet.'
)


def _drop_long(block: bytes, ends: Places, broken: dict[str, int]) -> bytes:
    long = np.diff(ends, prepend=-1) > LONGEST_RECORD
    if not long.any():
        return block
    _count(broken, "line too long", int(long.sum()))
    records = _split(block, ends)
    return b"".join(record for record, is_long in zip(records, long, strict=True) if not is_long)


def _split(block: bytes, ends: Places) -> Iterator[bytes]:
    """The records of a block one by one, with their ends."""
    for before, end in pairwise([-1, *ends.tolist()]):
        yield block[before + 1 : end + 1]


def _to_utf8(block: bytes, dialect: Dialect, encoding: str, broken: dict[str, int]) -> bytes:
    source = "utf-8" if _decodes_first(encoding, dialect) else encoding
    if block.isascii() or (text := _text(block, source)) is not None:
        return block if block.isascii() else text
    texts = [_text(record, source) for record in _split(block, _ends(block, dialect))]
    _count(broken, "not UTF-8" if encoding == "utf-8" else "not decodable", texts.count(None))
    return b"".join(text for text in texts if text is not None)


def _text(record: bytes, encoding: str) -> Any:
    """The record in UTF-8; None if it cannot be decoded."""
    try:
        text = record.decode(encoding)
    except UnicodeDecodeError:
        return None
    return record if encoding == "utf-8" else text.encode()


def _count(broken: dict[str, int], reason: str, n: int) -> None:
    broken[reason] = broken.get(reason, 0) + n


def _records(block: bytes, dialect: Dialect) -> Records:
    """The fields of whole records in UTF-8."""
    quoted = _has_quotes(block, dialect)
    if not quoted:
        block = block.replace(b"\r\n", b"\n")  # any other carriage return is content
    data = np.frombuffer(block, np.uint8)
    cuts = b"\n" + (dialect.delimiter or "").encode()
    stops = _outside(data, cuts, quoted=quoted)
    last = np.flatnonzero(data[stops] == LF)
    if quoted:
        content = _content(data, stops, stops[last])
        text: Any = data[content]
        removed = np.flatnonzero(~content)
        is_stop = np.zeros(len(data), bool)
        is_stop[stops] = True
        ends = stops - np.flatnonzero(is_stop[removed])  # the index among the removed bytes
    else:
        text = block.translate(None, cuts)
        ends = stops - np.arange(len(stops))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    fields = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text))
    return Records(
        fields=fields,
        counts=np.diff(last, prepend=-1),
        empty=_empty(data, stops[last], returns=quoted),
    )


def _content(data: Bytes, stops: Places, feeds: Places) -> Facts:
    """Which bytes are in a field.

    Not delimiters and line feeds, nor a carriage return before a line feed, nor the quotes round a
    field, nor the first of two quotes inside one.
    """
    content = np.ones(len(data), bool)
    content[stops] = False
    content[feeds[(feeds > 0) & (data[feeds - 1] == CR)] - 1] = False
    quotes = np.flatnonzero(data == QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    content[closing] = False
    content[opening[(opening == 0) | (data[opening - 1] != QUOTE)]] = False
    return content


def _empty(data: Bytes, feeds: Places, *, returns: bool) -> Facts:
    """Which records are empty or hold only a byte order mark.

    `returns`: carriage returns before line feeds have not been removed yet.
    """
    starts = np.concatenate([[0], feeds[:-1] + 1]) if len(feeds) else feeds
    ended = (feeds > starts) & (data[feeds - 1] == CR) & returns
    length = feeds - ended - starts
    marked = np.flatnonzero(length == len(MARK))
    for i, byte in enumerate(MARK):
        marked = marked[data[starts[marked] + i] == byte]
    empty = length == 0
    empty[marked] = True
    return np.asarray(empty)
