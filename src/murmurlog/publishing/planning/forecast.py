"""What a mechanism would publish: forecasts by simulation on a log without texts.

A simulation is the mechanism's own release, with seeded noise, of a `StandInLog` as partitions: items are
named by their numbers. Nothing that is drawn here is published.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.bound import BoundedItems
from murmurlog.counting.items import PublicNames
from murmurlog.counting.tally import Tally, count_items
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.partitions import SHARDS, LocalPartitions, Partitions
from murmurlog.logs.rows import Texts
from murmurlog.logs.text_keys import TextKeys, order_of_keys
from murmurlog.logs.workspace import Workspace, cores
from murmurlog.mechanisms import Korolova, Mechanism, Rounds, Threshold
from murmurlog.mechanisms.rounds.select import Candidates, pairs_in_bounded, weigh_first
from murmurlog.privacy.sampler import Integers, SeededEntropy
from murmurlog.publishing.plan import Plan
from murmurlog.publishing.planning.stand_in_log import StandInLog

TOP = 100  # the most popular items, whose count errors are reported
EVEN = 0.5
PAIRS_A_PARTITION, MOST_PARTITIONS = 1_000_000, 16
ITEMS_A_SHARD = 20_000


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


class Simulation:
    """Runs mechanisms on a stand-in log; caches what they share."""

    def __init__(self, stand_in: StandInLog) -> None:
        self.stand_in = stand_in
        self.users = stand_in.users()
        self.top = np.argsort(-self.users, kind="stable")[:TOP]
        self._partitions = StandInPartitions(stand_in.size)
        self._every = self._partitions.of(stand_in)
        self._candidates = lru_cache(maxsize=3)(self._candidates_of)
        self._tally = lru_cache(maxsize=16)(self._tally_of)

    def forecast(self, mechanism: Mechanism, *, repeats: int = 1, seed: int = 0) -> Forecast:
        """The mean of several simulations; the same for the same seed."""
        runs = [self._run(mechanism, seed + n) for n in range(repeats)]
        queries = [float(len(items)) for items, _ in runs]
        pairs = max(1, self.stand_in.pairs)
        volumes = [float(self.users[items].sum()) / pairs for items, _ in runs]
        errors = [self._error(items, counts) for items, counts in runs if counts is not None]
        return Forecast(
            queries=mean(queries),
            volume=mean(volumes),
            median_error=mean(errors) if errors else None,
            low=(min(queries), min(volumes)),
            high=(max(queries), max(volumes)),
        )

    def even_odds(self, mechanism: Mechanism, *, seed: int = 0) -> int | None:
        """The least number of users at which at least half of the items were published."""
        items, _ = self._run(mechanism, seed)
        is_published = np.zeros(self.stand_in.size, bool)
        is_published[items] = True
        order = np.argsort(-self.users, kind="stable")
        width = 21  # neighbours in popularity that are averaged
        if len(order) < width or not is_published.any():
            return None
        share = np.convolve(is_published[order], np.full(width, 1 / width), "valid")
        below = np.flatnonzero(share < EVEN)
        at = int(below[0]) if len(below) else len(share) - 1
        return int(self.users[order[at + width // 2]])

    def _run(self, mechanism: Mechanism, seed: int) -> tuple[Integers, Integers | None]:
        """The published items' numbers and their counts, or None if there are no counts."""
        if isinstance(mechanism, Rounds):
            candidates = self._candidates(mechanism.schedule.d)
            table = mechanism.release(candidates, entropy=SeededEntropy(seed))
        elif isinstance(mechanism, Threshold | Korolova):
            table = mechanism.release(self._tally(mechanism.d), entropy=SeededEntropy(seed))
        else:
            raise UsageError(no_forecast(str(mechanism)))
        items = pc.cast(table["query"], pa.int64()).to_numpy()
        return items, table["users"].to_numpy() if "users" in table.column_names else None

    def _candidates_of(self, per_user: int) -> Candidates:
        bounded = self._partitions.of(self.stand_in.bounded(per_user))
        return Candidates(
            bounded=bounded,
            first=bounded.add_up(weigh_first),
            counted=self._every,
            pairs=pairs_in_bounded,
            kind="query",
            keys=("query",),
            unit="user",
            per_user=per_user,
            text_keys=self._partitions.text_keys,
        )

    def _tally_of(self, per_user: int) -> Tally:
        bounded = self._partitions.of(self.stand_in.bounded(per_user))
        return Tally(
            shards=bounded.add_up(count_items), bounded=bounded, kind="query", keys=("query",),
            unit="user", per_user=per_user,
        )  # fmt: skip

    def _error(self, items: Integers, counts: Integers) -> float:
        estimate = np.zeros(self.stand_in.size)
        estimate[items] = counts
        true = self.users[self.top]
        off = np.abs(estimate[self.top] - true) / true
        there = np.isin(self.top, items)
        return float(np.median(np.where(there, off, 1.0)))


def no_forecast(mechanism: str) -> str:
    return f"no forecast is available for {mechanism}: choose rounds, threshold or korolova"


class StandInPartitions:
    """Stand-in logs as partitions in this process's memory; an item's text is its number."""

    def __init__(self, size: int) -> None:
        self.text_keys = TextKeys(SeededEntropy(0).stream("keys"))
        texts = pa.array(np.arange(size)).cast(pa.string())
        keys = self.text_keys.texts(texts)
        order = order_of_keys(keys)
        self._keys, self._texts = keys[order], texts.take(pa.array(order))
        self._place = np.empty(size, np.int64)  # of each item in the order of keys
        self._place[order] = np.arange(size)
        # As the stand-in log is in memory, so is what follows from it: there is no folder.
        self._workspace = Workspace(_no_folder, memory=1 << 62, threads=cores())

    def of(self, log: StandInLog) -> Partitions[BoundedItems]:
        """The log's units, side by side in partitions."""
        many = max(1, min(MOST_PARTITIONS, log.pairs // PAIRS_A_PARTITION))
        units = np.linspace(0, log.units, many + 1).astype(np.int64)
        ends = np.searchsorted(log.unit, units).tolist()
        parts = [self._part(log, start, end) for start, end in zip(ends, ends[1:], strict=False)]
        shards = 1 + min(SHARDS, len(self._keys) // ITEMS_A_SHARD)
        return LocalPartitions(list(map(self._workspace.keep, parts)), self._workspace, shards)

    def _part(self, log: StandInLog, start: int, end: int) -> BoundedItems:
        """The units of some rows."""
        unit, item = log.unit[start:end], self._place[log.item[start:end]]
        present = np.zeros(len(self._keys), bool)
        present[item] = True
        items = np.flatnonzero(present)
        number = np.cumsum(present, dtype=np.int32) - np.int32(1)
        first = int(unit[0]) if len(unit) else 0
        return BoundedItems(
            unit=(unit - first).astype(np.int32),
            item=number[item],
            keys=self._keys[items],
            names=(PublicNames(self._texts, items),),
            texts=Texts(self._workspace, []),
            text_keys=self.text_keys,
            units=int(np.count_nonzero(np.diff(unit, prepend=-1))),
        )


def _no_folder() -> Path:
    raise EngineError("a forecast's memory is full: this is a bug")


def explain(plan: Plan, simulation: Simulation | None = None) -> str:
    """One sentence on what an item needs to be published, with numbers from a simulation if given."""
    unit = plan.guarantee.unit
    if not isinstance(plan.mechanism, Rounds):
        return plan.sentence()
    weight, rounds = plan.mechanism.needed_weight(), plan.mechanism.schedule.rounds
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
