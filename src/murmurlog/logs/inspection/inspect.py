"""Looks at a log with its owner: how it is written, its columns, and what each may be for.

The result proposes reader's options. It depends on rows, so only the owner may accept it (A8); most
rows decide, so that a few odd ones change nothing, and what is not clear is said.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.errors import InputError
from murmurlog.logs.columns import NONE, REQUIRED, ROLES, match_role, roles_of
from murmurlog.logs.encodings import ENCODINGS
from murmurlog.logs.formats import DIALECTS, WELL_KNOWN, check_compression, is_aol
from murmurlog.logs.formats import guess as guess_shape
from murmurlog.logs.inputs import name_of
from murmurlog.logs.inspection import delimiters, encodings, times
from murmurlog.logs.inspection.blocks import BLOCK, TextFile
from murmurlog.logs.inspection.delimiters import Delimiter
from murmurlog.logs.inspection.encodings import Encoding
from murmurlog.logs.inspection.roles import (
    SESSIONS,
    SEVERAL,
    Facts,
    facts_of,
    has_ids,
    is_known,
    plain_name,
    propose,
)
from murmurlog.logs.inspection.samples import (
    Sample,
    read_utf8,
    records,
    sample_duckdb,
    sample_objects,
    sample_parquet,
    sample_rows,
)
from murmurlog.logs.inspection.times import STANDARD, TimeFormat
from murmurlog.logs.postgres import look, looks_like_address, parse
from murmurlog.logs.records import TABS, Dialect
from murmurlog.logs.source import KEYED, MISSING, SHEETS, files_of, format_of

SHOWN = 3  # values of a column
_CLOCK = re.compile(r"\d{1,2}[:.]\d\d([:.]\d\d)?( ?[AaPp][Mm])?")
WIDEST = 40  # characters of a value that are shown
TYPED = 0.9  # of a column's values, for the column to have a type


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column, what it may be for, and a few values for the owner's eyes."""

    name: str
    role: str | None
    samples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """How a log is written, as far as its rows tell."""

    source: str
    format: str  # csv, tsv, jsonl, json, parquet, duckdb, postgresql, or a well-known shape
    columns: tuple[Column, ...]
    files: tuple[TextFile, ...] = ()  # of text
    encoding: Encoding | None = None
    delimiter: Delimiter | None = None
    time: TimeFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # the reader's options by keyword
    doubts: tuple[str, ...] = ()  # what the rows do not settle

    @property
    def roles(self) -> dict[str, str]:
        """role -> column."""
        columns = {column.role: column.name for column in self.columns if column.role}
        return {role: columns[role] for role in ROLES if role in columns}

    @property
    def is_sampled(self) -> bool:
        """Whether only a part of the text was read."""
        return self.format != "json" and any(file.step > 1 for file in self.files)


def inspect(
    source: str, *, encoding: str | None = None, delimiter: str | None = None
) -> Inspection:
    """How a log is written, as its rows and the owner's options say."""
    if looks_like_address(source):
        _, names = look(parse(source))
        return _inspect_sample(source, "postgresql", Sample(columns={name: [] for name in names}))
    path, _, table = source.partition("::")
    formats_of_files = files_of(path)
    formats = {kind for kind, _ in formats_of_files.values()}
    if len(formats) > 1 or not formats_of_files:
        examples = ", ".join(
            f"{file.name} ({kind})" for file, (kind, _) in list(formats_of_files.items())[:4]
        )
        raise InputError(
            f"{path} must hold files of one format, not {examples or 'no file'}. Name one format with "
            "a glob, such as 'logs/*.parquet'."
        )
    files, (kind,) = list(formats_of_files), formats
    if files[0].suffix[1:].lower() in SHEETS:
        format_of(files[0])  # raises, and says how to save it
    if kind == "parquet":
        return _inspect_sample(source, kind, sample_parquet(files[0]))
    if kind == "duckdb":
        return _inspect_sample(source, kind, sample_duckdb(files[0], table or None))
    texts = tuple(
        TextFile(path=file, compression=packed) for file, (_, packed) in formats_of_files.items()
    )
    for file in texts:
        check_compression(file.path, file.compression)
        _check_text(file)
    if encoding:
        written = Encoding(name=encoding, why="as you say")
    else:
        written = encodings.detect((b for file in texts for b in file.blocks()), ENCODINGS)
    if kind in KEYED:
        sample = sample_objects(texts, written.name, array=kind == "json")
        inspection = _inspect_sample(source, str(kind), sample)
        settings = {**inspection.settings, **_encoding_setting(written)}
        doubts = (*_encoding_doubts(written), *inspection.doubts)
        return replace(inspection, files=texts, encoding=written, settings=settings, doubts=doubts)
    return _inspect_text(source, kind, texts, written, delimiter)


def _check_text(file: TextFile) -> None:
    start = next(file.blocks(), b"")[:BLOCK]
    if not start:
        raise InputError(f"{file.path.name} is empty")
    marked = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in start and not marked:
        raise InputError(
            f"{file.path.name} is not text, or is UTF-16 without a byte order mark: save it as UTF-8"
        )


def _inspect_sample(source: str, format: str, sample: Sample) -> Inspection:
    """The inspection of a source whose columns have names: tables and JSON."""
    facts, forms = {}, {}
    for name, values in sample.columns.items():
        form = None if name in sample.typed_times else _time_of_values(values)
        forms[name] = form
        share = 1.0 if name in sample.typed_times else form.share if form else 0.0
        facts[name] = facts_of(values, times=share)
    has_values = any(sample.columns.values())
    roles = propose({name: values if has_values else None for name, values in facts.items()})
    _check_required(source, roles, tuple(sample.columns))
    _check_events(roles, sample.columns, facts)
    time = forms.get(roles.get("time", ""))
    return Inspection(
        source=source,
        format=format,
        columns=_columns(sample.columns, roles),
        time=time,
        settings=_settings(roles, tuple(sample.columns), facts, time, keyed=format in KEYED),
        doubts=(
            *_role_doubts(roles, facts),
            *_time_doubts(time),
            *_clock_doubts(time, sample.columns),
        ),
    )


def _time_of_values(values: Sequence[str]) -> TimeFormat | None:
    """The format of the times in a sample, if they are times."""
    filled = [value for value in values if value.strip()]
    if not (forms := times.likely(filled)):
        return None
    sample = pa.table({"v": pa.array(filled, pa.string())})
    return times.choose(times.reads(sample, forms), len(filled))


def _roles_by_name(names: tuple[str, ...]) -> dict[str, str]:
    try:
        return roles_of(names, {}, name="", text=False)
    except InputError:
        return {}


def _inspect_text(
    source: str,
    kind: str | None,
    files: tuple[TextFile, ...],
    encoding: Encoding,
    character: str | None,
) -> Inspection:
    """The inspection of text with fields, cut at the given delimiter or at the most likely one."""
    if character is None and (shaped := _well_known(source, files, encoding)):
        return shaped
    delimiter = delimiters.detect(read_utf8(files[0], encoding.name), character)
    if delimiter is None:
        raise InputError(
            f"{files[0].path.name} has no delimiter: no comma, semicolon, tab, pipe or space "
            "cuts its lines into as many fields. A log needs a column of users and one of queries."
        )
    dialect = Dialect(
        delimiter=delimiter.character, quoted=delimiter.quoted or delimiter.character != "\t"
    )
    try:
        first, values = sample_rows(files, dialect, encoding.name, delimiter.fields)
    except InputError:
        if delimiter.character != "\t":
            raise
        # The sniffer accepts quotes inside of fields, the reader does not: they are signs like others.
        dialect = TABS
        first, values = sample_rows(files, dialect, encoding.name, delimiter.fields)
    if len(first) != delimiter.fields:
        raise InputError(
            f"the first line of {files[0].path.name} has {len(first)} of the {delimiter.fields} fields of most "
            "lines: the names of the columns must be the first line. Delete what stands before them."
        )
    if not values[0]:
        raise InputError(
            f"no row of {files[0].path.name} has the {delimiter.fields} fields of its first line"
        )
    forms = [_time_of_values(column) for column in values]
    facts = {
        place: facts_of(column, times=form.share if form else 0.0)
        for place, (column, form) in enumerate(zip(values, forms, strict=True))
    }
    names = tuple(name.strip() for name in first)
    if not delimiter.header or any(map(_is_value, names)):
        raise InputError(_no_header(files[0].path, delimiter, facts))
    if len(set(names)) < len(names):
        raise InputError(
            f"the header of {files[0].path.name} has a repeated column name: rename one"
        )
    by_name = {name: facts[place] for place, name in enumerate(names)}
    roles = propose(by_name)
    _check_required(files[0].path.name, roles, names)
    columns = dict(zip(names, values, strict=True))
    _check_events(roles, columns, by_name)
    time = None
    if "time" in roles:
        place = names.index(roles["time"])
        time = _time_of_files(files, dialect, encoding, place, values[place])
    settings = {
        **_format_settings(kind, dialect),
        **_encoding_setting(encoding),
        **_settings(roles, names, by_name, time, keyed=False),
    }
    return Inspection(
        source=source,
        format=kind or "csv",
        files=files,
        encoding=encoding,
        delimiter=delimiter,
        columns=_columns(columns, roles),
        time=time,
        settings=settings,
        doubts=(
            *_encoding_doubts(encoding),
            *_header_doubts(names, facts.values()),
            *_role_doubts(roles, by_name),
            *_time_doubts(time),
            *_clock_doubts(time, columns),
        ),
    )


def _well_known(source: str, files: tuple[TextFile, ...], encoding: Encoding) -> Inspection | None:
    """The inspection of the files of a well-known log."""
    first, fields = sample_rows(files[:1], TABS, encoding.name, 5, most=1)
    guessed = {"shape": "aol"} if is_aol([name.strip() for name in first]) else None
    settings = guessed or guess_shape(files[0].path, files[0].compression)
    if "shape" not in settings:
        return None
    shape = WELL_KNOWN[settings["shape"]]
    if shape.least > 5 or shape.most != 5:
        _, fields = sample_rows(files[:1], TABS, encoding.name, shape.most, most=1)
    unusual = encoding.name not in ("utf-8", "gb18030" if shape.name == "sogou" else "utf-8")
    if unusual or (shape.name == "sogou" and encoding.name == "utf-8"):
        settings = {**settings, "encoding": encoding.name}
    values = dict(zip(shape.columns, fields, strict=True))
    return Inspection(
        source=source,
        format=shape.name,
        files=files,
        encoding=encoding,
        columns=_columns(values, _roles_by_name(shape.columns)),
        settings=settings,
        doubts=_encoding_doubts(encoding),
    )


def _time_of_files(
    files: Sequence[TextFile],
    dialect: Dialect,
    encoding: Encoding,
    place: int,
    sample: Sequence[str],
) -> TimeFormat | None:
    """The format of the times in a column of all records."""
    forms = times.likely([value for value in sample if value.strip()])
    count = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for file in files:
            for number, block in enumerate(records(file, dialect, encoding.name)):
                rows = np.arange(len(block)) >= (1 if number == 0 else 0)
                column = block.at(rows).column(place)
                filled = column.filter(pc.not_equal(pc.utf8_trim_whitespace(column), ""))
                count += len(filled)
                yield pa.record_batch({"v": filled})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"v": pa.string()}), batches())
    formats = times.reads(reader, forms)  # first, since it counts what is given
    return times.choose(formats, count)


def _columns(values: Mapping[str, Sequence[str]], roles: Mapping[str, str]) -> tuple[Column, ...]:
    role_of = {name: role for role, name in roles.items()}
    return tuple(
        Column(name=name, role=role_of.get(name), samples=_first_values(column))
        for name, column in values.items()
    )


def _first_values(values: Sequence[str]) -> tuple[str, ...]:
    """The first few different values, shortened."""
    distinct = dict.fromkeys(value.strip() for value in values[:1000] if value.strip())
    return tuple(v if len(v) <= WIDEST else v[: WIDEST - 3] + "..." for v in [*distinct][:SHOWN])


def _settings(
    roles: Mapping[str, str],
    names: tuple[str, ...],
    facts: Mapping[str, Facts],
    time: TimeFormat | None,
    *,
    keyed: bool,
) -> dict[str, Any]:
    """The options that say what columns are for and how their values are written."""
    settings: dict[str, Any] = {}
    if keyed or _roles_by_name(names) != roles:
        settings["columns"] = _explicit(roles, names)
    if time and time.format != STANDARD:
        settings["time_format"] = time.format
    if "url" in roles and has_ids(roles["url"], facts[roles["url"]]):
        settings["url"] = "id"
    used = {role: facts[name].missing for role, name in roles.items()}
    stated = [t for role, texts in used.items() for t in texts if role not in ("url", "rank")]
    stated += [t for role in ("url",) for t in used.get(role, ()) if t not in MISSING]
    if stated:
        settings["missing"] = tuple(dict.fromkeys(stated))
    return settings


def _explicit(roles: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The roles, and "none" for a role that a column has by its name but not by its content."""
    if unwritable := [name for name in roles.values() if "," in name or name != name.strip()]:
        raise InputError(
            f"the column {unwritable[0]!r:.80} has a comma or outer spaces in its name, and --columns lists "
            "names with commas: rename it"
        )
    unwanted = {role: NONE for role in ROLES if role not in roles and match_role(role, names)}
    return {**roles, **unwanted}


def _format_settings(kind: str | None, dialect: Dialect) -> dict[str, Any]:
    """The options for a format that the file's name does not say."""
    if DIALECTS.get(kind or "") == dialect:
        return {}
    if dialect == TABS:
        return {"format": "tsv"}
    words = {"\t": "tab", " ": "space"}
    return {"delimiter": words.get(dialect.delimiter or "", dialect.delimiter)}


def _encoding_setting(encoding: Encoding) -> dict[str, Any]:
    marked = encoding.name in ("utf-8", "utf-16")  # read without being told
    return {} if marked else {"encoding": encoding.name}


def _encoding_doubts(encoding: Encoding) -> tuple[str, ...]:
    if encoding.sure:
        return ()
    names = ", ".join(encoding.others)
    return (f"The encoding is not clear: {encoding.name} is proposed; others are {names}.",)


def _is_value(text: str) -> bool:
    """Whether a field of a first line is a value, not a name: the sniffer takes urls and most times for text."""
    facts = facts_of([text], times=float(len(times.likely([text])) > 1))
    return bool(not text or facts.numbers or facts.urls or facts.times)


def _header_doubts(names: Sequence[str], facts: Iterable[Facts]) -> tuple[str, ...]:
    """Says if nothing tells names from values: no name is known, and every column is text."""
    typed = any(max(column.numbers, column.urls, column.times) >= TYPED for column in facts)
    if typed or any(map(is_known, names)):
        return ()
    return ("The first line may be a row and not a header.",)


def _time_doubts(time: TimeFormat | None) -> tuple[str, ...]:
    if time is None or not time.others:
        return ()
    names = ", ".join(other or "the standard one" for other in time.others)
    return (f"The format of times is not clear: {time.name} is proposed; {names} fits as well.",)


def _clock_doubts(time: TimeFormat | None, columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Says if the time of day is in a column of its own, which the reader does not add to the day."""
    if time is None or any(letter in time.format for letter in ("%H", "%I")):
        return ()
    clocks = [
        name
        for name, values in columns.items()
        if any(values) and all(_CLOCK.fullmatch(value.strip()) for value in values if value)
    ]
    return tuple(
        f"The times are days only: the time of day is in {name}, which is not read with them."
        for name in clocks[:1]
    )


def _check_required(name: str, roles: Mapping[str, str], columns: tuple[str, ...]) -> None:
    if missing := [role for role in REQUIRED if role not in roles]:
        raise InputError(
            f"no column of {name_of(name)} looks like a {' or a '.join(missing)}. Found: {', '.join(columns)}. A "
            "log needs a column that tells users apart and one with their queries."
        )


def _role_doubts(roles: Mapping[str, str], facts: Mapping[str, Facts]) -> Iterator[str]:
    """Says if a column may be another than the one of a user or a query."""
    for role in REQUIRED:
        if facts[roles[role]].constant:
            yield f"The column {roles[role]} has one value: see that it holds the {role}."
    if any(word in plain_name(roles["user"]) for word in SESSIONS):
        yield f"The column {roles['user']} tells sessions apart: a release then protects a session, not a user."


def _check_events(
    roles: Mapping[str, str], columns: Mapping[str, Sequence[str]], facts: Mapping[str, Facts]
) -> None:
    """Raises if the log is a table of counts: one row a query, with a number and no time."""
    user, query = roles["user"], roles["query"]
    rows, once = len(columns[query]), facts[query].distinct == 1
    if rows >= SEVERAL and once and facts[user].numbers == 1 and "time" not in roles:
        raise InputError(
            f"each query is in one row, with a number in {user!r:.80} and no time: this is a table of counts "
            "and has no users to protect. Export the searches, a row for each."
        )


def _no_header(path: Path, delimiter: Delimiter, facts: Mapping[int, Facts]) -> str:
    by_place = {str(place): column for place, column in facts.items()}
    role_of = {place: role for role, place in propose(by_place).items()}
    line = delimiter.character.join(
        role_of.get(str(place), f"column{place + 1}") for place in sorted(facts)
    )
    return (
        f"the first line of {path.name} looks like a row, so the file has no header. Put a line with "
        f"the names of its {delimiter.fields} columns before it. By their content they may be:\n  {line}"
    )
