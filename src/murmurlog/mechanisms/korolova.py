"""Korolova, Kenthapadi, Mishra, Ntoulas 2009, Algorithm 1: Release-Data, with the exact delta.

`Korolova` makes a table whose keys come from the log (queries; also pairs and clicks, as tables
with a threshold of their own). `KorolovaLists` makes clicks on public lists of results.
Letters are the paper's: d items a unit, noise b for the selection, b_q (b_c) for the counts.

Differs: noise is discrete Laplace on the integers (the paper's is continuous); urls are never taken
bare from the log (one click by one user would show); delta is exact, not (d/2) e^((d-K)/b).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.options import Option, read_shares
from murmurlog.bundle.schema import BY_VALUE, COUNTED, SEPARATOR
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import (
    ITEMS,
    Mechanism,
    OptionContext,
    Pure,
    View,
    below_sampler,
    check_bound,
    check_epsilon,
    check_noise_kind,
    fault_of_counts,
    least_count,
    tally_view,
    with_noise_error,
)
from murmurlog.privacy import (
    ALWAYS,
    SAFETY,
    Guarantee,
    check_budget,
    check_neighbours,
    geometric_scale,
    korolova_delta,
    noise_sd,
    sides,
    survival,
)
from murmurlog.privacy.sampler import Entropy, Integers, Keys, draw, sampler_delta

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log


SELECT = 0.5  # of a table's epsilon on the selection, the rest on the counts


def _prepare_lists(path: Path, context: OptionContext) -> pa.Table:
    """What is on the public lists, cleaned as the log is."""
    from murmurlog.counting.public_sets.result_lists import read_lists

    if not {"query", "click"} <= set(context.mechanisms):
        raise UsageError("--result-lists needs the tables query and click")
    return read_lists(Path(path), url=context.url, keys=context.keys)


def keep_published(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables without rows that name a query which the query table does not hold under their value.

    Post-processing of published tables.
    """
    if "query" not in tables:
        return dict(tables)
    published = _queries_in(tables["query"], "query")
    result = dict(tables)
    for name in ("click", "pair"):
        for key in ("query", "next_query"):
            if name in result and key in result[name].column_names:
                queries = _queries_in(result[name], key)
                result[name] = result[name].filter(pc.is_in(queries, value_set=published))
    return result


def _queries_in(table: pa.Table, key: str) -> pa.ChunkedArray:
    """The queries of a column, each with the value of --by, if there is one."""
    value = [table[BY_VALUE]] if BY_VALUE in table.column_names else []
    return pc.binary_join_element_wise(table[key], *value, SEPARATOR)


@dataclass(frozen=True, kw_only=True)
class Korolova(Mechanism):
    """Items whose noisy count is at least T, then a fresh noisy count for each of them.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a tally of at most d distinct items a unit (count=rows: of the first d rows a unit).
    Drops: items whose first noisy count is below T.
    """

    d: Annotated[int, Letter(parameter="per_user")]
    b: Annotated[float, Letter(parameter="scale")]
    T: Annotated[int, Letter(parameter="threshold", above="K")]
    # None: keys without counts
    b_q: Annotated[float | None, Letter(parameter="count_scale", also=("b_c",))] = None
    count: Annotated[str, Letter(parameter="count")] = "users"

    name: ClassVar[str] = "korolova"
    tables: ClassVar[tuple[str, ...]] = ITEMS
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="count", help="users, or rows (a unit's first rows, with repeats)."),
        Option(
            name="split",
            help="Of epsilon: select=0.5,query=0.25,click=0.25.",
            read=read_shares("--split"),
        ),
        Option(
            name="result_lists",
            help="Public lists, a file of query<TAB>url lines.",
            read=Path,
            public_file=True,
            prepare=_prepare_lists,
        ),
    )
    settings: ClassVar[tuple[str, ...]] = ("set_only",)
    finish = staticmethod(keep_published)

    def __post_init__(self) -> None:
        check_letters(d=self.d, T=self.T, b=self.b, b_q=self.b_q)
        if self.count not in COUNTED:
            raise UsageError(f"count must be {' or '.join(COUNTED)}, not {self.count!r}")
        if self.T < 2:
            raise UsageError(f"T must be at least 2, not {self.T}: a single user would show")
        if self.count == "rows" and self.d >= self.T:
            raise UsageError(
                f"counting rows needs T > d (the paper's K >= d); T is {self.T}, d {self.d}"
            )

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`korolova-lists` for clicks with --result-lists, else `korolova`."""
        if table == "click" and options.get("result_lists") is not None:
            return "korolova-lists", {}
        chosen = {"count": options.get("count", "users"), "counts": not options.get("set_only")}
        if (split := options.get("split")) and table == "query":
            chosen["select"] = split["select"] / (split["select"] + split["query"])
        return "korolova", chosen

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        count: str = "users",
        counts: bool = True,
        select: float = SELECT,
    ) -> Self:
        """b = c d / epsilon as in the paper, and the least T that keeps delta."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("korolova", noise)
        check_letters(d=d)
        if not 0 < select < 1:
            raise UsageError(f"the share of the selection must lie between 0 and 1, not {select!r}")
        c = sides(neighbours)
        b = geometric_scale(c * d, epsilon * select if counts else epsilon)
        b_q = geometric_scale(c * d, epsilon * (1 - select)) if counts else None
        check_letters(b=b, b_q=b_q)
        target = delta / SAFETY - sampler_delta(scale=max(b, b_q or 0.0), epsilon=epsilon)
        if target <= 0:
            raise below_sampler(delta, epsilon)
        T = least_count(
            lambda T: -korolova_delta(d=d, b=b, T=T, count=count),
            -target,
            start=2 if count == "users" else d + 1,
        )
        return cls(d=d, b=b, T=T, b_q=b_q, count=count)

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """(c d/b + c d/b_q, exact delta): selection and fresh counts add up."""
        check_neighbours(neighbours)
        c = sides(neighbours)
        cost = c * self.d / self.b + (0.0 if self.b_q is None else c * self.d / self.b_q)
        epsilon = check_epsilon(self, epsilon, cost=cost, unit=unit)
        exact = korolova_delta(d=self.d, b=self.b, T=self.T, count=self.count)
        largest = max(self.b, self.b_q or 0.0)
        rounding = sampler_delta(scale=largest, epsilon=epsilon) + exact * (SAFETY - 1) / 2
        total = min(1.0, exact + rounding)
        return Guarantee(
            epsilon=epsilon,
            delta=total,
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1"))),
        )

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """The tally of at most d distinct items a unit, or of its first d rows."""
        return tally_view(log, view, per_user=self.d, count=self.count, entropy=entropy)

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """(key columns and, unless b_q is None, the fresh count) of the selected items."""
        check_bound(tally, self.d)
        if tally.count != self.count:
            raise UsageError(f"the tally counts {tally.count}, the mechanism {self.count}")
        keys, counts, stream = [], [], entropy.stream("select")
        for shard in tally:
            # Select-Queries: M(q, D) + Lap(b) > K, one draw for every item in the tally.
            first = draw(
                noise="geometric", scale=self.b, count=len(shard.sums), entropy=stream,
                keys=shard.keys,
            )  # fmt: skip
            selected = shard.sums + first >= self.T
            keys.append(shard.keys[selected])
            counts.append(shard.sums[selected])
        # Get-Query-Counts: fresh noise, independent of the selection, hence without its bias.
        return _with_fresh_counts(
            tally, np.concatenate(keys), np.concatenate(counts), self.b_q, entropy.stream("count")
        )

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Counts that were not drawn, or errors too small."""
        if self.b_q is None:
            return fault_of_counts(table, count=None)
        sd = noise_sd(noise="geometric", scale=self.b_q)
        return fault_of_counts(table, count=self.count, least_error=sd)

    def passes(self, probability: float) -> int:
        """The least true count that is selected with at least this probability."""
        return least_count(
            lambda n: survival(noise="geometric", scale=self.b, x=self.T - n), probability
        )

    def parameters(self) -> dict[str, Any]:
        return {"noise": "geometric", **super().parameters()}


@dataclass(frozen=True, kw_only=True)
class KorolovaLists(Pure):
    """Clicks on public lists of results: every listed url of a published query, also unclicked.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: lists that are public and independent of the log (A2); at most d clicks a unit.
    Drops: nothing on the lists; clicks elsewhere are not counted.
    """

    d: Annotated[int, Letter(parameter="per_user")]
    b_c: Annotated[float, Letter(parameter="scale", also=("b",))]

    name: ClassVar[str] = "korolova-lists"
    chosen_by: ClassVar[str] = "--mechanism korolova --result-lists FILE"
    tables: ClassVar[tuple[str, ...]] = ("click",)
    public: ClassVar[str] = "A2"
    finish = staticmethod(keep_published)

    def __post_init__(self) -> None:
        check_letters(d=self.d, b_c=self.b_c)

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
        """b_c = c d / epsilon; the domain is public, so delta is not needed."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("korolova", noise)
        return cls(d=d, b_c=geometric_scale(sides(neighbours) * d, epsilon))

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """The tally of what the public lists hold and nothing else; unclicked is 0."""
        from murmurlog.counting.public_sets.sets import Listed
        from murmurlog.counting.tally import with_candidates

        lists = view.options["result_lists"]
        only = Listed(table=lists).inside(log)
        clicks = tally_view(log, view, per_user=self.d, entropy=entropy, only=only)
        return with_candidates(clicks, lists, log.text_keys)

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """(query, url, users, ...) of every pair of the lists; the tally holds unclicked ones as 0."""
        check_bound(tally, self.d)
        if tally.public is None:  # noising only what was seen would show that it was seen
            raise Refused("korolova-lists is proved for the keys of a public list, not of a log")
        (shard,) = tally
        # Get-Click-Counts: number of users who clicked u for q, plus Lap(b_c).
        return _with_fresh_counts(tally, shard.keys, shard.sums, self.b_c, entropy.stream("count"))

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Other counts than of users, or errors too small."""
        sd = noise_sd(noise="geometric", scale=self.b_c)
        return fault_of_counts(table, count="users", least_error=sd)

    def passes(self, probability: float) -> int:
        """0: what is listed is published."""
        return 0

    def public_file(self) -> str | None:
        return "result_lists"

    def parameters(self) -> dict[str, Any]:
        return {"noise": "geometric", **super().parameters(), "threshold": None}


def _with_fresh_counts(
    tally: Tally, keys: Keys, true: Integers, scale: float | None, entropy: Entropy
) -> pa.Table:
    """The items with a fresh noisy count, its standard error and whether it is reliable."""
    table = tally.table(keys)
    if scale is None:
        return table
    noise = draw(noise="geometric", scale=scale, count=len(true), entropy=entropy, keys=keys)
    return with_noise_error(table, true + noise, scale=scale, count=tally.count)
