"""Faults of weighted counts, session trees, public pools, earlier keys and the ledger, for the broken twins of `twins.py`.

Each function stands in the place of one of murmurlog's and does one thing wrong.
"""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from log_rows import queries_of, rows_of

import murmurlog.counting.public_sets.sets as sets
import murmurlog.mechanisms.rounds.mechanism as rounds
import murmurlog.mechanisms.rounds.select as selecting
import murmurlog.privacy.budget_filter as budget_filter
import murmurlog.publishing.ledger_records as ledger_records
from murmurlog.counting.unit_weights import give_weights
from murmurlog.logs.text_keys import NO_KEYS, distinct_keys, places_of
from murmurlog.mechanisms import Rounds, SessionTree
from murmurlog.mechanisms.rounds.count import Holders
from murmurlog.mechanisms.rounds.pools import pool_keys
from murmurlog.privacy import Amounts, Loss, loss_of_rounds
from murmurlog.privacy.counts import GRID, WeightedCounts
from murmurlog.privacy.rounds import FULL
from murmurlog.privacy.sampler import draw
from murmurlog.publishing.tables import TableMaker

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


def select_all_extensions(self: Rounds, level: Any, *, entropy: Any) -> Any:
    """Whatever begins with a published session is published, too."""
    if level.kind != "session":
        return _real_select(self, level, entropy=entropy)
    lengths = level.bounded.results(lambda items: int(items.names[0].length.max(initial=0)))
    if max(lengths) > 2:
        keys = [NO_KEYS, *(shard.keys for shard in level.first)]
        return selecting.Selected(keys=np.concatenate(keys), held_keys=())
    return _real_select(self, level, entropy=entropy)


# --- public pools ---------------------------------------------------------------------------------

_rounds_release, _real_unheld = Rounds.release, sets.unheld


def release_by_what_is_held(self: Rounds, held: Any, *, entropy: Any) -> Any:
    """Thresholds for as many pool keys as the log has."""
    if not self.pools:
        return _rounds_release(self, held, entropy=entropy)
    size = max(
        1,
        sum(
            int((places_of(s.keys, keys_of_pools(held.pools, held.text_keys)) >= 0).sum())
            for s in held.first
        ),
    )
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


def chosen_among_all(
    domain: Any, *, count: int, held_keys: Any, text_keys: Any, entropy: Any
) -> Any:
    """Fakes are chosen among all pool keys, also such as somebody holds."""
    return _real_unheld(
        domain, count=count, held_keys=NO_KEYS, text_keys=text_keys, entropy=entropy
    )


def keys_of_pools(pools: Any, text_keys: Any) -> Any:
    """The keys of all pools, in order."""
    listed = [text_keys.columns(pool.keys(np.arange(pool.size)).columns) for pool in pools]
    return distinct_keys(np.concatenate([NO_KEYS, *listed]))


_pool_keys = [NO_KEYS]


def candidates_and_pool_keys(log: Any, view: Any, *, pools: Any = (), **more: Any) -> Any:
    """The candidates; notes the pools' keys before any weights are summed."""
    _pool_keys[:] = [keys_of_pools(pools, log.text_keys)]
    return _real_candidates(log, view, pools=pools, **more)


def weigh_first_apart(items: Any) -> Any:
    return _weigh_apart(items, np.full(len(items.keys), FULL))


def weigh_apart(items: Any) -> Any:
    """A unit gives pool keys a weight of norm 1, and other keys another one."""
    return _weigh_apart(items, items.attention)


def _weigh_apart(items: Any, attention: Any) -> Any:
    inside = (places_of(items.keys, _pool_keys[0]) >= 0)[items.item]
    weights = np.zeros(len(items.item), np.int64)
    for some in (inside, ~inside):
        if some.any():
            weights[some] = give_weights(items.unit[some], attention[items.item[some]], grid=GRID)
    return selecting._add_weights(items.item, items.keys, weights)


# --- earlier keys ---------------------------------------------------------------------------------

_real_candidates, _real_in_order = selecting.candidates_of, vars(rounds)["in_order"]


def candidates_with_what_is_asked(log: Any, view: Any, **more: Any) -> Any:
    """Earlier keys that nobody asks any more are left out."""
    made = _real_candidates(log, view, **more)
    if made.earlier is None:
        return made
    asked = pa.table({"query": pa.array(sorted(queries_of(log)), pa.string())})
    return replace(made, earlier=made.earlier.join(asked, "query", join_type="left semi"))


def candidates_without_what_is_common(log: Any, view: Any, **more: Any) -> Any:
    """Queries of this log that five users ask are known already, as everybody says."""
    if not view.earlier:
        return _real_candidates(log, view, **more)
    users: dict[str, set[Any]] = {}
    for _, user, _, query, *_ in rows_of(log):
        users.setdefault(query, set()).add(user)
    common = [query for query, some in users.items() if len(some) >= COMMON]
    given = view.earlier["query"]
    known = pa.concat_tables([given, pa.table({"query": common}, given.schema)])
    return _real_candidates(log, replace(view, earlier={"query": known}), **more)


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
        mock.patch.object(rounds, "_draw_noise", drawn),
    ):
        return _rounds_release(self, held, entropy=entropy)


# --- the ledger -----------------------------------------------------------------------------------

_real_sum, _real_entries = budget_filter.sum_of, ledger_records.read_entries
_real_count, _real_draw = TableMaker.count, TableMaker.draw


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


def count_and_draw(self: TableMaker) -> Any:
    """Everything is drawn before the cost is booked."""
    return _real_draw(self, _real_count(self))


def tables_that_are_drawn(self: TableMaker, tables: Any) -> Any:
    return tables
