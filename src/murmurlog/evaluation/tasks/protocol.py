"""The shape of every evaluation task, its settings, and how it declines a system."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from murmurlog.bundle.models.derived_tables import add_derived_tables
from murmurlog.bundle.schema import lists_of
from murmurlog.errors import UsageError
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Scoring

Tables = Mapping[str, pa.Table]


class Unfit(Exception):
    """A system lacks tables, or a log lacks columns, that a task needs; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the tasks."""

    questions: int = 10_000  # at most, for each task; the choice is always the same
    pattern: str = "fear of *"  # of the top-list study
    doc_freq: Mapping[str, int] | None = None  # posting lengths by keyword, for index caching
    cache_bytes: int = 1_000_000_000
    top_queries: int = 100_000  # the queries whose substitutions are the truth

    def __post_init__(self) -> None:
        for name in ("questions", "cache_bytes", "top_queries"):
            if getattr(self, name) < 1:
                flag = "--" + name.replace("_", "-")
                raise UsageError(f"{flag} must be at least 1, not {getattr(self, name)}")


Run = Callable[[Tables, Truth, Settings], Scoring]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task and how it is scored."""

    name: str  # as after --tasks
    run: Run  # the scores of a system; raises Unfit
    needs: frozenset[str] = frozenset()  # of the log: "url", "time", "labels" (what was planted)
    held_out: bool = False  # scored on users whom the release has not seen


def is_raw(tables: Tables, truth: Truth) -> bool:
    """Whether a system is the raw log: its tables are the exact ones."""
    return tables.get("query") is not None and tables["query"] is truth.tables.get("query")


def require_clicks(tables: Tables) -> None:
    """Raises Unfit unless there is a table of clicks, or of a log, which has them."""
    if not {"click", "log"} & set(tables):
        raise Unfit("needs a click table")


def complete(tables: Tables, *needed: str) -> dict[str, pa.Table]:
    """A system's tables and those that follow from them. Raises Unfit if a needed one is missing."""
    all_tables = add_derived_tables(tables)
    for kind in needed:
        if kind not in all_tables:
            raise lacking(tables, kind)
    return all_tables


def lacking(tables: Tables, *kinds: str) -> Unfit:
    """The reason that none of these tables is there: it may list labels or keywords, not queries."""
    others = "".join(
        f"; the {name} table lists {lists_of(table)}, not queries"
        for name, table in tables.items()
        if lists_of(table) != "queries"
    )
    return Unfit(f"needs a {' or '.join(', '.join(kinds).rsplit(', ', 1))} table{others}")
