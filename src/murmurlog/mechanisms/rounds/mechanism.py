"""Weighted selection in rounds with memory (MR-J), then fresh counts of what was selected.

Each unit spreads a weight over its items instead of counting 1 for each. Items that passed, and
items that are unlikely to pass, are removed between the rounds, so that the weights of the next round
go to the items still open. Proof, line by line: docs/explanation/mechanisms/rounds-proof.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.bundle.options import Option
from murmurlog.bundle.progress import measure
from murmurlog.bundle.schema import keys_schema
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import number, whole
from murmurlog.mechanisms.protocol import (
    ITEMS,
    Mechanism,
    View,
    below_sampler,
    check_noise_kind,
    fault_of_counts,
    with_noise_error,
)
from murmurlog.privacy import ALWAYS, SAFETY, Guarantee, Loss, noise_sd
from murmurlog.privacy.rounds import (
    FULL,
    GRID,
    MOST_ROUNDS,
    Schedule,
    delta_of_rounds,
    epsilon_of_rounds,
    loss_of_rounds,
    rounds_for_loss,
    solve_rounds,
)
from murmurlog.privacy.sampler import Entropy, Integers, draw, sampler_delta

if TYPE_CHECKING:
    from murmurlog.logs.log import Log
    from murmurlog.mechanisms.rounds.streaming import Judged
    from murmurlog.mechanisms.rounds.weights import Held, Play


ROUNDS, COUNT_SHARE, COUNT_PER_USER = 4, 0.3, 40
# Tuned on generated logs of several kinds, never on the log to be released: fixed constants.
LAST_TO_FIRST = 3.5  # the last round's share of mu^2, in shares of the first
MEMORY = 0.9  # how much of their precision earlier rounds keep
LATE = 0.85  # the last round's part of the thresholds' delta
C, REACH, FOCUS = 3.0, 1.3, 0.3


@dataclass(frozen=True, kw_only=True)
class Rounds(Mechanism):
    """Items whose weight over several rounds passes a threshold; then fresh counts of them.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: at most d distinct items a unit, bounded once.  Drops: items that pass in no round.
    """

    schedule: Schedule
    C: float = math.inf  # give an item up if C standard deviations more would not bring it to ...
    reach: float = 1.0  # ... this many times what it needs in the last round
    focus: float = 1.0  # the least attention an item gets; 1: weights are equal

    tables: ClassVar[tuple[str, ...]] = ITEMS
    name: ClassVar[str] = "rounds"
    engines: ClassVar[tuple[str, ...]] = ("duckdb", "spark")
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="rounds", help="How many, up to 8. Default 4.", read=integer),
        Option(name="count_share", help="Part of the budget on counts. Default 0.3.", read=decimal),
        Option(
            name="count_per_user",
            help="Published items counted a unit. Default 40.",
            read=integer,
        ),
    )
    settings: ClassVar[tuple[str, ...]] = ("set_only",)
    usual_bound: ClassVar[int] = 100  # weights are spread, so a larger bound costs little

    def __post_init__(self) -> None:
        if math.isnan(self.C) or self.C < 0:
            raise UsageError(f"C must be at least 0, not {self.C!r}")
        if not (self.reach > 0 and math.isfinite(self.reach)):
            raise UsageError(f"reach must be a positive number, not {self.reach!r}")
        if not 1 / FULL <= self.focus <= 1:
            raise UsageError(f"focus must lie between {1 / FULL} and 1, not {self.focus!r}")

    def __str__(self) -> str:
        s = self.schedule
        parts = {
            "d": s.d,
            "s": _listed(s.scales),
            "own": _listed(s.own),
            "past": _listed(s.past),
            "T": _listed(s.thresholds),
            "C": self.C,
            "reach": self.reach,
            "focus": self.focus,
        }
        if s.count_per_user is not None:
            parts |= {"d2": s.count_per_user, "sigma": s.count_scale}
        shown = ", ".join(f"{name}={value}" for name, value in parts.items() if value != "")
        return f"rounds({shown})"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From d, C, reach, focus, d2, sigma; s, own, past, T: a number a round, joined by _."""
        left = dict(letters)
        check_noise_kind("rounds", left.pop("noise", None), "gaussian")
        scales = _numbers(left, "s")
        d2, sigma = (number(left, name, default=math.nan) for name in ("d2", "sigma"))
        made = cls(
            schedule=Schedule(
                d=whole(number(left, "d"), "d"),
                scales=scales,
                own=_wholes(left, "own", default=(1,) * len(scales)),
                past=_wholes(left, "past", default=(0,) * (len(scales) - 1)),
                thresholds=_wholes(left, "T"),
                count_per_user=None if math.isnan(d2) else whole(d2, "d2"),
                count_scale=None if math.isnan(sigma) else sigma,
            ),
            C=number(left, "C", default=math.inf),
            reach=number(left, "reach", default=1.0),
            focus=number(left, "focus", default=1.0),
        )
        if left:
            raise UsageError(
                f"rounds has no parameter {', '.join(left)}: use d, s, own, past, T, C, reach, "
                "focus, d2, sigma"
            )
        return made

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Itself; keys alone have no counts to spend on."""
        _, chosen = super().for_table(table, options)
        if options.get("set_only"):
            if given := sorted(set(chosen) - {"rounds"}):
                flag = "--" + given[0].replace("_", "-")
                raise UsageError(f"{flag} is about counts, and --set-only publishes none")
            chosen["count_share"] = 0.0
        return "rounds", chosen

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        rounds: int | None = None,
        count_share: float | None = None,
        count_per_user: int | None = None,
    ) -> Self:
        """The lowest thresholds that keep (epsilon, delta) with the constants above."""
        check_noise_kind("rounds", noise, "gaussian")
        split = _split(rounds, count_share, count_per_user)
        left = delta
        for _ in range(2):  # the cost of the sampler depends slightly on the scales and on delta
            schedule = solve_rounds(
                epsilon=epsilon, delta=left, d=d, neighbours=neighbours, **split
            )
            made = cls(schedule=schedule, C=C, reach=REACH, focus=FOCUS)
            if made.guarantee(epsilon=epsilon, neighbours=neighbours).delta <= delta:
                return made
            left = delta - 1.1 * made._sampler_cost(epsilon)
            if left <= delta / 2:
                break
        raise below_sampler(delta, epsilon)

    @classmethod
    def for_loss(
        cls,
        loss: Loss,
        *,
        d: int,
        neighbours: str = "add-remove",
        rounds: int | None = None,
        count_share: float | None = None,
        count_per_user: int | None = None,
    ) -> Self:
        """The lowest thresholds that cost at most this loss with the constants above."""
        split = _split(rounds, count_share, count_per_user)
        schedule = rounds_for_loss(loss, d=d, neighbours=neighbours, **split)
        return cls(schedule=schedule, C=C, reach=REACH, focus=FOCUS)

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """What it adds to the account of a release with other tables."""
        return loss_of_rounds(self.schedule, neighbours=neighbours)

    def bar(self) -> float:
        """The weight that an item needs in the last round."""
        s = self.schedule
        return s.thresholds[-1] / GRID / sum(s.coefficients(s.rounds - 1))

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """The proved delta at this epsilon, or the least epsilon at this delta (MR-J)."""
        if epsilon is None and delta is not None:
            epsilon = epsilon_of_rounds(
                self.schedule, delta=delta, neighbours=neighbours, cost=self._sampler_cost
            )
            if math.isinf(epsilon):
                raise UsageError(f"{self} has delta {delta!r} at no epsilon: raise T or delta")
        elif epsilon is None:
            raise UsageError("gaussian noise has no epsilon of its own: give epsilon or delta")
        proved = delta_of_rounds(self.schedule, epsilon=epsilon, neighbours=neighbours)
        return Guarantee(
            epsilon=epsilon,
            delta=min(1.0, proved * math.sqrt(SAFETY) + self._sampler_cost(epsilon)),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def _sampler_cost(self, epsilon: float) -> float:
        return sampler_delta(scale=self._largest_scale(), epsilon=epsilon)

    def _largest_scale(self) -> float:
        """The largest scale of all draws, in the integers that are drawn."""
        return max(GRID * max(self.schedule.scales), self.schedule.count_scale or 0.0)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Held:
        """At most d distinct items of each unit, fixed here once for all rounds."""
        from murmurlog.mechanisms.rounds.weights import bounded, numbered

        held = numbered(bounded(log, view, per_user=self.schedule.d, entropy=entropy))
        return replace(held, say=view.say)

    def release(self, held: Held, *, entropy: Entropy) -> pa.Table:
        """(key columns and, if there are counts, users, users_stderr, reliable)."""
        if held.per_user > self.schedule.d:
            raise Refused(
                f"the {held.kind} items are up to {held.per_user} a {held.unit}, the mechanism is "
                f"proved for {self.schedule.d}: bound the log to {self.schedule.d}"
            )
        shown = self.select(held, entropy=entropy)
        return self._table(held, shown, entropy)

    def select(self, held: Held, *, entropy: Entropy) -> Integers:
        """The published items' numbers, in order."""
        from murmurlog.mechanisms.rounds.streaming import select_streaming
        from murmurlog.mechanisms.rounds.weights import opening, weights

        if not held.dense:
            scales = [scale * GRID for scale in self.schedule.scales]
            return select_streaming(held, scales=scales, judge=self.judged, entropy=entropy)
        advance = measure(held.say, total=self.schedule.rounds, unit="rounds")
        shown = []
        play: Play | None = opening(held)
        for k, scale in enumerate(self.schedule.scales):
            if play is None:
                break
            # 1. What each unit gives to each of its items that are alive, summed exactly.
            W = weights(held, play.rows)[play.alive]
            # 2. One draw for every alive item.
            noise = draw(noise="gaussian", scale=scale * GRID, count=len(W), entropy=entropy)
            passed, play = self._step(held, play, k, W + noise)
            shown.append(passed)
            advance()
        return np.sort(np.concatenate(shown))

    def _step(self, held: Held, play: Play, k: int, z: Integers) -> tuple[Integers, Play | None]:
        """The items that pass in round k with measurements z, and the input of the next round."""
        from murmurlog.mechanisms.rounds.weights import Play, among

        found = self.judged(k, z, play.remembered)
        passed, alive = play.alive[found.passed], play.alive[found.on]
        if len(alive) == 0:
            return passed, None
        following = Play(
            rows=among(held, play.rows, alive, found.attention),
            alive=alive,
            remembered=found.remembered,
        )
        return passed, following

    def judged(self, k: int, z: Integers, remembered: Integers) -> Judged:
        """The outcome of round k for items with measurements z; each item by its own numbers alone."""
        from murmurlog.mechanisms.rounds.streaming import Judged

        s = self.schedule
        # 3. Everything known of the item, in integers; (iv) coefficients are public, >= 0.
        y = s.own[k] * z + remembered
        passed = y >= s.thresholds[k]
        # 4. Each item by its own y alone: whether it goes on, with how much attention.
        last = k + 1 == s.rounds
        on = np.zeros(len(y), bool) if last else ~passed & (y >= self._give_up(k))
        known = remembered if last else remembered + s.past[k] * z
        return Judged(
            passed=passed, on=on, attention=self._attention(k, y[on]), remembered=known[on]
        )

    def _needed(self, k: int) -> float:
        """The y_k of an item whose weight is exactly what it needs in the last round."""
        s = self.schedule
        last = s.rounds - 1
        return s.thresholds[last] * sum(s.coefficients(k)) / sum(s.coefficients(last))

    def _give_up(self, k: int) -> float:
        """Items below this y_k are given up: they are unlikely to pass."""
        if math.isinf(self.C):
            return -math.inf
        return self.reach * self._needed(k) - self.C * self.schedule.sd(k) * GRID

    def _attention(self, k: int, y: Integers) -> Integers:
        """1 ... FULL: largest for items whose outcome in the last round is most uncertain."""
        needed = self._needed(k)
        width = math.hypot(self.focus * needed, self.schedule.sd(k) * GRID)
        bell = np.exp(-0.5 * ((y - needed) / width) ** 2)
        least = max(1, round(FULL * self.focus))
        return np.asarray(np.clip(np.rint(FULL * bell), least, FULL), dtype=np.int64)

    def _table(self, held: Held, shown: Integers, entropy: Entropy) -> pa.Table:
        from murmurlog.mechanisms.rounds.streaming import count_streaming
        from murmurlog.mechanisms.rounds.weights import clipped

        listed = held.engine.keep(pa.table({"item": shown}))
        found = held.names.join(listed, "item").select("item", *held.keys)
        schema = keys_schema(held.keys).insert(0, pa.field("item", pa.int64()))
        batches = [batch.cast(schema) for batch in held.engine.batches(found)]
        table = pa.Table.from_batches(batches, schema).sort_by("item").drop_columns("item")
        s = self.schedule
        if s.count_per_user is None or s.count_scale is None:
            return table
        # 5. Fresh counts of the published items: the set is public now, so every one gets a row,
        # also where clipping left nobody.
        clip = {"per_user": s.count_per_user}
        if held.dense:
            true = clipped(held, listed, **clip)[shown]
        else:
            true = count_streaming(held, listed, shown, **clip)
        users = true + draw(
            noise="gaussian", scale=s.count_scale, count=len(shown), entropy=entropy
        )
        return with_noise_error(table, users, noise="gaussian", scale=s.count_scale)

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Counts that were not drawn, or errors too small."""
        scale = self.schedule.count_scale
        if scale is None:
            return fault_of_counts(table, count=None)
        sd = noise_sd(noise="gaussian", scale=scale)
        return fault_of_counts(table, count="users", least_error=sd)

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names; `scale` and `threshold` in steps of 1/grid."""
        s = self.schedule
        return {
            "noise": "gaussian",
            "per_user": s.d,
            "scale": self._largest_scale(),
            "threshold": s.thresholds[-1],
            "grid": GRID,
            "rounds": s.rounds,
            "scales": list(s.scales),
            "thresholds": list(s.thresholds),
            "own": list(s.own),
            "past": list(s.past),
            "give_up": None if math.isinf(self.C) else self.C,
            "reach": self.reach,
            "focus": self.focus,
            "count_per_user": s.count_per_user,
            "count_scale": s.count_scale,
        }


def _split(
    rounds: int | None, count_share: float | None, count_per_user: int | None
) -> dict[str, Any]:
    """How a budget is divided between rounds and counts; by default as the constants say."""
    R = ROUNDS if rounds is None else rounds
    if not 1 <= R <= MOST_ROUNDS:
        raise UsageError(f"--rounds must lie between 1 and {MOST_ROUNDS}, not {R}")
    shares = [LAST_TO_FIRST ** (k / max(1, R - 1)) for k in range(R)]
    return {
        "shares": tuple(share / math.fsum(shares) for share in shares),
        "memory": MEMORY,
        "late": LATE,
        "count_share": COUNT_SHARE if count_share is None else count_share,
        "count_per_user": COUNT_PER_USER if count_per_user is None else count_per_user,
    }


def _listed(values: Sequence[float]) -> str:
    return "_".join(repr(value) for value in values)


def _numbers(letters: dict[str, str], name: str) -> tuple[float, ...]:
    """The numbers of all rounds given under a name; takes it out of `letters`."""
    if name not in letters:
        raise UsageError(f"missing parameter {name}: a number for each round, joined by _")
    parts = letters.pop(name).split("_")
    return tuple(number({name: part}, name) for part in parts)


def _wholes(
    letters: dict[str, str], name: str, *, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    if name not in letters and default is not None:
        return default
    return tuple(whole(value, name) for value in _numbers(letters, name))
