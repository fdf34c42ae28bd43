"""Ctrl-C and other requests to end: the work unwinds as after an error. Imports nothing heavy."""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLEANING_UP = 2.0  # seconds in which a second signal changes nothing: temporary files are removed

_first: list[tuple[int, float]] = []  # the signal that ends the process, and when it came


class Stopped(BaseException):
    """A signal asked the process to end. Not a KeyboardInterrupt, which libraries catch."""


def listen() -> None:
    """From here on a signal unwinds the work; signals that are ignored stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _repeat


def clean_up() -> None:
    """Removes temporary folders that a stop left: only this process knows that nothing uses them."""
    scratch: Any = sys.modules.get("murmurlog.bundle.scratch")
    if scratch is not None:
        scratch.remove_rest()


def leave() -> None:
    """From here on a signal ends the process at once, without a message: the work is cleaned up."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def exit_code(error: BaseException) -> int | None:
    """The exit code if the error comes from a signal; libraries turn signals into their own errors."""
    if isinstance(error, SystemExit) and not error.code:
        return None  # it had ended already
    if _first:
        return 128 + _first[0][0]
    interrupted = isinstance(error, RuntimeError) and str(error) == "Query interrupted"  # DuckDB's
    return 130 if interrupted or isinstance(error, KeyboardInterrupt) else None


def sentence() -> str:
    """A sentence on what was spent by the time of the stop."""
    # A command that never loaded the module has nothing to book.
    publishing: Any = sys.modules.get("murmurlog.publishing.booking")
    return f"stopped: {publishing.last_sentence() if publishing else 'nothing was booked'}"


def _stop(number: int, _: FrameType | None) -> None:
    now = time.monotonic()
    if _first and now - _first[-1][1] < CLEANING_UP:
        return
    _first.append((number, now))
    raise Stopped


def _repeat(unraisable: Any) -> None:
    """A stop in a destructor or a callback goes nowhere: it is repeated a moment later."""
    if not issubclass(unraisable.exc_type, Stopped):
        sys.__unraisablehook__(unraisable)
        return
    number, _ = _first.pop()
    threading.Timer(0.02, os.kill, [os.getpid(), number]).start()
