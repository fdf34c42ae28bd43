"""What a release leaves out, measured privately: searches and queries by length and click.

After the query table is published, the query of every search in the log is either published or
not. Both kinds are counted in a few public bins, for a bounded number of searches a unit, with
Gaussian noise: the bins are public, so only the noise costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import KEYS, LEFT_OUT_MARGIN, count_of, schema, with_notes
from murmurlog.counting.public_sets.labels import LENGTHS
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import (
    Mechanism,
    View,
    below_sampler,
    fault_of_counts,
    with_noise_error,
)
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    Loss,
    check_budget,
    check_neighbours,
    gaussian_delta,
    least_epsilon,
    mu_of,
    noise_sd,
    round_up,
    sides,
)
from murmurlog.privacy.sampler import Entropy, draw, sampler_delta

if TYPE_CHECKING:
    from murmurlog.logs.log import Log


PUBLISHED, LEFT_OUT, QUERIES = "searches published", "searches left out", "queries left out"
BINS = tuple(
    (what, words, clicked)
    for what in (PUBLISHED, LEFT_OUT, QUERIES)
    for words in LENGTHS
    for clicked in ("yes", "no")
)


@dataclass(frozen=True, kw_only=True)
class LeftOut(Mechanism):
    """Noisy numbers of searches that are and are not of published queries, and of such queries.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: the query table of the same release.  Drops: a unit's searches after its first d.
    """

    d: Annotated[int, Letter(parameter="per_user")]
    sigma: Annotated[float, Letter(parameter="scale", also=("scale",))]

    name: ClassVar[str] = "left-out"
    chosen_by: ClassVar[str] = "--tables query,left_out"
    tables: ClassVar[tuple[str, ...]] = ("left_out",)
    waits: ClassVar[bool] = True
    waits_for: ClassVar[str] = "query"
    takes_earlier: ClassVar[bool] = True  # it counts by whatever is published
    ignored: ClassVar[tuple[str, ...]] = ("noise",)  # it is always Gaussian

    def __post_init__(self) -> None:
        check_letters(d=self.d, sigma=self.sigma)

    @classmethod
    def for_loss(cls, loss: Loss, *, d: int, neighbours: str = "add-remove") -> Self:
        """The noise that costs at most this mu; there are no keys to pay for."""
        check_letters(d=d)
        return cls(d=d, sigma=round_up(_sensitivity(d, neighbours) / loss.mu))

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
        """The least noise that keeps (epsilon, delta)."""
        check_budget(epsilon, delta)
        target = delta / SAFETY - sampler_delta(scale=2.0**40, epsilon=epsilon)
        if target <= 0:
            raise below_sampler(delta, epsilon)
        mu = mu_of(epsilon=epsilon, delta=target)
        return cls.for_loss(Loss(mu=mu, keys=0.0), d=d, neighbours=neighbours)

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """The loss of the noise: no keys are selected."""
        return Loss(mu=_sensitivity(self.d, neighbours) / self.sigma, keys=0.0)

    def needed_weight(self) -> float:
        """Its noise: nothing is selected."""
        return self.sigma

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """That of the Gaussian mechanism, at this epsilon or at this delta."""
        mu = self.loss(neighbours=neighbours).mu
        if epsilon is None:
            if delta is None:
                raise UsageError("gaussian noise has no epsilon of its own: give epsilon or delta")
            target = delta / SAFETY
            epsilon = least_epsilon(
                lambda e: gaussian_delta(epsilon=e, mu=mu) - target, most=2.0**1000, steps=100
            )
        exact = gaussian_delta(epsilon=epsilon, mu=mu) * math.sqrt(SAFETY)
        return Guarantee(
            epsilon=float(epsilon),
            delta=min(1.0, exact + sampler_delta(scale=self.sigma, epsilon=epsilon)),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> dict[tuple[str, str, str], int]:
        """The exact number in each bin, of a unit's first d searches."""
        from murmurlog.counting.bound import Bound
        from murmurlog.counting.searches import (
            count_queries,
            count_rows,
            first_searches,
            sum_queries,
        )
        from murmurlog.logs.text_keys import KeyList

        queries = KeyList.of(log.text_keys.columns([view.published["query"]["query"]]))
        published = log.partitions.share(queries)
        bound = Bound(per_unit=self.d, count="rows")
        searches = log.partitions.derive(partial(first_searches, bound=bound, published=published))
        shards = searches.add_up(sum_queries)
        row_counts = np.sum([*searches.results(count_rows)], axis=0)
        query_counts = np.sum([count_queries(shard) for shard in shards], axis=0)
        shards.close()
        searches.close()
        counts = [*row_counts.tolist(), *query_counts.tolist()]
        return {key: number for key, number in zip(BINS, counts, strict=True) if number}

    def release(self, gathered: dict[tuple[str, str, str], int], *, entropy: Entropy) -> pa.Table:
        """(what, words, clicked, rows, ...) of every bin there is, also empty ones."""
        noise = draw(
            noise="gaussian", scale=self.sigma, count=len(BINS), entropy=entropy.stream("count")
        )
        true = np.array([gathered.get(key, 0) for key in BINS], np.int64)
        noisy = true + noise
        columns = [pa.array(column, pa.string()) for column in zip(*BINS, strict=True)]
        keys = pa.table(columns, names=list(KEYS["left_out"]))
        table = with_noise_error(keys, noisy, noise="gaussian", scale=self.sigma, count="rows")
        sd = noise_sd(noise="gaussian", scale=self.sigma)
        return with_notes(table.cast(schema("left_out", count="rows")), _remarks(noisy, sd))

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Other bins than there are, or no query table that anything is left out of."""
        if "query" not in others:
            return "there is no query table that its searches could be left out of"
        keys = {tuple(row[name] for name in KEYS["left_out"]) for row in table.to_pylist()}
        if keys != set(BINS):
            return "has other rows than the public bins"
        sd = noise_sd(noise="gaussian", scale=self.sigma)
        return fault_of_counts(table, count="rows", least_error=sd)

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How much is left out; None where the counts were dropped."""
        if count_of(table) != "rows":
            return None
        keys = zip(*(table[name].to_pylist() for name in KEYS["left_out"]), strict=True)
        noisy = dict(zip(keys, table["rows"].to_pylist(), strict=True))
        sd = noise_sd(noise="gaussian", scale=self.sigma)
        return _remarks([noisy[key] for key in BINS], sd)

    def parameters(self) -> dict[str, Any]:
        return {"noise": "gaussian", **super().parameters(), "threshold": None}


def _sensitivity(d: int, neighbours: str) -> float:
    """How far one unit moves all bins, in l2.

    Its d searches add at most d to the bins of searches. A query counts once over all units, in one
    of two bins: a unit's at most d queries each add 1, or move 1 from "no" to "yes", which is
    sqrt 2. All in one bin is the worst: l2 at most sqrt(d^2 + 2 d^2). Under replace two such moves.
    """
    check_neighbours(neighbours)
    return sides(neighbours) * math.sqrt(3) * d


def _remarks(noisy: Any, stderr: float) -> dict[str, Any]:
    """How much is left out, if the noise is small enough to say so."""
    n = {what: sum(int(v) for v, b in zip(noisy, BINS, strict=True) if b[0] == what)
         for what in (PUBLISHED, LEFT_OUT, QUERIES)}  # fmt: skip
    searches = n[PUBLISHED] + n[LEFT_OUT]
    spread = stderr * math.sqrt(len(BINS) / 3)
    if searches < 8 * spread:  # too few to say how much
        return {"searches left out, %": None}
    share = min(1.0, max(0.0, n[LEFT_OUT] / searches))
    return {
        "searches left out, %": round(100 * share),
        "queries left out": max(0, n[QUERIES]),
        LEFT_OUT_MARGIN: round(2 * spread),
    }
