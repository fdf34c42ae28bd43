"""Weighted selection in rounds (MR-J): a bound on its cost, and the parameters for a budget.

The mechanism: every user is bounded once to d distinct items and spreads non-negative weights of
l2 norm at most 1 over those of them that are still alive, equal ones in the first round. Round k
adds Gaussian noise of sd s_k to the weight of every alive item and sums up what it knows of it,
y_k = own_k z_k + sum of past_j z_j over the rounds before; an item with y_k >= T_k is published
and removed, others may be given up by a rule that depends on that item alone. Fresh Gaussian counts of
the published items may follow. Weights and noise live on the grid 1/GRID, the coefficients are
integers, so every number that decides is an integer. Proof: docs/explanation/mechanisms/rounds-proof.md.

One round is the weighted Gaussian mechanism; no memory (past = 0) and nothing given up is
DP-SIPS; two rounds without memory are 2R.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtri

from murmurlog.errors import UsageError
from murmurlog.privacy.composition import Loss
from murmurlog.privacy.counts import GRID, LEAST_SCALE, WeightedCounts
from murmurlog.privacy.noise_laws import Floats, _gaussian, gaussian_delta
from murmurlog.privacy.thresholds import (
    SAFETY,
    bisect,
    check_budget,
    check_neighbours,
    least_epsilon,
    per_item,
    round_up,
    round_up_within,
    sides,
)

FULL = 10  # attention is a whole number up to this: a unit's weights are in its proportion
MOST_ROUNDS = 8
MOST_ITEMS = 1000  # pairs (t, d) are half a million
PAIRS_AT_ONCE = 1 << 20  # of sides that are compared at a time
MOST_COEFFICIENT = 1 << 12
MOST_THRESHOLD = 1 << 62  # sums of weights and noise are 64-bit integers
COEFFICIENTS = 1000  # own and past are fractions of this
ROOM = 1e-6  # of delta is kept in reserve, so that the search from delta to epsilon succeeds
HISTOGRAM_PART = 0.05  # of the counts' mu^2 goes to the histogram
NOISE_PART = 0.999  # of delta is for the noise; the thresholds share the rest


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The public numbers of all rounds, and of the counts that follow (or None)."""

    d: int  # distinct items a unit
    scales: tuple[float, ...]  # s_k, in weights
    own: tuple[int, ...]  # what z_k counts for in round k
    past: tuple[int, ...]  # what z_k counts for in all later rounds
    thresholds: tuple[int, ...]  # T_k, in grid steps times coefficients
    counts: WeightedCounts | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.scales), len(self.own), len(self.past) + 1, len(self.thresholds)}
        if lengths != {len(self.scales)} or not 1 <= len(self.scales) <= MOST_ROUNDS:
            raise UsageError(
                f"between 1 and {MOST_ROUNDS} rounds, each with its scale, coefficients and "
                f"threshold, not {sorted(lengths)} of them"
            )
        check_thresholds("T", self.thresholds)
        if not 1 <= self.d <= MOST_ITEMS:
            raise UsageError(f"d must lie between 1 and {MOST_ITEMS}, not {self.d}")
        for scale in self.scales:
            if not LEAST_SCALE <= scale < GRID:
                raise UsageError(
                    f"a scale must lie between {LEAST_SCALE:g} and 2^20, not {scale!r}"
                )
        # Non-negative memory: a user's weight can only raise what its own items add up to.
        most = MOST_COEFFICIENT
        if not all(0 < a <= most for a in self.own) or not all(0 <= b <= most for b in self.past):
            raise UsageError(f"own coefficients lie in 1..{most}, past ones in 0..{most}")

    @property
    def rounds(self) -> int:
        return len(self.scales)

    def coefficients(self, k: int) -> list[int]:
        """What z_0 ... z_k (counted from 0) add to y_k."""
        return [*self.past[:k], self.own[k]]

    def sd(self, k: int) -> float:
        """The standard deviation of the noise in y_k, in weights times coefficients."""
        parts = zip(self.coefficients(k), self.scales, strict=False)
        return math.sqrt(math.fsum((c * s) ** 2 for c, s in parts))

    def leak(self, k: int, t: Floats, d: Floats) -> Floats:
        """An upper bound on the probability that one of t own items, of d in all, passes in round k.

        A sole survivor carries a weight of 1 in every round but the first, where it has 1/sqrt d:
        which items survive depends on the same noise, so later rounds get no credit.
        """
        c = self.coefficients(k)
        # y_k sums grid steps rounded to the nearest: up to half a step a round above its noise.
        room = self.thresholds[k] / GRID - sum(c) * 0.5 / GRID - sum(c[1:]) - c[0] / np.sqrt(d)
        return np.asarray(-np.expm1(t * log_ndtr(room / self.sd(k))))


def check_thresholds(name: str, thresholds: Sequence[int]) -> None:
    """Raises unless each threshold is a 64-bit integer with room to spare."""
    if large := [T for T in thresholds if abs(T) > MOST_THRESHOLD]:
        raise UsageError(f"{name} must lie between -2^62 and 2^62, not {large[0]}")


def delta_of_rounds(schedule: Schedule, *, epsilon: float, neighbours: str = "add-remove") -> float:
    """A valid delta(epsilon): the largest over all that one unit can hold (MR-J)."""
    return _largest_delta(_sides(schedule), epsilon=epsilon, neighbours=neighbours)


def _largest_delta(sides: tuple[Floats, Floats], *, epsilon: float, neighbours: str) -> float:
    """`delta_of_rounds` from what `_sides` gives, which does not depend on epsilon, or from the worst of it."""
    check_neighbours(neighbours)
    leaks, squares = sides
    nobody = np.zeros(1)
    if neighbours == "add-remove":
        with_it = _delta(epsilon, leaks, squares, nobody, nobody)
        without = _delta(epsilon, nobody, nobody, leaks, squares)
        return float(np.max([with_it.max(), without.max()]))  # Python's own passes over NaN
    leaks, squares = _worst(leaks, squares)
    rows = max(1, PAIRS_AT_ONCE // len(leaks))
    blocks = (slice(at, at + rows) for at in range(0, len(leaks), rows))
    deltas = [
        _delta(epsilon, leaks[b, None], squares[b, None], leaks, squares).max() for b in blocks
    ]
    return float(np.max(deltas))


def _sides(schedule: Schedule) -> tuple[Floats, Floats]:
    """(1 - psi, mu^2) for every t of d items that only this unit holds, 0 <= t <= d.

    1 - psi bounds the chance that one of the t ever shows; mu^2 is what the unit moves of the
    others' items, squared and in standard deviations.
    """
    t, d = np.divmod(np.arange((schedule.d + 1) ** 2), schedule.d + 1)
    t, d = (x[(t <= d) & (d > 0)].astype(np.float64) for x in (t, d))
    leak = np.asarray(sum(schedule.leak(k, t, d) for k in range(schedule.rounds)))
    first, *later = (1 / scale**2 for scale in schedule.scales)
    square = (1 - t / d) * first + np.where(t < d, math.fsum(later), 0.0)
    if schedule.counts is not None:
        square = square + schedule.counts.squared_shift(t, d)
    return leak, square


def _worst(leaks: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """The sides that no other side exceeds in both numbers.

    delta grows with 1 - psi and with mu^2 of either side, so the largest is at one of these.
    """
    order = np.lexsort((-squares, -leaks))  # by leak, the largest first
    leaks, squares = leaks[order], squares[order]
    before = np.concatenate([[-1.0], np.maximum.accumulate(squares)[:-1]])
    # A number that is none stays: it must not be hidden.
    frontier = ~(squares <= before) | np.isnan(leaks)
    return leaks[frontier], squares[frontier]


def _delta(
    epsilon: float, leak: Floats, square: Floats, other_leak: Floats, other_square: Floats
) -> Floats:
    """1 - psi + psi H(epsilon + ln psi' - ln psi, mu): one side against the other."""
    shape = np.broadcast_shapes(leak.shape, other_leak.shape)
    with np.errstate(divide="ignore"):
        psi = np.log1p(-np.minimum(leak, 1.0))
        other = np.log1p(-np.minimum(other_leak, 1.0))
    sure = np.broadcast_to((leak >= 1) | (other_leak >= 1), shape)  # no bound below 1
    at = epsilon + np.where(sure, 0.0, other - psi)
    mu = np.broadcast_to(np.sqrt(square + other_square), shape)
    value = leak + (1 - leak) * _hockey_sticks(at, mu)
    return np.where(sure, 1.0, np.clip(value, 0.0, 1.0))


def _hockey_sticks(epsilon: Floats, mu: Floats) -> Floats:
    """gaussian_delta for arrays."""
    nothing = -np.expm1(np.minimum(epsilon, 0.0))
    return np.where(mu == 0, nothing, _gaussian(epsilon, np.where(mu == 0, 1.0, mu)))


def epsilon_of_rounds(
    schedule: Schedule,
    *,
    delta: float,
    neighbours: str = "add-remove",
    cost: Callable[[float], float] = lambda epsilon: 0.0,
) -> float:
    """The least epsilon (rounded up) at which the schedule keeps this delta; inf if none does.

    `cost` is added to the theorem's delta at an epsilon, such as that of the sampler.
    """
    sides = _worst(*_sides(schedule))

    def excess(epsilon: float) -> float:
        proved = _largest_delta(sides, epsilon=epsilon, neighbours=neighbours)
        return proved * SAFETY + cost(epsilon) - delta

    return round_up_within(least_epsilon(excess, most=500, steps=50), excess)


def solve_rounds(
    *,
    epsilon: float,
    delta: float,
    d: int,
    shares: Sequence[float],
    memory: float,
    late: float,
    count_share: float = 0.0,
    count_per_user: int | None = None,
    neighbours: str = "add-remove",
) -> Schedule:
    """The schedule with the lowest thresholds for this split that keeps (epsilon, delta).

    `shares` are f_k, the part of mu^2 of each round; past noise counts `memory` times its
    precision; `late` of the thresholds' delta goes to the last round, the others share the rest.
    `count_share` of mu^2 goes to the counts and their histogram; `count_per_user` is d2 if it is given.
    """
    check_budget(epsilon, delta)
    check_neighbours(neighbours)
    _check_split(shares, memory, late, count_share)
    return _solve(
        epsilon, delta, d, tuple(shares), memory, late, count_share, count_per_user, neighbours
    )


def loss_of_rounds(schedule: Schedule, *, levels: int = 1, neighbours: str = "add-remove") -> Loss:
    """The cost of the schedule for joint accounting: all its noise, all its thresholds.

    `levels`: how often all rounds are run, each time on items that follow from what was published before
    (docs/explanation/mechanisms/session-tree.md). Counts come once, at the end.
    """
    c = sides(neighbours)
    leaks, _ = _sides(schedule)
    parts = [levels / scale**2 for scale in schedule.scales]
    if schedule.counts is not None:
        parts.append(float(schedule.counts.squared_shift(np.zeros(1), np.full(1, schedule.d))[0]))
    return Loss(mu=math.sqrt(c * math.fsum(parts)), keys=min(1.0, c * levels * float(leaks.max())))


@functools.lru_cache(maxsize=256)
def rounds_for_loss(
    loss: Loss,
    *,
    d: int,
    shares: tuple[float, ...],
    memory: float,
    late: float,
    count_share: float,
    count_per_user: int | None,
    neighbours: str,
) -> Schedule:
    """The schedule with the lowest thresholds that costs at most this loss; as `solve_rounds`."""
    check_neighbours(neighbours)
    _check_split(shares, memory, late, count_share)
    start = _noise_for(loss.mu, d, shares, memory, count_share, count_per_user, neighbours)
    return _with_thresholds(start, loss.keys / sides(neighbours), late)


@functools.lru_cache(maxsize=256)
def _solve(
    epsilon: float,
    delta: float,
    d: int,
    shares: tuple[float, ...],
    memory: float,
    late: float,
    count_share: float,
    count_per_user: int | None,
    neighbours: str,
) -> Schedule:
    mu = _gaussian_mu(epsilon, delta * NOISE_PART)
    start = _noise_for(mu, d, shares, memory, count_share, count_per_user, neighbours)

    def at(log_part: float) -> Schedule:
        """The schedule whose thresholds alone would cost this part of delta."""
        return _with_thresholds(start, delta * math.exp(log_part), late)

    def excess(log_part: float) -> float:
        proved = delta_of_rounds(at(log_part), epsilon=epsilon, neighbours=neighbours)
        return proved * SAFETY - delta * (1 - ROOM)

    low, high = -30.0, 0.0
    if not excess(low) <= 0:
        raise UsageError(
            f"no thresholds keep epsilon {epsilon:.4g} and delta {delta:.3g} over {len(shares)} "
            "rounds: use a larger delta"
        )
    return at(high if excess(high) <= 0 else bisect(excess, good=low, bad=high, steps=30))


def check_count_share(count_share: float) -> None:
    """Raises UsageError unless counts can have this share of the budget."""
    if not 0 <= count_share < 1:
        raise UsageError(f"--count-share must be at least 0 and below 1, not {count_share!r}")


def _check_split(shares: Sequence[float], memory: float, late: float, count_share: float) -> None:
    check_count_share(count_share)
    if not (shares and all(f > 0 for f in shares) and abs(math.fsum(shares) - 1) < 1e-9):
        raise UsageError(f"the rounds' shares must be positive and add up to 1, not {shares}")
    if not (0 <= memory <= 1 and 0 < late <= 1):
        raise UsageError(f"memory and late must lie in [0, 1], not {memory!r} and {late!r}")
    if late == 1 and len(shares) > 1:
        raise UsageError("every round needs a part of delta: late must be below 1")


def _noise_for(
    mu: float,
    d: int,
    shares: Sequence[float],
    memory: float,
    count_share: float,
    count_per_user: int | None,
    neighbours: str,
) -> Schedule:
    """A schedule whose noise costs at most mu, without thresholds yet."""
    if d < 1:
        raise UsageError(f"the bound of items a unit must be at least 1, not {d}")
    mu /= math.sqrt(sides(neighbours))  # two users' vectors are at most sqrt 2 apart
    in_set = mu * math.sqrt(1 - count_share)
    return Schedule(
        d=d,
        scales=tuple(round_up(1 / (in_set * math.sqrt(f))) for f in shares),
        own=tuple(max(1, round(COEFFICIENTS * f)) for f in shares),
        past=tuple(round(COEFFICIENTS * f * memory) for f in shares[:-1]),
        thresholds=(0,) * len(shares),
        counts=_counts_for(mu * math.sqrt(count_share), count_per_user) if count_share else None,
    )


def _counts_for(mu: float, per_user: int | None) -> WeightedCounts:
    """Counts and a histogram that cost at most mu together."""
    return WeightedCounts(
        scale=round_up(1 / (mu * math.sqrt(1 - HISTOGRAM_PART))),
        histogram_scale=round_up(1 / (mu * math.sqrt(HISTOGRAM_PART))),
        per_user=per_user,
    )


def _with_thresholds(start: Schedule, delta: float, late: float) -> Schedule:
    """The schedule with the least T_k: one of a unit's own items passes with probability delta at most.

    `late` of delta goes to the last round, the others share the rest.
    """
    t = np.arange(1, start.d + 1)
    thresholds = []
    for k in range(start.rounds):
        c = start.coefficients(k)
        last = k + 1 == start.rounds
        part = 1.0 if start.rounds == 1 else late if last else (1 - late) / (start.rounds - 1)
        over = np.array([-float(ndtri(per_item(delta * part, int(n)))) for n in t]) * start.sd(k)
        rho = sum(c[1:]) + float(np.max(c[0] / np.sqrt(t) + over))
        thresholds.append(math.ceil(GRID * rho + sum(c) / 2))
    return replace(start, thresholds=tuple(thresholds))


def _gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu at which the Gaussian mechanism keeps (epsilon, delta)."""

    def excess(mu: float) -> float:
        return gaussian_delta(epsilon=epsilon, mu=mu) * SAFETY - delta

    high = 1.0
    while excess(high) <= 0:
        high *= 2
    return bisect(excess, good=high * 1e-12, bad=high, steps=50)
