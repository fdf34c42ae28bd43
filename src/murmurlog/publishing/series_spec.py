"""The description of a series of releases: a small TOML file, read, checked and written.

Its keys are the flags of `murmurlog series init`; its table [release] takes those of `release` that the
series does not set itself. Imports nothing heavy: --help reads it.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option, options_of, read_list, read_number
from murmurlog.errors import UsageError, did_you_mean
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.running import Running
from murmurlog.publishing.request import Booking, Budget, Content, Statements
from murmurlog.publishing.series_periods import FORMS, Period

RELEASES = {"month": 12, "week": 52, "day": 365}  # a year's
ALL, OWN = "all", "period"  # what keys are selected from
LEDGER = "budget.db"
LOOKED_AT = 1000  # periods whose paths must differ
# What a series says for each of its releases.
SET_BY_SERIES = (
    *(
        "out",
        "ledger",
        "source",
        "new-source",
        "same-users",
        "epsilon",
        "delta",
        "of-cap",
        "tables",
        "after",
    ),
    *("select-from", "count-from", "dry-run", "json"),
)


def _read_select(text: str) -> str | int:
    """all, period, or a number of periods."""
    if text in (ALL, OWN):
        return text
    try:
        return integer(text)
    except ValueError:
        raise UsageError(f"{text!r:.60}: write all, period, or a number of periods") from None


@dataclass(frozen=True, kw_only=True)
class SeriesOptions:
    """Series."""

    name: Annotated[
        str | None,
        Option(
            help="Of the series, in the ledger; do not change it. Default: the source.",
            variable=False,
        ),
    ] = None
    logs: Annotated[
        str | None,
        Option(
            help="The log of a period: 'logs/{period}.parquet', 'logs/%Y/%m/*.csv'.", variable=False
        ),
    ] = None
    period: Annotated[str, Option(help="month, week or day (UTC).", variable=False)] = "month"
    first: Annotated[
        str | None,
        Option(
            help="The first period, such as 2026-01. Default: the last that is over.",
            variable=False,
        ),
    ] = None
    last: Annotated[
        str | None, Option(help="The last period. Default: the series goes on.", variable=False)
    ] = None
    skip: Annotated[
        Sequence[str],
        Option(
            help="Periods without a log, which are never released.", read=read_list, variable=False
        ),
    ] = ()
    out: Annotated[str, Option(help="The bundle of a period.", variable=False)] = "bundles/{period}"
    ledger: Annotated[
        str | None,
        Option(help="The ledger file. Default: the one beside SPEC, or budget.db.", variable=False),
    ] = None
    source_name: Annotated[
        str | None,
        Option(
            alias="--source",
            help="The population of users, as the ledger calls it.",
            variable=False,
        ),
    ] = None
    epsilon: Annotated[
        float | None,
        Option(
            help="Of the cap: all releases of the source together.",
            read=read_number,
            variable=False,
        ),
    ] = None
    delta: Annotated[
        float | None,
        Option(
            help="Of the cap: all releases of the source together.",
            read=read_number,
            variable=False,
        ),
    ] = None
    releases: Annotated[
        int | None,
        Option(
            help="How many releases the cap is meant for. Default: those of a year.",
            read=integer,
            variable=False,
        ),
    ] = None
    tables: Annotated[
        Sequence[str],
        Option(
            help="Of keyword, query, pair, click. Default query.", read=read_list, variable=False
        ),
    ] = ("query",)
    select: Annotated[
        str | int,
        Option(
            help="Select keys from all rows so far, from the period, or from so many periods: all, period, N.",
            read=_read_select,
            variable=False,
        ),
    ] = ALL
    after: Annotated[
        bool,
        Option(
            help="Count keys that the series published before without selecting them.",
            switch=True,
            variable=False,
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A series as it is described; paths are relative to the folder of its file."""

    name: str
    logs: str
    first: Period
    last: Period | None
    skip: tuple[Period, ...]
    out: str
    ledger: str
    source: str
    epsilon: float
    delta: float
    releases: int
    tables: tuple[str, ...]
    select: str | int
    after: bool
    release: Mapping[str, Any] = field(default_factory=dict)  # keywords of `release`

    def __post_init__(self) -> None:
        if self.last is not None and self.last < self.first:
            raise UsageError(f"last {self.last} is before first {self.first}")
        if self.releases < 1:
            raise UsageError(f"releases must be at least 1, not {self.releases}")
        if isinstance(self.select, int) and self.select < 1:
            raise UsageError(f"select must be at least one period, not {self.select}")
        for key in ("logs", "out"):
            pattern = getattr(self, key)
            if "://" in pattern or "::" in pattern:
                raise UsageError(f"{key} {pattern!r:.80} must be a path on this machine")
            if not pattern or "\0" in pattern:
                raise UsageError(f"{key} is no path: write a pattern such as data/{{period}}")
            texts = [period.fill(pattern) for period in islice(self.periods(), LOOKED_AT)]
            if len(set(texts)) < len(texts):
                raise UsageError(
                    f"{key} {pattern!r:.80} names one path for several periods: write {{period}}, or all of "
                    f"{FORMS[self.first.kind]}, in it"
                )

    def periods(self) -> Iterator[Period]:
        """Every period of the series, in order."""
        period = self.first
        while self.last is None or period <= self.last:
            if period not in self.skip:
                yield period
            period = period.next

    def window(self, period: Period) -> list[Period]:
        """The periods from which keys of a release are selected, the last one its own."""
        before = list(takewhile(lambda earlier: earlier < period, self.periods()))
        if isinstance(self.select, int):
            before = before[max(0, len(before) - self.select + 1) :]
        return [*(before if self.select != OWN else ()), period]

    def bundle(self, period: Period) -> Path:
        return Path(period.fill(self.out))


def read_spec(path: Path) -> Spec:
    """The series that a file describes."""
    try:
        stated = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {str(path)!r}: 'murmurlog series init' writes one"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is not TOML: {str(error)[:200]}") from None
    try:
        more = stated.pop("release", {})
        if not isinstance(more, dict):
            raise UsageError("release is a table of settings: write [release]")
        options = {option.flag[2:]: option for option in options_of(SeriesOptions)}
        for key in stated:
            if key not in options:
                raise UsageError(f"there is no key {key!r:.60}.{did_you_mean(key, options)}")
        values = {options[key].name: _value(options[key], value) for key, value in stated.items()}
        for key in ("first", "epsilon", "delta"):
            if key not in values:
                raise UsageError(f"{key} is missing")
        return replace(spec_of(SeriesOptions(**values)), release=release_keywords(more))
    except UsageError as error:
        raise UsageError(f"{path.name}: {error}") from None


def release_keywords(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a release that a table [release] says."""
    from murmurlog.mechanisms import declared_options  # late: --help answers at once

    groups = (Budget, Content, ReadOptions, Booking, Running, Statements)
    options = {option.flag[2:]: option for group in groups for option in options_of(group)}
    options |= {option.flag[2:]: option for option, _ in declared_options().values()}
    for key in stated:
        if key in SET_BY_SERIES:
            raise UsageError(f"[release] {key} is set by the series itself: leave it out")
        if key not in options:
            raise UsageError(
                f"[release] has no setting {key!r:.60}; settings are named as the flags of release are."
                f"{did_you_mean(key, options)}"
            )
    return {options[key].name: _value(options[key], value) for key, value in stated.items()}


def _value(option: Option, stated: Any) -> Any:
    """A TOML value as if it were written after the flag."""
    if option.switch:
        if not isinstance(stated, bool):
            raise UsageError(f"{option.flag[2:]} is true or false, not {stated!r:.60}")
        return stated
    if isinstance(stated, bool):
        raise UsageError(f"{option.flag[2:]} takes a value, not {str(stated).lower()}")
    if isinstance(stated, dict):
        stated = [f"{name}={value}" for name, value in stated.items()]
    texts = [str(item) for item in stated] if isinstance(stated, list) else [str(stated)]
    return option.value(texts if option.repeated else ",".join(texts))


def spec_of(options: SeriesOptions, *, now: datetime | None = None) -> Spec:
    """The series that options describe; raises if one is wrong, or one without a default is missing."""
    from murmurlog.publishing.ledger_names import check_name

    if options.period not in FORMS:
        raise UsageError(f"period {options.period!r:.60} is unknown: use {', '.join(FORMS)}")
    missing = [name for name in ("logs", "source_name") if not getattr(options, name)]
    if missing:
        raise UsageError(f"{'source' if missing[0] == 'source_name' else 'logs'} is missing")
    assert options.logs is not None
    assert options.source_name is not None
    name = options.name or options.source_name
    for text in (name, options.source_name):
        check_name(text)
    over = Period.at((now or datetime.now(UTC)).date(), options.period).previous
    return Spec(
        name=name, logs=options.logs,
        first=Period.parse(options.first, options.period) if options.first else over,
        last=Period.parse(options.last, options.period) if options.last else None,
        skip=tuple(Period.parse(text, options.period) for text in options.skip),
        out=options.out, ledger=options.ledger or LEDGER, source=options.source_name,
        epsilon=options.epsilon or 0.0, delta=options.delta or 0.0,
        releases=RELEASES[options.period] if options.releases is None else options.releases,
        tables=tuple(options.tables), select=options.select, after=options.after,
    )  # fmt: skip


def write_spec(spec: Spec, path: Path) -> None:
    """Writes a series as a file with comments, which must not exist."""
    check_spec_target(path)
    # 644 at most, whatever the umask is: whoever writes this file decides what is published.
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8"
    ) as file:
        file.write(as_toml(spec))
        file.flush()
        os.fsync(file.fileno())


def check_spec_target(path: Path) -> None:
    """Raises unless the file can be written without touching an existing one."""
    if path.suffix != ".toml":
        raise UsageError(f"{path.name!r} must end in .toml: it holds the settings of a series")
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{str(path)!r} exists: change it with an editor, or name another file for another series"
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{str(path)!r}: there is no folder that could be written: make it first")


def as_toml(spec: Spec) -> str:
    """The file of a series."""
    lines = [
        "# A series of releases under one cap. Publish what is due: murmurlog series run FILE",
        "# Paths are relative to the folder of this file. {period} is a period such as "
        f"{spec.first}; %Y, %m, %d,",
        "# %G and %V are parts of its first day.",
        "",
        _line("name", spec.name, "in the ledger, which knows by it what was published: do not change it"),
        _line("source", spec.source, "the population of users, as the ledger calls it"),
        _line("ledger", spec.ledger, "the ledger file"),
        "",
        _line("logs", spec.logs, "the log of a period; complete as soon as it is there"),
        _line("out", spec.out, "the bundle of a period"),
        _line("period", spec.first.kind, "month, week or day, in UTC"),
        _line("first", str(spec.first), "earlier periods are never released"),
        _line("last", str(spec.last), "the series ends with it")
        if spec.last
        else '# last = "..."  # the series ends with it',
        _line("skip", [str(period) for period in spec.skip], "periods without a log: never released"),
        "",
        "# The cap of the source, for all its releases together, and how many releases share it.",
        _line("epsilon", spec.epsilon),
        _line("delta", spec.delta),
        _line("releases", spec.releases, "each spends this part of the cap; more are refused"),
        "",
        _line("tables", list(spec.tables), "of keyword, query, pair, click"),
        _line("select", spec.select, 'keys come from: "all" rows so far, the "period", or so many periods'),
        _line("after", spec.after, "count the keys that the series published before, too (by rounds)"),
        "",
        "# Other settings of every release, named as the flags of murmurlog release.",
        "[release]",
        "# per-user = 100",
        "# users = 100000",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any, why: str = "") -> str:
    return f"{key} = {json.dumps(value)}" + (f"  # {why}" if why else "")
