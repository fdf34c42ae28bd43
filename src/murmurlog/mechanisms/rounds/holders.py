"""Who holds the published items: all distinct items of every unit, not bounded.

The result says, for each published item, how many units hold it together with m - 1 others of the
published ones. The histogram of m and the weighted counts are sums over it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.cluster_rounds import HOLDERS, holders_in_partition
from murmurlog.counting.holdings import Holdings
from murmurlog.counting.items import EncodedItems
from murmurlog.counting.unit_weights import count_holders
from murmurlog.logs.log import ClusterLog
from murmurlog.mechanisms.rounds.weights import Held
from murmurlog.privacy import count_weight, histogram_bins
from murmurlog.privacy.sampler import Integers

Pairs: TypeAlias = tuple[Integers, Integers, Integers]  # item, m, units


@dataclass(frozen=True, kw_only=True)
class Holders:
    """For some pairs of a published item and m: the number of units with m of the items that hold it."""

    item: Integers
    m: Integers
    units: Integers
    size: int  # how many items are published

    def histogram(self) -> Integers:
        """The number of units in each bin of m; a unit with m >= 1 is in exactly one bin."""
        starts = np.array(histogram_bins(self.size), np.int64)
        if not len(self.m):
            return np.zeros(len(starts), np.int64)
        rows = np.zeros(int(self.m.max()) + 1, np.int64)
        np.add.at(rows, self.m, self.units)
        m = np.flatnonzero(rows)
        found = np.zeros(len(starts), np.int64)
        # A unit with m items is in m rows.
        np.add.at(found, np.searchsorted(starts, m, side="right") - 1, rows[m] // m)
        return found

    def weighted(self, d2: int) -> Integers:
        """The sum of the units' weights of every item, in steps of 2^-20."""
        sums = np.zeros(self.size, np.int64)
        m, which = np.unique(self.m, return_inverse=True)
        weights = np.array([count_weight(int(each), d2) for each in m], np.int64)
        if len(m):
            np.add.at(sums, self.item, self.units * weights[which])
        return sums


def find_holders(held: Held, published: pa.Table) -> Holders:
    """Who holds the published items; `published` has the key columns of each, in order."""
    size = published.num_rows
    if not size:
        parts: Iterable[Pairs] = ()
    elif held.holdings is not None:
        parts = (_from_codes(each, published) for each in held.holdings())
    elif (
        held.kind == held.items.kind
        and isinstance(held.items, EncodedItems)
        and isinstance(held.items.log, ClusterLog)
    ):
        find = partial(holders_in_partition, finder=held.items.finder, published=published)
        # No unit is in two partitions, so the units of an item are those of all together.
        parts = (_columns(held, held.items.log.partitions.map(find, HOLDERS)),)
    elif held.kind != held.items.kind:  # sets of items
        parts = (_from_table(held, _holders_of_sets(held, published)),)
    else:
        parts = (_from_table(held, _holders_of_items(held, published)),)
    none = (np.zeros(0, np.int64),) * 3
    item, m, units = (np.concatenate(columns) for columns in zip(none, *parts, strict=True))
    return Holders(item=item, m=m, units=units, size=size)


def _from_codes(holdings: Holdings, published: pa.Table) -> Pairs:
    """Of an encoded log or one of its partitions: no unit is in two."""
    size = published.num_rows
    at = holdings.places(published)[holdings.item]
    some = at >= 0
    found = holders_of_pairs(holdings.unit[some], at[some], size=size)
    return found.item, found.m, found.units


def holders_of_pairs(unit: Integers, item: Integers, *, size: int) -> Holders:
    """The holders of items 0 ... size - 1, from pairs of a unit and an item that may repeat."""
    item, m, units = count_holders(unit, item, size=size)
    return Holders(item=item, m=m, units=units, size=size)


def _from_table(held: Held, rows: Any) -> Pairs:
    """(item, m, units) of a table of distinct pairs (unit, item)."""
    sizes = rows.group_by("unit").aggregate(m=rows.count())
    both = rows.join(sizes, "unit").select("item", "m")
    counts = both.group_by(["item", "m"]).aggregate(units=both.count())
    return _columns(held, counts)


def _columns(held: Held, counts: Any) -> Pairs:
    found = pa.Table.from_batches(held.engine.batches(counts), counts.schema().to_pyarrow())
    return tuple(found[name].to_numpy().astype(np.int64) for name in ("item", "m", "units"))


def _holders_of_items(held: Held, published: pa.Table) -> Any:
    """(unit, item), distinct."""
    listed = held.engine.keep(_numbered(published))
    rows = held.items.table.join(listed, list(held.keys)).select("unit", "item")
    return held.engine.materialise(rows.distinct())


def _holders_of_sets(held: Held, published: pa.Table) -> Any:
    """(unit, item), distinct: a unit holds a set if it holds all its members."""
    sets = published[held.keys[0]].combine_chunks()
    members = pa.table(
        {
            "item": pa.array(pc.list_parent_indices(sets), pa.int64()),
            "query": pc.list_flatten(sets),
            "members": pc.take(pc.list_value_length(sets), pc.list_parent_indices(sets)),
        }
    )
    listed = held.engine.keep(members)
    asked = held.items.table.select("unit", "query").distinct()
    both = asked.join(listed, "query")
    found = both.group_by(["unit", "item"]).aggregate(held=both.count(), members=both.members.max())
    return held.engine.materialise(found.filter(found.held == found.members).select("unit", "item"))


def _numbered(published: pa.Table) -> pa.Table:
    return published.append_column("item", pa.array(np.arange(published.num_rows), pa.int64()))
