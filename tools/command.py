"""Runs a function as a command of its own, with the messages and exit codes of murmurlog."""

import sys
from collections.abc import Callable

import typer

from murmurlog.cli.output import tell
from murmurlog.errors import MurmurlogError


def run(function: Callable[..., None], *, name: str) -> None:
    """Reads the command line, calls the function, and prints errors without a traceback."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(function)
    try:
        app(prog_name=name)
    except MurmurlogError as error:
        tell(f"{error.word} ({error.exit_code}): {error}")
        sys.exit(error.exit_code)
