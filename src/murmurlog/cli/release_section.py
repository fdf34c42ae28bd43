"""What the [release] section of a murmurlog.toml asks of a mechanism, read as `release` reads it."""

from pathlib import Path
from typing import Any

import typer

from murmurlog.cli.app import app, settings_of
from murmurlog.cli.options import from_flags, mechanism_options
from murmurlog.errors import UsageError
from murmurlog.mechanisms import declared_options
from murmurlog.publishing.request import Budget, Content


def audited(path: Path) -> dict[str, Any]:
    """The arguments of `audit` for the release that a file describes; the log is not looked at."""
    settings = settings_of(path).get("release")
    if settings is None:
        raise UsageError(f"{path.name} has no [release] section: there is nothing to audit")
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    try:
        given = commands["release"].make_context("release", ["log"], default_map=settings).params
    except typer.BadParameter as error:
        raise UsageError(f"{path.name}: {error.format_message()}") from None
    budget, content = from_flags(Budget, given), from_flags(Content, given)
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
