"""Broken twins of the reader, which `reader_fuzz.py` must catch: three that murmurlog had, and one more.

csv-parallel         DuckDB's parallel read_csv, which guesses at the start of each piece whether it is
                     inside quotes; small pieces here, so that small files show it
shape-by-rows        a shape is told by most of the first lines, which are rows
jsonl-roles-by-rows  the columns of JSON are told by the members of the first 100 lines
border               the first record after the end of a piece is lost
"""

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from plain_reader import NAMES, Refused, Rows, as_characters, format_of, records, roles_of
from reader_samples import File, Outcome, Sample

TWINS = ("csv-parallel", "shape-by-rows", "jsonl-roles-by-rows", "border")
PIECE, LINE = 256, 128  # bytes; the usual 32 MB and 2 MB show the same
REJECTED = {
    "MISSING COLUMNS": "too few columns",
    "TOO MANY COLUMNS": "too many columns",
    "UNQUOTED VALUE": "quote not closed",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "line too long",
    "INVALID STATE": "quote not closed",
}
JSON_LINES_LOOKED_AT = 100
_CLOCK = rb"(?:[01]\d|2[0-3])[0-5]\d[0-5]\d"
_EXCITE = re.compile(
    rb"[^\t]+\t\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])" + _CLOCK + rb"\t[^\t]*"
)
_SOGOU = re.compile(
    rb"(?:\d\d?:\d\d:\d\d|(?:19|20)\d{6}" + _CLOCK + rb"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
    rb"\t[^\t]+\t[^\t]*\t\d+[ \t]\d+\t[^\t]*"
)
_AOL = [b"anonid", b"query", b"querytime", b"itemrank", b"clickurl"]


def parallel_csv(
    sample: Sample, folder: Path, sql: Callable[[str], Any], *, piece: int = PIECE
) -> Outcome:
    """Files of CSV in UTF-8 by read_csv, with rejected rows counted."""
    first = (folder / sample.files[0].full_name).read_bytes().partition(b"\n")[0]
    line = first.decode().removeprefix("\ufeff").rstrip("\r")
    names = tuple(name.strip() for name in next(csv.reader([line]), []))
    types = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in names)
    files = ", ".join(_quoted(str(folder / file.full_name)) for file in sample.files)
    for table in ("reject_errors", "reject_scans"):
        sql(f"DROP TABLE IF EXISTS {table}")
    rows = sql(
        f"SELECT * FROM read_csv([{files}], columns={{{types}}}, header=true, auto_detect=false, "
        "delim=',', quote='\"', escape='\"', nullstr='', store_rejects=true, "
        f"buffer_size={piece}, max_line_size={LINE})"
    ).fetchall()
    broken: Counter[str] = Counter()
    for reason, n in sql(
        "SELECT reason, count(*) FROM (SELECT file_id, line, min(error_type::VARCHAR) AS reason"
        " FROM reject_errors GROUP BY ALL) GROUP BY ALL"
    ).fetchall():
        broken[REJECTED.get(reason, reason.lower())] += n
    found = Rows(columns=names, roles=roles_of(names, {}, "csv"), rows=rows, broken=broken)
    return Outcome(columns=names, rows=Counter(found.chosen(names)), broken=broken)


def by_parallel_csv(sample: Sample, folder: Path, sql: Callable[[str], Any]) -> Outcome:
    try:
        return parallel_csv(sample, folder, sql)
    except (duckdb.Error, UnicodeDecodeError, Refused) as error:
        return Outcome(refused=type(error).__name__)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_lines(file: File) -> list[bytes]:
    start = file.content[: 1 << 16]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        start = start[: len(start) // 2 * 2].decode("utf-16", "replace").encode()
    start = start.removeprefix(codecs.BOM_UTF8)
    whole = start if b"\n" not in start else start[: start.rfind(b"\n")]
    return [line.rstrip(b"\r") for line in whole.split(b"\n")]


def shape_by_rows(sample: Sample) -> Sample:
    """The sample with the shape that most of its first lines have, if any."""
    lines = _first_lines(sample.files[0])
    shape = None
    if [name.strip().lower() for name in lines[0].split(b"\t")] == _AOL:
        shape = "aol"
    elif _most(lines, _EXCITE):
        shape = "excite"
    elif _most(lines, _SOGOU):
        shape = "sogou"
    return replace(sample, shape=shape)


def _most(lines: list[bytes], pattern: re.Pattern[bytes]) -> bool:
    filled = [line for line in lines if line]
    return 2 * sum(bool(pattern.fullmatch(line)) for line in filled) > len(filled)


def roles_by_rows(sample: Sample) -> Sample:
    """The sample with columns that are guessed from the members of its first lines."""
    if not sample.files[0].name.endswith((".jsonl", ".ndjson")):
        return sample
    found: dict[str, None] = {}
    for file in sample.files:
        for line in _first_lines(file)[:JSON_LINES_LOOKED_AT]:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found.update(dict.fromkeys(value))
    by_name = {name.lower().replace(" ", "_"): name for name in reversed(found)}
    columns = {}
    for role, known in NAMES.items():
        guess = next((by_name[name] for name in known.split() if name in by_name), None)
        if guess:
            columns[role] = guess
    return replace(sample, columns=columns)


def lost_at_borders(sample: Sample) -> Sample:
    """The sample without the first record that begins after the end of each piece."""
    return replace(sample, files=tuple(_without(sample, file) for file in sample.files))


def _without(sample: Sample, file: File) -> File:
    """The file without the first record behind each border; only where a byte is a character."""
    try:
        form = sample.shape or sample.format
        form = form or format_of(file.name, file.content, sample.encoding, sample.delimiter)
        cut = sample.delimiter or {"csv": ","}.get(form)
        text, codec, encoding = as_characters(file.content, sample.encoding, form, cut)
        if codec != encoding or form == "json":
            return file
        found = list(records(text, cut))
    except Refused:
        return file
    kept, at, border = [], 0, sample.block
    for record in found:
        if at >= border:
            border += (at - border) // sample.block * sample.block + sample.block
        else:
            kept.append(text[at : at + record.size])
        at += record.size
    return replace(file, content="".join(kept).encode("latin-1"))


CHANGES: Mapping[str, Callable[[Sample], Sample]] = {
    "shape-by-rows": shape_by_rows,
    "jsonl-roles-by-rows": roles_by_rows,
    "border": lost_at_borders,
}
