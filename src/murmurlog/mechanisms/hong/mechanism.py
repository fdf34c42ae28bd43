"""Hong, Vaidya, Lu, Wu 2012: rows in, rows out, implemented as published, without a guarantee.

How often each (query, url) is published is the solution of a linear program over the log
(`programs`, `diversity`); the user of each row is then drawn, user k with probability c_ijk / c_ij.
The paper proves the second step for fixed totals and claims it for both. The totals are a function
of the log: one user more or less changes the size of the output, so delta is 1 at any epsilon.
The notes state what holds: given the totals, user k is exposed with probability delta_k, and
sum x <= n B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import schema, with_notes
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter
from murmurlog.mechanisms.protocol import Unprotected, View
from murmurlog.privacy import check_budget
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.logs.log import Log
    from murmurlog.mechanisms.hong.gathering import Gathered
    from murmurlog.mechanisms.hong.histories import Histories, Integers


OBJECTIVES = ("output", "frequent", "diverse", "breach")
DIVERSITIES = ("pairs", "queries")
SUPPORT = 0.001
NAME = 8  # bytes of a pseudonym
SMALL = 400  # pairs up to which the most diverse output is also found exactly


@dataclass(frozen=True, kw_only=True)
class Hong(Unprotected):
    """Rows (user, query, url, count) whose totals are optimal and whose users are drawn.

    Protects: nothing end to end.  Neighbours: none.
    Needs: clicks; the owner's consent to a release without a guarantee.
    Drops: pairs that a single user has, and most others.
    """

    objective: Annotated[str, Letter(parameter="objective")] = "output"
    epsilon: Annotated[float, Letter(parameter="epsilon")]
    delta: Annotated[float, Letter(parameter="delta")]
    support: Annotated[float, Letter(parameter="support")] = SUPPORT
    diversity: Annotated[str, Letter(parameter="diversity")] = "pairs"
    # None: half of lambda
    output_size: Annotated[int | None, Letter(parameter="output_size")] = None

    name: ClassVar[str] = "hong"
    ignored: ClassVar[tuple[str, ...]] = ("d",)  # nothing is bounded
    tables: ClassVar[tuple[str, ...]] = ("log",)
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="objective", help="output, frequent, diverse or breach."),
        Option(
            name="support",
            help="frequent: least share of the clicks. Default 0.001.",
            read=decimal,
        ),
        Option(
            name="output_size", help="Clicks to publish. Default half of the most.", read=integer
        ),
        Option(name="diversity", help="diverse: of pairs or of queries. Default pairs."),
    )

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        if self.objective not in OBJECTIVES:
            raise UsageError(
                f"--objective must be one of {', '.join(OBJECTIVES)}, not {self.objective!r}"
            )
        if self.diversity not in DIVERSITIES:
            raise UsageError(f"--diversity must be pairs or queries, not {self.diversity!r}")
        if not 0 < self.support <= 1:
            raise UsageError(f"--support is a share of the clicks in (0, 1], not {self.support!r}")
        if self.output_size is not None and self.output_size < 1:
            raise UsageError(f"--output-size must be at least 1, not {self.output_size}")
        if self.output_size is not None and self.objective not in ("frequent", "breach"):
            raise UsageError(
                f"--output-size goes with --objective frequent or breach; {self.objective} has the "
                "size that it finds"
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
        objective: str = "output",
        support: float = SUPPORT,
        diversity: str = "pairs",
        output_size: int | None = None,
    ) -> Self:
        """The paper's parameters are its budget; they guarantee nothing end to end."""
        if noise is not None:
            raise UsageError("hong draws users, not noise: leave --noise out")
        return cls(
            objective=objective, epsilon=epsilon, delta=delta, support=support,
            diversity=diversity, output_size=output_size,
        )  # fmt: skip

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Gathered:
        """c_ijk: how often each unit clicked each url for each query."""
        from murmurlog.mechanisms.hong.gathering import bring_clicks

        return bring_clicks(log, view.finder(log))

    def release(self, gathered: Gathered, *, entropy: Entropy) -> pa.Table:
        """(user, query, url, count) with fresh pseudonyms; the notes say what is true of it."""
        from murmurlog.mechanisms.hong.histories import sample

        histories = gathered.histories
        x, notes = self._totals(histories, gathered.pairs)
        draws = sample(histories, x, entropy=entropy.stream("users"))
        users, user = np.unique(draws.users, return_inverse=True)
        # Random names: no id of the log by chance, and their order says nothing.
        name = entropy.stream("names").bytes(NAME * len(users)).hex()
        names = [name[2 * NAME * n : 2 * NAME * (n + 1)] for n in user]
        pairs = gathered.pairs.take(pa.array(draws.pairs))
        columns = [pa.array(names, pa.string()), pairs["query"], pairs["url"]]
        table = pa.table([*columns, pa.array(draws.counts, pa.int64())], schema=schema("log"))
        return with_notes(table, {**notes, **self._statements(histories, x)})

    def _totals(self, histories: Histories, pairs: pa.Table) -> tuple[Integers, dict[str, Any]]:
        """x_ij by the chosen objective, and what there is to say about it."""
        from murmurlog.mechanisms.hong.programs import (
            budget,
            frequent_output,
            largest_output,
            least_breach,
            support_distance,
        )

        B = budget(epsilon=self.epsilon, delta=self.delta)
        most = largest_output(histories, B=B)
        notes: dict[str, Any] = {"lambda": most.optimum}
        if self.objective == "output":
            return most.x, notes
        if self.objective == "diverse":
            return self._diverse(histories, pairs, B, notes)
        size = math.floor(most.optimum / 2) if self.output_size is None else self.output_size
        if size > most.optimum:
            raise UsageError(
                f"--output-size {size} is infeasible: within e^epsilon = "
                f"{math.exp(self.epsilon):.4g} and delta = {self.delta:.4g} this log allows at most "
                f"lambda = {most.optimum:.6g} clicks. Use a size in (0, {most.optimum:.6g}]."
            )
        notes["output size asked for"] = size
        if size == 0:  # lambda below 2: an empty output is what the program gives
            return np.zeros(histories.pairs, np.int64), notes
        if self.objective == "breach":
            plan = least_breach(histories, size=size, B=B)
            notes["no output of this size has a smaller largest delta_k than"] = -math.expm1(
                -plan.bound
            )
            return plan.x, notes
        # Differs: what the paper loses by rounding down is filled up towards the size again.
        plan = frequent_output(histories, B=B, support=self.support, size=size, fill=True)
        notes["sum of support distances, least by the linear program"] = plan.optimum
        notes["sum of support distances"] = support_distance(
            histories, plan.x, support=self.support
        )
        return plan.x, notes

    def _diverse(
        self, histories: Histories, pairs: pa.Table, B: float, notes: dict[str, Any]
    ) -> tuple[Integers, dict[str, Any]]:
        from murmurlog.mechanisms.hong.diversity import (
            diverse_output,
            eliminate,
            most_diverse_output,
        )
        from murmurlog.mechanisms.hong.histories import preprocess

        query = None
        if self.diversity == "queries":
            codes = pairs["query"].combine_chunks().dictionary_encode().indices
            query = codes.to_numpy().astype(np.int64)
        ours, paper = diverse_output(histories, B=B, queries=query), eliminate(histories, B=B)
        published = paper > 0
        notes["kept by the paper's heuristic"] = int(
            published.sum() if query is None else len(np.unique(query[published]))
        )
        notes["kept by ours"] = ours.size
        if histories.pairs and preprocess(histories).histories.pairs <= SMALL:
            best = most_diverse_output(histories, B=B, queries=query, seconds=10)
            notes["most there can be, exactly"] = None if best is None else best.size
        notes["most there can be, by the linear program"] = ours.bound
        return ours.x, notes

    def _statements(self, histories: Histories, x: Integers) -> dict[str, Any]:
        """What holds for the output: the bound on its size, and the conditional statement."""
        from murmurlog.mechanisms.hong.histories import exposures
        from murmurlog.mechanisms.hong.programs import budget, size_bound

        B = budget(epsilon=self.epsilon, delta=self.delta)
        exposed = exposures(histories, x)
        return {
            "output size reached": int(x.sum()),
            "no output is larger than n min(epsilon, -ln(1-delta))": size_bound(histories.users, B),
            "largest delta_k given the totals": float(exposed.max(initial=0.0)),
            "statement": "not differentially private end to end; given the published totals, user k "
            "is exposed verbatim with probability delta_k",
        }

    def parameters(self) -> dict[str, Any]:
        return {"per_user": None, "scale": None, "threshold": None, **super().parameters()}
