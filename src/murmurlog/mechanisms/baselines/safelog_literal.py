"""A_Click of SafeLog (Zhang 2017), Algorithm 1 run as printed, for comparison. It has no guarantee.

The thesis claims pure epsilon-DP by its Theorem 1. The algorithm violates it in three ways: queries
outside the pool need a delta; the filter by raw frequency comes before the limit, so one user can
change other users' counts; and urls are published from the log without noise, so a url that one user
alone clicked appears whenever its query does. `pool` and `threshold` are the correct versions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import count_columns, keys_of, keys_schema
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
        """Itself, for one of the two tables."""
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

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """Steps 3 to 5: what is left after filter and limit; queries with the pool at 0."""
        from murmurlog.counting.bound import bound
        from murmurlog.counting.tally import tally

        if view.kind == "click" and "query" not in view.published:
            raise UsageError(
                "safelog-literal publishes clicks of the queries it selects: name query beside "
                "click in --tables"
            )
        # 3. removeSensitiveData: by raw frequency, over all users and before the limit.
        clean = log.only(_frequent(log, view))
        # 4. limitUserActivity: the first rows of each unit, with repeats.
        limit = self.c_f if view.kind == "click" else self.q_f
        every = replace(view, published={}).items(clean)  # not only of published queries
        kept = bound(every, per_user=limit, way=view.way, count="rows", entropy=entropy)
        counted = tally(kept)
        if view.kind == "click":  # urls bare from the log, of the queries that were selected
            chosen = log.engine.keep(view.published["query"].select(keys_of("query", view.by)))
            rows = counted.table.semi_join(chosen, list(keys_of("query", view.by)))
            return replace(counted, table=log.engine.materialise(rows))
        # 5. Q+ = Q_clean + Q_p, the pool with frequency 0.
        pools = pools_of(view.options, "query")
        return _with_pool(counted, pools[0].keys) if pools else counted

    def release(self, tally: Tally, /, *, entropy: Entropy) -> pa.Table:
        """Steps 6 and 7: (key columns, rows, rows_stderr, reliable)."""
        kept, selecting, counting = [], entropy.stream("select"), entropy.stream("count")
        for batch in tally.batches():
            rows = batch.column("rows").to_numpy(zero_copy_only=False)
            keys, scale = batch.select(list(tally.keys)), self.b_c
            # Differs: Lap(b) is drawn on the integers; on floats, digits alone give counts away.
            if "url" not in tally.keys:
                # 6. selectFinalQuerySet: M(q, Q+) + Lap(b) > K.
                first = draw(
                    noise="geometric", scale=self.b, count=len(rows), entropy=selecting,
                    keys=tally.item_keys(batch, selecting),
                )  # fmt: skip
                chosen = rows + first > self.K
                keys, rows, scale = keys.filter(pa.array(chosen)), rows[chosen], self.b_q
            # 7. generateLogStats: fresh noise; every clicked url gets a row.
            noise = draw(
                noise="geometric", scale=scale, count=len(rows), entropy=counting,
                keys=tally.item_keys(keys, counting),
            )  # fmt: skip
            kept.append(with_noise_error(keys, rows + noise, scale=scale, count="rows"))
        columns = (pa.field(*column) for column in count_columns("rows").items())
        return pa.Table.from_batches(kept, pa.schema([*keys_schema(tally.keys), *columns]))

    def passes(self, probability: float) -> int:
        """The least number of rows at which a query is selected with at least this probability."""
        return least_count(self.selected, probability, start=TAU)

    def selected(self, n: int) -> float:
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

    @staticmethod
    def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Only clicks of published queries."""
        return keep_published(tables)


def _frequent(log: Log, view: View) -> Any:
    """The rows of the log whose query has at least TAU rows."""
    keys = list(keys_of("query", view.by))
    asked = log.table.group_by(keys).aggregate(rows=log.table.count())
    return log.table.semi_join(asked.filter(asked.rows >= TAU), keys)


def _with_pool(counted: Tally, pool: Domain) -> Tally:
    """The tally and, with 0 rows, the queries of the pool that it does not hold."""
    import ibis

    if pool.names != ("query",):
        raise UsageError(f"the pool must hold queries, but holds {', '.join(pool.names)}")
    listed = counted.engine.keep(pool.keys(np.arange(pool.size)))
    new = listed.anti_join(counted.table, "query").mutate(rows=ibis.literal(0, "int64"))
    together = ibis.union(counted.table.select("query", "rows"), new.select("query", "rows"))
    return replace(counted, table=counted.engine.materialise(together))


def _short(value: float) -> str:
    """10 for 10.0, as people write it."""
    return str(int(value)) if value == int(value) else repr(value)
