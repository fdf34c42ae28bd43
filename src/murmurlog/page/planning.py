"""The Plan view without any log: thresholds by a planner that is given, trade-offs from a table.

The planner reaches mechanisms, which this side of the wall must not import; the command line passes
it in. The table (benchmarks/trade_off.py) holds rehearsals on a generated log.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from murmurlog import charts
from murmurlog.page.shelf import Book
from murmurlog.privacy import Guarantee

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
        text = files("murmurlog.page").joinpath("trade_off.json").read_text(encoding="utf-8")
        return cls(json.loads(text))

    @property
    def mechanisms(self) -> list[str]:
        return list(self.bounds)

    def at(self, s: Setting) -> Foretold | None:
        """What is foretold for a setting; None if it was not rehearsed."""
        found = self._points.get((s.mechanism, s.per_user, s.delta, s.epsilon))
        if found is None:
            return None
        queries, volume, error = found
        return Foretold(queries=queries, volume=volume, median_error=error)

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

    def pictures(self, s: Setting) -> list[str]:
        """The chosen mechanism at the chosen bound beside the others at their best."""
        curves = {}
        for mechanism in self.mechanisms:
            chosen = mechanism == s.mechanism
            per_user = s.per_user if chosen else self.best_bound(mechanism, s)
            own = replace(s, mechanism=mechanism, per_user=per_user)
            curves[f"{mechanism}, {per_user}"] = (mechanism, self.curve(own))
        here = self.at(s)
        parts = [
            ("volume", "How much of all searching is published", True),
            ("median_error", "How far off the top 100 counts are", True),
        ]
        return [
            _picture(curves, here, s, name=name, title=title, percent=percent)
            for name, title, percent in parts
        ]


def _picture(
    curves: Mapping[str, tuple[str, list[tuple[float, Foretold]]]],
    here: Foretold | None,
    s: Setting,
    *,
    name: str,
    title: str,
    percent: bool,
) -> str:
    series, inks = {}, {}
    for label, (mechanism, curve) in curves.items():
        line = [(e, getattr(f, name)) for e, f in curve if getattr(f, name) is not None]
        if line:
            series[label], inks[label] = line, INKS[mechanism]
    dots = {}
    value = None if here is None else getattr(here, name)
    if value is not None:
        dots["your choice"] = charts.Dot(x=s.epsilon, y=value, ink=INKS[s.mechanism])
    return charts.lines(
        series,
        title=title,
        x_label="epsilon per user",
        percent=percent,
        inks=inks,
        dots=dots,
        frame=charts.COLUMN,
    )


@dataclass(frozen=True, kw_only=True)
class Here:
    """What a threshold would leave of the bundle that is looked at."""

    needed: int
    enough: int
    all: int
    own: int | None  # users that the bundle's own release asked for

    @cached_property
    def sentence(self) -> str:
        text = (
            f"Of the {self.all:,} queries of this bundle {self.enough:,} have a noisy count of at "
            f"least {self.needed:,}."
        )
        if self.own is None or self.needed < self.own:
            text += " What is rarer than its own threshold cannot be seen from here."
        return text


def here(book: Book, planned: Planned) -> Here | None:
    """How many published queries reach the new threshold; None where there is none to reach."""
    sheet, needed = book.index.sheets.get("query"), planned.passes.get("0.5")
    if sheet is None or sheet.values is None or not needed or "query" not in book.release.tables:
        return None
    return Here(
        needed=needed,
        enough=int(np.count_nonzero(sheet.values >= needed)),
        all=len(sheet),
        own=book.certificate.tables["query"].passes.get("0.5"),
    )
