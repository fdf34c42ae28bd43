"""The rules by which rows of a source become rows of a log, for tables and encoded rows.

A rule is a predicate on columns. Ibis expressions and numpy masks share `&`, `|`, `~` and `sum`, so
one ordered list of rules drives both: `table_cleaning` applies it to tables of an engine, `encoded`
to dictionary-encoded rows. Every rule looks at one record at a time (A5).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.keys import clean_url
from murmurlog.logs.screen import Screen, matcher

UNREADABLE_TIME = "unreadable time"
UNREADABLE_URL = "unreadable url"


class Columns(Protocol):
    """Facts about rows whose text is clean, as boolean columns."""

    def every(self) -> Any:
        """True for each row."""

    def missing(self, name: str) -> Any:
        """Whether a row has no user, query, time or url."""

    def given(self, name: str) -> Any:
        """Whether the source has a time or a url for the row, readable or not."""

    def before(self, moment: Any) -> Any:
        """Whether the time is earlier; means nothing where it is missing."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How rows of a source become rows of a log, and how many did not, by reason."""

    timed: bool = True  # whether the source has a column of times
    url: str | None = None  # how much of a url is kept; None: no urls
    keys: str | None = None  # the rules for canonical keys, by their name in a certificate
    keep: tuple[str, ...] = ()  # the names of further columns: k0, k1, .. of the source's rows
    since: datetime | None = None
    until: datetime | None = None
    screen: Screen | None = None
    deny: frozenset[str] = frozenset()
    broken: Counter[str] = field(default_factory=Counter)
    screened: Counter[str] = field(default_factory=Counter)

    @property
    def cleaners(self) -> dict[str, Callable[[str], str | None]]:
        """The functions that clean the distinct strings of a column; they return None for empty text."""
        urls = {} if self.url is None else {"url": partial(clean_url, level=self.url)}
        return {"query": cleaner(self.keys), **urls}

    @property
    def screens(self) -> bool:
        """Whether some queries are dropped because of their content."""
        return bool(self.screen or self.deny)

    @property
    def suspect(self) -> str | None:
        """Characters of which every query that is dropped has one; None if there is no such set."""
        return None if self.deny or not self.screen else self.screen.needs

    def suspects(self, queries: pa.Array) -> pa.Array:
        """The places of the clean queries that may have a reason to be dropped; no other has one."""
        if self.deny or not self.screen:
            return pc.indices_nonzero(pc.is_valid(queries))
        return self.screen.suspects(queries)

    @cached_property
    def reasons(self) -> Callable[[str], list[str]]:
        """The first reason to drop a clean query, if there is one."""
        denied, screen = matcher(self.deny, self.keys), self.screen

        def first(query: str) -> list[str]:
            if denied(query):
                return ["denied"]
            return [f"screened: {name}" for name in (screen.hits(query) if screen else [])][:1]

        return first


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rows to drop and to count. A row is counted by the first rule that applies."""

    reason: str | None  # None: the row is excluded but not broken, so it is not counted
    applies: Callable[[Columns, Cleaning], Any]
    when: Callable[[Cleaning], object] = lambda _: True
    drops: Callable[[Cleaning], object] = lambda _: True  # else the row is counted and stays


def _has_period(cleaning: Cleaning) -> bool:
    return bool(cleaning.since or cleaning.until)


RULES = (
    Rule(
        reason=None,
        when=lambda cleaning: cleaning.since,
        applies=lambda row, cleaning: ~row.missing("time") & row.before(cleaning.since),
    ),
    Rule(
        reason=None,
        when=lambda cleaning: cleaning.until,
        applies=lambda row, cleaning: ~row.missing("time") & ~row.before(cleaning.until),
    ),
    Rule(reason="no user", applies=lambda row, _: row.missing("user")),
    Rule(reason="no query", applies=lambda row, _: row.missing("query")),
    Rule(
        reason="no time",
        when=_has_period,
        applies=lambda row, _: ~row.given("time"),
    ),
    # Without a period the row stays, as one without a time.
    Rule(
        reason=UNREADABLE_TIME,
        applies=lambda row, _: row.given("time") & row.missing("time"),
        drops=_has_period,
    ),
    # The row stays, as a query without a click.
    Rule(
        reason=UNREADABLE_URL,
        applies=lambda row, _: row.given("url") & row.missing("url"),
        drops=lambda _: False,
    ),
)


def judge(columns: Columns, cleaning: Cleaning) -> tuple[Any, dict[str, Any]]:
    """Which rows stay, and the number of rows by reason to call them broken."""
    stays, broken = columns.every(), {}
    for rule in RULES:
        if rule.when(cleaning):
            applies = rule.applies(columns, cleaning)
            if rule.reason is not None:
                broken[rule.reason] = (stays & applies).sum()
            if rule.drops(cleaning):
                stays = stays & ~applies
    return stays, broken
