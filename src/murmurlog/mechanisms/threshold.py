"""Noisy user counts over a threshold, one draw per item (T1; the core of Korolova and ZEALOUS)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import (
    ITEMS,
    Mechanism,
    View,
    below_sampler,
    check_bound,
    fault_of_counts,
    least_count,
    tally_view,
    with_counts,
)
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    Loss,
    any_of,
    delta_of_threshold,
    epsilon_of_threshold,
    pass_probability,
    per_item,
    real_threshold,
    round_up,
    sides,
    solve_integer_threshold,
    survival,
)
from murmurlog.privacy.sampler import Entropy, Integers, Keys, draw, sampler_delta
from murmurlog.privacy.selection_bias import Selection

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log
    from murmurlog.logs.partitions import Sums


NOISES = ("geometric", "gaussian")


@dataclass(frozen=True, kw_only=True)
class Threshold(Mechanism):
    """An item is published with its noisy number of users if that number is at least T.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a tally bounded to d distinct items a unit.  Drops: items whose noisy count is below T.
    """

    noise: Annotated[str, Letter(parameter="noise")] = "geometric"
    d: Annotated[int, Letter(parameter="per_user")]
    scale: Annotated[float, Letter(parameter="scale", also=("b", "sigma"))]
    T: Annotated[int, Letter(parameter="threshold", above="K")]

    name: ClassVar[str] = "threshold"
    tables: ClassVar[tuple[str, ...]] = ITEMS

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise UsageError(f"unknown noise {self.noise!r}: use {' or '.join(NOISES)}")
        check_letters(d=self.d, T=self.T, scale=self.scale)
        if self.T < 2:
            raise UsageError(f"T must be at least 2, not {self.T}: a single user would show")

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From d, scale (also b or sigma), and T ("publish if >= T") or K ("if > K")."""
        usual = {"noise": "gaussian"} if "sigma" in letters else {}
        return super().from_letters({**usual, **letters})

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
    ) -> Self:
        """The parameters with the least T that keep (epsilon, delta); by default either noise."""
        check_letters(d=d)  # the search keeps a number for each item
        solutions = []
        for name in (noise,) if noise else NOISES:
            scale, T = solve_integer_threshold(
                noise=name, epsilon=epsilon, delta=delta, d=d, neighbours=neighbours
            )
            solutions.append(cls(noise=name, d=d, scale=scale, T=T))
        best = min(solutions, key=lambda mechanism: mechanism.T)
        if best.guarantee(epsilon=epsilon, neighbours=neighbours).delta > delta:
            raise below_sampler(delta, epsilon)
        return best

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """The exact guarantee at this epsilon, or the least epsilon at this delta (T1).

        With neither, geometric noise states its pure part, epsilon = c d / scale (T2).
        """
        if epsilon is None and delta is not None:
            epsilon = self._epsilon(delta, neighbours)
        elif epsilon is None:
            if self.noise == "gaussian":
                raise UsageError("gaussian noise has no epsilon of its own: give epsilon or delta")
            epsilon = sides(neighbours) * self.d / self.scale
        exact = delta_of_threshold(
            noise=self.noise,
            epsilon=epsilon,
            d=self.d,
            scale=self.scale,
            threshold=real_threshold(self.noise, self.T),
            neighbours=neighbours,
        )
        cost = sampler_delta(scale=self.scale, epsilon=epsilon)
        return Guarantee(
            epsilon=epsilon,
            delta=min(1.0, exact * math.sqrt(SAFETY) + cost),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def _epsilon(self, delta: float, neighbours: str) -> float:
        """The least epsilon at which delta is kept, with room for rounding."""
        epsilon = epsilon_of_threshold(
            noise=self.noise,
            delta=delta * (1 - 1e-9),
            d=self.d,
            scale=self.scale,
            threshold=real_threshold(self.noise, self.T),
            neighbours=neighbours,
        )
        if math.isinf(epsilon):
            raise UsageError(f"{self} has delta {delta!r} at no epsilon: raise T or delta")
        return epsilon

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """The tally of at most d distinct items a unit."""
        return tally_view(log, view, per_user=self.d, entropy=entropy)

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) of the published items."""
        check_bound(tally, self.d)
        stream = entropy.stream("select")

        def select(shard: Sums) -> tuple[Keys, Integers]:
            # 1. One draw for every item somebody holds.
            noisy = shard.sums + draw(
                noise=self.noise, scale=self.scale, count=len(shard.sums), entropy=stream,
                keys=shard.keys,
            )  # fmt: skip
            # 2. Publish what passes.
            passed = noisy >= self.T
            return shard.keys[passed], noisy[passed]

        keys, noisy = map(np.concatenate, zip(*tally.map(select), strict=True))
        # 3. From here on only noisy values: correct the selection bias and state the error.
        estimates = self.selection().estimates(noisy)
        table = tally.table(keys)
        return with_counts(
            table, estimates.users, stderr=estimates.stderr, reliable=estimates.reliable
        )

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Other counts than of users, or errors too small."""
        return fault_of_counts(table, count="users", least_error=self.selection().least_error())

    def selection(self) -> Selection:
        """The law of the published values."""
        return Selection(self.noise, self.scale, self.T)

    def passes(self, probability: float) -> int:
        return least_count(self.pass_probability, probability)

    def pass_probability(self, n: int) -> float:
        """P(an item of n users is published)."""
        return survival(
            noise=self.noise, scale=self.scale, x=real_threshold(self.noise, self.T - n)
        )

    def least_users(self) -> int | None:
        return self.selection().least_estimate()

    @classmethod
    def for_loss(cls, loss: Loss, *, d: int, neighbours: str = "add-remove") -> Self:
        """Gaussian noise and the least T that cost at most this loss."""
        check_letters(d=d)
        c = sides(neighbours)
        scale = round_up(math.sqrt(c * d) / loss.mu)
        check_letters(scale=scale)  # beyond it, T + 1 can be the same number as T
        p = per_item(loss.keys / c, d)
        T = math.ceil(1 - scale * float(ndtri(p)) + 0.5)
        while survival(noise="gaussian", scale=scale, x=T - 1.5) > p:
            T += 1
        return cls(noise="gaussian", d=d, scale=scale, T=max(2, T))

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """What it costs beside others: d items moved by one, and the chance that one shows."""
        c = sides(neighbours)
        p = pass_probability(
            noise=self.noise, scale=self.scale, threshold=real_threshold(self.noise, self.T)
        )
        keys = min(1.0, c * any_of(p, self.d) * math.sqrt(SAFETY))
        if self.noise == "geometric":
            return Loss(keys=keys, draws=((self.scale, c * self.d),))
        return Loss(mu=math.sqrt(c * self.d) / self.scale, keys=keys)

    def needed_weight(self) -> float:
        """The count that an item needs."""
        return float(self.T)
