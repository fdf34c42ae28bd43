"""The values that a shell completes after a flag."""

import re
from collections.abc import Callable, Iterable

from click.shell_completion import CompletionItem

from murmurlog.bundle.options import mechanism_table

FORECAST_KINDS = ("query", "keyword", "click", "pair")
# What completes a flag, wherever it is; a list with commas is completed after the last one.
VALUES: dict[str, tuple[str, ...] | Callable[[], Iterable[str]]] = {
    "--tables": ("keyword", "query", "pair", "click", "session", "itemset", "log", "left_out"),
    "--table": ("keyword", "query", "pair", "click", "session", "itemset", "log"),
    "--mechanism": lambda: (mechanism["name"] for mechanism in mechanism_table()["mechanisms"]),
    "--mechanisms": lambda: (mechanism["name"] for mechanism in mechanism_table()["mechanisms"]),
    "--baselines": ("raw", "k-query:20", "k-click:20", "k-session:5", "k-keyword:20", "users-30"),
    "--unit": ("user", "user-month", "user-week", "user-day"),
    "--neighbours": ("add-remove", "replace"),
    "--noise": ("geometric", "gaussian"),
    "--bound": ("first", "random"),
    "--url": ("host", "path", "full", "id"),
    "--keys": ("normalised", "canonical"),
    "--encoding": ("utf-8", "utf-16", "gb18030", "latin-1"),
    "--shape": ("aol", "sogou", "excite"),
    "--engine": ("duckdb", "spark"),
    "--to": ("csv", "parquet", "tsv", "trec", "hf", "ir-datasets", "graph"),
    "--period": ("month", "week", "day"),
    "--select": ("all", "period"),
    "--like": ("aol", "zealous"),
    "--kind": FORECAST_KINDS,
    "--goal": ("coverage", "precision"),
    "--x": ("value", "evaluated"),
    "--notion": ("dp", "pdp"),
    "--count": ("users", "rows"),
    "--subsequences": ("all", "whole"),
    "--objective": ("output", "frequent", "diverse", "breach"),
    "--diversity": ("pairs", "queries"),
    "--tasks": (
        "statistics", "ad-hoc", "suggestion", "session-search", "index-caching", "substitution",
        "keyword-generation", "top-list", "spelling", "sites", "query-classification",
        "autocomplete", "related-queries",
    ),
}  # fmt: skip


def complete_value(flag: str, start: str) -> list[str]:
    """The known values of a flag that begin with what is typed."""
    values = VALUES.get(flag, ())
    before, last = re.fullmatch(r"(.*[,=])?(.*)", start, re.DOTALL).groups("")  # type: ignore[union-attr]
    return [
        before + value
        for value in (values() if callable(values) else values)
        if value.startswith(last)
    ]


def complete_file(_context: object, _parameter: object, start: str) -> list[CompletionItem]:
    """Leaves the completion to the shell, which knows the files."""
    return [CompletionItem(start, type="file")]
