"""A log: clean rows of user, time, query, url and rank, and how many rows were dropped on the way.

There are three types behind the protocol `Log`: `EncodedLog` holds dictionary-encoded rows, in memory
or in partitions on disk; of a `ClusterLog` workers hold the partitions; `TableLog` has a table of any
engine. Filtering gives a `TableLog`.
Rows that cannot be used are dropped and counted by reason; the counts are for the owner and
never reach a bundle. Steps follow A5: parse, drop rows without a user, normalise record by record.
Restricting and screening look at one record at a time, too.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Protocol

from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.progress import measure
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.cluster_partitions import ClusterPartitions, encode_on_workers
from murmurlog.logs.columns import short
from murmurlog.logs.duckdb_rows import count_rows, raw_rows
from murmurlog.logs.encoded import EncodedRows
from murmurlog.logs.engines.protocol import ClusterEngine, Engine, LocalEngine
from murmurlog.logs.likely_causes import likely_causes
from murmurlog.logs.partitions import Partitions, encode_log
from murmurlog.logs.screen import Screen
from murmurlog.logs.source import Source
from murmurlog.logs.spark_rows import spark_rows
from murmurlog.logs.table_cleaning import clean_table, count_hits

# By the engine's name: what gives every row of a source as it is there.
ROWS: Mapping[str, Callable[..., Any]] = {"duckdb": raw_rows, "spark": spark_rows}


class Log(Protocol):
    """Clean rows, and how many were dropped on the way (for the owner only)."""

    @property
    def engine(self) -> Engine: ...

    @property
    def source(self) -> Source: ...

    @property
    def table(self) -> Any:
        """user, time, query, url, rank, then the columns kept: a table of the engine."""

    @property
    def rows(self) -> int: ...

    @property
    def broken(self) -> Mapping[str, int]: ...

    @property
    def screened(self) -> Mapping[str, int]: ...

    @property
    def has_times(self) -> bool: ...

    @property
    def has_urls(self) -> bool: ...

    def only(self, rows: Any) -> "TableLog":
        """The same log with these rows only, an expression over its table."""

    def empty(self) -> "Log":
        """The same log without its rows."""


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What is known of a log besides its rows."""

    engine: Engine
    source: Source
    broken: Mapping[str, int] = field(default_factory=dict)
    screened: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_times(self) -> bool:
        return "time" in self.source.columns

    @property
    def has_urls(self) -> bool:
        return "url" in self.source.columns

    def only(self, rows: Any) -> "TableLog":
        return TableLog(
            engine=self.engine,
            table=self.engine.materialise(rows),
            source=self.source,
            broken=self.broken,
            screened=self.screened,
        )


@dataclass(frozen=True, kw_only=True)
class TableLog(_Description):
    """A log whose rows are a table of its engine."""

    table: Any

    def empty(self) -> Log:
        return self.only(self.table.limit(0))

    @cached_property
    def rows(self) -> int:
        return int(self.table.count().to_pyarrow().as_py())


@dataclass(frozen=True, kw_only=True)
class EncodedLog(_Description):
    """A log whose rows are dictionary-encoded."""

    engine: LocalEngine
    encoded: EncodedRows | Partitions

    @property
    def rows(self) -> int:
        return self.encoded.rows

    def empty(self) -> Log:
        return replace(self, encoded=self.encoded.empty())

    @cached_property
    def table(self) -> Any:
        return self.engine.show(self.encoded.table())


@dataclass(frozen=True, kw_only=True)
class ClusterLog(_Description):
    """A log whose dictionary-encoded rows the workers of a cluster hold."""

    engine: ClusterEngine
    partitions: ClusterPartitions

    @property
    def rows(self) -> int:
        return self.partitions.rows

    def empty(self) -> Log:
        return replace(self, partitions=self.partitions.empty())

    @cached_property
    def table(self) -> Any:
        return self.partitions.table()


def check(
    source: Source,
    *,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
) -> None:
    """Raises unless `read` can apply these restrictions and keep these columns. Reads no row."""
    start, end = moment_of("--since", since), moment_of("--until", until)
    if start and end and start >= end:
        raise UsageError(f"--since {since} is not before --until {until}: no row can be between")
    if (start or end) and "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so --since and --until cannot be applied. "
            "Map one with --columns time=..."
        )
    for column in (*(where or {}), *keep):
        # The keys of JSON are in the rows, which are not read here.
        if column not in source.found and not source.keyed:
            raise InputError(
                f'column "{column}" is not in {source.name}. Found: {short(source.found)}.'
            )


def read(
    source: Source,
    *,
    engine: Engine,
    url: str | None = "path",
    keys: str | None = None,
    strict: bool = False,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Mapping[str, str] | None = None,
    screen: Screen | None = None,
    deny: frozenset[str] = frozenset(),
    say: Callable[[str], None] = lambda _: None,
) -> Log:
    """The log of a source. `strict` refuses broken rows; url=None leaves the urls out.

    Only rows from `since` on and before `until` are read, and of these only where every column of
    `where` has the given text. `keep` adds columns of the source, as text, by our name for each: names
    of the source must not clash with ours. Queries that `screen` matches or that `deny` lists (an entry
    ending in * is a prefix) are dropped. `keys` names the rules for canonical keys, if those are wanted.
    """
    if url is not None:
        check_url_level(url)
    kept = dict(keep or {})
    check(source, since=since, until=until, where=where, keep=kept.values())
    say(f"reading {source.name}")
    cleaning = Cleaning(
        timed="time" in source.columns, url=url if "url" in source.columns else None, keys=keys,
        since=moment_of("--since", since), until=moment_of("--until", until), keep=tuple(kept),
        screen=screen, deny=deny,
    )  # fmt: skip
    rows = ROWS[engine.name](source, engine, cleaning.broken, where or {}, [*kept.values()], say)
    say("normalising text")
    log = _clean(rows, engine, cleaning, source, measure(say, total=partial(count_rows, source)))
    if strict and log.broken:
        raise InputError(
            f"{source.name} has {sum(log.broken.values())} broken rows ({_list_reasons(log.broken)}) and "
            "--strict is set. Repair them, or leave --strict out to drop them."
        )
    if log.rows == 0:
        why = _list_reasons({**log.broken, **log.screened}) or "there are none"
        if since or until or where:
            why += "; others are outside the period or excluded by --where"
        elif not log.broken and not log.screened:
            why += ". See that the export wrote all of it"
        causes = "".join(f" Likely cause: {cause}." for cause in likely_causes(source, log.broken))
        raise InputError(f"{source.name} has no usable rows: {why}{'.' if causes else ''}{causes}")
    return log


def _clean(
    rows: Any, engine: Engine, cleaning: Cleaning, source: Source, advance: Callable[[int], None]
) -> Log:
    """The log of a source's rows: encoded, here or on the workers, if there is room."""
    local = engine.local
    encoded = None if local is None else encode_log(rows, local, cleaning, advance)
    if local is not None and encoded is not None:
        return EncodedLog(engine=local, encoded=encoded, source=source, **_counts(cleaning))
    cluster = engine.cluster
    partitions = None if cluster is None else encode_on_workers(rows, cluster, cleaning)
    if cluster is not None and partitions is not None:
        return ClusterLog(engine=cluster, partitions=partitions, source=source, **_counts(cleaning))
    table = clean_table(rows, engine, cleaning)
    return TableLog(engine=engine, table=table, source=source, **_counts(cleaning))


def _counts(cleaning: Cleaning) -> dict[str, dict[str, int]]:
    counts = {"broken": cleaning.broken, "screened": cleaning.screened}
    return {
        name: {reason: n for reason, n in sorted(of.items()) if n} for name, of in counts.items()
    }


def rows_hit(log: Log, screen: Screen) -> dict[str, int]:
    """How many rows each pattern of a screen would drop on its own, for the owner."""
    found = count_hits(log.table, log.engine, screen.hits, suspect=screen.needs)
    return dict.fromkeys(screen.names, 0) | found


def _list_reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} x {reason}" for reason, n in reasons.items())


def moment_of(flag: str, text: str | None) -> datetime | None:
    """An ISO date or time as a moment in UTC, without a zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is not a date or time: write 2026-01-31 or 2026-01-31T18:00:00"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
