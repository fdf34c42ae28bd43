"""Invented users, generated from published numbers alone: how many, with which pairs and names.

Nothing here sees a log, so nothing costs privacy: it is post-processing. All choices are of whole
numbers with whole weights, drawn by `sampler.draw_below`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.privacy.sampler import Entropy, Integers, draw_below

Floats = npt.NDArray[np.floating[Any]]

USERS_AT_ONCE = 100_000
WEIGHT = 1 << 40  # what all weights add up to, about
ROUNDS = 12  # of fitting weights; more make no visible difference
CERTAIN = 1 << 32  # probability 1, as a whole number


def whole_sizes(noisy: Integers) -> Integers:
    """The numbers nearest to the noisy ones that could be numbers of users.

    They are whole, not negative, and add up to what the noisy ones add up to (0 if that is less),
    so the noise of empty bins adds no users.
    """
    total = max(0, int(noisy.sum()))
    if not total:
        return np.zeros(len(noisy), np.int64)
    falling = np.sort(noisy)[::-1]
    cuts = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    cut = cuts[np.flatnonzero(falling > cuts)[-1]]
    exact = np.maximum(0.0, noisy - cut)
    sizes: Integers = np.floor(exact).astype(np.int64)
    largest_rest = np.argsort(sizes - exact, kind="stable")
    sizes[largest_rest[: total - int(sizes.sum())]] += 1
    return sizes


def fit_weights(users: Integers, sizes: Integers) -> Integers:
    """Whole weights with which each pair is chosen about as often as it has users.

    `sizes[s]` users choose s + 1 different pairs each, one after another. A choice without repetition
    favours rare pairs; so the weights of frequent ones are raised. If every pair waits for an
    exponential time of rate v_i and a user takes the first s, it takes i with a probability near
    1 - exp(-v_i t_s), where t_s is the time by which s pairs have come on average.
    """
    wanted = users * (float(np.arange(1, len(sizes) + 1) @ sizes) / float(users.sum()))
    wanted = np.minimum(wanted, 0.995 * sizes.sum())
    size = np.flatnonzero(sizes)
    v = wanted / wanted.sum()
    if size.max(initial=0) > 0:
        grid = np.concatenate([[0.0], np.geomspace(v.min() / 4, 1e4 * v.max(), 600)])
        for _ in range(ROUNDS):
            times = np.array([_waiting(v, min(s + 1.0, 0.999 * len(v))) for s in size.tolist()])
            chosen = -np.expm1(-np.outer(grid, times)) @ sizes[size]
            v = np.interp(wanted, chosen, grid)
            v /= v.sum()
    weights: Integers = np.maximum(1, np.rint(v * WEIGHT)).astype(np.int64)
    return weights


def _waiting(v: Floats, s: float) -> float:
    """t with sum 1 - exp(-v t) = s; Newton's method from the left, which never overshoots."""
    t = s / float(v.sum())
    for _ in range(60):
        left = np.exp(-v * t)
        step = (s - float((1 - left).sum())) / float(v @ left)
        t += step
        if step <= 1e-9 * t:
            break
    return t


@dataclass(frozen=True, kw_only=True)
class Links:
    """Which pairs go together: the neighbours of each pair, one pair after the other."""

    begin: Integers  # of each pair: where its neighbours begin on the line of all weights
    length: Integers  # and how long they are together
    ends: Integers  # where each neighbour ends on that line
    other: Integers  # the neighbour
    chance: Integers  # of each pair, of 2^32: that the next pair is a neighbour of it

    @classmethod
    def of(
        cls, first: Integers, second: Integers, together: Integers, users: Integers, sizes: Integers
    ) -> "Links":
        """From the published number of users who hold both, for some pairs first, second.

        A user who holds a pair holds some further ones; the chance is the part of these that the
        published co-occurrences account for, on average over users.
        """
        pair = np.concatenate([first, second])
        order = np.argsort(pair, kind="stable")
        weight = np.concatenate([together, together])[order]
        length = np.bincount(
            pair, weights=np.concatenate([together, together]), minlength=len(users)
        )
        length = length.astype(np.int64)
        s = np.arange(1, len(sizes) + 1)
        further = float((s * (s - 1)) @ sizes) / max(1.0, float(s @ sizes))
        part = length / np.maximum(1e-9, users * further)
        return cls(
            begin=np.cumsum(length) - length,
            length=length,
            ends=np.cumsum(weight),
            other=np.concatenate([second, first])[order],
            chance=np.rint(np.minimum(1.0, part) * CERTAIN).astype(np.int64),
        )

    def follow(self, last: Integers, *, entropy: Entropy) -> Integers:
        """A neighbour of each of these pairs by weight; -1 by chance, or where a pair has none."""
        follows = draw_below(CERTAIN, count=len(last), entropy=entropy) < self.chance[last]
        follows &= self.length[last] > 0
        neighbours = np.full(len(last), -1, np.int64)
        at = last[follows]
        place = self.begin[at] + draw_below(self.length[at].tolist(), entropy=entropy)
        neighbours[follows] = self.other[np.searchsorted(self.ends, place, side="right")]
        return neighbours


def choose(
    weights: Integers, sizes: Integers, *, links: Links | None = None, entropy: Entropy
) -> tuple[Integers, Integers]:
    """(user, pair) of every row: sizes[s] users have s + 1 different pairs each.

    A user's pairs are chosen by weight, one after another, each among those it has not; with links
    the next one may be a neighbour of the one before.
    """
    users, pairs, users_before = [], [], 0
    user_sizes = np.repeat(np.arange(len(sizes), 0, -1), sizes[::-1])  # the largest first
    for start in range(0, len(user_sizes), USERS_AT_ONCE):
        some = user_sizes[start : start + USERS_AT_ONCE]
        chosen = _choose_pairs(weights, some, links, entropy)
        user, place = np.nonzero(np.arange(chosen.shape[1]) < some[:, None])
        users.append(user + users_before)
        pairs.append(chosen[user, place])
        users_before += len(some)
    if not users:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(users), np.concatenate(pairs)


def _choose_pairs(
    weights: Integers, sizes: Integers, links: Links | None, entropy: Entropy
) -> Integers:
    """A row of chosen pairs for each user, -1 beyond its size; sizes are falling."""
    ends = np.cumsum(weights)
    begins = ends - weights
    chosen = np.full((len(sizes), int(sizes[0])), -1, np.int64)
    for j in range(int(sizes[0])):
        n = int(np.count_nonzero(sizes > j))
        before = np.sort(chosen[:n, :j], axis=1)
        left = ends[-1] - weights[before].sum(axis=1)
        place = draw_below(left.tolist(), entropy=entropy)
        for pair in before.T:  # step over what the user has
            place += np.where(place >= begins[pair], weights[pair], 0)
        new = np.searchsorted(ends, place, side="right")
        if links is not None and j:
            linked = links.follow(chosen[:n, j - 1], entropy=entropy)
            good = (linked >= 0) & ~(before == linked[:, None]).any(axis=1)
            new = np.where(good, linked, new)
        chosen[:n, j] = new
    return chosen


def draw_bins(noisy: Integers, *, count: int, entropy: Entropy) -> Integers:
    """`count` bins by their noisy numbers, negative ones as 0; any bin if none is left."""
    weights = np.maximum(0, noisy)
    if not weights.any():
        weights = np.ones(len(noisy), np.int64)
    ends = np.cumsum(weights)
    place = draw_below(int(ends[-1]), count=count, entropy=entropy)
    return np.searchsorted(ends, place, side="right").astype(np.int64)


def names(user: Integers, *, entropy: Entropy) -> pa.Array:
    """A random name for each number, equal for equal numbers."""
    people = int(user.max(initial=-1)) + 1
    order = np.argsort(draw_below(1 << 62, count=people, entropy=entropy)) + 1
    numbers = pa.array(order[user], pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar("invented"), numbers, pa.scalar("-"))


def fault_of_users(
    table: pa.Table, *, most_rows: int, ranges: Mapping[str, tuple[int, int]]
) -> str | None:
    """What no log of invented users holds: other names, more rows a user, values out of range."""
    if not table.num_rows:
        return None
    if not pc.all(pc.match_substring_regex(table["user"], r"^invented-[0-9]+$")).as_py():
        return "holds a user whose name was not invented"
    rows = table.group_by("user").aggregate([([], "count_all")])
    if pc.max(rows["count_all"]).as_py() > most_rows:
        return f"holds a user with more than {most_rows} rows"
    for name, (least, most) in ranges.items():
        if name in table.column_names:
            limits = pc.min_max(table[name]).as_py()
            if not least <= limits["min"] <= limits["max"] <= most:
                return f"holds a {name} outside {least} to {most}"
    return None
