"""What a series of releases under one cap would publish, period by period, by simulation.

The log to forecast from is one period; `later_periods` models the others. Every release spends the same part of
the cap, publishes counts of its period, and gives every key of an earlier release a row as well. Two roads are
compared: keys are selected from the rows of the period, or from all rows so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from murmurlog.bundle.progress import measure
from murmurlog.errors import UsageError
from murmurlog.mechanisms import Rounds
from murmurlog.mechanisms.rounds.fresh_counts import Noise, count_users
from murmurlog.mechanisms.rounds.holders import holders_of_pairs
from murmurlog.privacy import WeightedCounts, limits_of
from murmurlog.privacy.sampler import Integers
from murmurlog.publishing.plan import DELTA, EPSILON, Part, plan_tables
from murmurlog.publishing.planning.forecast import TOP, select, simulated_noise
from murmurlog.publishing.planning.forecast_source import ForecastLog, ForecastSource
from murmurlog.publishing.planning.goals import PAIRS_A_SIMULATION
from murmurlog.publishing.planning.later_periods import ACTIVE, DRIFT, REPEATED, Pairs, draw_periods
from murmurlog.publishing.planning.stand_in_log import StandInLog

ROADS = ("month", "all")  # where keys are selected from: the rows of the period, or all rows so far
MOST_RELEASES = 400
MODEL = (
    f"the log is one period; a unit with m items is in another one with probability {ACTIVE:g} (1 - exp(-m)), "
    f"repeats {REPEATED:.0%} of its items and draws the others by popularity, which drifts by {DRIFT:.0%} a period"
)


@dataclass(frozen=True, kw_only=True)
class PeriodForecast:
    """What is expected of one release of a series."""

    release: int
    count_share: float
    distinct: float  # keys published so far
    counts: float  # rows with a count in this release
    reliable: float
    median_error: float  # of the 100 most popular items of the period; a missing one counts as 1

    def as_json(self) -> dict[str, Any]:
        numbers = {n: round(getattr(self, n)) for n in ("distinct", "counts", "reliable")}
        first = {"release": self.release, "count_share": self.count_share}
        return first | numbers | {"median_error": round(self.median_error, 4)}


@dataclass(frozen=True, kw_only=True)
class SeriesForecast:
    """The forecast of a series, by road."""

    part: float
    epsilon: float  # of the cap
    delta: float
    log: ForecastLog
    mechanism: str  # of the first release
    roads: dict[str, tuple[PeriodForecast, ...]]

    @property
    def releases(self) -> int:
        return len(self.roads[ROADS[0]])

    def as_json(self) -> dict[str, Any]:
        return {
            "cap": {"epsilon": self.epsilon, "delta": self.delta},
            "of_cap": self.part,
            "releases": self.releases,
            "mechanism": self.mechanism,
            "from": self.log.description,
            "protected": not self.log.exact,
            "model": MODEL,
            "forecast": {
                road: [each.as_json() for each in rows] for road, rows in self.roads.items()
            },
        }


def forecast_series(
    source: ForecastSource,
    *,
    of_cap: float | None = None,
    releases: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    count_shares: Sequence[float] = (),
    per_user: int | None = None,
    neighbours: str = "add-remove",
    options: dict[str, Any] | None = None,
    known_free: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> SeriesForecast:
    """Forecasts releases that each spend a part of a cap (epsilon, delta).

    `count_shares` are those of the first releases; the last one holds for all that follow. Without
    `known_free`, a release knows nothing of earlier ones.
    """
    part, releases = _check_parts(of_cap, releases)
    shares = _check_shares(count_shares, releases)
    cap = (EPSILON if epsilon is None else epsilon, DELTA if delta is None else delta)
    limits = limits_of(*cap)
    kind = source.kind or "query"
    made: dict[float | None, Rounds] = {}
    for share in shares:  # refused before anything is read
        chosen = {**(options or {}), **({} if share is None else {"count_share": share})}
        plans, _ = plan_tables(
            [kind], mechanism="rounds", unit=source.unit, neighbours=neighbours, options=chosen,
            per_user=None if per_user is None else {kind: per_user},
            part=Part.of(limits, part, delta=cap[1]),
        )  # fmt: skip
        mechanism = plans[kind].mechanism
        assert isinstance(mechanism, Rounds)
        if mechanism.schedule.counts is None:
            raise UsageError("a series without counts has nothing to follow: give counts a share")
        made[share] = mechanism
    log = source.load(say)
    if log.kind != kind:
        raise UsageError(f"the profile is of kind {log.kind}: give --kind {log.kind}")
    repeats = max(1, min(3, PAIRS_A_SIMULATION // max(1, log.stand_in.pairs * releases)))
    say(f"simulating {releases} releases")
    advance = measure(say, total=repeats * releases, unit="releases")
    runs: list[dict[str, list[dict[str, float]]]] = []
    for seed in range(repeats):
        series = {
            road: _Simulated(log.stand_in.size, known_free=known_free, noise=simulated_noise(seed))
            for road in ROADS
        }
        periods = draw_periods(log.stand_in, releases, seed=seed)
        for share, pairs in zip(shares, periods, strict=True):
            for road, each in series.items():
                each.release(made[share], pairs, everything=road == "all")
            advance()
        runs.append({road: each.found for road, each in series.items()})
    return SeriesForecast(
        part=part,
        epsilon=cap[0],
        delta=cap[1],
        log=log,
        mechanism=str(made[shares[0]]),
        roads={road: tuple(_means([run[road] for run in runs], shares)) for road in ROADS},
    )


def _check_parts(of_cap: float | None, releases: int | None) -> tuple[float, int]:
    """The part of each release and their number; one follows from the other."""
    if of_cap is None:
        if releases is None or releases < 1:
            raise UsageError(f"--releases must be at least 1, not {releases}")
        of_cap = 1 / releases
    fit = int(1 / of_cap * (1 + 1e-9))
    releases = fit if releases is None else releases
    if not 1 <= releases <= MOST_RELEASES:
        raise UsageError(f"--releases must lie between 1 and {MOST_RELEASES}, not {releases}")
    if releases > fit:
        raise UsageError(
            f"--releases {releases} of --of-cap {of_cap:.4g} each do not fit into one cap: at most {fit} do"
        )
    return of_cap, releases


def _check_shares(given: Sequence[float], releases: int) -> list[float | None]:
    """The share of counts in each release; None: the mechanism's own."""
    if wrong := [share for share in given if not 0 < share < 1]:
        raise UsageError(f"--counts-share must lie between 0 and 1, not {wrong[0]:g}")
    if len(given) > releases:
        raise UsageError(f"--counts-share lists {len(given)} shares for {releases} releases")
    every: list[float | None] = [*given] or [None]
    return every + every[-1:] * (releases - len(every))


class _Simulated:
    """One series: the keys that are published, all rows so far, and what each release had."""

    def __init__(self, size: int, *, known_free: bool, noise: Noise) -> None:
        self.published = np.zeros(size, bool)
        self.known_free = known_free
        self.noise = noise
        self.rows: Pairs = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self.found: list[dict[str, float]] = []

    def release(self, made: Rounds, period: Pairs, *, everything: bool) -> None:
        """Simulates one release: selection, then counts of the period."""
        unit, item = period
        size = max(len(self.published), int(item.max(initial=-1)) + 1)
        self.published = np.append(self.published, np.zeros(size - len(self.published), bool))
        window = period
        if everything:
            window = self.rows = _united(self.rows, period)
        shown = self._select(made, window)
        self.published[shown] = True
        counted = np.flatnonzero(self.published) if self.known_free else np.sort(shown)
        users = np.bincount(item, minlength=size)
        estimate, reliable = np.zeros(size), 0
        there = np.zeros(size, bool)
        there[counted] = True
        counts = made.schedule.counts
        assert isinstance(counts, WeightedCounts)
        if len(counted):
            place = np.full(size, -1, np.int64)
            place[counted] = np.arange(len(counted))
            at = place[item]
            holders = holders_of_pairs(unit[at >= 0], at[at >= 0], size=len(counted))
            found = count_users(holders, counts, self.noise).estimates
            estimate[counted] = np.rint(found.users)
            reliable = int((4 * found.stderr <= np.rint(found.users)).sum())
        top = np.argsort(-users, kind="stable")[:TOP]
        off = np.abs(estimate[top] - users[top]) / np.maximum(users[top], 1)
        self.found.append(
            {
                "distinct": float(self.published.sum()),
                "counts": float(len(counted)),
                "reliable": float(reliable),
                "median_error": float(np.median(np.where(there[top], off, 1.0))),
            }
        )

    def _select(self, made: Rounds, window: Pairs) -> Integers:
        """The items that a release adds; of the window, items that are known need no selection."""
        unit, item = window
        if self.known_free:
            unknown = ~self.published[item]
            unit, item = unit[unknown], item[unknown]
        place = np.arange(len(unit)) - np.searchsorted(unit, unit)
        held = StandInLog(
            unit=unit, item=item, place=place,
            units=int(unit.max(initial=-1)) + 1, size=len(self.published),
        )  # fmt: skip
        bounded, numbers = held.bounded(made.schedule.d).renumbered()
        if not bounded.pairs:
            return np.zeros(0, np.int64)
        return np.asarray(numbers[select(made, bounded, noise=self.noise)])


def _united(rows: Pairs, period: Pairs) -> Pairs:
    """All distinct pairs, those of earlier periods first in the order of their unit."""
    unit, item = (np.concatenate(both) for both in zip(rows, period, strict=True))
    _, first = np.unique(unit * (int(item.max(initial=0)) + 1) + item, return_index=True)
    first.sort()
    unit, item = unit[first], item[first]
    order = np.argsort(unit, kind="stable")
    return unit[order], item[order]


def _means(
    runs: Sequence[list[dict[str, float]]], shares: Sequence[float | None]
) -> list[PeriodForecast]:
    """The means over simulations."""
    from murmurlog.mechanisms.rounds.mechanism import COUNT_SHARE

    return [
        PeriodForecast(
            release=n,
            count_share=COUNT_SHARE if share is None else share,
            **{name: mean(each[name] for each in same) for name in same[0]},
        )
        for n, (share, same) in enumerate(zip(shares, zip(*runs, strict=True), strict=True), 1)
    ]
