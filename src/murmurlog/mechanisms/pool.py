"""Noisy counts on a public pool, where keys that nobody holds are noised as well.

`Pool` is the correct pure form of the SafeLog thesis's A_Click: only keys of the pool
are counted, and delta is 0. Proof: docs/explanation/mechanisms/pool.md.

Keys that nobody holds are not drawn one by one: the number that passes is binomial, the choice of
keys uniform, and their counts follow the tail of the noise. The law is the same; it takes seconds
instead of days.

Differs: the thesis's pool is a secret sample; its urls come from the log; it filters queries below
5 users before the bound. Each of these voids the proof, so none is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import KEYS, in_order, keys_of, with_notes
from murmurlog.counting.public_sets.sets import Domain, least_threshold, unheld
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import (
    Pure,
    View,
    check_bound,
    check_noise_kind,
    fault_of_counts,
    least_count,
    tally_view,
    with_counts,
)
from murmurlog.mechanisms.public_pools import (
    FAKES,
    FAKES_OPTION,
    POOL_OPTION,
    PublicPool,
    pools_of,
    remarks_on_fakes,
)
from murmurlog.privacy import (
    check_budget,
    check_neighbours,
    geometric_scale,
    sides,
    survival,
)
from murmurlog.privacy.sampler import (
    Entropy,
    check_passers,
    draw,
    draw_passers,
    draw_tails,
    sampler_delta,
)
from murmurlog.privacy.selection_bias import Selection

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log
    from murmurlog.logs.text_keys import TextKeys


RELIABLE_FAKES = 0.05  # expected rows that nobody holds among those called reliable
TABLES = ("keyword", "query", "pair", "click")


Noisy = tuple[pa.Table, npt.NDArray[np.int64]]  # keys, and a noisy count for each


@dataclass(frozen=True, kw_only=True, eq=False)
class OnDomain:
    """The tally of a public set of keys."""

    domain: Domain
    inside: Tally  # keys of the set that somebody holds
    text_keys: TextKeys

    def __post_init__(self) -> None:
        names = self.domain.names
        if set(self.inside.keys) != set(names):
            raise Refused(f"the pool has keys {', '.join(names)}, the tally other ones")

    @classmethod
    def of(cls, log: Log, domain: Domain, inside: Tally) -> Self:
        """The set and its tally, which must hold no other key."""
        both = cls(domain=domain, inside=inside, text_keys=log.text_keys)
        # A key outside the set that is noised as if inside, or a key drawn twice, would be recognisable.
        if not all(part.all() for part in inside.bounded.results(domain.inside(log))):
            raise Refused("the tally holds keys that are not in the public pool")
        return both


def tally_inside(
    log: Log, view: View, domain: Domain, *, per_user: int, entropy: Entropy
) -> OnDomain:
    """The tally of at most so many keys of the set a unit; what is outside is dropped first."""
    if keys_of(view.kind, view.by) != domain.names:
        raise UsageError("--by and public keys do not go together: these have no such column")
    only = domain.inside(log)
    return OnDomain.of(
        log, domain, tally_view(log, view, per_user=per_user, entropy=entropy, only=only)
    )


@dataclass(frozen=True, kw_only=True)
class Pool(Pure):
    """Every key of a public pool gets a noisy count, and is published if that is at least T.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a pool of N keys fixed in public before the log (A4); at most d of them a unit.
    Drops: everything outside the pool; keys whose noisy count is below T.
    """

    d: Annotated[int, Letter(parameter="per_user")]
    b: Annotated[float, Letter(parameter="scale", also=("scale",))]
    N: Annotated[int, Letter(parameter="pool_size", exact=True)]
    T: Annotated[int, Letter(parameter="threshold")]

    name: ClassVar[str] = "pool"
    public: ClassVar[str] = "A4"
    tables: ClassVar[tuple[str, ...]] = TABLES
    options: ClassVar[tuple[Option, ...]] = (POOL_OPTION, FAKES_OPTION)

    def __post_init__(self) -> None:
        check_letters(d=self.d, b=self.b, T=self.T)
        if self.N < 1:
            raise UsageError(f"N must be at least 1, not {self.N}")
        if self.T < 1:
            raise UsageError(f"T must be at least 1, not {self.T}: a count of 0 tells nothing")
        # By public numbers, not by how many keys are held: a refusal must reveal nothing of the log.
        check_passers(scale=self.b, T=self.T, count=self.N)

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`pool`, with the size of the table's pool and the accepted number of fakes."""
        pool = _pool_of(table, options)
        fakes = options.get("fakes") if pool.fakes is None else pool.fakes
        return cls.name, {"size": pool.keys.size} | (
            {} if fakes is None else {"fakes": float(fakes)}
        )

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        size: int | None = None,
        fakes: float = FAKES,
    ) -> Self:
        """b = c d / epsilon and the least T with at most `fakes` rows that nobody holds, on average."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("pool", noise)
        if size is None:
            raise UsageError(
                "pool needs a public pool: give its file with --pool, or plan with --set d=..,b=..,N=.."
            )
        check_letters(d=d)
        b = geometric_scale(sides(neighbours) * d, epsilon)
        check_sampler(b, epsilon, delta)
        return cls(d=d, b=b, N=size, T=least_threshold(scale=b, size=size, fakes=fakes))

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> OnDomain:
        """The tally of at most d keys of the pool a unit; what is outside is dropped first."""
        domain = _domain(view, self.N)
        return tally_inside(log, view, domain, per_user=self.d, entropy=entropy)

    def release(self, gathered: OnDomain, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) of the published keys, in public order."""
        # Fails closed: noising only what was seen would show that it was seen.
        if not isinstance(gathered, OnDomain) or gathered.domain.size != self.N:
            raise Refused(f"pool is proved for the {self.N} keys of a public pool, not of a log")
        check_bound(gathered.inside, self.d)
        noisy = _noised_pool(gathered, scale=self.b, T=self.T, entropy=entropy)
        table = _with_estimates(noisy, self.selection(), pool=self.N)
        return with_notes(in_order(table), remarks_on_fakes(self.fakes()))

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """More rows than the pool has keys, other counts than of users, or errors too small."""
        if table.num_rows > self.N:
            return f"has {table.num_rows} rows of a pool of {self.N}"
        return fault_of_counts(table, count="users", least_error=self.selection().least_error())

    def selection(self) -> Selection:
        """The law of the published values."""
        return Selection("geometric", self.b, self.T)

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How many rows nobody holds."""
        return remarks_on_fakes(self.fakes())

    def fakes(self) -> float:
        """The expected number of published rows that nobody holds, at most."""
        return self.N * survival(noise="geometric", scale=self.b, x=self.T)

    def passes(self, probability: float) -> int:
        return least_count(
            lambda n: survival(noise="geometric", scale=self.b, x=self.T - n), probability, start=0
        )

    def least_users(self) -> int | None:
        return self.selection().least_estimate()

    def public_file(self) -> str | None:
        return "pool"

    def parameters(self) -> dict[str, Any]:
        return {
            "noise": "geometric",
            "per_user": self.d,
            "scale": self.b,
            "threshold": self.T,
            "pool_size": self.N,
            "expected_fakes": self.fakes(),
        }


def check_sampler(scale: float, epsilon: float, delta: float) -> None:
    """Raises if the sampler's own error exceeds delta."""
    if sampler_delta(scale=scale, epsilon=epsilon) > delta:
        raise UsageError(
            f"at epsilon {epsilon:.4g} the noise sampler cannot certify delta {delta!r}: use a "
            "smaller epsilon"
        )


def _pool_of(table: str, options: Mapping[str, Any]) -> PublicPool:
    """The one pool for a table."""
    pools = pools_of(options, table)
    if not pools:
        raise UsageError(f"pool needs a public pool for the {table} table: use --pool FILE")
    if len(pools) > 1:
        raise UsageError(f"pool takes one --pool, not {len(pools)}: rounds takes several")
    names = pools[0].keys.names
    if names != KEYS[table]:
        raise UsageError(
            f"the pool has keys {', '.join(names)}, the {table} table {', '.join(KEYS[table])}: give a "
            "pool for it, or leave it out of --tables"
        )
    return pools[0]


def _domain(view: View, N: int) -> Domain:
    """The view's pool, which must be the one that the mechanism is proved for."""
    domain = _pool_of(view.kind, view.options).keys
    if domain.size != N:
        raise UsageError(f"pool was planned for a pool of N={N} keys; it has {domain.size}")
    return domain


def _noised_pool(gathered: OnDomain, *, scale: float, T: int, entropy: Entropy) -> Noisy:
    """The keys of the pool that pass, with the same law as one draw for every key."""
    from murmurlog.logs.text_keys import NO_KEYS

    tally, domain, stream = gathered.inside, gathered.domain, entropy.stream("select")
    inside, passing, noisy = [NO_KEYS], [NO_KEYS], [np.zeros(0, np.int64)]
    for shard in tally:
        # 1. Keys that somebody holds: a draw each.
        counts = shard.sums + draw(
            noise="geometric", scale=scale, count=len(shard.sums), entropy=stream, keys=shard.keys
        )
        inside.append(shard.keys)
        passing.append(shard.keys[counts >= T])
        noisy.append(counts[counts >= T])
    # 2. The others: how many pass, which, and what they show, given that they pass.
    held_keys = np.concatenate(inside)
    count = domain.size - len(held_keys)
    fakes = draw_passers(scale=scale, T=T, count=count, entropy=entropy.stream("fakes"))
    chosen = unheld(
        domain, count=fakes, held_keys=held_keys, text_keys=gathered.text_keys,
        entropy=entropy.stream("choose fakes"),
    )  # fmt: skip
    noisy.append(
        draw_tails(scale=scale, T=T, count=fakes, entropy=entropy.stream("counts of fakes"))
    )
    keys = tally.table(np.concatenate(passing))
    both = pa.concat_tables([keys, chosen.select(list(tally.keys)).cast(keys.schema)])
    return both, np.concatenate(noisy)


def _with_estimates(noisy: Noisy, selection: Selection, *, pool: int) -> pa.Table:
    """The table of noisy values, corrected for selection bias, with their standard errors.

    In a pool of this many keys, noise alone reaches low values: those may belong to keys that nobody
    holds, and their error is the whole count.
    """
    table, values = noisy
    estimates = selection.estimates(values)
    sure = least_threshold(scale=selection.scale, size=pool, fakes=RELIABLE_FAKES)
    lower = np.maximum(estimates.stderr, estimates.users)
    stderr = np.where(values < sure, lower, estimates.stderr)
    reliable = 4 * stderr <= estimates.users
    published: pa.Table = with_counts(table, estimates.users, stderr=stderr, reliable=reliable)
    return published
