"""The evaluation tasks: each runs on a system's tables and is scored against the log.

To add one: a module with a function `score` here, what it computes from tables in `bundle/models/`, a
line in TASKS, a section in docs/reference/tasks.md, and a case small enough to do by hand in the tests.
"""

from collections.abc import Sequence

from murmurlog.errors import UsageError
from murmurlog.evaluation.tasks import (
    ad_hoc,
    autocomplete,
    index_caching,
    keyword_generation,
    query_classification,
    related_queries,
    session_search,
    sites,
    spelling,
    statistics,
    substitution,
    suggestion,
    top_list,
)
from murmurlog.evaluation.tasks.protocol import Run, Settings, Tables, Task, Unfit


def _task(name: str, run: Run, *needs: str, held_out: bool = False) -> Task:
    return Task(name=name, run=run, needs=frozenset(needs), held_out=held_out)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _task("statistics", statistics.score),
        _task("ad-hoc", ad_hoc.score, "url", held_out=True),
        _task("suggestion", suggestion.score, "time", held_out=True),
        _task("session-search", session_search.score, "time", "url", held_out=True),
        _task("index-caching", index_caching.score, held_out=True),
        _task("substitution", substitution.score, "time"),
        _task("keyword-generation", keyword_generation.score, "url"),
        _task("top-list", top_list.score),
        _task("spelling", spelling.score, "labels", "time"),
        _task("sites", sites.score, "labels", "url"),
        _task("query-classification", query_classification.score, "labels", "url", held_out=True),
        _task("autocomplete", autocomplete.score, held_out=True),
        _task("related-queries", related_queries.score, held_out=True),
    )
}

__all__ = ["TASKS", "Settings", "Tables", "Task", "Unfit", "choose"]


def choose(names: Sequence[str] | None) -> list[Task]:
    """The tasks of these names; all of them if no names are given."""
    if unknown := sorted(set(names or ()) - set(TASKS)):
        raise UsageError(f"--tasks has no {', '.join(unknown)}: use {', '.join(TASKS)}")
    return [task for name, task in TASKS.items() if names is None or name in names]
