"""Weighted selection in rounds with memory (MR-J), then fresh counts of what was selected.

Each unit spreads a weight over its items instead of counting 1 for each. Items that passed, and
items that are unlikely to pass, are removed between the rounds, so that the weights of the next round
go to the items still open. Proof, line by line: docs/explanation/mechanisms/rounds-proof.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import in_order, keys_schema, with_notes
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import number
from murmurlog.mechanisms.protocol import (
    ITEMS,
    Mechanism,
    View,
    check_noise_kind,
    fault_of_counts,
    solve_within,
)
from murmurlog.mechanisms.public_pools import (
    FAKES,
    FAKES_OPTION,
    POOL_OPTION,
    pools_of,
    remarks_on_fakes,
)
from murmurlog.mechanisms.rounds.pools import (
    PoolKeys,
    check_pools,
    check_proposals,
    pass_unheld,
    pool_keys,
)
from murmurlog.mechanisms.rounds.text import check_limits, letters_of, pools_from, schedule_from
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    Loss,
)
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.noise_laws import Floats
from murmurlog.privacy.rounds import (
    FULL,
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
    from murmurlog.mechanisms.rounds.select import Candidates, Outcome, Selected


Pools = Sequence[tuple[int, float]]  # of each pool: how many keys, and the fakes that are accepted

ROUNDS, ROUNDS_WITH_POOL, COUNT_SHARE = 4, 8, 0.3
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
    # An item is given up if C standard deviations more would not bring it to `reach` times what it needs
    # in the last round.
    C: float = math.inf
    reach: float = 1.0
    focus: float = 1.0  # the least attention an item gets; 1: weights are equal
    pools: tuple[PoolKeys, ...] = ()  # classes of public keys, with thresholds of their own

    tables: ClassVar[tuple[str, ...]] = ITEMS
    name: ClassVar[str] = "rounds"
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="rounds", help="How many, up to 8. Default 4.", read=integer),
        Option(name="count_share", help="Part of the budget on counts. Default 0.3.", read=decimal),
        Option(
            name="count_per_user",
            help="Published items of a unit that count in full. Default: by a noisy histogram.",
            read=integer,
        ),
        POOL_OPTION,
        FAKES_OPTION,
    )
    settings: ClassVar[tuple[str, ...]] = ("set_only",)
    takes_windows: ClassVar[bool] = True
    takes_earlier: ClassVar[bool] = True
    usual_bound: ClassVar[int] = 100  # weights are spread, so a larger bound costs little

    def __post_init__(self) -> None:
        check_limits(self.schedule, {"C": self.C, "reach": self.reach, "focus": self.focus})
        if any(len(pool.thresholds) != self.schedule.rounds for pool in self.pools):
            raise UsageError(f"a pool needs a threshold for each of {self.schedule.rounds} rounds")
        for pool in self.pools:  # by public numbers: a refusal must not depend on who holds what
            check_proposals(self.schedule, pool)

    def __str__(self) -> str:
        limits = {"C": self.C, "reach": self.reach, "focus": self.focus}
        parts = letters_of(self.schedule, limits, self.pools)
        text = ", ".join(f"{name}={value}" for name, value in parts.items() if value != "")
        return f"rounds({text})"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From d, C, reach, focus, sigma1, sigma_h, d2; s, own, past, T: a number a round, joined by _."""
        left = dict(letters)
        check_noise_kind("rounds", left.pop("noise", None), "gaussian")
        schedule = schedule_from(left)
        mechanism = cls(
            schedule=schedule,
            C=number(left, "C", default=math.inf),
            reach=number(left, "reach", default=1.0),
            focus=number(left, "focus", default=1.0),
            pools=pools_from(left, schedule.rounds),
        )
        if left:
            raise UsageError(
                f"rounds has no parameter {', '.join(left)}: use d, s, own, past, T, C, reach, "
                "focus, sigma1, sigma_h, d2, N, TP"
            )
        return mechanism

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`rounds`, with the sizes of the table's pools; with --set-only no budget goes to counts."""
        _, chosen = super().for_table(table, options)
        chosen.pop("pool", None)
        usual = chosen.pop("fakes", None)
        if pools := pools_of(options, table):
            usual = FAKES if usual is None else usual
            fakes = [usual if p.fakes is None else p.fakes for p in pools]
            chosen["pools"] = tuple((p.keys.size, F) for p, F in zip(pools, fakes, strict=True))
        elif usual is not None and not options.get("pool"):
            raise UsageError("--fakes is about a pool: use --pool FILE")
        if options.get("set_only"):
            if about := sorted(set(chosen) - {"rounds", "pools"}):
                flag = "--" + about[0].replace("_", "-")
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
        pools: Pools = (),
    ) -> Self:
        """The lowest thresholds that keep (epsilon, delta) with the constants above.

        `pools` are the sizes of public sets of keys, each with the fakes that are accepted of it.
        """
        check_noise_kind("rounds", noise, "gaussian")
        split = _split(rounds, count_share, count_per_user, pools)
        return solve_within(
            lambda part: cls._of_schedule(
                solve_rounds(epsilon=epsilon, delta=part, d=d, neighbours=neighbours, **split),
                pools,
            ),
            epsilon=epsilon, delta=delta, neighbours=neighbours,
        )  # fmt: skip

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
        pools: Pools = (),
    ) -> Self:
        """The lowest thresholds that cost at most this loss with the constants above."""
        split = _split(rounds, count_share, count_per_user, pools)
        return cls._of_schedule(rounds_for_loss(loss, d=d, neighbours=neighbours, **split), pools)

    @classmethod
    def _of_schedule(cls, schedule: Schedule, pools: Pools) -> Self:
        """The mechanism with this schedule, the constants above, and the thresholds of pools."""
        classes = tuple(pool_keys(schedule, size=N, fakes=F, late=LATE) for N, F in pools)
        return cls(schedule=schedule, C=C, reach=REACH, focus=FOCUS, pools=classes)

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """What it adds to the account of a release with other tables."""
        return loss_of_rounds(self.schedule, neighbours=neighbours)

    def needed_weight(self, pool: int = 0) -> float:
        """The weight that an item needs in the last round; of a pool, a key of it."""
        s = self.schedule
        return float(self._thresholds[-1][pool]) / GRID / sum(s.coefficients(s.rounds - 1))

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
                self.schedule, delta=delta, neighbours=neighbours, cost=self.sampler_cost
            )
            if math.isinf(epsilon):
                raise UsageError(f"{self} has delta {delta!r} at no epsilon: raise T or delta")
        elif epsilon is None:
            raise UsageError("gaussian noise has no epsilon of its own: give epsilon or delta")
        proved = delta_of_rounds(self.schedule, epsilon=epsilon, neighbours=neighbours)
        return Guarantee(
            epsilon=epsilon,
            delta=min(1.0, proved * math.sqrt(SAFETY) + self.sampler_cost(epsilon)),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1", *(("A4",) if self.pools else ())))),
        )

    def sampler_cost(self, epsilon: float) -> float:
        """What the sampler's own error adds to delta at this epsilon."""
        return sampler_delta(scale=self._largest_scale(), epsilon=epsilon)

    def _largest_scale(self) -> float:
        """The largest scale of all draws, in the integers that are drawn."""
        counts = self.schedule.counts
        return max(GRID * max(self.schedule.scales), counts.largest_scale if counts else 0.0)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Candidates:
        """At most d distinct items of each unit, fixed here once for all rounds."""
        from murmurlog.mechanisms.rounds.select import candidates_of

        pools = tuple(p.keys for p in pools_of(view.options, view.kind)) if self.pools else ()
        check_pools(self.pools, pools)  # here, too: before anything is booked
        return candidates_of(log, view, per_user=self.schedule.d, pools=pools, entropy=entropy)

    def release(self, candidates: Candidates, *, entropy: Entropy) -> pa.Table:
        """(key columns and, if there are counts, users, users_stderr, reliable)."""
        if candidates.per_user > self.schedule.d:
            raise Refused(
                f"the {candidates.kind} items are up to {candidates.per_user} a {candidates.unit}, the "
                f"mechanism is proved for {self.schedule.d}: bound the log to {self.schedule.d}"
            )
        check_pools(self.pools, candidates.pools)
        selected = self.select(candidates, entropy=entropy)
        tables = [candidates.table(selected.keys)]
        tables += self._unheld(candidates, selected, entropy)
        if candidates.earlier is not None:
            tables.append(candidates.earlier.cast(tables[0].schema))
        # In public order: the last bits of the estimates depend on it, and must not tell who is held.
        keys = in_order(pa.concat_tables(tables))
        return with_notes(self.count(candidates, keys, entropy=entropy), self._remarks())

    def count(self, candidates: Candidates, keys: pa.Table, *, entropy: Entropy) -> pa.Table:
        """5. Fresh counts: the set is public now, so every key gets a row, also if nobody holds it."""
        from murmurlog.mechanisms.rounds.count import count_users, find_holders, with_users

        if self.schedule.counts is None:
            return keys
        noise = functools.partial(_draw_noise, entropy.stream("count"))
        counted = count_users(find_holders(candidates, keys), self.schedule.counts, noise)
        return with_users(keys, counted, in_log=candidates.in_log)

    def _unheld(
        self, candidates: Candidates, selected: Selected, entropy: Entropy
    ) -> list[pa.Table]:
        """Keys of the pools that nobody holds and that pass: for each pool, how many and which."""
        from murmurlog.counting.public_sets.sets import unheld

        chosen = []
        for n, (pool, domain, keys) in enumerate(
            zip(self.pools, candidates.pools, selected.held_keys, strict=True), 1
        ):

            def decide(k: int, z: Integers, remembered: Integers, n: int = n) -> Outcome:
                return self.decide(k, z, remembered, n)

            fakes = entropy.stream("fakes", n)
            count = domain.size - len(keys)
            many = pass_unheld(self.schedule, pool, decide, count=count, entropy=fakes)
            table = unheld(
                domain, count=many, held_keys=keys, text_keys=candidates.text_keys,
                entropy=entropy.stream("choose fakes", n),
            )  # fmt: skip
            chosen.append(table.select(list(candidates.keys)).cast(keys_schema(candidates.keys)))
        return chosen

    def fakes(self) -> float:
        """At most how many published rows nobody holds, on average."""
        return math.fsum(pool.fakes(self.schedule) for pool in self.pools)

    def _remarks(self) -> dict[str, Any]:
        return remarks_on_fakes(self.fakes()) if self.pools else {}

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How many rows nobody holds."""
        return self._remarks()

    def select(self, candidates: Candidates, *, entropy: Entropy) -> Selected:
        """The published items."""
        from murmurlog.mechanisms.rounds.select import select

        scales = [scale * GRID for scale in self.schedule.scales]
        return select(candidates, scales=scales, decide=self.decide, entropy=entropy)

    def decide(
        self, k: int, z: Integers, remembered: Integers, pool: Integers | int = 0
    ) -> Outcome:
        """The outcome of round k for items with measurements z; each item by its own numbers alone.

        `pool` is the number of each item's pool, or of all items'; 0: outside of pools.
        """
        from murmurlog.mechanisms.rounds.select import Outcome

        s, pool = self.schedule, np.broadcast_to(pool, len(z))
        # 3. Everything known of the item, in integers; (iv) coefficients are public, >= 0.
        y = s.own[k] * z + remembered
        passed = y >= self._thresholds[k][pool]
        # 4. Each item by its own y alone: whether it goes on, with how much attention.
        last = k + 1 == s.rounds
        goes_on = (
            np.zeros(len(y), bool) if last else ~passed & (y >= self._give_up_threshold(k)[pool])
        )
        total = remembered if last else remembered + s.past[k] * z
        return Outcome(
            passed=passed,
            goes_on=goes_on,
            attention=self._attention(k, y[goes_on], pool[goes_on]),
            remembered=total[goes_on],
        )

    @functools.cached_property
    def _thresholds(self) -> Integers:
        """T of each round for items outside of pools, then for each pool."""
        classes = (self.schedule.thresholds, *(pool.thresholds for pool in self.pools))
        return np.array(classes, np.int64).T

    def _target(self, k: int) -> Floats:
        """The y_k of an item whose weight is exactly what it needs in the last round."""
        s = self.schedule
        last = s.rounds - 1
        threshold = self._thresholds[last].astype(
            np.float64
        )  # a product of integers could overflow
        return np.asarray(threshold * sum(s.coefficients(k)) / sum(s.coefficients(last)))

    def _give_up_threshold(self, k: int) -> Floats:
        """The y_k below which an item is given up, as it is unlikely to pass."""
        if math.isinf(self.C):
            return np.full(1 + len(self.pools), -math.inf)
        return self.reach * self._target(k) - self.C * self.schedule.sd(k) * GRID

    def _attention(self, k: int, y: Integers, pool: Integers) -> Integers:
        """1 ... FULL: largest for items whose outcome in the last round is most uncertain."""
        target = self._target(k)[pool]
        width = np.hypot(self.focus * target, self.schedule.sd(k) * GRID)
        bell = np.exp(-0.5 * ((y - target) / width) ** 2)
        least = max(1, round(FULL * self.focus))
        return np.asarray(np.clip(np.rint(FULL * bell), least, FULL), dtype=np.int64)

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Counts that were not drawn, or errors too small."""
        counts = self.schedule.counts
        if counts is None:
            return fault_of_counts(table, count=None)
        # Drawn in steps of 2^-20: rounding adds nothing.
        return fault_of_counts(table, count="users", least_error=counts.least_noise)

    def public_file(self) -> str | None:
        return "pool" if self.pools else None

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names; `scale` and `threshold` in steps of 1/grid."""
        s = self.schedule
        counts: dict[str, Any] = {"count_per_user": None, "count_scale": None}
        if s.counts is not None:
            counts = {
                "count_per_user": s.counts.per_user,
                "count_scale": s.counts.scale,
                "histogram_scale": s.counts.histogram_scale,
            }
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
            **counts,
            **({} if not self.pools else self._pool_parameters()),
        }

    def _pool_parameters(self) -> dict[str, Any]:
        return {
            "pool_sizes": [pool.size for pool in self.pools],
            "pool_thresholds": [list(pool.thresholds) for pool in self.pools],
            "expected_fakes": self.fakes(),
        }


def _split(
    rounds: int | None, count_share: float | None, count_per_user: int | None, pools: Pools
) -> dict[str, Any]:
    """How a budget is divided between rounds and counts; by default as the constants say."""
    R = rounds if rounds is not None else ROUNDS_WITH_POOL if pools else ROUNDS
    if not 1 <= R <= MOST_ROUNDS:
        raise UsageError(f"--rounds must lie between 1 and {MOST_ROUNDS}, not {R}")
    shares = [LAST_TO_FIRST ** (k / max(1, R - 1)) for k in range(R)]
    return {
        "shares": tuple(share / math.fsum(shares) for share in shares),
        "memory": MEMORY,
        "late": LATE,
        "count_share": COUNT_SHARE if count_share is None else count_share,
        "count_per_user": count_per_user,
    }


def _draw_noise(entropy: Entropy, scale: float, count: int) -> Integers:
    return draw(noise="gaussian", scale=scale, count=count, entropy=entropy)
