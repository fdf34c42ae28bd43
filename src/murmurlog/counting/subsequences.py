"""Subsequences of sessions and sets of items, derived from bounded items.

Bounding comes first, so the number of subsequences or sets of one unit has a public bound, and they
are a function of that unit's own bounded items. They are distinct per unit.
"""

import math

import ibis
import pyarrow as pa

from murmurlog.counting.bound import Bounded
from murmurlog.errors import UsageError
from murmurlog.privacy.safelog import LONGEST, subsequences_a_session


def subsequences(sessions: Bounded, *, l_q: int, repeats: bool = False) -> Bounded:
    """Every ordered subsequence of at least two queries of each unit's sessions, once a unit.

    Without `repeats`, equal neighbours (x, x from x, y, x) are merged. The merged list is a
    subsequence, too, or a single query, so leaving out lists with equal neighbours is the same:
    a unit holds a subset of what it held, and the bound stays.
    """
    most = subsequences_a_session(l_q)
    choices = [
        (n, [i for i in range(n) if mask >> i & 1])
        for n in range(2, l_q + 1)
        for mask in range(2**n)
        if mask.bit_count() >= 2
    ]
    lengths, places = zip(*choices, strict=True)
    columns = {
        "length": pa.array(lengths, pa.int64()),
        "places": pa.array(places, pa.list_(pa.int64())),
    }
    chosen = sessions.engine.keep(pa.table(columns))
    rows = sessions.table.mutate(length=sessions.table.queries.length().cast("int64"))
    joined = rows.join(chosen, "length")
    found = joined.select("unit", queries=joined.places.map(lambda i: joined.queries[i]))
    if not repeats:
        lists, places = found.queries, ibis.range(0, found.queries.length() - 1)
        found = found.filter(~places.map(lambda i: lists[i] == lists[i + 1]).anys())
    return sessions.with_table(
        sessions.engine.materialise(found.distinct()), per_user=sessions.per_user * most
    )


def sets_of(n: int, k: int, *, consecutive: bool = False) -> int:
    """How many sets of 1 to k of n items there are; consecutive: runs of 1 to k."""
    if consecutive:
        return sum(n - i + 1 for i in range(1, min(k, n) + 1))
    return sum(math.comb(n, i) for i in range(1, k + 1))


def items_for(d: int, k: int, *, consecutive: bool = False) -> int:
    """The largest number of items whose sets of 1 to k are at most d."""
    if not 1 <= k <= LONGEST:
        raise UsageError(f"--set-size must lie between 1 and {LONGEST}, not {k}")
    n = 1
    while sets_of(n + 1, k, consecutive=consecutive) <= d:
        n += 1
    return n


def sets(items: Bounded, *, k: int, consecutive: bool = False) -> Bounded:
    """Every set of 1 to k of each unit's items, sorted; consecutive: of neighbouring places."""
    n = items.per_user
    (key,) = items.keys
    if consecutive:
        place, text = items.table.place, items.table[key]
    else:  # any fixed order of the unit's own items gives the same sets
        in_order = ibis.window(group_by="unit", order_by=key)
        place, text = ibis.row_number().over(in_order), items.table[key]
    # Spark's row numbers have 32 bits where Ibis declares 64, so that a cast to 64 is left out.
    place = place.cast("float64").cast("int64")
    placed = items.table.select("unit", place=place, item=text)
    made = placed.select("unit", last=placed.place, items=ibis.array([placed.item]))
    rounds = [made]
    for _ in range(1, min(k, n)):
        grown, more = rounds[-1], placed.view()
        follows = more.place == grown.last + 1 if consecutive else more.place > grown.last
        joined = grown.join(more, [grown.unit == more.unit, follows])
        rounds.append(
            items.engine.materialise(
                joined.select(
                    unit=grown.unit,
                    last=more.place,
                    items=grown.items.concat(ibis.array([more.item])),
                )
            )
        )
    together = ibis.union(*rounds) if len(rounds) > 1 else rounds[0]
    held = together.select("unit", items=together.items.sort()).distinct()
    return items.with_table(
        items.engine.materialise(held),
        kind="itemset",
        keys=("items",),
        per_user=sets_of(n, k, consecutive=consecutive),
    )
