"""Finding a log: which files a path means, their format, and which column holds what.

Dialect, encoding and columns are settled here, from names, headers and first lines, before the rows
are read (A8): a comma for .csv with RFC 4180 quoting, a tab and no quoting for .tsv, the shapes of
well-known logs (docs/shapes.md) whatever their name, UTF-8 unless a mark or the shape says otherwise.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.engine import identifier
from murmurlog.errors import InputError, UsageError
from murmurlog.postgres import Address, look, looks_like_address, parse
from murmurlog.shapes import ENCODINGS, Head, Shape, encoding_of, head, recognise, tabbed

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
TEXT = ("csv", "tsv", "jsonl")
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
ROWS_A_BYTE = 8  # of a Parquet file, beyond the first few; logs have less than one
FEW_ROWS = 1 << 24
CLOSED: dict[str, Any] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is to be read: files of one format, or a table, and the columns that matter."""

    format: str
    files: tuple[Path, ...]
    compressions: tuple[str | None, ...]  # of each file
    encodings: tuple[str, ...]  # of each file
    table: str | None
    lines: Shape | None  # how lines become columns, where they are cut at tabs
    found: tuple[str, ...]  # every column there is
    columns: Mapping[str, str]  # role -> column
    server: Address | None = None  # instead of files
    uri: str | None = None  # instead of files: where only Spark finds them

    @property
    def shape(self) -> str:
        """The well-known shape it has (aol, sogou, excite), else its format."""
        return self.lines.name if self.lines else self.format

    @property
    def name(self) -> str:
        """The source in a message: the file's name, or how many files there are, or a table."""
        if self.server:
            return str(self.server)
        if self.uri:
            return self.uri.rstrip("/").rpartition("/")[2]
        first = self.files[0].name
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more files"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What a file is, by its name and its first lines."""

    format: str
    compression: str | None
    encoding: str
    lines: Shape | None

    @property
    def name(self) -> str:
        """What the files of one source have in common."""
        return self.lines.name if self.lines else self.format


def find(
    path: str, *, columns: Mapping[str, str] | None = None, encoding: str | None = None
) -> Source:
    """The source behind a file, folder, glob, or table of a DuckDB file (`file.duckdb::table`).

    Or of a PostgreSQL server: `postgresql://user@host/database::table`, or `::SELECT ...`.
    `encoding` says in what a text is written; without it the first bytes and the shape do.
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise UsageError(f"--encoding must be one of {', '.join(ENCODINGS)}, not {encoding!r}")
    if looks_like_address(path):
        return _on_server(path, columns or {}, encoding)
    path, _, table = path.partition("::")
    if not path:  # an empty variable of a shell must not mean the current folder
        raise UsageError("the name of the log is empty: name a file, or . for this folder")
    kinds = _kinds(path, encoding)
    files, kind = tuple(kinds), next(iter(kinds.values()))
    if len({(k.name, k.format == "tsv" or k.compression) for k in kinds.values()}) > 1:
        listed = ", ".join(f"{file.name} ({k.name})" for file, k in list(kinds.items())[:4])
        raise InputError(
            f"{path} holds files of different formats: {listed}. Name one format with a glob, "
            "such as 'logs/*.parquet'."
        )
    if table and kind.format != "duckdb":
        raise UsageError(f"'::{table}' names a table, but {files[0].name} is no .duckdb file")
    source = Source(
        format=kind.format,
        files=files,
        compressions=tuple(k.compression for k in kinds.values()),
        encodings=tuple(k.encoding for k in kinds.values()),
        table=table or None,
        lines=kind.lines,
        found=(),
        columns={},
    )
    if kind.format == "duckdb":
        source = replace(source, table=_table(source))
    headers = {file: _columns_of(source, file, k) for file, k in kinds.items()}
    found = headers[files[0]]
    for file, header in headers.items():
        if header != found and kind.format in ("csv", "tsv"):
            raise InputError(
                f"{file.name} has other columns than {files[0].name}, or in another order, or no "
                "line with their names. Read them one by one."
            )
    every = tuple(dict.fromkeys(name for header in headers.values() for name in header))
    if kind.format == "tsv" and kind.lines is None:
        source = replace(source, lines=tabbed(every))
    return replace(source, found=every, columns=roles_of(source, every, columns or {}))


def _on_server(path: str, columns: Mapping[str, str], encoding: str | None) -> Source:
    if encoding is not None:
        raise UsageError("a server knows the encoding of its text: leave --encoding out")
    address, found = look(parse(path))
    source = Source(
        format="postgresql", files=(), compressions=(), encodings=(), table=address.what,
        lines=None, found=found, columns={}, server=address,
    )  # fmt: skip
    if len(set(found)) < len(found):
        raise InputError(f"{source.name} has a repeated column name: rename one with AS")
    return replace(source, columns=roles_of(source, found, columns))


def _kinds(path: str, encoding: str | None) -> dict[Path, _Kind]:
    """The files behind a path and what each is; in a folder, those that are no log are left out."""
    here = Path(path)
    if here.is_dir():
        every = {file: _kind(file, encoding) for file in sorted(here.iterdir()) if file.is_file()}
        if kinds := {file: kind for file, kind in every.items() if kind}:
            return kinds
        raise InputError(
            f"the folder {path} holds no log: files end in {_endings()}, "
            "those of text also in .gz or .zst, or have the shape of a well-known log"
        )
    kinds = {}
    for file in _files(here, path):
        if (kind := _kind(file, encoding)) is None:
            raise InputError(_unknown(file, "its first lines have no known shape; "))
        kinds[file] = kind
    return kinds


def _files(here: Path, path: str) -> list[Path]:
    if here.is_file():
        return [here]
    if any(c in path for c in "*?["):
        root = Path(here.anchor) if here.is_absolute() else Path()
        pattern = str(here.relative_to(here.anchor)) if here.is_absolute() else path
        try:
            files = sorted(f for f in root.glob(pattern) if f.is_file())
        except ValueError as error:
            raise UsageError(f"{path!r:.80} is no pattern for files: {error}") from None
        if files:
            return files
        raise InputError(f"no file matches {path!r}")
    raise InputError(f"there is no file or folder {path!r}")


def _kind(file: Path, encoding: str | None) -> _Kind | None:
    """What a file is: a shape by its first lines, else a format by its name, else nothing."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise InputError(f"the name {file.name!r} is not UTF-8: rename the file") from None
    named, packed = _format_or_none(file) or (None, None)
    first: Head | None = None
    if named in (None, *TEXT) and (first := head(file)):
        packed = first.compression
        shape = recognise(first, NAMES) if named != "jsonl" else None
        written = encoding or encoding_of(first, shape)
        if shape:
            return _Kind(format="tsv", compression=packed, encoding=written, lines=shape)
        if named:
            return _Kind(format=named, compression=packed, encoding=written, lines=None)
    if named is None:
        return None
    return _Kind(format=named, compression=packed, encoding=encoding or "utf-8", lines=None)


def _endings() -> str:
    return ", ".join(f".{ending}" for ending in FORMATS)


def _format_or_none(file: Path) -> tuple[str, str | None] | None:
    names = file.name.lower().split(".")
    compression = COMPRESSIONS.get(names[-1])
    kind = FORMATS.get(names[-2] if compression and len(names) > 2 else names[-1])
    if kind is None or (compression and kind not in TEXT):
        return None
    return kind, compression


def format_of(file: Path) -> tuple[str, str | None]:
    """(format, compression) by the file's name."""
    if kind := _format_or_none(file):
        return kind
    raise InputError(_unknown(file, ""))


def _unknown(file: Path, why: str) -> str:
    return (
        f"cannot tell the format of {file.name}: {why}rename it to end in {_endings()}; "
        ".csv, .tsv and .jsonl may also be compressed (.gz, .zst)"
    )


def _table(source: Source) -> str:
    if len(source.files) > 1:
        raise InputError("give one .duckdb file at a time, as file.duckdb::table")
    file = source.files[0]
    try:
        with duckdb.connect(str(file), read_only=True, config=CLOSED) as connection:
            rows = connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY 1"
            ).fetchall()
    except (duckdb.Error, RuntimeError, UnicodeError):
        raise InputError(f"{file.name} is not a readable DuckDB file") from None
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


def _columns_of(source: Source, file: Path, kind: _Kind) -> tuple[str, ...]:
    if kind.lines:
        return kind.lines.columns
    if file.stat().st_size == 0:
        raise InputError(f"{file.name} is empty")
    try:
        if source.format == "parquet":
            stored = pq.read_metadata(file)
            if stored.num_rows > ROWS_A_BYTE * file.stat().st_size + FEW_ROWS:
                raise InputError(
                    f"{file.name} says that it has more than {ROWS_A_BYTE} rows a byte, as no log has"
                )
            names = stored.schema.to_arrow_schema().names
        elif source.format == "duckdb":
            with duckdb.connect(str(file), read_only=True, config=CLOSED) as connection:
                table = f"main.{identifier(source.table or '')}"
                connection.execute(f"SELECT * FROM {table} LIMIT 0")
                names = [name for name, *_ in connection.description or ()]
        else:
            with pa.input_stream(file, compression=kind.compression) as stream:
                names = _text_columns(source.format, file, stream.read(1 << 20), kind.encoding)
    except (pa.ArrowException, duckdb.Error, OSError, csv.Error, RuntimeError):
        # Their texts can quote what is in the file.
        raise InputError(f"{file.name} is not readable as {source.format}") from None
    except UnicodeDecodeError:
        raise InputError(
            f"the header of {file.name} is not {kind.encoding.upper()} text: convert the file "
            "first, e.g. with iconv"
        ) from None
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"the header of {file.name} has an empty or a repeated column name")
    return tuple(names)


def _text_columns(format: str, file: Path, start: bytes, encoding: str) -> list[str]:
    if encoding == "utf-16":
        start = start[: len(start) // 2 * 2].decode("utf-16", "replace").encode()
        encoding = "utf-8"
    lines = start.split(b"\n")
    if format == "jsonl":
        names: dict[str, None] = {}
        for line in lines[:JSON_LINES_LOOKED_AT]:
            try:
                value = json.loads(line.decode(encoding).removeprefix("\ufeff"))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                names.update(dict.fromkeys(value))
        if not names:
            raise InputError(f"{file.name} does not start with lines of JSON objects")
        return list(names)
    header = lines[0].decode(encoding).removeprefix("\ufeff").rstrip("\r")
    if format == "tsv":
        return [name.strip() for name in header.split("\t")]
    return [name.strip() for name in next(csv.reader([header]), [])]


def roles_of(source: Source, found: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
    """The column of each role, as given or guessed from its name."""
    listed = _listed(source, found, given)
    for role, column in given.items():
        if role not in ROLES:
            raise UsageError(f"--columns: {role!r} is no role; roles are {', '.join(ROLES)}")
        if column not in found:
            raise InputError(f'column "{column}" is not in {source.name}. {listed}')
    by_name = {name.lower().replace(" ", "_"): name for name in reversed(found)}
    columns = {}
    for role in ROLES:
        guess = next((by_name[name] for name in NAMES[role] if name in by_name), None)
        if chosen := given.get(role) or guess:
            columns[role] = chosen
    for role in REQUIRED:
        if role not in columns:
            raise InputError(
                f'no column of {source.name} looks like "{role}". {listed} '
                f"Map it: --columns {role}=..."
            )
    return columns


def _listed(source: Source, found: tuple[str, ...], given: Mapping[str, str]) -> str:
    """The columns for a message; of text only names that are known, as the rest may be a row."""
    known = {name for names in NAMES.values() for name in names}
    shown = tuple(
        name
        for name in found
        if source.format not in TEXT
        or name in given.values()
        or name.lower().replace(" ", "_") in known
    )
    if shown == found:
        return f"Found: {short(found)}."
    rest = f"{len(found) - len(shown)} names that are not known"
    return (
        f"Found: {short((*shown, rest))}. They are not printed, because the first line may be a row: "
        "if it is, put a line with the names of the columns before it."
    )


def short(names: tuple[str, ...]) -> str:
    """Names of columns for a message: as many as a person reads."""
    cut = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:30]]
    return ", ".join(cut) + (f" and {len(names) - 30} more" if len(names) > 30 else "")
