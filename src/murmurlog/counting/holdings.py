"""Which unit holds which item, brought here: for what is unprotected, or for its owner's eyes only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import keys_of
from murmurlog.counting.items import Integers, ItemFinder, Items, key_table, number_pairs
from murmurlog.logs.log import Log
from murmurlog.logs.rows import Rows
from murmurlog.logs.text_keys import NO_KEYS, number_keys
from murmurlog.privacy.sampler import Keys


class Pairs(NamedTuple):
    """The pairs of a unit and an item of a partition, each with a number."""

    unit: Integers
    item: Integers
    number: Integers
    unit_keys: Keys  # of each unit
    keys: Keys  # of each item
    columns: list[pa.Array]  # of each item


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The pairs of a unit and an item, in order of both; units and items are in order of their keys."""

    unit: Integers
    item: Integers
    number: Integers
    unit_keys: Keys
    items: pa.Table  # the key columns of each item


def bring_holdings(log: Log, find: ItemFinder) -> Holdings:
    """In how many rows each unit has each item; nothing is bounded."""
    return merge_pairs(log.partitions.results(partial(_count_rows, find=find)), keys_of(find.kind))


def _count_rows(rows: Rows, *, find: Callable[[Rows], Items]) -> Pairs:
    items = find(rows)
    pair, row = number_pairs(items.unit, items.item)
    present, item = np.unique(items.item[row], return_inverse=True)
    return Pairs(
        unit=items.unit[row],
        item=item,
        number=np.bincount(pair, minlength=len(row)),
        unit_keys=items.unit_keys,
        keys=items.keys[present],
        columns=items.columns(present),
    )


def merge_pairs(parts: Iterable[Pairs], names: Sequence[str] = ()) -> Holdings:
    """The pairs of all partitions; names are those of the key columns, in their order."""
    none = np.zeros(0, np.int64)
    units, items, numbers, unit_keys, keys = [none], [none], [none], [NO_KEYS], [NO_KEYS]
    tables = [key_table(names, [pa.array([], pa.null()) for _ in names])]
    for part in parts:
        with_items, unit = np.unique(part.unit, return_inverse=True)
        units.append(unit + sum(map(len, unit_keys)))
        items.append(part.item + sum(map(len, keys)))
        numbers.append(part.number.astype(np.int64))
        unit_keys.append(part.unit_keys[with_items])
        keys.append(part.keys)
        tables.append(key_table(names, part.columns))
    all_unit_keys = np.concatenate(unit_keys)
    unit_code, unit_row = number_keys(all_unit_keys)
    item_code, item_row = number_keys(np.concatenate(keys))
    unit = unit_code[np.concatenate(units)].astype(np.int64)
    item = item_code[np.concatenate(items)].astype(np.int64)
    order = np.argsort(unit * len(item_row) + item)
    return Holdings(
        unit=unit[order],
        item=item[order],
        number=np.concatenate(numbers)[order],
        unit_keys=all_unit_keys[unit_row],
        items=pa.concat_tables(tables).take(pa.array(item_row)).combine_chunks(),
    )
