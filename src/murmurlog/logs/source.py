"""Finds a log: the files of a path, their format, and the role of each column.

All of it is decided before rows are read, and independently of them (A8): the format by the file's
name or by --shape, the columns by the header, a schema or --columns, the encoding by --encoding or a
byte order mark. The first record of a text file is read only if it is a header; a file that cannot be
identified without reading rows is refused, with the flags to give. `guess` reads rows, for the owner
only.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.errors import EngineError, InputError, UsageError, did_you_mean
from murmurlog.logs.columns import NONE, REQUIRED, ROLES, check_roles, match_role, roles_of, short
from murmurlog.logs.duckdb_statements import run_statement
from murmurlog.logs.encodings import COMMON
from murmurlog.logs.formats import (
    DIALECTS,
    SHAPES,
    WELL_KNOWN,
    Shape,
    check_compression,
    encoding_of,
    first_lines,
    first_record,
    is_aol,
    plain_shape,
)
from murmurlog.logs.formats import guess as guess_shape
from murmurlog.logs.options import FORMATS as FORMATS_GIVEN
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.postgres import Address, look, looks_like_address, parse
from murmurlog.logs.records import TABS, Dialect
from murmurlog.logs.sql import identifier
from murmurlog.logs.zip_files import member_of

FORMATS = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "duckdb": "duckdb",
    "ddb": "duckdb",
}
TEXT = ("csv", "tsv", "jsonl", "json")
KEYED = ("jsonl", "json")  # without a header: each row names its values
COMPRESSIONS = {"gz": "gzip", "zst": "zstd", "zip": "zip"}
SHEETS = ("xlsx", "xls", "xlsm", "xlsb", "ods", "numbers")
MISSING = ("-", "NULL", "\\N", "(null)")  # no url and no rank, in logs of many programs
ROWS_A_BYTE = 8  # of a Parquet file, beyond the first few; logs have less than one
FEW_ROWS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is to be read: files of one format, or a table, and the columns that matter."""

    format: str
    settled: Mapping[str, str]  # what decided the format and the columns, for the certificate
    files: tuple[Path, ...] = ()
    compressions: tuple[str | None, ...] = ()  # of each file
    encodings: tuple[str, ...] = ()  # of each file
    table: str | None = None
    lines: Shape | None = None  # how records become columns, where fields are cut at delimiters
    column_names: tuple[str, ...] = ()  # of every column; of .jsonl those that --columns names
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column
    dialect: Dialect | None = None  # of text
    time_format: str | None = None
    missing: tuple[str, ...] = ()  # what stands for no value, as the owner says
    server: Address | None = None  # instead of files
    uri: str | None = None  # instead of files: where only Spark finds them

    @property
    def shape(self) -> str:
        """The well-known shape it has (aol, sogou, excite), else its format."""
        return self.lines.name if self.lines else self.format

    @property
    def is_json(self) -> bool:
        """Whether rows are JSON objects, which name their values."""
        return self.format in KEYED

    @property
    def nothing(self) -> tuple[str, ...]:
        """Texts that mean that there is no url or no rank."""
        return tuple(dict.fromkeys((*MISSING, *self.missing)))

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
    """What a file is."""

    format: str
    compression: str | None
    encoding: str
    lines: Shape | None
    settled: str
    dialect: Dialect | None = None

    @property
    def name(self) -> str:
        """What the files of one source have in common."""
        return self.lines.name if self.lines else self.format


def find(path: str, options: SourceOptions | None = None) -> Source:
    """The source behind a file, folder, glob, or table of a DuckDB file (`file.duckdb::table`).

    Or of a PostgreSQL server: `postgresql://user@host/database::table`, or `::SELECT ...`. The
    options say what names and headers do not.
    """
    options = options or SourceOptions()
    columns, shape = options.columns, options.shape
    if shape is not None and shape not in SHAPES:
        raise UsageError(f"--shape must be one of {', '.join(SHAPES)}, not {shape!r:.80}")
    if looks_like_address(path):
        return _find_on_server(path, options)
    path, _, table = path.partition("::")
    if not path:  # an empty shell variable must not mean the current folder
        raise UsageError("the name of the log is empty: name a file, or . for this folder")
    kinds = _kinds(path, options)
    files, kind = tuple(kinds), next(iter(kinds.values()))
    if len({k.name for k in kinds.values()}) > 1:
        examples = ", ".join(f"{file.name} ({k.name})" for file, k in list(kinds.items())[:4])
        raise InputError(
            f"{path} holds files of different formats: {examples}. Name one format with a glob, "
            "such as 'logs/*.parquet'."
        )
    if table and kind.format != "duckdb":
        raise UsageError(f"'::{table}' names a table, but {files[0].name} is not a .duckdb file")
    if kind.format == "duckdb" and len(files) > 1:
        raise InputError("give one .duckdb file at a time, as file.duckdb::table")
    source = Source(
        format=kind.format,
        settled={"format": kind.settled},
        files=files,
        compressions=tuple(k.compression for k in kinds.values()),
        encodings=tuple(k.encoding for k in kinds.values()),
        table=table_of(files[0], table or None) if kind.format == "duckdb" else None,
        lines=kind.lines,
        dialect=kind.dialect,
        time_format=options.time_format,
        missing=tuple(options.missing or ()),
    )
    headers = {file: _columns_of(source, file, k) for file, k in kinds.items()}
    names = headers[files[0]]
    for file, header in headers.items():
        if header != names and kind.format in ("csv", "tsv"):
            raise InputError(
                f"{file.name} has other columns than {files[0].name}, or in another order, or no "
                "line with their names. Read them one by one."
            )
    column_names = tuple(dict.fromkeys(name for header in headers.values() for name in header))
    if kind.format == "parquet":
        check_case(source, column_names)
    if kind.format in ("csv", "tsv") and kind.lines is None:
        source = replace(source, lines=plain_shape(kind.format, column_names))
    return with_roles(source, column_names, columns or {})


def check_case(source: Source, names: tuple[str, ...]) -> None:
    """Raises if the names of two columns differ only in case: an engine may confuse them."""
    for name in names:
        if twins := [other for other in names if other.casefold() == name.casefold()][1:]:
            raise InputError(
                f"columns of {source.name} differ only in case: {short((name, *twins))}. An "
                "engine cannot distinguish them. Rename one."
            )


def guess(path: str, format: str | None = None) -> dict[str, str]:
    """Flags (`shape`, `encoding`, `columns`) that rows of a log suggest, for the owner only.

    A release never guesses: one user's rows must not decide how other users' rows are read.
    """
    try:
        file = files_at(path)[0]
    except (InputError, UsageError):
        return {}
    name_format, compression = _parse_name(file)
    format = format or name_format
    if format in KEYED:
        return _guess_keys(file, compression)
    return guess_shape(file, compression) if format in (None, "tsv", "csv") else {}


def _guess_keys(file: Path, compression: str | None) -> dict[str, str]:
    """--columns for the keys of the first lines of a .jsonl."""
    keys: dict[str, None] = {}
    for line in first_lines(file, compression) or ():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        keys.update(dict.fromkeys(value) if isinstance(value, dict) else {})
    roles = {role: match_role(role, tuple(keys)) for role in ROLES}
    mapping = [f"{role}={names[0]}" for role, names in roles.items() if names]
    return {"columns": ",".join(mapping)} if mapping else {}


def with_roles(source: Source, names: tuple[str, ...], mapping: Mapping[str, str]) -> Source:
    """The source with its columns and their roles."""
    if source.is_json:
        check_roles(mapping)
        if missing := [role for role in REQUIRED if role not in mapping]:
            raise InputError(
                f"{source.name} has no header, so name the keys of all columns that are used: "
                f"--columns user=...,query=...,time=...,url=... ({' and '.join(missing)} missing). "
                "'murmurlog profile' proposes them."
            )
        columns = {role: mapping[role] for role in ROLES if mapping.get(role, NONE) != NONE}
        names = tuple(dict.fromkeys(columns.values()))
    else:
        columns = roles_of(names, mapping, name=source.name, text=source.format in TEXT)
    settled_by = "--columns" if mapping else "shape" if source.shape in SHAPES else "names"
    settled = {**source.settled, "columns": settled_by}
    return replace(source, column_names=names, columns=columns, settled=settled)


def text_flags(options: SourceOptions) -> str:
    """Those of the given flags that are for files of text, for a message."""
    names = ("shape", "format", "delimiter", "encoding")
    return " and ".join(f"--{name}" for name in names if getattr(options, name) is not None)


def _find_on_server(path: str, options: SourceOptions) -> Source:
    if flags := text_flags(options):
        raise UsageError(f"{flags} is for files: leave it out for a server")
    address, names = look(parse(path))
    source = Source(
        format="postgresql", settled={"format": "server"}, server=address, table=address.what,
        column_names=names, time_format=options.time_format, missing=tuple(options.missing or ()),
    )  # fmt: skip
    if len(set(names)) < len(names):
        raise InputError(f"{source.name} has a repeated column name: rename one with AS")
    return with_roles(source, names, options.columns or {})


def _kinds(path: str, options: SourceOptions) -> dict[Path, _Kind]:
    """The files of a path and what each is; in a folder, files that are not logs are skipped."""
    kinds = {}
    folder = Path(path).is_dir()
    for file in files_at(path):
        if kind := _kind(file, options):
            kinds[file] = kind
        elif not folder:
            raise InputError(_unknown_format(file))
    if not kinds:
        raise InputError(
            f"the folder {path} holds no log: files end in {_endings()}, those of text also in .gz, "
            ".zst or .zip. Give --format for other names, --shape for the files of a well-known log."
        )
    return kinds


def files_at(path: str) -> list[Path]:
    """The files of a path, folder or glob; raises InputError if there are none."""
    location = Path(path)
    if not location.is_dir():
        return _files(location, path)
    hidden = (".", "_")  # left out by Spark, too
    return [f for f in sorted(location.iterdir()) if f.is_file() and not f.name.startswith(hidden)]


def _files(location: Path, path: str) -> list[Path]:
    if location.is_file():
        return [location]
    if any(c in path for c in "*?["):
        root = Path(location.anchor) if location.is_absolute() else Path()
        pattern = str(location.relative_to(location.anchor)) if location.is_absolute() else path
        try:
            files = sorted(f for f in root.glob(pattern) if f.is_file())
        except ValueError as error:
            raise UsageError(f"{path!r:.80} is not a valid pattern for files: {error}") from None
        if files:
            return files
        raise InputError(f"no file matches {path!r}: check the folder and the ending")
    neighbours: list[str] = []
    with suppress(OSError):
        neighbours = os.listdir(location.parent)
    near = did_you_mean(location.name, neighbours) or " Check the path."
    raise InputError(f"there is no file or folder {path!r}.{near}")


def _kind(file: Path, options: SourceOptions) -> _Kind | None:
    """What a file is: by the given options, else by its name or AOL's header; None if unknown."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise InputError(f"the name {file.name!r} is not UTF-8: rename the file") from None
    shape, encoding, delimiter = options.shape, options.encoding, options.delimiter
    format, packed = _parse_name(file)
    settled = "--shape" if shape else "--format" if options.format else "name"
    format = options.format or format
    if format in ("parquet", "duckdb"):
        flags = text_flags(replace(options, format=None))
        if flags or packed:
            raise UsageError(f"{file.name} is not text: leave {flags or '--format'} out")
        return _Kind(format=format, compression=None, encoding="utf-8", lines=None, settled=settled)
    if delimiter is not None:
        if shape or format in KEYED:
            raise UsageError("--delimiter is for .csv, .tsv and other files without a shape")
        settled = settled if format else "--delimiter"
        format = format or "csv"
    if format or shape:
        check_compression(file, packed)
    elif not _is_aol(file, packed, encoding):
        return None
    written = encoding or encoding_of(file, packed, shape)
    unsettled = shape is None and delimiter is None and format in (None, "tsv")
    if unsettled and _is_aol(file, packed, encoding):
        shape, settled = "aol", "header"
    format = "tsv" if shape else format
    assert format is not None
    dialect = DIALECTS[format]
    if delimiter is not None:
        dialect = Dialect(delimiter=delimiter, quoted=True)
    return _Kind(
        format=format, compression=packed, encoding=written, lines=WELL_KNOWN.get(shape or ""),
        settled=settled, dialect=dialect,
    )  # fmt: skip


def _is_aol(file: Path, compression: str | None, encoding: str | None) -> bool:
    """Whether the first line is the header of AOL's log."""
    try:
        written = encoding or encoding_of(file, compression, None)
        return is_aol(_strip(first_record(file, compression, TABS, written) or ()))
    except InputError:
        return False


def _strip(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in names)


def _endings() -> str:
    return ", ".join(f".{ending}" for ending in FORMATS)


def compression_of(file: Path) -> str | None:
    """The compression of a file, by its name."""
    return COMPRESSIONS.get(file.name.lower().rpartition(".")[2])


def _parse_name(file: Path) -> tuple[str | None, str | None]:
    """The format and the compression that a file's name says; None where it says none."""
    names = file.name.lower().split(".")
    compression = COMPRESSIONS.get(names[-1])
    if compression == "zip" and file.exists():
        names = [*PurePosixPath(member_of(file).lower()).name.split("."), "zip"]
    format = FORMATS.get(names[-2] if compression and len(names) > 2 else names[-1])
    return None if compression and format not in TEXT else format, compression


def format_of(file: Path) -> tuple[str, str | None]:
    """(format, compression) by the file's name."""
    format, compression = _parse_name(file)
    if format is None:
        raise InputError(_unknown_format(file))
    return format, compression


def _unknown_format(file: Path) -> str:
    if file.name.lower().rpartition(".")[2] in SHEETS:
        return (
            f"{file.name} is a spreadsheet, which is not read: open it, choose 'Save as' or 'Export', "
            "take 'CSV UTF-8 (comma delimited)', and give the .csv. If it is separated by semicolons, "
            "give --delimiter semicolon."
        )
    return (
        f"cannot tell the format of {file.name}: rename it to end in {_endings()} (text may also be "
        f"compressed: .gz, .zst, .zip), or give --format {'|'.join(FORMATS_GIVEN)}, or --delimiter if it "
        f"has fields and a header. Or give --shape {'|'.join(SHAPES)} if it is one of these logs: "
        "'murmurlog profile' reads its rows and proposes a shape."
    )


def table_of(file: Path, table: str | None) -> str:
    """The named table of a DuckDB file, or the only one."""
    try:
        rows = run_statement(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY 1",
            file=file,
        )
    except EngineError:
        raise InputError(f"{file.name} is not a readable DuckDB file") from None
    tables = rows["table_name"].to_pylist()
    if table is None and len(tables) == 1:
        return str(tables[0])
    if table not in tables:
        what = f"no table {table!r}" if table else f"{len(tables)} tables"
        raise InputError(
            f"{file.name} has {what}; name one of: "
            + ", ".join(f"{file.name}::{name}" for name in tables)
        )
    return str(table)


def files_of(path: str) -> dict[Path, tuple[str | None, str | None]]:
    """The files of a path, each with its format, None if its name does not say it, and compression.

    In a folder, files whose names say no format are left out if others do.
    """
    formats: dict[Path, tuple[str | None, str | None]] = {
        file: _parse_name(file) for file in files_at(path)
    }
    recognised = {file: kind for file, kind in formats.items() if kind[0]}
    return recognised if recognised and Path(path).is_dir() else formats


def _columns_of(source: Source, file: Path, kind: _Kind) -> tuple[str, ...]:
    if kind.lines:
        return kind.lines.columns
    if file.stat().st_size == 0:
        raise InputError(f"{file.name} is empty: write it again, or leave it out")
    names: Sequence[str] = ()
    try:
        if source.format == "parquet":
            stored = pq.read_metadata(file)
            if stored.num_rows > ROWS_A_BYTE * file.stat().st_size + FEW_ROWS:
                raise InputError(
                    f"{file.name} claims more than {ROWS_A_BYTE} rows a byte, which no log has"
                )
            names = stored.schema.to_arrow_schema().names
        elif source.format == "duckdb":
            columns = run_statement(f"DESCRIBE main.{identifier(source.table or '')}", file=file)
            names = columns["column_name"].to_pylist()
        elif not source.is_json:
            names = _header(source, file, kind)
    except (pa.ArrowException, EngineError, OSError):
        # Their messages can quote the content of the file.
        raise InputError(
            f"{file.name} is not readable as {source.format}: it is damaged, or another kind of file"
        ) from None
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"the header of {file.name} has an empty or a repeated column name")
    return tuple(names)


def _header(source: Source, file: Path, kind: _Kind) -> tuple[str, ...]:
    assert kind.dialect is not None
    names = first_record(file, kind.compression, kind.dialect, kind.encoding)
    if names is None:
        raise InputError(
            f"the first line of {file.name} is missing, too long or not {kind.encoding.upper()} text: "
            f"give --encoding ({', '.join(COMMON)} ...) if it is written in another one"
        )
    return _strip(names)
