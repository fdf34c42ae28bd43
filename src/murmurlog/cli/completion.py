"""Shell completion: the command that prints the script of a shell, and the values of flags."""

import os
import re
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from murmurlog.bundle.options import mechanism_table
from murmurlog.cli.help_text import COMMANDS
from murmurlog.errors import UsageError

NAME, VARIABLE = "murmurlog", "_MURMURLOG_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
FORECAST_KINDS = ("query", "keyword", "click", "pair")
# What completes a flag, wherever it is; a list with commas is completed after the last one.
VALUES: dict[str, tuple[str, ...] | Callable[[], Iterable[str]]] = {
    "--tables": ("keyword", "query", "pair", "click", "session", "itemset", "log", "left_out"),
    "--table": ("keyword", "query", "pair", "click", "session", "itemset", "log"),
    "--mechanism": lambda: (each["name"] for each in mechanism_table()["mechanisms"]),
    "--mechanisms": lambda: (each["name"] for each in mechanism_table()["mechanisms"]),
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


def completer(flag: str) -> Callable[[str], list[str]] | None:
    """What Typer asks for the values of a flag; None if they are not known."""
    values = VALUES.get(flag)
    if values is None:
        return None

    def complete(incomplete: str) -> list[str]:
        known = values() if callable(values) else values
        before, start = re.fullmatch(r"(.*[,=])?(.*)", incomplete, re.DOTALL).groups("")  # type: ignore[union-attr]
        return [before + value for value in known if value.startswith(start)]

    return complete


def prepare() -> None:
    """Tells Typer about the shells, if a shell is asking."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def _shells(incomplete: str) -> list[str]:
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def completion(
    shell: Annotated[
        str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=_shells)
    ],
) -> None:
    """Print a script that completes commands, flags and values in a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from murmurlog.cli.output import show

    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell!r}: use {', '.join(SHELLS)}")
    show(get_completion_script(prog_name=NAME, complete_var=VARIABLE, shell=shell))


def topics() -> list[str]:
    """What `murmurlog help` explains."""
    return [*COMMANDS, *(each["name"] for each in mechanism_table()["mechanisms"])]
