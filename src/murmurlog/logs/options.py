"""Which rows of a log are read, and how: the choices of an owner, as they are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from murmurlog.bundle.canonical import check_keys
from murmurlog.bundle.options import (
    Group,
    Option,
    read_list,
    read_number,
    read_pairs,
    read_repeated,
)
from murmurlog.errors import UsageError
from murmurlog.logs.delimiters import check_delimiter
from murmurlog.logs.encodings import check_encoding
from murmurlog.logs.times import check_time_format


def _check_missing(value: Any) -> tuple[str, ...]:
    texts = tuple(read_list(value) if isinstance(value, str) else value)
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"--missing must be text in UTF-8, not {text!r:.60}") from None
    return texts


FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")


@dataclass(frozen=True, kw_only=True)
class SourceOptions(Group):
    """What a file is, where its name and header do not say it."""

    columns: Annotated[
        Mapping[str, str] | None,
        Option(
            help="Which column is what: user=uid,query=q,time=ts,url=none.",
            read=read_pairs("--columns"),
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(help="Whatever the files' names: csv, tsv, jsonl, json, parquet. Needed for -."),
    ] = None
    delimiter: Annotated[
        str | None,
        Option(help="Between fields, quoted as in CSV: ';', tab, comma, semicolon, pipe, space."),
    ] = None
    encoding: Annotated[
        str | None,
        Option(help="Of text files: utf-8, utf-16, latin-1, cp1252, gb18030 and others."),
    ] = None
    time_format: Annotated[
        str | None, Option(help="Of times in text that are not ISO 8601: '%d.%m.%Y %H:%M'.")
    ] = None
    missing: Annotated[
        Sequence[str] | None,
        Option(
            help="What stands for no user, query, time or url: '-,NULL'.",
            read=read_list,
            kind=Sequence[str] | str | None,
        ),
    ] = None
    shape: Annotated[
        str | None,
        Option(help="Files of a well-known log, whatever their names: aol, sogou, excite."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format is not None and self.format not in FORMATS:
            raise UsageError(
                f"--format must be one of {', '.join(FORMATS)}, not {self.format!r:.60}"
            )
        checks: dict[str, Callable[[Any], Any]] = {
            "delimiter": check_delimiter,
            "encoding": check_encoding,
            "time_format": check_time_format,
            "missing": _check_missing,
        }
        for name, check in checks.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check(value))


@dataclass(frozen=True, kw_only=True)
class ReadOptions(SourceOptions):
    """Reading the log.

    Which rows are read and how their text is cleaned. All of it is public.
    """

    since: Annotated[str | None, Option(help="Rows from this day or time on (UTC).")] = None
    until: Annotated[str | None, Option(help="Rows before this day or time (UTC).")] = None
    where: Annotated[
        Mapping[str, str] | None,
        Option(
            help="Rows with this value only: column=value; once for each.",
            read=read_repeated("--where"),
            repeated=True,
            variable=False,
        ),
    ] = None
    url: Annotated[
        str, Option(help="How much of a url to keep: host, path, full; id: documents as they are.")
    ] = "path"
    keys: Annotated[
        str,
        Option(help="Which texts are one query: normalised, or canonical (www.x.com is x)."),
    ] = "normalised"
    screen: Annotated[
        bool,
        Option(help="Drop rows that look like personal data.", switch=True, variable=False),
    ] = True
    patterns: Annotated[
        str | Path | None, Option(help="Patterns of the screen, a TOML file.", read=Path)
    ] = None
    deny: Annotated[
        str | Path | None, Option(help="Queries never to publish, one a line.", read=Path)
    ] = None
    strict: Annotated[
        bool, Option(help="Refuse broken rows instead of dropping them.", switch=True)
    ] = False
    max_broken: Annotated[
        float,
        Option(help="Stop if more than this share of the rows is broken.", read=read_number),
    ] = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_keys(self.keys)
        if not 0 <= self.max_broken <= 1:
            raise UsageError(f"--max-broken is a share from 0 to 1, not {self.max_broken!r:.60}")
