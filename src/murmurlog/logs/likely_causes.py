"""Why rows of a log are broken, and the flag that may help. Reads rows: for the owner only.

Nothing that is published may depend on what is found here, and no row is read differently: the owner
gives the flag, or does not.
"""

import codecs
import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import InputError
from murmurlog.logs.cleaning import UNREADABLE_TIME
from murmurlog.logs.delimiters import name_delimiter
from murmurlog.logs.formats import LOOKED_AT, pieces
from murmurlog.logs.parquet_types import OUT_OF_RANGE, as_texts
from murmurlog.logs.records import cut
from murmurlog.logs.source import Source
from murmurlog.logs.times import COMMON_FORMATS, read_time

DELIMITERS = (";", "\t", "|", ",")
# Multi-byte encodings are tried first: a wrong one rarely decodes many lines.
FOREIGN = ("shift_jis", "euc-jp", "euc-kr", "big5", "gb18030")
SAMPLE = 1000  # values that are looked at
FEW = 20  # of them, to which each format is applied first


def likely_causes(source: Source, broken: Mapping[str, int]) -> list[str]:
    """What probably went wrong, most rows first, each with what to do; at most two."""
    causes = []
    for reason, n in sorted(broken.items(), key=lambda item: (-item[1], item[0])):
        cause = None
        if n and reason == UNREADABLE_TIME:
            cause = _of_times(source)
        elif n and reason in ("no user", "no query"):
            role = reason.removeprefix("no ")
            cause = (
                f'the column "{source.columns[role]}" has no value there: see that it holds the '
                f"{role} (--columns {role}=...)"
            )
        elif n and reason in ("too few columns", "too many columns"):
            cause = _of_fields(source)
        elif n and reason in ("not UTF-8", "not decodable"):
            cause = _of_encoding(source)
        elif n and reason == "not JSON":
            cause = "lines are not JSON objects: give --format json if the file is one array"
        causes += [cause] if cause else []
    return causes[:2]


def _of_times(source: Source) -> str:
    """The format that reads most of the times that are not read, if one reads half of them."""
    values = _values(source, source.columns["time"])
    unread = [text for text in values if not _reads(text, source.time_format)]
    if unread and set(unread) == {OUT_OF_RANGE}:
        return (
            "times lie beyond the year 9999: see that --columns time=... names the right column, or "
            "give --columns time=none"
        )
    what = f"in {source.time_format!r}" if source.time_format else "as ISO 8601"
    if found := propose_time_formats(unread):
        first = next(text for text in unread if read_time(text, found[0]))
        other = f" (or {found[1]!r}, if the month comes first)" if len(found) > 1 else ""
        return (
            f"times do not read {what}; the first looks like {first.strip()!r}: give --time-format "
            f"{found[0]!r}{other}"
        )
    return (
        f"times do not read {what}: give --time-format, see that --columns time=... names the right "
        "column, or give --columns time=none"
    )


def propose_time_formats(values: Sequence[str]) -> list[str]:
    """The formats that read the most of some times, if that is at least half of them.

    Two if day and month can be read in either order.
    """
    sample = values[:SAMPLE]
    few = sample[:: max(1, len(sample) // FEW)]  # hundreds of formats: most fail on these already
    counted = {
        each: sum(read_time(text, each) is not None for text in sample)
        for each in COMMON_FORMATS
        if any(read_time(text, each) for text in few)
    }
    best = max(counted.values(), default=0)
    if not best or 2 * best < len(sample):
        return []
    return [each for each, n in counted.items() if n == best][:2]


def _reads(text: str, time_format: str | None) -> bool:
    """Whether a time is read; nearly, of ISO 8601, where DuckDB has the last word."""
    text = text.strip()
    if time_format:
        return read_time(text, time_format) is not None
    if not text or text.replace(".", "", 1).isdecimal() and len(text) >= 9:
        return True
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "-" in text


def _of_fields(source: Source) -> str:
    given = source.dialect.delimiter if source.dialect else None
    if given is None:
        return "records have other fields than the first line"
    header = len(source.found)
    for other in DELIMITERS:
        if other != given and any(other in name for name in source.found):
            return (
                f"the header holds {name_delimiter(other)}: give --delimiter {name_delimiter(other)} "
                "if it separates fields"
            )
    return (
        f"records do not have the {header} fields of the header: see that {name_delimiter(given)} "
        "separates them (--delimiter) and that text that holds it is quoted"
    )


def _of_encoding(source: Source) -> str:
    """An encoding that decodes what the present one does not."""
    lines = _raw_lines(source)
    if sum(line.count(b"\0") for line in lines) > len(lines):
        return "the text looks like UTF-16 without a byte order mark: save it as UTF-8"
    foreign = [line for line in lines if not line.isascii() and not _decodes(line, "utf-8")]
    high = sum(byte > 127 for line in foreign for byte in line)
    letters = max(1, sum(map(len, foreign)))
    if high / letters > 0.3:  # most characters are not of the Latin alphabet
        for encoding in FOREIGN:
            if foreign and all(_decodes(line, encoding) for line in foreign):
                return f"the text is written in another encoding: try --encoding {encoding}"
    return "the text is written in another encoding: try --encoding cp1252 (Western Europe), cp1250, cp1251"  # fmt: skip


def misread_encoding(source: Source) -> str | None:
    """A warning if text is read in another encoding although all that is not ASCII is UTF-8.

    Many encodings decode any bytes, so that no row is broken and every such query is misspelled.
    """
    if source.dialect is None or set(source.encodings) & {"utf-8", "utf-16"}:
        return None
    foreign = [line for line in _raw_lines(source) if not line.isascii()]
    if not foreign or not all(_decodes(line, "utf-8") for line in foreign):
        return None
    return (
        f"the text of {source.name} looks like UTF-8, and {source.encodings[0]} would misread it: give "
        "--encoding utf-8"
    )


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        codecs.decode(line, encoding)
    except UnicodeDecodeError:
        return False
    return True


def _raw_lines(source: Source) -> list[bytes]:
    if not source.files:
        return []
    start = next(pieces(source.files[0], source.compressions[0], block=LOOKED_AT), b"")
    return start.split(b"\n")[:-1][:SAMPLE] or [start]


def _values(source: Source, column: str) -> list[str]:
    """Values of a column in the first rows of the first file that has any, as text."""
    for place in range(min(10, len(source.files))):
        try:
            values = _values_of(source, place, column)
        except (InputError, pa.ArrowException, OSError, KeyError, ValueError):
            continue
        if texts := [str(value) for value in values if value not in (None, "", *source.missing)]:
            return texts[:SAMPLE]
    return []


def _values_of(source: Source, place: int, column: str) -> Sequence[object]:
    file = source.files[place]
    if source.format == "parquet":
        batch = next(pq.ParquetFile(file).iter_batches(batch_size=SAMPLE, columns=[column]))
        return as_texts(batch.column(0))
    if source.dialect is None:
        return []
    stream = pieces(file, source.compressions[place], block=LOOKED_AT)
    encoding = source.encodings[place]
    records = next(cut(stream, source.dialect, encoding=encoding, broken={}, name=file.name))
    if source.keyed:
        rows = [json.loads(line) for line in records.fields.to_pylist()[:SAMPLE] if line.strip()]
        return [row.get(column) for row in rows if isinstance(row, dict)]
    assert source.lines is not None
    values = records.column(source.lines.columns.index(column)).to_pylist()
    return list(values if source.lines.well_known else values[1:])
