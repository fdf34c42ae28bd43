"""What an owner asks of a release: one frozen value, from flags, murmurlog.toml or keywords.

Each group of options is checked where it is made; what depends on the log, on mechanisms or on an
engine is checked by `release`, before anything is booked. Imports nothing heavy: --help reads it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import (
    GAP,
    Group,
    Option,
    read_bounds,
    read_number,
    read_pair,
    read_pairs,
    read_part,
    read_repeated,
    read_shares,
    read_span,
    split_keywords,
)
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.running import Running
from murmurlog.publishing.series_periods import Step


def mechanism_of(text: str) -> str | dict[str, str]:
    """One mechanism for all tables, or from query=rounds,click=threshold one for each."""
    from murmurlog.bundle.schema import KEYS  # late: --help answers at once

    tables = "|".join(KEYS)
    if not re.match(rf"\s*({tables})\s*=", text):
        return text
    parts = re.split(rf",\s*(?=(?:{tables})\s*=)", text)  # a mechanism's text has commas, too
    pairs = (part.partition("=") for part in parts)
    return {table.strip(): name.strip() for table, _, name in pairs}


def read_by(text: str) -> tuple[str, list[str]]:
    """("country", ["DE", "FR"]) from "country=DE,FR"."""
    column, values = read_pair(text, "--by")
    return column, [value.strip() for value in values.split(",")]


@dataclass(frozen=True, kw_only=True)
class Privacy(Group):
    """Budget and unit of privacy."""

    epsilon: Annotated[
        float | None, Option(help="Of the whole release, per unit. Default 1.", read=read_number)
    ] = None
    delta: Annotated[
        float | None, Option(help="Of the whole release, per unit. Default 1e-6.", read=read_number)
    ] = None
    unit: Annotated[
        str,
        Option(help="What is protected: user, user-month, user-week, user-day."),
    ] = "user"
    neighbours: Annotated[str, Option(help="add-remove or replace.")] = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit != "user":
            from murmurlog.privacy import check_unit  # late: --help answers at once

            check_unit(self.unit)


@dataclass(frozen=True, kw_only=True)
class Budget(Privacy):
    """Budget and unit of privacy."""

    of_cap: Annotated[
        float | None,
        Option(
            help="Instead of epsilon and delta: a part of the source's cap, 1/12 or 0.08.",
            read=read_part,
        ),
    ] = None
    users: Annotated[
        int | None,
        Option(help="A publicly known number (upper bound) of users.", read=integer),
    ] = None
    shares: Annotated[
        Mapping[str, float] | None,
        Option(
            help="Of the budget: query=0.7,click=0.3. Default equal.", read=read_shares("--shares")
        ),
    ] = None
    accept_delta: Annotated[
        bool, Option(help="Accept a delta of at least 1/users.", switch=True)
    ] = False
    accept_no_guarantee: Annotated[
        bool, Option(help="Run a mechanism about which nothing is proved.", switch=True)
    ] = False


@dataclass(frozen=True, kw_only=True)
class Choice(Group):
    """Tables and mechanisms."""

    mechanism: Annotated[
        str | Mapping[str, str] | None,
        Option(
            help="For all tables, or query=rounds,click=threshold. Default rounds.",
            read=mechanism_of,
        ),
    ] = None
    per_user: Annotated[
        int | Mapping[str, int] | None,
        Option(
            help="Distinct items a unit: 20, or query=20,click=10. Default 100 for rounds, else 10.",
            read=read_bounds,
        ),
    ] = None
    noise: Annotated[
        str | None, Option(help="geometric or gaussian. Default: the lower threshold.")
    ] = None
    letters: Annotated[
        Mapping[str, str] | None,
        Option(
            alias="--set",
            help="The mechanism's own letters instead of epsilon: K=50,b=10.",
            read=read_pairs("--set"),
        ),
    ] = None
    set_only: Annotated[bool, Option(help="Publish keys without counts.", switch=True)] = False


@dataclass(frozen=True, kw_only=True)
class Content(Choice):
    """Tables and mechanisms."""

    tables: Annotated[
        Sequence[str] | None,
        Option(
            help="Of keyword, query, pair, click, session, itemset, log.",
            read=lambda text: [table.strip() for table in text.split(",")],
        ),
    ] = None
    bound: Annotated[
        str | None,
        Option(help="first (by time) or random. Default first if there are times."),
    ] = None
    gap: Annotated[
        float,
        Option(help="A pause that ends a session: 90s, 30m, 1h. Default 30m.", read=read_span),
    ] = GAP
    set_size: Annotated[int, Option(help="itemset: the largest set of queries.", read=integer)] = 2
    consecutive: Annotated[
        bool, Option(help="itemset: only queries that follow one another.", switch=True)
    ] = False
    after: Annotated[
        Sequence[str | Path],
        Option(
            kind=Sequence[str | Path] | str | Path,
            help="rounds: count published keys of this bundle again; ledger: of all bundles.",
            read=tuple,
            repeated=True,
            variable=False,
        ),
    ] = ()
    select_from: Annotated[
        str | None,
        Option(help="rounds: select keys from rows from this day on, or all. Default all."),
    ] = None
    count_from: Annotated[
        str | None,
        Option(help="rounds: count in rows from this day on, or all. Default all."),
    ] = None
    by: Annotated[
        tuple[str, Sequence[str]] | None,
        Option(help="A column with public values in the key: country=DE,FR,IT.", read=read_by),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        after = self.after or ()
        several = (after,) if isinstance(after, str | Path) else tuple(after)  # in Python, also one
        object.__setattr__(self, "after", several)


@dataclass(frozen=True, kw_only=True)
class Booking(Group):
    """Ledger."""

    ledger: Annotated[str | Path | None, Option(help="The ledger file.", read=Path)] = None
    source_name: Annotated[
        str | None,
        Option(alias="--source", help="The population of users, as the ledger calls it."),
    ] = None
    new_source: Annotated[
        bool,
        Option(
            help="Open a source that the ledger does not have yet, under the usual cap.",
            switch=True,
            variable=False,
        ),
    ] = False
    same_users: Annotated[
        bool,
        Option(
            help="Accept another column of users or times than the source's releases had.",
            switch=True,
            variable=False,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Statements(Group):
    """Statements for the certificate and the cards."""

    about: Annotated[
        Mapping[str, str] | None,
        Option(
            help="For the cards, once for each: title=.., publisher=.., license=..",
            read=read_repeated("--about"),
            repeated=True,
            variable=False,
        ),
    ] = None
    unprotected: Annotated[
        Sequence[str],
        Option(
            help="What was chosen by looking at the log; once for each thing.",
            read=tuple,
            repeated=True,
            variable=False,
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """A release as it is asked for."""

    source: LogSource
    out: str | Path
    budget: Budget = Budget()
    content: Content = Content()
    read: ReadOptions = ReadOptions()
    booking: Booking = Booking()
    running: Running = Running()
    statements: Statements = Statements()
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanisms' own
    step: Step | None = None  # its place in a series
    dry_run: bool = False

    @classmethod
    def of(
        cls,
        source: LogSource,
        *,
        out: str | Path,
        step: Step | None = None,
        dry_run: bool = False,
        **keywords: Any,
    ) -> "ReleaseRequest":
        """The request of these keywords: those of the groups above, others are the mechanisms'."""
        groups = (Budget, Content, ReadOptions, Booking, Running, Statements)
        by_group, options = split_keywords(keywords, *groups)
        budget, content, read, booking, running, statements = (
            group(**own) for group, own in zip(groups, by_group, strict=True)
        )
        return cls(
            source=source, out=out, budget=budget, content=content, read=read, booking=booking,
            running=running, statements=statements, options=options, step=step, dry_run=dry_run,
        )  # fmt: skip
