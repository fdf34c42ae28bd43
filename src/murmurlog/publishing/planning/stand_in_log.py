"""A stand-in log: which unit holds which item, without texts, for forecasts.

It is taken from a log, a generated one or one in files. Draws no privacy noise.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from murmurlog.bundle.scratch import scratch
from murmurlog.counting.bound import Bound
from murmurlog.counting.holdings import Pairs, merge_pairs
from murmurlog.counting.items import ItemFinder, check
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.invented.generate import ROWS_A_USER, invent, write
from murmurlog.logs.invented.populations import POPULATIONS
from murmurlog.logs.log import Log, read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.rows import Rows
from murmurlog.logs.screen import load
from murmurlog.logs.source import Source, find
from murmurlog.privacy.sampler import Integers, SeededEntropy

LIKE = ("plain", *POPULATIONS)
ALL = 1 << 31  # more items than any unit holds


@dataclass(frozen=True, kw_only=True)
class StandInLog:
    """The pairs of unit and item, and the item's place in the unit's order; sorted by both."""

    unit: Integers  # 0 ... units - 1
    item: Integers  # 0 ... size - 1
    place: Integers
    units: int
    size: int

    @property
    def pairs(self) -> int:
        return len(self.unit)

    def bounded(self, per_user: int) -> "StandInLog":
        """The first items of each unit. Units and items keep their numbers."""
        few = self.place < per_user
        return replace(self, unit=self.unit[few], item=self.item[few], place=self.place[few])

    def users(self) -> Integers:
        """How many units hold each item."""
        return np.bincount(self.item, minlength=self.size)

    def part(self, units: int, *, seed: int = 0) -> "StandInLog":
        """The same log with this many of its units only, chosen at random."""
        if not 1 <= units <= self.units:
            raise UsageError(
                f"--users {units} of a log of {self.units}: a forecast needs a log with at least as many "
                "users"
            )
        chosen = np.zeros(self.units, bool)
        chosen[np.random.default_rng(seed).permutation(self.units)[:units]] = True
        rows = chosen[self.unit]
        return _in_order(
            (np.cumsum(chosen) - 1)[self.unit[rows]], self.item[rows], self.place[rows]
        )


def of_file(
    source: LogSource,
    *,
    kind: str = "query",
    unit: str = "user",
    read_as: SourceOptions | None = None,
    memory: str | None = None,
) -> StandInLog:
    """The stand-in of a log in files, read and screened as for a release; exact."""
    options = read_as or SourceOptions()
    with local_source(source, options) as path:
        return _of_source(find(path, options), kind=kind, unit=unit, memory=memory)


def of_shape(
    like: str, *, users: int, kind: str = "query", unit: str = "user", seed: int = 0
) -> StandInLog:
    """The stand-in of a generated log of this shape with about this many users."""
    if like not in LIKE:
        raise UsageError(f"--like {like!r} is not known: choose {', '.join(LIKE)}")
    if users < 1:
        raise UsageError(f"--users must be at least 1, not {users}")
    a_user = ROWS_A_USER if like == "plain" else POPULATIONS[like].rows / POPULATIONS[like].users
    log = invent(rows=round(users * a_user), seed=seed, like=None if like == "plain" else like)
    with scratch() as folder:
        write(log, folder / "invented.parquet")
        return _of_source(find(str(folder / "invented.parquet")), kind=kind, unit=unit)


def _of_source(source: Source, *, kind: str, unit: str, memory: str | None = None) -> StandInLog:
    check(source, kind=kind, unit=unit)
    with connect(memory=memory) as engine:
        log = read(
            source, engine=engine, url="path" if kind == "click" else None, screen=load(),
            unit=unit, entropy=SeededEntropy(0),
        )  # fmt: skip
        return of_log(log, kind=kind)


def of_log(log: Log, *, kind: str = "query") -> StandInLog:
    """The stand-in of a log; exact, so nothing protects it."""
    bound = Bound.of(ALL, None, timed=log.has_times, entropy=SeededEntropy(0), places=True)
    work = partial(_places, find=ItemFinder(kind=kind), bound=bound)
    holdings = merge_pairs(log.partitions.results(work))
    return _in_order(holdings.unit, holdings.item, holdings.number)


def _places(rows: Rows, *, find: ItemFinder, bound: Bound) -> Pairs:
    """The items of each unit of a partition, and the place of each in the unit's order; no texts."""
    items = find(rows)
    bounded = bound(items)
    assert bounded.place is not None
    return Pairs(
        unit=bounded.unit, item=bounded.item, number=bounded.place, unit_keys=items.unit_keys,
        keys=bounded.keys, columns=[],
    )  # fmt: skip


def _in_order(unit: Integers, item: Integers, place: Integers) -> StandInLog:
    order = np.lexsort((place, unit))
    items, item = np.unique(item[order], return_inverse=True)
    return StandInLog(
        unit=unit[order],
        item=item.astype(np.int64),
        place=place[order],
        units=int(unit.max(initial=-1)) + 1,
        size=len(items),
    )
