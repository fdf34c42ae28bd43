"""Baselines that publish what at least k units hold, exact and without noise: no guarantee at all.

Adar 2007 (k-query), its pairs of query and url (k-click), He and Naughton 2009 (k-keyword), and the
rule of 30 users (users-30). They are here for comparison. Between k - 1 and k holders the output
always changes, so none of them keeps any epsilon with a delta below 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import pyarrow as pa

from murmurlog.bundle.joiners import JOINERS
from murmurlog.bundle.schema import count_columns, keys_of, keys_schema
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import Unprotected, View
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.logs.engines.protocol import Engine
    from murmurlog.logs.log import Log


STAR = "*"  # ends a prefix; no keyword holds one, and normalising leaves it
# A joiner whose letter was cut off; normalising would take it away. DuckDB's syntax.
CUT_OFF = rf"[{JOINERS}]\P{{L}}*$"


@dataclass(frozen=True, kw_only=True)
class Held:
    """Every distinct item of every unit; not bounded, so no theorem applies."""

    engine: Engine
    table: Any  # unit, the key columns; materialised
    keys: tuple[str, ...]

    def counts(self) -> Any:
        """(key columns, users) of every item."""
        return self.table.group_by(list(self.keys)).aggregate(users=self.table.unit.nunique())


def items_held(log: Log, view: View) -> Held:
    """The items of the view's table, of every unit."""
    items = view.items(log)
    distinct = items.table.select("unit", *items.keys).distinct()
    return Held(engine=log.engine, table=log.engine.materialise(distinct), keys=items.keys)


def frequent_queries_only(log: Log, view: View, k: int) -> Log:
    """The k-query anonymous log: without the rows whose query fewer than k units asked (Adar)."""
    asked = items_held(log, replace(view, kind="query")).counts()
    keys = list(keys_of("query", view.by))
    left = log.table.semi_join(asked.filter(asked.users >= k), keys)
    return log.only(left)


def exact_table(keys: tuple[str, ...], rows: pa.Table) -> pa.Table:
    """The rows (key columns, users) as a published table: exact counts with error 0."""
    counted = [pa.field(*column) for column in count_columns("users").items()]
    zeros, sure = pa.repeat(0.0, rows.num_rows), pa.repeat(True, rows.num_rows)
    columns = [*(rows[key] for key in keys), rows["users"], zeros, sure]
    schema = pa.schema([*keys_schema(keys), *counted])
    return pa.table(columns, names=schema.names).cast(schema)


@dataclass(frozen=True, kw_only=True)
class AtLeast(Unprotected):
    """What the baselines share: a threshold k and exact counts.

    No guarantee is possible: with k - 1 holders and with k holders the outputs are disjoint.
    """

    k: Annotated[int, Letter(parameter="threshold")]

    ignored: ClassVar[tuple[str, ...]] = ("d",)  # nothing is bounded

    def __post_init__(self) -> None:
        check_letters(T=self.k)
        if self.k < 2:
            raise UsageError(f"{self.name} needs k of at least 2, not {self.k}: k = 1 hides nobody")

    def __str__(self) -> str:
        return f"{self.name}:{self.k}"

    @classmethod
    def page(cls) -> str:
        """A section of the page that these baselines share."""
        return f"baselines.md#{cls.name}"

    @classmethod
    def solve(cls, **_: Any) -> Self:
        """Raises: no k keeps any epsilon."""
        raise UsageError(
            f"no k gives {cls.name} an epsilon: write the k after the name, as in {cls.name}:20"
        )

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Held:
        """Who holds what."""
        return items_held(log, view)

    def release(self, held: Held, /, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) of what at least k units hold."""
        counts = held.counts()
        return exact_table(held.keys, counts.filter(counts.users >= self.k).to_pyarrow())

    def passes(self, probability: float) -> int:
        """k: what k units hold is published for sure."""
        return self.k

    def least_users(self) -> int | None:
        """k, too: what fewer hold is never published."""
        return self.k

    def parameters(self) -> dict[str, Any]:
        return {"per_user": None, **super().parameters()}


@dataclass(frozen=True, kw_only=True)
class KQuery(AtLeast):
    """Queries that at least k units asked, and the words and pairs of the log that is left.

    Protects: nothing provable.  Neighbours: none.
    Needs: nothing.  Drops: queries of fewer than k units, then pairs of fewer than k.
    """

    name: ClassVar[str] = "k-query"
    tables: ClassVar[tuple[str, ...]] = ("query", "keyword", "pair")

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Held:
        """Who holds what once rare queries are gone."""
        # Differs: pairs, too, need k units. In the paper a pair of two frequent queries is counted
        # even if one person alone asked them one after the other.
        return items_held(
            log if view.kind == "query" else frequent_queries_only(log, view, self.k), view
        )


@dataclass(frozen=True, kw_only=True)
class KClick(AtLeast):
    """Pairs of query and clicked url that at least k units hold; as a table, their queries, too.

    Protects: nothing provable.  Neighbours: none.
    Needs: nothing.  Drops: pairs (and queries) of fewer than k units.
    """

    name: ClassVar[str] = "k-click"
    tables: ClassVar[tuple[str, ...]] = ("query", "click")


@dataclass(frozen=True, kw_only=True)
class KKeyword(AtLeast):
    """Words, each as long a beginning of it as k units share: `insomnia`, or `insom*`, or nothing.

    Protects: nothing provable.  Neighbours: none.
    Needs: nothing.  Drops: words without a beginning that k units share.
    """

    name: ClassVar[str] = "k-keyword"
    tables: ClassVar[tuple[str, ...]] = ("keyword",)

    def release(self, held: Held, /, *, entropy: Entropy) -> pa.Table:
        """(keyword, users, ...) of frequent words and of the prefixes that rare ones became.

        From long prefixes to short: one is published if at least k units hold a rare word that
        begins with it and has found no longer prefix. So each word counts in one row only.
        """
        import ibis

        counts = held.counts()
        found = [held.engine.materialise(counts.filter(counts.users >= self.k))]
        names = list(held.keys)
        left = held.engine.materialise(held.table.anti_join(found[0], names))
        for length in range(self._longest(held, left), 0, -1):
            cut = left.mutate(keyword=left.keyword.left(length), whole=left.keyword)
            shared = cut.group_by(names).aggregate(users=cut.unit.nunique())
            sound = (shared.users >= self.k) & ~shared.keyword.re_search(CUT_OFF)
            shared = held.engine.materialise(shared.filter(sound))
            rest = cut.anti_join(shared, names)
            left = held.engine.materialise(
                rest.select("unit", *names[1:], keyword=rest.whole).select("unit", *names)
            )
            found.append(shared.mutate(keyword=shared.keyword + STAR))
        together = ibis.union(*(each.select(*names, "users") for each in found[1:]), found[0])
        return exact_table(held.keys, together.to_pyarrow())

    def _longest(self, held: Held, rare: Any) -> int:
        """The greatest length of a prefix that k units share; shorter ones are shared by more."""
        length, names = 0, list(held.keys)
        while True:
            # Below a prefix of fewer than k units there is no other.
            cut = rare.mutate(start=rare.keyword.left(length + 1))
            long = cut.filter(cut.keyword.length() > length)
            starts = ["start", *names[1:]]
            shared = long.group_by(starts).aggregate(users=long.unit.nunique())
            shared = held.engine.materialise(shared.filter(shared.users >= self.k))
            if not shared.count().to_pyarrow().as_py():
                return length
            rare = held.engine.materialise(long.semi_join(shared, starts).select("unit", *names))
            length += 1


@dataclass(frozen=True, kw_only=True)
class Users30(AtLeast):
    """Queries of at least 30 units; of these, urls that at least 5 units clicked for the query.

    Protects: nothing provable.  Neighbours: none.
    Needs: nothing.  Drops: queries of fewer than 30 units, urls of fewer than 5.
    """

    k: Annotated[int, Letter(parameter="threshold")] = 30
    urls: Annotated[int, Letter(parameter="url_threshold")] = 5

    name: ClassVar[str] = "users-30"
    tables: ClassVar[tuple[str, ...]] = ("query", "click")

    def __post_init__(self) -> None:
        if (self.k, self.urls) != (30, 5):
            raise UsageError("users-30 is the rule of 30 users: use k-query:K for another number")

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """It has no letters."""
        if left := [letter for letter in letters if letter != "d"]:
            raise UsageError(f"users-30 has no parameter {', '.join(left)}: leave it out")
        return cls()

    @classmethod
    def solve(cls, *, noise: str | None = None, **_: Any) -> Self:
        """The rule, which keeps no epsilon."""
        if noise is not None:
            raise UsageError(f"users-30 draws no noise, so there is no {noise!r}")
        return cls()

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Held:
        """Who asked what; of clicks, only those on queries that are published."""
        return items_held(
            log if view.kind == "query" else frequent_queries_only(log, view, self.k), view
        )

    def release(self, held: Held, /, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) by the rule."""
        counts, least = held.counts(), self.urls if "url" in held.keys else self.k
        return exact_table(held.keys, counts.filter(counts.users >= least).to_pyarrow())

    def least_users(self) -> int | None:
        """5: a url's."""
        return self.urls
