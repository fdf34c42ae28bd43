"""The budget ledger: what was spent on each population of users, and what is left.

A release reserves its cost before any noise is drawn, and commits when its bundle is written and
before the bundle appears. A reservation counts as spent, so a crash in between can only leave too
much booked. Amounts of noise and keys stay within limits that the cap of the source fixes before its
first release (`ledger_filter`), which holds even when a release is planned after seeing earlier ones. A
source is a population of users, not a file: two quarters of one service are one source. Changes of caps
are kept with their reasons.
"""

import math
import os
import pwd
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from murmurlog.bundle.keys import normalise, odd_line
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Amounts, Guarantee, Loss
from murmurlog.publishing.ledger_columns import check_columns
from murmurlog.publishing.ledger_file import LedgerFile
from murmurlog.publishing.ledger_filter import (
    CAP_DELTA,
    CAP_EPSILON,
    amounts_for,
    check_room,
    check_rule,
    limits_after,
    pure_after,
)
from murmurlog.publishing.ledger_names import MOST_NAMES, check_name, known_name, similar_names
from murmurlog.publishing.ledger_records import (
    FILTER,
    Account,
    CapChange,
    Contents,
    Entry,
    read_account,
    read_cap_history,
    read_contents,
    read_entries,
    read_names,
    requires_cap,
)
from murmurlog.publishing.ledger_series import LOST, check_step
from murmurlog.publishing.series_periods import Step

MOST_LETTERS = 1000  # of a reason


class Ledger(LedgerFile):
    """A ledger in an SQLite file, made by the first booking or cap and readable by its owner only."""

    def cap(
        self,
        source: str,
        *,
        epsilon: float,
        delta: float,
        keys_share: float | None = None,
        pure: float | None = None,
        reason: str | None = None,
        by_whom: str | None = None,
        new_source: bool = False,
    ) -> CapChange:
        """Sets what may be spent on a source in all; creates the source if there is none.

        A new name that resembles a known one is refused unless `new_source` accepts it: a misspelled
        name must not open a second budget.

        Raising a cap needs a reason. The same cap again changes nothing. A cap below what is spent
        is allowed: every further release is then refused. The first cap fixes the share of delta for
        keys; `pure` of epsilon, by default a third of it, is for releases that are booked as pure
        epsilon-DP.
        """
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            raise UsageError(
                "a cap needs epsilon > 0 that is finite, and delta between 0 and 1, not "
                f"{epsilon!r} and {delta!r}"
            )
        check_name(source)
        signature = _signature(by_whom, reason)
        with self._transaction(write=True) as db:
            name, names = known_name(db, source), read_names(db)
            if name not in names and not new_source and similar_names(name, names):
                raise Refused(
                    f"{self._describe_unknown(db, name)} Nothing was changed.\n  For users that no source of this ledger "
                    "is about, give --new-source."
                )
            before = read_account(db, name)
            check_rule(before, self.path.name)
            history = [earlier for earlier in read_cap_history(db) if earlier.source == name]
            change = _change(before, history, epsilon, delta, keys_share, pure, signature)
            if change.raised and not reason:
                raise UsageError(
                    f'raising the cap of source "{name}" from epsilon {before.epsilon_cap:.4g}, delta '
                    f"{before.delta_cap:.3g} to epsilon {epsilon:.4g}, delta {delta:.3g} needs a "
                    "reason, which the ledger keeps: give --reason"
                )
            _open_source(db, name)
            if change.changed:
                _keep(db, change)
        return change

    def require_cap(
        self, required: bool = True, *, reason: str | None = None, by_whom: str | None = None
    ) -> bool:
        """Sets whether releases on a source without a cap are refused. Returns whether that is new.

        Ending the requirement needs a reason.
        """
        signature = _signature(by_whom, reason)
        with self._transaction(write=True) as db:
            if requires_cap(db) == required:
                return False
            if not required and not reason:
                raise UsageError(
                    f"{self.path.name} requires a cap for every source; ending that needs a reason, "
                    "which the ledger keeps: give --reason"
                )
            db.execute(
                "INSERT INTO requirement_history VALUES "
                "(NULL, :cap_required, :changed_at, :by_whom, :os_user, :reason)",
                {"cap_required": int(required), **signature},
            )
        return True

    def check(
        self,
        source: str,
        cost: Guarantee,
        *,
        new_source: bool = False,
        loss: Loss | None = None,
        distance: float = 0.0,
        step: Step | None = None,
        columns: Mapping[str, str] | None = None,
        same_users: bool = False,
    ) -> Account:
        """Raises Refused unless the cost fits; books nothing.

        A source that the ledger does not have is refused unless `new_source` opens it, under the default cap. `loss` and the
        `distance` of the sampler decide; without a loss the cost counts as (epsilon, delta) of which no
        more is known. `step` is the place of the release in a series, if it is of one.
        `columns` are those of the log that decide what a unit is, by their roles. Others than those that
        are booked are refused unless the owner says with `same_users` that they mean the same.
        """
        check_name(source)
        with self._transaction() as db:
            name = known_name(db, source)
            check_step(read_entries(db), name, step)
            check_columns(read_entries(db), name, columns or {}, same_users)
            return self._fits(db, name, cost, new_source, loss, distance)[0]

    def reserve(
        self,
        source: str,
        cost: Guarantee,
        *,
        release_id: str,
        what: str,
        title: str = "",
        new_source: bool = False,
        loss: Loss | None = None,
        distance: float = 0.0,
        step: Step | None = None,
        columns: Mapping[str, str] | None = None,
        same_users: bool = False,
    ) -> Account:
        """Books the cost as spent, or raises Refused. Returns the account as it was before, with its cap."""
        check_name(source)
        with self._transaction(write=True, make=new_source) as db:
            name = known_name(db, source)
            check_step(read_entries(db), name, step)
            check_columns(read_entries(db), name, columns or {}, same_users)
            before, amounts = self._fits(db, name, cost, new_source, loss, distance)
            _open_source(db, name)
            if not read_account(db, name).limits:
                assert before.largest_cap is not None
                _keep(db, before.largest_cap)
            db.execute(
                "INSERT INTO entries VALUES (?, ?, 'reserved', ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, NULL, "
                "NULL, ?, ?, NULL, ?, ?)",
                (
                    release_id,
                    name,
                    cost.epsilon,
                    cost.delta,
                    cost.unit,
                    cost.neighbours,
                    what,
                    _now(),
                    title,
                    *amounts,
                    step and step.series,
                    step and step.period,
                    *((columns or {}).get(role) for role in ("user", "time")),
                ),
            )
        return before

    def commit(
        self, release_id: str, *, bundle: str | None = None, checksum: str | None = None
    ) -> None:
        """Marks a reservation as published. Call it before the output becomes visible.

        `bundle` is where it will be, `checksum` the SHA-256 of its list of checksums.
        """
        self._mark(release_id, "committed", _now(), bundle, checksum)

    def reopen(self, release_id: str) -> None:
        """Marks a booking as not published after all; its cost stays spent."""
        self._mark(release_id, "reserved")

    def _mark(self, release_id: str, state: str, *committed: str | None) -> None:
        at, bundle, checksum = committed or (None,) * 3
        with self._transaction(write=True, make=False) as db:
            done = db.execute(
                "UPDATE entries SET state = ?, committed_at = ?, bundle = ?, checksum = ? "
                "WHERE release_id = ? AND state != ?",
                (state, at, bundle, checksum, release_id, LOST),
            )
            if done.rowcount != 1:
                raise Refused(f"the ledger {self.path.name} has no entry {release_id} to commit")

    def place(self, release_id: str) -> None:
        """Records that the bundle of a release of a series is in its place."""
        with self._transaction(write=True, make=False) as db:
            db.execute(
                "UPDATE entries SET placed_at = ? WHERE release_id = ?", (_now(), release_id)
            )

    def lose(self, release_id: str) -> None:
        """Marks a release of a series as lost: its cost stays spent, and it can never be committed."""
        with self._transaction(write=True, make=False) as db:
            db.execute(
                "UPDATE entries SET state = ?, committed_at = NULL, bundle = NULL, checksum = NULL "
                "WHERE release_id = ? AND series IS NOT NULL AND placed_at IS NULL",
                (LOST, release_id),
            )

    def contents(self) -> Contents:
        """Everything in the ledger, as of one moment."""
        with self._transaction() as db:
            return read_contents(db)

    def entries(self, source: str | None = None) -> list[Entry]:
        """Every booking, oldest first."""
        with self._transaction() as db:
            name = None if source is None else known_name(db, source)
            return [entry for entry in read_entries(db) if name is None or entry.source == name]

    def find(self, release_id: str) -> Entry | None:
        """The booking of a release, if there is one."""
        return next((e for e in self.entries() if e.release_id == release_id), None)

    def accounts(self) -> list[Account]:
        """Every source with its caps and what is booked on it."""
        return list(self.contents().accounts)

    def cap_history(self, source: str | None = None) -> list[CapChange]:
        """Every change of a cap, oldest first."""
        every = self.contents().cap_history
        return [change for change in every if source is None or change.source == source]

    def account(self, source: str) -> Account:
        """The account of a source; raises UsageError if there is none."""
        check_name(source)
        with self._transaction() as db:
            name = known_name(db, source)
            if name not in read_names(db):
                raise UsageError(self._describe_unknown(db, name))
            account = read_account(db, name)
        check_rule(account, self.path.name)
        return account

    def find_account(self, source: str) -> Account | None:
        """The account of a source, if there is one; raises UsageError if it has nearly this name."""
        check_name(source)
        with self._transaction() as db:
            name = known_name(db, source)
            account = read_account(db, name) if name in read_names(db) else None
        if account is not None:
            check_rule(account, self.path.name)
        return account

    def _fits(
        self,
        db: sqlite3.Connection,
        source: str,
        cost: Guarantee,
        new_source: bool,
        loss: Loss | None,
        distance: float,
    ) -> tuple[Account, Amounts]:
        """The account before the booking, with the cap that it has or gets, and what is booked."""
        account, required = read_account(db, source), requires_cap(db)
        check_rule(account, self.path.name)
        if source not in read_names(db) and not new_source:
            new = " --new-source" * bool(similar_names(source, read_names(db)))
            default = f"epsilon {CAP_EPSILON:g}, delta {CAP_DELTA:g}"
            accept = "" if required else f", or open it under a cap of {default}: --new-source"
            raise Refused(
                f"{self._describe_unknown(db, source)} Nothing was booked.\n  For users that no source "
                f"of this ledger is about, create it: {self._cap_command(source)}{new}{accept}"
            )
        if required and account.epsilon_cap is None:
            raise Refused(
                f'source "{source}" has no cap, and {self.path.name} requires one for every source. '
                f"Set it first: {self._cap_command(source)}"
            )
        for entry in read_entries(db):
            if entry.source == source and (entry.unit, entry.neighbours) != (
                cost.unit,
                cost.neighbours,
            ):
                raise Refused(
                    f'source "{source}" is accounted per {entry.unit} ({entry.neighbours}); a release '
                    f"per {cost.unit} ({cost.neighbours}) does not add to that. Use the same unit and "
                    "neighbours for every release of a source."
                )
        if account.limits is None:
            signature = _signature(None, "the default cap")
            change = _change(account, [], CAP_EPSILON, CAP_DELTA, None, None, signature)
            account = replace(
                account, epsilon_cap=change.epsilon, delta_cap=change.delta,
                keys_share=change.keys_share, limits=change.limits, largest_cap=change,
            )  # fmt: skip
        amounts = amounts_for(account, cost, loss=loss, distance=distance)
        check_room(account, amounts)
        return account, amounts

    def _describe_unknown(self, db: sqlite3.Connection, source: str) -> str:
        """A sentence: there is no such source, and which one may have been meant."""
        here = self.path.name + ("" if self._file.exists() else " (there is no such file yet)")
        text = f"there is no source {source!r:.60} in {here}"
        names = read_names(db)
        if similar := similar_names(source, names):
            return f"{text}; did you mean {' or '.join(f'{name!r:.60}' for name in similar)}?"
        if 0 < len(names) <= MOST_NAMES:
            text += f"; it has {', '.join(f'{name!r:.60}' for name in names)}"
        return f"{text}."

    def _cap_command(self, source: str) -> str:
        return (
            f"murmurlog ledger cap {shlex.quote(source)} --epsilon ... --delta ... --ledger "
            f"{shlex.quote(self.path.name)}"
        )


def os_user() -> str:
    """The account that runs this process, by the system and not by a variable."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in containers
        return f"uid {os.getuid()}"


def _signature(by_whom: str | None, reason: str | None) -> dict[str, str | None]:
    """Who changes something, when and why; raises unless the texts are plain lines."""
    for flag, text in (("--by-whom", by_whom), ("--reason", reason)):
        if text is None:
            continue
        if len(text) > MOST_LETTERS or odd_line([text]) is not None or normalise(text) is None:
            raise UsageError(
                f"{flag} {text!r:.60}: write one plain line with visible characters, at most "
                f"{MOST_LETTERS}, which the ledger keeps"
            )
    user = os_user()
    return {"changed_at": _now(), "by_whom": by_whom or user, "os_user": user, "reason": reason}


def _change(
    before: Account,
    history: Sequence[CapChange],
    epsilon: float,
    delta: float,
    keys_share: float | None,
    pure: float | None,
    signature: Mapping[str, str | None],
) -> CapChange:
    """A change of a cap; raises unless it is allowed. Limits are computed for another cap only."""
    pure = pure_after(before, epsilon, pure)
    had: dict[str, float] = before.limits._asdict() if before.limits else {}
    change = CapChange(
        source=before.name, rule=FILTER, rule_before=before.rule if before.limits else None,
        epsilon_before=before.epsilon_cap, delta_before=before.delta_cap,
        pure_before=before.limits.pure if before.limits else None, epsilon=epsilon, delta=delta,
        keys_share=before.keys_share, **(had | {"pure": pure}), changed_at=signature["changed_at"],
        by_whom=signature["by_whom"], os_user=signature["os_user"], reason=signature["reason"],
    )  # fmt: skip
    if not change.changed and keys_share is None:
        return change
    share, limits = limits_after(
        before, history, epsilon=epsilon, delta=delta, keys_share=keys_share, pure=pure
    )
    return replace(change, keys_share=share, **limits._asdict())


def _keep(db: sqlite3.Connection, change: CapChange) -> None:
    db.execute(
        "INSERT INTO cap_history VALUES (NULL, :source, :rule, :epsilon, :delta, :changed_at, :by_whom, "
        ":os_user, :reason, :keys_share, :mu2, :keys, :distance, :pure)",
        vars(change),
    )


def _open_source(db: sqlite3.Connection, name: str) -> None:
    """Creates a source if there is none of this name."""
    db.execute("INSERT OR IGNORE INTO sources VALUES (?, ?, ?)", (name, _now(), os_user()))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
