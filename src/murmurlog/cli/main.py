"""The entry point: errors are printed without a traceback and give the exit code."""

import os
import sys

from rich.markup import escape

from murmurlog.cli import commands, ledger
from murmurlog.cli.app import app
from murmurlog.cli.output import words
from murmurlog.errors import MurmurlogError

__all__ = ["commands", "ledger", "main"]  # importing the two registers their commands


def main() -> None:
    """The entry point: prints errors without a traceback and exits with their code."""
    try:
        app()
    except MurmurlogError as error:
        words.print(f"{error.word} ({error.exit_code}): {escape(str(error))}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        words.print("stopped; a budget that was reserved stays booked")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if os.environ.get("MURMURLOG_DEBUG"):
            raise
        words.print(
            f"internal (70): {type(error).__name__} in murmurlog itself. A budget that was reserved "
            "stays booked. Run again with MURMURLOG_DEBUG=1 and report what it prints."
        )
        sys.exit(70)
