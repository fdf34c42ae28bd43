"""The entry point: errors are printed without a traceback and give the exit code."""

import os
import sys

from murmurlog.cli import (
    audit,
    commands,
    estimate,
    evaluate,
    export,
    ledger,
    plan,
    pool,
    profile,
    reproduce,
    serve,
)
from murmurlog.cli.app import app
from murmurlog.cli.output import tell
from murmurlog.errors import MurmurlogError

# Importing them registers their commands.
__all__ = [
    "audit",
    "commands",
    "estimate",
    "evaluate",
    "export",
    "ledger",
    "main",
    "plan",
    "pool",
    "profile",
    "reproduce",
    "serve",
]

STOPPED = "stopped; a budget that was reserved stays booked"


def main() -> None:
    """The entry point: prints errors without a traceback and exits with their code."""
    try:
        app()
    except MurmurlogError as error:
        tell(f"{error.word} ({error.exit_code}): {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        tell(STOPPED)
        sys.exit(130)
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # DuckDB's Ctrl-C
            tell(STOPPED)
            sys.exit(130)
        if os.environ.get("MURMURLOG_DEBUG"):
            raise
        tell(
            f"internal (70): {type(error).__name__} in murmurlog itself. A budget that was reserved "
            "stays booked. Run again with MURMURLOG_DEBUG=1 and report what it prints."
        )
        sys.exit(70)
