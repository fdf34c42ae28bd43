"""Why rows of a log are broken, and the flag that may help. Reads rows: for the owner only.

Nothing that is published may depend on what is found here, and no row is read differently: the owner
gives the flag, or does not. `murmurlog init` looks at a log more closely.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import InputError
from murmurlog.logs.cleaning import UNREADABLE_TIME
from murmurlog.logs.formats import LOOKED_AT, pieces
from murmurlog.logs.parquet_types import as_texts
from murmurlog.logs.records import cut
from murmurlog.logs.source import Source
from murmurlog.logs.times import COMMON_FORMATS, read_time

SAMPLE = 100  # values that are looked at
FIELDS = (
    "records do not have the fields of the header: see that --delimiter is the one that separates them and "
    "that text that holds it is quoted"
)
ENCODING = (
    "the text is written in another encoding: try --encoding cp1252 (Western Europe), or murmurlog init, which "
    "proposes one"
)
CAUSES = {
    **dict.fromkeys(("too few columns", "too many columns"), FIELDS),
    **dict.fromkeys(("not UTF-8", "not decodable"), ENCODING),
    "not JSON": "lines are not JSON objects: give --format json if the file is one array",
}


def likely_causes(source: Source, broken: Mapping[str, int]) -> list[str]:
    """What probably went wrong, most rows first, each with what to do; at most two."""
    causes = []
    for reason, count in sorted(broken.items(), key=lambda item: (-item[1], item[0])):
        if count and reason == UNREADABLE_TIME:
            causes.append(_of_times(source))
        elif count and reason in ("no user", "no query"):
            role = reason.removeprefix("no ")
            causes.append(
                f'the column "{source.columns[role]}" has no value there: see that it holds the '
                f"{role} (--columns {role}=...)"
            )
        elif count and reason in CAUSES:
            causes.append(CAUSES[reason])
    return causes[:2]


def _of_times(source: Source) -> str:
    """The format that reads most of the times that are not read, if one reads half of them."""
    what = f"in {source.time_format!r}" if source.time_format else "as ISO 8601"
    unread = [text for text in _times(source) if not _reads(text, source.time_format)]
    if formats := propose_time_formats(unread):
        first = next(text for text in unread if read_time(text, formats[0]))
        other = f" (or {formats[1]!r}, if the month comes first)" if len(formats) > 1 else ""
        return (
            f"times do not read {what}; the first looks like {first.strip()!r}: give --time-format "
            f"{formats[0]!r}{other}"
        )
    return (
        f"times do not read {what}: give --time-format, see that --columns time=... names the right "
        "column, or give --columns time=none"
    )


def propose_time_formats(values: Sequence[str]) -> list[str]:
    """The formats that read the most of some times, at least half; two if day and month may change places."""
    counts = {form: sum(read_time(v, form) is not None for v in values) for form in COMMON_FORMATS}
    best = max(counts.values())
    if not best or 2 * best < len(values):
        return []
    return [form for form, count in counts.items() if count == best][:2]


def _reads(text: str, time_format: str | None) -> bool:
    """Whether a time is read; nearly, of ISO 8601, where DuckDB has the last word."""
    if time_format:
        return read_time(text.strip(), time_format) is not None
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return text.strip().replace(".", "", 1).isdecimal()
    return "-" in text


def _times(source: Source) -> list[str]:
    """Times in the first rows of the first file, as text; none where they cannot be looked at."""
    try:
        values = _first_values(source, source.columns["time"]) if source.files else []
    except (InputError, pa.ArrowException, OSError, KeyError, ValueError):
        return []
    return [str(v) for v in values if v not in (None, "", *source.missing)][:SAMPLE]


def _first_values(source: Source, column: str) -> Sequence[object]:
    file = source.files[0]
    if source.format == "parquet":
        batch = next(pq.ParquetFile(file).iter_batches(batch_size=SAMPLE, columns=[column]))
        return as_texts(batch.column(0))
    if source.dialect is None:
        return []
    stream = pieces(file, source.compressions[0], block=LOOKED_AT)
    encoding = source.encodings[0]
    records = next(cut(stream, source.dialect, encoding=encoding, broken={}, name=file.name))
    if source.keyed:
        rows = [json.loads(line) for line in records.fields.to_pylist()[:SAMPLE] if line.strip()]
        return [row.get(column) for row in rows if isinstance(row, dict)]
    assert source.lines is not None
    values = records.column(source.lines.columns.index(column)).to_pylist()
    return list(values if source.lines.well_known else values[1:])
