"""Zhang 2017 (SafeLog), A_Session: sequences of queries in sessions, and of public labels.

Letters are the thesis's: l_s sessions a user, the first l_q queries of each. `Sessions` publishes
subsequences of sessions over a threshold. `LabelPaths` first maps queries to a public finite set of
labels; the set of all paths is then public, no key can be new, and delta is 0.

Differs: a subsequence counts once a user, however often it occurs (the thesis counts occurrences),
and its noisy count is the one that passed the threshold (the thesis draws again): the same guarantee
costs half the noise. With clicks the parts add up; the thesis reports the larger one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import keys_of
from murmurlog.counting.public_sets.sets import Sequences, least_threshold
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import number, whole
from murmurlog.mechanisms.pool import OnDomain, Pool, check_sampler
from murmurlog.mechanisms.protocol import ITEMS, Mechanism, OptionContext, View, check_noise_kind
from murmurlog.mechanisms.public_pools import FAKES, FAKES_OPTION
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.privacy import (
    Guarantee,
    Loss,
    check_budget,
    check_neighbours,
    geometric_scale,
    sides,
)
from murmurlog.privacy import sessions as accounting
from murmurlog.privacy.safelog import subsequences_a_session
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.counting.bound import Bound
    from murmurlog.counting.items import ItemFinder
    from murmurlog.counting.public_sets.labels import Labels
    from murmurlog.counting.subsequences import Subsequences
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log


SUBSEQUENCES = ("all", "whole")
L_S, L_Q = 1, 3
MOST_LABELS = 10_000
CUT = {"sessions_per_user": "l_s", "queries_per_session": "l_q", "subsequences": "subsequences"}


def _prepare_labels(file: str, context: OptionContext) -> Any:
    """The public map from queries to labels."""
    from murmurlog.counting.public_sets.labels import read_labels

    return read_labels(str(file), keys=context.keys)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What counts of a unit's sessions: l_s of them, l_q queries each, whole or all subsequences."""

    l_s: int = L_S
    l_q: int = L_Q
    subsequences: str = "all"

    def __post_init__(self) -> None:
        if self.l_s < 1:
            raise UsageError(f"--sessions-per-user must be at least 1, not {self.l_s}")
        if self.subsequences not in SUBSEQUENCES:
            raise UsageError(f"--subsequences must be all or whole, not {self.subsequences!r}")
        subsequences_a_session(self.l_q)  # checks it

    @property
    def d(self) -> int:
        """How many items one unit can hold (the thesis's Delta f)."""
        return self.l_s * (subsequences_a_session(self.l_q) if self.subsequences == "all" else 1)

    def __str__(self) -> str:
        return f"l_s={self.l_s}, l_q={self.l_q}, subsequences={self.subsequences}"

    def fault(self, table: pa.Table) -> str | None:
        """A list that no cut session has."""
        lengths = pc.list_value_length(table["queries"])
        if (
            table.num_rows
            and not 2 <= pc.min(lengths).as_py() <= pc.max(lengths).as_py() <= self.l_q
        ):
            return f"holds a list that has not 2 to {self.l_q} queries"
        return None

    def steps(
        self, log: Log, view: View, *, labels: Labels | None = None, entropy: Entropy
    ) -> tuple[ItemFinder, Bound, Subsequences | None]:
        """What finds and cuts the sessions of a partition, what bounds units, and what mines subsequences."""
        from murmurlog.counting.subsequences import Subsequences

        find = view.finder(log, longest=self.l_q, labels=labels)
        bound = view.bound(log, per_user=self.l_s, entropy=entropy)
        if self.subsequences != "all":
            return find, bound, None
        # Two queries may have one label, so a path of labels may repeat one.
        return find, bound, Subsequences(repeats=labels is not None)

    def tally(
        self, log: Log, view: View, *, labels: Labels | None = None, entropy: Entropy
    ) -> Tally:
        """How many units have each item: bounded in sessions, cut in queries, and only then mined."""
        from murmurlog.counting.tally import tally

        find, bound, mine = self.steps(log, view, labels=labels, entropy=entropy)
        return tally(
            log, find, bound, then=mine, kind=view.kind, keys=keys_of(view.kind), per_user=self.d
        )


def _cut(left: dict[str, str]) -> Cut:
    """The cut that the letters give; removes them from `left`."""
    left.pop("d", None)  # the general bound (--per-user): here it follows from l_s and l_q
    return Cut(
        l_s=whole(number(left, "l_s", default=L_S), "l_s"),
        l_q=whole(number(left, "l_q", default=L_Q), "l_q"),
        subsequences=left.pop("subsequences", "all"),
    )


@dataclass(frozen=True, kw_only=True)
class _CutSessions(Mechanism):
    """What both mechanisms share: cut sessions, counted by another mechanism."""

    cut: Cut

    tables: ClassVar[tuple[str, ...]] = ("session",)
    ignored: ClassVar[tuple[str, ...]] = ("d",)  # the bound follows from l_s and l_q

    def __post_init__(self) -> None:
        self.counting()  # checks the parameters

    def counting(self) -> Threshold | Pool:
        """The mechanism that makes noisy counts of what units hold."""
        raise NotImplementedError

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """That of the counting mechanism, for Delta f distinct items a unit."""
        return self.counting().guarantee(
            epsilon=epsilon, delta=delta, unit=unit, neighbours=neighbours
        )

    def release(self, gathered: Any, /, *, entropy: Entropy) -> pa.Table:
        """(queries, users, users_stderr, reliable) of what is published."""
        return self.counting().release(gathered, entropy=entropy)

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A list that no cut session has, or wrong counts."""
        return self.cut.fault(table) or self.counting().fault(table, others)

    def passes(self, probability: float) -> int:
        return self.counting().passes(probability)

    def least_users(self) -> int | None:
        return self.counting().least_users()

    def parameters(self) -> dict[str, Any]:
        return {
            **self.counting().parameters(),
            "sessions_per_user": self.cut.l_s,
            "queries_per_session": self.cut.l_q,
            "subsequences": self.cut.subsequences,
        }


@dataclass(frozen=True, kw_only=True)
class Sessions(_CutSessions):
    """Subsequences of sessions, with their noisy number of users if it is at least T.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: at most l_s sessions a unit, cut to l_q queries before they are mined.
    Drops: what follows the first l_q queries; subsequences whose noisy count is below T.
    """

    noise: str = "geometric"
    scale: float
    T: int

    name: ClassVar[str] = "sessions"
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            name="sessions_per_user",
            help="How many sessions of a unit. Default 1, session-tree 10.",
            read=integer,
        ),
        Option(
            name="queries_per_session",
            help="How many are kept. Default 3, session-tree 4.",
            read=integer,
        ),
        Option(name="subsequences", help="all or whole. Default all."),
        Option(
            name="map",
            help="length, a public file of query<TAB>label lines, or words:FILE: learned from it.",
            kind=str | Path,
            public_file=True,
            prepare=_prepare_labels,
        ),
        FAKES_OPTION,
    )

    def counting(self) -> Threshold:
        """The threshold on the subsequences' numbers of users."""
        return Threshold(noise=self.noise, d=self.cut.d, scale=self.scale, T=self.T)

    def __str__(self) -> str:
        return f"sessions({self.cut}, noise={self.noise}, scale={self.scale!r}, T={self.T})"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From l_s, l_q, subsequences, noise, scale (also b or sigma), and T or K."""
        left = dict(letters)
        cut = _cut(left)
        threshold = Threshold.from_letters({"d": str(cut.d), **left})
        return cls(cut=cut, noise=threshold.noise, scale=threshold.scale, T=threshold.T)

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`sessions`, or `label-paths` with --map; `threshold` for all other tables."""
        if table in ITEMS:
            return "threshold", {}
        cut = {letter: options[name] for name, letter in CUT.items() if name in options}
        if (labels := options.get("map")) is None:
            if "fakes" in options:
                raise UsageError("--fakes goes with --map: without it no fake session is published")
            return "sessions", cut
        fakes = {"fakes": options["fakes"]} if "fakes" in options else {}
        return "label-paths", {**cut, **fakes, "labels": len(labels.names)}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        l_s: int = L_S,
        l_q: int = L_Q,
        subsequences: str = "all",
    ) -> Self:
        """The least T that keeps (epsilon, delta); d is not used, for l_s and l_q give the bound."""
        cut = Cut(l_s=l_s, l_q=l_q, subsequences=subsequences)
        threshold = Threshold.solve(
            epsilon=epsilon, delta=delta, d=cut.d, neighbours=neighbours, noise=noise
        )
        return cls(cut=cut, noise=threshold.noise, scale=threshold.scale, T=threshold.T)

    @classmethod
    def for_loss(
        cls,
        loss: Loss,
        *,
        d: int,
        neighbours: str = "add-remove",
        l_s: int = L_S,
        l_q: int = L_Q,
        subsequences: str = "all",
    ) -> Self:
        """Gaussian noise and the least T that cost at most this loss."""
        cut = Cut(l_s=l_s, l_q=l_q, subsequences=subsequences)
        threshold = Threshold.for_loss(loss, d=cut.d, neighbours=neighbours)
        return cls(cut=cut, noise=threshold.noise, scale=threshold.scale, T=threshold.T)

    def loss(self, *, neighbours: str = "add-remove") -> Loss:
        """What it costs beside others: as many subsequences as a unit can have."""
        return self.counting().loss(neighbours=neighbours)

    def needed_weight(self) -> float:
        """The count that a subsequence needs."""
        return float(self.T)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """How many units have each subsequence."""
        return self.cut.tally(log, view, entropy=entropy)

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, and the thesis's guarantee for the same noise."""
        thesis: tuple[float | None, float | None] = (None, None)
        if self.noise == "geometric" and self.cut.subsequences == "all":
            thesis = accounting(self.cut.l_s, self.cut.l_q, self.scale, self.T - 1)[:2]
        return {
            **super().parameters(),
            "epsilon_thesis": thesis[0],
            "delta_thesis": thesis[1],
        }


@dataclass(frozen=True, kw_only=True)
class LabelPaths(_CutSessions):
    """Paths of public labels instead of queries: every possible path gets a noisy count.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: a public map from queries to L labels (A4); sessions bounded and cut as for `Sessions`.
    Drops: the queries themselves; paths whose noisy count is below T.
    """

    b: float
    L: int
    T: int

    name: ClassVar[str] = "label-paths"
    chosen_by: ClassVar[str] = "--mechanism sessions --map FILE"
    needs_delta: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.L <= MOST_LABELS:
            raise UsageError(f"there must be 1 to {MOST_LABELS} labels, not {self.L}")
        super().__post_init__()

    def counting(self) -> Pool:
        """The noisy counts on the finite set of all paths."""
        return Pool(d=self.cut.d, b=self.b, N=_paths(self.L, self.cut.l_q), T=self.T)

    def __str__(self) -> str:
        return f"label-paths({self.cut}, b={self.b!r}, L={self.L}, T={self.T})"

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From l_s, l_q, subsequences, b, L (labels) and T."""
        left = dict(letters)
        left.pop("noise", None)
        cut = _cut(left)
        mechanism = cls(
            cut=cut,
            b=number(left, "b", "scale"),
            L=whole(number(left, "L"), "L"),
            T=whole(number(left, "T"), "T"),
        )
        if left:
            raise UsageError(f"label-paths has no parameter {', '.join(left)}")
        return mechanism

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        l_s: int = L_S,
        l_q: int = L_Q,
        subsequences: str = "all",
        labels: int,
        fakes: float = FAKES,
    ) -> Self:
        """b = c Delta f / epsilon, and T by how many paths that nobody took are accepted."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        check_noise_kind("label-paths", noise)
        cut = Cut(l_s=l_s, l_q=l_q, subsequences=subsequences)
        b = geometric_scale(sides(neighbours) * cut.d, epsilon)
        check_sampler(b, epsilon, delta)
        size = _paths(labels, cut.l_q)
        T = least_threshold(scale=b, size=size, fakes=fakes) if fakes < size else 1
        return cls(cut=cut, b=b, L=labels, T=T)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> OnDomain:
        """How many units have each path of labels."""
        labels = view.options["map"]
        if len(labels.names) != self.L:
            raise UsageError(f"planned for {self.L} labels; the map has {len(labels.names)}")
        paths = Sequences(
            words=labels.names, shortest=2, longest=self.cut.l_q, name="queries", between=None
        )
        return OnDomain.of(log, paths, self.cut.tally(log, view, labels=labels, entropy=entropy))

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A list that no cut session has, or more labels than there are."""
        labels = set(table["queries"].combine_chunks().flatten().to_pylist())
        if len(labels) > self.L:
            return f"holds {len(labels)} labels of {self.L}"
        return super().fault(table, others)

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How many paths nobody took."""
        return self.counting().remarks(table, others)

    def public_file(self) -> str | None:
        return "map"

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "labels": self.L}


def _paths(labels: int, l_q: int) -> int:
    """How many paths of 2 to l_q labels there are."""
    return sum(labels**n for n in range(2, l_q + 1))
