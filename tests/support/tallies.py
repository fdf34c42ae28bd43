"""Partitions, tallies and candidates of given values, without a log."""

from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import LISTS
from murmurlog.counting.bound import Bound, BoundedItems
from murmurlog.counting.items import Items, PublicNames
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.counting.tally import SingleShard, Tally
from murmurlog.logs.partitions import Sums, answer_in_list, sum_by_key
from murmurlog.logs.rows import NEVER
from murmurlog.logs.text_keys import TextKeys, number_keys, order_of_keys
from murmurlog.mechanisms.rounds.select import Candidates, _pairs_in_rows, weigh_first
from murmurlog.privacy.sampler import SeededEntropy


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

    def derive_with(self, answers, work):
        return self.derive(lambda value: work(value, answers.all_columns))

    def results(self, work):
        return (work(value) for value in self.values)

    def results_with(self, work, values):
        return map(work, self.values, values)

    def share(self, value):
        return lambda: value

    def set_aside(self):
        pass

    def close(self):
        pass


class GivenShards(list):
    def map(self, work):
        return (work(sums) for sums in self)

    def answer(self, work):
        return answer_in_list(self, work)

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
        shards=SingleShard(Sums(item_keys, sums)), bounded=GivenPartitions([bounded]), kind="query", keys=keys,
        unit="user", per_user=per_user, count=count,
    )  # fmt: skip


def items_of(holdings, text_keys, *, timed=False):
    """The items of one partition, where each unit holds these texts, in this order if there are times."""
    texts = [item for _, held in holdings for item in held]
    length = [len(held) for _, held in holdings]
    names = pa.array(texts, pa.string())
    item, row = number_keys(text_keys.texts(names))
    time = [place for many in length for place in range(many)]
    return Items(
        unit=np.repeat(np.arange(len(holdings)), length),
        time=np.array(time, np.int64) if timed else np.full(len(texts), NEVER),
        item=item, keys=text_keys.texts(names)[row], names=(PublicNames(names, row),),
        unit_keys=text_keys.texts(pa.array([name for name, _ in holdings], pa.string())),
        texts=None, text_keys=text_keys,
    )  # fmt: skip


def same(value):
    return value


def candidates_of(holdings, *, d=100, way="random", pools=(), earlier=None, parts=3):
    """What `rounds` gathers where each unit holds these items, in several partitions."""
    text_keys = TextKeys(SeededEntropy(4))
    named = [(str(unit), tuple(held)) for unit, held in enumerate(holdings)]
    items = GivenPartitions(
        [items_of(named[n::parts], text_keys, timed=way == "first") for n in range(parts)]
    )
    bound = Bound.of(d, way, timed=way == "first", entropy=SeededEntropy(3))
    bounded = items.derive(bound)
    return Candidates(
        bounded=bounded, first=bounded.add_up(weigh_first), counted=items,
        pairs=partial(_pairs_in_rows, find=same), kind="query", keys=("query",), unit="user",
        per_user=d, text_keys=text_keys,
        pools=tuple(Listed(table=pa.table({"query": list(keys)})) for keys in pools),
        earlier=None if earlier is None else pa.table({"query": list(earlier)}),
    )  # fmt: skip


def weights_of(candidates, sums):
    """The sums of weights by text."""
    found = Counter()
    for shard in sums:
        texts = candidates.table(shard.keys).column(0).to_pylist()
        assert found.keys().isdisjoint(texts)
        found.update(dict(zip(texts, shard.sums.tolist(), strict=True)))
    return found
