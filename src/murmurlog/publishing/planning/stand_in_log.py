"""A stand-in log: which unit holds which item, without texts, for forecasts.

It is taken from a log, or generated to match an outline. A generated one has the outline's sizes of
units and popularity of items and shares nothing else with the log. Each unit draws its items one
after the other by popularity, so popular items come early in its order. Draws no privacy noise.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.invented.generate import ROWS_A_USER, invent, write
from murmurlog.logs.invented.populations import POPULATIONS
from murmurlog.logs.log import Log, read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.screen import load
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import Integers, SeededEntropy
from murmurlog.publishing.planning.outline import Outline
from murmurlog.publishing.planning.outline_noise import BLOCKS, GROUPS

Floats = npt.NDArray[np.float64]

LIKE = ("plain", *POPULATIONS)
MOST_PAIRS = 60_000_000  # more would not fit into 16 GB
ALONE = 1.5  # items of fewer units on average count as unique to one unit
FITTINGS = 4
FRESH = 0.15  # of the items beyond the measured places are made unique
LARGEST = 16  # times the least size of the last bin: no unit is larger
BENDS = {2: 0.04, 3: 0.1}  # how much logarithms bend, by the order of the difference
STEPS = 60  # of Newton's method; they are cheap
ALL = 1 << 31  # more items than any unit holds


@dataclass(frozen=True, kw_only=True)
class StandInLog:
    """The pairs of unit and item, and the item's place in the unit's order; sorted by both."""

    unit: Integers  # 0 ... units - 1
    item: Integers  # 0 ... size - 1
    place: Integers
    units: int
    size: int

    @property
    def pairs(self) -> int:
        return len(self.unit)

    def bounded(self, per_user: int) -> "StandInLog":
        """The first items of each unit. Units and items keep their numbers."""
        kept = self.place < per_user
        return replace(self, unit=self.unit[kept], item=self.item[kept], place=self.place[kept])

    def renumbered(self) -> tuple["StandInLog", Integers]:
        """The same with items numbered anew, without gaps, and the old number of each."""
        there = self.users() > 0
        item = (np.cumsum(there) - 1)[self.item]
        return replace(self, item=item, size=int(there.sum())), np.flatnonzero(there)

    def users(self) -> Integers:
        """How many units hold each item."""
        return np.bincount(self.item, minlength=self.size)

    def part(self, units: int, *, seed: int = 0) -> "StandInLog":
        """The same log with this many of its units only, chosen at random."""
        if not 1 <= units <= self.units:
            raise UsageError(
                f"--users {units} of a log of {self.units}: a forecast needs a log with at least as many "
                "users"
            )
        chosen = np.zeros(self.units, bool)
        chosen[np.random.default_rng(seed).permutation(self.units)[:units]] = True
        kept = chosen[self.unit]
        return _sorted((np.cumsum(chosen) - 1)[self.unit[kept]], self.item[kept], self.place[kept])


def of_file(
    source: LogSource,
    *,
    kind: str = "query",
    unit: str = "user",
    read_as: SourceOptions | None = None,
    memory: str | None = None,
) -> StandInLog:
    """The stand-in of a log in files, read and screened as for a release; exact."""
    options = read_as or SourceOptions()
    with local_source(source, options) as path, connect(memory=memory) as engine:
        found = find(path, options)
        log = read(found, engine=engine, url="path" if kind == "click" else None, screen=load())
        return of_log(log, kind=kind, unit=unit)


def of_shape(
    like: str, *, users: int, kind: str = "query", unit: str = "user", seed: int = 0
) -> StandInLog:
    """The stand-in of a generated log of this shape with about this many users."""
    if like not in LIKE:
        raise UsageError(f"--like {like!r} is not known: choose {', '.join(LIKE)}")
    if users < 1:
        raise UsageError(f"--users must be at least 1, not {users}")
    a_user = ROWS_A_USER if like == "plain" else POPULATIONS[like].rows / POPULATIONS[like].users
    made = invent(rows=round(users * a_user), seed=seed, like=None if like == "plain" else like)
    with connect() as engine:
        path = engine.folder / "invented.parquet"
        write(made, path)
        log = read(
            find(str(path)), engine=engine, url="path" if kind == "click" else None, screen=load()
        )
        return of_log(log, kind=kind, unit=unit)


def of_log(log: Log, *, kind: str = "query", unit: str = "user") -> StandInLog:
    """The stand-in of a log; exact, so nothing protects it."""
    held = items(log, kind=kind, unit=unit)
    kept = bound(held, per_user=ALL, places=True, entropy=SeededEntropy(0))
    numbered = kept.table.select(
        unit=_number(["unit"]), item=_number(list(held.keys)), place=kept.table.place
    )
    found = log.engine.materialise(numbered).to_pyarrow()
    return _sorted(*(found[name].to_numpy().astype(np.int64) for name in found.column_names))


def _number(keys: list[str]) -> Any:
    return ibis.dense_rank().over(ibis.window(order_by=keys)).cast("int64")


def _sorted(unit: Integers, item: Integers, place: Integers) -> StandInLog:
    order = np.lexsort((place, unit))
    held, item = np.unique(item[order], return_inverse=True)
    return StandInLog(
        unit=unit[order],
        item=item.astype(np.int64),
        place=place[order],
        units=int(unit.max(initial=-1)) + 1,
        size=len(held),
    )


def of_outline(outline: Outline, *, seed: int = 0) -> StandInLog:
    """A generated log with this outline; the same for the same seed."""
    rng = np.random.default_rng(seed)
    sizes = _sizes(rng, outline)
    pairs = int(sizes.sum())
    if not pairs:
        raise UsageError("the outline has no units: measure it with a larger epsilon")
    if pairs > MOST_PAIRS:
        raise UsageError(
            f"a log of {pairs:,} pairs of unit and item is too large for a forecast: at most "
            f"{MOST_PAIRS:,} are possible. Plan from a smaller log of the same shape"
        )
    wanted = _popularity(outline, int(np.minimum(sizes, outline.per_user).sum()))
    law = wanted
    for _ in range(FITTINGS):
        # Sorted counts are steeper than the law they were drawn by, and a unit holds a popular item
        # once however often it draws it. So the law is corrected until draws match the outline.
        counts = _counts_of(_draw(rng, sizes, law).bounded(outline.per_user), wanted)
        law = _corrected(law, wanted, counts)
    return _with_unique_items(rng, _draw(rng, sizes, law), outline.per_user)


def _with_unique_items(rng: np.random.Generator, drawn: StandInLog, per_user: int) -> StandInLog:
    """Makes some items beyond the measured places unique to their unit.

    Items that many people share, such as sites they visit often, mostly come early.
    """
    late = (drawn.place >= per_user) & (rng.random(drawn.pairs) < FRESH)
    own = drawn.size + np.arange(int(late.sum()))
    item = drawn.item.copy()
    item[late] = own
    return _sorted(drawn.unit, item, drawn.place)


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law a unit draws by: blocks of equally popular items, users of each; the rest is unique."""

    items: Integers
    users: Floats
    own: float


def _sizes(rng: np.random.Generator, outline: Outline) -> Integers:
    """The number of items of each unit: as many units in every bin as the outline says."""
    found = np.array([size.units for size in outline.sizes])
    if outline.noise:
        widths = np.array([size.most - size.least + 1.0 for size in outline.sizes])
        found = smooth(found / widths, outline.noise.sigma_sizes / widths, order=3) * widths
    bins = [
        (size.least, size.most, units)
        for size, units in zip(outline.sizes, found.tolist(), strict=True)
    ]
    least, _, top = bins.pop()
    # Beyond the last bin sizes fall as they do over the two octaves before.
    beyond = top + sum(units for start, _, units in bins if start * 4 > least)
    steep = max(1.5, math.log(max(1.0, beyond / max(1.0, top))) / math.log(4.0))
    tail = least * np.minimum((1 - rng.random(round(top))) ** (-1 / steep), LARGEST)
    centre = [math.log(low * high) / 2 for low, high, _ in bins]
    density = [math.log(max(units, 1e-3) / (high - low + 1)) for low, high, units in bins]
    drawn = [np.floor(tail).astype(np.int64)]
    for low, high, units in bins:
        each = np.arange(low, high + 1)
        chance = np.exp(np.interp(np.log(each), centre, density))
        drawn.append(np.repeat(each, rng.multinomial(round(units), chance / chance.sum())))
    return np.concatenate(drawn)


def _popularity(outline: Outline, pairs: int) -> Law:
    """The outline's blocks as far as several units hold an item, and as far as there are pairs."""
    items = np.array([block.items for block in outline.popularity])
    users = np.array([block.users for block in outline.popularity])
    if outline.noise and len(items) == len(BLOCKS):
        users = _smooth_ranks(items, users, outline.noise.scales())
    kept = (users >= ALONE) & (np.cumsum(items * users) <= pairs)
    items, users = items[kept], users[kept]
    return Law(items=items, users=users, own=pairs - float(items @ users))


def _smooth_ranks(items: Integers, users: Floats, scales: list[float]) -> Floats:
    """The users of each block by a curve through all groups of blocks: noise is by group."""
    ends = np.cumsum(GROUPS)
    starts = np.concatenate([[0], ends[:-1]])
    widths = np.add.reduceat(items, starts).astype(np.float64)
    means = np.add.reduceat(items * users, starts) / widths
    curve = smooth(means, np.array(scales) / widths, order=2)
    middles = np.log(np.cumsum(widths) - (widths - 1) / 2)
    blocks = np.log(np.cumsum(items) - (items - 1) / 2)
    drawn = np.exp(np.interp(blocks, middles, np.log(curve)))
    factor = curve * widths / np.add.reduceat(items * drawn, starts)  # the curve is of means
    return np.minimum.accumulate(drawn * np.repeat(factor, GROUPS))


def smooth(values: Floats, errors: Floats, *, order: int) -> Floats:
    """Positive values near the given ones, within their errors, whose logarithm bends little.

    The most likely curve if each value has a Gaussian error and each difference of that order
    between logarithms is Gaussian of scale BENDS. Where errors are large it runs straight on in the
    logarithm (order 2, a power law) or as a parabola (order 3, a log-normal law).
    """
    bends = np.diff(np.eye(len(values)), order, axis=0) / BENDS[order]
    curve = np.log(np.maximum(values, np.maximum(errors, 1e-3)))
    for _ in range(STEPS):
        level = np.exp(curve)
        weight = (level / errors) ** 2
        target = weight * curve + level * (values - level) / errors**2
        found = np.linalg.solve(np.diag(weight) + bends.T @ bends, target)
        curve = curve + np.clip(found - curve, -1.0, 1.0)
    return np.asarray(np.exp(curve))


def _counts_of(drawn: StandInLog, wanted: Law) -> Law:
    """The sorted counts of a drawn log, in the same blocks."""
    ends = np.concatenate([[0], np.cumsum(wanted.items)])
    falling = np.sort(drawn.users())[::-1]
    falling = np.append(falling, np.zeros(max(0, int(ends[-1]) - len(falling)), np.int64))
    sums = np.concatenate([[0], np.cumsum(falling)])
    inside = np.diff(sums[ends])
    return Law(items=wanted.items, users=inside / wanted.items, own=float(sums[-1] - inside.sum()))


def _corrected(law: Law, wanted: Law, counts: Law) -> Law:
    bend = np.clip(wanted.users / np.maximum(counts.users, 1e-9), 0.5, 2.0)
    own = min(2.0, max(0.5, wanted.own / max(counts.own, 1e-9)))
    return Law(items=law.items, users=np.minimum.accumulate(law.users * bend), own=law.own * own)


def _draw(rng: np.random.Generator, sizes: Integers, law: Law) -> StandInLog:
    """Each unit draws by the law until it has as many distinct items as its size says."""
    masses = np.append(law.items * law.users, law.own)
    masses = masses / masses.sum()
    first = np.concatenate([[0], np.cumsum(law.items)])
    unit = np.repeat(np.arange(len(sizes)), draws_for(sizes, law))
    block = np.searchsorted(np.cumsum(masses), rng.random(len(unit)), side="right")
    block = np.minimum(block, len(law.items))  # the last one: own items
    item = first[block] + (np.append(law.items, 1)[block] * rng.random(len(unit))).astype(np.int64)
    alone = np.flatnonzero(block == len(law.items))
    item[alone] = first[-1] + np.arange(len(alone))
    return _sorted(*distinct_pairs(unit, item, sizes))


def distinct_pairs(
    unit: Integers, item: Integers, sizes: Integers, *, own_from: int = 0
) -> tuple[Integers, Integers, Integers]:
    """Units, items and places of the first distinct items that each unit drew, as many as it has.

    Items that are added for a unit have numbers of their own, `own_from` at least.
    """
    # An item that a unit draws again is not a new item.
    _, fresh = np.unique(unit * (int(item.max(initial=0)) + 1) + item, return_index=True)
    fresh.sort()
    unit, item = unit[fresh], item[fresh]
    place = np.arange(len(unit)) - np.searchsorted(unit, unit)
    kept = place < sizes[unit]
    unit, item, place = unit[kept], item[kept], place[kept]
    # A few units have drawn too few items: the missing ones are unique to them.
    held = np.bincount(unit, minlength=len(sizes))
    lacking = np.repeat(np.arange(len(sizes)), sizes - held)
    nth = np.arange(len(lacking)) - np.searchsorted(lacking, lacking)
    own = max(own_from, int(item.max(initial=0)) + 1) + np.arange(len(lacking))
    return (
        np.concatenate([unit, lacking]),
        np.concatenate([item, own]),
        np.concatenate([place, held[lacking] + nth]),
    )


def draws_for(sizes: Integers, law: Law) -> Integers:
    """How often a unit draws so that it hardly ever lacks an item."""
    masses = np.append(law.items * law.users, law.own)
    masses = masses / masses.sum()
    grid = np.geomspace(1.0, 64.0 * float(sizes.max()), 200)
    seen = -np.expm1(-np.outer(grid, masses[:-1] / law.items)) @ law.items + grid * masses[-1]
    draws = np.interp(sizes, seen, grid)
    return np.asarray(np.ceil(draws + 3 * np.sqrt(draws) + 2).astype(np.int64))
