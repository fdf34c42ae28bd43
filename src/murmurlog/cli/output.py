"""Printing: data on stdout, messages and progress on stderr. Nothing is ever cut."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

LARGE_DELTA = 1e-3
# What a terminal or a reader would obey: control characters and marks that change the direction of
# writing; and halves of surrogate pairs, which cannot be encoded.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class _Terminal(Console):
    """Stderr. A reader that has left (`2>&1 | head`) must not end a release half way."""

    def on_broken_pipe(self) -> None:
        self.file = io.StringIO()


_terminal = _Terminal(stderr=True, markup=False, highlight=False, soft_wrap=True)


def harmless(text: str) -> str:
    """The text with every character escaped that a terminal would obey: names come from other people."""
    return _UNSHOWN.sub(lambda match: ascii(match[0])[1:-1], text)


def show(text: str) -> None:
    """A line of data. A reader that has left changes nothing about the work or its exit code."""
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        sys.stdout = io.StringIO()


def show_json(value: Any) -> None:
    show(json.dumps(value, indent=2, ensure_ascii=False))


def show_csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    show(text.getvalue().rstrip("\n"))


def tell(text: str) -> None:
    """A line for the person at the terminal."""
    _terminal.print(harmless(text))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Bars on a terminal, a line for each stage elsewhere; always on stderr."""
    if not _terminal.is_terminal or _terminal.is_dumb_terminal:
        yield tell
        return
    from murmurlog.cli.progress_bar import TerminalReporter

    reporter = TerminalReporter(_terminal)
    with reporter.drawing:
        yield reporter


def align(rows: Sequence[Sequence[str]]) -> str:
    """The rows as lines, with each column padded to one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def warn_about(guarantee: Any) -> None:
    """Warns of a large delta, or of a release without a guarantee."""
    if guarantee.notion == "none":
        tell("warning: nothing is proved about this release. Do not publish it.")
    elif guarantee.plain_delta >= LARGE_DELTA:
        tell(
            f"warning: delta {guarantee.delta:.3g} is large. No more is promised a {guarantee.unit} than "
            "if all of it were given away with this chance; keep it far below one over their number."
        )
