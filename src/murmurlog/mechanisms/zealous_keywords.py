"""ZEALOUS, footnote 5: queries made of published keywords.

Once the keywords are published, all sequences of up to three of them are a finite public set.
Counts of queries on this set need no delta, provided that queries nobody asked are noised too, as in
`pool`; noising only the queries of the log would reveal which they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import normalise
from murmurlog.bundle.schema import count_of, schema, with_notes
from murmurlog.counting.public_sets.sets import Sequences, least_threshold
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter, check_letters
from murmurlog.mechanisms.pool import OnDomain, Pool, check_sampler, tally_inside
from murmurlog.mechanisms.protocol import Mechanism, View, check_noise_kind, fault_of_counts
from murmurlog.mechanisms.public_pools import FAKES
from murmurlog.privacy import Guarantee, check_budget, check_neighbours, geometric_scale, sides
from murmurlog.privacy.sampler import Entropy
from murmurlog.privacy.selection_bias import Selection

if TYPE_CHECKING:
    from murmurlog.logs.log import Log


WORDS = 3
MOST_FAKES = 1e6
MOST_QUERIES = 1 << 120  # of three keywords each; no log has 2^40 keywords


@dataclass(frozen=True, kw_only=True)
class ViaKeywords(Mechanism):
    """Queries of up to three published keywords; every possible query gets a noisy count.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: the keyword table of the same release; at most d such queries a unit.
    Drops: queries with an unpublished word or more than three; those with a low noisy count.
    """

    d: Annotated[int, Letter(parameter="per_user")]
    b: Annotated[float, Letter(parameter="scale", also=("scale", "lam"))]
    fakes: Annotated[float, Letter(parameter="expected_fakes")] = FAKES

    name: ClassVar[str] = "zealous-keywords"
    chosen_by: ClassVar[str] = "--mechanism zealous --via-keywords"
    tables: ClassVar[tuple[str, ...]] = ("query",)
    waits: ClassVar[bool] = True
    waits_for: ClassVar[str] = "keyword"
    needs_delta: ClassVar[bool] = False
    composes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_letters(d=self.d, b=self.b)
        if not 0 < self.fakes <= MOST_FAKES:
            raise UsageError(f"--fakes must lie between 0 and {MOST_FAKES:g}, not {self.fakes!r}")
        # T follows from the number of published keywords: for any number of them it must be possible.
        check_letters(T=least_threshold(scale=self.b, size=MOST_QUERIES, fakes=self.fakes))

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        fakes: float = FAKES,
    ) -> Self:
        """b = c d / epsilon; the set is public, so delta is not needed."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("zealous", noise)
        check_letters(d=d)
        b = geometric_scale(sides(neighbours) * d, epsilon)
        check_sampler(b, epsilon, delta)
        return cls(d=d, b=b, fakes=fakes)

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """(c d / b, 0) given the published keywords, whatever they are and whatever T is."""
        proved = Pool(d=self.d, b=self.b, N=1, T=1).guarantee(
            epsilon=epsilon, delta=delta, unit=unit, neighbours=neighbours
        )
        # The set follows from published output, not from a pool that is assumed to be public.
        return replace(proved, assumptions=tuple(a for a in proved.assumptions if a != "A4"))

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> OnDomain | None:
        """The tally of at most d queries of the set a unit; None if no keyword is published."""
        domain = _domain(view.published["keyword"])
        if domain is None:
            return None
        return tally_inside(log, view, domain, per_user=self.d, entropy=entropy)

    def release(self, gathered: OnDomain | None, *, entropy: Entropy) -> pa.Table:
        """(query, users, users_stderr, reliable) of the published queries."""
        if gathered is None:
            return schema("query").empty_table()
        size = gathered.domain.size
        table = Pool(d=self.d, b=self.b, N=size, T=self._threshold(size)).release(
            gathered, entropy=entropy
        )
        return with_notes(table, self._remarks(size))

    def _threshold(self, size: int) -> int:
        """T for a set of this many queries."""
        if self.fakes >= size:
            return 1
        return least_threshold(scale=self.b, size=size, fakes=self.fakes)

    def _remarks(self, size: int) -> dict[str, Any]:
        return {"queries that could be": size, "published from": self._threshold(size)}

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A query that the published keywords do not make, or counts that were not drawn so."""
        if "keyword" not in others:
            return "there is no keyword table that its queries could be made of"
        domain = _domain(others["keyword"])
        keywords = set(domain.words if domain else ())
        queries = (query.split(" ") for query in table["query"].to_pylist())
        if any(len(words) > WORDS or not keywords.issuperset(words) for words in queries):
            return "holds a query that is not made of published keywords"
        if domain is None:
            return None
        law = Selection("geometric", self.b, self._threshold(domain.size))
        fault = fault_of_counts(table, count="users", least_error=law.least_error())
        low = pc.min(table["users"]).as_py() if fault is None and count_of(table) else None
        if low is not None and low < law.least_estimate():
            return f"holds a count of {low}, below {law.least_estimate()}"
        return fault

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How many queries there could be, and from which count on they are published."""
        domain = _domain(others["keyword"])
        return {} if domain is None else self._remarks(domain.size)

    def parameters(self) -> dict[str, Any]:
        return {
            "noise": "geometric",
            "per_user": self.d,
            "scale": self.b,
            "threshold": None,
            "words": WORDS,
            "expected_fakes": self.fakes,
        }


def _domain(keywords: pa.Table) -> Sequences | None:
    """All queries that the published keywords make; None if there is no keyword."""
    published = keywords["keyword"].to_pylist()
    words = tuple(word for word in sorted(published) if _joins(word))
    return Sequences(words=words, longest=WORDS) if words else None


def _joins(word: str) -> bool:
    """Whether sequences of the word are queries as the log has them."""
    return normalise(f"{word} {word}") == f"{word} {word}"
