"""The command that looks at a log, exactly or privately. Imports are late: --help answers at once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    Columns,
    Delta,
    Encoding,
    Json,
    LedgerFile,
    Memory,
    Neighbours,
    Shape,
    Source,
    Strict,
    Unit,
    Url,
    flag,
    number,
    one_pair,
    pairs,
)
from murmurlog.cli.output import aligned, progress, show, show_json, tell, warn_about
from murmurlog.errors import UsageError

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
    "out": "--out",
}
SHOWN_RANKS = (1, 10, 100, 1000, 10_000, 100_000)


@app.command()
def profile(
    context: typer.Context,
    source: Source,
    # What spends or writes is never taken from a variable that was set for releases.
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Measure with noise, at this cost per unit.", parser=number),
    ] = None,
    delta: Delta = None,
    kind: Annotated[
        str, typer.Option("--kind", help="With --epsilon: query, keyword, click or pair.")
    ] = "query",
    per_user: Annotated[
        int, typer.Option("--per-user", help="With --epsilon: distinct items a unit.")
    ] = 20,
    bound: Annotated[
        str | None,
        flag("--bound", help="first (by time) or random. Default first if there are times."),
    ] = None,
    unit: Unit = "user",
    neighbours: Neighbours = "add-remove",
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    since: Annotated[
        str | None, flag("--since", help="Rows from this day or time on (UTC).")
    ] = None,
    until: Annotated[
        str | None, flag("--until", help="Rows before this day or time (UTC).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Rows with this value only: column=value; once for each."),
    ] = None,
    url: Url = "path",
    screen: Annotated[
        bool,
        typer.Option(
            "--screen/--no-screen", help="With --epsilon: drop what looks like personal data."
        ),
    ] = True,
    patterns: Annotated[
        Path | None, flag("--patterns", help="Patterns of the screen, a TOML file.")
    ] = None,
    deny: Annotated[Path | None, flag("--deny", help="Queries never to count, one a line.")] = None,
    strict: Strict = False,
    ledger: LedgerFile = None,
    source_name: Annotated[
        str | None, flag("--source", help="The population of users, as the ledger calls it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="With --epsilon: a JSON file; must not exist.")
    ] = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """A first look at a log: exact and for the owner's eyes only, or with --epsilon private."""
    shared: dict[str, Any] = {
        "columns": pairs(columns, "--columns"),
        "encoding": encoding,
        "shape": shape,
        "url": url,
        "strict": strict,
        "since": since,
        "until": until,
        "where": dict(one_pair(text, "--where") for text in where or ()) or None,
        "memory": memory,
    }
    if epsilon is None:
        _check_exact(context)
        _exact(source, patterns, shared, as_json=as_json)
        return
    from murmurlog.publishing.planning.private_profile import survey

    with progress() as say:
        made = survey(
            source,
            epsilon=epsilon,
            delta=delta,
            kind=kind,
            per_user=per_user,
            bound=bound,
            unit=unit,
            neighbours=neighbours,
            screen=screen,
            patterns=patterns,
            deny=deny,
            ledger=ledger,
            source_name=source_name,
            out=out,
            say=say,
            **shared,
        )
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


def _exact(source: str, patterns: Path | None, shared: dict[str, Any], *, as_json: bool) -> None:
    from murmurlog.logs.screen import load
    from murmurlog.publishing.planning.exact_profile import profile as run

    with progress() as say:
        found = run(source, screen=load(patterns), say=say, **shared)
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
