"""The commands, run: errors are printed without a traceback and give the exit code."""

import errno
import os
import sys

import click

from murmurlog.cli import stop
from murmurlog.cli.app import app
from murmurlog.cli.audit import audit
from murmurlog.cli.compare import compare
from murmurlog.cli.demo import demo
from murmurlog.cli.estimate import estimate
from murmurlog.cli.evaluate import evaluate, sweep
from murmurlog.cli.export import export
from murmurlog.cli.generate import generate
from murmurlog.cli.help import completion, explain
from murmurlog.cli.init import init
from murmurlog.cli.ledger import ledger
from murmurlog.cli.output import tell
from murmurlog.cli.plan import plan
from murmurlog.cli.profile import profile
from murmurlog.cli.release import release
from murmurlog.cli.series import series
from murmurlog.cli.serve import serve
from murmurlog.cli.verify import verify
from murmurlog.errors import MurmurlogError

__all__ = ["app", "main"]

# In the order in which an owner needs them, which is that of --help.
for command in (
    *(init, profile, plan, release, verify, serve),
    *(estimate, compare, export, series, ledger),
    *(evaluate, sweep, audit, demo, generate, completion, explain),
):
    app.add_command(command)

# Errors of a path that the user gave; all other errors of the operating system count as those of a disk.
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
    try:
        sys.exit(app.main(prog_name="murmurlog", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BaseException as error:
        cause = error.__cause__ if isinstance(error, click.Abort) else None
        if (code := stop.exit_code(cause or error)) is not None:
            tell(stop.sentence())
            _exit_at_once(code)
        _report(cause or error)


def _report(error: BaseException) -> None:
    """Prints what is wrong and exits with its code."""
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
        _exit_at_once(code)
    sys.exit(code)


def _exit_at_once(code: int) -> None:
    """Ends the process without Python's shutdown, in which a library's thread that needs Python aborts it."""
    sys.stdout.flush()
    sys.stderr.flush()
    stop.clean_up()
    os._exit(code)
