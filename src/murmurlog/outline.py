"""The outline of a log: how many units there are, how many items each holds, how popular items are.

It is all that a forecast needs to know. Measured with noise it has a guarantee of its own; taken
exactly it is for invented and public logs, or for the owner's eyes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from murmurlog.bound import bound
from murmurlog.errors import UsageError
from murmurlog.items import Items, items
from murmurlog.log import Log
from murmurlog.noise import Entropy
from murmurlog.privacy import Guarantee
from murmurlog.tally import tally

PER_USER = 20  # distinct items of a unit that count for popularity
KINDS = ("query", "keyword", "click", "pair")
RANKS = 1 << 20  # how many of the most popular items are looked at
WIDER = 10  # a block of ranks is a tenth of all ranks before it


def _bins() -> tuple[tuple[int, int], ...]:
    """1, 2, 3, 4, 5-6, 7-8, 9-12, 13-16 and so on: two an octave."""
    mosts = [1, 2, 3, *(n for k in range(2, 11) for n in (2**k, 3 * 2 ** (k - 1)))]
    return tuple((before + 1, most) for before, most in zip([0, *mosts], mosts, strict=False))


def _blocks() -> tuple[int, ...]:
    """How many ranks each block has: single ranks at first, then ever more."""
    sizes: list[int] = []
    done = 0
    while done < RANKS:
        sizes.append(min(max(1, done // WIDER), RANKS - done))
        done += sizes[-1]
    return tuple(sizes)


BINS = _bins()  # public; the last one also holds all larger units
BLOCKS = _blocks()  # public


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many units hold between `least` and `most` distinct items; the last one: or more."""

    least: int
    most: int
    units: float


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """How many units hold an item of these ranks, on average: `items` ranks in a row."""

    items: int
    users: float


@dataclass(frozen=True, kw_only=True)
class Outline:
    """Sizes of units and popularity of items, of one kind of item.

    `popularity` goes from the most popular item down and does not rise; it counts the first
    `per_user` distinct items of each unit only, and stops at a public rank.
    """

    kind: str
    unit: str
    per_user: int
    sizes: tuple[Size, ...]
    popularity: tuple[Ranks, ...]
    guarantee: Guarantee | None  # None: exact

    def __post_init__(self) -> None:
        if not self.sizes or not self.popularity:
            raise UsageError("an outline needs sizes and popularity: measure it again")

    @property
    def units(self) -> float:
        return sum(size.units for size in self.sizes)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The exact numbers behind an outline; never leaves the owner."""

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
    if kind not in KINDS:
        raise UsageError(f"an outline is of one of {', '.join(KINDS)}, not {kind!r}")
    held = items(log, kind=kind, unit=unit)
    counted = tally(bound(held, per_user=per_user, way=way, entropy=entropy))
    equal = counted.table.group_by("users").aggregate(items=counted.table.count())
    runs = [(row["users"], row["items"]) for row in equal.to_pyarrow().to_pylist()]
    return Counted(
        kind=kind, unit=unit, per_user=per_user, sizes=_sizes(held), sums=block_sums(runs)
    )


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


def exact(
    log: Log,
    *,
    kind: str = "query",
    unit: str = "user",
    per_user: int = PER_USER,
    way: str | None = None,
    entropy: Entropy,
) -> Outline:
    """The outline without noise, for an invented or a public log: nothing protects it."""
    counted = count(log, kind=kind, unit=unit, per_user=per_user, way=way, entropy=entropy)
    return Outline(
        kind=kind,
        unit=unit,
        per_user=per_user,
        sizes=tuple(
            Size(least=least, most=most, units=float(units))
            for (least, most), units in zip(BINS, counted.sizes, strict=True)
        ),
        popularity=tuple(
            Ranks(items=size, users=total / size)
            for size, total in zip(BLOCKS, counted.sums, strict=True)
        ),
        guarantee=None,
    )
