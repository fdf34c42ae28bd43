"""Periods of a series of releases: months, weeks and days of the calendar, in UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from murmurlog.errors import UsageError

# How a period is written, as of its first day. Texts of one kind are in the order of time.
FORMS = {"month": "%Y-%m", "week": "%G-W%V", "day": "%Y-%m-%d"}
EXAMPLES = {"month": "2026-01", "week": "2026-W05", "day": "2026-01-31"}
LATEST = date(9000, 1, 1)


@dataclass(frozen=True, order=True)
class Period:
    """A month, week or day."""

    start: date
    kind: str

    @classmethod
    def parse(cls, text: str, kind: str) -> "Period":
        """The period of a text such as 2026-01, 2026-W05 or 2026-01-31."""
        try:
            day = datetime.strptime(text + "-1" * (kind == "week"), _day_form(kind)).date()
            period = cls.at(day, kind)
        except (ValueError, OverflowError):
            period = None
        if period is None or str(period) != text or not date(1000, 1, 1) <= period.start < LATEST:
            raise UsageError(f"{text!r:.60} is no {kind}: write it as {EXAMPLES[kind]}")
        return period

    @classmethod
    def at(cls, day: date, kind: str) -> "Period":
        """The period that holds a day."""
        if kind == "month":
            day = day.replace(day=1)
        elif kind == "week":
            day -= timedelta(days=day.weekday())
        return cls(day, kind)

    def __str__(self) -> str:
        return self.start.strftime(FORMS[self.kind])

    @property
    def end(self) -> date:
        """The first day after it."""
        days = {"month": 31, "week": 7, "day": 1}[self.kind]
        return Period.at(self.start + timedelta(days=days), self.kind).start

    @property
    def next(self) -> "Period":
        return Period(self.end, self.kind)

    @property
    def previous(self) -> "Period":
        return Period.at(self.start - timedelta(days=1), self.kind)

    def is_over(self, now: datetime) -> bool:
        """Whether it has ended by the clock."""
        return now.astimezone(UTC).date() >= self.end

    def fill(self, pattern: str) -> str:
        """The pattern with this period in the place of {period} and of fields such as %Y-%m."""
        whole = pattern.replace("{period}", str(self))
        return re.sub(r"%(.)", lambda match: self.start.strftime(match[0]), whole)


def _day_form(kind: str) -> str:
    return {"month": "%Y-%m", "week": "%G-W%V-%u", "day": "%Y-%m-%d"}[kind]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The place of a release in a series. `again` accepts that what was booked for it is lost."""

    series: str
    period: str
    again: bool = False
