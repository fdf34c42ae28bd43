"""The command that looks at a log, exactly or privately. Imports are late: --help answers at once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json, Memory, Source
from murmurlog.cli.options import GroupedCommand, takes
from murmurlog.cli.output import aligned, progress, show, show_json, tell, warn_about
from murmurlog.errors import UsageError
from murmurlog.logs.options import ReadOptions
from murmurlog.publishing.planning.profile_options import Measured, ProfileOptions
from murmurlog.publishing.request import Booking

if TYPE_CHECKING:
    from murmurlog.publishing.planning.private_profile import Survey

# Flags that mean nothing for exact numbers: whoever gives one expects noise.
PRIVATE = {
    "delta": "--delta",
    "kind": "--kind",
    "per_user": "--per-user",
    "bound": "--bound",
    "unit": "--unit",
    "neighbours": "--neighbours",
    "screen": "--screen",
    "deny": "--deny",
    "ledger": "--ledger",
    "source_name": "--source",
    "new_source": "--new-source",
    "same_users": "--same-users",
    "out": "--out",
}
SHOWN_RANKS = (1, 10, 100, 1000, 10_000, 100_000)


@app.command(cls=GroupedCommand)
@takes(privacy=Measured, profile=ProfileOptions, read=ReadOptions, booking=Booking)
def profile(
    context: typer.Context,
    source: Source,
    out: Annotated[
        Path | None, typer.Option("--out", help="With --epsilon: a JSON file; must not exist.")
    ] = None,
    memory: Memory = None,
    as_json: Json = False,
    **groups: Any,
) -> None:
    """A first look at a log: exact and for the owner's eyes only, or with --epsilon private."""
    if groups["privacy"].epsilon is None:
        _check_exact(context)
        _exact(source, groups["read"], memory, as_json=as_json)
        return
    from murmurlog.publishing.planning.private_profile import ProfileRequest, carry_out

    request = ProfileRequest(source=source, out=out, memory=memory, **groups)
    with progress() as say:
        made = carry_out(request, say=say)
    warn_about(made.outline.guarantee)
    if out:
        tell(f"wrote {out}")
    tell("booked" if made.booked else "not booked: give --ledger and --source to keep count")
    if as_json:
        show_json(made.as_json())
        return
    _show(made)


def _check_exact(context: typer.Context) -> None:
    """Raises if a flag was typed that only a private profile has."""
    for name, option in PRIVATE.items():
        typed = context.get_parameter_source(name)
        if typed is not None and typed.name == "COMMANDLINE":
            raise UsageError(
                f"{option} is for a private profile, and without --epsilon the numbers are exact: "
                f"give --epsilon, or leave {option} out"
            )


def _exact(source: str, read: ReadOptions, memory: str | None, *, as_json: bool) -> None:
    from murmurlog.publishing.planning.exact_profile import look

    with progress() as say:
        found = look(source, read, memory=memory, say=say)
    tell("exact numbers, for your eyes only: publishing them, or tuning on them, is a release")
    if flags := " ".join(f"--{name} {value}" for name, value in found["proposed"].items()):
        tell(f"this was told from rows; a release asks you to say it: {flags}")
    if as_json:
        show_json(found)
        return
    show(f"{found['rows']} rows of {found['users']} users, {found['shape']}")
    show("columns: " + ", ".join(f"{r}={c}" for r, c in found["columns"].items()))
    for reason, n in found["broken"].items():
        show(f"broken: {n} x {reason}")
    for name, n in found["screened"].items():
        show(f"looks like personal data: {n} x {name}")
    listing = [["distinct items a user", "mean", "median", "99 %"]]
    for kind, n in found["items_per_user"].items():
        listing.append([kind, *(f"{n[name]:.1f}" for name in ("mean", "p50", "p99"))])
    show(aligned(listing))


def _show(made: "Survey") -> None:
    outline = made.outline
    n = outline.items_per_unit()
    show(f"about {round(outline.units)} units ({outline.unit}), {made.shape}")
    show("columns: " + ", ".join(f"{r}={c}" for r, c in made.columns.items()))
    figures = [f"{n[name]:.1f}" for name in ("mean", "p50", "p99")]
    heads = [f"distinct items a {outline.unit}", "mean", "median", "99 %"]
    show(aligned([heads, [outline.kind, *figures]]))
    ranks = [[f"{outline.kind} of rank", "units that hold it"]]
    ranks += [[str(rank), f"{outline.users_at(rank):.1f}"] for rank in SHOWN_RANKS]
    show(aligned(ranks))
    show(f"{outline.guarantee}")
