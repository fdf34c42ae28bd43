"""The command that attacks a mechanism. Imports are late: --help answers at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from murmurlog.bundle.options import Option, read_bounds, read_number
from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.options import GroupedCommand, takes
from murmurlog.cli.output import aligned, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.publishing.request import mechanism_of

if TYPE_CHECKING:
    from murmurlog.auditing.result import Audit

VIOLATION = 1  # the exit code


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """What is attacked."""

    mechanism: Annotated[
        str | Mapping[str, str] | None,
        Option(
            help="For all tables, or query=rounds,click=threshold. Default rounds.",
            read=mechanism_of,
        ),
    ] = None
    epsilon: Annotated[
        float | None, Option(help="Of the whole release, per unit. Default 1.", read=read_number)
    ] = None
    delta: Annotated[
        float | None,
        Option(help="Of the whole release, per unit. Default 1e-6.", read=read_number),
    ] = None
    per_user: Annotated[
        int | Mapping[str, int] | None,
        Option(help="Distinct items a unit. Default 1.", read=read_bounds, variable=False),
    ] = None
    neighbours: Annotated[str, Option(help="add-remove or replace.")] = "add-remove"
    noise: Annotated[
        str | None, Option(help="geometric or gaussian. Default: the lower threshold.")
    ] = None


@app.command(cls=GroupedCommand)
@takes(attacked=Attacked)
def audit(
    context: typer.Context,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", help="A murmurlog.toml: what its [release] says is attacked."),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", help="Worlds of each pair of neighbours in a release.")
    ] = 4000,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Of all bounds together.")
    ] = 0.99,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", help="Also an HTML page: what was attacked, and what would have been seen."
        ),
    ] = None,
    as_json: Json = False,
    *,
    attacked: Attacked,
) -> None:
    """Attack a mechanism by its bundles: a lower bound on epsilon against the claim."""
    from murmurlog.auditing import attack as auditing
    from murmurlog.auditing.page import verdict_page
    from murmurlog.cli.release_section import audited

    # Its default is a neighbouring too: only where it comes from tells whether it was asked for.
    source = context.get_parameter_source("neighbours")
    asked_too = source is not None and source.name != "DEFAULT"
    given = (name for name, value in vars(attacked).items() if name != "neighbours" and value)
    if spec and (asked_too or any(given)):
        raise UsageError(
            "--spec says what is attacked: leave --mechanism, --neighbours and the budget out"
        )
    if picture and (picture.exists() or picture.is_symlink()):
        raise UsageError(f"--picture {str(picture)!r} exists: choose another name")
    asked = dict(vars(attacked))
    if spec:
        asked = audited(spec)
    with progress() as say:
        made = auditing.audit(**asked, trials=trials, confidence=confidence, say=say)
    if picture:
        picture.write_text(verdict_page(made), encoding="utf-8")
        tell(f"wrote {picture}")
    if as_json:
        show_json(made.as_json())
    else:
        _print(made)
    if made.violations:
        raise typer.Exit(VIOLATION)


def _print(made: "Audit") -> None:
    from murmurlog.auditing.page import attacks_in_rows

    show(made.sentence())
    show("")
    show(f"Attacked: {made.worlds:,} worlds in {made.releases} releases.")
    show(aligned(attacks_in_rows(made)))
    if made.not_attacked:
        show("")
        show(aligned([("not attacked", "because")]
                     + [(each.what, each.why) for each in made.not_attacked]))  # fmt: skip
    for text in made.violations:
        show(f"VIOLATION {text}")
    tell(
        f"{made.releases} releases, {made.worlds} worlds, {made.tests} tests in "
        f"{made.seconds:.0f} s. That no violation was found proves nothing."
    )
