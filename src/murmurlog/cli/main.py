"""The commands, run: errors are printed without a traceback and give the exit code."""

import errno
import os
import sys

from murmurlog.cli import (
    audit,
    compare,
    completion,
    demo,
    estimate,
    evaluate,
    export,
    generate,
    help,
    init,
    ledger,
    plan,
    profile,
    release,
    series,
    serve,
    stop,
    verify,
)
from murmurlog.cli.app import app
from murmurlog.cli.output import tell
from murmurlog.errors import MurmurlogError

# Importing them registers their commands.
__all__ = [
    "audit",
    "compare",
    "demo",
    "estimate",
    "evaluate",
    "export",
    "generate",
    "help",
    "init",
    "ledger",
    "main",
    "plan",
    "profile",
    "release",
    "series",
    "serve",
    "verify",
]

# A path that was given leads nowhere; other failures of the machine are a disk's.
NO_PATH = (
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
)


def main() -> None:
    """Runs a command: prints errors without a traceback and exits with their code."""
    completion.prepare()
    try:
        app(prog_name="murmurlog")
    except BaseException as error:
        if (code := stop.exit_code(error)) is not None:
            tell(stop.sentence())
            _exit(code)
        _report(error)


def _report(error: BaseException) -> None:
    """Says what is wrong and exits with its code."""
    if isinstance(error, MurmurlogError):
        tell(f"{error.word} ({error.exit_code}): {error}")
        _exit(error.exit_code)
    if isinstance(error, MemoryError):
        tell("engine (5): memory ran out; a budget that was reserved stays booked")
        sys.exit(5)
    if isinstance(error, OSError):
        code = 2 if error.errno in NO_PATH else 5
        word = "usage" if code == 2 else "disk"
        what = f"{error.filename!r:.200} " if error.filename else ""
        tell(f"{word} ({code}): {what}cannot be used: {error.strerror or type(error).__name__}")
        sys.exit(code)
    if isinstance(error, SystemExit) or os.environ.get("MURMURLOG_DEBUG"):
        raise error
    tell(
        f"internal (70): {type(error).__name__} in murmurlog itself. A budget that was reserved "
        "stays booked. Run again with MURMURLOG_DEBUG=1 and report what it prints."
    )
    sys.exit(70)


def _exit(code: int) -> None:
    """Ends the process, at once if a step of an object store still runs: Arrow would wait for it."""
    store = sys.modules.get("murmurlog.logs.object_store")
    if store is not None and store.is_waiting():
        sys.stdout.flush()
        sys.stderr.flush()
        stop.clean_up()
        os._exit(code)
    sys.exit(code)
