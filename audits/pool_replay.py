"""The printed numbers of `rounds`, and a second implementation of its public pools and earlier keys.

Every key of a pool takes part in every round, whoever holds it: the replay counts the draws of keys that nobody
holds, follows their rounds, and compares the published keys with those that passed. `rounds_replay` follows the
keys that somebody holds.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from noise_stages import STEPS, Integers, numbers, parameters_of

FULL = 10  # the largest attention
NEAR = 1e-6  # relative distance from a border below which floating point may decide either way
EARLIER, UNHELD = "earlier keys", "keys nobody holds"
CELLS = 16  # parts of a pool from which keys that nobody holds are chosen


@dataclass
class RoundsRun:
    """What the replay found in the runs of one table: noise by stage, and contradictions."""

    table: str
    noise: dict[str, list[Integers]] = field(default_factory=dict)
    places: list[Integers] = field(
        default_factory=list
    )  # cells of keys chosen where nobody holds any
    faults: list[str] = field(default_factory=list)

    def add(self, stage: str, values: Integers) -> None:
        self.noise.setdefault(stage, []).append(values)

    def fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)


@dataclass(frozen=True, kw_only=True)
class Printed:
    """The numbers of a printed text, and what follows from them for an item's own measurements."""

    d: int
    scales: list[float]
    own: list[int]
    past: list[int]
    T: Integers  # of each round: outside of pools, then of each pool
    sizes: list[int]  # of the pools
    C: float
    reach: float
    focus: float

    @classmethod
    def of(cls, text: str) -> "Printed":
        _, given = parameters_of(text)
        scales = numbers(given["s"])
        sizes = [int(n) for n in numbers(given.get("N", ""))]
        pools = np.array(numbers(given.get("TP", "")), np.int64).reshape(len(sizes), len(scales))
        T = np.array(numbers(given["T"]), np.int64)
        limits = (("C", "inf"), ("reach", 1), ("focus", 1))
        C, reach, focus = (float(given.get(name, usual)) for name, usual in limits)
        return cls(
            d=int(given["d"]),
            scales=scales,
            own=[int(n) for n in numbers(given.get("own", ""))] or [1] * len(scales),
            past=[int(n) for n in numbers(given.get("past", ""))] or [0] * (len(scales) - 1),
            T=np.vstack([T, pools]).T,
            sizes=sizes,
            C=C,
            reach=reach,
            focus=focus,
        )

    def coefficients(self, k: int) -> list[int]:
        return [*self.past[:k], self.own[k]]

    def sd(self, k: int) -> float:
        parts = zip(self.coefficients(k), self.scales, strict=False)
        return STEPS * math.sqrt(sum((c * s) ** 2 for c, s in parts))

    def needed(self, k: int, pool: Integers) -> Any:
        """The y of an item in round k whose weight is what it needs in the last round."""
        last = len(self.scales) - 1
        return self.T[last][pool] * sum(self.coefficients(k)) / sum(self.coefficients(last))

    def outcome(
        self, k: int, z: Integers, memory: Integers, pool: Integers
    ) -> tuple[Any, Any, Any]:
        """(y, whether an item passes, whether it goes on)."""
        y = self.own[k] * z + memory
        passed = y >= self.T[k][pool]
        if k + 1 == len(self.scales):
            return y, passed, np.zeros(len(y), bool)
        return y, passed, ~passed & (y >= self.leave(k, pool))

    def leave(self, k: int, pool: Integers) -> Any:
        """Items below this y are given up."""
        if math.isinf(self.C):
            return np.full(len(pool), -math.inf)
        return self.reach * self.needed(k, pool) - self.C * self.sd(k)

    def compare(
        self, run: RoundsRun, name: str, k: int, y: Any, pool: Integers, remembered: Integers, memory: Integers,
        outcome: Any,
    ) -> None:  # fmt: skip
        """Compares the outcome of a round with what the printed numbers give."""
        if not np.array_equal(remembered, memory):
            run.fault(f"{name}: the memory is not that of the printed coefficients")
        passed = y >= self.T[k][pool]
        if not np.array_equal(outcome.passed, passed):
            run.fault(f"{name}: items pass at another threshold than the printed one")
        if k + 1 == len(self.scales):
            return
        leave, sd = self.leave(k, pool), self.sd(k)
        on = ~passed & (y >= leave)
        unsure = np.abs(y - leave) <= NEAR * sd
        if (np.asarray(outcome.goes_on) != on)[~unsure].any():
            run.fault(f"{name}: items are given up by another rule than the printed one")
        on = np.asarray(outcome.goes_on)
        # Attention must follow from the item's own number: a bell around what it needs.
        needed = self.needed(k, pool[on])
        width = np.hypot(self.focus * needed, sd)
        bell = FULL * np.exp(-0.5 * ((y[on] - needed) / width) ** 2)
        want = np.clip(np.rint(bell), max(1, round(FULL * self.focus)), FULL)
        unsure = np.abs(bell - np.floor(bell) - 0.5) < NEAR
        given = np.asarray(outcome.attention)
        if len(want) != len(given) or (want != given)[~unsure].any():
            run.fault(f"{name}: attention does not follow from an item's own measurements")


@dataclass
class Unheld:
    """Follows the keys of one pool that nobody holds. They may come in blocks."""

    run: RoundsRun
    printed: Printed
    pool: int
    free: int  # how many there are
    judged: int = 0
    passed: int = 0
    k: int = 0
    memory: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def step(self, k: int, z: Integers, remembered: Integers, outcome: Any) -> None:
        if k == 0:
            self.judged += len(z)
            self.k, self.memory = 0, np.zeros(len(z), np.int64)
        name = f"round {k + 1} of {UNHELD}"
        if k != self.k or len(z) != len(self.memory):
            self.run.fault(f"{name}: {len(z)} keys are measured, {len(self.memory)} are alive")
            self.k = -1
            return
        self.run.add(name, z)  # they have no weight: all of it is noise
        pool = np.full(len(z), self.pool, np.int64)
        y, passed, _ = self.printed.outcome(k, z, self.memory, pool)
        self.printed.compare(self.run, name, k, y, pool, remembered, self.memory, outcome)
        self.passed += int(passed.sum())
        self.k += 1
        if self.k < len(self.printed.scales):
            on = np.asarray(outcome.goes_on)
            self.memory = (self.memory + self.printed.past[k] * z)[on]

    def end(self, count: int, many: int) -> None:
        """Compares what the steps came to; `count` keys were asked for, `many` are to be published."""
        if self.judged != self.free or count != self.free:
            self.run.fault(
                f"pool {self.pool}: {self.judged} of {self.free} {UNHELD} get noise in the first round"
            )
        if self.k != len(self.printed.scales) and self.free:
            self.run.fault(f"pool {self.pool}: {UNHELD} do not take part in every round")
        if many != self.passed:
            self.run.fault(f"pool {self.pool}: {many} {UNHELD} are published, {self.passed} passed")


def keys_in(table: Any, names: Iterable[str]) -> list[Any]:
    """The keys of a table as tuples."""
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [tuple(tuple(t) if isinstance(t, list) else t for t in row) for row in rows]


def check_keys(
    run: RoundsRun,
    published: Sequence[Any],
    passed: set[Any],
    earlier: set[Any],
    pools: Sequence[Sequence[Any]],
    unheld: Sequence[Unheld],
    held: Sequence[Any],
) -> None:
    """The published keys are those that passed, chosen ones of pools that nobody holds, and earlier ones.

    `held` are the keys that took part in the selection.
    """
    found, taken = set(published), set(held)
    if len(found) != len(published):
        run.fault("a key is published twice")
    if missing := len(earlier - found):
        run.fault(f"{missing} of {len(earlier)} {EARLIER} have no row")
    if wrong := len(earlier & taken):
        run.fault(f"{wrong} of {len(earlier)} {EARLIER} take part in the selection")
    if missing := len(passed - found):
        run.fault(f"{missing} keys that passed have no row")
    rest = found - passed - earlier
    for pool, follower in zip(pools, unheld, strict=False):
        free = [key for key in pool if key not in taken]
        chosen = np.array([n for n, key in enumerate(free) if key in rest], np.int64)
        rest = rest.difference(free)
        if len(chosen) != follower.passed:
            run.fault(
                f"pool {follower.pool}: {len(chosen)} {UNHELD} have a row, {follower.passed} passed"
            )
        run.places.append(chosen * CELLS // max(1, len(free)))
    if rest:
        run.fault(f"{len(rest)} keys have a row that passed in no round and are no {EARLIER}")
