"""How often each unit clicked each url for each query, brought here and put in an order of its own.

Of solutions that are equally good the solver's depends on the order of pairs and units. So both orders
follow from what the log holds: not from keys, partitions or the order of rows.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.counting.items import Integers, ItemFinder, number_pairs
from murmurlog.logs.partitions import Partitions
from murmurlog.logs.rows import Rows
from murmurlog.logs.text_keys import NO_KEYS, number_keys
from murmurlog.mechanisms.hong.histories import Histories, histories
from murmurlog.privacy.sampler import Keys

PAIR = ("query", "url")


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Who has what how often, and what the pairs are called."""

    histories: Histories
    pairs: pa.Table  # query, url


def bring_clicks(rows: Partitions[Rows], find: ItemFinder) -> Gathered:
    """The clicks of all units: pairs in order of their bytes, units in order of what they clicked."""
    none = np.zeros(0, np.int64)
    units, places, times, keys, tables = [none], [none], [none], [NO_KEYS], [_NO_PAIRS]
    size = listed = 0
    for unit, item, count, item_keys, pairs in rows.results(partial(_clicks, find=find)):
        units.append(unit + size)
        places.append(item + listed)
        size += int(unit.max(initial=-1)) + 1
        listed += len(item_keys)
        times.append(count)
        keys.append(item_keys)
        tables.append(pairs)
    code, first = number_keys(np.concatenate(keys))
    table = pa.concat_tables(tables).take(pa.array(first))
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in PAIR]).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    pair, unit, count = (
        rank[code[np.concatenate(places)]],
        np.concatenate(units),
        np.concatenate(times),
    )
    unit = _in_order_of_contents(unit, pair, count)
    counts = sparse.csr_array((count, (unit, pair)), shape=(size, len(order)))
    return Gathered(histories=histories(counts), pairs=table.take(pa.array(order)))


def _clicks(rows: Rows, *, find: ItemFinder) -> tuple[Integers, Integers, Integers, Keys, pa.Table]:
    """Unit, item and how often, of a partition; then the keys and the texts of its items."""
    items = find(rows)
    pair, row = number_pairs(items.unit, items.item)
    kept, item = np.unique(items.item[row], return_inverse=True)
    columns = [column.cast(pa.string()) for column in items.columns(kept)]
    times = np.bincount(pair, minlength=len(row)).astype(np.int64)
    _, unit = np.unique(items.unit[row], return_inverse=True)
    return unit, item, times, items.keys[kept], pa.table(columns, names=list(PAIR))


def _in_order_of_contents(unit: Integers, pair: Integers, count: Integers) -> Integers:
    """The units numbered in the order of their pairs and counts; units that are alike come in any order."""
    order = np.lexsort((pair, unit))
    words = np.stack([pair[order], count[order]], axis=1).astype(">i8")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    contents = [part.tobytes() for part in np.split(words, starts[1:])]
    number = np.empty(len(starts), np.int64)
    number[sorted(range(len(starts)), key=contents.__getitem__)] = np.arange(len(starts))
    return number[unit]


_NO_PAIRS = pa.table({name: pa.array([], pa.string()) for name in PAIR})
