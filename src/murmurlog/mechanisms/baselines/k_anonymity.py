"""Baselines that publish what at least k units hold, exact and without noise: no guarantee at all.

Adar 2007 (k-query), its pairs of query and url (k-click), He and Naughton 2009 (k-keyword), and the
rule of 30 users (users-30). They are here for comparison. Between k - 1 and k holders the output
always changes, so none of them keeps any epsilon with a delta below 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.joiners import JOINERS
from murmurlog.bundle.schema import count_columns
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.protocol import Unprotected, View
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log


STAR = "*"  # ends a prefix; no keyword holds one, and normalising leaves it
# A joiner whose letter was cut off; normalising would take it away. RE2's syntax.
CUT_OFF = rf"[{JOINERS}]\P{{L}}*$"


def exact_table(keys: pa.Table, users: Any) -> pa.Table:
    """The keys as a published table: exact counts with error 0."""
    schema = pa.schema([*keys.schema, *(pa.field(*c) for c in count_columns("users").items())])
    zeros, sure = pa.repeat(0.0, keys.num_rows), pa.repeat(True, keys.num_rows)
    columns = [*keys.columns, pa.array(users, pa.int64()), zeros, sure]
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

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Any:
        """How many units hold each item."""
        from murmurlog.mechanisms.baselines.counts import count_all

        return count_all(log, view)

    def release(self, gathered: Any, /, *, entropy: Entropy) -> pa.Table:
        """(key columns, users, users_stderr, reliable) of what at least k units hold."""
        from murmurlog.mechanisms.baselines.counts import at_least

        keys, users = at_least(gathered, self.least(gathered.keys))
        return exact_table(gathered.table(keys), users)

    def least(self, keys: tuple[str, ...]) -> int:
        """The units that an item with these key columns needs."""
        return self.k

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

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """How many units hold each item once rare queries are gone."""
        # Differs: pairs, too, need k units. In the paper a pair of two frequent queries is counted
        # even if one person alone asked them one after the other.
        return _count_of_frequent(log, view, self.k)


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

    def release(self, tally: Tally, /, *, entropy: Entropy) -> pa.Table:
        """(keyword, users, ...) of frequent words and of the prefixes that rare ones became.

        From long prefixes to short: one is published if at least k units hold a rare word that
        begins with it and has found no longer prefix. So each word counts in one row only.
        """
        from murmurlog.mechanisms.baselines.counts import at_least
        from murmurlog.mechanisms.baselines.prefixes import shared_prefixes

        words, users = at_least(tally, self.k)
        tables = [exact_table(tally.table(words), users)]
        for keys, users in shared_prefixes(tally, words, k=self.k, cut_off=CUT_OFF):
            starred = pc.binary_join_element_wise(keys["keyword"], STAR, "")
            tables.append(exact_table(keys.set_column(0, keys.schema.field(0), starred), users))
        return pa.concat_tables(tables)


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

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """How many units hold each item; of clicks, only those on queries that are published."""
        return _count_of_frequent(log, view, self.k)

    def least(self, keys: tuple[str, ...]) -> int:
        """30 for a query, 5 for a url."""
        return self.urls if "url" in keys else self.k

    def least_users(self) -> int | None:
        """5: a url's."""
        return self.urls


def _count_of_frequent(log: Log, view: View, k: int) -> Tally:
    """How many units hold each item of the rows whose query k units asked."""
    from murmurlog.mechanisms.baselines.counts import count_all, frequent_queries_only

    return count_all(log if view.kind == "query" else frequent_queries_only(log, view, k), view)
