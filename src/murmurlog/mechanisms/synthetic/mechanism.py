"""A log of invented users with the columns of Hong et al. 2012: user, query, url, count.

The paper samples real users' rows and is not differentially private end to end. Here only noisy
numbers leave the log: which pairs (query, url) many users hold, how many pairs a user holds and,
optionally, which pairs co-occur and the distributions of ranks, hours and counts. Users are invented
from these numbers (`users`), which is post-processing.

Differs from the paper: no row and no id of the log is published, so the bound on a user's expected
rows that the paper's optimisation obeys is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from murmurlog.bundle.options import Option
from murmurlog.bundle.schema import KEYS, MORE, in_order, schema, with_notes
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.mechanisms.letters import check_letters, number
from murmurlog.mechanisms.protocol import Mechanism, View, below_sampler
from murmurlog.mechanisms.synthetic import users as invented
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.privacy import (
    SAFETY,
    Guarantee,
    check_budget,
    check_neighbours,
    geometric_scale,
    least_epsilon,
    sides,
)
from murmurlog.privacy.sampler import Entropy, Integers, draw, sampler_delta

if TYPE_CHECKING:
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log
    from murmurlog.logs.partitions import Partitions
    from murmurlog.logs.text_keys import TextKeys
    from murmurlog.mechanisms.synthetic.clicks import Clicks, PublishedClicks


# How epsilon is divided among the measured parts; fixed, so that it does not depend on a log.
SHARES = {"pairs": 16, "sizes": 2, "together": 6, "rank": 1, "hour": 1, "count": 1}
TOGETHER = 3  # pairs of pairs a unit; few hold more than three published pairs
BINS = {"rank": 10, "hour": 24, "count": 5}  # from FIRST on; the last bin is "or more"
FIRST = {"rank": 1, "hour": 0, "count": 1}
SPREADS = tuple(BINS)  # what is measured as a histogram with one entry a unit
MEASURES = ("together", *SPREADS)
MOST_INVENTED = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """The bounded clicks of every unit, with what is measured of them, and their tally."""

    clicks: Partitions[Clicks]
    tally: Tally
    text_keys: TextKeys


@dataclass(frozen=True, kw_only=True)
class Synthetic(Mechanism):
    """A log of invented users, made of noisy numbers about the clicks of real ones.

    Protects: everything one unit did.  Neighbours: add-remove or replace.
    Needs: at most d distinct pairs (query, url) a unit, bounded once.
    Drops: pairs whose noisy number of users is below T; everything about a unit that is not measured.
    """

    pairs: Threshold
    b_sizes: float
    together: Threshold | None = None  # d: pairs of pairs a unit
    b_rank: float | None = None
    b_hour: float | None = None
    b_count: float | None = None

    tables: ClassVar[tuple[str, ...]] = ("log",)
    name: ClassVar[str] = "synthetic"
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="measure", help="Also together, rank, hour, count; with commas."),
    )
    settings: ClassVar[tuple[str, ...]] = ("set_only",)
    mixes_units: ClassVar[bool] = True  # invents rows from all units together

    def __post_init__(self) -> None:
        check_letters(
            b_sizes=self.b_sizes, b_rank=self.b_rank, b_hour=self.b_hour, b_count=self.b_count
        )
        if self.b_sizes * (self.pairs.d + 1) > MOST_INVENTED:  # noise alone invents half as many
            raise UsageError(
                f"b_sizes {self.b_sizes:.6g} for units of up to {self.pairs.d} pairs makes more invented users "
                f"than fit into memory: b_sizes (d + 1) must be at most {MOST_INVENTED}. Use a larger epsilon or a "
                "smaller --per-user"
            )
        if self.together and self.pairs.d < 2:
            raise UsageError("together needs units with 2 pairs or more: d must be at least 2")

    def __str__(self) -> str:
        p = self.pairs
        parts = [f"noise={p.noise}, d={p.d}, scale={p.scale!r}, T={p.T}"]
        parts.append(f"b_sizes={self.b_sizes!r}")
        if r := self.together:
            parts.append(f"r={r.d}, noise_r={r.noise}, scale_r={r.scale!r}, T_r={r.T}")
        parts += [f"b_{name}={scale!r}" for name, scale in self._spreads().items()]
        return f"synthetic({', '.join(parts)})"

    def _spreads(self) -> dict[str, float]:
        """The scale of every histogram besides sizes."""
        scales = {name: getattr(self, f"b_{name}") for name in SPREADS}
        return {name: float(scale) for name, scale in scales.items() if scale is not None}

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From those of threshold for the pairs, b_sizes and, where measured, the others.

        r, scale_r and T_r (and noise_r) are threshold's for what goes together.
        """
        left = dict(letters)
        b_sizes = number(left, "b_sizes")
        scales = {f"b_{name}": number(left, f"b_{name}", default=math.nan) for name in SPREADS}
        names = {"r": "d", "noise_r": "noise", "scale_r": "scale", "T_r": "T"}
        second = {names[name]: left.pop(name) for name in names if name in left}
        return cls(
            pairs=Threshold.from_letters(left),
            b_sizes=b_sizes,
            together=Threshold.from_letters(second) if second else None,
            **{name: None if math.isnan(scale) else scale for name, scale in scales.items()},
        )

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """`synthetic`, with what to measure."""
        if options.get("set_only"):
            raise UsageError(
                "--set-only does not go with synthetic: a log without counts is no log"
            )
        return "synthetic", {"measure": options.get("measure")}

    @classmethod
    def solve(
        cls,
        *,
        epsilon: float,
        delta: float,
        d: int,
        neighbours: str = "add-remove",
        noise: str | None = None,
        measure: str | None = None,
    ) -> Self:
        """Each part gets its share of epsilon; delta goes to the two that have a threshold."""
        check_budget(epsilon, delta)
        check_neighbours(neighbours)
        measures = parse_measures(measure)
        if "together" in measures and d < 2:
            raise UsageError(
                "--measure together needs units with 2 pairs or more: use --per-user 2 or more"
            )
        shares = {name: SHARES[name] for name in SHARES if name in ("pairs", "sizes", *measures)}
        part = {name: epsilon * share / sum(shares.values()) for name, share in shares.items()}
        c = sides(neighbours)
        scales = {
            f"b_{name}": geometric_scale(c, part[name])
            for name in ("sizes", *SPREADS)
            if name in part
        }
        left = delta - sampler_delta(scale=max(scales.values()), epsilon=epsilon) * SAFETY
        if left <= 0:
            raise below_sampler(delta, epsilon)
        thresholds = {
            name: Threshold.solve(
                epsilon=part[name],
                delta=left * SHARES[name] / (SHARES["pairs"] + shares.get("together", 0)) / SAFETY,
                d=d if name == "pairs" else min(TOGETHER, math.comb(d, 2)),
                neighbours=neighbours,
                noise=noise,
            )
            for name in ("pairs", "together")
            if name in part
        }
        return cls(
            pairs=thresholds["pairs"], together=thresholds.get("together"), b_sizes=scales["b_sizes"],
            b_rank=scales.get("b_rank"), b_hour=scales.get("b_hour"), b_count=scales.get("b_count"),
        )  # fmt: skip

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """The sum of the parts: c/b for every histogram, T1 for what has a threshold.

        Without epsilon it is the least at this delta, or that of geometric noise alone (T2).
        """
        check_neighbours(neighbours)
        at: dict[str, Any] = {"unit": unit, "neighbours": neighbours}
        c = sides(neighbours)
        pure = math.fsum(c / scale for scale in (self.b_sizes, *self._spreads().values()))
        thresholds = [part for part in (self.pairs, self.together) if part]
        if epsilon is None and delta is None:
            epsilon = pure + math.fsum(part.guarantee(**at).epsilon for part in thresholds)
            epsilon *= SAFETY
        elif epsilon is None:
            epsilon = self._epsilon(delta or 0.0, pure, at)
        if epsilon <= pure:
            raise Refused(f"{self} costs epsilon {pure:.9g} per {unit} and more, not {epsilon:.9g}")
        return self._guarantee(epsilon, epsilon - pure, at)

    def _guarantee(self, epsilon: float, left: float, at: dict[str, Any]) -> Guarantee:
        """`left` is the thresholds' part of epsilon; every division of it gives a valid guarantee."""
        histograms = max(self.b_sizes, *self._spreads().values(), 0.0)
        rounding = sampler_delta(scale=histograms, epsilon=epsilon)
        if self.together is None:
            best = [self.pairs.guarantee(epsilon=left, **at)]
        else:
            splits = [
                [
                    self.pairs.guarantee(epsilon=left * share, **at),
                    self.together.guarantee(epsilon=left * (1 - share), **at),
                ]
                for share in self._splits()
            ]
            best = min(splits, key=lambda parts: math.fsum(part.delta for part in parts))
        return Guarantee(
            epsilon=epsilon,
            delta=min(1.0, math.fsum(part.delta for part in best) + rounding),
            assumptions=best[0].assumptions,
            **at,
        )

    def _splits(self) -> tuple[float, float]:
        """The share of the pairs in both thresholds' epsilon: as solved, and by their noise."""
        assert self.together
        solved = SHARES["pairs"] / (SHARES["pairs"] + SHARES["together"])
        pairs, together = (
            (part.d if part.noise == "geometric" else math.sqrt(part.d)) / part.scale
            for part in (self.pairs, self.together)
        )
        return solved, pairs / (pairs + together)

    def _epsilon(self, delta: float, pure: float, at: dict[str, Any]) -> float:
        """The least epsilon at which delta is kept, rounded up."""

        def excess(left: float) -> float:
            return self._guarantee(pure + left, left, at).delta - delta

        least = least_epsilon(excess, most=500, steps=50)
        if math.isinf(least):
            raise UsageError(f"{self} has delta {delta!r} at no epsilon: raise T or delta")
        return (pure + least) * SAFETY

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Gathered:
        """The clicks of each unit, at most d distinct ones, with what is measured of them."""
        from murmurlog.counting.tally import Tally, count_items
        from murmurlog.mechanisms.synthetic.clicks import bounded_clicks

        for name, column in (("rank", "rank"), ("hour", "time")):
            if name in self._spreads() and column not in log.source.columns:
                raise InputError(
                    f"{log.source.name} has no {column} column, so --measure {name} has nothing to "
                    f"measure. Map one with --columns {column}=..., or leave {name} out."
                )
        bound = view.bound(log, per_user=self.pairs.d, entropy=entropy, places=True)
        clicks = log.partitions.derive(
            partial(bounded_clicks, find=view.finder(log), bound=bound, measures=[*self._spreads()])
        )
        tally = Tally(
            shards=clicks.add_up(count_items), bounded=clicks, kind=view.kind, keys=KEYS["click"],
            unit=view.unit, per_user=self.pairs.d,
        )  # fmt: skip
        return Gathered(clicks=clicks, tally=tally, text_keys=log.text_keys)

    def release(self, gathered: Gathered, *, entropy: Entropy) -> pa.Table:
        """(user, query, url, count and, where measured, rank and hour) of invented users."""
        # 1. Pairs that pass the threshold, with noisy numbers of users: public from here on.
        pairs = in_order(self.pairs.release(gathered.tally, entropy=entropy.stream("pairs")))
        clicks = publish(gathered, pairs)
        # 2. How many units hold how many published pairs; one draw for each of the bins 0..d.
        noisy = _noisy(self.sizes(clicks), self.b_sizes, entropy.stream("sizes"))
        # 3. What else was asked for. One entry a unit; at most r pairs of pairs a unit.
        spreads = {
            name: _noisy(spread_of(clicks, name), scale, entropy.stream(name))
            for name, scale in self._spreads().items()
        }
        couples = None
        if self.together:
            stream = entropy.stream("together")
            some = self.couples(clicks, pairs.num_rows, gathered.tally.unit, stream)
            couples = in_order(self.together.release(some, entropy=stream))
            some.bounded.close()
        clicks.close()
        # 4. From here on only published numbers.
        users = pairs["users"].to_numpy()
        sizes = invented.whole_sizes(noisy[1 : len(users) + 1])
        if not len(users) or not sizes.any():
            user, pair = np.zeros(0, np.int64), np.zeros(0, np.int64)
        else:
            links = None if couples is None else _links(couples, users, sizes)
            weights = invented.fit_weights(users, sizes)
            choice = entropy.stream("users")
            user, pair = invented.choose(weights, sizes, links=links, entropy=choice)
        columns = {
            name: FIRST[name]
            + invented.draw_bins(spread, count=len(pair), entropy=entropy.stream("users", name))
            for name, spread in spreads.items()
        }
        table = pairs.select(["query", "url"]).take(pa.array(pair))
        table = table.add_column(0, "user", invented.names(user, entropy=entropy.stream("names")))
        counts = columns.get("count", np.ones(len(pair), np.int64))
        table = table.append_column("count", pa.array(counts, pa.int64()))
        for name in self._columns():
            table = table.append_column(name, pa.array(columns[name], pa.int64()))
        remarks = {"invented users": int(sizes.sum()), "published pairs": len(users)}
        if couples is not None:
            remarks["published pairs of pairs"] = couples.num_rows
        wanted = schema("log", parameters=self.parameters())
        return with_notes(table.cast(wanted), remarks)

    def sizes(self, clicks: Partitions[PublishedClicks]) -> Integers:
        """How many units hold 0..d published pairs among their bounded ones."""
        from murmurlog.mechanisms.synthetic.clicks import count_sizes

        return add_up(clicks, partial(count_sizes, most=self.pairs.d))

    def couples(
        self, clicks: Partitions[PublishedClicks], pairs: int, unit: str, entropy: Entropy
    ) -> Tally:
        """How many units hold both of two published pairs; at most r such couples a unit."""
        from murmurlog.counting.bound import Bound
        from murmurlog.counting.tally import Tally, count_items
        from murmurlog.mechanisms.synthetic.clicks import bounded_couples

        assert self.together
        bound = Bound.of(self.together.d, "random", timed=False, entropy=entropy)
        bounded = clicks.derive(partial(bounded_couples, pairs=pairs, bound=bound))
        return Tally(
            shards=bounded.add_up(count_items), bounded=bounded, kind="together",
            keys=("first", "second"), unit=unit, per_user=self.together.d,
        )  # fmt: skip

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """A user, a count or a measured value that is never generated."""
        ranges = {name: (FIRST[name], FIRST[name] + BINS[name] - 1) for name in SPREADS}
        if "count" not in self._spreads():
            ranges["count"] = (1, 1)
        return invented.fault_of_users(table, most_rows=self.pairs.d, ranges=ranges)

    def passes(self, probability: float) -> int:
        """The least number of users with which a pair is published with at least this probability."""
        return self.pairs.passes(probability)

    def _columns(self) -> list[str]:
        """The columns the log has besides the four of the paper."""
        return [name for name in MORE if name in self._spreads()]

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, for certificates; `scale` is the largest of all."""
        spreads = self._spreads()
        scales = {"pairs": self.pairs.scale, "sizes": self.b_sizes, **spreads}
        if self.together:
            scales["together"] = self.together.scale
        return {
            "noise": self.pairs.noise,
            "per_user": self.pairs.d,
            "scale": max(scales.values()),
            "threshold": self.pairs.T,
            "scales": scales,
            "together": None if self.together is None else self.together.parameters(),
            "columns": self._columns(),
        }


def parse_measures(text: str | None) -> tuple[str, ...]:
    """("together", "rank") from "together,rank"."""
    names = [part.strip() for part in (text or "").split(",") if part.strip()]
    if unknown := [name for name in names if name not in MEASURES]:
        raise UsageError(f"--measure has no {', '.join(unknown)}: use any of {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in names)


def publish(gathered: Gathered, pairs: pa.Table) -> Partitions[PublishedClicks]:
    """The bounded clicks of each unit whose pair is published."""
    from murmurlog.mechanisms.synthetic.clicks import list_pairs, published_clicks

    published = gathered.clicks.share(list_pairs(gathered.text_keys, pairs))
    return gathered.clicks.derive(partial(published_clicks, pairs=published))


def spread_of(clicks: Partitions[PublishedClicks], name: str) -> Integers:
    """How many units are in each bin; a unit is in that of its first published click that has one."""
    from murmurlog.mechanisms.synthetic.clicks import count_bins

    return add_up(clicks, partial(count_bins, name=name))


def add_up(clicks: Partitions[PublishedClicks], count: Callable[..., Integers]) -> Integers:
    """The sums of what is counted in each partition."""
    return np.asarray(np.sum([*clicks.results(count)], axis=0))


def _links(couples: pa.Table, users: Integers, sizes: Integers) -> invented.Links:
    """The published couples as links between pairs."""
    first, second = (couples[name].cast(pa.int64()).to_numpy() for name in ("first", "second"))
    return invented.Links.of(first, second, couples["users"].to_numpy(), users, sizes)


def _noisy(true: Integers, scale: float, entropy: Entropy) -> Integers:
    """The bins with noise: a draw for every bin, also for empty ones."""
    return true + draw(noise="geometric", scale=scale, count=len(true), entropy=entropy)
