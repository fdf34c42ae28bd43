"""Götz, Machanavajjhala, Wang, Xiao, Gehrke 2012: ZEALOUS, with corrected parameters.

Letters are the paper's: m items a user, thresholds tau (on exact counts) and tau' (on noisy ones),
noise lam. One release has two readings: plain differential privacy, for which tau = 1 is best, and
probabilistic differential privacy (PDP), for which a larger tau lowers tau'.

Differs: noise is discrete Laplace on the integers, and T is the integer of "publish if at least T".
tau' by the paper's eq. (3) and tau by its Proposition 4 are false and not used (docs/explanation/reproduce.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import count_of
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import (
    ITEMS,
    Mechanism,
    OptionContext,
    View,
    below_sampler,
    check_bound,
    check_epsilon,
    check_noise_kind,
    fault_of_counts,
    least_count,
    tally_view,
    with_counts,
    with_noise_error,
)
from murmurlog.mechanisms.public_pools import FAKES_OPTION
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    any_of,
    check_budget,
    check_neighbours,
    delta_of_threshold,
    geometric_scale,
    noise_sd,
    per_item,
    sides,
    survival,
)
from murmurlog.privacy.sampler import Entropy, draw, sampler_delta
from murmurlog.privacy.selection_bias import Selection
from murmurlog.privacy.zealous import critical_items

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log


NOTIONS = ("dp", "pdp")
MOST_LAM = 1e4  # up to here the slack in lam covers the sampler's relative error


def _prepare_keywords(switch: bool, context: OptionContext) -> bool:
    """Raises if queries cannot be made of published keywords."""
    if context.by:
        raise UsageError("--by and --via-keywords do not go together: keywords are counted for all")
    if list(context.mechanisms)[:1] != ["keyword"]:
        raise UsageError(
            "--via-keywords needs the keyword table before all others: --tables keyword,query"
        )
    return switch


@dataclass(frozen=True, kw_only=True)
class Zealous(Mechanism):
    """Items of at least tau users whose noisy count is at least T, with that count.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a tally of at most m distinct items a unit; for PDP a public number of users.
    Drops: items of fewer than tau users, and those whose noisy count is below T.
    """

    m: Annotated[int, Letter(parameter="per_user", also=("d",))]
    lam: Annotated[float, Letter(parameter="scale", also=("b", "scale"))]
    tau: Annotated[int, Letter(parameter="first_threshold")] = 1
    T: Annotated[int, Letter(parameter="threshold", above="tau2")]
    users: Annotated[int | None, Letter(parameter="users")] = None  # a number: the PDP reading

    name: ClassVar[str] = "zealous"
    tables: ClassVar[tuple[str, ...]] = ITEMS
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="notion", help="dp, or pdp (which needs --users). Default dp."),
        Option(
            name="via_keywords",
            help="Queries made of up to 3 published keywords.",
            switch=True,
            prepare=_prepare_keywords,
        ),
        FAKES_OPTION,
    )
    settings: ClassVar[tuple[str, ...]] = ("users", "set_only")

    def __post_init__(self) -> None:
        check_letters(d=self.m, T=self.T, lam=self.lam)
        if self.tau < 1:
            raise UsageError(f"tau must be at least 1, not {self.tau}")
        if self.tau >= self.T:
            raise UsageError(f"T must be larger than tau: T is {self.T}, tau {self.tau}")
        if self.users is not None and self.users < 1:
            raise UsageError(f"the public number of users must be at least 1, not {self.users}")
        if self.users is not None and self.lam > MOST_LAM:
            raise UsageError(
                f"the PDP reading is proved for lam up to {MOST_LAM:g}, not {self.lam:g}"
            )

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From m (also d), lam, tau, tau2 ("> tau2") or T (">= T"), and users for PDP."""
        if "m" in letters:  # the paper's letter says more than the general bound
            letters = {letter: text for letter, text in letters.items() if letter != "d"}
        return super().from_letters(letters)

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`zealous-keywords` for queries with --via-keywords, else `zealous`."""
        notion = options.get("notion", "dp")
        if notion not in NOTIONS:
            raise UsageError(f"--notion must be dp or pdp, not {notion!r}")
        if options.get("via_keywords"):
            if notion == "pdp":
                raise UsageError("--via-keywords is proved for --notion dp only")
            if table == "query":
                fakes = options.get("fakes")
                return "zealous-keywords", {} if fakes is None else {"fakes": fakes}
        elif "fakes" in options:
            raise UsageError("--fakes goes with --via-keywords: without it no query is invented")
        if notion == "dp":
            return "zealous", {}
        if options.get("set_only"):
            raise UsageError(
                "--set-only and --notion pdp do not go together: probabilistic DP does not survive "
                "dropping the counts. Use --notion dp."
            )
        if options.get("users") is None:
            raise UsageError(
                "--notion pdp needs --users: its theorem takes a publicly known number (or upper "
                "bound) of users, and the log's own is private"
            )
        return "zealous", {"users": options["users"]}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        users: int | None = None,
    ) -> Self:
        """lam = c m / epsilon and the least T; with `users` delta is that of PDP."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("zealous", noise)
        check_letters(d=d)
        lam = geometric_scale(sides(neighbours) * d, epsilon)
        check_letters(lam=lam)
        if users is not None:
            return cls._solve_pdp(d, lam, delta, users)
        target = delta / SAFETY - sampler_delta(scale=lam, epsilon=epsilon)
        if target <= 0:
            raise below_sampler(delta, epsilon)
        return cls(m=d, lam=lam, T=_least_T(lam, 1, per_item(target, d)))

    @classmethod
    def _solve_pdp(cls, m: int, lam: float, delta: float, users: int) -> Self:
        """The pair (tau, T) with the least T; near lam, where the paper's optimum lies."""
        if users < 1:
            raise UsageError(f"--users must be at least 1, not {users}")
        tries = []
        for tau in range(1, 2 * math.ceil(lam) + 3):
            n = critical_items(m, tau, users)
            target = delta / SAFETY - _far_tail(n, lam)
            if target <= 0:
                raise UsageError(f"delta {delta!r} is below what the noise sampler can certify")
            # 1 - e^(-1/lam): then "not published" is no likelier without a user by more than e^(1/lam)
            p = min(per_item(target, n), -math.expm1(-1 / lam))
            tries.append(cls(m=m, lam=lam, tau=tau, T=_least_T(lam, tau, p), users=users))
        return min(tries, key=lambda mechanism: mechanism.T)

    @property
    def p(self) -> float:
        """P(an item of exactly tau users is published)."""
        return survival(noise="geometric", scale=self.lam, x=self.T - self.tau)

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """(c m / lam, delta): exact as plain DP (T1); with `users`, PDP and the plain delta too."""
        check_neighbours(neighbours)
        cost = sides(neighbours) * self.m / self.lam
        if epsilon is None and self.users is not None:
            epsilon = cost * SAFETY  # PDP needs room for the sampler's relative error
        epsilon = check_epsilon(self, epsilon, cost=cost, unit=unit)
        # Items a unit lifts from tau - 1 to tau are to T1 what new items are to a single threshold.
        exact = delta_of_threshold(
            noise="geometric",
            epsilon=epsilon,
            d=self.m,
            scale=self.lam,
            threshold=self.T - self.tau + 1,
            neighbours=neighbours,
        )
        plain = min(1.0, exact * math.sqrt(SAFETY) + sampler_delta(scale=self.lam, epsilon=epsilon))
        total, assumptions = plain, {*ALWAYS, "A1"}
        if self.users is not None:
            if unit != "user":
                raise UsageError(f"--notion pdp counts users; use --unit user, not {unit}")
            total = self._breach(epsilon, cost)
            assumptions |= {"A3"}
        return Guarantee(
            epsilon=epsilon,
            delta=total,
            unit=unit,
            neighbours=neighbours,
            notion="dp" if self.users is None else "pdp",
            assumptions=tuple(sorted(assumptions)),
            delta_dp=None if self.users is None else plain,
        )

    def _breach(self, epsilon: float, cost: float) -> float:
        """The chance that an item of exactly tau users is published, of all there can be."""
        assert self.users is not None
        if epsilon < cost * SAFETY * (1 - 1e-12):  # room for the sampler's relative error
            raise UsageError(f"{self} needs epsilon {cost * SAFETY:.12g} to be probabilistic DP")
        if self.p > -math.expm1(-1 / self.lam):
            raise UsageError(f"{self} is not probabilistic DP at any delta: T is too near tau")
        n = critical_items(self.m, self.tau, self.users)
        mass = any_of(self.p, n) * math.sqrt(SAFETY)
        return min(1.0, mass + _far_tail(n, self.lam))

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """Steps 1 and 2: at most m distinct items a user, and how many users have each."""
        return tally_view(log, view, per_user=self.m, entropy=entropy)

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) of the published items."""
        check_bound(tally, self.m)
        passing, noisy, stream = [], [], entropy.stream("select")
        for shard in tally:
            # 3. Only items of at least tau users go on.
            enough = shard.sums >= self.tau
            users, keys = shard.sums[enough], shard.keys[enough]
            # 4. One draw for each.
            counts = users + draw(
                noise="geometric", scale=self.lam, count=len(users), entropy=stream, keys=keys
            )
            # 5. and 6. Publish what passes tau'.
            passed = counts >= self.T
            passing.append(keys[passed])
            noisy.append(counts[passed])
        values, table = np.concatenate(noisy), tally.table(np.concatenate(passing))
        if self.users is not None:  # PDP: as drawn, because a correction might merge two outputs
            return with_noise_error(table, values, scale=self.lam)
        estimates = Selection("geometric", self.lam, self.T).estimates(values)
        return with_counts(
            table, estimates.users, stderr=estimates.stderr, reliable=estimates.reliable
        )

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Other counts than of users, errors too small, or PDP without the counts it is about."""
        if self.users is not None:
            if count_of(table) is None:
                return "has no counts, and probabilistic DP does not survive dropping them"
            sd = noise_sd(noise="geometric", scale=self.lam)
            return fault_of_counts(table, count="users", least_error=sd)
        least = Selection("geometric", self.lam, self.T).least_error()
        return fault_of_counts(table, count="users", least_error=least)

    def passes(self, probability: float) -> int:
        return least_count(
            lambda n: survival(noise="geometric", scale=self.lam, x=self.T - n),
            probability,
            start=self.tau,
        )

    def least_users(self) -> int | None:
        if self.users is not None:
            return self.T
        return Selection("geometric", self.lam, self.T).least_estimate()

    def parameters(self) -> dict[str, Any]:
        return {"noise": "geometric", **super().parameters()}


def _far_tail(n: int, lam: float) -> float:
    """The chance that one of n draws falls where the sampler's relative error exceeds 2^-45.

    Probabilities of single values are off by at most 2^-126; values likelier than 2^-80 are then
    right to 2^-45, which the room in lam covers up to lam = 10^4. The rest counts as a breach.
    """
    return n * (2 * lam + 2) * 2.0**-79


def _least_T(lam: float, tau: int, p: float) -> int:
    """The least T that an item of tau users passes with probability at most p."""
    guess = lam * (-math.log(p) - math.log1p(math.exp(-1 / lam)))
    T = max(tau + 1, tau + math.ceil(guess - 1e-6))
    while survival(noise="geometric", scale=lam, x=T - tau) > p:
        T += 1
    return T
