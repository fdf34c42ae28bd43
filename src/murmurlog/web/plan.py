"""The Plan view, which needs no log: thresholds from a planner, forecasts from the bundle at hand.

The planner uses mechanisms, which this room must not import; the command line passes it in. The table
(written by benchmarks/trade_off.py) holds simulated releases of a generated log; from it the view takes
how many users an item needs. How many queries that is follows from the bundle's own noisy counts.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from murmurlog.bundle.popularity import Popularity
from murmurlog.charts import charts
from murmurlog.privacy import Guarantee
from murmurlog.web.bundles import Book

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
class Point:
    """Averages over simulated releases of a generated log."""

    queries: int
    volume: float
    median_error: float | None
    needed: int | None  # users of an item that is published with probability 1/2


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a release of the bundle's log with a setting is expected to hold."""

    queries: int
    needed: int  # users of a query that is published with probability 1/2
    basis: str


Amount = Callable[[Point], float | None]


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

    def at(self, s: Setting) -> Point | None:
        """The simulated releases with a setting; None if there are none."""
        found = self._points.get((s.mechanism, s.per_user, s.delta, s.epsilon))
        if found is None:
            return None
        queries, volume, error, needed = found
        return Point(queries=queries, volume=volume, median_error=error, needed=needed)

    def curve(self, s: Setting) -> list[tuple[float, Point]]:
        """The simulated releases with a setting at every epsilon."""
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
        popularity = popularity_of(book, self)
        measures: dict[str, Amount] = {}
        if popularity:
            measures["Queries that would be published"] = lambda point: (
                None if point.needed is None else popularity.rows(point.needed)
            )
        measures["Users that a query needs for even odds"] = lambda point: point.needed
        charts = [self._picture(settings, s, title=title, of=of) for title, of in measures.items()]
        return [chart for chart in charts if chart]

    def needed(self, mechanism: str, per_user: int, guarantee: Guarantee) -> float | None:
        """The users that an item needed in a release, between the nearest simulated settings."""
        if mechanism not in self.bounds or guarantee.notion != "dp":
            return None
        delta = min(self.deltas, key=lambda d: abs(math.log(d / max(guarantee.delta, 1e-300))))
        bound = min(self.bounds[mechanism], key=lambda d: abs(math.log(d / per_user)))
        s = Setting(mechanism=mechanism, epsilon=1.0, delta=delta, per_user=bound)
        points = [(epsilon, point.needed) for epsilon, point in self.curve(s) if point.needed]
        if not points:
            return None
        epsilons, users = np.log(np.array(points, np.float64)).T
        return math.exp(float(np.interp(math.log(max(guarantee.epsilon, 1e-300)), epsilons, users)))

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
            percent=False,
            inks=inks,
            dots=dots,
            frame=charts.COLUMN,
        )


# --- the bundle at hand ---------------------------------------------------------------------------


@lru_cache(maxsize=32)
def popularity_of(book: Book, trade_off: TradeOff) -> Popularity | None:
    """The popularity of the bundle's queries; None if it has no table of queries, or neither rows
    nor declared users."""
    certificate = book.certificate
    claim, sheet = certificate.tables.get("query"), book.index.sheets.get("query")
    if claim is None or sheet is None or not (len(sheet) or certificate.declared_users):
        return None
    per_user = claim.parameters.get("per_user")
    mechanism = claim.mechanism.partition("(")[0]
    level: float | None = claim.passes.get("0.5")
    if isinstance(per_user, int) and per_user > 0:
        level = trade_off.needed(mechanism, per_user, claim.guarantee) or level
    if not level:
        return None
    return Popularity.of(certificate, book.release.tables["query"], level=level)


def forecast_for(book: Book, s: Setting, trade_off: TradeOff) -> Forecast | None:
    """The forecast for the log of a bundle; None if no noise can be certified or nothing is known."""
    point, popularity = trade_off.at(s), popularity_of(book, trade_off)
    if point is None or point.needed is None or popularity is None:
        return None
    return Forecast(
        queries=popularity.rows(point.needed), needed=point.needed, basis=popularity.basis
    )
