"""A grey-box fuzzer of what one unit can move in `rounds`, and of how often its own items show.

The proof (docs/explanation/mechanisms/rounds-proof.md) fixes what was measured on the items that others hold too, and
asks how far one unit moves the sums of weights of the next round. So does this module: it runs the
real steps on a log D and on its neighbour D', tells both the same values on the shared items, lets
the items that only the differing unit holds have outcomes of their own, and compares in whole numbers.
Then it publishes the shared items that were selected, or all items, and compares the histogram and the
weighted counts of everything that units hold of them. Keys of a public pool are shared, whoever holds them.

A batch is many small worlds in one log, each with units and items of its own, so that one run of
the engine replays hundreds of pairs of neighbours. Twins are broken versions of the steps: a fuzzer
that does not catch them has shown nothing.
"""

import contextlib
import math
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from counts import names_of_units, same
from scipy.stats import beta
from tallies import GivenPartitions, candidates_of

import murmurlog.mechanisms.rounds.count as counting
import murmurlog.mechanisms.rounds.select as module
from murmurlog.bundle.schema import BY_VALUE, LISTS, By
from murmurlog.counting.bound import Bound, BoundedItems
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.counting.unit_weights import give_weights
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.rows import RowReader
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import distinct_keys, places_of
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.public_pools import PublicPool, pools_of
from murmurlog.mechanisms.rounds.count import Holders
from murmurlog.mechanisms.rounds.pools import PoolKeys
from murmurlog.privacy import WeightedCounts, histogram_bins
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL, Schedule, solve_rounds
from murmurlog.privacy.sampler import SeededEntropy

START = datetime(2026, 1, 1)
ROWS = 1000  # of a partition
COUNTRY = By(column="country", values=("DE", "FR"))
# What an item's z is aimed at, and how often on the items that others hold.
AIMS = ("drawn", "border", "stays", "fails", "passes", "mixed")
SHARED_ODDS = (0.15, 0.15, 0.3, 0.05, 0.05, 0.3)
D2 = (1, 2, 3, 8)  # tried with every published set: whatever d2 is chosen, the bound must hold
STAGES = ("round 1", "later", "histogram", "counts")


# --- worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class World:
    """The other units' searches, those of one unit, and those that replace them (or nothing)."""

    kind: str
    others: list  # of units: the numbers of the queries asked, in order
    one: list
    other: list
    tied: bool = False  # everything at the same time, and twice


def choose(rng, pool, size):
    return [int(i) for i in rng.choice(pool, min(size, len(pool)), replace=False)]


def random_world(rng, kind, d):
    """Units on a small pool of items, and one that is removed or replaced.

    beyond: everyone holds more than the bound keeps.  alike: all hold the same d items.
    hidden: many hold items beyond their bound which the one unit holds within its own.
    apart: the unit shares nothing.  single: it holds one item.  half: d items, some its own alone.
    copy: it is as another one.  tied: all at the same time, and twice.  scattered: all sizes.
    """
    pool, mine, late = np.arange(rng.integers(1, 2 * d + 4)), 2000 + np.arange(d + 2), [1000, 1001]
    crowd = range(rng.integers(1, 9 if d <= 20 else 4))
    if kind == "beyond":
        pool = np.arange(2 * d + 1)
        others = [choose(rng, pool, rng.integers(d + 1, 2 * d + 2)) for _ in crowd]
    elif kind == "alike":
        others = [list(range(d)) for _ in crowd]
    elif kind == "hidden":
        pool = np.arange(d)
        others = [choose(rng, pool, d) + late for _ in 3 * list(crowd)]
    else:
        others = [choose(rng, pool, rng.integers(1, d + 3)) for _ in crowd]

    def held():
        if kind == "beyond":
            return choose(rng, [*pool, *mine], 2 * d)
        if kind == "alike":
            return list(range(d))
        if kind == "hidden":
            return late[: rng.integers(1, 3)] + choose(rng, pool, rng.integers(0, d + 1))
        if kind == "apart":
            return choose(rng, mine, rng.integers(1, d + 2))
        if kind == "single":
            return choose(rng, pool if rng.random() < 0.5 else mine, 1)
        if kind == "half":
            shared = choose(rng, pool, rng.integers(0, d + 1))
            return choose(rng, [*shared, *mine[: d - len(shared)]], d)
        if kind == "copy":
            return others[rng.integers(0, len(others))]
        return choose(rng, [*pool, *choose(rng, mine, 2)], rng.integers(1, d + 3))

    other = held() if rng.random() < 0.4 else []
    return World(kind=kind, others=others, one=held(), other=other, tied=kind == "tied")


KINDS = ("scattered", "beyond", "alike", "hidden", "apart", "single", "half", "copy", "tied")


def write_log(path, worlds, side, rng):
    """The log of all worlds, with the one unit (side 0) or what replaces it (side 1)."""
    rows = []
    for w, world in enumerate(worlds):
        one = ("v", world.other if side else world.one)
        for name, held in [*((f"u{n}", held) for n, held in enumerate(world.others)), one]:
            for n, i in enumerate([*held, *held] if world.tied else held):
                rows.append(
                    {
                        "user": f"w{w}{name}",
                        "time": START + timedelta(seconds=0 if world.tied else 9 * n),
                        "query": f"w{w}a{i} w{w}b{i // 2}",
                        "url": f"w{w}.org/{i % 3}",
                        "country": ("DE", "FR", "XX")[(i + n) % 3],
                    }
                )
    rng.shuffle(rows)
    pq.write_table(pa.Table.from_pylist(rows), path)


@contextlib.contextmanager
def open_logs(worlds, rng, *, rows=1 << 20):
    """Both logs of these worlds, read as a release reads them, with a country to split by.

    Partitions have at most so many rows.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = []
        for side in (0, 1):
            write_log(folder / f"{side}.parquet", worlds, side, rng)
            engine = stack.enter_context(connect())
            source, keep = find(str(folder / f"{side}.parquet")), {BY_VALUE: COUNTRY.column}
            # Under the same numbers an item has the same key on both sides.
            with mock.patch.dict(RowReader.__init__.__kwdefaults__, most_rows=rows):
                logs.append(read(source, engine=engine, keep=keep, entropy=SeededEntropy(9)))
        yield logs


# --- both sides of a batch ------------------------------------------------------------------------


class Question(NamedTuple):
    """What a side knows in a round, before it is told what was measured."""

    keys: Any  # of the items that are alive
    weights: Any
    remembered: Any
    rows: list  # (unit, item, attention) of each partition, in its own numbers


here = threading.local()  # .side: whose thread this is


class Side:
    """One of the two logs as the mechanism holds it, with numbers that both share.

    Its rounds run in a thread, in the real loop, which waits in every round to be told what was measured.
    """

    def __init__(self, candidates, log, worlds):
        self.candidates = candidates
        self.names = [
            f"w{w}{name}"
            for w, world in enumerate(worlds)
            for name in ("v", *(f"u{n}" for n in range(len(world.others))))
        ]
        number = {name: n for n, name in enumerate(self.names)}
        find_names = partial(names_of_units, users=self.names, unit="user")
        self.units = [
            np.array([number[name] for name in own], np.int64)
            for own in log.partitions.results(find_names)
        ]
        self.asked, self.answers, self.waits, self.over = Queue(), Queue(), False, False
        self.keys, self.parts, self.selected = None, [], None

    def texts(self):
        """The text of each item, of all its key columns, by key."""
        found = {}
        for part in self.candidates.bounded.values:
            columns = [
                pc.binary_join(column, "+") if name in LISTS else column.cast(pa.string())
                for name, column in zip(
                    self.candidates.keys, part.columns(np.arange(len(part.keys))), strict=True
                )
            ]
            joined = pc.binary_join_element_wise(*columns, "|").to_pylist()
            found.update(zip(map(tuple, part.keys.tolist()), joined, strict=True))
        return found

    def start(self, mechanism, decide):
        """Begins the rounds."""
        scales = [scale * GRID for scale in mechanism.schedule.scales]
        threading.Thread(target=self._run, args=(scales, decide), daemon=True).start()

    def _run(self, scales, decide):
        here.side, self.decide = self, decide
        try:
            self.selected = module.select(
                self.candidates, scales=scales, decide=self._decide, entropy=SeededEntropy(0)
            )
            self.asked.put(None)
        except BaseException as error:
            self.asked.put(error)

    def _decide(self, k, weights, remembered, pool):
        rows = (
            [(part.unit, part.item, part.keys, None) for part in self.candidates.bounded.values]
            if k == 0
            else self.parts
        )
        self.parts = []
        self.asked.put(Question(self.keys, weights, remembered, rows))
        z = self.answers.get()
        if z is None:
            raise RuntimeError("the replay was given up")
        return self.decide(k, z, remembered, pool)

    def ask(self):
        """What it knows in the next round; None if nothing is alive, or after the last."""
        if self.over:
            return None
        question = self.asked.get()
        if isinstance(question, BaseException):
            raise question
        self.over, self.waits = question is None, question is not None
        return question

    def tell(self, z):
        """What was measured."""
        self.waits = False
        self.answers.put(z)

    def rows(self, question):
        """(unit, item, attention) of the round, by shared numbers."""
        found = [np.zeros((3, 0), np.int64)]
        parts = question.rows if question else []
        for units, (unit, item, keys, attention) in zip(self.units, parts, strict=False):
            own = np.full(len(keys), FULL) if attention is None else attention
            found.append(np.stack([units[unit], places_of(keys, self.items)[item], own[item]]))
        return np.concatenate(found, axis=1)

    def spread(self, values, keys):
        """Values of some items as an array over all shared numbers, 0 elsewhere."""
        found = np.zeros(len(self.items), np.int64)
        found[places_of(keys, self.items)] = values
        return found


def note_keys(*, count, keys, **_):
    """In place of noise: whose sums come next is remembered, and they stay as they are."""
    here.side.keys = keys
    return np.zeros(count, np.int64)


def note_rows(items, *, weigh):
    """The sums of what units give to each item; who holds what is remembered."""
    here.side.parts.append((items.unit, items.item, items.keys, items.attention))
    return weigh(items)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The log of a batch and its neighbour."""

    sides: list
    item_worlds: np.ndarray
    unit_worlds: np.ndarray
    differs: np.ndarray  # whether a unit is the one that was removed or replaced


def hold_log(log, view, *, d, seed):
    """What the mechanism gathers, with its bounded items at hand: the real finding and bounding."""
    pools = tuple(pool.keys for pool in pools_of(view.options, view.kind))
    found = module.candidates_of(log, view, per_user=d, pools=pools, entropy=SeededEntropy(seed))
    return with_bounded(found, [*found.bounded.results(same)])


def with_bounded(candidates, parts):
    bounded = GivenPartitions(parts)
    return replace(candidates, bounded=bounded, first=bounded.add_up(module.weigh_first))


def worlds_of(texts):
    return np.array([int(re.match(r"w(\d+)", text)[1]) for text in texts], np.int64)


def gather(logs, worlds, *, view, d, seed, holding=hold_log):
    """Both logs as the mechanism holds them, their units and items numbered alike."""
    sides = [Side(holding(log, view, d=d, seed=seed), log, worlds) for log in logs]
    texts = sides[0].texts() | sides[1].texts()
    items = distinct_keys(np.array(list(texts), np.uint64).reshape(-1, 2))
    for side in sides:
        side.items = items
    return Pair(
        sides=sides,
        item_worlds=worlds_of([texts[tuple(key)] for key in items.tolist()]),
        unit_worlds=worlds_of(sides[0].names),
        differs=np.array([name.endswith("v") for name in sides[0].names]),
    )


# --- the replay -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that the proof says cannot happen, in this world and at this stage."""

    what: str  # moved, others, steered, came back, arithmetic
    kind: str
    world: int
    stage: str


@dataclass
class Report:
    """What pairs of neighbours have shown."""

    pairs: int = 0
    rounds: int = 0  # comparisons in which the differing unit moved something
    shares: dict = field(default_factory=dict)  # (kind, stage): moved / bound
    faults: list = field(default_factory=list)

    def see(self, where, share):
        self.shares[where] = max(self.shares.get(where, 0.0), share)

    def add(self, other):
        self.pairs += other.pairs
        self.rounds += other.rounds
        self.faults += other.faults
        for where, share in other.shares.items():
            self.see(where, share)

    def caught(self, what):
        """The numbers of the worlds in which this went wrong."""
        return {fault.world for fault in self.faults if fault.what == what}


class Replay:
    """Both sides, round by round, under one transcript on the items that other units hold (U)."""

    def __init__(self, mechanism, worlds, pair, rng, decide=None):
        self.mechanism, self.worlds, self.pair, self.rng = mechanism, worlds, pair, rng
        self.decide = partial(decide, self) if decide else mechanism.decide
        self.sides, self.at = pair.sides, pair.item_worlds
        self.report = Report(pairs=len(worlds))
        first = [
            Question(None, None, None, [(p.unit, p.item, p.keys, None) for p in side.candidates.bounded.values])
            for side in self.sides
        ]  # fmt: skip
        self.rows = [side.rows(each) for side, each in zip(self.sides, first, strict=True)]
        # Keys of a pool are in play on both sides; where nobody holds one, it is not in the arrays.
        self.pool = np.zeros(len(self.at), np.int64)
        text_keys = self.sides[0].candidates.text_keys
        for number, pool in enumerate(self.sides[0].candidates.pools, start=1):
            listed = distinct_keys(text_keys.columns(pool.keys(np.arange(pool.size)).columns))
            self.pool[places_of(self.sides[0].items, listed) >= 0] = number
        self.shared = self.pool > 0
        for unit, item, _ in self.rows:
            self.shared[item[~pair.differs[unit]]] = True
        held = [np.zeros(len(self.at), bool) for _ in self.sides]
        for some, (_, item, _) in zip(held, self.rows, strict=True):
            some[item] = True
        self.compared = self.shared & held[0] & held[1]
        self.held = held
        self.d, self.t = [], []  # what the differing unit holds on each side, and alone
        for unit, item, _ in self.rows:
            mine = item[pair.differs[unit]]
            self.d.append(self._by_world(mine))
            self.t.append(self._by_world(mine[~self.shared[mine]]))
        # What each world's items are aimed at: on U, and those of the unit alone.
        self.aims = rng.choice(len(AIMS), len(worlds), p=SHARED_ODDS)
        self.own_aims = rng.integers(0, len(AIMS), len(worlds))
        self.own_aims[[world.kind == "hidden" for world in worlds]] = AIMS.index("stays")
        self.leads = rng.integers(0, 2, len(worlds))  # whose weights z is drawn about, on U

    def run(self):
        s = self.mechanism.schedule
        with contextlib.ExitStack() as stack:
            weigh = partial(note_rows, weigh=module.weigh)
            stack.enter_context(mock.patch.object(module, "weigh", weigh))
            stack.enter_context(mock.patch.object(module, "draw", note_keys))
            for side in self.sides:
                stack.callback(side.tell, None)
                side.start(self.mechanism, self.decide)
            for k in range(s.rounds):
                asked = [side.ask() for side in self.sides]
                rows = [side.rows(each) for side, each in zip(self.sides, asked, strict=True)]
                self._check_rows(rows, k)
                W = [
                    self._weights(side, each, part, k)
                    for side, each, part in zip(self.sides, asked, rows, strict=True)
                ]
                allowed = [self._bound(k, d, t) for d, t in zip(self.d, self.t, strict=True)]
                moved = np.where(self.shared, W[0] - W[1], 0)
                self._compare(self._squares(moved), allowed, stage_of(k))
                if all(each is None for each in asked):
                    break
                self._tell(asked, W, k)
            assert [side.ask() for side in self.sides] == [None, None]
        both = [side.spread(1, side.selected.keys) for side in self.sides]
        odd = self.compared & (both[0] != both[1])
        self._fault("steered", self.at[odd], stage_of(s.rounds - 1))
        # The bounds of the counts hold for every published set: in half of the worlds it is all items.
        self._counts((self.shared & (both[0] > 0) & ~odd) | (self.leads[self.at] == 1))
        return self.report

    def _by_world(self, items):
        return np.bincount(self.at[items], minlength=len(self.worlds))

    def _fault(self, what, worlds, stage):
        self.report.faults += [
            Fault(what=what, kind=self.worlds[w].kind, world=int(w), stage=stage)
            for w in np.unique(worlds)
        ]

    @staticmethod
    def _bound(k, d, t):
        """What the square of one side's vector may be on U, as a fraction; in steps."""
        if k == 0:
            return GRID**2 * (d - t), np.maximum(d, 1)
        return GRID**2 * (t < d), np.ones_like(d)

    def _weights(self, side, question, rows, k):
        """What the real code sums up; it is what integer roots give, unit by unit."""
        if question is None:
            return np.zeros(len(self.at), np.int64)
        W = side.spread(question.weights, question.keys)
        unit, item, attention = rows
        exact = np.zeros(len(self.at), np.int64)
        np.add.at(exact, item, exact_weights(unit, attention))
        self._fault("arithmetic", self.at[exact != W], stage_of(k))
        return W

    def _check_rows(self, rows, k):
        """Rows only go; the others' are the same on both sides, and none is of an item of X."""
        others, size = [], len(self.at)
        for (unit, item, attention), (had, held, _) in zip(rows, self.rows, strict=True):
            code = unit * size + item
            other = ~self.pair.differs[unit]
            back = ~np.isin(code, had * size + held) | (other & ~self.shared[item])
            self._fault("came back", self.at[item[back]], stage_of(k))
            others.append((code * (FULL + 1) + attention)[other])
        odd = np.setxor1d(*others) // (FULL + 1) // size
        self._fault("others", self.pair.unit_worlds[odd], stage_of(k))
        self.rows = rows

    def _squares(self, moved):
        """The square of what moved in each world, of an array over all items."""
        squares = np.zeros(len(self.worlds), np.int64)
        np.add.at(squares, self.at, moved * moved)
        return squares

    def _compare(self, squares, allowed, stage):
        """The squares of what moved against the sum of two fractions, in whole numbers."""
        (a, b), (c, e) = (tuple(x.astype(object) for x in part) for part in allowed)
        top, bottom = a * e + c * b, b * e
        self._fault("moved", np.flatnonzero(squares * bottom > top), stage)
        self.report.rounds += int((squares > 0).sum())
        for w in np.flatnonzero(top):
            share = math.sqrt(int(squares[w]) * bottom[w] / top[w])
            self.report.see((self.worlds[w].kind, stage), share)

    def _tell(self, asked, W, k):
        """Both sides take the step: with equal z on U, and with an outcome of its own each elsewhere."""
        alive, known = np.zeros((2, len(self.at)), bool), np.zeros((2, len(self.at)), np.int64)
        for n, (side, each) in enumerate(zip(self.sides, asked, strict=True)):
            if each is not None:
                alive[n] = side.spread(1, each.keys) > 0
                known[n] = side.spread(each.remembered, each.keys)
        self._fault("steered", self.at[self.compared & (alive[0] != alive[1])], stage_of(k))
        leads = self.leads[self.at] == 0
        same = self._aimed(k, np.where(leads, *W), np.where(alive[0], *known), self.aims)
        for n, (side, each) in enumerate(zip(self.sides, asked, strict=True)):
            if each is not None:
                own = self._aimed(k, W[n], known[n], self.own_aims)
                z = np.where(self.shared, same, own)
                side.tell(z[places_of(each.keys, side.items)])

    def _aimed(self, k, W, known, aims):
        """z for every item: noise about its weight, or whatever brings y to where it is aimed."""
        s, rng, size = self.mechanism.schedule, self.rng, len(W)
        own, T, sd = s.own[k], self.mechanism._thresholds[k][self.pool], s.sd(k) * GRID
        least = np.maximum(self.mechanism._give_up_threshold(k)[self.pool], T - 8 * sd)
        low = np.ceil(np.minimum(T, least)).astype(np.int64)
        needed = np.rint(self.mechanism._target(k)[self.pool]).astype(np.int64)
        u = rng.random(size)
        borders = np.array([T, T - own, low, low - own, needed])
        targets = {
            "border": borders[rng.integers(0, len(borders), size), np.arange(size)],
            "stays": low + (u * (T - low)).astype(np.int64),
            "fails": low - own - (u * 3 * sd).astype(np.int64),
            "passes": T + (u * 3 * sd).astype(np.int64),
        }
        aim = np.array(aims)[self.at]
        mixed = rng.integers(0, len(AIMS) - 1, size)
        aim = np.where(aim == AIMS.index("mixed"), mixed, aim)
        z = W + np.rint(rng.normal(size=size) * s.scales[k] * GRID).astype(np.int64)
        for name, y in targets.items():
            # The least z with own z + known >= y.
            z = np.where(aim == AIMS.index(name), -((known - y) // own), z)
        return z

    def _counts(self, published):
        """The histogram and the weighted counts of these items, whatever units hold of them."""
        item = np.flatnonzero(published & self.held[0])  # of each row of `keys`
        if not len(item):
            return
        keys = self.sides[0].candidates.table(self.sides[0].items[item])
        found = [counting.find_holders(side.candidates, keys) for side in self.sides]
        self._check_others(found, self.at[item])
        # Side by side: whether the differing unit is in the log at all.
        there = [
            np.array([bool(held) for held in part], np.int64)
            for part in ([w.one for w in self.worlds], [w.other for w in self.worlds])
        ]
        one = np.ones(len(self.worlds), np.int64)
        bins = [self._bins(holders, self.at[item]) for holders in found]
        squares = ((bins[0] - bins[1]) ** 2).sum(axis=1)
        self._compare(squares, [(part, one) for part in there], "histogram")
        for d2 in D2:
            counts = [np.zeros(len(self.at), np.int64) for _ in found]
            for values, holders in zip(counts, found, strict=True):
                values[item] = holders.weighted_counts(d2)
            allowed = [(GRID**2 * d2 * part, one) for part in there]
            self._compare(self._squares(counts[0] - counts[1]), allowed, "counts")

    def _check_others(self, found, worlds):
        """Only pairs (item, m) of the differing unit change, by one: its own m, at most m items."""
        size = found[0].size
        tables = []
        for holders in found:
            table = np.zeros((size, int(max(h.m.max(initial=0) for h in found)) + 1), np.int64)
            np.add.at(table, (holders.item, holders.m), holders.units)
            tables.append(table)
        more = tables[0] - tables[1]
        for sign in (1, -1):
            item, m = np.nonzero(sign * more > 0)
            self._fault("others", worlds[item[np.abs(more[item, m]) > 1]], "counts")
            for w in np.unique(worlds[item]):
                its = m[worlds[item] == w]
                if len(set(its.tolist())) > 1 or len(its) > its[0]:
                    self._fault("others", [w], "counts")

    def _bins(self, holders, worlds):
        """The histogram of each world: a unit holds items of one world only."""
        each = np.zeros((len(self.worlds), len(histogram_bins(holders.size))), np.int64)
        order = np.argsort(worlds[holders.item], kind="stable")
        at = worlds[holders.item][order]
        for w in np.unique(at):
            part = order[np.searchsorted(at, w) : np.searchsorted(at, w, side="right")]
            columns = {name: getattr(holders, name)[part] for name in ("item", "m", "units")}
            each[w] = Holders(**columns, size=holders.size).histogram()
        odd = each.sum(axis=0) != holders.histogram()
        self._fault("arithmetic", worlds[:1] if odd.any() else [], "histogram")
        return each


def stage_of(k):
    return STAGES[0] if k == 0 else STAGES[1]


def exact_weights(unit, attention):
    """floor(GRID h_i / |h|) for each row, by integers alone: each unit's squares are <= GRID^2."""
    _, at = np.unique(unit, return_inverse=True)
    squares = np.zeros(at.max(initial=-1) + 1, np.int64)
    np.add.at(squares, at, attention * attention)
    limit = attention * attention * GRID**2 // squares[at]
    root = np.zeros(len(unit), np.int64)
    for bit in range(GRID.bit_length(), -1, -1):
        more = root + (1 << bit)
        root = np.where(more * more <= limit, more, root)
    return root


# --- batches --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Twin:
    """The mechanism with one thing wrong, and what the fuzzer must say about it."""

    name: str
    what: str
    patches: dict = field(default_factory=dict)  # of (where, name)
    holding: Callable = hold_log
    decide: Callable | None = (
        None  # of a replay, the round, measurements, what is remembered, pools
    )


QUERIES = View(kind="query", way="first")
REAL = Twin(name="the real steps", what="")


def random_mechanism(rng, d):
    """One as it is solved for a release, or one with any parameters at all."""
    R = int(rng.integers(1, 7))
    if rng.random() < 0.4:
        return Rounds.solve(epsilon=1.0, delta=1e-6, d=d, rounds=R)
    own = rng.integers(1, 500, R)
    needed = rng.uniform(1, 30) * np.sort(rng.uniform(0.8, 2, R))[::-1]  # less in each round
    schedule = Schedule(
        d=d,
        scales=tuple(rng.uniform(0.2, 9.0, R).tolist()),
        own=tuple(own.tolist()),
        past=tuple((own[:-1] * rng.uniform(0, 1, R - 1)).astype(int).tolist()),
        thresholds=tuple(int(GRID * x) for x in np.cumsum(own) * needed),
        counts=WeightedCounts(scale=5.0, histogram_scale=20.0),
    )
    return Rounds(
        schedule=schedule,
        C=float(rng.choice([0.0, 1.0, 3.0, math.inf])),
        reach=float(rng.choice([0.3, 0.8, 1.3])),
        focus=float(rng.choice([0.1, 0.3, 1.0])),
    )


SIZES = (4, 2, 1, 8, 3, 20, 100)
TABLES = ("query", "itemset", "query", "click", "pair", "keyword")


def random_view(rng, kind):
    by = COUNTRY.inside() if kind in ("query", "click", "keyword") and rng.random() < 0.5 else None
    return View(kind=kind, by=by, way=str(rng.choice(["first", "random"])))


def random_worlds(rng, d, pairs):
    return [random_world(rng, KINDS[n % len(KINDS)], d) for n in range(pairs)]


def fuzz(mechanism, worlds, logs, *, seed, view=QUERIES, twin=REAL):
    """Replays all worlds at once; the seed is that of the bounds' key and of all outcomes."""
    with contextlib.ExitStack() as stack:
        for (where, name), function in twin.patches.items():
            stack.enter_context(mock.patch.object(where, name, function))
        d = mechanism.schedule.d
        pair = gather(logs, worlds, view=view, d=d, seed=seed, holding=twin.holding)
        return Replay(mechanism, worlds, pair, np.random.default_rng(seed), twin.decide).run()


def add_pool(mechanism, worlds):
    """(the mechanism, a view) with a pool of every second query of the worlds, and one of nobody."""
    listed = [
        f"w{w}a{i} w{w}b{i // 2}"
        for w, world in enumerate(worlds)
        for i in sorted({i for held in (*world.others, world.one, world.other) for i in held})
        if i % 2 == 0
    ]
    keys = Listed(table=pa.table({"query": [*listed, "nobody asks this"]}))
    thresholds = tuple(math.ceil(0.6 * T) for T in mechanism.schedule.thresholds)
    pools = (PoolKeys(size=keys.size, thresholds=thresholds),)
    view = replace(QUERIES, options={"pool": {"query": (PublicPool(keys=keys),)}})
    return replace(mechanism, pools=pools), view


def fuzz_pools_at_random(*, seed, pairs):
    """The same with a pool, on queries."""
    rng = np.random.default_rng(seed)
    d = SIZES[seed % len(SIZES)]
    worlds = random_worlds(rng, d, pairs)
    mechanism, view = add_pool(random_mechanism(rng, d), worlds)
    with open_logs(worlds, rng, rows=ROWS) as logs:
        return fuzz(mechanism, worlds, logs, seed=seed, view=view)


def fuzz_at_random(*, seed, pairs):
    """Random and adversarial worlds of one random mechanism, table and bound."""
    rng = np.random.default_rng(seed)
    d, kind = SIZES[seed % len(SIZES)], TABLES[seed % len(TABLES)]
    mechanism, view = random_mechanism(rng, d), random_view(rng, kind)
    worlds = random_worlds(rng, d, pairs)
    with open_logs(worlds, rng, rows=ROWS) as logs:
        return fuzz(mechanism, worlds, logs, seed=seed, view=view)


# --- broken twins ---------------------------------------------------------------------------------


class Whole(NamedTuple):
    """Items that are alive, and all items of the units with their places, of which d were kept."""

    unit: Any
    item: Any
    keys: Any
    attention: Any
    whole: BoundedItems
    d: int


def all_items(log, view):
    """All distinct items of every unit, with their places, of each partition."""
    bound = Bound(per_unit=10_000, places=True)
    return [bound(items) for items in log.partitions.results(view.finder(log))]


def hold_whole(log, view, *, d, seed):
    """As `hold_log`, but what lies beyond the bound is remembered."""
    candidates = hold_log(log, view, d=d, seed=seed)
    for part, whole in zip(candidates.bounded.values, all_items(log, view), strict=True):
        object.__setattr__(part, "whole", whole)
        object.__setattr__(part, "d", d)
    return candidates


def among_bounded_again(items, *, alive):
    """Each unit's first items of those alive, also such as the first bound had taken out."""
    listed = alive()
    places = listed.keys.places(items.whole.keys)
    rows = np.flatnonzero(places[items.whole.item] >= 0)
    unit, place = items.whole.unit[rows], items.whole.place[rows]
    rows = rows[np.lexsort((place, unit))]
    unit = items.whole.unit[rows]
    nth = np.arange(len(unit)) - np.searchsorted(unit, unit)
    rows = rows[nth < items.d]
    item = places[items.whole.item[rows]]
    return Whole(
        items.whole.unit[rows], item, listed.keys.keys, listed.attention, items.whole, items.d
    )


def hold_popular(log, view, *, d, seed):
    """Keeps those of a unit's items that most units hold: a bound that looks at other units."""
    candidates, parts = hold_log(log, view, d=d, seed=seed), []
    every = all_items(log, view)
    users = Counter(tuple(key) for part in every for key in part.keys[part.item].tolist())
    for part in every:
        units = np.array([users[tuple(key)] for key in part.keys.tolist()], np.int64)
        order = np.lexsort((part.item, -units[part.item], part.unit))
        unit = part.unit[order]
        kept = order[np.arange(len(unit)) - np.searchsorted(unit, unit) < d]
        few = replace(part, unit=part.unit[kept], item=part.item[kept], place=None)
        parts.append(few.with_items(np.bincount(few.item, minlength=len(few.keys)) > 0))
    return with_bounded(candidates, parts)


def decide_by_rank(replay, k, z, remembered, pool):
    """Only the best three items (of each world, for these are one log) go on."""
    outcome = replay.mechanism.decide(k, z, remembered, pool)
    on = np.flatnonzero(outcome.goes_on)
    y = replay.mechanism.schedule.own[k] * z + remembered
    worlds = replay.at[places_of(here.side.keys[on], here.side.items)]
    best = np.lexsort((-y[on], worlds))
    starts = np.searchsorted(worlds[best], worlds[best])
    stays = np.zeros(len(on), bool)
    stays[best] = np.arange(len(best)) - starts < 3
    goes_on = np.zeros(len(z), bool)
    goes_on[on[stays]] = True
    return outcome._replace(
        goes_on=goes_on, attention=outcome.attention[stays], remembered=outcome.remembered[stays]
    )


def weigh_by_place(items):
    """Unequal weights in the first round, by the order of a unit's own items."""
    order = np.lexsort((items.item, items.unit))
    unit = items.unit[order]
    place = np.arange(len(unit)) - np.searchsorted(unit, unit)
    attention = np.empty(len(unit), np.int64)
    attention[order] = np.maximum(FULL - place, 1)
    return module._add_weights(
        items.item, items.keys, give_weights(items.unit, attention, grid=GRID)
    )


def weigh_to_the_nearest(items):
    """Weights rounded to the nearest step instead of down."""
    attention = items.attention[items.item]
    squares = np.bincount(items.unit, weights=attention**2)
    given = np.rint(attention * GRID / np.sqrt(squares[items.unit])).astype(np.int64)
    return module._add_weights(items.item, items.keys, given)


def weigh_first_to_the_nearest(items):
    """The same in the first round."""
    held = np.bincount(items.unit)
    given = np.rint(GRID / np.sqrt(held[items.unit])).astype(np.int64)
    return module._add_weights(items.item, items.keys, given)


def weigh_two_classes(items):
    """Items of the pool share a weight of norm 1, and all other items of the unit a second one."""
    candidates = here.side.candidates
    (pool,) = candidates.pools
    listed = candidates.text_keys.columns(pool.keys(np.arange(pool.size)).columns)
    inside = places_of(items.keys, distinct_keys(listed)) >= 0
    classes = 2 * items.unit.astype(np.int64) + inside[items.item]
    given = give_weights(classes, items.attention[items.item], grid=GRID)
    return module._add_weights(items.item, items.keys, given)


def count_weight_to_the_nearest(m, d2):
    """Half a step above the exact weight is more than the norm allows."""
    return GRID if m <= d2 else round(GRID * math.sqrt(d2 / m))


def holders_by_bounded_sets(candidates, published):
    """m of a unit's bounded set, but its weight for all that it holds."""
    listed, rows = candidates.share_published(published), Counter()
    bounded = candidates.bounded.values
    everything = candidates.counted.results(partial(candidates.pairs, published=listed()))
    for part, (units, places) in zip(bounded, everything, strict=True):
        m = Counter(part.unit[(listed().keys.places(part.keys) >= 0)[part.item]].tolist())
        pairs = set(zip(units.tolist(), places.tolist(), strict=True))
        rows.update((item, max(1, m[unit])) for unit, item in pairs)
    item, m, units = rows_from(rows.elements())
    return Holders(item=item, m=m, units=units, size=published.num_rows)


def holders_of_repeated_pairs(unit, item):
    """A row each time, for a unit that holds the item in several rows."""
    pairs = list(zip(unit.tolist(), item.tolist(), strict=True))
    m = Counter(unit for unit, _ in set(pairs))
    return rows_from((item, m[unit]) for unit, item in pairs)


def holders_of_the_most_held(unit, item):
    """Of each unit the two items that most units hold: others decide what a unit holds."""
    pairs = sorted(set(zip(unit.tolist(), item.tolist(), strict=True)))
    users = Counter(item for _, item in pairs)
    held = {}
    for one, each in pairs:
        held.setdefault(one, []).append(each)
    kept = [sorted(every, key=lambda i: (-users[i], i))[:2] for every in held.values()]
    return rows_from((i, len(few)) for few in kept for i in few)


def rows_from(pairs):
    """Of pairs (item, m), each a unit: items, m and units."""
    units = sorted(Counter(pairs).items())
    return np.array([(*pair, n) for pair, n in units], np.int64).reshape(-1, 3).T


def histogram_cumulative(holders):
    """Units with at least so many items: a unit is in several bins."""
    return real_histogram(holders)[::-1].cumsum()[::-1]


real_histogram = Holders.histogram
ROUND_TWINS = (
    Twin(
        name="bounds again in a later round",
        what="moved",
        patches={(module, "keep_alive"): among_bounded_again},
        holding=hold_whole,
    ),
    Twin(name="bounds by what others hold", what="others", holding=hold_popular),
    Twin(name="goes on by rank", what="steered", decide=decide_by_rank),
    Twin(
        name="unequal weights at first",
        what="moved",
        patches={(module, "weigh_first"): weigh_by_place},
    ),
    Twin(
        name="weights rounded to the nearest",
        what="moved",
        patches={
            (module, "weigh_first"): weigh_first_to_the_nearest,
            (module, "weigh"): weigh_to_the_nearest,
        },
    ),
)
COUNT_TWINS = (
    Twin(
        name="count weights to the nearest",
        what="moved",
        patches={(counting, "count_weight"): count_weight_to_the_nearest},
    ),
    Twin(
        name="m of bounded sets, all items count",
        what="moved",
        patches={(counting, "find_holders"): holders_by_bounded_sets},
    ),
    Twin(
        name="rows that tie count twice",
        what="moved",
        patches={(counting, "count_holders"): holders_of_repeated_pairs},
    ),
    Twin(
        name="cumulative bins",
        what="moved",
        patches={(Holders, "histogram"): histogram_cumulative},
    ),
    Twin(
        name="counts of the most held items",
        what="others",
        patches={(counting, "count_holders"): holders_of_the_most_held},
    ),
)
TWINS = (*ROUND_TWINS, *COUNT_TWINS)
POOL_TWIN = Twin(
    name="a second weight for keys of the pool",
    what="moved",
    patches={(module, "weigh"): weigh_two_classes},
)


# --- how often a unit's own items show ------------------------------------------------------------


def credit_survivors(schedule):
    """The same claim with thresholds that take a unit's weight as spread over all d, always.

    Which items survive depends on the noise, so a survivor may carry a weight of 1.
    """
    spared = [sum(schedule.coefficients(k)[1:]) for k in range(schedule.rounds)]
    part = GRID * (1 - 1 / math.sqrt(schedule.d))
    thresholds = zip(schedule.thresholds, spared, strict=True)
    return replace(schedule, thresholds=tuple(T - math.floor(c * part) for T, c in thresholds))


@dataclass(frozen=True, kw_only=True)
class Leak:
    """In how many of so many worlds an item of one unit alone was published, and what is claimed."""

    shown: int
    worlds: int
    claim: float

    @property
    def chance(self):
        return self.shown / self.worlds

    @property
    def least(self):
        """What the chance is at least, but for an error of 1e-9 (Clopper and Pearson)."""
        return (
            float(beta.ppf(1e-9, self.shown, self.worlds - self.shown + 1)) if self.shown else 0.0
        )

    @property
    def caught(self):
        return self.least > self.claim


def measure_leak(mechanism, *, worlds, own, crowd, claim, entropy):
    """Releases a log of so many worlds, with real noise.

    In each a unit holds d items, `own` of which nobody else holds; a crowd holds all the others.
    """
    d = mechanism.schedule.d
    mine, shared = [f"x{i}" for i in range(own)], [f"s{i}" for i in range(d - own)]
    units = [mine + shared, *(shared for _ in range(crowd) if shared)]
    holdings = [[f"{w} {item}" for item in held] for w in range(worlds) for held in units]
    released = mechanism.release(candidates_of(holdings, d=d), entropy=entropy)["query"].to_pylist()
    shown = {text.split()[0] for text in released if " x" in text}
    return Leak(shown=len(shown), worlds=worlds, claim=claim)


def claimed_chance(schedule, own):
    """The theorem's bound on the chance that one of `own` items of a unit with d in all shows."""
    t, d = np.array([float(own)]), np.array([float(schedule.d)])
    return float(sum(schedule.leak(k, t, d)[0] for k in range(schedule.rounds)))


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """A world in which a unit's own items have the best chances, and rules that help them."""

    name: str
    own: int
    crowd: int
    rules: dict  # C, reach, focus: they cost no privacy, so they may be anything

    def leaks(self, *, worlds, entropy):
        """As it is claimed and proved, and as it would be claimed with credit for survivors."""
        right = solve_rounds(
            epsilon=20.0, delta=0.1, d=10, shares=(0.25, 0.75), memory=0.9, late=0.85
        )
        claim = claimed_chance(right, self.own)
        return [
            measure_leak(Rounds(schedule=schedule, **self.rules), worlds=worlds, own=self.own,
                 crowd=self.crowd, claim=claim, entropy=entropy)
            for schedule in (right, credit_survivors(right))
        ]  # fmt: skip


WORST_CASES = (
    # The few of ten items that were lucky have the unit's whole weight in the next round.
    WorstCase(name="ten items of its own", own=10, crowd=0, rules={"C": 0.0, "reach": 0.8}),
    # Nine items are published at once, and the tenth has the whole weight.
    WorstCase(name="one item of its own", own=1, crowd=12, rules={}),
)
