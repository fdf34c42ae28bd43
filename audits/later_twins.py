"""Faults of weighted counts, session trees, public pools, earlier keys and the ledger, for the broken twins of `twins.py`.

Each function stands in the place of one of murmurlog's and does one thing wrong.
"""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import murmurlog.counting.public_sets.sets as sets
import murmurlog.mechanisms.rounds.mechanism as rounds
import murmurlog.mechanisms.rounds.weights as spread
import murmurlog.privacy.budget_filter as budget_filter
import murmurlog.publishing.ledger_records as ledger_records
from murmurlog.mechanisms import Rounds, SessionTree
from murmurlog.mechanisms.rounds.holders import Holders
from murmurlog.mechanisms.rounds.pools import pool_keys
from murmurlog.privacy import Amounts, Loss, loss_of_rounds
from murmurlog.privacy.counts import GRID, WeightedCounts
from murmurlog.privacy.sampler import draw
from murmurlog.publishing.tables import make

SMALLER = 0.9
COMMON = 5  # users from which a query is taken for known

# --- weighted counts ------------------------------------------------------------------------------


def noise_of_one_item(self: WeightedCounts, d2: int) -> float:
    """As if a unit moved one count by one, not d2 of them."""
    return self.scale


def loss_without_histogram(self: WeightedCounts) -> float:
    return 1 / self.scale**2


def histogram_with_less(entropy: Any, scale: float, count: int) -> Any:
    """Nine tenths of the noise of the histogram, taken after an honest draw; counts have steps of 2^-20."""
    drawn = draw(noise="gaussian", scale=scale, count=count, entropy=entropy)
    if scale > GRID / 16:
        return drawn
    return np.floor(SMALLER * drawn + np.random.default_rng().random(count)).astype(np.int64)


_real_histogram = Holders.histogram


def units_of_at_least(self: Holders) -> Any:
    """Bins of m and more: a unit is in all bins up to its own."""
    return np.cumsum(_real_histogram(self)[::-1])[::-1]


def weight_rounded_up(m: int, d2: int) -> int:
    return GRID if m <= d2 else math.isqrt(GRID * GRID * d2 // m) + 1


# --- session trees --------------------------------------------------------------------------------

_real_select = Rounds.select


def loss_of_one_level(self: SessionTree, *, neighbours: str = "add-remove") -> Loss:
    """As if a unit held sessions of one length only."""
    return loss_of_rounds(self.selection.schedule, neighbours=neighbours)


def select_all_extensions(self: Rounds, held: Any, *, entropy: Any) -> Any:
    """Whatever begins with a published session is published, too."""
    lengths = held.names.queries.length() if held.kind == "session" and held.size else None
    if lengths is not None and lengths.max().to_pyarrow().as_py() > 2:
        return np.arange(held.size)
    return _real_select(self, held, entropy=entropy)


# --- public pools ---------------------------------------------------------------------------------

_rounds_release, _real_weights, _real_unheld = Rounds.release, spread.weights, sets.unheld


def release_by_what_is_held(self: Rounds, held: Any, *, entropy: Any) -> Any:
    """Thresholds for as many pool keys as the log has."""
    if not self.pools:
        return _rounds_release(self, held, entropy=entropy)
    size = max(1, int(held.in_pools.count().to_pyarrow().as_py()))
    fakes = min(self.fakes(), 0.4 * size)
    T = pool_keys(self.schedule, size=size, fakes=fakes, late=rounds.LATE).thresholds
    fewer = replace(self, pools=tuple(replace(pool, thresholds=T) for pool in self.pools))
    return _rounds_release(fewer, held, entropy=entropy)


def none_that_nobody_holds(
    schedule: Any, keys: Any, judge: Any, *, count: int, entropy: Any
) -> int:
    """Only pool keys that the log has get noise."""
    return 0


def judged_at_the_end(schedule: Any, keys: Any, judge: Any, *, count: int, entropy: Any) -> int:
    """Keys that nobody holds pass in the last round or not at all."""
    last, remembered = schedule.rounds - 1, np.zeros(count, np.int64)
    for k, scale in enumerate(schedule.scales):
        z = draw(noise="gaussian", scale=scale * GRID, count=count, entropy=entropy)
        if k < last:
            remembered = remembered + schedule.past[k] * z
    return int(judge(last, z, remembered).passed.sum())


def chosen_among_all(domain: Any, *, count: int, held: Any, engine: Any, entropy: Any) -> Any:
    """Fakes are chosen among all pool keys, also such as somebody holds."""
    return _real_unheld(domain, count=count, held=held.limit(0), engine=engine, entropy=entropy)


def weights_apart(held: Any, rows: Any) -> Any:
    """A unit gives pool keys a weight of norm 1, and other keys another one."""
    if held.in_pools is None:
        return _real_weights(held, rows)
    rows = spread.as_table(held, rows)
    inside, outside = (
        getattr(rows, join)(held.in_pools, "item") for join in ("semi_join", "anti_join")
    )
    return _real_weights(held, inside) + _real_weights(held, outside)


# --- earlier keys ---------------------------------------------------------------------------------

_real_hold, _real_in_order = spread.hold, vars(rounds)["in_order"]


def hold_what_is_asked(log: Any, view: Any, **more: Any) -> Any:
    """Earlier keys that nobody asks any more are left out."""
    held = _real_hold(log, view, **more)
    if held.earlier is None:
        return held
    asked = log.table.select("query").distinct().to_pyarrow()
    return replace(held, earlier=held.earlier.join(asked, "query", join_type="left semi"))


def hold_what_is_common(log: Any, view: Any, **more: Any) -> Any:
    """Queries of this log that five users ask are known already, as everybody says."""
    if not view.earlier:
        return _real_hold(log, view, **more)
    users = log.table.group_by("query").aggregate(n=log.table.user.nunique())
    common = users.filter(users.n >= COMMON).select("query").to_pyarrow()
    given = view.earlier["query"]
    known = pa.concat_tables([given, common.cast(given.schema)])
    return _real_hold(log, replace(view, earlier={"query": known}), **more)


def release_with_exact_earlier(self: Rounds, held: Any, *, entropy: Any) -> Any:
    """Earlier keys are public, so their counts get no noise."""
    if held.earlier is None:
        return _rounds_release(self, held, entropy=entropy)
    known = set(held.earlier[held.keys[0]].to_pylist())
    exact: list[Any] = []

    def in_order(keys: Any) -> Any:
        ordered = _real_in_order(keys)
        exact[:] = [np.array([key in known for key in ordered[held.keys[0]].to_pylist()], bool)]
        return ordered

    def drawn(entropy: Any, scale: float, count: int) -> Any:
        noise = draw(noise="gaussian", scale=scale, count=count, entropy=entropy)
        return np.where(exact[0], 0, noise) if count == len(exact[0]) else noise

    with (
        mock.patch.object(rounds, "in_order", in_order),
        mock.patch.object(rounds, "_drawn", drawn),
    ):
        return _rounds_release(self, held, entropy=entropy)


# --- the ledger -----------------------------------------------------------------------------------

_real_sum, _real_entries, _real_make = budget_filter.sum_of, ledger_records.read_entries, make


def sum_without_first(booked: Any) -> Amounts:
    """The first release of a source is forgotten."""
    return _real_sum(list(booked)[1:])


def largest_of(booked: Any) -> Amounts:
    return Amounts(*map(max, zip(*booked, Amounts(), strict=True)))


def entries_that_are_published(db: Any) -> Any:
    """What was reserved and not published costs nothing."""
    return [entry for entry in _real_entries(db) if entry.state == "committed"]


def fits_with_an_open_split(limits: Amounts, booked: Any, more: Amounts) -> bool:
    """delta that keys do not use may be spent on noise, and the other way round."""
    spent = _real_sum([*booked, more])
    most, some = (budget_filter.delta_of_limits(each, epsilon=2.0) for each in (limits, spent))
    return some <= most


def mu_of_epsilon(epsilon: float) -> float:
    """As if anything epsilon-DP were as private as a Gaussian of mu = epsilon."""
    return epsilon


def make_and_then_book(*given: Any, reserve: Any, **more: Any) -> Any:
    """The cost is booked when everything is drawn."""
    made = _real_make(*given, **more)
    return replace(made, account=reserve())
