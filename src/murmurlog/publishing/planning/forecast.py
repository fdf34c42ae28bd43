"""What a mechanism would publish: forecasts by simulation on a log without texts.

A simulation runs the mechanism's own steps, with seeded noise, on a `StandInLog`. Mechanisms that
threshold counts run their own `release`. Rounds are simulated on arrays, ten times as fast as in an
engine; a test compares both item by item. Noise drawn here is never published.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.counting.tally import Tally
from murmurlog.errors import UsageError
from murmurlog.mechanisms import Korolova, Mechanism, Rounds, Threshold
from murmurlog.mechanisms.rounds.fresh_counts import Noise, count_users
from murmurlog.mechanisms.rounds.holders import holders_of_pairs
from murmurlog.privacy import WeightedCounts
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import Entropy, Integers, SeededEntropy
from murmurlog.publishing.plan import Plan
from murmurlog.publishing.planning.stand_in_log import StandInLog

TOP = 100  # the most popular items, whose count errors are reported
EVEN = 0.5


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a release is expected to hold; `low` and `high` are the extremes of the simulations.

    `volume` is the share of all (unit, item) pairs whose item is published. `median_error` is the
    median relative error of the counts of the 100 most popular items; a missing item counts as 1.
    """

    queries: float
    volume: float
    median_error: float | None
    low: tuple[float, float]  # queries, volume
    high: tuple[float, float]

    def as_json(self) -> dict[str, float | None]:
        """The numbers, rounded to the digits that are meaningful."""
        error = self.median_error
        return {
            "queries": round(self.queries),
            "volume": round(self.volume, 4),
            "median_error": None if error is None else round(error, 4),
        }


@dataclass(frozen=True, kw_only=True)
class Counts(Tally):
    """A tally of a stand-in log, whose rows are in memory instead of in an engine."""

    engine: Any = None
    table: pa.RecordBatch

    def batches(self, entropy: Entropy | None = None) -> Iterator[pa.RecordBatch]:
        """All rows at once."""
        yield self.table


class Simulation:
    """Runs mechanisms on a stand-in log; caches what they share."""

    def __init__(self, stand_in: StandInLog) -> None:
        self.stand_in = stand_in
        self.users = stand_in.users()
        self.top = np.argsort(-self.users, kind="stable")[:TOP]
        self._held = lru_cache(maxsize=3)(self._bounded)
        self._tally = lru_cache(maxsize=16)(self._tallied)

    def forecast(self, mechanism: Mechanism, *, repeats: int = 1, seed: int = 0) -> Forecast:
        """The mean of several simulations; the same for the same seed."""
        runs = [self._run(mechanism, seed + n) for n in range(repeats)]
        queries = [float(len(shown)) for shown, _ in runs]
        pairs = max(1, self.stand_in.pairs)
        volumes = [float(self.users[shown].sum()) / pairs for shown, _ in runs]
        errors = [self._error(shown, counts) for shown, counts in runs if counts is not None]
        return Forecast(
            queries=mean(queries),
            volume=mean(volumes),
            median_error=mean(errors) if errors else None,
            low=(min(queries), min(volumes)),
            high=(max(queries), max(volumes)),
        )

    def even_odds(self, mechanism: Mechanism, *, seed: int = 0) -> int | None:
        """The least number of users at which at least half of the items were published."""
        shown, _ = self._run(mechanism, seed)
        there = np.zeros(self.stand_in.size, bool)
        there[shown] = True
        order = np.argsort(-self.users, kind="stable")
        width = 21  # neighbours in popularity that are averaged
        if len(order) < width or not there.any():
            return None
        share = np.convolve(there[order], np.full(width, 1 / width), "valid")
        below = np.flatnonzero(share < EVEN)
        at = int(below[0]) if len(below) else len(share) - 1
        return int(self.users[order[at + width // 2]])

    def _run(self, mechanism: Mechanism, seed: int) -> tuple[Integers, Integers | None]:
        """The published items' numbers and their counts, or None if there are no counts."""
        if isinstance(mechanism, Rounds):
            held, numbers = self._held(mechanism.schedule.d)
            noise = simulated_noise(seed)
            shown = select(mechanism, held, noise=noise)
            shown = numbers[shown]
            return shown, count(mechanism, self.stand_in, shown, noise=noise)
        if not isinstance(mechanism, Threshold | Korolova):
            raise UsageError(no_forecast(str(mechanism)))
        table = mechanism.release(self._tally(mechanism.d), entropy=SeededEntropy(seed))
        shown = np.array(table["query"].to_pylist(), np.int64)
        return shown, table["users"].to_numpy() if "users" in table.column_names else None

    def _bounded(self, per_user: int) -> tuple[StandInLog, Integers]:
        return self.stand_in.bounded(per_user).renumbered()

    def _tallied(self, per_user: int) -> Counts:
        users = self.stand_in.bounded(per_user).users()
        held = np.flatnonzero(users)
        query = pa.array(held).cast(pa.string())
        return Counts(
            table=pa.record_batch({"query": query, "users": pa.array(users[held])}),
            kind="query",
            keys=("query",),
            unit="user",
            per_user=per_user,
        )

    def _error(self, shown: Integers, counts: Integers) -> float:
        estimate = np.zeros(self.stand_in.size)
        estimate[shown] = counts
        true = self.users[self.top]
        off = np.abs(estimate[self.top] - true) / true
        there = np.isin(self.top, shown)
        return float(np.median(np.where(there, off, 1.0)))


def no_forecast(mechanism: str) -> str:
    return f"no forecast is available for {mechanism}: choose rounds, threshold or korolova"


def simulated_noise(seed: int) -> Noise:
    """Rounded Gaussian noise from floating point: fast and reproducible, so it protects nothing."""
    rng = np.random.default_rng(seed)
    return lambda scale, count: np.rint(scale * rng.standard_normal(count)).astype(np.int64)


def select(mechanism: Rounds, held: StandInLog, *, noise: Noise) -> Integers:
    """The numbers of the items that `Rounds.select` publishes, of items numbered without gaps."""
    s = mechanism.schedule
    unit, item, size = held.unit, held.item, held.size
    attention = np.full(len(unit), FULL, np.int64)
    alive, remembered = np.arange(size), np.zeros(size, np.int64)
    shown = [np.zeros(0, np.int64)]
    for k, scale in enumerate(s.scales):
        W = _weights(unit, item, attention, held.units, size)[alive]
        z = W + noise(scale * GRID, len(W))
        found = mechanism.judged(k, z, remembered)
        shown.append(alive[found.passed])
        if not found.on.any():
            break
        alive, remembered = alive[found.on], found.remembered
        next_attention = np.zeros(size, np.int64)
        next_attention[alive] = found.attention
        kept = next_attention[item] > 0
        unit, item = unit[kept], item[kept]
        attention = next_attention[item]
    return np.sort(np.concatenate(shown))


def _weights(
    unit: Integers, item: Integers, attention: Integers, units: int, size: int
) -> Integers:
    """The sum over units of floor(GRID h_i / |h|); sums of such integers are exact in a float."""
    square = attention * attention
    squares = np.bincount(unit, weights=square, minlength=units).astype(np.int64)[unit]
    root = np.floor(attention * GRID / np.sqrt(squares)).astype(np.int64)
    root -= root * root * squares > square * GRID**2
    return np.bincount(item, weights=root, minlength=size).astype(np.int64)


def count(mechanism: Rounds, log: StandInLog, shown: Integers, *, noise: Noise) -> Integers | None:
    """The estimated users of the published items; None if the mechanism publishes no counts."""
    counts = mechanism.schedule.counts
    if not isinstance(counts, WeightedCounts):
        return None
    place = np.full(log.size, -1, np.int64)
    place[shown] = np.arange(len(shown))
    item = place[log.item]
    holders = holders_of_pairs(log.unit[item >= 0], item[item >= 0], size=len(shown))
    found = count_users(holders, counts, noise).estimates
    return np.rint(found.users).astype(np.int64)


def explain(plan: Plan, simulation: Simulation | None = None) -> str:
    """One sentence on what an item needs to be published, with numbers from a simulation if given."""
    unit = plan.guarantee.unit
    if not isinstance(plan.mechanism, Rounds):
        return plan.sentence()
    weight, rounds = plan.mechanism.bar(), plan.mechanism.schedule.rounds
    ten, hundred = (math.ceil(weight * math.sqrt(n)) for n in (10, 100))
    last = f"The last of {rounds} rounds asks" if rounds > 1 else "It asks"
    text = (
        f"{last} for a weight of {weight:.3g}: {math.ceil(weight)} {unit}s with no other candidate, "
        f"{ten} with ten candidates each, {hundred} with a hundred"
    )
    if simulation is None:
        return f"{text}."
    even = simulation.even_odds(plan.mechanism)
    if even is None:
        return f"{text}; in the simulation too little was published to say more."
    return f"{text}; in the simulation items held by about {even} {unit}s passed with even odds."
