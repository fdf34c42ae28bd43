"""Exact counts without a bound, and logs restricted to what is frequent: no theorem applies to either."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from murmurlog.bundle.schema import By, keys_of
from murmurlog.counting.bound import Bound, BoundedItems
from murmurlog.counting.items import Integers, number_pairs
from murmurlog.counting.tally import Tally, tally
from murmurlog.logs.log import Log
from murmurlog.logs.partitions import Sums
from murmurlog.logs.rows import Rows
from murmurlog.logs.text_keys import NO_KEYS, distinct_keys, order_of_keys, places_of
from murmurlog.mechanisms.protocol import View
from murmurlog.privacy.sampler import Keys

EVERY = 1 << 40  # items a unit: more than any unit has, and than any theorem is about


def count_all(log: Log, view: View, *, count: str = "users") -> Tally:
    """How many units, or rows, have each item of the view's table; not bounded."""
    return tally(
        log, view.finder(log), Bound(per_unit=EVERY, count=count), kind=view.kind,
        keys=keys_of(view.kind, view.by), per_user=EVERY, count=count,
    )  # fmt: skip


def at_least(shards: Iterable[Sums], least: int) -> tuple[Keys, Integers]:
    """The keys with a count of at least `least`, ascending, and their counts."""
    keys, counts = [NO_KEYS], [np.zeros(0, np.int64)]
    for shard in shards:
        often = shard.sums >= least
        keys.append(shard.keys[often])
        counts.append(shard.sums[often])
    every = np.concatenate(keys)
    order = order_of_keys(every)
    return every[order], np.concatenate(counts)[order]


def frequent_queries_only(log: Log, view: View, least: int, *, count: str = "users") -> Log:
    """The log without the rows whose query has a smaller count.

    These keys are neither public nor published: which rows of a unit are left depends on other units.
    """
    often, _ = at_least(count_all(log, replace(view, kind="query"), count=count), least)
    work = partial(_with_queries, by=view.by, queries=log.partitions.share(often))
    return replace(log, partitions=log.partitions.derive(work))


def _with_queries(rows: Rows, *, by: By | None, queries: Callable[[], Keys]) -> Rows:
    """The rows of these queries; with --by: under the value of the row."""
    codes, keys = rows.query.codes, rows.query.keys
    if by is not None:
        rows = rows.at(rows.kept_columns[by.column].codes >= 0)
        query, value = rows.query, rows.kept_columns[by.column]
        codes, row = number_pairs(query.codes, value.codes)
        parts = [column.keys[column.codes[row]] for column in (query, value)]
        keys = rows.text_keys.combine(parts)
    return rows.at((places_of(keys, queries()) >= 0)[codes])


def of_published(log: Log, view: View) -> Callable[[BoundedItems], BoundedItems]:
    """A function of bounded items: those whose query was published; with --by: under their value."""
    columns = view.published["query"].select(list(keys_of("query", view.by))).columns
    published = distinct_keys(log.text_keys.columns(columns))
    return partial(_of_queries, queries=log.partitions.share(published))


def _of_queries(items: BoundedItems, *, queries: Callable[[], Keys]) -> BoundedItems:
    query, _, *value = items.columns(np.arange(len(items.keys)))
    keys = items.text_keys.columns([query, *value])
    return items.with_items(places_of(keys, queries()) >= 0)
