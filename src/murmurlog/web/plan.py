"""The Plan view, which needs no log: thresholds from a planner, trade-offs from a table.

The planner uses mechanisms, which this room must not import; the command line passes it in. The table
(written by benchmarks/trade_off.py) holds simulated releases of a generated log.
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
    """The values of the sliders."""

    mechanism: str
    epsilon: float
    delta: float
    per_user: int

    @classmethod
    def usual(cls) -> "Setting":
        """The defaults of `release`."""
        return cls(mechanism="rounds", epsilon=1.0, delta=1e-6, per_user=100)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan of a mechanism for a setting; independent of any log."""

    mechanism: str  # its text form
    guarantee: Guarantee
    sentence: str
    passes: Mapping[str, int]  # the number of users that an item needs, by probability
    command: str


Planner = Callable[[Setting], Planned]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Averages over simulated releases."""

    queries: int
    volume: float
    median_error: float | None
    needed: int | None  # users of an item that is published with probability 1/2


Amount = Callable[[Forecast], float | None]


class TradeOff:
    """The table of simulated releases."""

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

    def at(self, s: Setting) -> Forecast | None:
        """The forecast for a setting; None if it was not simulated."""
        found = self._points.get((s.mechanism, s.per_user, s.delta, s.epsilon))
        if found is None:
            return None
        queries, volume, error, needed = found
        return Forecast(queries=queries, volume=volume, median_error=error, needed=needed)

    def curve(self, s: Setting) -> list[tuple[float, Forecast]]:
        """The forecasts of a setting at every epsilon."""
        each = ((epsilon, self.at(replace(s, epsilon=epsilon))) for epsilon in self.epsilons)
        return [(epsilon, found) for epsilon, found in each if found is not None]

    def best_bound(self, mechanism: str, s: Setting) -> int:
        """The bound at which a mechanism publishes most."""

        def volume(per_user: int) -> float:
            found = self.at(replace(s, mechanism=mechanism, per_user=per_user))
            return found.volume if found else -1.0

        return max(self.bounds[mechanism], key=volume)

    def pictures(self, s: Setting, book: Book) -> list[str]:
        """Charts of the chosen mechanism at its bound beside the others at their best bounds."""
        settings = []
        for mechanism in self.mechanisms:
            chosen = mechanism == s.mechanism
            per_user = s.per_user if chosen else self.best_bound(mechanism, s)
            settings.append(replace(s, mechanism=mechanism, per_user=per_user))
        measures: dict[str, Amount] = {
            "Share of all searches that is published": lambda point: point.volume,
            "Median error of the top 100 counts": lambda point: point.median_error,
        }
        charts = [self._picture(settings, s, title=title, of=of) for title, of in measures.items()]
        profile = profile_of(book)
        able = [each for each in settings if profile and profile.applies_to(each)]
        if profile and s in able:
            title = "Share of this bundle that would remain"
            charts.append(self._picture(able, s, title=title, of=profile.left))
        return [chart for chart in charts if chart]

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
    """The noisy counts of a bundle's queries, and the bounds and thresholds of its release."""

    counts: Floats  # ascending
    own: int | None  # users of an item that its own release published with probability 1/2
    per_user: int  # the bound on items of a user

    def applies_to(self, s: Setting) -> bool:
        """Whether a release with this setting would count at least as many items of each user."""
        return s.per_user >= self.per_user

    def enough(self, needed: int) -> int:
        """The number of queries with a noisy count of at least `needed`."""
        return len(self.counts) - int(np.searchsorted(self.counts, needed))

    def left(self, point: Forecast) -> float | None:
        """The share of the bundle's queries that would be published; None if unknown."""
        return None if point.needed is None else self.enough(point.needed) / len(self.counts)

    def sentence(self, s: Setting, needed: int) -> str:
        if not self.applies_to(s):
            return (
                f"This bundle counted {self.per_user} items of each user. With {s.per_user} its counts "
                "would be smaller, so no forecast from this bundle is possible."
            )
        text = (
            f"An item would need about {needed:,} users for even odds; {self.enough(needed):,} of the "
            f"{len(self.counts):,} queries of this bundle have a noisy count that high."
        )
        if self.own is None or needed < self.own:
            text += " Queries that were too rare for this bundle are not included."
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


def describe_bundle(
    book: Book, s: Setting, planned: Planned, forecast: Forecast | None
) -> str | None:
    """A sentence on how many queries of the bundle this setting would publish."""
    profile = profile_of(book)
    needed = planned.passes.get("0.5") or (forecast.needed if forecast else None)
    return profile.sentence(s, needed) if profile is not None and needed else None
