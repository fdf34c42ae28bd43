"""What every trial offers, what it may be told, and how it declines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from murmurlog.errors import UsageError
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Figure, Scores


class Unfit(Exception):
    """A system has not the tables, or a log not the columns, that a task needs; says which."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the one who evaluates may choose."""

    questions: int = 10_000  # at most so many questions a task, a choice that is the same each time
    pattern: str = "fear of *"  # of the top-list study
    doc_freq: Mapping[str, int] | None = None  # posting lengths by keyword, for index caching
    cache_bytes: int = 1_000_000_000
    top_queries: int = 100_000  # whose substitutions are the truth

    def __post_init__(self) -> None:
        for name in ("questions", "cache_bytes", "top_queries"):
            if getattr(self, name) < 1:
                flag = "--" + name.replace("_", "-")
                raise UsageError(f"{flag} must be at least 1, not {getattr(self, name)}")


class Trial(Protocol):
    """A task and how it is scored. It holds no state: a system's tables in, its scores out."""

    @property
    def name(self) -> str:
        """As after --tasks."""

    @property
    def needs(self) -> frozenset[str]:
        """What the log must have: "url", "time", "labels" (what was planted)."""

    @property
    def held_out(self) -> bool:
        """Whether it is scored on users whom the release has not seen."""

    def run(
        self, tables: Mapping[str, pa.Table], truth: Truth, settings: Settings
    ) -> list[Scores | Figure]:
        """The scores of a system; `tables` are its published ones. Raises Unfit."""
