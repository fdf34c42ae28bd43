"""`murmurlog.generate`: an invented log, as a value and as a file."""

from collections.abc import Callable
from pathlib import Path

from murmurlog.errors import UsageError
from murmurlog.logs.invented.generate import (
    Invented,
    check_labels,
    check_target,
    invent,
    write,
    write_labels,
)


def generate(
    *,
    rows: int,
    out: str | Path | None = None,
    seed: int = 1,
    like: str | None = None,
    labels: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Invented:
    """An invented search log of so many rows: nobody's, and shaped like a real one.

    The same seed gives the same log. `like` is "aol" or "zealous". The log is written to `out`, in the
    format that its ending names, and what was planted in it to `labels`.
    """
    target = None if out is None else Path(out)
    planted = None if labels is None else Path(labels)
    if target:
        check_target(target)
    if planted:
        if target is None:
            raise UsageError("labels are written beside a log: give out, too")
        check_labels(planted, like=like, out=target)
    say(f"inventing {rows} rows")
    log = invent(rows=rows, seed=seed, like=like, say=say)
    if target:
        say(f"writing {target.name}")
        write(log, target)
    if planted:
        write_labels(log, planted)
    return log
