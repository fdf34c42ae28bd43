"""The Plan view without any log: thresholds by a planner that is given, trade-offs from a table.

The planner reaches mechanisms, which this side of the wall must not import; the command line passes
it in. The table (benchmarks/trade_off.py) holds rehearsals on a generated log.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from murmurlog.charts import charts
from murmurlog.privacy import Guarantee
from murmurlog.web.bundles import Book
from murmurlog.web.index import Floats

INKS = {"rounds": 0, "threshold": 1, "korolova": 2}
WORDS = {
    "rounds": "rounds (the default): several rounds of weighted selection, then fresh counts",
    "threshold": "threshold: one noisy count for each item",
    "korolova": "korolova: a noisy selection, then fresh counts, as in the paper",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the sliders say."""

    mechanism: str
    epsilon: float
    delta: float
    per_user: int

    @classmethod
    def usual(cls) -> "Setting":
        """What `release` does unless it is told otherwise."""
        return cls(mechanism="rounds", epsilon=1.0, delta=1e-6, per_user=100)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a mechanism makes of a setting; never depends on a log."""

    mechanism: str  # its text
    guarantee: Guarantee
    sentence: str
    passes: Mapping[str, int]  # how many users an item needs, by probability
    command: str


Planner = Callable[[Setting], Planned]


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What was published in rehearsals, on average."""

    queries: int
    volume: float
    median_error: float | None
    needed: int | None  # users of an item that is published with even odds


Amount = Callable[[Foretold], float | None]


class TradeOff:
    """The table of rehearsals."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.source: str = data["from"]
        self.epsilons: Sequence[float] = data["epsilons"]
        self.deltas: Sequence[float] = sorted(data["deltas"])
        self.bounds: Mapping[str, Sequence[int]] = data["bounds"]
        self._points = {tuple(point[:4]): point[4:] for point in data["points"]}

    @classmethod
    def built_in(cls) -> "TradeOff":
        text = files("murmurlog.web").joinpath("trade_off.json").read_text(encoding="utf-8")
        return cls(json.loads(text))

    @property
    def mechanisms(self) -> list[str]:
        return list(self.bounds)

    def at(self, s: Setting) -> Foretold | None:
        """What is foretold for a setting; None if it was not rehearsed."""
        found = self._points.get((s.mechanism, s.per_user, s.delta, s.epsilon))
        if found is None:
            return None
        queries, volume, error, needed = found
        return Foretold(queries=queries, volume=volume, median_error=error, needed=needed)

    def curve(self, s: Setting) -> list[tuple[float, Foretold]]:
        """The same at every epsilon."""
        each = ((epsilon, self.at(replace(s, epsilon=epsilon))) for epsilon in self.epsilons)
        return [(epsilon, found) for epsilon, found in each if found is not None]

    def best_bound(self, mechanism: str, s: Setting) -> int:
        """The bound at which a mechanism publishes most."""

        def volume(per_user: int) -> float:
            found = self.at(replace(s, mechanism=mechanism, per_user=per_user))
            return found.volume if found else -1.0

        return max(self.bounds[mechanism], key=volume)

    def pictures(self, s: Setting, book: Book) -> list[str]:
        """The chosen mechanism at the chosen bound beside the others at their best."""
        settings = []
        for mechanism in self.mechanisms:
            chosen = mechanism == s.mechanism
            per_user = s.per_user if chosen else self.best_bound(mechanism, s)
            settings.append(replace(s, mechanism=mechanism, per_user=per_user))
        parts: dict[str, Amount] = {
            "How much of all searching is published": lambda point: point.volume,
            "How far off the top 100 counts are": lambda point: point.median_error,
        }
        made = [self._picture(settings, s, title=title, of=of) for title, of in parts.items()]
        profile = profile_of(book)
        able = [each for each in settings if profile and profile.speaks_of(each)]
        if profile and s in able:
            title = "How much of this bundle would be left"
            made.append(self._picture(able, s, title=title, of=profile.left))
        return [picture for picture in made if picture]

    def _picture(self, settings: Sequence[Setting], s: Setting, *, title: str, of: Amount) -> str:
        series, inks, dots = {}, {}, {}
        for each in settings:
            label = f"{each.mechanism}, {each.per_user}"
            line = [(e, y) for e, point in self.curve(each) if (y := of(point)) is not None]
            if line:
                series[label], inks[label] = line, INKS[each.mechanism]
        here = self.at(s)
        value = of(here) if here is not None and s in settings else None
        if value is not None:
            dots["your choice"] = charts.Dot(x=s.epsilon, y=value, ink=INKS[s.mechanism])
        if not series:
            return ""
        return charts.lines(
            series,
            title=title,
            x_label="epsilon per user",
            percent=True,
            inks=inks,
            dots=dots,
            frame=charts.COLUMN,
        )


# --- the bundle's own profile ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """The noisy counts of a bundle's queries, and how many users its own release asked for."""

    counts: Floats  # rising
    own: int | None
    per_user: int  # items of a user that were counted

    def speaks_of(self, s: Setting) -> bool:
        """Whether a release with this setting would count at least as much of each user."""
        return s.per_user >= self.per_user

    def enough(self, needed: int) -> int:
        """How many queries have a noisy count of at least so many."""
        return len(self.counts) - int(np.searchsorted(self.counts, needed))

    def left(self, point: Foretold) -> float | None:
        """The share of the bundle's queries that would be published; None if it cannot be told."""
        return None if point.needed is None else self.enough(point.needed) / len(self.counts)

    def sentence(self, s: Setting, needed: int) -> str:
        if not self.speaks_of(s):
            return (
                f"This bundle counted {self.per_user} items of a user. With {s.per_user} its counts "
                "would be smaller, so it cannot say what would be left of it."
            )
        text = (
            f"An item would need about {needed:,} users for even odds; {self.enough(needed):,} of the "
            f"{len(self.counts):,} queries of this bundle have a noisy count that high."
        )
        if self.own is None or needed < self.own:
            text += " What was too rare for this bundle cannot be seen from here."
        return text


@lru_cache(maxsize=32)
def profile_of(book: Book) -> Profile | None:
    """The profile of a bundle; None if it has no counts of queries."""
    claim, sheet = book.certificate.tables.get("query"), book.index.sheets.get("query")
    if claim is None or sheet is None or sheet.values is None or not len(sheet):
        return None
    per_user = claim.parameters.get("per_user")
    if not isinstance(per_user, int):
        return None
    return Profile(counts=np.sort(sheet.values), own=claim.passes.get("0.5"), per_user=per_user)


def here(book: Book, s: Setting, planned: Planned, foretold: Foretold | None) -> str | None:
    """What this setting would leave of the bundle, in a sentence."""
    profile = profile_of(book)
    needed = planned.passes.get("0.5") or (foretold.needed if foretold else None)
    return profile.sentence(s, needed) if profile is not None and needed else None
