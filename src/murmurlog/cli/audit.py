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
        typer.Option("--picture", help="Also an HTML page: intervals against claims."),
    ] = None,
    as_json: Json = False,
    *,
    attacked: Attacked,
) -> None:
    """Attack a mechanism on the whole road: a lower bound on epsilon against the claim."""
    from murmurlog.auditing import attack as auditing
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
        picture.write_text(_page(made), encoding="utf-8")
        tell(f"wrote {picture}")
    if as_json:
        show_json(made.as_json())
    else:
        _print(made)
    if made.violations:
        raise typer.Exit(VIOLATION)


def _print(made: "Audit") -> None:
    show(made.sentence())
    show("")
    rows = [("setting", "claimed", "delta", "measured at least", "by")]
    for name in dict.fromkeys(each.setting for each in made.measured):
        if best := made.at(name):
            rows.append(
                (name, f"{best.claim:.4g}", f"{best.delta:.2g}", f"{best.least:.2f}",
                 f"{best.pair} ({best.way})")
            )  # fmt: skip
    show(aligned(rows))
    if made.power:
        show("")
        power = [("table", "stage of the noise", "draws", "less noise is seen from")]
        power += [
            (each.table, each.stage, str(each.draws), f"{100 * each.smallest:.1f} %")
            for each in made.power
        ]
        show(aligned(power))
    for text in made.violations:
        show(f"VIOLATION {text}")
    for text in made.skipped:
        tell(f"not offered: {text}")
    tell(
        f"{made.releases} releases, {made.worlds} worlds, {made.tests} tests in "
        f"{made.seconds:.0f} s. That no violation was found proves nothing."
    )


def _page(made: "Audit") -> str:
    from murmurlog.auditing.figure import Bar, picture

    bars = [
        Bar(label=f"{each.setting}: {each.pair}, {each.way}"[-70:], claim=each.claim,
            least=each.least, near=each.near, most=each.most)
        for each in made.measured
    ]  # fmt: skip
    words = [
        made.sentence(),
        "A line begins at the least epsilon that is true at this confidence and ends where this "
        "attack says no more; the dashed mark is what is claimed. A line that begins right of its "
        "mark refutes the claim. A line left of it proves nothing.",
        *made.violations,
    ]
    return picture(bars, title=f"Audit of {made.mechanism}", words=words)
