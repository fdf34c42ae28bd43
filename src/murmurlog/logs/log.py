"""A log: clean rows of user, time, query, url and rank, and how many rows were dropped on the way.

Rows that cannot be used are dropped and counted by reason; the counts are for the owner and
never reach a bundle. Steps follow A5: parse, drop rows without a user, normalise record by record.
Restricting and screening look at one record at a time, too.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np

from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.progress import measure
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.columns import short
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.likely_causes import likely_causes
from murmurlog.logs.partitions import Partitions
from murmurlog.logs.rows import Rows
from murmurlog.logs.screen import Screen
from murmurlog.logs.source import Source
from murmurlog.logs.source_batches import count_rows, size_of
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.typed_rows import Selection
from murmurlog.privacy.sampler import Entropy, SystemEntropy


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """Clean rows in partitions of units, and how many were dropped on the way (for the owner only)."""

    partitions: Partitions[Rows]
    source: Source
    unit: str
    text_keys: TextKeys
    rows: int
    keyed: int  # rows whose texts have keys: those that are dropped, too
    broken: Mapping[str, int] = field(default_factory=dict)
    screened: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_times(self) -> bool:
        return "time" in self.source.columns

    @property
    def has_urls(self) -> bool:
        return "url" in self.source.columns

    def empty(self) -> "Log":
        """The same log without its rows."""
        return replace(self, partitions=self.partitions.derive(_no_rows), rows=0)


def _no_rows(rows: Rows) -> Rows:
    return rows.at(np.zeros(rows.count, bool))


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
        if column not in source.column_names and not source.is_json:
            raise InputError(
                f'column "{column}" is not in {source.name}. Found: {short(source.column_names)}.'
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
    unit: str = "user",
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Log:
    """The log of a source in partitions of units. `strict` refuses broken rows; url=None leaves the urls out.

    Only rows from `since` on and before `until` are read, and of these only where every column of
    `where` has the given text. `keep` adds columns of the source, as text, by our name for each: names
    of the source must not clash with ours. Queries that `screen` matches or that `deny` lists (an entry
    ending in * is a prefix) are dropped. `keys` names the rules for canonical keys, if those are wanted.
    Texts are keyed with numbers that are drawn from `entropy`.
    """
    if url is not None:
        check_url_level(url)
    keep = keep or {}
    check(source, since=since, until=until, where=where, keep=keep.values())
    say(f"reading {source.name}")
    cleaning = Cleaning(
        timed="time" in source.columns, url=url if "url" in source.columns else None, no_url=source.nothing,
        ranked="rank" in source.columns, keys=keys,
        since=moment_of("--since", since), until=moment_of("--until", until), keep=tuple(keep),
        screen=screen, deny=deny,
    )  # fmt: skip
    selection = Selection(where=where or {}, keep=[*keep.values()], urls=cleaning.url is not None)
    text_keys = TextKeys((entropy or SystemEntropy()).stream("keys"))
    advance = measure(say, total=partial(size_of if source.dialect else count_rows, source))
    result = engine.read(
        source, selection, cleaning, unit=unit, text_keys=text_keys, say=say, advance=advance
    )  # fmt: skip
    log = Log(
        partitions=result.partitions, source=source, unit=unit, text_keys=text_keys, rows=result.counts.rows,
        keyed=result.counts.keyed, broken=_nonzero(result.counts.broken), screened=_nonzero(result.counts.screened),
    )  # fmt: skip
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


def _nonzero(reasons: Mapping[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in sorted(reasons.items()) if number}


def rows_hit(log: Log, screen: Screen) -> dict[str, int]:
    """How many rows each pattern of a screen would drop on its own, for the owner."""
    hits = dict.fromkeys(screen.names, 0)
    for part in log.partitions.results(partial(_rows_hit, screen=screen)):
        for name, number in part.items():
            hits[name] += number
    return hits


def _rows_hit(rows: Rows, *, screen: Screen) -> dict[str, int]:
    queries = rows.texts.take(rows.query.ids)
    number = np.bincount(rows.query.codes, minlength=len(queries))
    hits: dict[str, int] = {}
    places = screen.suspects(queries)
    for place, query in zip(places.to_pylist(), queries.take(places).to_pylist(), strict=True):
        for name in screen.hits(query):
            hits[name] = hits.get(name, 0) + int(number[place])
    return hits


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
