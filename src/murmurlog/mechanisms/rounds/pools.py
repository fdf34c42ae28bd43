"""Public keys in `rounds`: their thresholds, and which keys that nobody holds pass.

Every key of a pool takes part from round 1, whoever holds it, so its threshold costs no delta. A key
that nobody holds has no weight: whether it ever passes depends on its noise alone, and all such keys
are alike. So their number is drawn, and which keys they are is a uniform choice (`unheld`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from murmurlog.counting.public_sets.sets import Domain, check_fakes
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.long_arithmetic import mp, precision
from murmurlog.privacy.rounds import Schedule, check_thresholds
from murmurlog.privacy.sampler import (
    Entropy,
    Integers,
    draw,
    draw_binomial,
    draw_fraction,
    draw_normal,
)

BLOCK = 1 << 20
DIRECT = 1 << 21  # of pools up to this size, keys that nobody holds are drawn one by one
MOST_PROPOSALS = 100_000  # of a larger pool, on average; a proposal takes milliseconds
MOST_KEYS = 1 << 40

# Of a round, measurements and what is remembered: who passes, who goes on, what is remembered.
Decide = Callable[[int, Integers, Integers], Any]


@dataclass(frozen=True, kw_only=True)
class PoolKeys:
    """A class of public keys: how many, and what one needs in each round, in grid steps."""

    size: int
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MOST_KEYS:
            raise UsageError(f"a pool has 1 to 2^40 keys, not {self.size}")
        check_thresholds("TP", self.thresholds)

    def fakes(self, schedule: Schedule) -> float:
        """At most how many keys that nobody holds pass, on average."""
        return self.size * float(sum(_chances(schedule, self.thresholds)))


def pool_keys(schedule: Schedule, *, size: int, fakes: float, late: float) -> PoolKeys:
    """The thresholds at which at most `fakes` of `size` keys that nobody holds pass, on average.

    `late` of them in the last round, the others in equal parts.
    """
    check_fakes(fakes)
    R = schedule.rounds
    parts = [1.0] if R == 1 else [(1 - late) / (R - 1)] * (R - 1) + [late]
    if size < 1 or max(parts) * fakes / size >= 0.5:
        raise UsageError(f"{fakes:g} fakes of a pool of {size} keys are too many: ask for fewer")
    steps = [
        math.ceil(GRID * -float(ndtri(part * fakes / size)) * schedule.sd(k))
        for k, part in enumerate(parts)
    ]
    pool = PoolKeys(size=size, thresholds=tuple(steps))
    if pool.thresholds[-1] >= schedule.thresholds[-1]:
        raise UsageError(
            f"a pool of {size} keys with {fakes:g} expected fakes asks more of a key than keys outside "
            "the pool need: use a smaller pool, or accept more fakes with --fakes"
        )
    return pool


def check_pools(pools: Sequence[PoolKeys], domains: Sequence[Domain]) -> None:
    """Refuses pools without thresholds of their own."""
    if tuple(domain.size for domain in domains) != tuple(pool.size for pool in pools):
        raise Refused("the pools are not those that the thresholds were made for")


def check_proposals(schedule: Schedule, keys: PoolKeys) -> None:
    """Raises where the keys of a large pool that pass are too many to be drawn."""
    fakes = keys.fakes(schedule)
    if keys.size > DIRECT and fakes > min(keys.size, MOST_PROPOSALS):
        raise UsageError(
            f"about {fakes:.3g} of {keys.size} keys of a pool would pass though nobody holds them, more "
            f"than the {MOST_PROPOSALS} that can be drawn: raise TP, or ask for fewer --fakes"
        )


def pass_unheld(
    schedule: Schedule, keys: PoolKeys, decide: Decide, *, count: int, entropy: Entropy
) -> int:
    """How many of `count` keys that nobody holds pass in some round."""
    if keys.size > DIRECT:
        return _pass_lazily(schedule, keys, decide, count, entropy)
    passed = 0
    for start in range(0, count, BLOCK):
        passed += _pass_block(schedule, decide, min(BLOCK, count - start), entropy)
    return passed


def _pass_block(schedule: Schedule, decide: Decide, count: int, entropy: Entropy) -> int:
    """Runs all rounds on keys without any weight."""
    passed, remembered = 0, np.zeros(count, np.int64)
    for k, scale in enumerate(schedule.scales):
        z = draw(noise="gaussian", scale=scale * GRID, count=len(remembered), entropy=entropy)
        outcome = decide(k, z, remembered)
        passed += int(outcome.passed.sum())
        remembered = outcome.remembered
    return passed


def _pass_lazily(
    schedule: Schedule, keys: PoolKeys, decide: Decide, count: int, entropy: Entropy
) -> int:
    """The same law, from the few keys whose noise lies beyond a threshold at all.

    Let H_k be the noises Z of all rounds whose sum in round k reaches the threshold, less half a step
    a round for rounding. A key outside all H_k never passes. The number of proposals is binomial with
    p = sum of P(H_k); a proposal has Z from the law given H_k, k with probability P(H_k)/p, and is kept
    with probability 1/(the number of H_j that hold Z). So a key is kept at Z with density phi(Z) on the
    union of the H_k. Those kept go through the real rules.
    """
    with precision(300):
        chances = _chances(schedule, keys.thresholds)
        p = mp.fsum(chances)
        proposals = draw_binomial(count, p, entropy=entropy)
        proposed = (_propose(schedule, keys, chances, p, entropy) for _ in range(proposals))
        noises = [noise for noise in proposed if noise is not None]
    passed, remembered = 0, np.zeros(len(noises), np.int64)
    z = np.array(noises, np.int64).reshape(len(noises), schedule.rounds)
    for k in range(schedule.rounds):
        outcome = decide(k, z[:, k], remembered)
        passed += int(outcome.passed.sum())
        remembered, z = outcome.remembered, z[outcome.goes_on]
    return passed


def _chances(schedule: Schedule, thresholds: tuple[int, ...]) -> list[Any]:
    """P(H_k) for each round, at the working precision."""
    return [
        mp.erfc(_edge(schedule, thresholds, k) / mp.sqrt(2)) / 2 for k in range(schedule.rounds)
    ]


def _direction(schedule: Schedule, k: int) -> list[Any]:
    """What each round's noise, in standard deviations, adds to y_k, in grid steps."""
    parts = zip(schedule.coefficients(k), schedule.scales, strict=False)
    steps = [mp.mpf(c) * mp.mpf(s) * GRID for c, s in parts]
    return steps + [mp.mpf(0)] * (schedule.rounds - k - 1)


def _edge(schedule: Schedule, thresholds: tuple[int, ...], k: int) -> Any:
    """Where H_k begins, in standard deviations of y_k."""
    length = mp.sqrt(mp.fsum(a * a for a in _direction(schedule, k)))
    return (thresholds[k] - mp.mpf(sum(schedule.coefficients(k))) / 2) / length


def _propose(
    schedule: Schedule, keys: PoolKeys, chances: list[Any], p: Any, entropy: Entropy
) -> list[int] | None:
    """The rounded noises of one key, or None where the proposal is not kept."""
    left = draw_fraction(entropy) * p
    k = 0
    while k + 1 < len(chances) and left >= chances[k]:
        left -= chances[k]
        k += 1
    a = _direction(schedule, k)
    length = mp.sqrt(mp.fsum(x * x for x in a))
    along = draw_normal(_edge(schedule, keys.thresholds, k), entropy=entropy)
    free = [draw_normal(None, entropy=entropy) for _ in a]
    shift = (along - mp.fsum(x * y for x, y in zip(a, free, strict=True)) / length) / length
    noise = [y + shift * x for x, y in zip(a, free, strict=True)]  # standard deviations
    holding = sum(
        mp.fsum(x * y for x, y in zip(_direction(schedule, j), noise, strict=True))
        >= keys.thresholds[j] - mp.mpf(sum(schedule.coefficients(j))) / 2
        for j in range(schedule.rounds)
    )
    if draw_fraction(entropy) * max(1, holding) >= 1:
        return None
    return [
        int(mp.floor(y * mp.mpf(s) * GRID + mp.mpf(1) / 2))
        for y, s in zip(noise, schedule.scales, strict=True)
    ]
