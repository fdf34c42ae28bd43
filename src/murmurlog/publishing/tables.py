"""Makes the tables of a release from a log: counts, draws noise, post-processes. Books nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
from murmurlog.publishing.plan import Plan


@dataclass(frozen=True, kw_only=True)
class ReleasedTables:
    """The tables of a release, not yet written, and their public notes."""

    tables: Mapping[str, pa.Table]
    notes: Mapping[str, Mapping[str, Any]]
    counting: Mapping[str, Mapping[str, Any]]  # what the counts are about, and how they were made


@dataclass(frozen=True, kw_only=True)
class TableMaker:
    """Counts, draws and finishes the tables of a release, in this order."""

    plans: Mapping[str, Plan]
    log: Log
    view: View
    reading: Reading
    entropy: Entropy
    set_only: bool = False
    say: Callable[[str], None] = lambda _: None

    def count(self) -> dict[str, Any]:
        """The private counts of every table that waits for no other. What could fail later fails here.

        The waiting tables are counted on an empty log, so that wrong parameters show before the reservation.
        """
        check_values(self.log, self.plans, self.view)
        counts = {kind: self._count(kind, {}) for kind in self.plans if kind not in self.waiting}
        empty = self.log.empty()
        published = {
            kind: keys_schema(keys_of(kind, self.view.by)).empty_table() for kind in self.plans
        }
        for kind in self.waiting:
            view = replace(self.view, kind=kind, published=published)
            self.plans[kind].mechanism.gather(empty, view, entropy=self.entropy)
        self.log.partitions.set_aside()  # a full disk is seen before the budget is spent
        return counts

    def draw(self, counts: dict[str, Any]) -> dict[str, pa.Table]:
        """Every table as drawn; one that waits is counted when the tables before it are drawn."""
        published = dict[str, pa.Table]()
        # Queries before tables that name them, and left_out last.
        for kind in sorted(
            self.plans, key=lambda k: (k in self.waiting, k != "query", k == "left_out")
        ):
            if kind in self.waiting:
                counts[kind] = self._count(kind, published)
            self.say(f"drawing {kind}")
            plan = self.plans[kind]
            table = plan.mechanism.release(counts.pop(kind), entropy=self.entropy.stream(kind))
            from_log = plan.mechanism.needs_delta and "A4" not in plan.guarantee.assumptions
            published[kind] = table if from_log else self.reading.allowed(table)
        return {kind: published[kind] for kind in self.plans}

    def finish(self, tables: Mapping[str, pa.Table]) -> ReleasedTables:
        """The tables as they are published: with intervals, or without counts."""
        notes = {kind: notes_of(table) for kind, table in tables.items()}
        counting = {
            kind: {"meaning": AT_LEAST} | notes_of(table, name="counting")
            for kind, table in tables.items()
            if count_of(table) and not self.set_only
        }
        tables = {kind: with_intervals(table) for kind, table in tables.items()}
        for mechanism in dict.fromkeys(type(plan.mechanism) for plan in self.plans.values()):
            tables = mechanism.finish(tables)
        if self.set_only:
            by = self.view.by
            tables = {kind: rows.select(list(keys_of(kind, by))) for kind, rows in tables.items()}
        tables = {kind: named_as(table, self.reading.by) for kind, table in tables.items()}
        return ReleasedTables(tables=tables, notes=notes, counting=counting)

    @cached_property
    def waiting(self) -> frozenset[str]:
        """The tables that are counted after other tables are drawn, because they depend on their keys.

        Such a table has its own guarantee, whatever was published before, so budgets add up; tables
        without differential privacy have no such guarantee and do not wait.
        """
        following = {
            kind
            for kind, plan in self.plans.items()
            if "query" in self.plans and kind in FOLLOWING and plan.guarantee.notion == "dp"
        }
        return frozenset(following | {k for k, plan in self.plans.items() if plan.mechanism.waits})

    def _count(self, kind: str, published: Mapping[str, pa.Table]) -> Any:
        self.say(f"counting {kind}")
        view = replace(self.view, kind=kind, published=published, say=self.say)
        bounding = self.entropy.stream(kind, "bound")
        return self.plans[kind].mechanism.gather(self.log, view, entropy=bounding)
