"""From a target to a plan: the least epsilon, and the bound and split of a mechanism that reach it.

All numbers come from simulations on a `StandInLog`; the log to be released is not read.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from murmurlog.bundle.progress import measure
from murmurlog.errors import UsageError
from murmurlog.publishing.plan import DELTA, EPSILON, Plan, plan
from murmurlog.publishing.planning.forecast import Forecast, Simulation, explain, no_forecast
from murmurlog.publishing.planning.forecast_source import ForecastLog, ForecastSource

GOALS = ("coverage", "precision")
LEAST, MOST = 0.01, 20.0  # epsilon
STEP = math.sqrt(2)  # of the first, coarse search
FINE = 0.01  # how near to the least epsilon the second one comes
FINAL_REPEATS, FINAL_SEED = 5, 1000
PAIRS_A_SIMULATION = 1_500_000  # smaller stand-in logs are simulated several times
EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)  # of a sweep
# What counts may get of the budget, by goal.
SHARES: dict[str | None, tuple[float, ...]] = {
    None: (0.3,),
    "coverage": (0.1,),
    "precision": (0.3, 0.5, 0.7),
}
# Flags of the release that are given, not chosen on a log.
GIVEN = ("tables", "mechanism", "delta", "unit", "neighbours", "set-only")
ROUNDS = (4, 6)
# The default comes first: the coarse search uses it.
ROUNDS_BOUNDS = (100, 300, 30)
BOUNDS = {"threshold": (3, 10, 30), "korolova": (1, 2, 4, 8)}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a release must hold at least: a number of queries, or a share of the volume."""

    name: str
    amount: float

    def __post_init__(self) -> None:
        if self.name not in ("volume", "queries"):
            raise UsageError(
                f"--target {self.name}={self.amount:g}: the target must be volume or queries"
            )
        if self.name == "volume" and not 0 < self.amount < 1:
            raise UsageError(f"--target volume must lie between 0 and 1, not {self.amount:g}")
        if self.name == "queries" and not (self.amount >= 1 and math.isfinite(self.amount)):
            raise UsageError(f"--target queries must be at least 1, not {self.amount:g}")

    def __str__(self) -> str:
        return f"{self.name}={self.amount:g}"

    def of(self, forecast: Forecast) -> float:
        """The forecast amount of what the target asks for."""
        return forecast.volume if self.name == "volume" else forecast.queries

    def met(self, forecast: Forecast) -> bool:
        return self.of(forecast) >= self.amount


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is fixed before anything is chosen: delta, unit, neighbours and the given settings."""

    delta: float = DELTA
    unit: str = "user"
    neighbours: str = "add-remove"
    set_only: bool = False
    mechanism: str = "rounds"
    per_user: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # rounds, count_share, count_per_user


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mechanism with all settings but the budget."""

    mechanism: str
    per_user: int
    options: Mapping[str, Any]

    def plan(self, epsilon: float, terms: Terms) -> Plan:
        return plan(
            mechanism=self.mechanism,
            epsilon=epsilon,
            delta=terms.delta,
            per_user=self.per_user,
            unit=terms.unit,
            neighbours=terms.neighbours,
            options=self.options,
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A candidate at an epsilon, and the forecast of what it publishes."""

    candidate: Candidate
    epsilon: float
    plan: Plan
    forecast: Forecast


def candidates(terms: Terms, goal: str | None = None) -> list[Candidate]:
    """The settings of the mechanism that are tried, its default first."""
    if goal not in (None, *GOALS):
        raise UsageError(f"--goal must be {' or '.join(GOALS)}, not {goal!r}")
    if goal == "precision" and terms.set_only:
        raise UsageError("--goal precision is about counts, and --set-only publishes none")
    if terms.mechanism == "rounds":
        return list(_rounds(terms, goal))
    if terms.mechanism not in BOUNDS:
        raise UsageError(no_forecast(terms.mechanism))
    if terms.options:
        flag = "--" + next(iter(terms.options)).replace("_", "-")
        raise UsageError(f"{flag} is of rounds, not of {terms.mechanism}: leave it out")
    bounds = BOUNDS[terms.mechanism] if terms.per_user is None else (terms.per_user,)
    counted = {"counts": not terms.set_only} if terms.mechanism == "korolova" else {}
    return [Candidate(mechanism=terms.mechanism, per_user=d, options=counted) for d in bounds]


def _rounds(terms: Terms, goal: str | None) -> Iterable[Candidate]:
    options = terms.options
    for d in ROUNDS_BOUNDS if terms.per_user is None else (terms.per_user,):
        usual = ROUNDS[:1] if goal == "precision" else ROUNDS
        for rounds in (options["rounds"],) if "rounds" in options else usual:
            if terms.set_only:
                yield Candidate(
                    mechanism="rounds",
                    per_user=d,
                    options={"rounds": rounds, "count_share": 0.0},
                )
                continue
            # How many items of a unit count in full follows from the release's own histogram.
            counted = {n: options[n] for n in ("count_per_user",) if n in options}
            for share in (options["count_share"],) if "count_share" in options else SHARES[goal]:
                split = {"rounds": rounds, "count_share": share, **counted}
                yield Candidate(mechanism="rounds", per_user=d, options=split)


class Search:
    """Searches candidates by simulation, all on the same terms."""

    def __init__(
        self, simulation: Simulation, terms: Terms, *, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self.simulation, self.terms, self._say = simulation, terms, say
        pairs = max(1, simulation.stand_in.pairs)
        self.repeats = max(1, min(3, PAIRS_A_SIMULATION // pairs))

    def at(
        self, epsilon: float, *, target: Target | None = None, goal: str | None = None
    ) -> Choice:
        """The best candidate for the goal at this epsilon, of those that meet the target if any does."""
        tried = candidates(self.terms, goal)
        self._say(f"comparing {len(tried)} candidates at epsilon {epsilon:.3g}")
        return self._final(self.best(tried, epsilon, target=target, goal=goal))

    def least(self, target: Target, *, goal: str | None = None) -> Choice:
        """The least epsilon whose best choice meets the target; at the most epsilon if none does."""
        tried = candidates(self.terms, goal)
        self._say("looking for an epsilon")
        low, high = self._coarse(tried[0], target)
        self._say(f"comparing {len(tried)} candidates at epsilon {high:.3g}")
        best = self.best(tried, high, goal=goal, of=target, repeats=1).candidate
        if not target.met(self._forecast(best, high).forecast):
            low, high = high, MOST
        else:
            low /= STEP  # the best candidate needs less than the default
        self._say(f"looking for the least epsilon of {best.mechanism}")
        while high / low > 1 + FINE:
            middle = math.sqrt(low * high)
            if target.met(self._forecast(best, middle).forecast):
                high = middle
            else:
                low = middle
        choice = self._final(self._forecast(best, _round_up(high)))
        while not target.met(choice.forecast) and choice.epsilon < MOST:
            more = _round_up(min(MOST, choice.epsilon * (1 + FINE)))
            choice = self._forecast(choice.candidate, more, repeats=FINAL_REPEATS, seed=FINAL_SEED)
        return choice

    def _coarse(self, default: Candidate, target: Target) -> tuple[float, float]:
        """Two epsilons a step apart, between which the default begins to meet the target."""
        steps = math.ceil(math.log(MOST / LEAST) / math.log(STEP))
        low, high = 0, steps  # the search assumes that the highest step suffices
        while high - low > 1:
            middle = (low + high) // 2
            if target.met(self._forecast(default, _step(middle), repeats=1).forecast):
                high = middle
            else:
                low = middle
        return _step(low), _step(high)

    def best(
        self,
        tried: Sequence[Candidate],
        epsilon: float,
        *,
        target: Target | None = None,
        goal: str | None = None,
        of: Target | None = None,
        repeats: int | None = None,
    ) -> Choice:
        """The candidate that publishes most, or has the least error if precision is the goal."""
        choices = []
        advance = measure(self._say, total=len(tried), unit="candidates")
        for candidate in tried:
            try:
                choices.append(self._forecast(candidate, epsilon, repeats=repeats))
            except UsageError as error:  # no such noise can be certified at this budget
                why = error
            advance()
        if not choices:
            raise why
        amount = (of or target or Target(name="volume", amount=0.5)).of
        meeting = [c for c in choices if target is None or target.met(c.forecast)] or choices
        if goal == "precision":
            return min(meeting, key=lambda choice: (_error(choice), -amount(choice.forecast)))
        return max(meeting, key=lambda choice: (amount(choice.forecast), -_error(choice)))

    def _final(self, choice: Choice) -> Choice:
        """The choice, simulated with more repeats."""
        return self._forecast(
            choice.candidate, choice.epsilon, repeats=FINAL_REPEATS, seed=FINAL_SEED
        )

    def _forecast(
        self, candidate: Candidate, epsilon: float, *, repeats: int | None = None, seed: int = 0
    ) -> Choice:
        release_plan = candidate.plan(epsilon, self.terms)
        forecast = self.simulation.forecast(
            release_plan.mechanism, repeats=repeats or self.repeats, seed=seed
        )
        return Choice(candidate=candidate, epsilon=epsilon, plan=release_plan, forecast=forecast)


def _step(n: int) -> float:
    return min(MOST, LEAST * STEP**n)


def _error(choice: Choice) -> float:
    error = choice.forecast.median_error
    return math.inf if error is None else error


def _round_up(epsilon: float) -> float:
    """Rounded up to three digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return round(math.ceil(epsilon / unit * (1 - 1e-12)) * unit, 12)


def sweep(
    source: ForecastSource,
    terms: Terms,
    *,
    goal: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[ForecastLog, list[dict[str, Any]]]:
    """The trade-off: what the mechanism publishes at each epsilon, at its best bound."""
    tried = candidates(terms, goal)  # refused before anything is read
    log = source.load(say)
    search = Search(Simulation(log.stand_in), replace(terms, unit=source.unit))
    advance = measure(say, total=len(EPSILONS), unit="values")
    rows = []
    for epsilon in EPSILONS:
        choice = search.best(tried, epsilon, goal=goal)
        row = {"mechanism": terms.mechanism, "per_user": choice.candidate.per_user}
        rows.append(row | {"epsilon": epsilon, "delta": terms.delta, **choice.forecast.as_json()})
        advance()
    return log, rows


def release_flags(choice: Choice, terms: Terms, *, kind: str = "query") -> dict[str, Any]:
    """The flags of the release that was planned, by name."""
    options = dict(choice.candidate.options)
    options.pop("counts", None)
    if terms.set_only:
        options.pop("count_share", None)
        options.pop("count_per_user", None)
    flags: dict[str, Any] = {
        "tables": [kind],
        "mechanism": choice.candidate.mechanism,
        "epsilon": choice.epsilon,
        "delta": terms.delta,
        "per-user": choice.candidate.per_user,
        **{name.replace("_", "-"): value for name, value in options.items()},
    }
    if terms.unit != "user":
        flags["unit"] = terms.unit
    if terms.neighbours != "add-remove":
        flags["neighbours"] = terms.neighbours
    if terms.set_only:
        flags["set-only"] = True
    return flags


@dataclass(frozen=True, kw_only=True)
class TargetPlan:
    """A release that was planned on a forecast, and what it is expected to hold."""

    choice: Choice
    terms: Terms
    log: ForecastLog
    target: Target | None
    epsilon: float | None  # as it was given
    explanation: str
    limit: Choice | None = None  # at the largest epsilon, where even that misses the target

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.target.met(self.choice.forecast)

    @property
    def unprotected(self) -> list[str]:
        """The settings that were chosen on the owner's log itself."""
        if not self.log.exact:
            return []
        fixed = {name.replace("_", "-") for name in self.terms.options} | set(GIVEN)
        fixed |= {"per-user"} if self.terms.per_user else set()
        fixed |= {"epsilon"} if self.target is None or self.epsilon is not None else set()
        flags = release_flags(self.choice, self.terms, kind=self.log.kind)
        return [
            f"{name} {value}, chosen by plan on the log itself"
            for name, value in flags.items()
            if name not in fixed
        ]

    @property
    def settings(self) -> dict[str, Any]:
        """The flags of the release by name, as in a [release] section of murmurlog.toml."""
        flags = release_flags(self.choice, self.terms, kind=self.log.kind)
        if self.unprotected:
            flags["unprotected"] = self.unprotected
        return flags

    @property
    def command(self) -> str:
        """The command line of the release."""
        words = ["murmurlog", "release", "SOURCE"]
        for name, value in self.settings.items():
            if value is True:
                words.append(f"--{name}")
            elif name == "unprotected":
                words += [word for text in value for word in ("--unprotected", text)]
            else:
                words += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
        return shlex.join(words)

    @property
    def sentence(self) -> str:
        """The forecast in one sentence."""
        f, g = self.choice.forecast, self.choice.plan.guarantee
        what = {"query": "queries", "pair": "pairs of queries", "click": "pairs of query and url"}
        items = what.get(self.log.kind, f"{self.log.kind}s")
        return (
            f"At epsilon {g.epsilon:.3g} with {self.log.stand_in.units:,} {g.unit}s about {f.queries:,.0f} "
            f"{items} would be published, {100 * f.volume:.1f} % of the volume."
        )

    @property
    def shortfall(self) -> str | None:
        """How much of the target can be had; None if it is reached."""
        if self.met is not False or self.target is None:
            return None

        def best(choice: Choice) -> str:
            amount = self.target.of(choice.forecast) if self.target else 0.0
            volume = self.target and self.target.name == "volume"
            text = f"{100 * amount:.1f} %" if volume else f"{amount:,.0f}"
            return f"the best at epsilon {choice.epsilon:g} is about {text}"

        advice = "lower the target, or allow a larger epsilon"
        also = ""
        if self.limit is not None:
            advice = "lower the target, or plan for more users"
            also = f", and {best(self.limit)}, the largest epsilon that is tried"
        return (
            f"missed: {self.target} is not reached: {best(self.choice)}{also}. What few users hold cannot "
            f"be published at this budget, whatever the split: {advice}."
        )

    def as_json(self) -> dict[str, Any]:
        """Everything known about the choice."""
        return self.choice.plan.as_json() | {
            "sentence": self.sentence,
            "explained": self.explanation,
            "target": None if self.target is None else str(self.target),
            "met": self.met,
            "forecast": self.choice.forecast.as_json(),
            "from": self.log.description,
            "unprotected": self.unprotected,
            "release": self.command,
        }


def plan_for_target(
    source: ForecastSource,
    terms: Terms,
    *,
    target: Target | None = None,
    goal: str | None = None,
    epsilon: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> TargetPlan:
    """The release that reaches the target at the least epsilon, or the best one at a given epsilon."""
    candidates(terms, goal)  # refused before anything is read
    log = source.load(say)
    terms = replace(terms, unit=source.unit)
    simulation = Simulation(log.stand_in)
    search, limit = Search(simulation, terms, say=say), None
    if target is not None and epsilon is None:
        choice = search.least(target, goal=goal)
        if not target.met(choice.forecast):
            # The settings of a release are no place for the largest epsilon that was tried.
            limit, choice = choice, search.at(EPSILON, target=target, goal=goal)
    else:
        choice = search.at(EPSILON if epsilon is None else epsilon, target=target, goal=goal)
    return TargetPlan(
        choice=choice,
        terms=terms,
        log=log,
        target=target,
        epsilon=epsilon,
        explanation=explain(choice.plan, simulation),
        limit=limit,
    )
