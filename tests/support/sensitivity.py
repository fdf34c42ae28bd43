"""A grey-box fuzzer of what one unit can move in `rounds`, and of how often its own items show.

The proof (docs/explanation/mechanisms/rounds-proof.md) fixes what was measured on the items that others hold too, and
asks how far one unit moves the sums of weights of the next round. So does this module: it runs the
real steps on a log D and on its neighbour D', tells both the same values on the shared items, lets
the items that only the differing unit holds have their own luck, and compares in whole numbers.

A batch is many small worlds in one log, each with units and items of its own, so that one run of
the engine replays hundreds of pairs of neighbours. Twins are broken versions of the steps: a fuzzer
that does not catch them has shown nothing.
"""

import contextlib
import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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

import murmurlog.mechanisms.rounds.weights as module
from murmurlog.bundle.schema import BY_VALUE, LISTS, By
from murmurlog.counting.bound import EncodedBounded, TableBounded
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.rounds.weights import Held, bounded, by_item, clipped, numbered
from murmurlog.privacy.rounds import FULL, GRID, Schedule, solve_rounds
from murmurlog.privacy.sampler import SeededEntropy

START = datetime(2026, 1, 1)
COUNTRY = By(column="country", values=("DE", "FR"))
# What an item's z is aimed at, and how often on the items that others hold.
LUCK = ("drawn", "border", "stays", "fails", "passes", "mixed")
ON_U = (0.15, 0.15, 0.3, 0.05, 0.05, 0.3)


# --- worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class World:
    """The other units' searches, those of one unit, and those that replace them (or nothing)."""

    kind: str
    others: list  # of units: the numbers of the queries asked, in order
    one: list
    other: list
    tied: bool = False  # everything at the same time, and twice


def some(rng, pool, size):
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
        others = [some(rng, pool, rng.integers(d + 1, 2 * d + 2)) for _ in crowd]
    elif kind == "alike":
        others = [list(range(d)) for _ in crowd]
    elif kind == "hidden":
        pool = np.arange(d)
        others = [some(rng, pool, d) + late for _ in 3 * list(crowd)]
    else:
        others = [some(rng, pool, rng.integers(1, d + 3)) for _ in crowd]

    def held():
        if kind == "beyond":
            return some(rng, [*pool, *mine], 2 * d)
        if kind == "alike":
            return list(range(d))
        if kind == "hidden":
            return late[: rng.integers(1, 3)] + some(rng, pool, rng.integers(0, d + 1))
        if kind == "apart":
            return some(rng, mine, rng.integers(1, d + 2))
        if kind == "single":
            return some(rng, pool if rng.random() < 0.5 else mine, 1)
        if kind == "half":
            shared = some(rng, pool, rng.integers(0, d + 1))
            return some(rng, [*shared, *mine[: d - len(shared)]], d)
        if kind == "copy":
            return others[rng.integers(0, len(others))]
        return some(rng, [*pool, *some(rng, mine, 2)], rng.integers(1, d + 3))

    other = held() if rng.random() < 0.4 else []
    return World(kind=kind, others=others, one=held(), other=other, tied=kind == "tied")


KINDS = ("scattered", "beyond", "alike", "hidden", "apart", "single", "half", "copy", "tied")


def write(path, worlds, side, rng):
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
def written(worlds, rng):
    """Both logs of these worlds, read as a release reads them, with a country to split by."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = []
        for side in (0, 1):
            write(folder / f"{side}.parquet", worlds, side, rng)
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
            table = self.play.rows.select("unit", "item", "attention")
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


def hold(log, view, *, d, seed):
    """(what the mechanism gathers, its units' names in order): the real bounding and numbering."""
    kept = bounded(log, view, per_user=d, entropy=SeededEntropy(seed))
    return numbered(kept), units_of(kept)


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


def gather(logs, *, view, d, seed, holding=hold):
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
    """Something that the proof says cannot happen, in this world and round (0: the counts)."""

    what: str  # moved, others, steered, came back, arithmetic
    kind: str
    world: int
    round: int


@dataclass
class Report:
    """What pairs of neighbours have shown."""

    pairs: int = 0
    rounds: int = 0  # comparisons in which the differing unit moved something
    shares: dict = field(default_factory=dict)  # (kind, round 1 | later | counts): moved / bound
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
        self.shared = np.zeros(self.sides[0].size, bool)
        for unit, item, _ in self.rows:
            self.shared[item[~pair.differs[unit]]] = True
        self.d, self.t = [], []  # what the differing unit holds on each side, and alone
        for unit, item, _ in self.rows:
            mine = item[pair.differs[unit]]
            self.d.append(self._by_world(mine))
            self.t.append(self._by_world(mine[~self.shared[mine]]))
        # What each world's items are aimed at: on U, and those of the unit alone.
        self.luck = rng.choice(len(LUCK), len(worlds), p=ON_U)
        self.own_luck = rng.integers(0, len(LUCK), len(worlds))
        self.own_luck[[world.kind == "hidden" for world in worlds]] = LUCK.index("stays")
        self.leads = rng.integers(0, 2, len(worlds))  # whose weights z is drawn about, on U

    def run(self):
        s = self.mechanism.schedule
        for k in range(s.rounds):
            rows = [side.rows() for side in self.sides]
            self._check_rows(rows, k)
            W = [self._weights(side, part, k) for side, part in zip(self.sides, rows, strict=True)]
            self._compare(W, [self._bound(k, d, t) for d, t in zip(self.d, self.t, strict=True)], k)
            if all(side.play is None for side in self.sides):
                break
            self._tell(W, k)
        both = [side.spread(1, np.concatenate(side.shown)) for side in self.sides]
        self._fault("steered", self.at[self.shared & (both[0] != both[1])], s.rounds - 1)
        if s.count_per_user is not None:
            self._counts(s.count_per_user)
        return self.report

    def _by_world(self, items):
        return np.bincount(self.at[items], minlength=len(self.worlds))

    def _fault(self, what, worlds, k):
        self.report.faults += [
            Fault(what=what, kind=self.worlds[w].kind, world=int(w), round=k + 1)
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
        self._fault("arithmetic", self.at[exact != W], k)
        return W

    def _check_rows(self, rows, k):
        """Rows only go; the others' are the same on both sides, and none is of an item of X."""
        others, size = [], self.sides[0].size
        for (unit, item, attention), (had, held, _) in zip(rows, self.rows, strict=True):
            code = unit * size + item
            other = ~self.pair.differs[unit]
            back = ~np.isin(code, had * size + held) | (other & ~self.shared[item])
            self._fault("came back", self.at[item[back]], k)
            others.append((code * (FULL + 1) + attention)[other])
        odd = np.setxor1d(*others) // (FULL + 1) // size
        self._fault("others", self.pair.unit_worlds[odd], k)
        self.rows = rows

    def _compare(self, values, allowed, k):
        """The squares of what moved on U against the sum of two fractions, in whole numbers."""
        moved = np.where(self.shared, values[0] - values[1], 0)
        squares = np.zeros(len(self.worlds), np.int64)
        np.add.at(squares, self.at, moved * moved)
        (a, b), (c, e) = (tuple(x.astype(object) for x in part) for part in allowed)
        top, bottom = a * e + c * b, b * e
        self._fault("moved", np.flatnonzero(squares * bottom > top), k)
        self.report.rounds += int((squares > 0).sum())
        stage = {-1: "counts", 0: "round 1"}.get(k, "later")
        for w in np.flatnonzero(top):
            share = math.sqrt(int(squares[w]) * bottom[w] / top[w])
            self.report.see((self.worlds[w].kind, stage), share)

    def _tell(self, W, k):
        """Both sides take the step: with equal z on U, and with luck of its own each elsewhere."""
        alive, known = np.zeros((2, len(self.at)), bool), np.zeros((2, len(self.at)), np.int64)
        for n, side in enumerate(self.sides):
            if side.play is not None:
                alive[n, side.items[side.play.alive]] = True
                known[n] = side.spread(side.play.remembered, side.play.alive)
        self._fault("steered", self.at[self.shared & (alive[0] != alive[1])], k)
        leads = self.leads[self.at] == 0
        same = self._aimed(k, np.where(leads, *W), np.where(alive[0], *known), self.luck)
        for n, side in enumerate(self.sides):
            if side.play is not None:
                own = self._aimed(k, W[n], known[n], self.own_luck)
                z = np.where(self.shared, same, own)[side.items[side.play.alive]]
                passed, side.play = self.mechanism._step(side.held, side.play, k, z)
                side.shown.append(passed)

    def _aimed(self, k, W, known, luck):
        """z for every item: noise about its weight, or whatever brings y to where it is aimed."""
        s, rng, size = self.mechanism.schedule, self.rng, len(W)
        own, T, sd = s.own[k], s.thresholds[k], s.sd(k) * GRID
        low = math.ceil(min(T, max(self.mechanism._give_up(k), T - 8 * sd)))
        u = rng.random(size)
        borders = np.array([T, T - own, low, low - own, round(self.mechanism._needed(k))])
        targets = {
            "border": rng.choice(borders, size),
            "stays": low + (u * (T - low)).astype(np.int64),
            "fails": low - own - (u * 3 * sd).astype(np.int64),
            "passes": T + (u * 3 * sd).astype(np.int64),
        }
        aim = np.array(luck)[self.at]
        mixed = rng.integers(0, len(LUCK) - 1, size)
        aim = np.where(aim == LUCK.index("mixed"), mixed, aim)
        z = W + np.rint(rng.normal(size=size) * s.scales[k] * GRID).astype(np.int64)
        for name, y in targets.items():
            # The least z with own z + known >= y.
            z = np.where(aim == LUCK.index(name), -((known - y) // own), z)
        return z

    def _counts(self, per_user):
        found = []
        for side in self.sides:
            listed = side.held.engine.keep(pa.table({"item": np.concatenate(side.shown)}))
            found.append(side.spread(module.clipped(side.held, listed, per_user=per_user)))
        one = np.ones(len(self.worlds), np.int64)
        allowed = [(np.minimum(per_user, d - t), one) for d, t in zip(self.d, self.t, strict=True)]
        self._compare(found, allowed, -1)


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
    patches: dict = field(default_factory=dict)  # of functions in mechanisms/rounds.py
    holding: Callable = hold
    made: type = Rounds


QUERIES = View(kind="query", way="first")
REAL = Twin(name="the real steps", what="")


def random_mechanism(rng, d):
    """One as it is solved for a release, or one with any letters at all."""
    R, d2 = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    if rng.random() < 0.4:
        return Rounds.solve(epsilon=1.0, delta=1e-6, d=d, rounds=R, count_per_user=d2)
    own = rng.integers(1, 500, R)
    needed = rng.uniform(1, 30) * np.sort(rng.uniform(0.8, 2, R))[::-1]  # less in each round
    schedule = Schedule(
        d=d,
        scales=tuple(rng.uniform(0.2, 9.0, R).tolist()),
        own=tuple(own.tolist()),
        past=tuple((own[:-1] * rng.uniform(0, 1, R - 1)).astype(int).tolist()),
        thresholds=tuple(int(GRID * x) for x in np.cumsum(own) * needed),
        count_per_user=d2,
        count_scale=5.0,
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
    """Replays all worlds at once; the seed is that of the bounds' key and of all luck."""
    with contextlib.ExitStack() as stack:
        for name, function in twin.patches.items():
            stack.enter_context(mock.patch.object(module, name, function))
        d = mechanism.schedule.d
        pair = gather(logs, view=view, d=d, seed=seed, holding=twin.holding)
        made = twin.made(**vars(mechanism))
        return Replay(made, worlds, pair, np.random.default_rng(seed)).run()


def fuzz_at_random(*, seed, pairs):
    """Random and adversarial worlds of one random mechanism, table and bound."""
    rng = np.random.default_rng(seed)
    d, kind = SIZES[seed % len(SIZES)], TABLES[seed % len(TABLES)]
    mechanism, view = random_mechanism(rng, d), random_view(rng, kind)
    worlds = random_worlds(rng, d, pairs)
    with written(worlds, rng) as logs:
        return fuzz(mechanism, worlds, logs, seed=seed, view=view)


# --- broken twins ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Whole(Held):
    """What is held, and what was held before it was bounded."""

    whole: Any


def hold_whole(log, view, *, d, seed):
    """As `hold`, but what lies beyond the bound is remembered."""
    held, units = hold(log, view, d=d, seed=seed)
    everything = bounded(log, view, per_user=10_000, entropy=SeededEntropy(seed))
    numbers = held.engine.keep(pa.table({"unit": units, "number": np.arange(len(units))}))
    rows = everything.table.join(held.names, list(held.keys)).join(numbers, "unit")
    whole = held.engine.materialise(rows.select(unit=rows.number, item=rows.item, place=rows.place))
    return Whole(**vars(held), whole=whole), units


def among_bounded_again(held, rows, alive, attention):
    """Each unit's first items of those alive, also such as the first bound had taken out."""
    listed = held.engine.keep(pa.table({"item": alive, "attention": attention}))
    found = held.whole.join(listed, "item")
    nth = ibis.row_number().over(ibis.window(group_by="unit", order_by="place"))
    first = found.mutate(nth=nth).filter(ibis._.nth < held.per_user)
    return held.engine.materialise(first.drop("nth"))


def hold_popular(log, view, *, d, seed):
    """Keeps those of a unit's items that most units hold: a bound that looks at other units."""
    kept = bounded(log, view, per_user=10_000, entropy=SeededEntropy(seed))
    keys = list(kept.keys)
    units = kept.table.group_by(keys).aggregate(units=kept.table.count())
    rows = kept.table.drop("place").join(units, keys)
    order = ibis.window(group_by="unit", order_by=[ibis.desc("units"), *keys])
    rows = rows.mutate(place=ibis.row_number().over(order)).filter(ibis._.place < d)
    table = kept.engine.materialise(rows.select("unit", *keys, "place"))
    kept = kept.with_table(table, per_user=d)
    return numbered(kept), units_of(kept)


class Ranked(Rounds):
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
        rows = held.engine.materialise(play.rows.semi_join(listed, "item"))
        return passed, module.Play(rows=rows, alive=play.alive[on], remembered=play.remembered[on])


real_opening = module.opening


def opening_by_place(held):
    """Unequal weights in the first round."""
    play = real_opening(held)
    attention = ibis.greatest(FULL - held.table.place, 1).cast("int64")
    return replace(play, rows=held.table.mutate(attention=attention))


def weights_to_the_nearest(held, rows):
    """Weights rounded to the nearest step instead of down."""
    units = rows.group_by("unit").aggregate(squares=(rows.attention * rows.attention).sum())
    both = rows.join(units, "unit")
    given = both.select("item", weight=(both.attention * GRID / both.squares.sqrt()).round())
    sums = given.group_by("item").aggregate(weight=given.weight.sum().cast("int64"))
    return by_item(held, sums, "weight")


def unclipped(held, listed, *, per_user):
    return clipped(held, listed, per_user=10_000)


TWINS = (
    Twin(
        name="bounds again in a later round",
        what="moved",
        patches={"among": among_bounded_again},
        holding=hold_whole,
    ),
    Twin(name="bounds by what others hold", what="others", holding=hold_popular),
    Twin(name="goes on by rank", what="steered", made=Ranked),
    Twin(name="unequal weights at first", what="moved", patches={"opening": opening_by_place}),
    Twin(
        name="weights rounded to the nearest",
        what="moved",
        patches={"weights": weights_to_the_nearest},
    ),
    Twin(name="counts not clipped", what="moved", patches={"clipped": unclipped}),
)


# --- how often a unit's own items show ------------------------------------------------------------


def crediting(schedule):
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


def leak(engine, mechanism, *, worlds, own, crowd, claim, entropy):
    """Releases a log of so many worlds, with real noise.

    In each a unit holds d items, `own` of which nobody else holds; a crowd holds all the others.
    """
    d = mechanism.schedule.d
    mine, shared = [f"x{i}" for i in range(own)], [f"s{i}" for i in range(d - own)]
    units = [("v", mine + shared), *((f"u{n}", shared) for n in range(crowd))]
    rows = [(unit, item, place) for unit, held in units for place, item in enumerate(held)]
    unit, item, place = (np.tile(np.array(column), worlds) for column in zip(*rows, strict=True))
    prefix = np.char.add(np.repeat(np.arange(worlds), len(rows)).astype(str), " ")
    table = {"unit": np.char.add(prefix, unit), "query": np.char.add(prefix, item), "place": place}
    kept = TableBounded(
        engine=engine, kind="query", keys=("query",), unit="user", per_user=d, way="first",
        count="users", table=engine.keep(pa.table(table)),
    )  # fmt: skip
    released = mechanism.release(numbered(kept), entropy=entropy)["query"].to_pylist()
    shown = {text.split()[0] for text in released if " x" in text}
    return Leak(shown=len(shown), worlds=worlds, claim=claim)


def claimed(schedule, own):
    """The theorem's bound on the chance that one of `own` items of a unit with d in all shows."""
    t, d = np.array([float(own)]), np.array([float(schedule.d)])
    return float(sum(schedule.shown(k, t, d)[0] for k in range(schedule.rounds)))


@dataclass(frozen=True, kw_only=True)
class Lure:
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
        claim = claimed(right, self.own)
        return [
            leak(engine, Rounds(schedule=schedule, **self.rules), worlds=worlds, own=self.own,
                 crowd=self.crowd, claim=claim, entropy=entropy)
            for schedule in (right, crediting(right))
        ]  # fmt: skip


LURES = (
    # The few of ten items that were lucky have the unit's whole weight in the next round.
    Lure(name="ten items of its own", own=10, crowd=0, rules={"C": 0.0, "reach": 0.8}),
    # Nine items are published at once, and the tenth has the whole weight.
    Lure(name="one item of its own", own=1, crowd=12, rules={}),
)
