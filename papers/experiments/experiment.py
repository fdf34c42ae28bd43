"""The values of an experiment: what a paper says, what was measured, and whether the two agree.

The logs are generated, so printed numbers are compared within a factor, and a number that grows with the
log only where the log has about as many users as the paper's. What decides about an experiment are the
effects that the paper states: directions and orders.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from papers.experiments.reasons import WHY

if TYPE_CHECKING:
    from papers.experiments.prepared_log import PreparedLog

FACTOR = 2.0
SAME_SIZE = (
    1.25  # between the users of two logs, so that numbers that grow with the log can be compared
)
SLACK = 0.1  # of the range: a step against a trend that is taken for noise
AGREES, DIFFERS, UNCOMPARED = "agrees", "differs", "cannot be compared"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A number: as printed, if the paper prints it, and as measured, if there was something to measure.

    `sized`: it grows with the log. `bound` is what the paper's own constraints allow at most.
    """

    name: str
    measured: float | None
    printed: float | None = None
    sized: bool = False
    bound: float | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An effect that the paper states, whether it was found (None: cannot be said), and what was found."""

    text: str
    holds: bool | None
    found: str

    @property
    def verdict(self) -> str:
        return UNCOMPARED if self.holds is None else AGREES if self.holds else DIFFERS


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines of a figure."""

    title: str
    x_label: str
    series: Mapping[str, Points]
    percent: bool = False
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an experiment found."""

    rows: Sequence[Row] = ()
    claims: Sequence[Claim] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values without NaN: what was not measured is null, and has no point in a chart."""
        value = asdict(self)
        for row in value["rows"]:
            row["measured"] = None if _missing(row["measured"]) else row["measured"]
        for chart in value["charts"]:
            chart["series"] = {
                name: [list(point) for point in known(line)]
                for name, line in chart["series"].items()
            }
        return value

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Measured":
        """The same value from what `as_json` gave. Raises KeyError or TypeError if it is something else."""
        return cls(
            rows=[Row(**each) for each in stored["rows"]],
            claims=[Claim(**each) for each in stored["claims"]],
            charts=[Chart(**each) for each in stored["charts"]],
            notes=list(stored["notes"]),
        )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of a paper, and the function that measures it on a prepared log."""

    name: str  # paper.table-or-figure
    about: str
    run: Callable[["PreparedLog"], Measured]
    setting: str = ""  # how the setting differs from the paper's


@dataclass(frozen=True, kw_only=True)
class LogSpec:
    """The generated log of a paper: its kind, its users, and how many users the paper's own log had."""

    like: str
    users: int
    seed: int
    paper_users: int | None
    full_users: int = 0  # at which the effects are expected

    @property
    def like_the_paper(self) -> bool:
        """Whether numbers that grow with the log can be compared."""
        return self.paper_users is not None and _within(self.users, self.paper_users, SAME_SIZE)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An experiment that was run, taken from a stored result, or failed."""

    experiment: Experiment
    spec: LogSpec
    measured: Measured | None = None
    error: str = ""
    seconds: float = 0.0
    stored: bool = field(default=False, compare=False)

    def row_verdict(self, row: Row) -> str:
        """agrees within the factor, differs, or cannot be compared."""
        if row.printed is None or row.measured is None or _missing(row.measured):
            return UNCOMPARED
        if row.sized and not self.spec.like_the_paper:
            return UNCOMPARED
        return AGREES if _within(row.measured, row.printed) else DIFFERS

    def row_reason(self, row: Row) -> str:
        """Why a number is not compared, or what the paper's own constraints allow."""
        if row.printed is None:
            return "not printed"
        if row.measured is None or _missing(row.measured):
            return "nothing was measured"
        if row.sized and not self.spec.like_the_paper:
            return "it grows with the log"
        return "" if row.bound is None else f"at most {number(row.bound)} is possible"

    @property
    def verdict(self) -> str:
        """By the effects alone; `failed` if the experiment raised."""
        if self.measured is None:
            return "failed"
        found = {claim.verdict for claim in self.measured.claims}
        return DIFFERS if DIFFERS in found else AGREES if AGREES in found else UNCOMPARED

    @property
    def why(self) -> str:
        """What likely makes it differ; nothing if neither an effect nor a number does."""
        if self.measured is None:
            return ""
        rows = map(self.row_verdict, self.measured.rows)
        return WHY.get(self.experiment.name, "") if DIFFERS in {self.verdict, *rows} else ""

    @property
    def summary(self) -> str:
        """How many effects and numbers agree."""
        if self.measured is None:
            return self.error
        claims = [claim.verdict for claim in self.measured.claims]
        rows = [self.row_verdict(row) for row in self.measured.rows]
        return (
            f"{_count(claims, 'effects')}; {_count(rows, f'numbers within a factor of {FACTOR:g}')}"
        )

    def as_json(self) -> dict[str, Any]:
        found = None
        if self.measured is not None:
            rows, claims = self.measured.rows, self.measured.claims
            found = self.measured.as_json()
            for each, row in zip(found["rows"], rows, strict=True):
                each |= {"verdict": self.row_verdict(row), "reason": self.row_reason(row)}
            for each, claim in zip(found["claims"], claims, strict=True):
                each["verdict"] = claim.verdict
        return {
            "experiment": self.experiment.name,
            "about": self.experiment.about,
            "setting": self.experiment.setting,
            "log": asdict(self.spec),
            "verdict": self.verdict,
            "summary": self.summary,
            "why": self.why or None,
            "error": self.error or None,
            "seconds": self.seconds,
            "stored": self.stored,
            "measured": found,
        }


def trend(text: str, points: Points, *, up: bool, least: float = -math.inf) -> Claim:
    """Whether values rise (or fall): the last is past the first, and no step back exceeds the slack.

    Values that are all the same say nothing: noise alone would make them differ if anything was published.
    Nor do counts of which none reaches `least`.
    """
    measured = known(points)
    found = values_of(measured)
    values = [y if up else -y for _, y in measured]
    if len(values) < 2 or math.isclose(max(values), min(values)):
        return Claim(text=text, holds=None, found=found or "nothing was measured")
    if max(y for _, y in measured) < least:
        return Claim(text=text, holds=None, found=f"{found}; never {least:g} or more")
    room = SLACK * (max(values) - min(values))
    steps = zip(values, values[1:], strict=False)
    return Claim(
        text=text,
        holds=values[-1] > values[0] and all(b >= a - room for a, b in steps),
        found=found,
    )


def order(text: str, values: Mapping[str, float], *, within: float = 0.0) -> Claim:
    """Whether each value is at least the next one; `within` is the part of a value taken for noise."""
    found = ", ".join(f"{name} {number(value)}" for name, value in values.items())
    every = list(values.values())
    if any(map(math.isnan, every)) or math.isclose(max(every), min(every)):
        return Claim(text=text, holds=None, found=found)
    steps = zip(every, every[1:], strict=False)
    return Claim(text=text, holds=all(a >= b * (1 - within) for a, b in steps), found=found)


def at_least(text: str, value: float, least: float) -> Claim:
    """Whether a value is at least a number; the rule is part of what was found."""
    holds = None if math.isnan(value) else value >= least
    return Claim(text=text, holds=holds, found=f"{number(value)}; the rule is at least {least:g}")


def known(points: Points) -> list[tuple[float, float]]:
    """The points that have a value."""
    return [(x, y) for x, y in points if not _missing(y)]


def values_of(points: Points) -> str:
    """The points of a line as text."""
    return ", ".join(f"{number(y)} at {x:g}" for x, y in points)


def number(value: float | None) -> str:
    """A number as tables show it; "-" for none."""
    if value is None or _missing(value):
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e12 else f"{value:.4g}"


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _within(a: float, b: float, factor: float = FACTOR) -> bool:
    return a == b or (min(a, b) > 0 and max(a, b) <= factor * min(a, b))


def _count(verdicts: Sequence[str], of: str) -> str:
    compared = [each for each in verdicts if each != UNCOMPARED]
    if not compared:
        return f"no {of} compared"
    left = len(verdicts) - len(compared)
    more = f" ({left} cannot be compared)" if left else ""
    return f"{compared.count(AGREES)} of {len(compared)} {of}{more}"
