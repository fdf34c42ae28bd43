"""A second implementation of `rounds` that follows a run step by step, from the proof and the printed text.

While the mechanism runs, the replay sees which unit holds which item, the measurement of every item in every
round, and the rounds' outcome. It computes weights, memory, thresholds, attention and counts by itself. What
is left of a measurement without the weight is the noise of that round, whatever the code calls it.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from murmurlog.auditing.noise_stages import STEPS, Integers, letters, numbers
from murmurlog.auditing.replacement import replaced
from murmurlog.bundle.schema import notes_of
from murmurlog.mechanisms import Rounds
from murmurlog.mechanisms.rounds import fresh_counts
from murmurlog.mechanisms.rounds import weights as rounds_weights
from murmurlog.mechanisms.rounds.holders import Holders

FULL = 10  # the largest attention
NEAR = 1e-6  # relative distance from a border below which floating point may decide either way


def weight_of(attention: int, squares: int) -> int:
    """The steps that a unit gives an item: floor(2^20 h / |h|), in integers."""
    return math.isqrt(STEPS * STEPS * attention * attention // squares)


def count_weight_of(m: int, d2: int) -> int:
    """The steps that a unit with m published items gives each: norm at most sqrt(d2)."""
    return min(STEPS, math.isqrt(STEPS * STEPS * d2 // m))


def bins_of(size: int) -> list[int]:
    """The least m of each bin: 1, 2, 3, 4, 6, 9, ... up to the number of published items."""
    found, start = [], 1
    while start <= size:
        found.append(start)
        start = max(start + 1, start * 3 // 2)
    return found


@dataclass
class RoundsRun:
    """What the replay found in the runs of one table: noise by stage, and contradictions."""

    table: str
    noise: dict[str, list[Integers]] = field(default_factory=dict)
    d2: list[int] = field(default_factory=list)  # of each run, for the scale of its counts
    faults: list[str] = field(default_factory=list)

    def add(self, stage: str, values: Integers) -> None:
        self.noise.setdefault(stage, []).append(values)

    def fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)


class _Replay:
    """Follows one run of the selection."""

    def __init__(self, text: str, held: Any, run: RoundsRun) -> None:
        _, given = letters(text)
        self.run = run
        self.d = int(given["d"])
        self.scales = numbers(given["s"])
        self.own = [int(n) for n in numbers(given.get("own", "_".join("1" * len(self.scales))))]
        self.past = [int(n) for n in numbers(given.get("past", ""))] or [0] * (len(self.own) - 1)
        self.T = [int(n) for n in numbers(given["T"])]
        self.C, self.reach, self.focus = (
            float(given.get(name, usual)) for name, usual in (("C", "inf"), ("reach", 1), ("focus", 1))
        )  # fmt: skip
        rows = held.table.to_pyarrow()
        self.unit = rows["unit"].to_numpy().astype(np.int64)
        self.item = rows["item"].to_numpy().astype(np.int64)
        self.size = int(held.size)
        self._check_rows()
        self.attention = np.full(self.size, FULL, np.int64)
        self.alive = np.arange(self.size)
        self.memory = np.zeros(self.size, np.int64)
        self.k = 0
        self.summed: Integers | None = None  # the weights as the mechanism summed them

    def _check_rows(self) -> None:
        if len(self.unit):
            most = int(np.bincount(self.unit).max())
            if most > self.d:
                self.run.fault(f"a unit holds {most} items, the printed bound is {self.d}")
            pairs = self.unit * np.int64(max(1, self.size)) + self.item
            if len(np.unique(pairs)) < len(pairs):
                self.run.fault("a unit holds an item twice")

    def weights(self) -> Integers:
        """The sum of the units' weights of all items that are alive."""
        inside = np.zeros(self.size, bool)
        inside[self.alive] = True
        here = inside[self.item]
        unit, item = self.unit[here], self.item[here]
        h = self.attention[item]
        squares = np.zeros(int(self.unit.max(initial=0)) + 1, np.int64)
        np.add.at(squares, unit, h * h)
        kinds, which = np.unique(np.stack([h, squares[unit]]), axis=1, return_inverse=True)
        steps = np.array([weight_of(int(a), int(s)) for a, s in kinds.T], np.int64)
        found = np.zeros(self.size, np.int64)
        if len(item):
            np.add.at(found, item, steps[np.asarray(which).ravel()])
        return found[self.alive]

    def coefficients(self, k: int) -> list[int]:
        return [*self.past[:k], self.own[k]]

    def sd(self, k: int) -> float:
        parts = zip(self.coefficients(k), self.scales, strict=False)
        return STEPS * math.sqrt(sum((c * s) ** 2 for c, s in parts))

    def step(self, z: Integers, remembered: Integers, found: Any) -> None:
        """Compares a round with what it must be, and keeps its noise."""
        k, last = self.k, self.k + 1 == len(self.scales)
        name = f"round {k + 1}"
        if len(z) != len(self.alive):
            self.run.fault(f"{name}: {len(z)} items are measured, {len(self.alive)} are alive")
            return
        weights = self.weights()
        if self.summed is not None and not np.array_equal(self.summed[self.alive], weights):
            self.run.fault(f"{name}: units give other weights than floor(2^20 h / |h|)")
        self.run.add(name, z - weights)
        if not np.array_equal(remembered, self.memory):
            self.run.fault(f"{name}: the memory is not that of the printed coefficients")
        y = self.own[k] * z + self.memory
        passed = y >= self.T[k]
        if not np.array_equal(found.passed, passed):
            self.run.fault(f"{name}: items pass at another threshold than the printed one")
        self.k += 1
        if last:
            return
        needed = self.T[-1] * sum(self.coefficients(k)) / sum(self.coefficients(len(self.T) - 1))
        sd = self.sd(k)
        leave = -math.inf if math.isinf(self.C) else self.reach * needed - self.C * sd
        on = ~passed & (y >= leave)
        unsure = np.abs(y - leave) <= NEAR * sd
        if (np.asarray(found.on) != on)[~unsure].any():
            self.run.fault(f"{name}: items are given up by another rule than the printed one")
        on = np.asarray(found.on)
        self._check_attention(name, y[on], needed, sd, np.asarray(found.attention))
        self.attention = np.zeros(self.size, np.int64)
        self.attention[self.alive[on]] = found.attention
        self.memory = (self.memory + self.past[k] * z)[on]
        self.alive = self.alive[on]

    def _check_attention(
        self, name: str, y: Integers, needed: float, sd: float, given: Integers
    ) -> None:
        """Attention must follow from the item's own number: a bell around what it needs."""
        width = math.hypot(self.focus * needed, sd)
        bell = FULL * np.exp(-0.5 * ((y - needed) / width) ** 2)
        least = max(1, round(FULL * self.focus))
        want = np.clip(np.rint(bell), least, FULL)
        unsure = np.abs(bell - np.floor(bell) - 0.5) < NEAR
        if len(want) != len(given) or (want != given)[~unsure].any():
            self.run.fault(f"{name}: attention does not follow from an item's own measurements")


class _Holdings:
    """All distinct items of every unit, not bounded, from the log's own rows."""

    def __init__(self, held: Any) -> None:
        self.names = list(held.keys)
        rows = held.items.table.select("unit", *self.names).distinct().to_pyarrow()
        columns = [rows[name].to_pylist() for name in self.names]
        self.item, self.number = _numbered(zip(*columns, strict=True))
        self.unit, _ = _numbered(rows["unit"].to_pylist())

    def of(self, table: Any) -> tuple[Integers, Integers]:
        """(unit, row of the table) of every unit that holds the row's key; units are numbered anew."""
        columns = [table[name].to_pylist() for name in self.names]
        place = np.full(len(self.number) + 1, -1, np.int64)
        for n, key in enumerate(zip(*columns, strict=True)):
            place[self.number.get(key, len(self.number))] = n
        place[-1] = -1
        at = place[self.item]
        _, unit = np.unique(self.unit[at >= 0], return_inverse=True)
        return np.asarray(unit).ravel(), at[at >= 0]


def _numbered(keys: Iterable[Any]) -> tuple[Integers, dict[Any, int]]:
    number: dict[Any, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], np.int64), number


def _check_counts(
    run: RoundsRun,
    holdings: _Holdings,
    table: Any,
    *,
    measured: npt.NDArray[Any],
    d2: int,
    summed: Integers | None,
) -> None:
    """The noise of the histogram and of the weighted counts of one run."""
    unit, item = holdings.of(table)
    m = np.bincount(unit) if len(unit) else np.zeros(0, np.int64)
    starts = bins_of(table.num_rows)
    true = np.zeros(len(starts), np.int64)
    if len(m):
        np.add.at(true, np.searchsorted(starts, m, side="right") - 1, 1)
    stated = np.array(notes_of(table, name="counting")["histogram"], np.int64)
    if len(stated) != len(true):
        run.fault("the histogram has other bins than the number of published items gives")
    else:
        run.add("histogram", stated - true)
    steps = np.array([count_weight_of(int(n), d2) for n in m], np.int64)
    weighted = np.zeros(table.num_rows, np.int64)
    if len(unit):
        np.add.at(weighted, item, steps[unit])
    if summed is not None and not np.array_equal(summed, weighted):
        run.fault("counts: units give other weights than sqrt(d2 / m), rounded down")
    run.add(f"counts at d2 = {d2}", np.rint(measured * STEPS).astype(np.int64) - weighted)


@contextmanager
def replayed_rounds(table: str) -> Iterator[RoundsRun]:
    """While this lasts, runs of `rounds` are followed. Pools and streams of items are not."""
    run = RoundsRun(table=table)
    following: list[_Replay] = []
    counted: list[dict[str, Any]] = []
    summed: list[Integers] = []
    holdings: dict[int, tuple[Any, _Holdings]] = {}
    select, judged, release = Rounds.select, Rounds.judged, Rounds.release
    estimate, sum_weights = vars(fresh_counts)["estimate_users"], rounds_weights.weights
    weigh = Holders.weighted

    def select_followed(self: Rounds, held: Any, *, entropy: Any) -> Any:
        if not held.dense or held.pools:
            return select(self, held, entropy=entropy)
        following.append(_Replay(str(self), held, run))
        try:
            return select(self, held, entropy=entropy)
        finally:
            following.pop()

    def judged_followed(self: Rounds, k: int, z: Any, remembered: Any, pool: Any = 0) -> Any:
        found = judged(self, k, z, remembered, pool)
        if following:
            following[-1].step(np.asarray(z), np.asarray(remembered), found)
        return found

    def estimate_followed(measured: Any, profile: Any, **more: Any) -> Any:
        weights = summed[-1] if summed else None
        counted.append({"measured": np.asarray(measured), "d2": int(more["d2"]), "summed": weights})
        return estimate(measured, profile, **more)

    def release_followed(self: Rounds, held: Any, *, entropy: Any) -> Any:
        counted.clear()
        summed.clear()
        found = release(self, held, entropy=entropy)
        if counted and held.in_log and held.kind == held.items.kind:
            if id(held) not in holdings:
                holdings[id(held)] = (held, _Holdings(held))
            _check_counts(run, holdings[id(held)][1], found, **counted[-1])
        return found

    def weights_followed(held: Any, rows: Any) -> Any:
        found = sum_weights(held, rows)
        if following:
            following[-1].summed = np.asarray(found)
        return found

    def weighted_followed(self: Holders, d2: int) -> Any:
        summed.append(weigh(self, d2))
        return summed[-1]

    with (
        replaced(Rounds, "select", select_followed),
        replaced(Rounds, "judged", judged_followed),
        replaced(Rounds, "release", release_followed),
        replaced(fresh_counts, "estimate_users", estimate_followed),
        replaced(rounds_weights, "weights", weights_followed),
        replaced(Holders, "weighted", weighted_followed),
    ):
        yield run
