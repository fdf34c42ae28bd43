"""From a log to its settings: looks at the log with its owner, asks, and writes murmurlog.toml."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.logs.inputs import ArrowStream, LogSource, is_table, local_source, name_of
from murmurlog.logs.inspection.inspect import inspect
from murmurlog.logs.inspection.trial import try_reading
from murmurlog.logs.options import SourceOptions
from murmurlog.publishing.ledger_file import usual_ledger
from murmurlog.publishing.proposal import (
    LEDGER,
    TOML,
    Answers,
    Proposal,
    check_out,
    check_source,
    ledger_of,
    propose_source,
    write,
)
from murmurlog.publishing.questions import Dialog, ask_owner

READ_ONCE = ("read_next_batch", "read_next", "__next__")  # what streams have and tables have not


def init(
    source: LogSource,
    *,
    out: str | Path | None = TOML,
    yes: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **answers: Any,
) -> Proposal:
    """Settings for the releases of a log, written to `out`, with a cap in a ledger beside it.

    `source` is a path or an address, or a table of pandas, polars, Arrow, DuckDB or Ibis, whose rows are
    copied to a private file as a stream. A stream that can be read once is refused: nothing would be
    left to release.
    What is found is for the owner's eyes only. `answers` are what rows do not say: title, publisher,
    license, users, epsilon, ledger, source_name, new_source, cap_epsilon, cap_delta. `yes=False` asks
    for them at the keyboard. A ledger that has one source keeps to it: another one needs a name and
    `new_source=True`, which says that it is about other users. `out=None` writes nothing.
    """
    target = None if out is None else Path(out)
    if target is not None:
        check_out(target, force=force)
    with propose(source, out=target, asks=not yes, say=say, **answers) as proposal:
        if not yes:
            proposal = ask_owner(proposal, Dialog(), say=say)
    return proposal if target is None else write(proposal, target, force=force)


@contextmanager
def propose(
    source: LogSource,
    *,
    out: Path | None = None,
    asks: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **answers: Any,
) -> Iterator[Proposal]:
    """The proposal for a log, which can be read again while the block lasts; writes nothing.

    Raises if the ledger has several sources and none is named, unless that `asks` the owner later.
    """
    if unknown := set(answers) - {field.name for field in fields(Answers)}:
        raise UsageError(f"init has no option {', '.join(sorted(unknown))}")
    if is_table(source):
        place, name = f"a {name_of(source)}", "searches"
        title = "Search queries"
        if isinstance(source, ArrowStream) and any(hasattr(source, field) for field in READ_ONCE):
            raise UsageError(
                f"{place} can be read once: after init nothing would be left to release. Give init the "
                "table or the file that it comes from, or save it as Parquet first"
            )
    else:
        place = os.fspath(source)  # type: ignore[arg-type]
        name = source_name(place)
        title = f"Search queries of {name}"
    if place == "-":
        raise UsageError(
            "init reads a log more than once, and stdin can be read once: save it first"
        )
    if "ledger" not in answers:
        # The settings that are replaced name it, or it is beside them.
        folder = out.parent if out else Path()
        answers["ledger"] = (out and ledger_of(out)) or usual_ledger(folder, LEDGER)
    elif answers["ledger"] is not None:
        answers["ledger"] = Path(answers["ledger"])
    answered = Answers(**{"title": title, **answers})
    if not answered.source_name:
        answered = replace(answered, source_name=propose_source(answered, name))
    if answered.source_name or not asks:
        check_source(answered)
    with local_source(source, SourceOptions(), say=say) as path:
        say(f"looking at {name_of(path.partition('::')[0]) or place}")
        inspection = inspect(path)
        say("reading it as a release would")
        trial = try_reading(inspection, inspection.settings, say=say)
        yield Proposal(
            source=place, name=name, is_table=is_table(source), inspection=inspection, reading=inspection.settings,
            trial=trial, answers=answered,
        )  # fmt: skip


def source_name(path: str) -> str:
    """A name for the population of users: the file's, without its endings."""
    address, _, table = path.partition("::")
    name = table if "://" in address else Path(address).resolve().name.partition(".")[0]
    plain = "".join(c if c.isalnum() or c in "-_ " else "-" for c in name).strip("- ")
    return plain[:60] or "searches"
