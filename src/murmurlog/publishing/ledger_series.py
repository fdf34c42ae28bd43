"""The order of a series in a ledger: each period is booked once, and periods one after the other.

Nothing but entries of the ledger decides, inside the transaction that books; so no file that is lost,
no clock and no second runner can make a period be drawn twice.
"""

from collections.abc import Sequence

from murmurlog.errors import Refused
from murmurlog.publishing.ledger_records import Entry
from murmurlog.publishing.series_periods import Step

LOST = "lost"  # the state of an entry that was booked and will never be published


class PeriodBooked(Refused):
    """Another run booked the period first."""


def entries_of(entries: Sequence[Entry], source: str, series: str) -> list[Entry]:
    """The bookings of a series, oldest first."""
    return [entry for entry in entries if (entry.source, entry.series) == (source, series)]


def check_step(entries: Sequence[Entry], source: str, step: Step | None) -> None:
    """Raises Refused unless the step of a series may be booked now."""
    if step is None:
        return
    series = entries_of(entries, source, step.series)
    same = [entry for entry in series if entry.period == step.period]
    name = f'{step.period} of series "{step.series}"'
    if booked := [entry for entry in same if entry.state != LOST]:
        raise PeriodBooked(
            f"{name} is booked already as {booked[0].release_id}: nothing was booked"
        )
    if same and not step.again:
        raise Refused(
            f"{name} was booked and lost: its budget stays spent. To spend another part on this period, run: "
            f"murmurlog series run SPEC --again {step.period}"
        )
    if step.again and not same:
        raise Refused(f"{name} was never booked, so there is nothing to repeat: leave --again out")
    later = max((entry.period for entry in series if entry.period), default="")
    if later > step.period and not step.again:
        raise Refused(
            f"{name} comes before {later}, which is booked already: a series is released in order"
        )
