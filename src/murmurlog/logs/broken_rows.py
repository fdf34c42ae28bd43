"""Whether so many rows are broken that the log was probably misread; before anything is booked."""

from collections.abc import Callable, Mapping

from murmurlog.errors import InputError
from murmurlog.logs.cleaning import UNREADABLE_TIME, UNREADABLE_URL
from murmurlog.logs.likely_causes import likely_causes
from murmurlog.logs.source import Source


def check_broken(
    source: Source,
    *,
    rows: int,
    broken: Mapping[str, int],
    screened: Mapping[str, int],
    period: bool,
    max_broken: float,
    say: Callable[[str], None],
) -> None:
    """Raises if more than `max_broken` of the rows are broken; warns if any is.

    A row is broken that is lost or whose time cannot be read; screened rows are not, and neither are
    rows outside a period. Of `rows`, which were read, those with an unreadable time are a part unless
    there is a period. What it says is for the owner only.
    """
    counts = {reason: n for reason, n in broken.items() if reason != UNREADABLE_URL}
    untimed = 0 if period else counts.get(UNREADABLE_TIME, 0)
    lost = sum(counts.values())
    if not lost:
        return
    total = rows + lost - untimed + sum(screened.values())
    reasons = ", ".join(f"{n:,} x {reason}" for reason, n in sorted(counts.items(), key=_most))
    causes = " ".join(f"Likely cause: {cause}." for cause in likely_causes(source, counts))
    summary = f"{lost:,} of {total:,} rows of {source.name} are broken ({reasons})"
    if lost > max_broken * total:
        raise InputError(
            f"{summary}, more than --max-broken {max_broken:g} allows, so nothing was booked or published. "
            f"{causes} If the log is as it should be, give a larger --max-broken.".replace(
                "  ", " "
            )
        )
    note = "; rows without a readable time stay, as rows without a time" if untimed else ""
    say(f"warning: for your eyes only: {summary}{note}. {causes}".strip())


def _most(reason: tuple[str, int]) -> tuple[int, str]:
    return -reason[1], reason[0]
