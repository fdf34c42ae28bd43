"""The format of a column of times: the one that reads most of its values as times from 1990 to 2100.

Day and month are told apart by the values where one exceeds 12. Where too few values do, both formats
are possible, and the owner is told so: one row must not decide.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from murmurlog.logs.duckdb_statements import run_statement
from murmurlog.logs.sql import quote
from murmurlog.logs.times import COMMON_FORMATS

STANDARD = ""  # what is read without --time-format: ISO 8601 and Unix time
EARLIEST, LATEST = 1990, 2100  # years of a search log
NEAR = 0.01  # of the values: formats that differ by less are both possible
TRIED = 100  # values of a sample
# As `duckdb_rows` reads them: microseconds in a unit of Unix time, by the size of the number.
UNIX = {"1e11": "1e6", "1e14": "1e3", "1e17": "1", "1e20": "1e-3"}
_DIRECTIVE = re.compile("%.")


@dataclass(frozen=True, kw_only=True)
class TimeFormat:
    """A format of times as --time-format takes it, or the standard one."""

    format: str  # STANDARD: none needs to be given
    share: float  # of the values that it reads
    first: datetime
    last: datetime
    others: tuple[str, ...] = ()  # that read as many values, as other moments

    @property
    def name(self) -> str:
        """The format, or in words which one needs none."""
        return self.format or "ISO 8601 or Unix time"


@dataclass(frozen=True, kw_only=True)
class Read:
    """How many values a format reads, and as which moments."""

    format: str
    values: int
    sum: float  # of the moments: formats with equal sums read values alike
    first: datetime
    last: datetime


def likely(values: Sequence[str]) -> tuple[str, ...]:
    """The formats that read one of the first values of a sample; none if most are no times."""
    tried = [value.strip() for value in values[:TRIED]]
    if 2 * sum(sum(c.isdecimal() for c in value) >= 5 for value in tried) <= len(tried):
        return ()
    signs = {_signs(value) for value in tried}
    alike = (
        form for form in COMMON_FORMATS if "%z" in form or _signs(_DIRECTIVE.sub("", form)) in signs
    )
    return (STANDARD, *(form for form in alike if any(_fits(value, form) for value in tried)))


def _signs(text: str) -> str:
    """The characters between numbers and names."""
    return "".join(c for c in text if not c.isalnum())


def _fits(value: str, form: str) -> bool:
    try:
        return EARLIEST <= datetime.strptime(value, form).year <= LATEST
    except ValueError:
        return False


def reads(values: Any, formats: Sequence[str]) -> list[Read]:
    """What each format reads of the column v of an Arrow table or reader, in one pass."""
    if not formats:
        return []
    times = ", ".join(f"{_time_sql(form)} AS t{i}" for i, form in enumerate(formats))
    facts = ", ".join(
        f"count(t{i}), sum(epoch(t{i})), min(t{i}), max(t{i})" for i in range(len(formats))
    )
    (row,) = run_statement(
        f"SELECT {facts} FROM (SELECT {times} FROM sample)", tables={"sample": values}
    ).to_pylist()
    quads = zip(*(iter(row.values()),) * 4, strict=True)
    return [
        Read(format=form, values=n, sum=total, first=first, last=last)
        for form, (n, total, first, last) in zip(formats, quads, strict=True)
        if n
    ]


def _time_sql(form: str) -> str:
    """SQL: the time of the text v in UTC if its year is plausible, else null."""
    text = "trim(v)"
    if form == STANDARD:
        number = f"try_cast({text} AS DOUBLE)"
        micro = " ".join(f"WHEN {number} < {most} THEN {by}" for most, by in UNIX.items())
        value = (
            f"CASE WHEN regexp_full_match({text}, '[0-9]{{9,19}}(\\.[0-9]+)?') "
            f"THEN make_timestamp(((CASE {micro} END) * {number})::BIGINT) "
            f"ELSE try_cast({text} AS TIMESTAMP) END"
        )
    else:
        value = f"try_strptime({text}, {quote(form)})"
        if "%z" in form:
            value = f"({value} AT TIME ZONE 'UTC')"
    return f"CASE WHEN year({value}) BETWEEN {EARLIEST} AND {LATEST} THEN ({value})::TIMESTAMP END"


def choose(formats: Sequence[Read], values: int) -> TimeFormat | None:
    """The format of most values, and those that are as likely; None if none reads half of them.

    Of equally likely formats the first is that by which the log spans less time: with day and month
    exchanged a log of one month is spread over a year.
    """
    if not formats or not values:
        return None
    most = max(read.values for read in formats)
    if most < values / 2:
        return None
    best = [read for read in formats if read.values >= most - NEAR * values]
    distinct = list({(read.values, read.sum): read for read in reversed(best)}.values())
    distinct.sort(key=lambda read: (read.format != STANDARD, read.last - read.first))
    first = distinct[0]
    return TimeFormat(
        format=first.format,
        share=first.values / values,
        first=first.first,
        last=first.last,
        others=tuple(read.format for read in distinct[1:]),
    )
