"""A privacy guarantee as a value: what is protected, by how much, under which assumptions."""

import math
from dataclasses import dataclass

from murmurlog.errors import UsageError, did_you_mean
from murmurlog.privacy.thresholds import check_neighbours

UNITS = ("user", "user-month", "user-week", "user-day")
NOTIONS = ("dp", "pdp", "none")

ASSUMPTIONS = {
    "A0": "The unit is an id of the log, not a person; parameters were fixed without the log "
    "or by output whose cost is accounted for; noise is secret and exact; nothing but this bundle was "
    "published.",
    "A1": "Each unit adds at most d to all counts: d distinct items once, or d rows where rows are counted, chosen from its own rows only.",
    "A2": "The list of results of each query is public and independent of the log.",
    "A3": "The number of users is a declared public number.",
    "A4": "The pool of candidates was fixed in public before the log was looked at.",
    "A5": "Steps ran in order: parse, drop rows without an id, unit, normalise and screen record "
    "by record, sessions, distinct, bound, tally.",
    "A6": "Sessions and pairs do not cross the border of a unit.",
    "A7": "The bound sorts a unit's own items by a total order that no other row can change.",
    "A8": "Dialect, encoding and types were fixed before the log was read; the guarantee is about "
    "the parsed table.",
    "A9": "Every byte of the bundle follows from noisy output, public parameters and independent "
    "randomness.",
}
ALWAYS = ("A0", "A5", "A6", "A7", "A8", "A9")


def check_unit(unit: str) -> None:
    """Raises unless `unit` is a unit of privacy."""
    if unit not in UNITS:
        raise UsageError(
            f"unknown unit {unit!r:.60}: use one of {', '.join(UNITS)}.{did_you_mean(unit, UNITS)}"
        )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta) for one privacy unit; `notion` is "dp", "pdp" or "none".

    Probabilistic DP implies DP with the same delta; `delta_dp` is the smaller one that is proved.
    """

    epsilon: float
    delta: float
    unit: str = "user"
    neighbours: str = "add-remove"
    notion: str = "dp"
    assumptions: tuple[str, ...] = ALWAYS
    delta_dp: float | None = None

    @classmethod
    def nothing(cls, *, unit: str = "user", neighbours: str = "add-remove") -> "Guarantee":
        """No formal guarantee at all."""
        return cls(
            epsilon=math.inf,
            delta=1.0,
            unit=unit,
            neighbours=neighbours,
            notion="none",
            assumptions=(),
        )

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        check_unit(self.unit)
        if self.notion not in NOTIONS:
            raise UsageError(f"unknown notion {self.notion!r}: use one of {', '.join(NOTIONS)}")
        if unknown := sorted(set(self.assumptions) - set(ASSUMPTIONS)):
            raise UsageError(f"unknown assumptions: {', '.join(unknown)}")
        if self.neighbours == "replace" and self.unit != "user":
            raise UsageError(
                f"replace is proved for whole users only, not for unit {self.unit!r}: "
                "use --neighbours add-remove"
            )
        if math.isnan(self.epsilon) or self.epsilon < 0 or not 0 <= self.delta <= 1:
            raise UsageError(f"no guarantee has epsilon {self.epsilon!r} and delta {self.delta!r}")
        if (self.notion == "none") != math.isinf(self.epsilon):
            raise UsageError("an infinite epsilon and the notion none go together")
        if (self.delta_dp is not None) != (self.notion == "pdp"):
            raise UsageError("probabilistic DP, and it alone, states the delta of plain DP too")

    @property
    def plain_delta(self) -> float:
        """The delta of plain differential privacy."""
        return self.delta if self.delta_dp is None else self.delta_dp

    def __str__(self) -> str:
        if self.notion == "none":
            return "NO formal privacy guarantee"
        text = f"epsilon {self.epsilon:.6g}, delta {self.delta:.3g} per {self.unit}"
        text = f"{text}, {self.neighbours}"
        if self.delta_dp is None:
            return text
        return f"{text} (probabilistic; as plain DP delta {self.delta_dp:.3g})"

    def as_json(self) -> dict[str, str | float | None]:
        """The keys that commands and certificates print; null where nothing is guaranteed."""
        proved = self.notion != "none"
        stated: dict[str, str | float | None] = {
            "epsilon": self.epsilon if proved else None,
            "delta": self.delta if proved else None,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "notion": self.notion,
        }
        return stated if self.delta_dp is None else {**stated, "delta_dp": self.delta_dp}

    def for_linked(self, g: int) -> tuple[float, float]:
        """(epsilon, delta) of g linked units together: a person with g ids, g days of a user."""
        if g < 1:
            raise UsageError(f"a group has at least 1 unit, not {g}")
        if self.notion == "none":
            return math.inf, 1.0
        grown = sum(math.exp(min(i * self.epsilon, 700)) for i in range(g))
        return g * self.epsilon, min(1.0, self.plain_delta * grown)
