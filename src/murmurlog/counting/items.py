"""What is counted: the items each privacy unit holds, as (unit, time, key columns) per row.

The unit is assigned here, before anything is counted: a user, a user's month, week or day, or a
session. Units with time drop rows without one (A6).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias

import ibis
import pyarrow as pa

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import KEYS, SEVERAL, By, keys_of
from murmurlog.counting.holdings import PERIODS, Cuts, Finder, Holdings
from murmurlog.counting.public_sets.labels import Labels
from murmurlog.errors import InputError, UsageError, did_you_mean
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import ClusterLog, EncodedLog, Log
from murmurlog.logs.source import Source
from murmurlog.privacy import check_unit


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What is known of items besides their rows."""

    engine: Engine
    kind: str
    keys: tuple[str, ...]
    unit: str
    timed: bool

    def with_table(self, table: Any, **changes: Any) -> "TableItems":
        """Items of the same description but for these changes, with the rows of another table."""
        same = {each.name: getattr(self, each.name) for each in fields(_Description)}
        return TableItems(**{**same, **changes}, table=table)


@dataclass(frozen=True, kw_only=True)
class TableItems(_Description):
    """Every item of every unit, as often as it occurs; not bounded, so nothing may count it."""

    table: Any  # unit, time, the key columns, then the columns `also`


@dataclass(frozen=True, kw_only=True)
class EncodedItems(_Description):
    """The same where an encoded log holds the items."""

    log: EncodedLog | ClusterLog
    gap: float
    longest: int | None
    known: pa.Table | None  # only items of these keys of the query table
    also: tuple[str, ...]
    since: datetime | None = None  # only rows from then on
    excluded: pa.Table | None = None  # keys that are left out
    by: By | None = None  # a column whose value is part of the item

    @cached_property
    def table(self) -> Any:
        rows = _rows(
            self.log, kind=self.kind, unit=self.unit, by=self.by, known=self.known,
            since=self.since, gap=self.gap, longest=self.longest,
        )  # fmt: skip
        if self.excluded is not None:
            rows = rows.anti_join(self.engine.keep(self.excluded), list(self.keys))
        return rows.select("unit", "time", *self.keys, *self.also)

    @property
    def finder(self) -> Finder:
        """How the items of a partition are found."""
        return Finder(
            kind=self.kind,
            unit=self.unit,
            known=self.known,
            cuts=Cuts(
                gap=_longest(self.gap), longest=self.longest, by=self.by.column if self.by else None
            ),
            since=self.since,
            excluded=self.excluded,
            by=self.by,
        )

    def holdings(self) -> Iterator[Holdings]:
        """The items as codes, one partition of the log after the other; no unit is in two."""
        if isinstance(self.log, EncodedLog):
            find = self.finder
            for rows in self.log.encoded.partitions():
                held = find(rows)
                del rows
                yield held
                del held  # before the next partition is loaded


Items: TypeAlias = TableItems | EncodedItems


def check(source: Source, *, kind: str, unit: str, by: bool = False) -> None:
    """Raises if the source lacks columns that the kind or the unit needs."""
    if by and kind in SEVERAL:
        raise UsageError(
            f"--by does not go with a {kind} table: its rows come from several records"
        )
    if kind not in KEYS:
        raise UsageError(
            f"unknown table {kind!r:.60}: use one of {', '.join(KEYS)}.{did_you_mean(kind, KEYS)}"
        )
    check_unit(unit)
    if kind in ("click", "log") and "url" not in source.columns:
        raise InputError(
            f"{source.name} has no column of clicked urls, so there is no {kind} table. "
            f"Map one with --columns url=..., or leave {kind} out of --tables."
        )
    if unit != "user" and "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so there are no units {unit!r}. "
            "Map one with --columns time=..., or use --unit user."
        )
    if kind in ("pair", "session") and "time" not in source.columns:
        raise InputError(
            f"there are no subsequent queries in {source.name}, so no {kind} table: it has no time "
            f"column. Leave {kind} out of --tables."
        )


def items(
    log: Log,
    *,
    kind: str,
    unit: str = "user",
    by: By | None = None,
    gap: float = GAP,
    longest: int | None = None,
    labels: Labels | None = None,
    known: pa.Table | None = None,
    since: datetime | None = None,
    also: tuple[str, ...] = (),
) -> Items:
    """The items of one kind that each unit of the log holds.

    With `by` (a column that the log was read with) rows of other than its public values are left
    out, record by record, and the value is part of the item. A session is a whole session, cut to
    its first `longest` queries (or their public labels); an item of a set or of a log is a single
    query or click. The rows of clicks also keep the columns `also`. With `known`, a table of
    published queries (with `by`: and values), only items that name no other query count (under their own
    value): a rule about a unit's own rows and what is public, so units may be bounded after it (T3 iii). With `since` only rows from then on
    count.
    """
    check(log.source, kind=kind, unit=unit, by=by is not None)
    if not 0 < gap < 1e9:
        raise UsageError(f"--gap must be longer than 0 seconds, not {gap:g}")
    kind = {"itemset": "query", "log": "click"}.get(kind, kind)
    keys = keys_of(kind, by)
    description: dict[str, Any] = {"kind": kind, "keys": keys, "unit": unit, "timed": log.has_times}
    if labels is None and isinstance(log, EncodedLog | ClusterLog):
        return EncodedItems(
            engine=log.engine, log=log, known=known, since=since, also=also, gap=gap,
            longest=longest, by=by, **description,
        )  # fmt: skip
    rows = _rows(
        log, kind=kind, unit=unit, by=by, gap=gap, longest=longest, labels=labels, known=known,
        since=since,
    )  # fmt: skip
    return TableItems(
        engine=log.engine, table=rows.select("unit", "time", *keys, *also), **description
    )


def _rows(
    log: Log,
    *,
    kind: str,
    unit: str,
    by: By | None = None,
    gap: float = GAP,
    longest: int | None = None,
    labels: Labels | None = None,
    known: pa.Table | None,
    since: datetime | None = None,
) -> Any:
    """The rows of the items as an expression, with a column `unit`."""
    rows = _with_unit(log, unit)
    if since is not None:
        rows = rows.filter(rows.time >= ibis.literal(since))
    if by:
        rows = rows.filter(rows[by.column].isin(by.values))
    listed = None if known is None else log.engine.keep(known)
    if kind == "click":
        rows = rows.filter(rows.url.notnull())
    elif kind == "keyword":
        rows = _with_keywords(rows, log.engine, keys_of(kind, by)[1:])
    elif kind == "pair":
        rows = _pairs(rows, log.engine, gap, by)
    elif kind == "session":
        rows = _sessions(rows, gap, longest, labels, log.engine, listed)
    if listed is not None and kind in ("click", "pair"):
        rows = rows.semi_join(listed, list(listed.columns))
        if kind == "pair":
            after = listed.rename(next_query="query")
            rows = rows.semi_join(after, list(after.columns))
    return rows


def only(held: Items, public: pa.Table) -> TableItems:
    """The items whose keys are in a public table; a rule about single records, so it costs nothing."""
    listed = held.engine.keep(public.select(list(held.keys)))
    return held.with_table(held.table.semi_join(listed, list(held.keys)))


def without(held: Items, public: pa.Table) -> Items:
    """The items whose keys are not in a public table; a rule about single records, too."""
    excluded = public.select(list(held.keys))
    if isinstance(held, EncodedItems) and held.kind != "session":
        return replace(held, excluded=excluded)
    listed = held.engine.keep(excluded)
    return held.with_table(held.table.anti_join(listed, list(held.keys)))


def _with_unit(log: Log, unit: str) -> Any:
    """The log's rows with a column `unit`: neighbouring logs differ in the rows of one unit."""
    rows = log.table
    if unit == "user":
        return rows.mutate(unit=rows.user)
    rows = rows.filter(rows.time.notnull())
    # The date has a fixed length and comes first, so no two (date, user) share a name.
    start = rows.time.truncate(PERIODS[unit]).strftime("%Y-%m-%d")
    return rows.mutate(unit=start + "|" + rows.user)


def _longest(session_gap: float) -> int:
    """The longest gap within a session, in microseconds: engines differ in fractions of a second."""
    return math.floor(session_gap * 1e6)


def _pairs(rows: Any, engine: Engine, session_gap: float, by: By | None) -> Any:
    """Each query with the next, other one of its session; sessions end at the unit's border (A6).

    The order is total in all that an item consists of: else other units' rows could change it (A7).
    """
    rows = rows.filter(rows.time.notnull())
    more = [by.column] if by else []
    in_order = ibis.window(group_by="unit", order_by=["time", "query", *more])
    following = rows.mutate(
        next_query=rows.query.lead().over(in_order), next_time=rows.time.lead().over(in_order)
    )
    gap = engine.microseconds(following.next_time) - engine.microseconds(following.time)
    other = following.query != following.next_query
    return following.filter((gap <= _longest(session_gap)) & other)


def _sessions(
    rows: Any,
    session_gap: float,
    longest: int | None,
    labels: Labels | None,
    engine: Engine,
    listed: Any,
) -> Any:
    """The queries of each session in order, as a list of at least two; cut at the unit's border.

    A query asked again at once (the next page, a second click) is one query, also where only
    unpublished queries lie between. Dropping and merging look at the unit's own rows and at public
    keys alone, before the cut and the bound, so they change no bound (T3 iii).
    """
    rows = rows.filter(rows.time.notnull())
    in_order = ibis.window(group_by="unit", order_by=["time", "query"])
    before = rows.select(
        "unit",
        "time",
        "query",
        gap=engine.microseconds(rows.time) - engine.microseconds(rows.time.lag().over(in_order)),
    )
    starts = before.gap.isnull() | (before.gap > _longest(session_gap))
    begun = before.mutate(starts=starts.cast("int64"))
    so_far = ibis.window(group_by="unit", order_by="time", range=(None, 0))
    numbered = begun.mutate(session=begun.starts.sum().over(so_far))
    if listed is not None:
        numbered = numbered.semi_join(listed, "query")
    within = ibis.window(group_by=["unit", "session"], order_by=["time", "query"])
    after = numbered.mutate(previous=numbered.query.lag().over(within))
    asked = after.filter(after.previous.isnull() | (after.query != after.previous))
    if longest is not None:
        asked = asked.mutate(place=ibis.row_number().over(within)).filter(ibis._.place < longest)
    shown = asked.mutate(label=asked.query) if labels is None else labels.label(asked, engine)
    whole = shown.group_by(["unit", "session"]).aggregate(
        time=shown.time.min(), queries=shown.label.collect(order_by=[shown.time, shown.query])
    )
    return whole.filter(whole.queries.length() >= 2)


def _with_keywords(rows: Any, engine: Engine, more: tuple[str, ...]) -> Any:
    """A row for each distinct word of each query; words are cut in Python, on distinct queries."""
    schema = pa.schema([("of_query", pa.string()), ("words", pa.list_(pa.string()))])

    def cut(batch: pa.RecordBatch) -> pa.RecordBatch:
        queries = batch.column(0)
        words = pa.array([keywords(q) for q in queries.to_pylist()], pa.list_(pa.string()))
        return pa.RecordBatch.from_arrays([queries, words], schema=schema)

    cuts = engine.map_batches(schema, rows.select("query").distinct(), cut)
    joined = rows.join(cuts, rows.query == cuts.of_query)
    return joined.select("unit", "time", *more, keyword=cuts.words.unnest())
