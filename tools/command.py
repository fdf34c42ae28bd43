"""Runs a function as a command of its own, with the messages and exit codes of murmurlog."""

import sys

import click

from murmurlog.cli.output import tell
from murmurlog.errors import MurmurlogError


def run(command: click.Command, *, name: str) -> None:
    """Reads the command line, runs the command, and prints errors without a traceback."""
    try:
        command.main(prog_name=name)
    except MurmurlogError as error:
        tell(f"{error.word} ({error.exit_code}): {error}")
        sys.exit(error.exit_code)
