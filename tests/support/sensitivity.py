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
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.stats import beta

import murmurlog.mechanisms.rounds.holders as counting
import murmurlog.mechanisms.rounds.weights as module
from murmurlog.bundle.schema import BY_VALUE, LISTS, By
from murmurlog.counting.bound import EncodedBounded, TableBounded, bound
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.public_pools import PublicPool, pools_of
from murmurlog.mechanisms.rounds.holders import Holders
from murmurlog.mechanisms.rounds.pools import PoolKeys
from murmurlog.mechanisms.rounds.weights import Held, by_item, numbered
from murmurlog.privacy import WeightedCounts, histogram_bins
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.rounds import FULL, Schedule, solve_rounds
from murmurlog.privacy.sampler import SeededEntropy

START = datetime(2026, 1, 1)
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
def open_logs(worlds, rng):
    """Both logs of these worlds, read as a release reads them, with a country to split by."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = []
        for side in (0, 1):
            write_log(folder / f"{side}.parquet", worlds, side, rng)
            engine = stack.enter_context(connect())
            source = find(str(folder / f"{side}.parquet"))
            logs.append(read(source, engine=engine, keep={BY_VALUE: COUNTRY.column}))
        yield logs


# --- both sides of a batch ------------------------------------------------------------------------


class Side:
    """One of the two logs as the mechanism holds it, with numbers that both share."""

    def __init__(self, held, unit_texts):
        self.held, self.unit_texts, self.item_texts = held, unit_texts, texts_of(held)
        self.play = module.opening(held)
        self.shown = []

    def rows(self):
        """(unit, item, attention) of the round, by shared numbers."""
        found = [np.zeros((0, 3), np.int64)]
        if self.play is not None:
            table = module.as_table(self.held, self.play.rows).select("unit", "item", "attention")
            for batch in self.held.engine.batches(table):
                found.append(np.stack([np.asarray(c, np.int64) for c in batch.columns], axis=1))
        unit, item, attention = np.concatenate(found).T
        return self.units[unit], self.items[item], attention

    def spread(self, values, at=slice(None)):
        """Values of this side's items as an array over all shared numbers, 0 elsewhere."""
        found = np.zeros(self.size, np.int64)
        found[self.items[at]] = values
        return found


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The log of a batch and its neighbour."""

    sides: list
    item_worlds: np.ndarray
    unit_worlds: np.ndarray
    differs: np.ndarray  # whether a unit is the one that was removed or replaced


def hold_log(log, view, *, d, seed):
    """(what the mechanism gathers, its units' names in order): the real bounding and numbering."""
    pools = tuple(pool.keys for pool in pools_of(view.options, view.kind))
    with mock.patch.object(module, "numbered", wraps=numbered) as seen:
        held = module.hold(log, view, per_user=d, pools=pools, entropy=SeededEntropy(seed))
    return held, units_of(seen.call_args[0][0])


def units_of(kept):
    """The units' names by the numbers that they get; some may hold nothing."""
    if isinstance(kept, EncodedBounded):
        return kept.holdings.names(np.arange(kept.first.unit.max(initial=-1) + 1)).to_pylist()
    return kept.table.select("unit").distinct().order_by("unit").to_pyarrow()["unit"].to_pylist()


def texts_of(held):
    """The text of each item, of all its key columns."""
    names = held.names.order_by("item").to_pyarrow()
    columns = [
        pc.binary_join(names[key].combine_chunks(), "+") if key in LISTS else names[key]
        for key in held.keys
    ]
    return pc.binary_join_element_wise(*columns, "|").to_pylist()


def worlds_of(texts):
    return np.array([int(re.match(r"w(\d+)", text)[1]) for text in texts], np.int64)


def gather(logs, *, view, d, seed, holding=hold_log):
    """Both logs as the mechanism holds them, their units and items numbered alike."""
    sides = [Side(*holding(log, view, d=d, seed=seed)) for log in logs]
    units, numbers = np.unique(
        np.concatenate([side.unit_texts for side in sides]), return_inverse=True
    )
    sides[0].units, sides[1].units = np.split(numbers, [len(sides[0].unit_texts)])
    items, numbers = np.unique(
        np.concatenate([side.item_texts for side in sides]), return_inverse=True
    )
    sides[0].items, sides[1].items = np.split(numbers, [len(sides[0].item_texts)])
    for side in sides:
        side.size = len(items)
    return Pair(
        sides=sides,
        item_worlds=worlds_of(items),
        unit_worlds=worlds_of(units),
        differs=np.array([text.endswith("v") for text in units]),
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

    def __init__(self, mechanism, worlds, pair, rng):
        self.mechanism, self.worlds, self.pair, self.rng = mechanism, worlds, pair, rng
        self.sides, self.at = pair.sides, pair.item_worlds
        self.report = Report(pairs=len(worlds))
        self.rows = [side.rows() for side in self.sides]
        # Keys of a pool are in play on both sides; where nobody holds one, it is not in the arrays.
        self.pool = np.maximum(*(side.spread(side.play.pool) for side in self.sides))
        self.shared = self.pool > 0
        for unit, item, _ in self.rows:
            self.shared[item[~pair.differs[unit]]] = True
        self.compared = self.shared & np.logical_and(*(side.spread(1) for side in self.sides))
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
        for k in range(s.rounds):
            rows = [side.rows() for side in self.sides]
            self._check_rows(rows, k)
            W = [self._weights(side, part, k) for side, part in zip(self.sides, rows, strict=True)]
            allowed = [self._bound(k, d, t) for d, t in zip(self.d, self.t, strict=True)]
            moved = np.where(self.shared, W[0] - W[1], 0)
            self._compare(self._squares(moved), allowed, stage_of(k))
            if all(side.play is None for side in self.sides):
                break
            self._tell(W, k)
        both = [side.spread(1, np.concatenate(side.shown)) for side in self.sides]
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

    def _weights(self, side, rows, k):
        """What the real code sums up; it is what integer roots give, unit by unit."""
        if side.play is None:
            return np.zeros(side.size, np.int64)
        W = side.spread(module.weights(side.held, side.play.rows))
        unit, item, attention = rows
        exact = np.zeros(side.size, np.int64)
        np.add.at(exact, item, exact_weights(unit, attention))
        self._fault("arithmetic", self.at[exact != W], stage_of(k))
        return W

    def _check_rows(self, rows, k):
        """Rows only go; the others' are the same on both sides, and none is of an item of X."""
        others, size = [], self.sides[0].size
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

    def _tell(self, W, k):
        """Both sides take the step: with equal z on U, and with an outcome of its own each elsewhere."""
        alive, known = np.zeros((2, len(self.at)), bool), np.zeros((2, len(self.at)), np.int64)
        for n, side in enumerate(self.sides):
            if side.play is not None:
                alive[n, side.items[side.play.alive]] = True
                known[n] = side.spread(side.play.remembered, side.play.alive)
        self._fault("steered", self.at[self.compared & (alive[0] != alive[1])], stage_of(k))
        leads = self.leads[self.at] == 0
        same = self._aimed(k, np.where(leads, *W), np.where(alive[0], *known), self.aims)
        for n, side in enumerate(self.sides):
            if side.play is not None:
                own = self._aimed(k, W[n], known[n], self.own_aims)
                z = np.where(self.shared, same, own)[side.items[side.play.alive]]
                passed, side.play = self.mechanism._step(side.held, side.play, k, z)
                side.shown.append(passed)

    def _aimed(self, k, W, known, aims):
        """z for every item: noise about its weight, or whatever brings y to where it is aimed."""
        s, rng, size = self.mechanism.schedule, self.rng, len(W)
        own, T, sd = s.own[k], self.mechanism._thresholds[k][self.pool], s.sd(k) * GRID
        least = np.maximum(self.mechanism._give_up(k)[self.pool], T - 8 * sd)
        low = np.ceil(np.minimum(T, least)).astype(np.int64)
        needed = np.rint(self.mechanism._needed(k)[self.pool]).astype(np.int64)
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
        numbers = np.flatnonzero(published[self.sides[0].items])
        if not len(numbers):
            return
        keys = self.mechanism.keys_of(self.sides[0].held, numbers)
        item = self.sides[0].items[numbers]  # of each row of `keys`
        found = [counting.find_holders(side.held, keys) for side in self.sides]
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
                values[item] = holders.weighted(d2)
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
    made: type = Rounds


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
        pair = gather(logs, view=view, d=d, seed=seed, holding=twin.holding)
        made = twin.made(**{part.name: getattr(mechanism, part.name) for part in fields(mechanism)})
        return Replay(made, worlds, pair, np.random.default_rng(seed)).run()


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
    with open_logs(worlds, rng) as logs:
        return fuzz(mechanism, worlds, logs, seed=seed, view=view)


def fuzz_at_random(*, seed, pairs):
    """Random and adversarial worlds of one random mechanism, table and bound."""
    rng = np.random.default_rng(seed)
    d, kind = SIZES[seed % len(SIZES)], TABLES[seed % len(TABLES)]
    mechanism, view = random_mechanism(rng, d), random_view(rng, kind)
    worlds = random_worlds(rng, d, pairs)
    with open_logs(worlds, rng) as logs:
        return fuzz(mechanism, worlds, logs, seed=seed, view=view)


# --- broken twins ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnboundedHeld(Held):
    """What is held, and what was held before it was bounded."""

    whole: Any


def hold_whole(log, view, *, d, seed):
    """As `hold_log`, but what lies beyond the bound is remembered."""
    held, units = hold_log(log, view, d=d, seed=seed)
    numbers = held.engine.keep(pa.table({"unit": units, "number": np.arange(len(units))}))
    rows = all_items(log, view).table.join(held.names, list(held.keys)).join(numbers, "unit")
    whole = held.engine.materialise(rows.select(unit=rows.number, item=rows.item, place=rows.place))
    return UnboundedHeld(**vars(held), whole=whole), units


def all_items(log, view):
    """All distinct items of every unit, with their places."""
    entropy = SeededEntropy(1)  # the first items: nothing is drawn
    return bound(view.items(log), per_user=10_000, way="first", places=True, entropy=entropy)


def among_bounded_again(held, rows, alive, attention):
    """Each unit's first items of those alive, also such as the first bound had taken out."""
    listed = held.engine.keep(pa.table({"item": alive, "attention": attention}))
    found = held.whole.join(listed, "item")
    nth = ibis.row_number().over(ibis.window(group_by="unit", order_by="place"))
    first = found.mutate(nth=nth).filter(ibis._.nth < held.per_user)
    return held.engine.materialise(first.drop("nth"))


def hold_popular(log, view, *, d, seed):
    """Keeps those of a unit's items that most units hold: a bound that looks at other units."""
    kept = all_items(log, view)
    keys = list(kept.keys)
    units = kept.table.group_by(keys).aggregate(units=kept.table.count())
    rows = kept.table.drop("place").join(units, keys)
    order = ibis.window(group_by="unit", order_by=[ibis.desc("units"), *keys])
    rows = rows.mutate(place=ibis.row_number().over(order)).filter(ibis._.place < d)
    kept = kept.with_table(kept.engine.materialise(rows.select("unit", *keys)), per_user=d)
    return numbered(kept, view.items(log)), units_of(kept)


class RankedRounds(Rounds):
    """Only the best three items (of each world, for these are one log) go on."""

    def _step(self, held, play, k, z):
        y = self.schedule.own[k] * z + play.remembered
        y = dict(zip(play.alive.tolist(), y.tolist(), strict=True))
        passed, play = super()._step(held, play, k, z)
        if play is None:
            return passed, None
        worlds = worlds_of(texts_of(held))[play.alive]
        best = np.lexsort(([-y[item] for item in play.alive.tolist()], worlds))
        starts = np.searchsorted(worlds[best], worlds[best])
        on = np.zeros(len(best), bool)
        on[best] = np.arange(len(best)) - starts < 3
        listed = held.engine.keep(pa.table({"item": play.alive[on]}))
        rows = module.as_table(held, play.rows).semi_join(listed, "item")
        rows = held.engine.materialise(rows)
        columns = {name: getattr(play, name)[on] for name in ("alive", "remembered", "pool")}
        return passed, module.Play(rows=rows, **columns)


real_opening = module.opening


def opening_by_place(held):
    """Unequal weights in the first round, by the order of a unit's own items."""
    named = held.table.join(held.names, "item")
    place = ibis.row_number().over(ibis.window(group_by="unit", order_by=list(held.keys)))
    rows = named.select("unit", "item", attention=ibis.greatest(FULL - place, 1).cast("int64"))
    return replace(real_opening(held), rows=held.engine.materialise(rows))


def weights_to_the_nearest(held, rows):
    """Weights rounded to the nearest step instead of down."""
    rows = module.as_table(held, rows)
    units = rows.group_by("unit").aggregate(squares=(rows.attention * rows.attention).sum())
    both = rows.join(units, "unit")
    given = both.select("item", weight=(both.attention * GRID / both.squares.sqrt()).round())
    sums = given.group_by("item").aggregate(weight=given.weight.sum().cast("int64"))
    return by_item(held, sums, "weight")


def weights_of_two_classes(held, rows):
    """Items of the pool share a weight of norm 1, and all other items of the unit a second one."""
    both = module.as_table(held, rows).left_join(held.in_pools, "item")
    inside = both["pool"].fill_null(0)
    classes = both.select("item", "attention", unit=2 * both["unit"] + inside)
    return by_item(held, module.summed_weights(held.engine.materialise(classes)), "weight")


def count_weight_to_the_nearest(m, d2):
    """Half a step above the exact weight is more than the norm allows."""
    return GRID if m <= d2 else round(GRID * math.sqrt(d2 / m))


def holders_by_bounded_sets(held, published):
    """m of a unit's bounded set, but its weight for all that it holds."""
    (holdings,) = held.holdings()
    at = holdings.places(published)[holdings.item]
    every = set(zip(holdings.unit[at >= 0].tolist(), at[at >= 0].tolist(), strict=True))
    names = held.names.to_pyarrow()
    shown = pc.is_in(names["query"], value_set=published["query"].combine_chunks())
    listed = set(names["item"].filter(shown).to_pylist())
    rows = held.table.to_pyarrow()
    m = Counter(
        unit
        for unit, item in zip(rows["unit"].to_pylist(), rows["item"].to_pylist(), strict=True)
        if item in listed
    )
    return holders_from(((item, max(1, m[unit])) for unit, item in every), published.num_rows)


def holders_of_repeated_pairs(unit, item, *, size):
    """A row each time, for a unit that holds the item in several rows."""
    pairs = list(zip(unit.tolist(), item.tolist(), strict=True))
    m = Counter(unit for unit, _ in set(pairs))
    return holders_from(((item, m[unit]) for unit, item in pairs), size)


def holders_of_the_most_held(unit, item, *, size):
    """Of each unit the two items that most units hold: others decide what a unit holds."""
    pairs = sorted(set(zip(unit.tolist(), item.tolist(), strict=True)))
    users = Counter(item for _, item in pairs)
    held = {}
    for one, each in pairs:
        held.setdefault(one, []).append(each)
    kept = [sorted(every, key=lambda i: (-users[i], i))[:2] for every in held.values()]
    return holders_from(((i, len(few)) for few in kept for i in few), size)


def holders_from(pairs, size):
    """Of pairs (item, m), each a unit."""
    units = sorted(Counter(pairs).items())
    columns = np.array([(*pair, n) for pair, n in units], np.int64).reshape(-1, 3).T
    return Holders(item=columns[0], m=columns[1], units=columns[2], size=size)


def histogram_cumulative(holders):
    """Units with at least so many items: a unit is in several bins."""
    return real_histogram(holders)[::-1].cumsum()[::-1]


real_histogram = Holders.histogram
ROUND_TWINS = (
    Twin(
        name="bounds again in a later round",
        what="moved",
        patches={(module, "among"): among_bounded_again},
        holding=hold_whole,
    ),
    Twin(name="bounds by what others hold", what="others", holding=hold_popular),
    Twin(name="goes on by rank", what="steered", made=RankedRounds),
    Twin(
        name="unequal weights at first",
        what="moved",
        patches={(module, "opening"): opening_by_place},
    ),
    Twin(
        name="weights rounded to the nearest",
        what="moved",
        patches={(module, "weights"): weights_to_the_nearest},
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
        patches={(counting, "holders_of_pairs"): holders_of_repeated_pairs},
    ),
    Twin(
        name="cumulative bins",
        what="moved",
        patches={(Holders, "histogram"): histogram_cumulative},
    ),
    Twin(
        name="counts of the most held items",
        what="others",
        patches={(counting, "holders_of_pairs"): holders_of_the_most_held},
    ),
)
TWINS = (*ROUND_TWINS, *COUNT_TWINS)
POOL_TWIN = Twin(
    name="a second weight for keys of the pool",
    what="moved",
    patches={(module, "weights"): weights_of_two_classes},
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


def measure_leak(engine, mechanism, *, worlds, own, crowd, claim, entropy):
    """Releases a log of so many worlds, with real noise.

    In each a unit holds d items, `own` of which nobody else holds; a crowd holds all the others.
    """
    d = mechanism.schedule.d
    mine, shared = [f"x{i}" for i in range(own)], [f"s{i}" for i in range(d - own)]
    units = [("v", mine + shared), *((f"u{n}", shared) for n in range(crowd))]
    rows = [(unit, item) for unit, held in units for item in held]
    unit, item = (np.tile(np.array(column), worlds) for column in zip(*rows, strict=True))
    prefix = np.char.add(np.repeat(np.arange(worlds), len(rows)).astype(str), " ")
    table = {"unit": np.char.add(prefix, unit), "query": np.char.add(prefix, item)}
    kept = TableBounded(
        engine=engine, kind="query", keys=("query",), unit="user", per_user=d, way="first",
        count="users", table=engine.keep(pa.table(table)),
    )  # fmt: skip
    held = numbered(kept, items=None)  # there are no counts
    released = mechanism.release(held, entropy=entropy)["query"].to_pylist()
    shown = {text.split()[0] for text in released if " x" in text}
    return Leak(shown=len(shown), worlds=worlds, claim=claim)


def claimed_chance(schedule, own):
    """The theorem's bound on the chance that one of `own` items of a unit with d in all shows."""
    t, d = np.array([float(own)]), np.array([float(schedule.d)])
    return float(sum(schedule.shown(k, t, d)[0] for k in range(schedule.rounds)))


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """A world in which a unit's own items have the best chances, and rules that help them."""

    name: str
    own: int
    crowd: int
    rules: dict  # C, reach, focus: they cost no privacy, so they may be anything

    def leaks(self, engine, *, worlds, entropy):
        """As it is claimed and proved, and as it would be claimed with credit for survivors."""
        right = solve_rounds(
            epsilon=20.0, delta=0.1, d=10, shares=(0.25, 0.75), memory=0.9, late=0.85
        )
        claim = claimed_chance(right, self.own)
        return [
            measure_leak(engine, Rounds(schedule=schedule, **self.rules), worlds=worlds, own=self.own,
                 crowd=self.crowd, claim=claim, entropy=entropy)
            for schedule in (right, credit_survivors(right))
        ]  # fmt: skip


WORST_CASES = (
    # The few of ten items that were lucky have the unit's whole weight in the next round.
    WorstCase(name="ten items of its own", own=10, crowd=0, rules={"C": 0.0, "reach": 0.8}),
    # Nine items are published at once, and the tenth has the whole weight.
    WorstCase(name="one item of its own", own=1, crowd=12, rules={}),
)
