"""Whole profiles that many users share, as a log of invented users (columns of Hong et al. 2012).

A unit's profile is the set of all its (query, url, count), bounded. It is one item, so the unit has
one item, and `Threshold` with d = 1 does the rest: the least possible noise, and published pairs of
one profile occurred together in the log. Only profiles that many units share exactly pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.schema import SEPARATOR, in_order, schema, with_notes
from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import Letter
from murmurlog.mechanisms.protocol import Mechanism, View
from murmurlog.mechanisms.synthetic.users import fault_of_users, names
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log


CAP = 3  # counts above are published as this


@dataclass(frozen=True, kw_only=True)
class Profiles(Mechanism):
    """Profiles whose noisy number of units is at least T, each as that many invented users.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: one profile a unit, of at most d distinct pairs (query, url).
    Drops: profiles whose noisy number of units is below T.
    """

    noise: Annotated[str, Letter(parameter="noise")] = "geometric"
    d: Annotated[int, Letter(parameter="per_user")]
    cap: Annotated[int, Letter(parameter="cap")] = CAP
    scale: Annotated[float, Letter(parameter="scale", also=("b", "sigma"))]
    T: Annotated[int, Letter(parameter="threshold", above="K")]

    name: ClassVar[str] = "profiles"
    tables: ClassVar[tuple[str, ...]] = ("log",)
    settings: ClassVar[tuple[str, ...]] = ("set_only",)

    def __post_init__(self) -> None:
        if self.d < 1 or self.cap < 1:
            raise UsageError(f"d and cap must be at least 1, not {self.d} and {self.cap}")
        self.threshold()  # checks the rest

    def threshold(self) -> Threshold:
        """What is done to profiles: each unit has one, whatever d is."""
        return Threshold(noise=self.noise, d=1, scale=self.scale, T=self.T)

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From d, cap and threshold's noise, scale and T."""
        usual = {"noise": "gaussian"} if "sigma" in letters else {}
        return super().from_letters({**usual, **letters})

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Itself, without options."""
        if options.get("set_only"):
            raise UsageError("--set-only does not go with profiles: a log without counts is no log")
        return "profiles", {}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        cap: int = CAP,
    ) -> Self:
        """The parameters with the least T that keep (epsilon, delta); d costs nothing."""
        one = Threshold.solve(epsilon=epsilon, delta=delta, d=1, neighbours=neighbours, noise=noise)
        return cls(noise=one.noise, d=d, cap=cap, scale=one.scale, T=one.T)

    def guarantee(self, **terms: Any) -> Guarantee:
        """T1 with one item a unit."""
        return self.threshold().guarantee(**terms)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Tally:
        """How many units have each profile."""
        import ibis

        from murmurlog.counting.bound import bound
        from murmurlog.counting.tally import Tally

        held = view.items(log)
        kept = bound(held, per_user=self.d, way=view.way, entropy=entropy)
        rows = held.table
        often = rows.group_by(["unit", *held.keys]).aggregate(often=rows.count())
        joined = kept.table.join(often, ["unit", *held.keys])
        capped = ibis.least(joined.often, self.cap).cast("string")
        lines = joined.select(
            "unit", line=ibis.literal(SEPARATOR).join([joined.query, joined.url, capped])
        )
        # A unit's lines differ, so sorted they are one and the same list for equal profiles.
        whole_sets = lines.group_by("unit").aggregate(items=lines.line.collect().sort())
        counted = whole_sets.group_by("items").aggregate(users=whole_sets.count())
        return Tally(
            engine=held.engine,
            table=held.engine.materialise(counted),
            kind="log",
            keys=("items",),
            unit=held.unit,
            per_user=1,
        )

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """(user, query, url, count) of invented users."""
        # 1. Profiles that pass, with noisy numbers of units.
        shown = in_order(self.threshold().release(tally, entropy=entropy))
        # 2. From here on only published values: as many invented users as the number says.
        profile = np.repeat(np.arange(shown.num_rows), shown["users"].to_numpy())
        sets = shown["items"].combine_chunks().take(pa.array(profile))
        user = pc.list_parent_indices(sets).to_numpy()
        parts = pc.split_pattern(pc.list_flatten(sets), SEPARATOR)
        query, url, count = (pc.list_element(parts, place) for place in range(3))
        columns = [names(user, entropy=entropy), query, url, count.cast(pa.int64())]
        table = pa.Table.from_arrays(columns, schema=schema("log"))
        return with_notes(table, _remarks(len(profile), shown.num_rows))

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A user or a count that is never generated, or a profile of fewer users than can pass."""
        fault = fault_of_users(table, most_rows=self.d, ranges={"count": (1, self.cap)})
        least = self.threshold().selection().least_estimate()
        if fault is None and any(users < least for users in _held_by(table).values()):
            return f"holds a profile of fewer than {least} users"
        return fault

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """How many users and profiles there are."""
        held = _held_by(table)
        return _remarks(sum(held.values()), len(held))

    def passes(self, probability: float) -> int:
        """The least number of units with which a profile is published with this probability."""
        return self.threshold().passes(probability)


def _remarks(users: int, profiles: int) -> dict[str, Any]:
    return {"invented users": users, "published profiles": profiles}


def _held_by(table: pa.Table) -> Counter[bytes]:
    """How many users have each profile of a log: the same rows but for the name."""
    if not table.num_rows:
        return Counter()
    user, *rest = (
        column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for column in (table[name] for name in ("user", "query", "url", "count"))
    )
    row = rest[0]
    for codes in rest[1:]:
        row = np.unique(row * (codes.max() + 1) + codes, return_inverse=True)[1]
    order = np.lexsort((row, user))
    row, ends = row[order], np.cumsum(np.bincount(user))
    starts = [0, *ends[:-1].tolist()]
    return Counter(row[a:b].tobytes() for a, b in zip(starts, ends.tolist(), strict=True))
