"""Files that an evaluation reads beside the log: planted labels, lengths of posting lists."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from murmurlog.errors import InputError

PLANTED = ("kind", "query", "target")
MOST_DIGITS = 18


def read_planted(path: Path) -> pa.Table:
    """What was planted in an invented log, as `generate --labels` writes it: kind, query, target."""
    table = _table(path, "--labels")
    try:
        wanted = pa.schema([(name, pa.string()) for name in PLANTED])
        return table.select(list(PLANTED)).cast(wanted)
    except (KeyError, ValueError, pa.ArrowException):
        raise InputError(
            f"{path.name} does not have the columns of planted labels, {', '.join(PLANTED)}: use the "
            "file that murmurlog generate --labels wrote"
        ) from None


def read_doc_freq(path: Path) -> dict[str, int]:
    """How many documents hold each keyword, from lines of keyword<TAB>number."""
    doc_freq: dict[str, int] = {}
    for place, line in enumerate(_lines(path, "--doc-freq"), start=1):
        word, _, number = line.rpartition("\t")
        if not line:
            continue
        if not word or not number.strip().isdecimal() or len(number) > MOST_DIGITS:
            raise InputError(f"{path.name}, line {place}: it takes keyword<TAB>number of documents")
        doc_freq[word] = int(number)
    if not doc_freq:
        raise InputError(f"{path.name} has no line of keyword<TAB>number of documents")
    return doc_freq


def _table(path: Path, flag: str) -> pa.Table:
    if not path.is_file():
        raise InputError(f"{flag}: there is no file {str(path)!r}")
    try:
        if path.suffix == ".parquet":
            return pq.ParquetFile(path).read()
        text = csv.ConvertOptions(column_types=dict.fromkeys(PLANTED, pa.string()))
        return csv.read_csv(path, convert_options=text)
    except (pa.ArrowInvalid, OSError):
        raise InputError(f"{flag}: {path.name} is neither Parquet nor CSV") from None


def _lines(path: Path, flag: str) -> Sequence[str]:
    try:
        return path.read_text("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{flag}: cannot read {path.name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{flag}: {path.name} is not UTF-8 text: convert it first") from None
