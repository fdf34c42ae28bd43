"""How often each unit clicked each url for each query, as one matrix in a fixed order.

Which of several optimal solutions the solver finds depends on the order of pairs and units. So both
orders follow from what the log holds: not from keys, partitions or the order of rows.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.counting.holdings import bring_holdings
from murmurlog.counting.items import Integers, ItemFinder
from murmurlog.logs.log import Log
from murmurlog.mechanisms.hong.histories import Histories


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """How often each unit has each pair, and the query and the url of each pair."""

    histories: Histories
    pairs: pa.Table  # query, url


def bring_clicks(log: Log, find: ItemFinder) -> Gathered:
    """The clicks of all units: pairs in order of their bytes, units in order of what they clicked."""
    clicks = bring_holdings(log, find)
    by_bytes = [(name, "ascending") for name in clicks.items.column_names]
    order = pc.sort_indices(clicks.items, sort_keys=by_bytes).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    pair = rank[clicks.item]
    unit = _in_order_of_contents(clicks.unit, pair, clicks.number)
    shape = (len(clicks.unit_keys), len(order))
    counts = sparse.csr_array((clicks.number, (unit, pair)), shape=shape)
    return Gathered(histories=Histories.of(counts), pairs=clicks.items.take(pa.array(order)))


def _in_order_of_contents(unit: Integers, pair: Integers, count: Integers) -> Integers:
    """The units numbered in the order of their pairs and counts; units that are alike come in any order."""
    order = np.lexsort((pair, unit))
    words = np.stack([pair[order], count[order]], axis=1).astype(">i8")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    contents = [part.tobytes() for part in np.split(words, starts[1:])]
    number = np.empty(len(starts), np.int64)
    number[sorted(range(len(starts)), key=contents.__getitem__)] = np.arange(len(starts))
    return number[unit]
