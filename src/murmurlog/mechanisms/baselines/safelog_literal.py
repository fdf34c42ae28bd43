"""A_Click of SafeLog (Zhang 2017), Algorithm 1 run as printed, for comparison. It has no guarantee.

The thesis claims pure epsilon-DP by its Theorem 1. The algorithm violates it in three ways: queries
outside the pool need a delta; the filter by raw frequency comes before the limit, so one user can
change other users' counts; and urls are published from the log without noise, so a url that one user
alone clicked appears whenever its query does. `pool` and `threshold` are the correct versions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import keys_of
from murmurlog.counting.public_sets.sets import Domain
from murmurlog.errors import UsageError
from murmurlog.mechanisms.korolova import keep_published
from murmurlog.mechanisms.letters import MOST_THRESHOLD, check_letters, number, whole
from murmurlog.mechanisms.protocol import (
    Unprotected,
    View,
    check_noise_kind,
    least_count,
    with_noise_error,
)
from murmurlog.mechanisms.public_pools import POOL_OPTION, pools_of
from murmurlog.privacy import check_budget, survival, turning_point
from murmurlog.privacy.sampler import Entropy, draw

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log
    from murmurlog.logs.text_keys import TextKeys


TAU = 5  # queries with fewer rows are taken for typos and removed, before anything else
LETTERS = ("q_f", "c_f", "b", "b_q", "b_c", "K")


@dataclass(frozen=True, kw_only=True)
class SafelogLiteral(Unprotected):
    """Queries whose noisy number of rows exceeds K, with a fresh count, and every url clicked for them.

    Protects: nothing provable.  Neighbours: none.
    Needs: times (the first q_f queries and c_f clicks of a unit).
    Drops: queries of fewer than 5 rows, and those whose noisy count is at most K.
    """

    q_f: int = 10
    c_f: int = 10
    b: float = 10.0
    b_q: float = 10.0
    b_c: float = 10.0
    K: float = 10.0

    tables: ClassVar[tuple[str, ...]] = ("query", "click")
    name: ClassVar[str] = "safelog-literal"
    options: ClassVar[tuple[Option, ...]] = (POOL_OPTION,)
    waits: ClassVar[bool] = True  # clicks are of the queries that were selected
    needs_delta: ClassVar[bool] = False
    finish = staticmethod(keep_published)

    def __post_init__(self) -> None:
        check_letters(d=self.q_f, b=self.b, b_q=self.b_q, b_c=self.b_c)
        check_letters(d=self.c_f)
        if not 1 <= self.K <= MOST_THRESHOLD:
            raise UsageError(f"the threshold K must lie between 1 and 2^40, not {self.K!r}")

    def __str__(self) -> str:
        letters = ", ".join(f"{name}={_short(getattr(self, name))}" for name in LETTERS)
        return f"safelog-literal({letters})"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From q_f and c_f (d stands for both), b, b_q, b_c and K ("> K"); 10 is the default of each."""
        left = dict(letters)
        d = number(left, "d", default=10)
        q_f, c_f = (whole(number(left, name, default=d), name) for name in ("q_f", "c_f"))
        b, b_q, b_c, K = (number(left, name, default=10) for name in LETTERS[2:])
        if left:
            raise UsageError(
                f"safelog-literal has no parameter {', '.join(left)}: use {', '.join(LETTERS)}"
            )
        return cls(q_f=q_f, c_f=c_f, b=b, b_q=b_q, b_c=b_c, K=K)

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`safelog-literal`, for one of its two tables."""
        return "safelog-literal", {"of": table}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        of: str | None = None,
    ) -> Self:
        """The letters for which the thesis claims epsilon, with K at its turning point.

        There Theorem 1 is q_f/b + q_f/b_q + c_f/b_c: all three equal for both tables together; for
        one table of a release, its part of it. What is claimed is not what is true.
        """
        check_budget(epsilon, delta)
        check_noise_kind("safelog-literal", noise)
        if d < 1:
            raise UsageError(f"the bound d must be at least 1, not {d}")
        b, b_c = (2 * d / epsilon, d / epsilon) if of else (3 * d / epsilon, 3 * d / epsilon)
        return cls(q_f=d, c_f=d, b=b, b_q=b, b_c=b_c, K=max(1.0, turning_point(b)))

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Sequence[Tally]:
        """Steps 3 to 5: what is left after filter and limit, and the queries of the pool at 0."""
        from murmurlog.counting.tally import tally
        from murmurlog.mechanisms.baselines.counts import frequent_queries_only, of_published

        if view.kind == "click" and "query" not in view.published:
            raise UsageError(
                "safelog-literal publishes clicks of the queries it selects: name query beside "
                "click in --tables"
            )
        # 3. removeSensitiveData: by raw frequency, over all users and before the limit.
        clean = frequent_queries_only(log, view, TAU, count="rows")
        # 4. limitUserActivity: the first rows of each unit, with repeats.
        clicks = view.kind == "click"
        limit = self.c_f if clicks else self.q_f
        counted = tally(
            clean,
            replace(view, published={}).finder(clean),  # not only of published queries
            view.bound(clean, per_user=limit, count="rows", entropy=entropy),
            # Urls bare from the log, of the queries that were selected.
            then=of_published(log, view) if clicks else None,
            kind=view.kind,
            keys=keys_of(view.kind, view.by),
            per_user=limit,
            count="rows",
        )
        pools = () if clicks else pools_of(view.options, "query")
        # 5. Q+ = Q_clean + Q_p, the pool with frequency 0.
        return (counted, *(_unheld(counted, pool.keys, log.text_keys) for pool in pools[:1]))

    def release(self, tallies: Sequence[Tally], /, *, entropy: Entropy) -> pa.Table:
        """Steps 6 and 7: (key columns, rows, rows_stderr, reliable)."""
        selecting, counting = entropy.stream("select"), entropy.stream("count")
        tables = []
        for tally in tallies:
            scale = self.b_c if "url" in tally.keys else self.b_q
            selected, noisy = [], []
            for shard in tally:
                keys, rows = shard.keys, shard.sums
                # Differs: Lap(b) is drawn on the integers; on floats, digits alone give counts away.
                if "url" not in tally.keys:
                    # 6. selectFinalQuerySet: M(q, Q+) + Lap(b) > K.
                    first = draw(
                        noise="geometric", scale=self.b, count=len(rows), entropy=selecting,
                        keys=keys,
                    )  # fmt: skip
                    chosen = rows + first > self.K
                    keys, rows = keys[chosen], rows[chosen]
                # 7. generateLogStats: fresh noise; every clicked url gets a row.
                noise = draw(
                    noise="geometric", scale=scale, count=len(rows), entropy=counting, keys=keys
                )
                selected.append(keys)
                noisy.append(rows + noise)
            table = tally.table(np.concatenate(selected))
            tables.append(with_noise_error(table, np.concatenate(noisy), scale=scale, count="rows"))
        return pa.concat_tables(tables)

    def passes(self, probability: float) -> int:
        """The least number of rows at which a query is selected with at least this probability."""
        return least_count(self.pass_probability, probability, start=TAU)

    def pass_probability(self, n: int) -> float:
        """P(n + noise > K)."""
        return survival(noise="geometric", scale=self.b, x=math.floor(self.K) + 1 - n)

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, and the epsilon that the thesis claims for them."""
        # Theorem 1 with p_g = 1; u/(2 - u) is its 1/(2 e^((K-1)/b) - 1) without the overflow.
        u = math.exp(-(self.K - 1) / self.b)
        query = self.q_f * max(1 / self.b, math.log1p(u / (2 - u))) + self.q_f / self.b_q
        click = self.c_f / self.b_c
        return {
            "noise": "geometric",
            "per_user": self.q_f,
            "clicks_per_user": self.c_f,
            "scale": self.b,
            "count_scale": self.b_q,
            "click_scale": self.b_c,
            "threshold": math.floor(self.K) + 1,
            "count": "rows",
            "filter": TAU,
            "epsilon_thesis": query + click,
            "epsilon_thesis_query": query,
            "epsilon_thesis_click": click,
        }


def _unheld(counted: Tally, pool: Domain, text_keys: TextKeys) -> Tally:
    """The queries of the pool that the tally does not hold, with 0 rows."""
    from murmurlog.counting.tally import SingleShard, with_candidates
    from murmurlog.logs.partitions import Sums

    if pool.names != ("query",):
        raise UsageError(f"the pool must hold queries, but holds {', '.join(pool.names)}")
    candidates = with_candidates(counted, pool.keys(np.arange(pool.size)), text_keys)
    (shard,), public = candidates, candidates.public
    assert public is not None
    new = shard.sums == 0
    shards = SingleShard(Sums(shard.keys[new], shard.sums[new]))
    return replace(candidates, shards=shards, public=public.filter(pa.array(new)))


def _short(value: float) -> str:
    """10 for 10.0, as people write it."""
    return str(int(value)) if value == int(value) else repr(value)
