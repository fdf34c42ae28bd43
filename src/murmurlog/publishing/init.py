"""From a log to its settings: looks at the log with its owner, asks, and writes murmurlog.toml."""

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.logs.inspection.inspect import inspect
from murmurlog.logs.inspection.trial import try_reading
from murmurlog.publishing.proposal import (
    LEDGER,
    TOML,
    Answers,
    Proposal,
    check_out,
    write,
)
from murmurlog.publishing.questions import Dialog, ask_owner


def init(
    source: str | Path,
    *,
    out: str | Path | None = TOML,
    yes: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **answers: Any,
) -> Proposal:
    """Settings for the releases of a log, written to `out`, with a cap in a ledger beside it.

    What is found is for the owner's eyes only. `answers` are what rows do not say: title, publisher,
    license, users, epsilon, ledger, source_name, cap_epsilon, cap_delta. `yes=False` asks for them at
    the keyboard. `out=None` writes nothing.
    """
    target = None if out is None else Path(out)
    if target is not None:
        check_out(target, force=force)
    made = propose(source, out=target, say=say, **answers)
    if not yes:
        made = ask_owner(made, Dialog(), say=say)
    return made if target is None else write(made, target, force=force)


def propose(
    source: str | Path,
    *,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    **answers: Any,
) -> Proposal:
    """The proposal for a log; writes nothing."""
    if not isinstance(source, str | os.PathLike):
        raise UsageError(
            f"init looks at a file, a folder or a table of a database by its name, not at a "
            f"{type(source).__name__}: give a str or a Path"
        )
    if unknown := set(answers) - {each.name for each in fields(Answers)}:
        raise UsageError(f"init has no option {', '.join(sorted(unknown))}")
    path = os.fspath(source)
    if path == "-":
        raise UsageError(
            "init reads a log more than once, and stdin can be read once: save it first"
        )
    say(f"looking at {Path(path.partition('::')[0]).name or path}")
    found = inspect(path)
    say("reading it as a release would")
    trial = try_reading(found, found.settings, say=say)
    name = source_name(path)
    usual: dict[str, Any] = {
        "title": f"Search queries of {name}",
        "ledger": (out.parent if out else Path()) / LEDGER,
        "source_name": name,
    }
    if (ledger := answers.get("ledger")) is not None:
        answers["ledger"] = Path(ledger)
    said = Answers(**{**usual, **answers})
    return Proposal(inspection=found, reading=found.settings, trial=trial, answers=said)


def source_name(path: str) -> str:
    """A name for the population of users: the file's, without its endings."""
    address, _, table = path.partition("::")
    name = table if "://" in address else Path(address).resolve().name.partition(".")[0]
    kept = "".join(c if c.isalnum() or c in "-_ " else "-" for c in name).strip("- ")
    return kept[:60] or "searches"
