"""What the workers of a cluster do in the rounds of weighted selection, on arrays of integers.

A partition holds the bounded items of its units; no unit is in two. An item has a number of its own on all
workers: a keyed hash of its text. Texts with one number are compared, so that nothing depends on the hash.
Sums go to shards, ranges of numbers, where those of all partitions are added up. Imports no engine.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.counting.choice import ChoiceKey
from murmurlog.counting.first_items import Bounder
from murmurlog.counting.holdings import Finder, join_lists
from murmurlog.counting.unit_weights import HeldCodes, count_holders, weights_of_codes
from murmurlog.logs.cluster_partitions import pack_table, unpack_table, values_of
from murmurlog.logs.encoded import EncodedRows, Integers
from murmurlog.logs.engines.protocol import SharedTable
from murmurlog.logs.engines.spark_worker import SENT

# Of a partition: units and the places of their items; the items' numbers, ascending; the items' keys.
HELD = pa.schema([("held", pa.binary()), ("numbers", pa.binary()), ("keys", pa.binary())])
SUMS = pa.schema([("shard", pa.int32()), ("sums", pa.binary())])
FIRST = pa.schema([*SUMS, ("names", pa.binary()), ("items", pa.int64()), ("alike", pa.int64())])
HOLDERS = pa.schema([("item", pa.int64()), ("m", pa.int64()), ("units", pa.int64())])


def hold_partition(
    rows: EncodedRows, *, finder: Finder, first: Bounder, names: Sequence[str], key: ChoiceKey
) -> pa.Table:
    """The bounded items of a partition as a row of `HELD`; no row if nobody holds any."""
    held = finder(rows)
    kept = first(held)
    some = np.flatnonzero(np.bincount(kept.item)) if len(kept.item) else np.zeros(0, np.int64)
    if not len(some):
        return HELD.empty_table()
    numbers = held.item_hashes(some, key).view(np.int64)
    order = np.argsort(numbers, kind="stable")
    place = np.zeros(int(some[-1]) + 1, np.int32)
    place[some[order]] = np.arange(len(some), dtype=np.int32)
    texts = [each.texts.take(pa.array(each.codes[some[order]])) for each in held.keys]
    packed = {
        "held": pack_table(pa.table({"unit": kept.unit, "item": place[kept.item]})),
        "numbers": numbers[order].tobytes(),
        "keys": pack_table(pa.table(dict(zip(names, texts, strict=True)))),
    }
    return pa.Table.from_pylist([packed], HELD)


def sum_first(
    batches: Iterator[pa.RecordBatch], *, attention: int, grid: int, bits: int
) -> Iterator[pa.RecordBatch]:
    """The sums of round 1, where all items have the same attention, with the items' keys."""
    for numbers, unit, item, keys in _partitions(batches):
        rows = HeldCodes(unit=unit, item=item, attention=attention)
        weight = weights_of_codes(rows, len(numbers), grid=grid)
        columns = dict(zip(keys.column_names, keys.columns, strict=True))
        yield from _send(pa.table({"item": numbers, "weight": weight, **columns}), bits)


def add_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of each shard a row of `FIRST`; `alike` counts neighbours with one number but other keys."""
    for shard, parts in _shards(batches):
        item, weight, order, start = _add_up(parts)
        names = parts.column_names[2:]
        same = np.ones(len(parts), bool)
        same[start] = False
        again = np.flatnonzero(same)
        alike = np.zeros(len(again), bool)
        for name in names:
            column = join_lists(parts[name].combine_chunks())
            one, other = (column.take(pa.array(order[again - back])) for back in (0, 1))
            alike |= ~pc.equal(one, other).to_numpy(zero_copy_only=False)
        keys = parts.select(names).take(pa.array(order[start]))
        row = {
            "shard": shard,
            "sums": pack_table(pa.table({"item": item, "weight": weight})),
            "names": pack_table(keys.add_column(0, "item", pa.array(item))),
            "items": len(item),
            "alike": int(alike.sum()),
        }
        yield pa.RecordBatch.from_pylist([row], FIRST)


def sum_later(
    batches: Iterator[pa.RecordBatch], *, known: SharedTable, grid: int, bits: int
) -> Iterator[pa.RecordBatch]:
    """The sums of a later round: of items that are alive, with the attention that `known` gives them."""
    listed = known.open()
    for numbers, unit, item, _ in _partitions(batches):
        (attention,) = look_up(numbers, listed, "attention")  # never 0 for an item that is alive
        given = attention[item]
        some = given > 0
        rows = HeldCodes(unit=unit[some], item=item[some], attention=given[some])
        weight = weights_of_codes(rows, len(numbers), grid=grid)
        alive = attention > 0
        yield from _send(pa.table({"item": numbers[alive], "weight": weight[alive]}), bits)


def add_later(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of each shard a row of `SUMS`."""
    for shard, parts in _shards(batches):
        item, weight, _, _ = _add_up(parts)
        row = {"shard": shard, "sums": pack_table(pa.table({"item": item, "weight": weight}))}
        yield pa.RecordBatch.from_pylist([row], SUMS)


def unpack_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The numbers and the keys of all items."""
    for packed in values_of(batches, "names"):
        yield from unpack_table(packed).to_batches()


def holders_in_partition(rows: EncodedRows, *, finder: Finder, published: pa.Table) -> pa.Table:
    """Who holds the published items: of each item and m, the number of units, as `count_holders` has them."""
    held = finder(rows)
    at = held.places(published)[held.item]
    some = at >= 0
    counted = count_holders(held.unit[some], at[some], size=published.num_rows)
    return pa.table(dict(zip(HOLDERS.names, counted, strict=True)))


def look_up(numbers: Integers, listed: pa.Table, *columns: str) -> list[Integers]:
    """The columns of a list at ascending item numbers, 0 where it has none.

    Each chunk of the list has its items in order; no two chunks overlap.
    """
    found = [np.zeros(len(numbers), np.int64) for _ in columns]
    for chunk in listed.to_batches():
        item = chunk.column("item").to_numpy()
        if not len(item):
            continue
        first, last = np.searchsorted(numbers, item[0]), np.searchsorted(numbers, item[-1], "right")
        asked = numbers[first:last]
        at = np.searchsorted(item, asked)  # none is beyond the last
        there = np.flatnonzero(item[at] == asked)
        for values, name in zip(found, columns, strict=True):
            values[first + there] = chunk.column(name).to_numpy()[at[there]]
    return found


def _partitions(
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[Integers, Integers, Integers, pa.Table]]:
    """Of each row of `HELD`: item numbers, units, places of items; and keys, if they are there."""
    for batch in batches:
        keyed = "keys" in batch.schema.names
        for i in range(batch.num_rows):
            numbers = np.frombuffer(batch.column("numbers")[i].as_buffer(), np.int64)
            held = unpack_table(batch.column("held")[i].as_buffer())
            keys = unpack_table(batch.column("keys")[i].as_buffer()) if keyed else None
            yield numbers, held["unit"].to_numpy(), held["item"].to_numpy(), keys


def _send(rows: pa.Table, bits: int) -> Iterator[pa.RecordBatch]:
    """The rows, by ascending item, packed for the shards that their items belong to."""
    shard = rows["item"].to_numpy() >> (64 - bits)
    ends = np.flatnonzero(np.diff(shard)) + 1
    for start, end in zip([0, *ends], [*ends, len(shard)], strict=True):
        if end > start:
            packed = pack_table(rows.slice(start, end - start))
            yield pa.RecordBatch.from_pylist([{"shard": shard[start], "packed": packed}], SENT)


def _shards(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """What was sent to each shard."""
    sent: dict[int, list[pa.Table]] = {}
    for batch in batches:
        for i, shard in enumerate(batch.column("shard").to_pylist()):
            sent.setdefault(shard, []).append(unpack_table(batch.column("packed")[i].as_buffer()))
    for shard in sorted(sent):
        yield shard, pa.concat_tables(sent.pop(shard))


def _add_up(parts: pa.Table) -> tuple[Integers, Integers, Integers, Integers]:
    """Items in order and their weights; the order of all rows, and where each item starts in it."""
    item, weight = (parts[name].to_numpy() for name in ("item", "weight"))
    order = np.argsort(item, kind="stable")
    in_order = item[order]
    start = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
    return in_order[start], np.add.reduceat(weight[order], start), order, start
