"""The command that inspects a log, asks its owner and writes settings. Imports are late."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmurlog.cli.options import FILE, command, json_option, option, source_argument
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.logs.options import ReadOptions

MOST_BROKEN = ReadOptions.max_broken
MOST_UNUSED = 20  # columns without a role that are listed
FEW_ROWS = 100  # of which hardly anything can be published

if TYPE_CHECKING:
    from murmurlog.publishing.proposal import Proposal


@command(examples=["murmurlog init log.csv", "murmurlog init log.csv --yes"])
@source_argument
@option("--yes", is_flag=True, help="Take the proposals; ask nothing.")
@option("--out", type=FILE, default="murmurlog.toml", help="The file of settings to write.")
@option("--force", is_flag=True, help="Replace the file of settings.")
@option("--ledger", type=FILE, help="The ledger. Default: the one beside --out.")
@option("--source", "name", help="The population of users, as the ledger calls it.")
@option(
    "--new-source", is_flag=True, help="Add a source to a ledger that has others: for other users."
)
@json_option
def init(
    source: str,
    yes: bool,
    out: Path,
    force: bool,
    ledger: Path | None,
    name: str | None,
    new_source: bool,
    as_json: bool,
) -> None:
    """Inspect your log, ask for what cannot be detected in it, and write murmurlog.toml."""
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "init asks questions, and there is no terminal to answer them: give --yes to take the "
            "proposals, and change murmurlog.toml afterwards"
        )
    from murmurlog.publishing.init import propose
    from murmurlog.publishing.proposal import account_of, check_out, write
    from murmurlog.publishing.questions import Dialog, ask_owner

    class Terminal(Dialog):
        """Asks at the terminal; names and values of the log cannot control it."""

        def tell(self, text: str) -> None:
            tell(text)

        def show(self, proposal: "Proposal") -> None:
            tell(_describe(proposal))

    check_out(out, force=force)
    flags = {"ledger": ledger, "source_name": name, "new_source": new_source or None}
    answers: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    try:
        with ExitStack() as copies:
            with progress() as say:
                proposal = copies.enter_context(
                    propose(source, out=out, asks=not yes, say=say, **answers)
                )
            if yes:
                (tell if as_json else show)(_describe(proposal))
            else:
                proposal = ask_owner(proposal, Terminal())
        account = account_of(proposal.answers)
        proposal = write(proposal, out, force=force)
    except KeyboardInterrupt:
        tell("stopped: nothing was written")
        sys.exit(130)
    if as_json:
        show_json(proposal.as_json())
    _report(proposal, has_cap=account is not None and account.epsilon_cap is not None)


def _describe(proposal: "Proposal") -> str:
    """What a proposal found in the log, as lines."""
    inspection, trial = proposal.inspection, proposal.trial
    lines = [
        f"{proposal.source}: what was found, for your eyes only",
        f"  format     {proposal.reading.get('format', inspection.format)}",
    ]
    if d := inspection.delimiter:
        sign = "" if d.character.isspace() else f" ({d.character})"
        lines.append(f"  delimiter  {d.name}{sign}: {d.fields} fields")
    if inspection.encoding:
        lines.append(f"  encoding   {inspection.encoding.name}: {inspection.encoding.why}")
    if t := inspection.time:
        form = proposal.reading.get("time_format") or t.name
        lines.append(f"  times      {form}, from {t.first:%Y-%m-%d} to {t.last:%Y-%m-%d}")
    if proposal.reading.get("url") == "id":
        lines.append("  clicks     ids of documents, kept as they are (--url id)")
    role_of = {
        name: role for role, name in proposal.reading.get("columns", inspection.roles).items()
    }
    rows = [["  column", "is the", "a few values"]]
    unused = [column for column in inspection.columns if column.name not in role_of]
    for column in inspection.columns:
        if column not in unused[MOST_UNUSED:]:
            # A line break in a value must not look like a line of this text.
            cells = (column.name, role_of.get(column.name, "-"), " | ".join(column.samples))
            rows.append(
                ["  " + " ".join(cells[0].split()), *(" ".join(c.split()) for c in cells[1:])]
            )
    lines.append(align(rows))
    if more := unused[MOST_UNUSED:]:
        lines.append(f"  and {len(more)} more columns that are not used")
    lines += [f"  not clear: {doubt}" for doubt in inspection.doubts]
    part = " in a sample spread over the file" if trial.sampled else ""
    if trial.failure:
        lines.append(f"  unreadable: {trial.failure}")
    else:
        why = ", ".join(f"{n:,} x {reason}" for reason, n in trial.broken.items())
        lines.append(
            f"  unreadable {trial.share:.1%} of {trial.total:,} rows{part}{f': {why}' if why else ''}"
        )
        if trial.total < FEW_ROWS:
            lines.append(
                "  few rows   a query is published if dozens of users searched for it: expect little or "
                "nothing"
            )
    if trial.share > MOST_BROKEN:
        lines.append(f"  a release stops if more than {MOST_BROKEN:.0%} are (--max-broken)")
    return "\n".join(lines)


def _report(proposal: "Proposal", *, has_cap: bool) -> None:
    """Prints what was written and what to do next."""
    answers = proposal.answers
    tell(f"wrote {proposal.out}: read it before the first release")
    if answers.ledger is None:
        tell("no ledger: releases will not be booked")
    elif has_cap:
        tell(f'{answers.ledger}: source "{answers.source_name}" keeps its cap')
    else:
        tell(
            f'{answers.ledger}: source "{answers.source_name}" may spend epsilon {answers.cap_epsilon:g}, '
            f"delta {answers.whole_delta:g} per user in all"
        )
    tell(f"next: {proposal.command}")
