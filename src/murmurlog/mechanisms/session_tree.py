"""Sessions by prefix-tree growth: pairs of queries first, then extensions of what was published.

Each level is a selection by `rounds`, on those items of a unit whose prefix the level before published.
Proof, line by line: docs/explanation/mechanisms/session-tree.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.progress import measure
from murmurlog.bundle.schema import in_order, keys_of
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import number, whole
from murmurlog.mechanisms.protocol import ITEMS, Mechanism, View, check_noise_kind, solve_within
from murmurlog.mechanisms.rounds.mechanism import COUNT_SHARE, Rounds
from murmurlog.mechanisms.sessions import Cut, Sessions
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    Loss,
    check_budget,
    check_neighbours,
    delta_of_losses,
    least_epsilon,
    loss_of_rounds,
    mu_of,
)
from murmurlog.privacy.rounds import MOST_ITEMS, check_count_share
from murmurlog.privacy.sampler import Entropy, Keys

if TYPE_CHECKING:
    from murmurlog.logs.log import Log
    from murmurlog.mechanisms.rounds.select import Candidates

L_S, L_Q = 10, 4
KEY_SHARES = tuple(n / 20 for n in range(1, 20))  # of delta for new keys; the rest is for the noise
MOST_EPSILON = 500.0


@dataclass(frozen=True, kw_only=True)
class SessionTree(Mechanism):
    """Sessions of two queries, then longer ones that begin with a published session; fresh counts.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: at most l_s sessions a unit, cut to l_q queries before they are mined.
    Drops: what follows the first l_q queries; sessions that pass in no round of their level, or whose
    prefix was not published.
    """

    l_s: int
    l_q: int
    selection: Rounds  # what every level runs; its counts come once, after the last level

    name: ClassVar[str] = "session-tree"
    tables: ClassVar[tuple[str, ...]] = ("session",)
    ignored: ClassVar[tuple[str, ...]] = ("d",)  # the bound follows from l_s and l_q
    options: ClassVar[tuple[Option, ...]] = (*Sessions.options[:2], *Rounds.options[:3])
    settings: ClassVar[tuple[str, ...]] = ("set_only",)

    def __post_init__(self) -> None:
        d = items_a_level(self.l_s, self.l_q)
        if self.selection.schedule.d != d:
            raise UsageError(f"d must be {d} for {self.cut}, not {self.selection.schedule.d}")
        if self.selection.pools:
            raise UsageError("session-tree takes no pools: leave N and TP out")

    @property
    def cut(self) -> Cut:
        """What counts of a unit's sessions."""
        return Cut(l_s=self.l_s, l_q=self.l_q)

    @property
    def levels(self) -> int:
        return self.l_q - 1

    def __str__(self) -> str:
        _, _, of_level = str(self.selection).partition(", ")  # without the name and d
        return f"session-tree(l_s={self.l_s}, l_q={self.l_q}, {of_level}"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From l_s, l_q, and the letters of `rounds` without d."""
        left = {name: text for name, text in letters.items() if name not in cls.ignored}
        l_s = whole(number(left, "l_s", default=L_S), "l_s")
        l_q = whole(number(left, "l_q", default=L_Q), "l_q")
        selection = Rounds.from_letters({"d": str(items_a_level(l_s, l_q)), **left})
        return cls(l_s=l_s, l_q=l_q, selection=selection)

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`session-tree` for sessions, `rounds` for all other tables."""
        of_rounds = Rounds.option_names()
        name, chosen = Rounds.for_table(table, {n: options[n] for n in options if n in of_rounds})
        if table in ITEMS:
            return name, chosen
        cut = {n: options[n] for n in options if n not in of_rounds}
        return cls.name, {**cut, **chosen}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        sessions_per_user: int = L_S,
        queries_per_session: int = L_Q,
        rounds: int | None = None,
        count_share: float = COUNT_SHARE,
        count_per_user: int | None = None,
    ) -> Self:
        """The lowest thresholds that keep (epsilon, delta); d follows from the options."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind(cls.name, noise, "gaussian")

        def loss_of(part: float, share: float) -> Loss:
            mu = mu_of(epsilon, part * (1 - share) / SAFETY)
            return Loss(mu=mu, keys=part * share / SAFETY)

        solve = partial(
            cls.for_loss, d=d, neighbours=neighbours, sessions_per_user=sessions_per_user,
            queries_per_session=queries_per_session, rounds=rounds, count_share=count_share,
            count_per_user=count_per_user,
        )  # fmt: skip
        return solve_within(
            lambda part: min((solve(loss_of(part, share)) for share in KEY_SHARES), key=cls.needed_weight),
            epsilon=epsilon, delta=delta, neighbours=neighbours,
        )  # fmt: skip

    @classmethod
    def for_loss(
        cls,
        loss: Loss,
        *,
        d: int,
        neighbours: str = "add-remove",
        sessions_per_user: int = L_S,
        queries_per_session: int = L_Q,
        rounds: int | None = None,
        count_share: float = COUNT_SHARE,
        count_per_user: int | None = None,
    ) -> Self:
        """The lowest thresholds that cost at most this loss; every level gets the same share of it."""
        bound = items_a_level(sessions_per_user, queries_per_session)
        levels = queries_per_session - 1
        check_count_share(count_share)
        # One level and the counts: what `rounds` is solved for.
        part = (1 - count_share) / levels + count_share
        selection = Rounds.for_loss(
            Loss(mu=loss.mu * math.sqrt(part), keys=loss.keys / levels),
            d=bound,
            neighbours=neighbours,
            rounds=rounds,
            count_share=count_share / part,
            count_per_user=count_per_user,
        )
        return cls(l_s=sessions_per_user, l_q=queries_per_session, selection=selection)

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """The loss of all levels, however many of them have candidates, and of the counts."""
        return loss_of_rounds(self.selection.schedule, levels=self.levels, neighbours=neighbours)

    def needed_weight(self) -> float:
        """The weight that a session needs in the last round of a level."""
        return self.selection.needed_weight()

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """The proved delta at this epsilon, or the least epsilon at this delta."""
        cost = self.loss(neighbours=neighbours)

        def delta_at(epsilon: float) -> float:
            proved = delta_of_losses([cost], epsilon=epsilon) * math.sqrt(SAFETY)
            return min(1.0, proved + self.selection.sampler_cost(epsilon))

        if epsilon is None:
            if delta is None:
                raise UsageError("gaussian noise has no epsilon of its own: give epsilon or delta")
            # The cost of the sampler grows with epsilon.
            target = delta
            epsilon = least_epsilon(lambda e: delta_at(e) - target, most=MOST_EPSILON, steps=60)
            if math.isinf(epsilon):
                raise UsageError(f"{self} has delta {delta!r} at no epsilon: raise T or delta")
        return Guarantee(
            epsilon=epsilon,
            delta=delta_at(epsilon),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Candidates:
        """Every subsequence of each unit's cut sessions, fixed here once for all levels."""
        from murmurlog.counting.bound import find_and_bound
        from murmurlog.counting.subsequences import of_length
        from murmurlog.mechanisms.rounds.select import Candidates, pairs_in_bounded, weigh_first

        find, bound, mine = self.cut.steps(log, view, entropy=entropy)
        mined = log.partitions.derive(partial(find_and_bound, find=find, bound=bound, then=mine))
        pairs = mined.derive(partial(of_length, length=2))
        return Candidates(
            bounded=pairs, first=pairs.add_up(weigh_first),
            # Subsequences exist only as they were cut, so that the log has at least as many.
            counted=mined, pairs=pairs_in_bounded, in_log=False,
            kind=view.kind, keys=keys_of(view.kind), unit=view.unit, per_user=self.cut.d,
            text_keys=log.text_keys, say=view.say,
        )  # fmt: skip

    def release(self, candidates: Candidates, *, entropy: Entropy) -> pa.Table:
        """(queries and, if there are counts, users, users_stderr, reliable) of what is published."""
        if candidates.per_user > self.cut.d:
            raise Refused(
                f"the sessions have up to {candidates.per_user} subsequences a {candidates.unit}, the "
                f"mechanism is proved for {self.cut.d}: cut them to {self.cut}"
            )
        advance = measure(candidates.say, total=self.levels, unit="lengths")
        level, published = replace(candidates, say=lambda _: None), list[pa.Table]()
        for length in range(2, self.l_q + 1):
            # 1. The rounds of this level, with fresh noise.
            selected = self.selection.select(level, entropy=entropy.stream("length", length))
            published.append(level.table(selected.keys))
            if length > 2:
                level.first.close()
                level.bounded.close()
            advance()
            if length == self.l_q or not len(selected.keys):
                break
            # 2. What the next level is about: by the keys of the items and by what is public.
            level = next_level(level, length + 1, selected.keys)
        # 3. Counts of all published sessions, in public order.
        keys = in_order(pa.concat_tables(published))
        return self.selection.count(candidates, keys, entropy=entropy)

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A list that no cut session has, or wrong counts."""
        return self.cut.fault(table) or self.selection.fault(table, others)

    def parameters(self) -> dict[str, Any]:
        """Those of a level; `per_user` is the bound of one level."""
        return {
            **self.selection.parameters(),
            "levels": self.levels,
            "sessions_per_user": self.l_s,
            "queries_per_session": self.l_q,
        }


def items_a_level(l_s: int, l_q: int) -> int:
    """At most how many items of one length a unit holds."""
    Cut(l_s=l_s, l_q=l_q)  # checks them
    most = l_s * max(math.comb(l_q, n) for n in range(2, l_q + 1))
    if most > MOST_ITEMS:
        raise UsageError(
            f"{l_s} sessions of {l_q} queries have up to {most} subsequences of one length, more than "
            f"{MOST_ITEMS}: use a smaller --sessions-per-user or --queries-per-session"
        )
    return most


def next_level(candidates: Candidates, length: int, published: Keys) -> Candidates:
    """The items of this length that begin with a published one."""
    from murmurlog.counting.subsequences import of_length
    from murmurlog.logs.text_keys import KeyList
    from murmurlog.mechanisms.rounds.select import weigh_first

    prefixes = candidates.counted.share(KeyList.of(published))
    bounded = candidates.counted.derive(partial(of_length, length=length, prefixes=prefixes))
    return replace(candidates, bounded=bounded, first=bounded.add_up(weigh_first))
