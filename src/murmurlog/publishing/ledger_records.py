"""What a ledger holds, as values, and how they are read from its tables. Changes nothing."""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from murmurlog.privacy import Amounts
from murmurlog.privacy.budget_filter import TOLERANCE, fits, sum_of
from murmurlog.publishing.ledger_file import digest

# The rule of a source: amounts of noise and keys stay in the rectangle of its cap. Up to version 0.2.0 epsilons
# and deltas of a source could add up instead: such a source is shown, and nothing else is done with it.
FILTER, SUM = "filter", "sum"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One booking."""

    release_id: str
    source: str
    state: str  # reserved, committed, or lost: of a series, given up for good
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    what: str
    reserved_at: str
    committed_at: str | None
    title: str  # of the bundle, if the owner gave one
    mu2: float | None = None  # these four: None if it was booked under the rule sum
    keys: float | None = None
    distance: float | None = None
    pure: float | None = None
    # Where the bundle was written, seen from the ledger's folder; None: not published.
    bundle: str | None = None
    checksum: str | None = None  # the SHA-256 of the bundle's list of checksums
    series: str | None = None  # this and the next two: of a release of a series
    period: str | None = None
    placed_at: str | None = None  # when its runner saw the bundle in its place
    # The columns of the log that decide what a unit is; None: they have no part in it, or were not recorded.
    user_column: str | None = None
    time_column: str | None = None

    @property
    def amounts(self) -> Amounts | None:
        """What it books; None if it was booked under the rule sum."""
        return _amounts(self)

    @property
    def columns(self) -> dict[str, str]:
        """The known ones of these columns, by their roles."""
        columns = {"user": self.user_column, "time": self.time_column}
        return {role: column for role, column in columns.items() if column is not None}


@dataclass(frozen=True, kw_only=True)
class CapChange:
    """One change of a source's cap. Before its first cap a source has none."""

    source: str
    rule: str
    epsilon_before: float | None
    delta_before: float | None
    epsilon: float
    delta: float
    changed_at: str | None  # None: before ledgers kept a history
    by_whom: str | None  # as stated; by default the account
    os_user: str | None  # the account on the machine
    reason: str | None
    rule_before: str | None = None
    keys_share: float | None = None  # this and the next four: None under the rule sum
    mu2: float | None = None
    keys: float | None = None
    distance: float | None = None
    pure: float | None = None
    pure_before: float | None = None

    @property
    def limits(self) -> Amounts | None:
        """The rectangle of the cap; None under the rule sum."""
        return _amounts(self)

    @property
    def changed(self) -> bool:
        """Whether the cap is another one than before."""
        before = (self.rule_before, self.epsilon_before, self.delta_before, self.pure_before)
        return before != (self.rule, self.epsilon, self.delta, self.pure)

    @property
    def raised(self) -> bool:
        """Whether more may be spent than before."""
        before = (self.epsilon_before, self.delta_before)
        pairs = zip(before, (self.epsilon, self.delta), strict=True)
        return any(old is not None and new > old for old, new in pairs)


@dataclass(frozen=True, kw_only=True)
class RequirementChange:
    """One change of whether every source needs a cap."""

    cap_required: bool
    changed_at: str
    by_whom: str
    os_user: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """A source: its cap (None: it has none yet) and what is booked on it."""

    name: str
    rule: str
    epsilon_cap: float | None
    delta_cap: float | None
    unit: str | None  # of its releases; None if there are none
    neighbours: str | None
    releases: int
    keys_share: float | None = None
    limits: Amounts | None = None  # of its cap: the rectangle
    largest_cap: "CapChange | None" = None  # of all that it had: this is what holds
    booked: Amounts = Amounts()
    last: Amounts | None = None  # what its last release booked
    epsilon_by_sum: float = 0.0  # spent under the rule sum
    delta_by_sum: float = 0.0

    @property
    def left(self) -> Amounts | None:
        """What is left of the rectangle."""
        if self.limits is None:
            return None
        pairs = zip(self.limits, self.booked, strict=True)
        return Amounts(*(max(0.0, most - spent) for most, spent in pairs))

    @property
    def fits_limits(self) -> bool:
        """Whether what is booked is within the limits; a lowered cap may be below it."""
        return self.limits is not None and fits(self.limits, [], self.booked)

    def room_for(self, cost: Amounts) -> int:
        """How many more releases that book these amounts fit."""
        assert self.limits is not None
        every = zip(self.limits, self.booked, cost, strict=True)
        room = [
            math.floor((most * (1 + TOLERANCE) - spent) / some)
            for most, spent, some in every
            if some
        ]
        return max(0, min(room, default=0))


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything in a ledger at one moment. Lists begin with the oldest."""

    accounts: Sequence[Account]
    entries: Sequence[Entry]
    cap_history: Sequence[CapChange]
    cap_required: bool
    requirement_history: Sequence[RequirementChange]
    digest: str

    def of(self, source: str) -> tuple[Account, list[Entry], list[CapChange]]:
        """One source: its account, its bookings, the changes of its cap."""
        account = next(account for account in self.accounts if account.name == source)
        return (
            account,
            [entry for entry in self.entries if entry.source == source],
            [change for change in self.cap_history if change.source == source],
        )


def read_contents(db: sqlite3.Connection) -> Contents:
    return Contents(
        accounts=[read_account(db, name) for name in read_names(db)],
        entries=read_entries(db),
        cap_history=read_cap_history(db),
        cap_required=requires_cap(db),
        requirement_history=read_requirements(db),
        digest=digest(db),
    )


def read_names(db: sqlite3.Connection) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM sources ORDER BY name")]


def requires_cap(db: sqlite3.Connection) -> bool:
    last = "SELECT cap_required FROM requirement_history ORDER BY number DESC LIMIT 1"
    return bool((db.execute(last).fetchone() or (0,))[0])


def read_cap_history(db: sqlite3.Connection) -> list[CapChange]:
    rows = db.execute(
        "SELECT *, lag(epsilon) OVER source AS epsilon_before, lag(delta) OVER source AS delta_before, "
        "lag(rule) OVER source AS rule_before, lag(pure) OVER source AS pure_before "
        "FROM cap_history WINDOW source AS (PARTITION BY source ORDER BY number) ORDER BY number"
    )
    names = [column[0] for column in rows.description]
    changes = [dict(zip(names, row, strict=True)) for row in rows]
    return [CapChange(**{n: v for n, v in change.items() if n != "number"}) for change in changes]


def read_entries(db: sqlite3.Connection) -> list[Entry]:
    rows = db.execute("SELECT * FROM entries ORDER BY rowid")
    names = [column[0] for column in rows.description]
    return [Entry(**dict(zip(names, row, strict=True))) for row in rows]


def read_account(db: sqlite3.Connection, source: str) -> Account:
    cap = db.execute(
        "SELECT epsilon, delta, rule, keys_share, mu2, keys, distance, pure FROM cap_history "
        "WHERE source = ? ORDER BY number DESC LIMIT 1",
        (source,),
    ).fetchone()
    entries = [entry for entry in read_entries(db) if entry.source == source]
    # By the database's sum, as the version that converted sources had it: its limits must come out again.
    epsilon, delta = db.execute(
        "SELECT total(epsilon), total(delta) FROM entries WHERE source = ? AND mu2 IS NULL",
        (source,),
    ).fetchone()
    account = Account(
        name=source, epsilon_cap=cap and cap[0], delta_cap=cap and cap[1],
        rule=cap[2] if cap else SUM if entries else FILTER,  # without a cap releases could add up only
        unit=entries[0].unit if entries else None,
        neighbours=entries[0].neighbours if entries else None,
        releases=len(entries), epsilon_by_sum=epsilon, delta_by_sum=delta,
    )  # fmt: skip
    if cap is None or account.rule != FILTER:
        return account
    booked = [entry.amounts for entry in entries if entry.amounts is not None]
    caps = [c for c in read_cap_history(db) if c.source == source and c.limits is not None]
    largest = max(
        caps, key=lambda cap: cap.limits or Amounts()
    )  # they form a chain (ledger_filter)
    return replace(
        account, keys_share=cap[3], limits=Amounts(*cap[4:]), largest_cap=largest, booked=sum_of(booked),
        last=booked[-1] if booked else None,
    )  # fmt: skip


def read_requirements(db: sqlite3.Connection) -> list[RequirementChange]:
    rows = db.execute("SELECT * FROM requirement_history ORDER BY number")
    return [
        RequirementChange(
            cap_required=bool(state), changed_at=at, by_whom=by, os_user=user, reason=why
        )
        for _, state, at, by, user, why in rows
    ]


def _amounts(row: Entry | CapChange) -> Amounts | None:
    amounts = (row.mu2, row.keys, row.distance, row.pure)
    return None if row.mu2 is None else Amounts(*(number or 0.0 for number in amounts))
