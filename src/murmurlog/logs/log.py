"""A log, read: rows of user, time, query, url with normalised text, in the engine.

Rows that cannot be used are dropped and counted by reason; the counts are for the owner and
never reach a bundle. Steps follow A5: parse, drop rows without a user, normalise record by record.
Restricting and screening look at one record at a time, too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import ibis
import pyarrow as pa

from murmurlog.bundle.keys import ODD, check_url_level, clean_url, normalise
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.columns import short
from murmurlog.logs.duckdb_rows import STANDARD, raw_rows
from murmurlog.logs.encoded import Cleaning, Coded
from murmurlog.logs.engines.duckdb import DuckEngine, Engine
from murmurlog.logs.engines.spark import SparkEngine
from murmurlog.logs.partitions import Parts, gathered
from murmurlog.logs.screen import Screen, matcher
from murmurlog.logs.source import Source
from murmurlog.logs.spark_rows import spark_rows


@dataclass(frozen=True, kw_only=True)
class Log:
    """Clean rows in the engine, and what was dropped on the way (for the owner's eyes)."""

    engine: Engine
    table: Any  # user, time, query, url, rank, then the columns kept; ibis, materialised
    source: Source
    rows: int
    broken: Mapping[str, int] = field(default_factory=dict)
    screened: Mapping[str, int] = field(default_factory=dict)
    coded: tuple[Any, Coded | Parts] | None = None  # a table, and its rows as numbers

    @property
    def numbers(self) -> Coded | Parts | None:
        """The rows as numbers, if they are known and are those of the table."""
        return self.coded[1] if self.coded and self.coded[0] is self.table else None

    @property
    def has_times(self) -> bool:
        return "time" in self.source.columns

    @property
    def has_urls(self) -> bool:
        return "url" in self.source.columns


def check(
    source: Source,
    *,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
) -> None:
    """Raises unless `read` can restrict the source so and keep these columns. Looks at no row."""
    start, end = _moment("--since", since), _moment("--until", until)
    if start and end and start >= end:
        raise UsageError(f"--since {since} is not before --until {until}: no row can be between")
    if (start or end) and "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so --since and --until cannot be kept to. "
            "Map one with --columns time=..."
        )
    for column in (*(where or {}), *keep):
        # Keys of JSON stand in rows only, at which nobody looks here.
        if column not in source.found and source.format != "jsonl":
            raise InputError(
                f'column "{column}" is not in {source.name}. Found: {short(source.found)}.'
            )


def read(
    source: Source,
    *,
    engine: DuckEngine | SparkEngine,
    url: str = "path",
    urls: bool = True,
    strict: bool = False,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    keep: Mapping[str, str] | None = None,
    screen: Screen | None = None,
    deny: frozenset[str] = frozenset(),
    say: Callable[[str], None] = lambda _: None,
) -> Log:
    """The log of a source. `strict` refuses broken rows; urls=False leaves the urls out.

    Only rows from `since` on and before `until` are read, and of these only where every column of
    `where` has the text given. `keep` adds columns of the source, as text, each under a name that we
    choose: what a source calls its columns must never meet a name of ours. Queries that `screen`
    finds something in or that `deny` lists (one ending in * as a prefix) are dropped.
    """
    check_url_level(url)
    kept = dict(keep or {})
    check(source, since=since, until=until, where=where, keep=kept.values())
    say(f"reading {source.name}")
    broken: dict[str, int] = {}
    if isinstance(engine, SparkEngine):
        raw = spark_rows(source, engine, broken, where or {}, [*kept.values()], say)
    else:
        raw = raw_rows(source, engine, broken, where or {}, [*kept.values()], say)
    say("normalising text")
    screened: dict[str, int] = {}
    steps = _Steps(
        url=url if urls and "url" in source.columns else None,
        since=_moment("--since", since), until=_moment("--until", until), keep=tuple(kept),
        screen=screen, deny=deny, broken=broken, screened=screened,
    )  # fmt: skip
    if isinstance(engine, DuckEngine):
        table, rows, coded = _as_numbers(raw, engine, steps)
    else:
        table, rows, coded = _as_texts(raw, engine, steps)
    screened = dict(sorted(screened.items()))
    broken = {reason: n for reason, n in sorted(broken.items()) if n}
    if strict and broken:
        raise InputError(
            f"{source.name} has {sum(broken.values())} broken rows ({_listed(broken)}) and "
            "--strict is set. Mend them, or leave --strict out to drop them."
        )
    if rows == 0:
        why = _listed(broken | screened) or "there are none"
        if since or until or where:
            why += "; others are not in the period or not of the kind asked for"
        raise InputError(f"{source.name} has no usable rows: {why}")
    return Log(
        engine=engine, table=table, source=source, rows=rows, broken=broken, screened=screened,
        coded=None if coded is None else (table, coded),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """What happens to the rows of a source, and where it is counted."""

    url: str | None  # the level that urls are cut at; None to leave them out
    since: datetime | None
    until: datetime | None
    keep: tuple[str, ...]
    screen: Screen | None
    deny: frozenset[str]
    broken: dict[str, int]
    screened: dict[str, int]


def _as_numbers(
    raw: Any, engine: DuckEngine, steps: _Steps
) -> tuple[Any, int, Coded | Parts | None]:
    """The usable rows as a table, how many there are, and the same rows as numbers."""
    cleaning = Cleaning(
        url=steps.url,
        keep=steps.keep,
        since=steps.since,
        until=steps.until,
        why=_reason(steps.screen, steps.deny) if steps.screen or steps.deny else None,
        needs=_needs(steps.screen, steps.deny),
        broken=steps.broken,
        screened=steps.screened,
    )
    coded = gathered(raw, engine, cleaning)
    if coded is None:
        return _as_texts(raw, engine, steps)
    return engine.show(coded.table()), coded.rows, coded


def _as_texts(raw: Any, engine: Engine, steps: _Steps) -> tuple[Any, int, Coded | Parts | None]:
    """The same rows by what every engine can do, without numbers."""
    table = _cleaned(raw, engine, steps.url)
    kept = _between(table, steps.broken, steps.since, steps.until)
    kept = _usable(kept, steps.broken, steps.keep)
    if steps.screen or steps.deny:
        kept = _screened(kept, engine, steps.screen, steps.deny, steps.screened)
    return kept, int(kept.count().to_pyarrow().as_py()), None


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} x {reason}" for reason, n in reasons.items())


def _moment(flag: str, text: str | None) -> datetime | None:
    """An ISO date or time as a moment in UTC, without a zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is no date or time: write 2026-01-31 or 2026-01-31T18:00:00"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _cleaned(raw: Any, engine: Engine, url: str | None) -> Any:
    """The rows with clean text; `timed` and `linked` say that a time or a url was given."""
    queries = _map(raw.query, engine, normalise, skip=_already_normal)
    joined = raw.left_join(queries, raw.query == queries.raw_query)
    columns = {
        "user": raw.user.nullif(""),
        "time": raw.time,
        "query": ibis.ifelse(_already_normal(raw.query), raw.query, queries.clean_query),
        "url": ibis.null("string"),
        "rank": ibis.null("int32"),
        "timed": raw.timed,
        "linked": ibis.literal(False),
    }
    if url is not None:
        urls = _map(raw.url, engine, partial(clean_url, level=url))
        joined = joined.left_join(urls, raw.url == urls.raw_url)
        columns |= {"url": urls.clean_url, "linked": raw.url.nullif("").notnull()}
        columns |= {"rank": raw["rank"]}
    columns |= {name: raw[name].nullif("") for name in raw.columns if re.fullmatch(r"k\d+", name)}
    return engine.materialise(joined.select(**columns))


def _already_normal(text: Any) -> Any:
    """Whether `normalise` would change nothing, said so that every engine understands the same."""
    odd = text.re_search(ODD) | text.startswith(" ") | text.endswith(" ") | (text == "")
    return ~odd


def _map(
    column: Any,
    engine: Engine,
    function: Callable[[str], str | None],
    *,
    skip: Callable[[Any], Any] | None = None,
) -> Any:
    """A table (raw_..., clean_...) over the distinct strings of a column, cleaned in Python.

    Strings that are to be skipped are left out.
    """
    name = column.get_name()
    schema = pa.schema([(f"raw_{name}", pa.string()), (f"clean_{name}", pa.string())])
    distinct = column.as_table().filter(column.notnull()).distinct()
    if skip:
        distinct = distinct.filter(~skip(distinct[name]))

    def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
        raw = batch.column(0)
        cleaned = pa.array([function(text) for text in raw.to_pylist()], pa.string())
        return pa.RecordBatch.from_arrays([raw, cleaned], schema=schema)

    return engine.filled(schema, distinct, clean)


def _between(
    table: Any, broken: dict[str, int], since: datetime | None, until: datetime | None
) -> Any:
    """The rows of a period; those whose time was not given are broken then."""
    if since is None and until is None:
        return table
    untimed = ~table.timed & table.user.notnull() & table.query.notnull()
    broken["no time"] = int(untimed.sum().to_pyarrow().as_py() or 0)
    inside = ibis.literal(True)
    if since:
        inside &= table.time >= ibis.literal(since)
    if until:
        inside &= table.time < ibis.literal(until)
    # Rows without a user, a query or a readable time stay, to be counted as such.
    return table.filter(~untimed & (table.time.isnull() | inside))


def _usable(table: Any, broken: dict[str, int], keep: Sequence[str]) -> Any:
    """The rows with a user, a query and no unreadable time; counts the others.

    A row whose url is unreadable is counted too, but stays, as a query without a click.
    """
    no_user = table.user.isnull()
    no_query = table.query.isnull()
    bad_time = table.timed & table.time.isnull()
    bad_url = table.linked & table.url.isnull()
    reasons = {
        "no user": no_user,
        "no query": ~no_user & no_query,
        "unreadable time": ~no_user & ~no_query & bad_time,
        "unreadable url": ~no_user & ~no_query & ~bad_time & bad_url,
    }
    counted = (
        table.aggregate(
            **{f"n{i}": condition.sum() for i, condition in enumerate(reasons.values())}
        )
        .to_pyarrow()
        .to_pylist()[0]
    )
    for i, reason in enumerate(reasons):
        broken[reason] = counted[f"n{i}"] or 0
    kept = table.filter(~(no_user | no_query | bad_time))
    return kept.select(*STANDARD, **{name: kept[f"k{i}"] for i, name in enumerate(keep)})


def _screened(
    kept: Any, engine: Engine, screen: Screen | None, deny: frozenset[str], counts: dict[str, int]
) -> Any:
    """The rows without a hit; counts the others, each once, by the first reason."""
    found = _hits(kept, engine, _reason(screen, deny), needs=_needs(screen, deny))
    counts |= _rows_by_reason(kept, found)
    return kept.anti_join(found, kept.query == found.hit) if counts else kept


def _reason(screen: Screen | None, deny: frozenset[str]) -> Callable[[str], list[str]]:
    """The first reason to drop a normalised query, if there is one."""
    denied = matcher(deny, normalise)

    def why(query: str) -> list[str]:
        if denied(query):
            return ["denied"]
        return [f"screened: {name}" for name in (screen.hits(query) if screen else [])][:1]

    return why


def _needs(screen: Screen | None, deny: frozenset[str]) -> str | None:
    """Characters of which every query that is dropped has one; None if there is no such set."""
    return None if deny or not screen else screen.needs


def rows_hit(log: Log, screen: Screen) -> dict[str, int]:
    """How many rows each pattern of a screen would drop by itself, for the owner."""
    found = _hits(log.table, log.engine, screen.hits, needs=screen.needs)
    return dict.fromkeys(screen.names, 0) | _rows_by_reason(log.table, found)


def _hits(
    rows: Any, engine: Engine, reasons: Callable[[str], list[str]], *, needs: str | None
) -> Any:
    """A table (hit, reason) over the distinct queries that there is a reason to drop.

    Queries without any character of `needs` are not looked at.
    """
    schema = pa.schema([("hit", pa.string()), ("reason", pa.string())])
    distinct = rows.select("query").distinct()
    if needs is not None:
        distinct = distinct.filter(distinct.query.re_search(f"[{re.escape(needs)}]"))

    def find(batch: pa.RecordBatch) -> pa.RecordBatch:
        pairs = [(q, why) for q in batch.column(0).to_pylist() for why in reasons(q)]
        columns = [pa.array([pair[i] for pair in pairs], pa.string()) for i in (0, 1)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return engine.filled(schema, distinct, find)


def _rows_by_reason(rows: Any, found: Any) -> dict[str, int]:
    counted = rows.join(found, rows.query == found.hit).group_by("reason").agg(n=ibis._.count())
    return {row["reason"]: row["n"] for row in counted.order_by("reason").to_pyarrow().to_pylist()}
