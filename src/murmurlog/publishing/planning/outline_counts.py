"""The exact numbers behind an outline: units by size, and counts sorted without their keys."""

from collections.abc import Iterable
from dataclasses import dataclass

from murmurlog.counting.bound import bound
from murmurlog.counting.items import Items, items
from murmurlog.counting.tally import tally
from murmurlog.errors import UsageError
from murmurlog.logs.log import Log
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.planning.outline_noise import BINS, BLOCKS
from murmurlog.publishing.planning.profile_options import PER_USER

KINDS = ("query", "keyword", "click", "pair")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The exact counts that an outline is measured from; never published."""

    kind: str
    unit: str
    per_user: int
    sizes: tuple[int, ...]  # units in each of BINS
    sums: tuple[int, ...]  # users of the items in each of BLOCKS, added up


def count(
    log: Log,
    *,
    kind: str = "query",
    unit: str = "user",
    per_user: int = PER_USER,
    way: str | None = None,
    entropy: Entropy,
) -> Counted:
    """Every unit in its bin, and the sorted counts of the bounded items in blocks."""
    check_kind(kind)
    held = items(log, kind=kind, unit=unit)
    counted = tally(bound(held, per_user=per_user, way=way, entropy=entropy))
    equal = counted.table.group_by("users").aggregate(items=counted.table.count())
    runs = [(row["users"], row["items"]) for row in equal.to_pyarrow().to_pylist()]
    return Counted(
        kind=kind, unit=unit, per_user=per_user, sizes=_sizes(held), sums=block_sums(runs)
    )


def check_kind(kind: str) -> None:
    """Raises unless there are outlines of such items."""
    if kind not in KINDS:
        raise UsageError(f"--kind must be one of {', '.join(KINDS)}, not {kind!r}")


def _sizes(held: Items) -> tuple[int, ...]:
    """How many units fall into each bin, by their distinct items before the bound."""
    distinct = held.table.select("unit", *held.keys).distinct()
    each = distinct.group_by("unit").aggregate(size=distinct.count())
    equal = each.group_by("size").aggregate(units=each.count())
    found = [0] * len(BINS)
    for row in equal.to_pyarrow().to_pylist():
        place = next((i for i, (_, most) in enumerate(BINS) if row["size"] <= most), -1)
        found[place] += row["units"]
    return tuple(found)


def block_sums(runs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The sorted counts added up by block, from (count, how many items have it); 0 where none is."""
    falling = sorted(runs)
    sums = []
    for size in BLOCKS:
        total, room = 0, size
        while room and falling:
            users, alike = falling.pop()
            taken = min(alike, room)
            total, room = total + taken * users, room - taken
            if taken < alike:
                falling.append((users, alike - taken))
        sums.append(total)
    return tuple(sums)
