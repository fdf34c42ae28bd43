"""A release and its source in a ledger: what may be booked, which part of the cap, and what its certificate states."""

from pathlib import Path
from typing import Any

from murmurlog.errors import Refused, UsageError
from murmurlog.logs.rows import PERIODS
from murmurlog.logs.source import Source
from murmurlog.privacy import Guarantee, Loss
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import amounts_for
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.plan import Part
from murmurlog.publishing.request import Booking, Budget


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


def check_noise(entropy: Entropy, book: Ledger | None) -> None:
    """Refuses to book noise from a known seed: it protects nobody, whatever is said to be spent."""
    if entropy.seeded and book is not None:
        raise Refused(
            f"noise from a known seed protects nobody, so {book.path.name} cannot book it as private: leave the "
            "seed or the ledger out. Nothing was booked."
        )


def part_of_cap(budget: Budget, book: Ledger | None, source: str) -> Part | None:
    """The part of the source's cap that a release is to spend; None if its budget is (epsilon, delta)."""
    if budget.of_cap is None:
        return None
    if budget.epsilon is not None or budget.delta is not None:
        raise UsageError("--of-cap takes the place of --epsilon and --delta: leave them out")
    if book is None:
        raise UsageError("--of-cap is a part of a source's cap: give --ledger and --source")
    account = book.account(source)
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
