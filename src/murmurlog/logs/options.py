"""Which rows of a log are read, and how: the choices of an owner, as they are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from murmurlog.bundle.options import Option, read_pairs, read_repeated


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What a file is, where its name and header do not say it."""

    columns: Annotated[
        Mapping[str, str] | None,
        Option(
            help="Which column is what: user=uid,query=q,time=ts,url=none.",
            read=read_pairs("--columns"),
        ),
    ] = None
    encoding: Annotated[
        str | None, Option(help="Of text files: utf-8, utf-16, gb18030, latin-1.")
    ] = None
    shape: Annotated[
        str | None,
        Option(help="Files of a well-known log, whatever their names: aol, sogou, excite."),
    ] = None


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
    url: Annotated[str, Option(help="How much of a url to keep: host, path or full.")] = "path"
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
