"""Partitions and tallies of given values, without a log."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import LISTS
from murmurlog.counting.bound import BoundedItems
from murmurlog.counting.items import PublicNames
from murmurlog.counting.tally import Tally
from murmurlog.logs.partitions import Sums, sum_by_key
from murmurlog.logs.text_keys import TextKeys, order_of_keys


@dataclass(frozen=True, eq=False)
class GivenPartitions:
    """Partitions in a list: what the interface means, in a few lines."""

    values: list

    @property
    def count(self):
        return len(self.values)

    def derive(self, work):
        return GivenPartitions([work(value) for value in self.values])

    def add_up(self, work):
        parts = [work(value) for value in self.values]
        keys = np.concatenate([part.keys for part in parts])
        return GivenShards([sum_by_key(keys, np.concatenate([part.sums for part in parts]))])

    def results(self, work):
        return (work(value) for value in self.values)

    def share(self, value):
        return lambda: value

    def close(self):
        pass


class GivenShards(list):
    def close(self):
        pass


def tally_of(counts, *, keys=("query",), per_user=1, count="users", text_keys=None):
    """A tally of these counts by key: a text, or a tuple of them. In a list they are those of q0, q1, ..."""
    if isinstance(counts, list):
        counts = {f"q{place}": number for place, number in enumerate(counts)}
    text_keys = text_keys or TextKeys()
    if keys[0] in LISTS:
        columns = [pa.array([list(key) for key in counts], pa.list_(pa.string()))]
    else:
        rows = [(key,) if isinstance(key, str) else key for key in counts]
        columns = [
            pa.array([row[place] for row in rows], pa.string()) for place, _ in enumerate(keys)
        ]
    item_keys = text_keys.columns(columns)
    order = order_of_keys(item_keys)
    item_keys, places = item_keys[order], np.arange(len(order))
    sums = np.array(list(counts.values()), np.int64)[order]
    bounded = BoundedItems(
        unit=np.zeros(len(order), np.int64), item=places, keys=item_keys,
        names=tuple(PublicNames(column.take(pa.array(order)), places) for column in columns),
        texts=None, text_keys=text_keys, units=0,
    )  # fmt: skip
    return Tally(
        shards=[Sums(item_keys, sums)], bounded=GivenPartitions([bounded]), kind="query", keys=keys,
        unit="user", per_user=per_user, count=count,
    )  # fmt: skip
