"""A release and its ledger: whether its cost fits, its reservation, its commitment, and what to say after a stop.

Python can raise a stop between the return of any step and the next line of code. So nothing is remembered
on the way: the ledger and the bundle's place are looked at.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.bundle.files import CERTIFICATE
from murmurlog.errors import DiskError, MurmurlogError, Refused, UsageError
from murmurlog.logs.rows import PERIODS
from murmurlog.logs.source import Source
from murmurlog.privacy import Guarantee, Loss
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import amounts_for
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.plan import Part
from murmurlog.publishing.request import Booking, Budget
from murmurlog.publishing.series_periods import Step


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The cost of a release, which its ledger reserves before noise is drawn; without a ledger nothing is booked."""

    release_id: str
    target: Path  # where the bundle will be
    ledger: Ledger | None
    source: str  # its account in the ledger
    cost: Guarantee
    loss: Loss  # what all tables cost together
    distance: float  # the error of the sampler, as a total variation
    tables: str  # and their mechanisms
    columns: Mapping[str, str]  # those that decide what a unit is, by role
    title: str = ""
    new_source: bool = False
    same_users: bool = False
    step: Step | None = None  # its place in a series

    def check(self) -> None:
        """Raises unless the ledger would book the cost."""
        if self.ledger is not None:
            self.ledger.check(self.source, self.cost, **self._terms)

    def reserve(self) -> Account | None:
        """Books the cost; the account as it was before."""
        if self.ledger is None:
            return None
        return self.ledger.reserve(
            self.source, self.cost, release_id=self.release_id, what=self.tables, title=self.title,
            **self._terms,
        )  # fmt: skip

    @property
    def _terms(self) -> dict[str, Any]:
        """What decides whether the ledger books the cost."""
        return {
            "columns": self.columns,
            "new_source": self.new_source,
            "same_users": self.same_users,
            "loss": self.loss,
            "distance": self.distance,
            "step": self.step,
        }

    @contextmanager
    def commit(self, checksum: str) -> Iterator[None]:
        """Books the release as published, for the block in which its bundle appears; undone if none is there."""
        if self.ledger is None:
            yield
            return
        try:
            self._book_commitment(self.ledger, checksum)
            yield
        except BaseException:  # Ctrl-C too
            if not self.is_published():
                with suppress(Refused):
                    self.ledger.reopen(self.release_id)
            raise

    def _book_commitment(self, ledger: Ledger, checksum: str) -> None:
        place = ledger.seen_from(self.target)
        try:
            ledger.commit(self.release_id, bundle=place, checksum=checksum)
        except Refused as error:
            raise Refused(
                f"{error}\n  Nothing was published; the budget stays booked as {self.release_id}."
            ) from error

    def is_published(self) -> bool:
        """Whether the bundle at the target is the one of this release."""
        with suppress(OSError, ValueError):
            stated = json.loads((self.target / CERTIFICATE).read_text(encoding="utf-8"))
            return bool(stated["release_id"] == self.release_id)
        return False

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Around the writing of the bundle: its errors say what stays booked."""
        try:
            yield
        except (OSError, UsageError) as error:
            spent = f"; its budget stays booked as {self.release_id}" if self.ledger else ""
            why = error.strerror if isinstance(error, OSError) else error
            raise DiskError(
                f"the bundle could not be written to {str(self.target)!r} ({why}); "
                f"{_publication(self.is_published(), 'it')}{spent}. "
                "Free some room or choose another --out, and release again."
            ) from error

    @contextmanager
    def note_stops(self) -> Iterator[None]:
        """Around everything from the first row to the bundle: a stop gets a note of what was spent."""
        _last[:] = [self]
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) or str(error) == "Query interrupted":  # DuckDB's
                error.add_note(self.sentence())
            raise

    def sentence(self) -> str:
        """What is booked and published; a booking without its bundle is marked as not published."""
        is_there = self.is_published()
        public = f"; {_publication(is_there, str(self.target))}"
        try:
            entry = self.ledger.find(self.release_id) if self.ledger else None
            if entry and self.ledger and not is_there and entry.state == "committed":
                self.ledger.reopen(self.release_id)
        except MurmurlogError as error:
            return (
                f"look for {self.release_id} in the ledger, which cannot be read ({error}){public}"
            )
        if entry is None:
            return f"nothing was booked{public}"
        return (
            f"epsilon {entry.epsilon:.6g}, delta {entry.delta:.3g} stay booked on source "
            f"{entry.source} as {self.release_id}{public}"
        )


def _publication(is_there: bool, out: str) -> str:
    return f"{out} was published" if is_there else "nothing was published"


_last: list[Reservation] = []  # at most one


def last_sentence() -> str:
    """What was spent by the last release that this process began."""
    return _last[0].sentence() if _last else "nothing was booked"


def open_ledger(booking: Booking) -> tuple[Ledger | None, str]:
    """The ledger and the account of a release; neither without the other."""
    if booking.ledger is None:
        for flag, value in {
            "--new-source": booking.new_source,
            "--same-users": booking.same_users,
        }.items():
            if value:
                raise UsageError(
                    f"{flag} is about a source of a ledger: give --ledger and --source"
                )
        if booking.source_name is not None:
            raise UsageError("--source names an account of a ledger: give --ledger too")
        return None, ""
    if not booking.source_name:
        raise UsageError(
            "--ledger needs --source: the name of the population of users this log is about"
        )
    return Ledger(Path(booking.ledger)), booking.source_name


def unit_columns(unit: str, source: Source, *, windows: bool = False) -> dict[str, str]:
    """The columns that decide what a unit is, by their roles: of the user, and of the time where that counts.

    Time counts where it cuts units, and where `windows` say from when on rows are read.
    """
    roles = ("user", "time") if windows or unit in PERIODS else ("user",)
    return {role: source.columns[role] for role in roles if role in source.columns}


def check_noise(entropy: Entropy, ledger: Ledger | None) -> None:
    """Refuses to book noise from a known seed: it protects nobody, whatever is said to be spent."""
    if entropy.seeded and ledger is not None:
        raise Refused(
            f"noise from a known seed protects nobody, so {ledger.path.name} cannot book it as private: leave the "
            "seed or the ledger out. Nothing was booked."
        )


def part_of_cap(budget: Budget, ledger: Ledger | None, source: str) -> Part | None:
    """The part of the source's cap that a release is to spend; None if its budget is (epsilon, delta)."""
    if budget.of_cap is None:
        return None
    if budget.epsilon is not None or budget.delta is not None:
        raise UsageError("--of-cap takes the place of --epsilon and --delta: leave them out")
    if ledger is None:
        raise UsageError("--of-cap is a part of a source's cap: give --ledger and --source")
    account = ledger.account(source)
    if account.limits is None or account.delta_cap is None:
        raise UsageError(f'source "{account.name}" has no cap: set one with `murmurlog ledger cap`')
    delta = account.delta_cap - account.delta_by_sum
    return Part.of(account.limits, budget.of_cap, delta=delta)


def state_booking(
    before: Account, total: Guarantee, *, loss: Loss, distance: float
) -> dict[str, Any]:
    """What the certificate states about the booking, given the account before it.

    No sum of what was spent before: only the cap is a guarantee, and of several caps the largest.
    """
    cap = before.largest_cap
    assert cap is not None
    assert cap.limits is not None
    part = amounts_for(before, total, loss=loss, distance=distance)
    return {
        "source": before.name,
        "releases_before": before.releases,
        "rule": before.rule,
        "cap": {"epsilon": cap.epsilon, "delta": cap.delta, "keys_share": cap.keys_share},
        "spent_by_sum": {"epsilon": before.epsilon_by_sum, "delta": before.delta_by_sum},
        "rectangle": cap.limits._asdict(),
        "part": part._asdict(),
    }
