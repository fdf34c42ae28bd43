"""The command that makes a release. Imports are late: --help answers at once."""

from typing import TYPE_CHECKING, Any

from murmurlog.cli.options import command, json_option, option, source_argument, takes
from murmurlog.cli.output import align, progress, show_json, tell, warn_about
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.running import Running
from murmurlog.publishing.request import (
    Booking,
    Budget,
    Content,
    ReleaseRequest,
    Statements,
)

if TYPE_CHECKING:
    from murmurlog.publishing.release import Outcome


@command(
    usual=[
        *("--tables", "--mechanism", "--per-user", "--by"),
        *("--epsilon", "--delta", "--unit", "--of-cap", "--users"),
        *("--ledger", "--source", "--new-source"),
        *("--columns", "--format", "--since", "--until", "--url", "--screen", "--deny"),
        *("--memory", "--engine", "--about"),
    ],
    examples=[
        "murmurlog release log.parquet --epsilon 1 --out first",
        "murmurlog release log.parquet --tables query --ledger budget.db --source web --out bundle",
    ],
)
@source_argument
@option(
    "--out",
    default="bundle",
    envvar="MURMURLOG_OUT",
    help="The bundle's folder; must not exist.",
)
@option(
    "--dry-run",
    is_flag=True,
    envvar="MURMURLOG_DRY_RUN",
    help="Say what would be done; read no row.",
)
@json_option
@takes(
    budget=Budget,
    content=Content,
    read=ReadOptions,
    booking=Booking,
    running=Running,
    statements=Statements,
    mechanisms=True,
)
def release(
    source: str,
    out: str,
    dry_run: bool,
    as_json: bool,
    budget: Budget,
    content: Content,
    read: ReadOptions,
    booking: Booking,
    running: Running,
    statements: Statements,
    options: dict[str, Any],
) -> None:
    """Publish the tables of a log as a bundle, under one guarantee."""
    from murmurlog.publishing.release import carry_out

    request = ReleaseRequest(
        source=source, out=out, dry_run=dry_run, budget=budget, content=content, read=read,
        booking=booking, running=running, statements=statements, options=options,
    )  # fmt: skip
    with progress() as say:
        outcome = carry_out(request, say=say)
    _report(outcome, request.budget.users)
    if as_json:
        show_json(outcome.as_json())


def _report(outcome: "Outcome", users: int | None) -> None:
    g = outcome.guarantee
    if outcome.broken:
        reasons = ", ".join(f"{n} x {reason}" for reason, n in outcome.broken.items())
        tell(f"rows not used as they are (for your eyes only): {reasons}")
    listing = [["table", "rows", "mechanism", "epsilon", "delta"]]
    for name, plan in outcome.plans.items():
        count = str(outcome.rows.get(name, "-"))
        stated = plan.guarantee.as_json()
        budget = [
            "none" if stated[part] is None else f"{stated[part]:{digits}}"
            for part, digits in (("epsilon", ".6g"), ("delta", ".3g"))
        ]
        listing.append([name, count, _short(str(plan.mechanism)), *budget])
    tell(align(listing))
    tell(f"together: {g}")
    warn_about(g)
    for name, notes in outcome.notes.items():
        for note, value in notes.items():
            tell(f"{name}: {note}: {value}")
    if outcome.verdict:
        first, *more = outcome.verdict.lines()
        tell("\n  ".join([f"verdict: {first}", *more]))
    if not outcome.rows:
        tell("dry run: no row was read, nothing was booked or written")
        return
    if g.notion == "none":
        tell(f"wrote {outcome.out}, which claims nothing: murmurlog verify will say so")
        return
    if users is None:
        tell("delta was not checked against a number of users; declare one with --users.")
    tell(_booking(outcome))
    tell(f"wrote {outcome.out}; check it: murmurlog verify {outcome.out}")


def _booking(outcome: "Outcome") -> str:
    """Whether the release was booked, and which part of the cap it takes."""
    if not outcome.booked:
        return "not booked: give --ledger and --source to keep count"
    booked = outcome.certificate and outcome.certificate.booked
    if not booked:
        return "booked"
    from murmurlog.privacy import Amounts
    from murmurlog.publishing.ledger_filter import in_words

    part = in_words(Amounts(**booked["rectangle"]), Amounts(**booked["part"]))
    return f'booked: {part} of source "{booked["source"]}"'


def _short(mechanism: str) -> str:
    """The mechanism's text, or its first letters; privacy.json has them all."""
    return mechanism if len(mechanism) <= 60 else mechanism[:48].rsplit(",", 1)[0] + ", ...)"
