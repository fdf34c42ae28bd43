"""The items of each unit as numbers, and the weights each unit gives to them: steps of `rounds`.

All steps are Ibis expressions, the same on every engine. Draws no noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from murmurlog.counting.bound import Bounded, EncodedBounded, bound
from murmurlog.counting.items import TableItems
from murmurlog.counting.subsequences import items_for, sets
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log
from murmurlog.mechanisms.protocol import View
from murmurlog.privacy.rounds import FULL, GRID
from murmurlog.privacy.sampler import Entropy, Integers


@dataclass(frozen=True, kw_only=True)
class Held:
    """Which unit holds which item after bounding, as numbers, and the items' texts; private."""

    engine: Engine
    table: Any  # unit, item, place (in the unit's own order); materialised
    names: Any  # item, the key columns; materialised
    size: int  # how many items
    kind: str
    keys: tuple[str, ...]
    unit: str
    per_user: int
    dense: bool = True  # items are 0 ... size - 1; else their numbers have gaps
    say: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Play:
    """The input of a round: the items that are alive, who holds them, and earlier measurements."""

    rows: Any  # unit, item, place, attention; of alive items only
    alive: Integers
    remembered: Integers  # of each alive item: sum of past_j z_j


def bounded(log: Log, view: View, *, per_user: int, entropy: Entropy) -> Bounded:
    """At most `per_user` distinct items of each unit, with their places in its own order.

    (i) distinct, (ii) from the unit's own rows and a key that is drawn apart from all noise.
    """
    held = view.items(log)
    if view.kind != "itemset":
        return bound(held, per_user=per_user, way=view.way, places=True, entropy=entropy)
    n = items_for(per_user, view.set_size, consecutive=view.consecutive)
    few = bound(held, per_user=n, way=view.way, places=True, entropy=entropy)
    made = sets(few, k=view.set_size, consecutive=view.consecutive)
    # All of them are kept: this only puts each unit's sets into an order of their own.
    again = TableItems(
        engine=made.engine,
        table=made.table.mutate(time=ibis.null("timestamp")),
        kind=made.kind,
        keys=made.keys,
        unit=made.unit,
        timed=False,
    )
    return bound(again, per_user=made.per_user, way="random", places=True, entropy=entropy)


def numbered(kept: Bounded) -> Held:
    """The bounded items with numbers for units and items, materialised once for all rounds."""
    engine, keys = kept.engine, list(kept.keys)
    if isinstance(kept, EncodedBounded):
        return _already_numbered(kept)
    names = engine.number_rows(kept.table.select(*keys).distinct(), "item")
    units = engine.number_rows(kept.table.select("unit").distinct(), "number")
    rows = kept.table.join(names, keys).join(units, "unit")
    return Held(
        engine=engine,
        table=engine.materialise(rows.select(unit=rows.number, item=rows.item, place=rows.place)),
        names=names,
        size=int(names.count().to_pyarrow().as_py()),
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
        dense=engine.dense,
    )


def _already_numbered(kept: EncodedBounded) -> Held:
    """The same where units and items have codes: those of items that nobody holds are left out."""
    engine, holdings, firsts = kept.engine, kept.holdings, kept.first
    some = np.flatnonzero(np.bincount(firsts.item))
    number = np.zeros(int(some[-1]) + 1 if len(some) else 0, np.int64)
    number[some] = np.arange(len(some))
    rows = {"unit": firsts.unit, "item": number[firsts.item], "place": firsts.place}
    columns = {
        name: key.at(some).column() for name, key in zip(kept.keys, holdings.keys, strict=True)
    }
    return Held(
        engine=engine,
        table=engine.show(pa.table({name: pa.array(rows[name], pa.int64()) for name in rows})),
        names=engine.show(pa.table({**columns, "item": np.arange(len(some))})),
        size=len(some),
        kind=kept.kind,
        keys=kept.keys,
        unit=kept.unit,
        per_user=kept.per_user,
    )


def opening(held: Held) -> Play:
    """Round 1: (iii) every item of a bounded set and nothing else, all with equal attention."""
    return Play(
        rows=opening_rows(held),
        alive=np.arange(held.size),
        remembered=np.zeros(held.size, np.int64),
    )


def opening_rows(held: Held) -> Any:
    """The rows of round 1."""
    return held.table.mutate(attention=ibis.literal(FULL, "int64"))


def weights(held: Held, rows: Any) -> Integers:
    """The sums of weights of all items, in steps of 1/GRID; 0 where nobody gives anything."""
    return by_item(held, summed_weights(rows), "weight")


def summed_weights(rows: Any) -> Any:
    """(item, weight): the sum over units of what each gives to the item; a row for each item once.

    A unit with attention h_i on its items gives floor(GRID h_i / |h|) to item i: the squares add up
    to at most GRID^2, whatever the rounding of the root, because the last line compares integers.
    """
    units = rows.group_by("unit").aggregate(squares=(rows.attention * rows.attention).sum())
    both = rows.join(units, "unit")
    both = both.select("item", "attention", squares=both.squares.cast("int64"))
    root = (both.attention * GRID / both.squares.sqrt()).floor().cast("int64")
    both = both.mutate(root=root)
    over = both.root * both.root * both.squares > both.attention * both.attention * GRID**2
    given = both.select("item", weight=both.root - over.cast("int64"))
    return given.group_by("item").aggregate(weight=given.weight.sum().cast("int64"))


def clipped(held: Held, listed: Any, *, per_user: int) -> Integers:
    """How many units keep each item after clipping; 0 for those that are not listed."""
    return by_item(held, clipped_users(held, listed, per_user=per_user), "users")


def clipped_users(held: Held, listed: Any, *, per_user: int) -> Any:
    """(item, users): the units that hold a listed item among their own first `per_user` of these."""
    some = held.table.semi_join(listed, "item")
    nth = ibis.row_number().over(ibis.window(group_by="unit", order_by="place"))
    first = some.select("item", nth=nth).filter(ibis._.nth < per_user)
    return first.group_by("item").aggregate(users=first.count())


def among(held: Held, rows: Any, alive: Integers, attention: Integers) -> Any:
    """The rows of items that are alive, with the attention each item gets."""
    return attended(held, rows, held.engine.keep(pa.table({"item": alive, "attention": attention})))


def attended(held: Held, rows: Any, listed: Any) -> Any:
    """The rows of listed items, with the attention that the list gives to each."""
    return held.engine.materialise(rows.drop("attention").join(listed, "item"))


def by_item(held: Held, sums: Any, column: str) -> Integers:
    """The column as an array over all items, 0 where there is no row."""
    found = np.zeros(held.size, np.int64)
    for batch in held.engine.batches(sums):
        at = batch.column("item").to_numpy(zero_copy_only=False)
        found[at] = batch.column(column).to_numpy(zero_copy_only=False)
    return found
