"""Finding a log: which files a path means, their format, and which column holds what.

Dialect, encoding and columns are settled here, from names and headers, before any row is read
(A8): a comma for .csv with RFC 4180 quoting, a tab and no quoting for .tsv, UTF-8 throughout.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import InputError, UsageError

FORMATS = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "duckdb": "duckdb",
    "ddb": "duckdb",
}
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}
ROLES = ("user", "query", "time", "url", "rank")
REQUIRED = ("user", "query")
NAMES = {
    "user": ("user", "user_id", "userid", "uid", "anonid", "anon_id", "cookie", "cookie_id",
             "visitor_id", "client_id", "account_id", "device_id"),
    "query": ("query", "q", "query_text", "querytext", "search_query", "search_term", "searchterm",
              "search", "term", "terms", "keywords"),
    "time": ("time", "timestamp", "ts", "query_time", "querytime", "event_time", "datetime",
             "created_at", "date"),
    "url": ("url", "click_url", "clickurl", "clicked_url", "clickedurl", "link", "doc", "docid",
            "doc_id", "document"),
    "rank": ("rank", "item_rank", "itemrank", "click_rank", "position", "pos"),
}  # fmt: skip
JSON_LINES_LOOKED_AT = 100


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is to be read: files of one format (or a table), and the columns that matter."""

    format: str
    files: tuple[Path, ...]
    compression: str | None
    table: str | None
    found: tuple[str, ...]  # every column there is
    columns: Mapping[str, str]  # role -> column

    @property
    def name(self) -> str:
        """The source in a message: the file's name, or how many files there are."""
        first = self.files[0].name
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more files"


def find(path: str, *, columns: Mapping[str, str] | None = None) -> Source:
    """The source behind a file, folder, glob, or table of a DuckDB file (`file.duckdb::table`)."""
    path, _, table = path.partition("::")
    files = _files(path)
    formats = {file: format_of(file) for file in files}
    kinds = set(formats.values())
    if len(kinds) > 1:
        listed = ", ".join(f"{file.name} ({kind[0]})" for file, kind in list(formats.items())[:4])
        raise InputError(
            f"{path} holds files of different formats: {listed}. Name one format with a glob, "
            "such as 'logs/*.parquet'."
        )
    ((kind, compression),) = kinds
    if table and kind != "duckdb":
        raise UsageError(f"'::{table}' names a table, but {files[0].name} is no .duckdb file")
    source = Source(
        format=kind,
        files=files,
        compression=compression,
        table=table or None,
        found=(),
        columns={},
    )
    if kind == "duckdb":
        source = replace(source, table=_table(source))
    headers = {file: _columns_of(source, file) for file in files}
    found = headers[files[0]]
    for file, header in headers.items():
        if header != found and kind in ("csv", "tsv"):
            raise InputError(
                f"{file.name} has other columns than {files[0].name}, or in another order: "
                f"{', '.join(header)} against {', '.join(found)}. Read them one by one."
            )
    every = tuple(dict.fromkeys(name for header in headers.values() for name in header))
    return replace(source, found=every, columns=_roles(source, every, columns or {}))


def _files(path: str) -> tuple[Path, ...]:
    here = Path(path)
    if here.is_file():
        return (here,)
    if here.is_dir():
        files = sorted(f for f in here.iterdir() if f.is_file() and _format_or_none(f))
        if not files:
            raise InputError(
                f"the folder {path} holds no log: files end in {_endings()}, "
                "those of text also in .gz or .zst"
            )
        return tuple(files)
    if any(c in path for c in "*?["):
        root = Path(here.anchor) if here.is_absolute() else Path()
        pattern = str(here.relative_to(here.anchor)) if here.is_absolute() else path
        if files := sorted(f for f in root.glob(pattern) if f.is_file()):
            return tuple(files)
        raise InputError(f"no file matches {path!r}")
    raise InputError(f"there is no file or folder {path!r}")


def _endings() -> str:
    return ", ".join(f".{ending}" for ending in FORMATS)


def _format_or_none(file: Path) -> tuple[str, str | None] | None:
    names = file.name.lower().split(".")
    compression = COMPRESSIONS.get(names[-1])
    kind = FORMATS.get(names[-2] if compression and len(names) > 2 else names[-1])
    if kind is None or (compression and kind not in ("csv", "tsv", "jsonl")):
        return None
    return kind, compression


def format_of(file: Path) -> tuple[str, str | None]:
    """(format, compression) by the file's name."""
    if kind := _format_or_none(file):
        return kind
    raise InputError(
        f"cannot tell the format of {file.name}: rename it to end in {_endings()}; "
        ".csv, .tsv and .jsonl may also be compressed (.gz, .zst)"
    )


def _table(source: Source) -> str:
    if len(source.files) > 1:
        raise InputError("give one .duckdb file at a time, as file.duckdb::table")
    file = source.files[0]
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            rows = connection.execute(
                "SELECT table_name FROM duckdb_tables() ORDER BY 1"
            ).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{file.name} is not a readable DuckDB file: {error}") from None
    tables = [name for (name,) in rows]
    if source.table is None and len(tables) == 1:
        return str(tables[0])
    if source.table not in tables:
        what = f"no table {source.table!r}" if source.table else f"{len(tables)} tables"
        raise InputError(
            f"{file.name} has {what}; name one of: "
            + ", ".join(f"{file.name}::{name}" for name in tables)
        )
    return str(source.table)


def _columns_of(source: Source, file: Path) -> tuple[str, ...]:
    if file.stat().st_size == 0:
        raise InputError(f"{file.name} is empty")
    try:
        if source.format == "parquet":
            names = pq.read_schema(file).names
        elif source.format == "duckdb":
            with duckdb.connect(str(file), read_only=True) as connection:
                names = connection.table(f'"{source.table}"').columns
        else:
            with pa.input_stream(file, compression=source.compression) as stream:
                names = _text_columns(source, file, stream)
    except (pa.ArrowInvalid, duckdb.Error, OSError) as error:
        raise InputError(f"{file.name} is not readable as {source.format}: {error}") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{file.name} is not UTF-8 text: convert it first, e.g. with iconv"
        ) from None
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"the header of {file.name} has an empty or a repeated column name")
    return tuple(names)


def _text_columns(source: Source, file: Path, stream: pa.NativeFile) -> list[str]:
    head = stream.read(1 << 20).split(b"\n")
    if source.format == "jsonl":
        names: dict[str, None] = {}
        for line in head[:JSON_LINES_LOOKED_AT]:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                names.update(dict.fromkeys(value))
        if not names:
            raise InputError(f"{file.name} does not start with lines of JSON objects")
        return list(names)
    line = head[0].decode("utf-8-sig").rstrip("\r")
    if source.format == "tsv":
        return [name.strip() for name in line.split("\t")]
    return [name.strip() for name in next(csv.reader([line]), [])]


def _roles(source: Source, found: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
    for role, column in given.items():
        if role not in ROLES:
            raise UsageError(f"--columns: {role!r} is no role; roles are {', '.join(ROLES)}")
        if column not in found:
            raise InputError(
                f'column "{column}" is not in {source.name}. Found: {", ".join(found)}.'
            )
    by_name = {name.lower().replace(" ", "_"): name for name in reversed(found)}
    columns = {}
    for role in ROLES:
        guess = next((by_name[name] for name in NAMES[role] if name in by_name), None)
        if chosen := given.get(role) or guess:
            columns[role] = chosen
    for role in REQUIRED:
        if role not in columns:
            raise InputError(
                f'no column of {source.name} looks like "{role}". Found: {", ".join(found)}. '
                f"Map it: --columns {role}=..."
            )
    return columns
