"""What the [release] section of a murmurlog.toml asks of a mechanism, read as `release` reads it."""

from pathlib import Path
from typing import Any

import typer

from murmurlog.cli.app import app, settings_of
from murmurlog.cli.flags import mechanism_of, per_user_bounds, shares_of
from murmurlog.errors import UsageError
from murmurlog.mechanisms import MECHANISMS

# Options that name public files: an audit writes pools and lists of its own.
FILES = {"pool", "result_lists", "map", "fakes"}


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
    if given["letters"]:
        raise UsageError(f"{path.name} gives letters (set): an audit needs epsilon and delta")
    if given["unit"] != "user":
        raise UsageError(f"{path.name}: audits are of unit user, not {given['unit']!r:.80}")
    if given["map"]:
        raise UsageError(
            f"{path.name} gives a map: labels are of all worlds together, an audit cannot tell them "
            "apart. Leave map out to audit sessions of queries."
        )
    known = {option for each in MECHANISMS.values() for option in each.options}
    options = {name: given[name] for name in settings if name in known - FILES}
    if "split" in options:
        options["split"] = shares_of(given["split"], "--split")
    tables, bounds = given["tables"], given["per_user"]
    return {
        "mechanism": mechanism_of(given["mechanism"]),
        "epsilon": given["epsilon"],
        "delta": given["delta"],
        "per_user": {} if bounds is None else per_user_bounds(bounds),
        "neighbours": given["neighbours"],
        "noise": given["noise"],
        "tables": None if tables is None else tuple(t.strip() for t in tables.split(",")),
        "options": options,
        "files": ("result_lists",) if given["result_lists"] else (),
    }
