"""Later periods of a log of which one period is known: a model, stated here and in docs/how-to/plan.md.

- *Units.* Somebody who holds m items in a period searches in another one with probability
  ACTIVE (1 - exp(-m)). So there are more such units than one period shows, and each is there by chance.
- *Items.* A unit holds as many items in every period. REPEATED of them are items that it held before. The
  others are drawn by popularity, or are its own.
- *Popularity.* That of the known period. An item of r units is expected to have r^2/(r + 1) in another
  period, because some of the large ones are large by chance (Good and Turing, for items of r units as
  many as r^-2). From period to period the logarithm of each popularity moves by a random step of DRIFT.
  Items of a single unit are nobody else's.

Draws no privacy noise.
"""

from collections.abc import Iterator

import numpy as np

from murmurlog.errors import UsageError
from murmurlog.privacy.noise_laws import Floats
from murmurlog.privacy.sampler import Integers
from murmurlog.publishing.planning.stand_in_log import (
    MOST_PAIRS,
    Law,
    StandInLog,
    distinct_pairs,
    draws_for,
)

ACTIVE = 0.8
REPEATED = 0.3
DRIFT = 0.15
FITTINGS = 3

Pairs = tuple[Integers, Integers]  # unit and item, in the order of the unit


def draw_periods(first: StandInLog, periods: int, *, seed: int = 0) -> Iterator[Pairs]:
    """The pairs of each period, the known one first; units and items keep their numbers throughout."""
    if first.pairs * periods > MOST_PAIRS:
        raise UsageError(
            f"{periods} periods of {first.pairs:,} pairs of unit and item are too large for a forecast: at most "
            f"{MOST_PAIRS:,} are possible. Plan from a smaller log of the same shape"
        )
    yield first.unit, first.item
    rng = np.random.default_rng(seed)
    sizes = _population(rng, first)
    counts = first.users()
    shared = np.flatnonzero(counts >= 2)
    shared = shared[np.argsort(-counts[shared], kind="stable")]
    law = _law(rng, first, counts, shared)
    weight = np.repeat(law.users, law.items)
    held = [(first.unit, first.item)]
    new = first.size
    back = ACTIVE * -np.expm1(-sizes.astype(np.float64))
    for _ in range(periods - 1):
        weight = weight * np.exp(DRIFT * rng.standard_normal(len(weight)))
        there = np.flatnonzero(rng.random(len(sizes)) < back)
        unit, item = _draw(rng, sizes[there], law, weight)
        known = item < len(shared)
        item[known] = shared[item[known]]
        item[~known] += new  # own items of this period: no other unit and no other period has them
        unit = there[unit]
        unit, item = _repeat(rng, unit, item, held)
        new = max(new, int(item.max(initial=0)) + 1)
        held.append((unit, item))
        yield unit, item


def _population(rng: np.random.Generator, first: StandInLog) -> Integers:
    """The size of every unit: those that the known period shows, then those that it happens to miss."""
    sizes = np.bincount(first.unit, minlength=first.units)
    shown = np.flatnonzero(sizes)
    back = ACTIVE * -np.expm1(-sizes[shown].astype(np.float64))
    missed = np.floor(1 / back - 1 + rng.random(len(shown))).astype(np.int64)
    return np.concatenate([sizes, np.repeat(sizes[shown], missed)])


def _law(rng: np.random.Generator, first: StandInLog, counts: Integers, shared: Integers) -> Law:
    """How units draw, so that items have the expected numbers of units: blocks of equal counts."""
    found = counts[shared]
    levels, start = np.unique(-found, return_index=True)
    items = np.diff(np.append(start, len(found)))
    users = (levels**2) / (1.0 - levels)
    wanted = Law(items=items, users=users, own=first.pairs - float(items @ users))
    law = wanted
    sizes = np.bincount(first.unit, minlength=first.units)
    for _ in range(FITTINGS):
        # A unit holds a popular item once, however often it draws it.
        _, item = _draw(rng, sizes, law, np.repeat(law.users, law.items))
        drawn = np.bincount(item[item < len(shared)], minlength=len(shared)).astype(np.float64)
        means = np.add.reduceat(drawn, start) / items if len(start) else drawn
        bend = np.clip(wanted.users / np.maximum(means, 1e-9), 0.5, 2.0)
        # Few draws say little about rare items: their law follows that of more popular ones.
        sure = means * items >= 100
        bend = np.where(sure, bend, bend[sure][-1] if sure.any() else 1.0)
        law = Law(items=items, users=law.users * bend, own=law.own)
    return law


def _draw(rng: np.random.Generator, sizes: Integers, law: Law, weight: Floats) -> Pairs:
    """Units 0, 1, ... with distinct items: 0, 1, ... by these weights, and from then on own ones."""
    unit = np.repeat(np.arange(len(sizes)), draws_for(sizes, law))
    ends = np.cumsum(np.append(weight, law.own))
    item = np.searchsorted(ends, ends[-1] * rng.random(len(unit)), side="right")
    own = np.flatnonzero(item >= len(weight))
    item[own] = len(weight) + np.arange(len(own))
    unit, item, place = distinct_pairs(unit, item.astype(np.int64), sizes, own_from=len(weight))
    order = np.lexsort((place, unit))
    return unit[order], item[order]


def _repeat(rng: np.random.Generator, unit: Integers, item: Integers, held: list[Pairs]) -> Pairs:
    """The pairs with some items replaced by items that the unit held in earlier periods."""
    past = [np.concatenate(each) for each in zip(*held, strict=True)]
    order = np.argsort(past[0], kind="stable")
    past_unit, past_item = past[0][order], past[1][order]
    start = np.searchsorted(past_unit, unit)
    many = np.searchsorted(past_unit, unit, side="right") - start
    chosen = np.flatnonzero((many > 0) & (rng.random(len(unit)) < REPEATED))
    pick = start[chosen] + (many[chosen] * rng.random(len(chosen))).astype(np.int64)
    item = item.copy()
    item[chosen] = past_item[pick]
    _, kept = np.unique(unit * (int(item.max(initial=0)) + 1) + item, return_index=True)
    kept.sort()
    return unit[kept], item[kept]
