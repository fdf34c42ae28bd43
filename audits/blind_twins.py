"""Ten broken variants of murmurlog, written without a look at the audit.

They were written from the mechanisms' pages and code alone and committed before the first run of the audit on
them, so that how many are detected says something about faults that nobody had in mind. Each has one fault that
a developer could have introduced for a reason, which its comment states. `python audits/run.py --blind` runs them.
"""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from twins import Twin

from murmurlog.privacy import Amounts, count_weight, histogram_bins, survival
from murmurlog.privacy.counts import WeightedCounts
from murmurlog.privacy.sampler import Entropy, Integers
from murmurlog.publishing.ledger_records import Account, read_entries

# As `Any`: a twin uses the names that its module imported, as a changed line of that module would.
items: Any = import_module("murmurlog.counting.items")
korolova: Any = import_module("murmurlog.mechanisms.korolova")
pool: Any = import_module("murmurlog.mechanisms.pool")
counting: Any = import_module("murmurlog.mechanisms.rounds.count")
synthetic: Any = import_module("murmurlog.mechanisms.synthetic.mechanism")
threshold: Any = import_module("murmurlog.mechanisms.threshold")
zealous: Any = import_module("murmurlog.mechanisms.zealous")
ledger: Any = import_module("murmurlog.publishing.ledger")


# "The histogram has a bin for each m; weights should follow the same bins."
def weigh_by_bin(self: Any, d2: int) -> Integers:
    sums = np.zeros(self.size, np.int64)
    starts = np.array(histogram_bins(self.size), np.int64)
    if not len(self.m):
        return sums
    least = starts[np.searchsorted(starts, self.m, side="right") - 1]
    m, which = np.unique(least, return_inverse=True)
    weights = np.array([count_weight(int(each), d2) for each in m], np.int64)
    np.add.at(sums, self.item, self.units * weights[which])
    return sums


# "The histogram only chooses d2; the counts are what is published."
def loss_of_counts_alone(self: WeightedCounts) -> float:
    return 1 / self.scale**2


# "Whether a count is reliable should not depend on luck."
def release_with_exact_reliability(self: Any, tally: Any, *, entropy: Entropy) -> pa.Table:
    threshold.check_bound(tally, self.d)
    kept, noisy, exact = [], [], []
    for shard in tally:
        noise = threshold.draw(
            noise=self.noise, scale=self.scale, count=len(shard.sums), entropy=entropy
        )
        shown = shard.sums + noise
        passed = shown >= self.T
        kept.append(shard.keys[passed])
        noisy.append(shown[passed])
        exact.append(shard.sums[passed])
    estimates = self.selection().estimates(np.concatenate(noisy))
    made: pa.Table = threshold.with_counts(
        tally.table(np.concatenate(kept)),
        estimates.users,
        stderr=estimates.stderr,
        reliable=4 * estimates.stderr <= np.concatenate(exact),
    )
    return made


# "A published count below the threshold confuses readers: draw it again."
def release_counts_above_T(self: Any, tally: Any, *, entropy: Entropy) -> pa.Table:
    korolova.check_bound(tally, self.d)
    kept, counts = [], []
    for shard in tally:
        first = korolova.draw(
            noise="geometric", scale=self.b, count=len(shard.sums), entropy=entropy
        )
        selected = shard.sums + first >= self.T
        kept.append(shard.keys[selected])
        counts.append(shard.sums[selected])
    table, true = tally.table(np.concatenate(kept)), np.concatenate(counts)
    if self.b_q is None:
        return table
    noisy = np.full(len(true), self.T - 1)
    while len(low := np.flatnonzero(noisy < self.T)):
        noisy[low] = true[low] + korolova.draw(
            noise="geometric", scale=self.b_q, count=len(low), entropy=entropy
        )
    made: pa.Table = korolova.with_noise_error(table, noisy, scale=self.b_q, count=tally.count)
    return made


# "The paper's tau' is one below T."
def release_from_tau(self: Any, tally: Any, *, entropy: Entropy) -> pa.Table:
    return _real_zealous(replace(self, T=self.T - 1), tally, entropy=entropy)


_real_zealous = zealous.Zealous.release


# "A session ends when nothing happened for half an hour": `group_by` is missing.
def sessions_by_a_common_clock(finder: Any, rows: Any) -> Any:
    order = items._in_sequence(finder, rows)
    unit, time, query = rows.unit[order], rows.time[order], rows.query.codes[order]
    starts = np.ones(len(query), bool)
    starts[1:] = unit[1:] != unit[:-1]
    if len(time):
        every = np.sort(time)
        before = every[np.maximum(np.searchsorted(every, time) - 1, 0)]  # whoever searched
        starts |= time - before > finder.gap
    session = np.cumsum(starts)
    if finder.published is not None:
        known = (finder.published().places(rows.query.keys) >= 0)[query]
        session, unit, time, query = session[known], unit[known], time[known], query[known]
    asked = np.ones(len(query), bool)
    asked[1:] = (session[1:] != session[:-1]) | (query[1:] != query[:-1])
    session, unit, time, query = session[asked], unit[asked], time[asked], query[asked]
    first = np.flatnonzero(np.diff(session, prepend=0))
    length = np.diff(first, append=len(session))
    if finder.longest is not None:
        length = np.minimum(length, finder.longest)
    first, length = first[length >= 2], length[length >= 2]
    part = items._Part.of(rows.query)
    item, keys, names = items.number_lists(part, query, first, length, rows.text_keys)
    return items.Items(
        unit=unit[first], time=time[first], item=item, keys=keys, names=(names,),
        unit_keys=rows.unit_keys, texts=rows.texts, text_keys=rows.text_keys,
    )  # fmt: skip


# "Noise in empty bins only invents users that nobody is like."
def noise_where_somebody_is(true: Integers, scale: float, entropy: Entropy) -> Integers:
    some = np.flatnonzero(true)
    noisy = true.copy()
    noisy[some] += synthetic.draw(noise="geometric", scale=scale, count=len(some), entropy=entropy)
    return noisy


# "--fakes says how many fake rows are accepted, so there must never be more."
def at_most_the_accepted_fakes(*, scale: float, T: int, count: int, entropy: Entropy) -> int:
    accepted = math.ceil(count * survival(noise="geometric", scale=scale, x=T))
    many: int = _real_passers(scale=scale, T=T, count=count, entropy=entropy)
    return min(many, accepted)


_real_passers = pool.draw_passers


# "A release that failed has published nothing, so it must not use up the cap."
def account_of_published(db: Any, source: str) -> Account:
    account: Account = _real_account(db, source)
    open_ones = [e for e in read_entries(db) if e.source == source and e.state != "committed"]
    spent = [entry.amounts or Amounts() for entry in open_ones]
    booked = Amounts(
        *(total - math.fsum(parts) for total, *parts in zip(account.booked, *spent, strict=True))
    )
    return replace(account, booked=booked)


_real_account = ledger.read_account

BLIND = (
    Twin(
        name="rounds: counts weighted by the bin of m",
        mechanism="rounds",
        patches=lambda: [(counting.Holders, "weighted_counts", weigh_by_bin)],
    ),
    Twin(
        name="rounds: the histogram is not in the total",
        mechanism="rounds",
        patches=lambda: [(WeightedCounts, "loss", property(loss_of_counts_alone))],
    ),
    Twin(
        name="threshold: reliable by the exact count",
        mechanism="threshold",
        patches=lambda: [(threshold.Threshold, "release", release_with_exact_reliability)],
    ),
    Twin(
        name="korolova: counts below T are drawn again",
        mechanism="korolova",
        patches=lambda: [(korolova.Korolova, "release", release_counts_above_T)],
    ),
    Twin(
        name="zealous: published from T - 1",
        mechanism="zealous",
        patches=lambda: [(zealous.Zealous, "release", release_from_tau)],
    ),
    Twin(
        name="sessions: the gap is measured over all users",
        mechanism="sessions",
        patches=lambda: [
            (items, "_MAKERS", {**items._MAKERS, "session": sessions_by_a_common_clock})
        ],
    ),
    Twin(
        name="synthetic: empty bins get no noise",
        mechanism="synthetic",
        patches=lambda: [(synthetic, "_noisy", noise_where_somebody_is)],
    ),
    Twin(
        name="pool: never more fakes than accepted",
        mechanism="pool",
        patches=lambda: [(pool, "draw_passers", at_most_the_accepted_fakes)],
    ),
    Twin(
        name="ledger: releases that failed are not counted",
        mechanism="threshold",
        patches=lambda: [(ledger, "read_account", account_of_published)],
    ),
)
