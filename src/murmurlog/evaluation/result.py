"""What an evaluation found: its systems, their results, tests between them, and what was left out.

It was made from the raw log, so it is internal: for the owner, never part of a bundle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from murmurlog.evaluation.scores import Comparison, Result
from murmurlog.privacy import Guarantee


@dataclass(frozen=True, kw_only=True)
class System:
    """What is evaluated: a release, a baseline, or the raw log itself."""

    name: str
    kind: str  # "raw", "bundle", "mechanism"
    guarantee: Guarantee | None
    rows: Mapping[str, int]  # of its tables
    budget: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "guarantee": self.guarantee.as_json() if self.guarantee else None,
            "rows": dict(self.rows),
            "budget": dict(self.budget),
        }


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A task that could not be run, and why."""

    system: str
    task: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """A result at one value of what a sweep varies."""

    vary: str
    at: float
    of: str  # the system; `result` carries the name of its line in the chart
    result: Result

    def as_json(self) -> dict[str, Any]:
        return {"vary": self.vary, "at": self.at, **self.result.as_json()}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All results of an evaluation. Internal: it was made from the raw log."""

    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...]
    skipped: tuple[Skipped, ...]
    systems: tuple[System, ...]
    how: str
    settings: Mapping[str, Any]
    log: Mapping[str, int]  # rows and users; for the owner only
    ranks: Mapping[str, Sequence[tuple[int, int, bool]]]  # query rank, its users, released or not
    # Of the top-list study: each query, its rank in the raw log, and its rank in each system.
    top_list: Sequence[tuple[str, int, Mapping[str, int | None]]] = ()
    points: tuple[Point, ...] = ()
    internal: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "internal": self.internal,
            "how": self.how,
            "settings": dict(self.settings),
            "log": dict(self.log),
            "systems": [system.as_json() for system in self.systems],
            "results": [result.as_json() for result in self.results],
            "comparisons": [comparison.as_json() for comparison in self.comparisons],
            "skipped": [vars(skipped) for skipped in self.skipped],
            "top_list": [
                {"query": query, "raw_rank": rank, "ranks": dict(ranks)}
                for query, rank, ranks in self.top_list
            ],
            "points": [point.as_json() for point in self.points],
        }
