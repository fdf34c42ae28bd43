"""The outline of a log: how many units there are, how many items each holds, how popular items are.

It is all that a forecast needs to know. Measured with noise it has a guarantee of its own; taken
exactly it is for invented and public logs, or for the owner's eyes.
"""

from dataclasses import dataclass

from murmurlog.errors import UsageError
from murmurlog.privacy import Guarantee


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many units hold between `least` and `most` distinct items."""

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
