"""A second implementation of `rounds` that follows a run step by step, from the proof and the printed text.

While the mechanism runs, the replay sees which unit holds which item, the measurement of every item in every
round, and the rounds' outcome. It computes weights, memory, thresholds, attention and counts by itself, also of
public pools (`pool_replay`) and of keys that were published earlier. What is left of a measurement without the
weight is the noise of that round, whatever the code calls it.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from noise_stages import STEPS, Integers
from pool_replay import (
    EARLIER,
    FULL,
    Printed,
    RoundsRun,
    Unheld,
    check_keys,
    keys_in,
)
from replacement import replaced

from murmurlog.bundle.schema import notes_of
from murmurlog.mechanisms import Rounds
from murmurlog.mechanisms.rounds import fresh_counts
from murmurlog.mechanisms.rounds import mechanism as rounds_steps
from murmurlog.mechanisms.rounds import weights as rounds_weights
from murmurlog.mechanisms.rounds.holders import Holders


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


class _Replay:
    """Follows one run of the selection."""

    def __init__(self, text: str, held: Any, run: RoundsRun) -> None:
        self.run, self.printed = run, Printed.of(text)
        rows = held.table.to_pyarrow()
        self.unit = rows["unit"].to_numpy().astype(np.int64)
        self.item = rows["item"].to_numpy().astype(np.int64)
        self.size = int(held.size)
        self._check_rows()
        names = held.names.to_pyarrow().sort_by("item")
        self.keys = keys_in(names, held.keys)
        self.pools = [keys_in(pool.keys(np.arange(pool.size)), held.keys) for pool in held.pools]
        if [len(set(pool)) for pool in self.pools] != self.printed.sizes:
            run.fault("the pools have other sizes than the printed ones")
        place = {key: n for n, pool in enumerate(self.pools, 1) for key in pool}
        self.pool = np.array([place.get(key, 0) for key in self.keys], np.int64)
        self.attention = np.full(self.size, FULL, np.int64)
        self.alive = np.arange(self.size)
        self.memory = np.zeros(self.size, np.int64)
        self.k = 0
        self.summed: Integers | None = None  # the weights as the mechanism summed them
        self.passed: list[Integers] = []
        self.unheld: list[Unheld] = []

    def _check_rows(self) -> None:
        if len(self.unit):
            most = int(np.bincount(self.unit).max())
            if most > self.printed.d:
                self.run.fault(f"a unit holds {most} items, the printed bound is {self.printed.d}")
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

    def step(self, z: Integers, remembered: Integers, found: Any) -> None:
        """Compares a round with what it must be, and keeps its noise."""
        k, printed, pool = self.k, self.printed, self.pool[self.alive]
        name = f"round {k + 1}"
        if k >= len(printed.scales) or len(z) != len(self.alive):
            self.run.fault(f"{name}: {len(z)} items are measured, {len(self.alive)} are alive")
            return
        weights = self.weights()
        if self.summed is not None and not np.array_equal(self.summed[self.alive], weights):
            self.run.fault(f"{name}: units give other weights than floor(2^20 h / |h|)")
        for what, some in (("", pool == 0), (" of pool keys", pool > 0)):
            if some.any():
                self.run.add(name + what, (z - weights)[some])
        y, passed, on = printed.outcome(k, z, self.memory, pool)
        printed.compare(self.run, name, k, y, pool, remembered, self.memory, found)
        self.passed.append(self.alive[passed])
        self.k += 1
        if self.k == len(printed.scales):
            return
        on = np.asarray(found.on)  # at a border either is right
        self.attention = np.zeros(self.size, np.int64)
        self.attention[self.alive[on]] = found.attention
        self.memory = (self.memory + printed.past[k] * z)[on]
        self.alive = self.alive[on]

    def follow_unheld(self) -> Unheld:
        """The follower of the next pool's keys that nobody holds."""
        n = len(self.unheld) + 1
        free = len(self.pools[n - 1]) - int((self.pool == n).sum())
        self.unheld.append(Unheld(run=self.run, printed=self.printed, pool=n, free=free))
        return self.unheld[-1]


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
    earlier: set[Any],
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
    noise = np.rint(measured * STEPS).astype(np.int64) - weighted
    known = np.array([key in earlier for key in keys_in(table, holdings.names)], bool)
    for what, some in (("counts", ~known), (f"counts of {EARLIER}", known)):
        if some.any():
            run.add(f"{what} at d2 = {d2}", noise[some])


@contextmanager
def replayed_rounds(table: str, *, earlier: Any = None) -> Iterator[RoundsRun]:
    """While this lasts, runs of `rounds` are followed; streams of items are not.

    `earlier` is a table of the keys that were published before.
    """
    run = RoundsRun(table=table)
    following: list[_Replay] = []  # of the selection that runs
    selected: list[_Replay] = []  # of the release that runs
    stated: list[str] = []
    counted: list[dict[str, Any]] = []
    summed: list[Integers] = []
    holdings: dict[int, tuple[Any, _Holdings]] = {}
    select, judged, release = Rounds.select, Rounds.judged, Rounds.release
    estimate, sum_weights = vars(fresh_counts)["estimate_users"], rounds_weights.weights
    weigh, pass_unheld = Holders.weighted, vars(rounds_steps)["pass_unheld"]

    def select_followed(self: Rounds, held: Any, *, entropy: Any) -> Any:
        if not held.dense:
            return select(self, held, entropy=entropy)
        # By the text that a certificate would print, whatever the steps made of it since.
        following.append(_Replay(stated[-1] if stated else str(self), held, run))
        selected[:] = following
        try:
            return select(self, held, entropy=entropy)
        finally:
            following.pop()

    def judged_followed(self: Rounds, k: int, z: Any, remembered: Any, pool: Any = 0) -> Any:
        found = judged(self, k, z, remembered, pool)
        if following:
            following[-1].step(np.asarray(z), np.asarray(remembered), found)
        return found

    def pass_followed(schedule: Any, keys: Any, judge: Any, *, count: int, entropy: Any) -> int:
        if not selected:
            return int(pass_unheld(schedule, keys, judge, count=count, entropy=entropy))
        follower = selected[-1].follow_unheld()

        def judge_followed(k: int, z: Any, remembered: Any) -> Any:
            found = judge(k, z, remembered)
            follower.step(k, np.asarray(z), np.asarray(remembered), found)
            return found

        many = int(pass_unheld(schedule, keys, judge_followed, count=count, entropy=entropy))
        follower.end(count, many)
        return many

    def estimate_followed(measured: Any, profile: Any, **more: Any) -> Any:
        weights = summed[-1] if summed else None
        counted.append({"measured": np.asarray(measured), "d2": int(more["d2"]), "summed": weights})
        return estimate(measured, profile, **more)

    def release_followed(self: Rounds, held: Any, *, entropy: Any) -> Any:
        for each in (counted, summed, selected):
            each.clear()
        stated.append(str(self))
        try:
            found = release(self, held, entropy=entropy)
        finally:
            stated.pop()
        known = set() if earlier is None else set(keys_in(earlier, held.keys))
        if selected:
            last = selected[-1]
            shown = {last.keys[item] for items in last.passed for item in items}
            check_keys(
                run, keys_in(found, held.keys), shown, known, last.pools, last.unheld, last.keys
            )
        if counted and held.in_log and held.kind == held.items.kind:
            if id(held) not in holdings:
                holdings[id(held)] = (held, _Holdings(held))
            _check_counts(run, holdings[id(held)][1], found, **counted[-1], earlier=known)
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
        replaced(rounds_steps, "pass_unheld", pass_followed),
        replaced(fresh_counts, "estimate_users", estimate_followed),
        replaced(rounds_weights, "weights", weights_followed),
        replaced(Holders, "weighted", weighted_followed),
    ):
        yield run
