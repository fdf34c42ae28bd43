"""The mechanisms' own options: which were chosen, whether they fit, and the public files they name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms import MECHANISMS, Asked, declared_options, named
from murmurlog.publishing.claims import check_budget_kept
from murmurlog.publishing.plan import (
    MECHANISM,
    Plan,
    check_options,
    plan,
    usual_mechanism,
)

BOUNDS = ("d", "m", "q_f", "c_f")  # letters for the number of items a unit keeps


def chosen_options(
    mechanisms: Sequence[str],
    options: Mapping[str, Any],
    letters: Mapping[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """The options that were given, each of which one of the mechanisms must have.

    Parameters, in a mechanism's text or as `letters`, leave nothing to choose but public files.
    `settings` mean something for every release; a mechanism gets those that it looks at.
    """
    given = {n: value for n, value in options.items() if value is not None and value is not False}
    if given.get("count") == "users":  # what everything counts unless told otherwise
        del given["count"]
    check_options(mechanisms, given)
    declared = declared_options()
    given = {n: declared[n][0].fit(v) if n in declared else v for n, v in given.items()}
    for text in mechanisms if letters else (name for name in mechanisms if name not in MECHANISMS):
        own = [n for n in given if n in named(text).option_names() and not _needed(n, declared)]
        if letters and "map" in own:  # it selects the mechanism whose letters these are
            own.remove("map")
        if own:
            flag = declared[min(own)][0].flag
            said = "--set" if letters else text
            raise UsageError(f"{said} says all there is to choose: leave {flag} out")
    taken = {option for name in mechanisms for option in named(name).option_names()}
    return given | {n: v for n, v in settings.items() if v is not None and n in taken}


def _needed(name: str, declared: Mapping[str, Any]) -> bool:
    """Whether a mechanism needs the option beside its parameters: the content of a public file."""
    return bool(declared[name][0].public_file and name != "map")


def takes_bound(table: str, mechanism: str) -> bool:
    """Whether --per-user changes the table: not where parameters fix the bound, or nothing is bounded."""
    kind = named(mechanism)
    return mechanism in MECHANISMS and not (table in kind.tables and "d" in kind.ignored)


def bounds_of(
    per_user: int | Mapping[str, int] | None,
    mechanisms: Mapping[str, str],
    letters: Mapping[str, str] | None = None,
) -> dict[str, int] | None:
    """The bound of each table that takes one; raises if --per-user is given twice or would be ignored."""
    if per_user is None:
        return None
    if twice := [letter for letter in BOUNDS if letter in (letters or {})]:
        raise UsageError(f"--per-user and --set {twice[0]} are the same bound: give one of them")
    by_table = isinstance(per_user, Mapping)
    given = dict(per_user) if isinstance(per_user, Mapping) else dict.fromkeys(mechanisms, per_user)
    ignored = [
        table
        for table in given
        if table in mechanisms and not takes_bound(table, mechanisms[table])
    ]
    if ignored and (by_table or len(ignored) == len(given)):
        table, name = ignored[0], mechanisms[ignored[0]]
        why = "keeps no number of items a unit" if name in MECHANISMS else "states its own bound"
        raise UsageError(f"{name} {why}, so --per-user has no effect on {table}: leave it out")
    return {table: n for table, n in given.items() if table not in ignored}


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
    letters = general.get("letters")
    chosen = chosen_options([mechanism], asked, letters=letters, users=users, set_only=set_only)
    bounds = bounds_of(general.pop("per_user", None), {table: mechanism}, letters) or {}
    general["per_user"] = bounds.get(table)
    chosen = prepare_options(chosen, Asked(mechanisms={table: mechanism}, url=url))
    if general.get("letters") or mechanism not in MECHANISMS:
        result = plan(mechanism=mechanism, **general)
        check_budget_kept(result.guarantee, general.get("epsilon"), general.get("delta"))
        return result
    name, options = kind.for_table(table, chosen)
    return plan(mechanism=name, options=options, **general)
