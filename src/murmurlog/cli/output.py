"""Where things are printed: data on stdout, words and progress on stderr."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

words = Console(stderr=True, highlight=False, soft_wrap=True)
data = Console(highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal, plain lines elsewhere."""
    if not words.is_terminal:
        yield lambda text: words.print(escape(text))
        return
    with words.status("starting") as status:
        yield lambda text: status.update(escape(text))


def table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table
