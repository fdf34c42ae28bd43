"""Broken twins: murmurlog with one thing wrong each. An audit that misses one has shown nothing.

A twin is a patch of the real code that changes one thing; what it claims stays as it was, or is what
somebody has claimed in print. It is run through the very same `audit`. Nothing here is shipped.
"""

import contextlib
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import later_twins as later
import numpy as np
import pyarrow as pa
from log_rows import count_users, rows_of
from scipy.special import log_ndtr, ndtri
from white_box import audit
from white_box_result import WhiteBoxAudit

import murmurlog.counting.public_sets.sets as public_sets
import murmurlog.counting.tally as tallies
import murmurlog.logs.records as records
import murmurlog.mechanisms.korolova as korolova
import murmurlog.mechanisms.left_out as left_out
import murmurlog.mechanisms.pool as pools
import murmurlog.mechanisms.rounds.count as counting
import murmurlog.mechanisms.rounds.mechanism as rounds
import murmurlog.mechanisms.rounds.select as selecting
import murmurlog.mechanisms.synthetic.clicks as measured
import murmurlog.mechanisms.synthetic.mechanism as synthetic
import murmurlog.mechanisms.threshold as threshold
import murmurlog.privacy.budget_filter as budget_filter
import murmurlog.privacy.rounds as schedules
import murmurlog.privacy.thresholds as theorems
import murmurlog.publishing.ledger as ledger
import murmurlog.publishing.ledger_filter as ledger_filter
import murmurlog.publishing.ledger_records as ledger_records
import murmurlog.publishing.plan as plans
from murmurlog.bundle import write
from murmurlog.bundle.schema import count_columns
from murmurlog.counting.bound import Bound
from murmurlog.logs.partitions import Sums
from murmurlog.logs.rows import RowReader
from murmurlog.logs.text_keys import number_keys, places_of
from murmurlog.mechanisms import Korolova, Rounds, SessionTree, Threshold, Zealous
from murmurlog.mechanisms.baselines.k_anonymity import KQuery
from murmurlog.mechanisms.hong.mechanism import Hong
from murmurlog.privacy import Guarantee, count_weight
from murmurlog.privacy import sampler as noise
from murmurlog.privacy.counts import GRID, WeightedCounts
from murmurlog.privacy.rounds import FULL, Schedule
from murmurlog.privacy.sampler import draw
from murmurlog.privacy.thresholds import per_item
from murmurlog.publishing import release as releasing
from murmurlog.publishing.tables import TableMaker

Patch = tuple[Any, str, Any]  # an object, a name in it, and what stands there instead


@dataclass(frozen=True, kw_only=True)
class Twin:
    """The real code with one thing wrong."""

    name: str
    mechanism: str
    patches: Callable[[], list[Patch]]
    more: dict[str, Any] = field(default_factory=dict)  # for `audit`

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        """While this lasts, murmurlog is the twin."""
        with contextlib.ExitStack() as stack:
            stack.callback(_forget)
            for target, name, instead in self.patches():
                stack.enter_context(mock.patch.object(target, name, instead))
            _forget()
            yield

    def audited(self, **more: Any) -> tuple[WhiteBoxAudit, float]:
        """What the audit says of it, and after how many seconds."""
        began = time.monotonic()
        with self.broken():
            made = audit(mechanism=self.mechanism, until_found=True, **(self.more | more))
        return made, time.monotonic() - began


def _forget() -> None:
    """Schedules that were solved by other code."""
    schedules._solve.cache_clear()
    schedules.rounds_for_loss.cache_clear()


def claims(*, epsilon: float, delta: float) -> Callable[..., Guarantee]:
    """A guarantee that is only said."""

    def guarantee(self: Any, **asked: Any) -> Guarantee:
        return Guarantee(
            epsilon=asked.get("epsilon") or epsilon,
            delta=delta,
            unit=asked.get("unit", "user"),
            neighbours=asked.get("neighbours", "add-remove"),
        )

    return guarantee


# --- noise ----------------------------------------------------------------------------------------


def halved(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
    return draw(noise=noise, scale=scale / 2, count=count, entropy=entropy)


def halved_where_it_selects(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
    """Weights are counted in steps of 1/GRID, users as they are."""
    selecting = scale > GRID / 16
    return draw(noise=noise, scale=scale / (1 + selecting), count=count, entropy=entropy)


def clicks_halved(self: Threshold, tally: Any, *, entropy: Any) -> Any:
    """Half the noise, in the table of clicks alone."""
    if "url" not in tally.keys:
        return _threshold_release(self, tally, entropy=entropy)
    with mock.patch.object(threshold, "draw", halved):
        return _threshold_release(self, tally, entropy=entropy)


def discrete_gaussian(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
    """Mass proportional to e^(-k^2 / 2 scale^2): another law than the rounded Gaussian."""
    k = np.arange(-int(12 * scale) - 4, int(12 * scale) + 5)
    mass = np.exp(-(k**2) / (2 * scale**2))
    words = np.frombuffer(entropy.bytes(8 * count), np.uint64)
    return k[np.searchsorted(np.cumsum(mass / mass.sum()), words / 2.0**64)]


def floating_counts(tally: Any, keys: Any, true: Any, scale: Any, entropy: Any) -> Any:
    """Laplace noise as textbooks have it, in floating point, published as it comes."""
    table = tally.table(keys)
    if scale is None:
        return table
    u = np.frombuffer(entropy.bytes(8 * len(true)), np.uint64) / 2.0**64 - 0.5
    noisy = true - scale * np.sign(u) * np.log1p(-2 * np.abs(u))
    stderr = np.full(len(noisy), math.sqrt(2) * scale)
    columns = [pa.array(noisy), pa.array(stderr), pa.array(4 * stderr <= noisy)]
    names = [*table.column_names, *count_columns(tally.count)]
    return pa.table([*table.columns, *columns], names)


_generator = random.Random(time.time())


def bytes_of_one_generator(self: Any, count: int) -> bytes:
    """From a generator that was seeded when the process began: forks go on with its state."""
    return _generator.randbytes(count)


# --- thresholds ------------------------------------------------------------------------------------

_threshold_release, _korolova_release = Threshold.release, Korolova.release


def without_the_one(self: Threshold, tally: Any, *, entropy: Any) -> Any:
    """ "> K" written as ">= K"."""
    return _threshold_release(replace(self, T=max(2, self.T - 1)), tally, entropy=entropy)


def half_forgotten(noise: str, T: int) -> float:
    """T where the theorem about unrounded noise has K = T - 1/2."""
    return T


def no_half_in(noise: str, scale: float, p: float) -> int:
    T = max(2, math.ceil(theorems._threshold_at(noise, scale, p) - 1e-6))
    while theorems.pass_probability(noise=noise, scale=scale, threshold=T) > p:
        T += 1
    return T


_real_delta = theorems._delta


def delta_of_one_item(
    noise: str, epsilon: float, D: int, scale: float, p: float, neighbours: str, **more: Any
) -> float:
    """The chance that one item shows, taken for the chance that any of D does."""
    alone = -math.expm1(math.log1p(-min(p, 1 - 1e-12)) / D)
    return _real_delta(noise, epsilon, D, scale, alone, neighbours, **more)


def solved_by_one_item(**asked: Any) -> tuple[float, int]:
    """The scale that d items need, and the threshold that a single one needs."""
    noise, epsilon, delta, d = (asked[name] for name in ("noise", "epsilon", "delta", "d"))
    c = theorems.sides(asked.get("neighbours", "add-remove"))
    scale = theorems.round_up(c * d / epsilon)
    return scale, theorems._least_integer(noise, scale, delta * 0.99)


def solved_by_equation_3(cls: Any, /, *, epsilon: float, delta: float, d: int, **asked: Any) -> Any:
    """lam = 2 m / epsilon and tau' by eq. (3), as printed."""
    tau2 = d * (1 - math.log(2 * delta / d) / epsilon)
    return cls(m=d, lam=2 * d / epsilon, T=max(2, math.floor(tau2) + 1))


def guaranteed_by_equation_3(self: Zealous, **asked: Any) -> Guarantee:
    """(2 m / lam, delta'), delta' by eq. (3) from tau'."""
    epsilon = 2 * self.m / self.lam
    delta = self.m / 2 * math.exp(epsilon * (1 - (self.T - 1) / self.m))
    return Guarantee(
        epsilon=epsilon,
        delta=min(1.0, delta),
        unit=asked.get("unit", "user"),
        neighbours=asked.get("neighbours", "add-remove"),
    )


# --- bounds ----------------------------------------------------------------------------------------

_real_bound = Bound.__call__


def unbounded(self: Bound, items: Any) -> Any:
    """Everything a unit holds, said to be bounded."""
    return _real_bound(replace(self, per_unit=100_000), items)


def rows_for_users(self: Bound, items: Any) -> Any:
    """A unit's first rows instead of its first distinct items, counted as users all the same."""
    return _real_bound(replace(self, count="rows", secret=None), items)


def bounded_by_the_tally(self: Bound, items: Any) -> Any:
    """Counts first: each unit keeps those of its items that most units hold."""
    every = unbounded(self, items)
    held = np.bincount(every.item, minlength=len(every.keys))
    order = np.lexsort((every.item, -held[every.item], every.unit))
    kept = np.sort(order[_places(every.unit) < self.per_unit])
    return replace(every, unit=every.unit[kept], item=every.item[kept])


def _places(unit: Any) -> Any:
    """The place of each row in its unit; rows are by unit."""
    return np.arange(len(unit)) - np.searchsorted(unit, unit)


_threshold_gather = Threshold.gather


def gather_what_is_frequent(self: Threshold, log: Any, view: Any, *, entropy: Any) -> Any:
    """Queries of fewer than 5 rows are removed over all users, before each is limited."""
    keys = [
        shard.keys[shard.sums >= 5]
        for shard in log.partitions.add_up(
            lambda rows: Sums(
                rows.query.keys,
                np.bincount(rows.query.codes, minlength=len(rows.query.keys)).astype(np.int64),
            )
        )
    ]
    frequent = np.concatenate(keys)
    kept = log.partitions.derive(
        lambda rows: rows.at((places_of(rows.query.keys, frequent) >= 0)[rows.query.codes])
    )
    return _threshold_gather(self, replace(log, partitions=kept), view, entropy=entropy)


_real_weigh, _real_keep = selecting.weigh_first, selecting.keep_alive


_most: list[int] = []  # items of a unit in each round


def bounded_later(self: Bound, items: Any) -> Any:
    """Everything a unit holds, to be bounded in every round."""
    _most[:] = [self.per_unit]
    every = unbounded(self, items)
    order = np.lexsort((every.item, every.unit))
    return replace(every, unit=every.unit[order], item=every.item[order])


def weigh_first_ones(items: Any) -> Any:
    """Round 1: each unit's first items by key."""
    few = _places(items.unit) < _most[0]
    return _real_weigh(replace(items, unit=items.unit[few], item=items.item[few]))


def among_bounded_again(items: Any, *, alive: Any) -> Any:
    """Each unit's first items of those alive, also such as the first bound had taken out."""
    found = _real_keep(items, alive=alive)
    few = _places(found.unit) < _most[0]
    return found._replace(unit=found.unit[few], item=found.item[few])


def leak_with_credit(self: Schedule, k: int, t: Any, d: Any) -> Any:
    """As if a unit's weight were always spread over t items, t being as many as it may have.

    Which of them survive depends on the noise, so the last one can carry all of it.
    """
    c = self.coefficients(k)
    later = sum(c[1:]) / math.sqrt(self.d)
    room = self.thresholds[k] / GRID - sum(c) * 0.5 / GRID - later - c[0] / np.sqrt(d)
    return np.asarray(-np.expm1(t * log_ndtr(room / self.sd(k))))


def thresholds_with_credit(start: Schedule, delta: float, late: float) -> Schedule:
    """The least thresholds by that wrong bound."""
    t = np.arange(1, start.d + 1)
    found = []
    for k in range(start.rounds):
        c = start.coefficients(k)
        part = late if k + 1 == start.rounds else (1 - late) / (start.rounds - 1)
        over = np.array([-float(ndtri(per_item(delta * part, int(n)))) for n in t])
        rho = sum(c[1:]) / math.sqrt(start.d) + np.max(c[0] / np.sqrt(t) + over * start.sd(k))
        found.append(math.ceil(GRID * float(rho) + sum(c) / 2))
    return replace(start, thresholds=tuple(found))


# --- keys ------------------------------------------------------------------------------------------


def urls_bare(self: Korolova, tally: Any, *, entropy: Any) -> Any:
    """Every url that somebody clicked for a published query, with a noisy count."""
    if "url" not in tally.keys:
        return _korolova_release(self, tally, entropy=entropy)
    keys, sums = (
        np.concatenate(parts) for parts in zip(*((s.keys, s.sums) for s in tally), strict=True)
    )
    return korolova._with_fresh_counts(tally, keys, sums, self.b_q, entropy)


_real_candidates = tallies.with_candidates


def only_what_was_seen(tally: Any, candidates: Any, text_keys: Any) -> Any:
    """The candidates of the list that somebody clicked; the others get no noise and no row."""
    made = _real_candidates(tally, candidates, text_keys)
    ((keys, sums),) = ((shard.keys, shard.sums) for shard in made)
    shard = tallies.SingleShard(Sums(keys[sums > 0], sums[sums > 0]))
    return replace(
        made, shards=shard, public=candidates.select(list(tally.keys)).filter(pa.array(sums > 0))
    )


def fakes_at_the_threshold(*, scale: float, T: int, count: int, entropy: Any, **_: Any) -> Any:
    """Keys that nobody holds, each with the least count that there is."""
    return np.full(count, T, np.int64)


# --- around the mechanism ---------------------------------------------------------------------------

_real_count, _real_certificate = TableMaker.count, releasing._certificate
_users: list[int] = []
_digests: list[str] = []


def count_users_too(self: TableMaker) -> Any:
    _users[:] = [count_users(self.log)]
    return _real_count(self)


def certificate_with_users(*given: Any, **more: Any) -> Any:
    return replace(_real_certificate(*given, **more), declared_users=_users[0])


def digest_rows_too(self: TableMaker) -> Any:
    rows = sorted(
        str(row[2:]) for row in rows_of(self.log).elements()
    )  # keys are fresh for each release
    _digests[:] = [hashlib.sha256("\n".join(rows).encode()).hexdigest()]
    return _real_count(self)


def certificate_with_digest(*given: Any, **more: Any) -> Any:
    """So that it is known of which log a release was made: nobody can read a digest."""
    made = _real_certificate(*given, **more)
    return replace(made, about={**made.about, "description": f"made of log {_digests[0]}"})


def rows_as_they_came(table: Any) -> Any:
    """Rows in the order in which the engine had them."""
    return table


def bytes_of_a_fixed_seed(self: Any, count: int) -> bytes:
    """From a generator that begins anew with each release."""
    if not hasattr(self, "_own"):
        self._own = random.Random(20260101)
    return bytes(self._own.randbytes(count))


# --- single stages ----------------------------------------------------------------------------------

SMALLER = 0.9
_rounds_select, _rounds_release, _real_decide = Rounds.select, Rounds.release, Rounds.decide


def of_a_smaller_scale(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
    return draw(noise=noise, scale=SMALLER * scale, count=count, entropy=entropy)


def smaller(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
    """Nine tenths of the noise, taken after an honest draw: the sampler itself sees nothing wrong."""
    drawn = draw(noise=noise, scale=scale, count=count, entropy=entropy)
    return np.rint(SMALLER * drawn).astype(np.int64)


def selected_with_less_at_last(self: Rounds, held: Any, *, entropy: Any) -> Any:
    last = self.schedule.scales[-1] * GRID

    def less_at_last(*, noise: str, scale: float, count: int, entropy: Any, **_: Any) -> Any:
        chosen = smaller if scale == last else draw
        return chosen(noise=noise, scale=scale, count=count, entropy=entropy)

    with mock.patch.object(selecting, "draw", less_at_last):
        return _rounds_select(self, held, entropy=entropy)


def pairs_with_less_noise(self: Rounds, held: Any, *, entropy: Any) -> Any:
    if held.kind != "pair":
        return _rounds_release(self, held, entropy=entropy)
    with mock.patch.object(rounds, "draw", smaller), mock.patch.object(selecting, "draw", smaller):
        return _rounds_release(self, held, entropy=entropy)


def pairs_of_threshold_with_less(self: Threshold, tally: Any, *, entropy: Any) -> Any:
    if tally.kind != "pair":
        return _threshold_release(self, tally, entropy=entropy)
    with mock.patch.object(threshold, "draw", of_a_smaller_scale):
        return _threshold_release(self, tally, entropy=entropy)


def half_noisy(true: Any, scale: float, entropy: Any) -> Any:
    drawn = draw(noise="geometric", scale=scale, count=len(true), entropy=entropy)
    return true + np.rint(drawn / 2).astype(np.int64)


def memory_of_own(self: Rounds, k: int, z: Any, remembered: Any, pool: Any = 0) -> Any:
    """Earlier measurements are remembered with the coefficients of their own round."""
    found = _real_decide(self, k, z, remembered, pool)
    if k + 1 == self.schedule.rounds:
        return found
    known = remembered + self.schedule.own[k] * z
    return found._replace(remembered=known[found.goes_on])


def attention_to_the_best(self: Rounds, k: int, y: Any, pool: Any) -> Any:
    """Largest for the item with the largest measurement, whoever holds that one."""
    best = float(np.max(y, initial=1.0))
    return np.clip(np.rint(FULL * np.maximum(y, 0) / best), 1, FULL).astype(np.int64)


_real_losses, _real_solve = plans.losses_of, plans._Request._solve


def first_loss(parts: Any) -> Any:
    return _real_losses(list(parts)[:1])


def solve_for_all(self: Any, loss: Any) -> Any:
    """Every table gets the whole budget."""
    alone = {table: replace(its, share=1.0) for table, its in self.tables.items()}
    return _real_solve(replace(self, tables=alone), loss)


def sensitivity_of_searches(d: int, neighbours: str) -> float:
    """Searches alone: a unit's queries that are left out are forgotten."""
    return theorems.sides(neighbours) * d


_real_count_weight = count_weight


def clipped_one_late(m: int, d2: int) -> int:
    return _real_count_weight(m, d2 + 1)


# --- bounds that depend on others --------------------------------------------------------------------


def keyed_by_rows(self: Bound, items: Any) -> Any:
    """The key of the random bound is the number of rows."""
    secret = None if self.secret is None else len(items.unit)
    return _real_bound(replace(self, secret=secret), items)


def one_more_in_some_partitions(self: Bound, items: Any) -> Any:
    """Where a partition has an even number of rows, d + 1 items a unit."""
    return _real_bound(replace(self, per_unit=self.per_unit + 1 - len(items.unit) % 2), items)


# --- reading ----------------------------------------------------------------------------------------

_real_blocks, _real_queries = records._blocks, RowReader._queries
COMMON = 20  # rows from which a query is called common


def blocks_without_last(stream: Any, dialect: Any, name: str) -> Any:
    """The last record of each piece of a file is lost, but for the last piece."""
    before = None
    for block, ends in _real_blocks(stream, dialect, name):
        if before is not None and len(before[1]) > 1:
            yield before[0][: int(before[1][-2]) + 1], before[1][:-1]
        before = block, ends
    if before is not None:
        yield before


def spare_the_common(self: RowReader, queries: Any) -> Any:
    """What many ask cannot be personal."""
    keys, there, reasons = _real_queries(self, queries)
    codes, _ = number_keys(keys)
    rare = np.bincount(codes)[codes] < COMMON
    return keys, there, {reason: rows & rare for reason, rows in reasons.items()}


def keys_of_their_own(self: RowReader, queries: Any) -> Any:
    """Each raw text keeps its own key, so that its variants are different items of a user."""
    _, there, reasons = _real_queries(self, queries)
    return queries.keys(self.text_keys), there, reasons


def count_bins_of_clicks(clicks: Any, *, name: str) -> Any:
    """Every click of a unit, not its first alone."""
    bins = clicks.bins[name]
    return np.bincount(bins[bins != measured.NO_BIN], minlength=synthetic.BINS[name])


TWINS = (
    Twin(name="noise halved", mechanism="threshold",
         patches=lambda: [(threshold, "draw", halved)]),
    Twin(name="noise of rounds halved", mechanism="rounds",
         patches=lambda: [(rounds, "draw", halved), (selecting, "draw", halved)]),
    Twin(name="noise of selecting in rounds halved", mechanism="rounds",
         patches=lambda: [(selecting, "draw", halved_where_it_selects)]),
    Twin(name="noise of fresh counts halved", mechanism="korolova",
         patches=lambda: [(korolova, "draw", halved)]),
    Twin(name="noise of clicks halved", mechanism="threshold",
         patches=lambda: [(Threshold, "release", clicks_halved)]),
    Twin(name="noise of sessions halved", mechanism="sessions",
         patches=lambda: [(threshold, "draw", halved)]),
    Twin(name="threshold without the +1", mechanism="threshold",
         patches=lambda: [(Threshold, "release", without_the_one)]),
    Twin(name="T used for K", mechanism="threshold", more={"noise": "gaussian"},
         patches=lambda: [(threshold, "real_threshold", half_forgotten),
                          (theorems, "real_threshold", half_forgotten),
                          (theorems, "_least_integer", no_half_in)]),
    Twin(name="delta not spread over d", mechanism="threshold", more={"noise": "geometric"},
         patches=lambda: [(theorems, "_delta", delta_of_one_item),
                          (threshold, "solve_integer_threshold", solved_by_one_item)]),
    Twin(name="bound skipped", mechanism="threshold",
         patches=lambda: [(Bound, "__call__", unbounded)]),
    Twin(name="repeats counted as users", mechanism="threshold",
         patches=lambda: [(Bound, "__call__", rows_for_users)]),
    Twin(name="bound after the tally", mechanism="threshold",
         patches=lambda: [(Bound, "__call__", bounded_by_the_tally)]),
    Twin(name="bound again in a later round", mechanism="rounds",
         patches=lambda: [(Bound, "__call__", bounded_later),
                          (selecting, "weigh_first", weigh_first_ones),
                          (selecting, "keep_alive", among_bounded_again)]),
    Twin(name="memory with weight 1/sqrt(t)", mechanism="rounds",
         patches=lambda: [(Schedule, "leak", leak_with_credit),
                          (schedules, "_with_thresholds", thresholds_with_credit)]),
    Twin(name="urls bare from the log", mechanism="korolova",
         patches=lambda: [(Korolova, "release", urls_bare)]),
    Twin(name="candidates noised only where seen", mechanism="korolova",
         patches=lambda: [(tallies, "with_candidates", only_what_was_seen)]),
    Twin(name="SafeLog's filter before limiting", mechanism="threshold",
         patches=lambda: [(Threshold, "gather", gather_what_is_frequent)]),
    Twin(name="ZEALOUS's eq. (3)", mechanism="zealous",
         patches=lambda: [(Zealous, "solve", classmethod(solved_by_equation_3)),
                          (Zealous, "guarantee", guaranteed_by_equation_3)]),
    Twin(name="Korolova's theorem claimed for replace", mechanism="korolova",
         patches=lambda: [(korolova, "sides", lambda neighbours: 1)]),
    Twin(name="Hong's counts without noise", mechanism="hong",
         patches=lambda: [(Hong, "guarantee", claims(epsilon=1.0, delta=1e-6))]),
    Twin(name="k-anonymity sold as DP", mechanism="k-query",
         patches=lambda: [(KQuery, "solve", classmethod(lambda cls, **asked: cls(k=5))),
                          (KQuery, "guarantee", claims(epsilon=1.0, delta=1e-6))]),
    Twin(name="floating-point Laplace", mechanism="korolova",
         patches=lambda: [(korolova, "_with_fresh_counts", floating_counts)]),
    Twin(name="discrete Gaussian sold as T1", mechanism="threshold", more={"noise": "gaussian"},
         patches=lambda: [(threshold, "draw", discrete_gaussian)]),
    Twin(name="noise reused after fork", mechanism="threshold",
         patches=lambda: [(noise.SystemEntropy, "bytes", bytes_of_one_generator)]),
    Twin(name="noise of a fixed seed", mechanism="threshold",
         patches=lambda: [(noise.SystemEntropy, "bytes", bytes_of_a_fixed_seed)]),
    Twin(name="a pool query recognisable as fake", mechanism="pool",
         patches=lambda: [(pools, "draw_tails", fakes_at_the_threshold)]),
    Twin(name="the exact number of users in the manifest", mechanism="threshold",
         patches=lambda: [(TableMaker, "count", count_users_too),
                          (releasing, "_certificate", certificate_with_users)]),
    Twin(name="a digest of the log in the description", mechanism="threshold",
         patches=lambda: [(TableMaker, "count", digest_rows_too),
                          (releasing, "_certificate", certificate_with_digest)]),
    Twin(name="rows in the order of the log", mechanism="threshold",
         patches=lambda: [(write, "in_order", rows_as_they_came)]),
    Twin(name="sessions not bounded", mechanism="sessions",
         patches=lambda: [(Bound, "__call__", unbounded)]),
    Twin(name="last round's noise x 0.9", mechanism="rounds",
         patches=lambda: [(Rounds, "select", selected_with_less_at_last)]),
    Twin(name="pair table's noise x 0.9", mechanism="rounds",
         patches=lambda: [(Rounds, "release", pairs_with_less_noise)]),
    Twin(name="pair table's noise x 0.9, threshold", mechanism="threshold",
         patches=lambda: [(Threshold, "release", pairs_of_threshold_with_less)]),
    Twin(name="synthetic histograms with half the noise", mechanism="synthetic",
         patches=lambda: [(synthetic, "_noisy", half_noisy)]),
    Twin(name="memory with the wrong coefficients", mechanism="rounds",
         patches=lambda: [(Rounds, "decide", memory_of_own)]),
    Twin(name="attention relative to the best item", mechanism="rounds",
         patches=lambda: [(Rounds, "_attention", attention_to_the_best)]),
    Twin(name="second table's loss not counted", mechanism="rounds",
         patches=lambda: [(plans, "losses_of", first_loss),
                          (plans._Request, "_solve", solve_for_all)]),
    Twin(name="left_out with a wrong sensitivity", mechanism="threshold",
         patches=lambda: [(left_out, "_sensitivity", sensitivity_of_searches)]),
    Twin(name="d2 clip off by one", mechanism="rounds",
         patches=lambda: [(counting, "count_weight", clipped_one_late)]),
    Twin(name="random bound keyed by the row count", mechanism="threshold",
         patches=lambda: [(Bound, "__call__", keyed_by_rows)]),
    Twin(name="some partitions bounding to d + 1", mechanism="threshold",
         patches=lambda: [(Bound, "__call__", one_more_in_some_partitions)]),
    Twin(name="a reader that loses rows at chunk borders", mechanism="threshold",
         patches=lambda: [(records, "_blocks", blocks_without_last)]),
    Twin(name="screen that spares frequent queries", mechanism="threshold",
         patches=lambda: [(RowReader, "_queries", spare_the_common)]),
    Twin(name="distinct before normalising", mechanism="threshold",
         patches=lambda: [(RowReader, "_queries", keys_of_their_own)]),
    Twin(name="rank measured per click", mechanism="synthetic",
         patches=lambda: [(measured, "count_bins", count_bins_of_clicks)]),
    Twin(name="counts weighted with a wrong sensitivity", mechanism="rounds",
         patches=lambda: [(WeightedCounts, "noise", later.noise_of_one_item)]),
    Twin(name="count weights rounded up", mechanism="rounds",
         patches=lambda: [(counting, "count_weight", later.weight_rounded_up)]),
    Twin(name="histogram noise x 0.9", mechanism="rounds",
         patches=lambda: [(rounds, "_draw_noise", later.histogram_with_less)]),
    Twin(name="a unit in several bins of the histogram", mechanism="rounds",
         patches=lambda: [(counting.Holders, "histogram", later.units_of_at_least)]),
    Twin(name="histogram's loss not counted", mechanism="rounds",
         patches=lambda: [(WeightedCounts, "loss", property(later.loss_without_histogram))]),
    Twin(name="pool thresholds by how many keys are held", mechanism="rounds",
         patches=lambda: [(Rounds, "release", later.release_by_what_is_held)]),
    Twin(name="pool noise skipped where the log lacks a key", mechanism="rounds",
         patches=lambda: [(rounds, "pass_unheld", later.none_that_nobody_holds)]),
    Twin(name="pool keys of nobody in the last round only", mechanism="rounds",
         patches=lambda: [(rounds, "pass_unheld", later.judged_at_the_end)]),
    Twin(name="pool fakes chosen among held keys too", mechanism="rounds",
         patches=lambda: [(public_sets, "unheld", later.chosen_among_all)]),
    Twin(name="a second weight for pool keys", mechanism="rounds",
         patches=lambda: [(selecting, "candidates_of", later.candidates_and_pool_keys),
                          (selecting, "weigh_first", later.weigh_first_apart),
                          (selecting, "weigh", later.weigh_apart)]),
    Twin(name="earlier keys only where somebody asks them", mechanism="rounds",
         patches=lambda: [(selecting, "candidates_of", later.candidates_with_what_is_asked)]),
    Twin(name="earlier keys taken from the log", mechanism="rounds",
         patches=lambda: [(selecting, "candidates_of", later.candidates_without_what_is_common)]),
    Twin(name="earlier keys without noise", mechanism="rounds",
         patches=lambda: [(Rounds, "release", later.release_with_exact_earlier)]),
    Twin(name="the loss of one length for all", mechanism="session-tree",
         patches=lambda: [(SessionTree, "loss", later.loss_of_one_level)]),
    Twin(name="extensions of published sessions without a threshold", mechanism="session-tree",
         patches=lambda: [(Rounds, "select", later.select_all_extensions)]),
    Twin(name="a ledger that drops a charge", mechanism="threshold",
         patches=lambda: [(ledger_records, "sum_of", later.sum_without_first)]),
    Twin(name="a ledger that takes the largest charge", mechanism="threshold",
         patches=lambda: [(ledger_records, "sum_of", later.largest_of),
                          (budget_filter, "sum_of", later.largest_of)]),
    Twin(name="a ledger that counts what was published", mechanism="threshold",
         patches=lambda: [(ledger_records, "read_entries", later.entries_that_are_published)]),
    Twin(name="a ledger with an open split of delta", mechanism="threshold",
         patches=lambda: [(ledger_filter, "fits", later.fits_with_an_open_split)]),
    Twin(name="a ledger that books epsilon as mu", mechanism="threshold",
         patches=lambda: [(budget_filter, "mu_of_pure", later.mu_of_epsilon)]),
    Twin(name="a ledger with caps that are not nested", mechanism="threshold",
         patches=lambda: [(ledger_filter, "contains", lambda limits, others: True)]),
    Twin(name="a ledger that books a period twice", mechanism="threshold",
         patches=lambda: [(ledger, "check_step", lambda entries, source, step: None)]),
    Twin(name="a ledger that books after the release", mechanism="threshold",
         patches=lambda: [(TableMaker, "count", later.count_and_draw),
                          (TableMaker, "draw", later.tables_that_are_drawn)]),
)  # fmt: skip
