"""Ten broken variants of murmurlog, written without a look at the audit.

They were written from the mechanisms' pages and code alone and committed before the first run of the audit on
them, so that how many are detected says something about faults that nobody had in mind. Each has one fault that
a developer could have introduced for a reason, which its comment states. `python audits/run.py --blind` runs them.
"""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import ibis
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
holders: Any = import_module("murmurlog.mechanisms.rounds.holders")
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
    for batch in tally.batches():
        users = batch.column("users").to_numpy(zero_copy_only=False)
        noise = threshold.draw(
            noise=self.noise, scale=self.scale, count=len(users), entropy=entropy
        )
        shown = users + noise
        passed = shown >= self.T
        kept.append(batch.select(list(tally.keys)).filter(pa.array(passed)))
        noisy.append(shown[passed])
        exact.append(users[passed])
    none = np.zeros(0, np.int64)
    estimates = self.selection().estimates(np.concatenate([none, *noisy]))
    table = pa.Table.from_batches(kept, threshold.keys_schema(tally.keys))
    made: pa.Table = threshold.with_counts(
        table,
        estimates.users,
        stderr=estimates.stderr,
        reliable=4 * estimates.stderr <= np.concatenate([none, *exact]),
    )
    return made


# "A published count below the threshold confuses readers: draw it again."
def release_counts_above_T(self: Any, tally: Any, *, entropy: Entropy) -> pa.Table:
    korolova.check_bound(tally, self.d)
    kept = []
    for batch in tally.batches():
        true = batch.column(tally.count).to_numpy(zero_copy_only=False)
        first = korolova.draw(noise="geometric", scale=self.b, count=len(true), entropy=entropy)
        selected = true + first >= self.T
        keys, true = batch.select(list(tally.keys)).filter(pa.array(selected)), true[selected]
        if self.b_q is None:
            kept.append(keys)
            continue
        noisy = np.full(len(true), self.T - 1)
        while len(low := np.flatnonzero(noisy < self.T)):
            noisy[low] = true[low] + korolova.draw(
                noise="geometric", scale=self.b_q, count=len(low), entropy=entropy
            )
        kept.append(korolova.with_noise_error(keys, noisy, scale=self.b_q, count=tally.count))
    return korolova._table(kept, tally.keys, self.count if self.b_q else None)


# "The paper's tau' is one below T."
def release_from_tau(self: Any, tally: Any, *, entropy: Entropy) -> pa.Table:
    return _real_zealous(replace(self, T=self.T - 1), tally, entropy=entropy)


_real_zealous = zealous.Zealous.release


# "A session ends when nothing happened for half an hour": `group_by` is missing.
def sessions_by_a_common_clock(
    rows: Any, session_gap: float, longest: int | None, labels: Any, engine: Any, listed: Any
) -> Any:
    rows = rows.filter(rows.time.notnull())
    in_order = ibis.window(group_by="unit", order_by=["time", "query"])
    of_all = ibis.window(order_by=["time", "query"])
    before = rows.select(
        "unit",
        "time",
        "query",
        previous=rows.query.lag().over(in_order),
        gap=engine.microseconds(rows.time) - engine.microseconds(rows.time.lag().over(of_all)),
    )
    starts = before.gap.isnull() | (before.gap > items._longest(session_gap))
    begun = before.mutate(starts=starts.cast("int64"))
    so_far = ibis.window(order_by="time", range=(None, 0))
    numbered = begun.mutate(session=begun.starts.sum().over(so_far))
    changed = numbered.previous.isnull() | (numbered.query != numbered.previous)
    asked = numbered.filter((numbered.starts == 1) | changed)
    if listed is not None:
        asked = asked.semi_join(listed, "query")
    if longest is not None:
        within = ibis.window(group_by=["unit", "session"], order_by=["time", "query"])
        asked = asked.mutate(place=ibis.row_number().over(within)).filter(ibis._.place < longest)
    shown = asked.mutate(label=asked.query) if labels is None else labels.label(asked, engine)
    whole = shown.group_by(["unit", "session"]).aggregate(
        time=shown.time.min(), queries=shown.label.collect(order_by=[shown.time, shown.query])
    )
    return whole.filter(whole.queries.length() >= 2)


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


_real_passers = pool.passers


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
        patches=lambda: [(holders.Holders, "weighted", weigh_by_bin)],
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
        patches=lambda: [(items, "_sessions", sessions_by_a_common_clock)],
    ),
    Twin(
        name="synthetic: empty bins get no noise",
        mechanism="synthetic",
        patches=lambda: [(synthetic, "_noisy", noise_where_somebody_is)],
    ),
    Twin(
        name="pool: never more fakes than accepted",
        mechanism="pool",
        patches=lambda: [(pool, "passers", at_most_the_accepted_fakes)],
    ),
    Twin(
        name="ledger: releases that failed are not counted",
        mechanism="threshold",
        patches=lambda: [(ledger, "read_account", account_of_published)],
    ),
)
