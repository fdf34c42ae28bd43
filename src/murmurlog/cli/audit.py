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
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.publishing.request import Budget, Content, mechanism_of

if TYPE_CHECKING:
    from murmurlog.auditing.result import Audit

VIOLATION = 1  # the exit code


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is attacked."""  # the heading of its flags

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
@takes(target=Target)
@click.pass_context
def audit(
    context: click.Context,
    spec: Path | None,
    trials: int,
    confidence: float,
    picture: Path | None,
    as_json: bool,
    target: Target,
) -> None:
    """Attack a mechanism by its bundles: a lower bound on epsilon against the claim."""
    from murmurlog.auditing import attack as auditing
    from murmurlog.auditing.page import verdict_page

    # The default of --neighbours is a value, too: only its source shows whether the user set it.
    source = context.get_parameter_source("neighbours")
    sets_neighbours = source is not None and source.name != "DEFAULT"
    sets_others = any(value for name, value in vars(target).items() if name != "neighbours")
    if spec and (sets_neighbours or sets_others):
        raise UsageError(
            "--spec says what is attacked: leave --mechanism, --neighbours and the budget out"
        )
    if picture and (picture.exists() or picture.is_symlink()):
        raise UsageError(f"--picture {str(picture)!r} exists: choose another name")
    request = spec_arguments(spec) if spec else dict(vars(target))
    with progress() as say:
        result = auditing.audit(**request, trials=trials, confidence=confidence, say=say)
    if picture:
        picture.write_text(verdict_page(result), encoding="utf-8")
        tell(f"wrote {picture}")
    if as_json:
        show_json(result.as_json())
    else:
        _print(result)
    if result.violations:
        sys.exit(VIOLATION)


def _print(result: "Audit") -> None:
    from murmurlog.auditing.page import attacks_in_rows

    show(result.sentence())
    show("")
    show(f"Attacked: {result.worlds:,} worlds in {result.releases} releases.")
    show(align(attacks_in_rows(result)))
    if result.not_attacked:
        show("")
        show(align([("not attacked", "because")]
                     + [(omission.what, omission.why) for omission in result.not_attacked]))  # fmt: skip
    for text in result.violations:
        show(f"VIOLATION {text}")
    tell(
        f"{result.releases} releases, {result.worlds} worlds, {result.tests} tests in "
        f"{result.seconds:.0f} s. That no violation was found proves nothing."
    )


def spec_arguments(path: Path) -> dict[str, Any]:
    """The arguments of `audit` for the release that a file describes; the log is not read."""
    settings = settings_of(path).get("release")
    if settings is None:
        raise UsageError(f"{path.name} has no [release] section: there is nothing to audit")
    from murmurlog.mechanisms import declared_options

    try:
        parameters = (
            app.commands["release"].make_context("release", ["log"], default_map=settings).params
        )
    except click.BadParameter as error:
        raise UsageError(f"{path.name}: {error.format_message()}") from None
    budget, content = group_value(Budget, parameters), group_value(Content, parameters)
    if budget.of_cap is not None:
        raise UsageError(f"{path.name} gives of-cap: an audit needs epsilon and delta")
    if content.letters:
        raise UsageError(f"{path.name} gives letters (set): an audit needs epsilon and delta")
    if budget.unit != "user":
        raise UsageError(f"{path.name}: audits are of unit user, not {budget.unit!r:.80}")
    if parameters["map"]:
        raise UsageError(
            f"{path.name} gives a map: labels are of all worlds together, an audit cannot tell them "
            "apart. Leave map out to audit sessions of queries."
        )
    declared = declared_options()
    # An audit writes pools and lists of its own, and says how many fakes they may have.
    names = {name for name, (option, _) in declared.items() if not option.public_file} - {"fakes"}
    options = mechanism_options({name: parameters[name] for name in settings if name in names})
    return {
        "mechanism": content.mechanism,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "per_user": {} if content.per_user is None else content.per_user,
        "neighbours": budget.neighbours,
        "noise": content.noise,
        "tables": None if content.tables is None else tuple(content.tables),
        "options": options,
        "files": ("result_lists",) if parameters["result_lists"] else (),
    }
