"""The mechanisms' own options: which were chosen, whether they fit, and the public files they name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms import MECHANISMS, Asked, declared_options, named
from murmurlog.publishing.plan import MECHANISM, Plan, check_options, plan, usual_mechanism


def chosen_options(
    mechanisms: Sequence[str], options: Mapping[str, Any], **settings: Any
) -> dict[str, Any]:
    """The options that were given, each of which one of the mechanisms must have.

    `settings` mean something for every release; a mechanism gets those that it looks at.
    """
    given = {n: value for n, value in options.items() if value is not None and value is not False}
    if given.get("count") == "users":  # what everything counts unless told otherwise
        del given["count"]
    check_options(mechanisms, given)
    declared = declared_options()
    for text in (name for name in mechanisms if name not in MECHANISMS):
        own = [n for n in given if n in named(text).option_names() and not _needed(n, declared)]
        if own:
            flag = declared[min(own)][0].flag
            raise UsageError(f"{text} says all there is to choose: leave {flag} out")
    taken = {option for name in mechanisms for option in named(name).option_names()}
    return given | {n: v for n, v in settings.items() if v is not None and n in taken}


def _needed(name: str, declared: Mapping[str, Any]) -> bool:
    """Whether a mechanism needs the option beside its parameters: the content of a public file."""
    return bool(declared[name][0].public_file and name != "map")


def prepare_options(
    options: Mapping[str, Any], asked: Asked, *, log: Sequence[Path] = ()
) -> dict[str, Any]:
    """The options checked against the release, with what is in the public files they name."""
    declared = {name: declared_options()[name][0] for name in options if name in declared_options()}
    files = [option for option in declared.values() if option.public_file]
    for option in files:
        paths = option.files(options[option.name])
        if any(path.exists() and path.samefile(file) for path in paths for file in log):
            raise Refused(
                f"{option.flag} names the log itself. What it lists must be public and fixed without "
                "the log (A4): everything made from the log is private until it is released."
            )
    loaded = dict(options)
    for name, option in declared.items():
        if option.prepare is not None:
            loaded[name] = option.prepare(options[name], asked)
    if asked.by and files:
        raise UsageError(
            f"--by and {files[0].flag} do not go together: the file has no such column"
        )
    return loaded


def plan_mechanism(
    mechanism: str | None = None, *, users: int | None = None, url: str = "path", **asked: Any
) -> Plan:
    """The plan of one table of a mechanism, with its public files read; looks at no log."""
    names = ("epsilon", "delta", "per_user", "noise", "unit", "neighbours", "letters")
    general = {name: asked.pop(name) for name in names if name in asked}
    set_only = asked.pop("set_only", None)
    usual = usual_mechanism(noise=general.get("noise"), letters=general.get("letters"))
    mechanism = mechanism or usual or MECHANISM
    kind = named(mechanism)
    table = "query" if "query" in kind.tables else kind.tables[0]
    chosen = chosen_options([mechanism], asked, users=users, set_only=set_only)
    chosen = prepare_options(chosen, Asked(mechanisms={table: mechanism}, url=url))
    if general.get("letters") or mechanism not in MECHANISMS:
        return plan(mechanism=mechanism, **general)
    name, options = kind.for_table(table, chosen)
    return plan(mechanism=name, options=options, **general)
