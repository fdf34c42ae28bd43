"""The first searches of each unit, by what is published: bins of lengths and clicks, for `left_out`.

Functions of a partition; imports no engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from murmurlog.counting.bound import Bound
from murmurlog.counting.items import Integers, Items, Mask, TextNames, number_pairs
from murmurlog.counting.public_sets.labels import LENGTHS, Lengths
from murmurlog.logs.partitions import Sums, sum_by_key
from murmurlog.logs.rows import Rows, Texts
from murmurlog.logs.text_keys import KeyList, number_keys
from murmurlog.privacy.sampler import Keys

BINS = 2 * len(LENGTHS)  # of lengths, each clicked and not


class Searches(NamedTuple):
    """The distinct pairs of a query and a url among the bounded searches of a partition."""

    query: Keys
    words: Integers  # the place of the query's length among LENGTHS
    clicked: Mask  # whether there is a url
    published: Mask  # whether the query is published
    rows: Integers  # how many searches there are


def first_searches(rows: Rows, *, bound: Bound, published: Callable[[], KeyList]) -> Searches:
    """The first searches of each unit by time; at one time by the bytes of query and url."""
    items = bound(find_searches(rows))
    queries, urls = items.columns(np.arange(len(items.keys)))
    keys = items.text_keys.texts(queries)
    return Searches(
        query=keys,
        words=Lengths().codes(queries),
        clicked=urls.is_valid().to_numpy(zero_copy_only=False),
        published=published().places(keys) >= 0,
        rows=np.bincount(items.item, minlength=len(keys)),
    )


def find_searches(rows: Rows) -> Items:
    """Every row as an item of its query and its url, if it has one."""
    codes = np.full(rows.count, -1) if rows.url is None else rows.url.codes
    item, row = number_pairs(rows.query.codes, codes + 1)
    query, url = rows.query.codes[row], codes[row]
    ids, url_keys = np.full(len(row), -1, np.int64), np.zeros((len(row), 2), np.uint64)
    present = url >= 0
    if rows.url is not None:
        ids[present], url_keys[present] = rows.url.ids[url[present]], rows.url.keys[url[present]]
    keys = rows.text_keys.combine([rows.query.keys[query], url_keys])
    place, first = number_keys(keys)
    return Items(
        unit=rows.unit, time=rows.time, item=place[item], keys=keys[first],
        names=(TextNames(rows.query.ids[query[first]]), UrlNames(ids[first])),
        unit_keys=rows.unit_keys, texts=rows.texts, text_keys=rows.text_keys,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class UrlNames:
    """Urls of the log, null where there is none."""

    ids: Integers  # -1 for none

    def at(self, items: Integers) -> "UrlNames":
        return UrlNames(self.ids[items])

    def values(self, texts: Texts) -> pa.Array:
        present = self.ids >= 0
        return texts.take(self.ids[present]).take(pa.array(np.cumsum(present) - 1, mask=~present))


def count_rows(searches: Searches) -> Integers:
    """The searches of a partition by bin: those of published queries, then those of others."""
    bins = np.where(searches.published, 0, BINS) + _bins(searches.words, searches.clicked)
    counts = np.zeros(2 * BINS, np.int64)
    np.add.at(counts, bins, searches.rows)
    return counts


def sum_queries(searches: Searches) -> Sums:
    """Of each query that is left out: its pairs with urls, how many are clicks, and the sum of its words."""
    left_out = ~searches.published
    columns = [
        np.ones(left_out.sum(), np.int64),
        searches.clicked[left_out],
        searches.words[left_out],
    ]
    return sum_by_key(searches.query[left_out], np.stack(columns, axis=1).astype(np.int64))


def count_queries(shard: Sums) -> Integers:
    """How many queries are in each bin: each counts once, as clicked if any of its searches was."""
    pairs, clicks, words = shard.sums.T
    return np.bincount(_bins(words // pairs, clicks > 0), minlength=BINS)


def _bins(words: Integers, clicked: Mask) -> Integers:
    """The bin of each search: by length, clicks first."""
    return np.asarray(2 * words + ~clicked)
