"""What a ledger holds, as values, and how they are read from its tables. Changes nothing."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from murmurlog.publishing.ledger_file import digest

ROUNDING = 1 + 1e-9  # ten releases of 0.1 fit a cap of 1
SUM = "sum"  # the rule of a source: epsilons and deltas add up


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One booking."""

    release_id: str
    source: str
    state: str  # reserved or committed
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    what: str
    reserved_at: str
    committed_at: str | None
    title: str  # of the bundle, if the owner gave one


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

    @property
    def changed(self) -> bool:
        """Whether the cap is another one than before."""
        return (self.epsilon_before, self.delta_before) != (self.epsilon, self.delta)

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
    """A source: its caps (None: no cap) and what is booked on it."""

    name: str
    epsilon_cap: float | None
    delta_cap: float | None
    epsilon: float
    delta: float
    unit: str | None  # of its releases; None if there are none
    releases: int
    neighbours: str | None = None
    rule: str = SUM

    @property
    def epsilon_left(self) -> float | None:
        return amount_left(self.epsilon_cap, self.epsilon)

    @property
    def delta_left(self) -> float | None:
        return amount_left(self.delta_cap, self.delta)


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
        "SELECT *, lag(epsilon) OVER source AS epsilon_before, lag(delta) OVER source AS delta_before "
        "FROM cap_history WINDOW source AS (PARTITION BY source ORDER BY number) ORDER BY number"
    )
    names = [column[0] for column in rows.description]
    changes = [dict(zip(names, row, strict=True)) for row in rows]
    return [CapChange(**{n: v for n, v in each.items() if n != "number"}) for each in changes]


def read_entries(db: sqlite3.Connection) -> list[Entry]:
    rows = db.execute("SELECT * FROM entries ORDER BY rowid")
    names = [column[0] for column in rows.description]
    return [Entry(**dict(zip(names, row, strict=True))) for row in rows]


def read_account(db: sqlite3.Connection, source: str) -> Account:
    cap = db.execute(
        "SELECT epsilon, delta, rule FROM cap_history WHERE source = ? ORDER BY number DESC LIMIT 1",
        (source,),
    ).fetchone() or (None, None, SUM)
    epsilon, delta, unit, neighbours, releases = db.execute(
        "SELECT total(epsilon), total(delta), min(unit), min(neighbours), count(*) FROM entries "
        "WHERE source = ?",
        (source,),
    ).fetchone()
    return Account(
        name=source, epsilon_cap=cap[0], delta_cap=cap[1], rule=cap[2], epsilon=epsilon, delta=delta,
        unit=unit, neighbours=neighbours, releases=releases,
    )  # fmt: skip


def read_requirements(db: sqlite3.Connection) -> list[RequirementChange]:
    rows = db.execute("SELECT * FROM requirement_history ORDER BY number")
    return [
        RequirementChange(
            cap_required=bool(state), changed_at=at, by_whom=by, os_user=user, reason=why
        )
        for _, state, at, by, user, why in rows
    ]


def amount_left(cap: float | None, spent: float) -> float | None:
    """What is left under a cap; 0 if the rest is within rounding."""
    if cap is None:
        return None
    return cap - spent if cap > spent * ROUNDING else 0.0
