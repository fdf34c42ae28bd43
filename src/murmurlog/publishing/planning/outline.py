"""The outline of a log: how many units there are, how many items each holds, how popular items are.

It is all that a forecast needs. Measured with noise it has a guarantee of its own; an exact one
protects nothing.
"""

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from murmurlog.errors import InputError, UsageError
from murmurlog.privacy import SAFETY, Guarantee, check_unit
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.planning.outline_counts import Counted, check_kind
from murmurlog.publishing.planning.outline_noise import BINS, BLOCKS, Measurement, check_per_user

FORMAT = "murmurlog-outline-1"
MOST = 2.0**50  # units, items or users: no log has more
MOST_PARTS = 10_000  # sizes, or runs of ranks
MOST_BYTES = 1 << 22  # of a file


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many units hold between `least` and `most` distinct items; the last one: or more."""

    least: int
    most: int
    units: float

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most <= MOST:
            raise UsageError(f"no size goes from {self.least} to {self.most} items")
        _check_many(self.units, "units of a size")

    def at(self, share: float) -> float:
        """A quantile of the number of items of these units; small numbers are likelier."""
        low, high = self.least - 0.5, self.most + 0.5
        items = round(low * float((high / low) ** share))
        return float(min(self.most, max(self.least, items)))

    def mean(self) -> float:
        """The mean number of items of these units; small numbers are likelier."""
        low, high = self.least - 0.5, self.most + 0.5
        return (high - low) / math.log(high / low) if self.least < self.most else float(self.most)


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """How many units hold an item of these ranks, on average: `items` ranks in a row."""

    items: int
    users: float

    def __post_init__(self) -> None:
        if not 1 <= self.items <= MOST:
            raise UsageError(f"no run of ranks has {self.items} items")
        _check_many(self.users, "users of an item")


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
    noise: Measurement | None = None
    seeded: bool = False  # the noise is reproducible, so nothing is protected

    def __post_init__(self) -> None:
        if not self.sizes or not self.popularity:
            raise UsageError("an outline needs sizes and popularity: measure it again")
        check_kind(self.kind)
        check_unit(self.unit)
        check_per_user(self.per_user)
        if any(one.most >= other.least for one, other in pairwise(self.sizes)):
            raise UsageError("the sizes of an outline go from small to large and do not overlap")
        if any(one.users < other.users for one, other in pairwise(self.popularity)):
            raise UsageError("the popularity of an outline does not rise")

    @property
    def units(self) -> float:
        return math.fsum(size.units for size in self.sizes)

    @property
    def private(self) -> bool:
        """Whether it may be published."""
        return self.guarantee is not None and not self.seeded

    def users_at(self, rank: int) -> float:
        """How many units hold the item of this rank, the most popular being 1; 0 beyond the last."""
        if rank < 1:
            raise UsageError(f"ranks are counted from 1, not from {rank}")
        for run in self.popularity:
            rank -= run.items
            if rank <= 0:
                return run.users
        return 0.0

    def items_per_unit(self) -> dict[str, float]:
        """mean, p50 and p99 of the distinct items of a unit, estimated from the sizes; 0 without units."""
        if not self.units:
            return {"mean": 0.0, "p50": 0.0, "p99": 0.0}
        mean = math.fsum(size.mean() * size.units for size in self.sizes) / self.units
        return {"mean": round(mean, 2), "p50": self._quantile(0.5), "p99": self._quantile(0.99)}

    def _quantile(self, share: float) -> float:
        left = share * self.units
        held = [size for size in self.sizes if size.units]
        for size in held:
            if left <= size.units:
                return size.at(left / size.units)
            left -= size.units
        return float(held[-1].most)

    def as_json(self) -> dict[str, Any]:
        """The outline and the figures derived from it."""
        given, noise = self.guarantee, self.noise
        return {
            "format": FORMAT,
            "private": self.private,
            "guarantee": given.as_json() if given else None,
            "unit": self.unit,
            "neighbours": given.neighbours if given else None,
            "kind": self.kind,
            "per_user": self.per_user,
            "noise": {"sizes": noise.sigma_sizes, "popularity": noise.sigma_ranks}
            if noise
            else None,
            "users": round(self.units),
            "items_per_user": {self.kind: self.items_per_unit()},
            "sizes": [
                {"least": size.least, "most": size.most, "units": size.units} for size in self.sizes
            ],
            "popularity": [{"items": run.items, "users": run.users} for run in self.popularity],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The outline in parsed JSON; raises InputError if it is invalid or claims too much."""
        given = _part(data, dict, "the file")
        if given.get("format") != FORMAT:
            raise InputError(f"it is not of the format {FORMAT}")
        kind, unit = _text(given, "kind"), _text(given, "unit")
        per_user = _whole(given, "per_user")
        try:
            noise = _noise(given, per_user)
            return cls(
                kind=kind,
                unit=unit,
                per_user=per_user,
                sizes=tuple(
                    Size(
                        least=_whole(size, "least"),
                        most=_whole(size, "most"),
                        units=_number(size, "units"),
                    )
                    for size in _parts(given, "sizes")
                ),
                popularity=tuple(
                    Ranks(items=_whole(run, "items"), users=_number(run, "users"))
                    for run in _parts(given, "popularity")
                ),
                guarantee=_guarantee(given, noise, unit),
                noise=noise,
                seeded=noise is not None and not _part(given.get("private"), bool, "private"),
            )
        except UsageError as error:
            raise InputError(str(error)) from None


def read_outline(path: Path) -> Outline:
    """The outline in a file that `profile --epsilon` wrote."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read ({error.strerror})") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path.name} is not an outline: it is too large")
    try:
        data = json.loads(content.decode())
    except (ValueError, RecursionError):
        raise InputError(f"{path.name} is not an outline: it is not JSON") from None
    try:
        return Outline.from_json(data)
    except InputError as error:
        raise InputError(
            f"{path.name} is not a usable outline: {error}. Make one with murmurlog profile "
            "SOURCE --epsilon ... --out FILE"
        ) from None


def measure(
    counted: Counted,
    noise: Measurement,
    *,
    epsilon: float,
    neighbours: str = "add-remove",
    entropy: Entropy,
) -> Outline:
    """The outline with noise, under the guarantee that the noise gives at this epsilon."""
    if counted.per_user > noise.d:
        raise UsageError(f"the items are bounded to {counted.per_user} a unit, not to {noise.d}")
    units = noise.sizes(counted.sizes, entropy=entropy).tolist()
    means = noise.popularity(counted.sums, entropy=entropy).tolist()
    return Outline(
        kind=counted.kind,
        unit=counted.unit,
        per_user=counted.per_user,
        sizes=tuple(
            Size(least=least, most=most, units=float(many))
            for (least, most), many in zip(BINS, units, strict=True)
        ),
        popularity=tuple(
            Ranks(items=size, users=mean) for size, mean in zip(BLOCKS, means, strict=True)
        ),
        guarantee=noise.guarantee(epsilon=epsilon, unit=counted.unit, neighbours=neighbours),
        noise=noise,
        seeded=entropy.seeded,
    )


def _noise(data: dict[str, Any], per_user: int) -> Measurement | None:
    if data.get("noise") is None:
        return None
    given = _part(data["noise"], dict, "noise")
    return Measurement(
        d=per_user,
        sigma_sizes=_number(given, "sizes"),
        sigma_ranks=_number(given, "popularity"),
    )


def _guarantee(data: dict[str, Any], noise: Measurement | None, unit: str) -> Guarantee | None:
    """The stated guarantee, which must be what the stated noise gives."""
    if data.get("guarantee") is None:
        if noise is not None or data.get("private") is not False:
            raise InputError("it has no guarantee and is not marked as exact")
        return None
    stated = _part(data["guarantee"], dict, "guarantee")
    if noise is None or _text(stated, "notion") != "dp" or _text(stated, "unit") != unit:
        raise InputError("its guarantee is not that of a measured outline")
    epsilon, delta = _number(stated, "epsilon"), _number(stated, "delta")
    proved = noise.guarantee(epsilon=epsilon, unit=unit, neighbours=_text(stated, "neighbours"))
    if proved.delta > delta * SAFETY:
        raise InputError(
            f"its noise gives delta {proved.delta:.3g} at epsilon {epsilon:.6g}, not {delta:.3g}"
        )
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=proved.neighbours,
        assumptions=proved.assumptions,
    )


def _check_many(value: float, what: str) -> None:
    if not 0 <= value <= MOST:  # NaN fails, too
        raise UsageError(f"there are no {value!r} {what}")


def _part(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        words = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
        raise InputError(f"{name} is not {words[kind]}")
    return value


def _parts(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = _part(data.get(name), list, name)
    if len(parts) > MOST_PARTS:
        raise InputError(f"{name} has more than {MOST_PARTS} parts")
    return [_part(part, dict, f"a part of {name}") for part in parts]


def _text(data: dict[str, Any], name: str) -> str:
    return str(_part(data.get(name), str, name))


def _number(data: dict[str, Any], name: str) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} is not a number")
    if not abs(value) <= MOST:  # NaN and what no float can hold fail, too
        raise InputError(f"{name} is not a usable number")
    return float(value)


def _whole(data: dict[str, Any], name: str) -> int:
    value = _number(data, name)
    if value != int(value):
        raise InputError(f"{name} is not a whole number")
    return int(value)
