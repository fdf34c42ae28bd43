"""The command that attacks a mechanism. Imports are late: --help answers at once."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from murmurlog.bundle.options import Option, read_bounds, read_number
from murmurlog.cli.app import app, settings_of
from murmurlog.cli.options import (
    DECIMAL,
    FILE,
    INTEGER,
    command,
    group_value,
    json_option,
    mechanism_options,
    option,
    takes,
)
from murmurlog.cli.output import aligned, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.publishing.request import Budget, Content, mechanism_of

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


@command(examples=["murmurlog audit --mechanism threshold --epsilon 1 --trials 300"])
@option("--spec", type=FILE, help="A murmurlog.toml: what its [release] says is attacked.")
@option(
    "--trials",
    type=INTEGER,
    default=4000,
    help="Worlds of each pair of neighbours in a release.",
)
@option("--confidence", type=DECIMAL, default=0.99, help="Of all bounds together.")
@option(
    "--picture",
    type=FILE,
    help="Also an HTML page: what was attacked, and what would have been seen.",
)
@json_option
@takes(attacked=Attacked)
@click.pass_context
def audit(
    context: click.Context,
    spec: Path | None,
    trials: int,
    confidence: float,
    picture: Path | None,
    as_json: bool,
    attacked: Attacked,
) -> None:
    """Attack a mechanism by its bundles: a lower bound on epsilon against the claim."""
    from murmurlog.auditing import attack as auditing
    from murmurlog.auditing.page import verdict_page

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
        sys.exit(VIOLATION)


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


def audited(path: Path) -> dict[str, Any]:
    """The arguments of `audit` for the release that a file describes; the log is not looked at."""
    settings = settings_of(path).get("release")
    if settings is None:
        raise UsageError(f"{path.name} has no [release] section: there is nothing to audit")
    from murmurlog.mechanisms import declared_options

    try:
        given = (
            app.commands["release"].make_context("release", ["log"], default_map=settings).params
        )
    except click.BadParameter as error:
        raise UsageError(f"{path.name}: {error.format_message()}") from None
    budget, content = group_value(Budget, given), group_value(Content, given)
    if budget.of_cap is not None:
        raise UsageError(f"{path.name} gives of-cap: an audit needs epsilon and delta")
    if content.letters:
        raise UsageError(f"{path.name} gives letters (set): an audit needs epsilon and delta")
    if budget.unit != "user":
        raise UsageError(f"{path.name}: audits are of unit user, not {budget.unit!r:.80}")
    if given["map"]:
        raise UsageError(
            f"{path.name} gives a map: labels are of all worlds together, an audit cannot tell them "
            "apart. Leave map out to audit sessions of queries."
        )
    declared = declared_options()
    # An audit writes pools and lists of its own, and says how many fakes they may have.
    own = {name for name, (option, _) in declared.items() if not option.public_file} - {"fakes"}
    options = mechanism_options({name: given[name] for name in settings if name in own})
    return {
        "mechanism": content.mechanism,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "per_user": {} if content.per_user is None else content.per_user,
        "neighbours": budget.neighbours,
        "noise": content.noise,
        "tables": None if content.tables is None else tuple(content.tables),
        "options": options,
        "files": ("result_lists",) if given["result_lists"] else (),
    }
