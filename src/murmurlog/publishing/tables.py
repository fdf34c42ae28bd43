"""Makes the tables of a release from a log: counts, draws noise, post-processes. Books nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from murmurlog.bundle.schema import (
    AT_LEAST,
    count_of,
    keys_of,
    keys_schema,
    named_as,
    notes_of,
    with_intervals,
)
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import FOLLOWING, View
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.keyed_values import check_values
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Made:
    """The tables of a release, not yet written, and their public notes."""

    tables: Mapping[str, pa.Table]
    notes: Mapping[str, Mapping[str, Any]]
    counting: Mapping[str, Mapping[str, Any]]  # what the counts are about, and how they were made
    account: Account | None  # as it was before the release; None if it is not booked


def make(
    plans: Mapping[str, Plan],
    log: Log,
    view: View,
    reading: Reading,
    *,
    entropy: Entropy,
    set_only: bool = False,
    reserve: Callable[[], Account | None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> Made:
    """Every table, counted and drawn. `reserve` is called in between; from then on the budget is spent."""
    check_values(log, plans, view)
    account, drawn = _count_and_draw(plans, log, view, reading, entropy, say, reserve=reserve)
    notes = {kind: notes_of(table) for kind, table in drawn.items()}
    counting = {
        kind: {"meaning": AT_LEAST} | notes_of(table, name="counting")
        for kind, table in drawn.items()
        if count_of(table) and not set_only
    }
    drawn = {kind: with_intervals(table) for kind, table in drawn.items()}
    for mechanism in dict.fromkeys(type(plan.mechanism) for plan in plans.values()):
        drawn = mechanism.finish(drawn)
    if set_only:
        drawn = {kind: rows.select(list(keys_of(kind, view.by))) for kind, rows in drawn.items()}
    tables = {kind: named_as(table, reading.by) for kind, table in drawn.items()}
    return Made(tables=tables, notes=notes, counting=counting, account=account)


def _count_and_draw(
    plans: Mapping[str, Plan],
    log: Log,
    view: View,
    reading: Reading,
    entropy: Entropy,
    say: Callable[[str], None],
    *,
    reserve: Callable[[], Account | None],
) -> tuple[Account | None, dict[str, pa.Table]]:
    """The account before the reservation, and every table as drawn."""
    waiting = _waiting(plans)
    gathered, published = dict[str, Any](), dict[str, pa.Table]()

    def count(kind: str) -> None:
        say(f"counting {kind}")
        own = replace(view, kind=kind, published=published, say=say)
        bounding = entropy.stream(kind, "bound")
        gathered[kind] = plans[kind].mechanism.gather(log, own, entropy=bounding)

    for kind in plans:
        if kind not in waiting:
            count(kind)
    _count_nothing(plans, waiting, log, view, entropy)
    log.partitions.set_aside()  # a full disk is seen before the budget is spent
    account = reserve()
    # Queries before tables that name them, and left_out last.
    for kind in sorted(plans, key=lambda k: (k in waiting, k != "query", k == "left_out")):
        if kind in waiting:
            count(kind)
        say(f"drawing {kind}")
        plan = plans[kind]
        table = plan.mechanism.release(gathered.pop(kind), entropy=entropy.stream(kind))
        from_log = plan.mechanism.needs_delta and "A4" not in plan.guarantee.assumptions
        published[kind] = table if from_log else reading.allowed(table)
    return account, {kind: published[kind] for kind in plans}


def _count_nothing(
    plans: Mapping[str, Plan], waiting: set[str], log: Log, view: View, entropy: Entropy
) -> None:
    """Counts the waiting tables on an empty log, so that wrong parameters fail before the reservation."""
    nothing = log.empty()
    published = {kind: keys_schema(keys_of(kind, view.by)).empty_table() for kind in plans}
    for kind in waiting:
        own = replace(view, kind=kind, published=published)
        plans[kind].mechanism.gather(nothing, own, entropy=entropy)


def _waiting(plans: Mapping[str, Plan]) -> set[str]:
    """The tables that are counted after other tables are drawn, because they depend on their keys.

    Such a table has its own guarantee, whatever was published before, so budgets add up; tables
    without differential privacy have no such guarantee and do not wait.
    """
    following = {
        kind
        for kind, plan in plans.items()
        if "query" in plans and kind in FOLLOWING and plan.guarantee.notion == "dp"
    }
    return following | {kind for kind, plan in plans.items() if plan.mechanism.waits}
