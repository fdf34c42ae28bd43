"""A second implementation of `rounds` that follows a run step by step, from the proof and the printed text.

While the mechanism runs, the replay sees which unit holds which item, the measurement of every item in every
round, and the rounds' outcome. It computes weights, memory, thresholds, attention and counts by itself, also of
public pools (`pool_replay`) and of keys that were published earlier. What is left of a measurement without the
weight is the noise of that round, whatever the code calls it.
"""

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
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
from murmurlog.counting.unit_weights import count_holders
from murmurlog.logs.text_keys import NO_KEYS, number_keys, order_of_keys, places_of
from murmurlog.mechanisms import Rounds
from murmurlog.mechanisms.rounds import count as counting
from murmurlog.mechanisms.rounds import mechanism as rounds_steps
from murmurlog.mechanisms.rounds import select as selecting
from murmurlog.mechanisms.rounds.select import Candidates
from murmurlog.privacy.sampler import Keys

NO_DRAWS = NO_KEYS, np.zeros(0, np.int64)


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

    def __init__(self, text: str, candidates: Candidates, run: RoundsRun) -> None:
        self.run, self.printed = run, Printed.of(text)
        self.unit, keys = _held(candidates.bounded.results(_of_bounded))
        self.item, first = number_keys(keys)
        self.item_keys, self.size = keys[first], len(first)
        self._check_rows()
        self.keys = keys_in(candidates.table(self.item_keys), candidates.keys)
        self.pools = [
            keys_in(pool.keys(np.arange(pool.size)), candidates.keys) for pool in candidates.pools
        ]
        if [len(set(pool)) for pool in self.pools] != self.printed.sizes:
            run.fault("the pools have other sizes than the printed ones")
        place = {key: n for n, pool in enumerate(self.pools, 1) for key in pool}
        self.pool = np.array([place.get(key, 0) for key in self.keys], np.int64)
        self.memory = np.zeros(self.size, np.int64)
        self.k, self.measured = 0, 0
        self._begin(np.full(self.size, FULL, np.int64))
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

    def _begin(self, attention: Integers) -> None:
        """A round in which items with attention are alive."""
        self.alive, self.measured = attention > 0, 0
        self.following = np.zeros(self.size, np.int64)
        here = self.alive[self.item]
        unit, item = self.unit[here], self.item[here]
        h = attention[item]
        squares = np.zeros(int(self.unit.max(initial=0)) + 1, np.int64)
        np.add.at(squares, unit, h * h)
        kinds, which = np.unique(np.stack([h, squares[unit]]), axis=1, return_inverse=True)
        steps = np.array([weight_of(int(a), int(s)) for a, s in kinds.T], np.int64)
        self.weights = np.zeros(self.size, np.int64)
        if len(item):
            np.add.at(self.weights, item, steps[np.asarray(which).ravel()])

    def step(
        self,
        drawn: tuple[Keys, Integers],
        k: int,
        z: Integers,
        remembered: Integers,
        pool: Any,
        outcome: Any,
    ) -> None:
        """Compares a shard of a round, for whose keys noise was drawn, with what it must be; keeps its noise."""
        printed, name = self.printed, f"round {k + 1}"
        if k != self.k:
            self._end_round(k)
        keys, noise = drawn
        items = places_of(keys, self.item_keys)
        if len(z) != len(items) or (items < 0).any() or not self.alive[items].all():
            self.run.fault(f"{name}: {len(z)} items are measured, some of which are not alive")
            return
        self.measured += len(items)
        weights, pools = self.weights[items], self.pool[items]
        if not np.array_equal(z - noise, weights):
            self.run.fault(f"{name}: units give other weights than floor(2^20 h / |h|)")
        for what, some in (("", pools == 0), (" of pool keys", pools > 0)):
            if some.any():
                self.run.add(name + what, (z - weights)[some])
        y, passed, _ = printed.outcome(k, z, self.memory[items], pools)
        printed.compare(self.run, name, k, y, pools, remembered, self.memory[items], outcome)
        self.passed.append(items[passed])
        on = items[np.asarray(outcome.goes_on)]  # at a border either is right
        self.following[on] = outcome.attention
        if k + 1 < len(printed.scales):
            self.memory[items] += printed.past[k] * z

    def _end_round(self, k: int) -> None:
        if self.measured != self.alive.sum():
            self.run.fault(
                f"round {self.k + 1}: {self.measured} items are measured, {self.alive.sum()} are alive"
            )
        self.k = k
        self._begin(self.following)

    def end(self) -> None:
        """Whether no round is missing."""
        if self.measured != self.alive.sum() or (
            self.k + 1 < len(self.printed.scales) and self.following.any()
        ):
            self.run.fault(f"round {self.k + 1}: not all items that are alive are measured")

    def follow_unheld(self) -> Unheld:
        """The follower of the next pool's keys that nobody holds."""
        n = len(self.unheld) + 1
        free = len(self.pools[n - 1]) - int((self.pool == n).sum())
        self.unheld.append(Unheld(run=self.run, printed=self.printed, pool=n, free=free))
        return self.unheld[-1]


def _held(parts: Iterable[tuple[Integers, Keys]]) -> tuple[Integers, Keys]:
    """Units and keys of all partitions; units are numbered anew."""
    units, keys, start = [np.zeros(0, np.int64)], [NO_KEYS], 0
    for unit, some in parts:
        units.append(unit.astype(np.int64) + start)
        keys.append(some)
        start += int(unit.max(initial=-1)) + 1
    return np.concatenate(units), np.concatenate(keys)


def _of_bounded(items: Any) -> tuple[Integers, Keys]:
    return items.unit, items.keys[items.item]


def _of_rows(rows: Any, *, find: Any) -> tuple[Integers, Keys]:
    """All distinct items of every unit of a partition, not bounded."""
    items = find(rows)
    held = np.unique(np.stack([items.unit, items.item]), axis=1)
    return held[0], items.keys[held[1]]


class _Holdings:
    """All distinct items of every unit, not bounded, from the log's own rows."""

    def __init__(self, candidates: Candidates) -> None:
        self.names, self.text_keys = list(candidates.keys), candidates.text_keys
        work = partial(_of_rows, find=candidates.pairs.keywords["find"])  # type: ignore[attr-defined]
        self.unit, self.keys = _held(candidates.counted.results(work))

    def of(self, table: Any) -> tuple[Integers, Integers]:
        """(unit, row of the table) of every unit that holds the row's key; units are numbered anew."""
        keys = self.text_keys.columns([table[name] for name in self.names])
        order = order_of_keys(keys)
        at = places_of(self.keys, keys[order])
        _, unit = np.unique(self.unit[at >= 0], return_inverse=True)
        return np.asarray(unit).ravel(), order[at[at >= 0]]


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
    """While this lasts, runs of `rounds` are followed.

    `earlier` is a table of the keys that were published before.
    """
    run = RoundsRun(table=table)
    following: list[_Replay] = []  # of the selection that runs
    lock, drawn = threading.Lock(), threading.local()  # shards are decided side by side
    selected: list[_Replay] = []  # of the release that runs
    stated: list[str] = []
    counted: list[dict[str, Any]] = []
    summed: list[Integers] = []
    holdings: dict[int, tuple[Any, _Holdings]] = {}
    choose, decide, release = Rounds.select, Rounds.decide, Rounds.release
    estimate, draw = vars(counting)["estimate_users"], vars(selecting)["draw"]
    weigh, pass_unheld = counting.Holders.weighted_counts, vars(rounds_steps)["pass_unheld"]

    def select_followed(self: Rounds, candidates: Any, *, entropy: Any) -> Any:
        # By the text that a certificate would print, whatever the steps made of it since.
        following.append(_Replay(stated[-1] if stated else str(self), candidates, run))
        selected[:] = following
        try:
            found = choose(self, candidates, entropy=entropy)
            following[-1].end()
            return found
        finally:
            following.pop()

    def draw_followed(*, keys: Any = None, **more: Any) -> Integers:
        noise: Integers = draw(keys=keys, **more)
        drawn.shard = keys, noise
        return noise

    def decide_followed(self: Rounds, k: int, z: Any, remembered: Any, pool: Any = 0) -> Any:
        outcome = decide(self, k, z, remembered, pool)
        if following:
            with lock:
                following[-1].step(
                    getattr(drawn, "shard", NO_DRAWS),
                    k,
                    np.asarray(z),
                    np.asarray(remembered),
                    pool,
                    outcome,
                )
        return outcome

    def pass_followed(schedule: Any, keys: Any, decide: Any, *, count: int, entropy: Any) -> int:
        if not selected:
            return int(pass_unheld(schedule, keys, decide, count=count, entropy=entropy))
        follower = selected[-1].follow_unheld()

        def judge_followed(k: int, z: Any, remembered: Any) -> Any:
            outcome = decide(k, z, remembered)
            follower.step(k, np.asarray(z), np.asarray(remembered), outcome)
            return outcome

        many = int(pass_unheld(schedule, keys, judge_followed, count=count, entropy=entropy))
        follower.end(count, many)
        return many

    def estimate_followed(measured: Any, profile: Any, **more: Any) -> Any:
        weights = summed[-1] if summed else None
        counted.append({"measured": np.asarray(measured), "d2": int(more["d2"]), "summed": weights})
        return estimate(measured, profile, **more)

    def release_followed(self: Rounds, candidates: Any, *, entropy: Any) -> Any:
        for each in (counted, summed, selected):
            each.clear()
        stated.append(str(self))
        try:
            found = release(self, candidates, entropy=entropy)
        finally:
            stated.pop()
        known = set() if earlier is None else set(keys_in(earlier, candidates.keys))
        if selected:
            last = selected[-1]
            shown = {last.keys[item] for items in last.passed for item in items}
            check_keys(
                run,
                keys_in(found, candidates.keys),
                shown,
                known,
                last.pools,
                last.unheld,
                last.keys,
            )
        if counted and candidates.in_log and candidates.kind != "itemset":
            if id(candidates) not in holdings:
                holdings[id(candidates)] = (candidates, _Holdings(candidates))
            _check_counts(run, holdings[id(candidates)][1], found, **counted[-1], earlier=known)
        return found

    def weighted_followed(self: Any, d2: int) -> Any:
        summed.append(weigh(self, d2))
        return summed[-1]

    with (
        replaced(Rounds, "select", select_followed),
        replaced(Rounds, "decide", decide_followed),
        replaced(Rounds, "release", release_followed),
        replaced(selecting, "draw", draw_followed),
        replaced(rounds_steps, "pass_unheld", pass_followed),
        replaced(counting, "estimate_users", estimate_followed),
        replaced(counting.Holders, "weighted_counts", weighted_followed),
    ):
        yield run


# --- the weights of counts -------------------------------------------------------------------------

MOST_HELD = 40


def check_count_weights() -> list[str]:
    """Whether the weights of counts are those of the proof: norm at most sqrt(d2), for every m."""
    faults = []
    for d2 in (1, 2, 3, 5, 8):
        # Unit m holds the first m of 40 published items.
        unit = np.repeat(np.arange(1, MOST_HELD + 1), np.arange(1, MOST_HELD + 1))
        item = np.concatenate([np.arange(m) for m in range(1, MOST_HELD + 1)])
        summed = holders_of(unit, item, size=MOST_HELD).weighted_counts(d2)
        own = [count_weight_of(m, d2) for m in range(1, MOST_HELD + 1)]
        expected = np.array([sum(own[n:]) for n in range(MOST_HELD)], np.int64)
        if not np.array_equal(summed, expected):
            m = int(np.argmax(np.diff(summed[::-1], prepend=0)[::-1] != np.array(own))) + 1
            faults.append(
                f"counts with d2 = {d2}: a unit with {m} published items gives other weights than "
                "sqrt(d2 / m), rounded down"
            )
    return faults


def holders_of(unit: Integers, item: Integers, *, size: int) -> counting.Holders:
    """Who holds items, from pairs of a unit and an item."""
    items, m, units = count_holders(unit, item)
    return counting.Holders(item=items, m=m, units=units, size=size)
