"""Writes what is derived from the options that mechanisms declare.

    python docs/options.py

These are docs/reference/mechanism-options.md and src/murmurlog/bundle/mechanism_table.json, from which the
command line makes flags, help and completion without loading the mechanisms. A test compares both with
the declarations.
"""

import json
from pathlib import Path

from murmurlog.cli.options import METAVARS
from murmurlog.mechanisms import MECHANISMS, declared_options

PAGE = Path(__file__).parent / "reference" / "mechanism-options.md"
TABLE = Path(__file__).parents[1] / "src" / "murmurlog" / "bundle" / "mechanism_table.json"
HEAD = """# Options of the mechanisms

<!-- Written by docs/options.py from the declarations in src/murmurlog/mechanisms; do not edit. -->

`release`, `plan`, `evaluate` and `sweep` take these flags; in Python they are keywords of
`murmurlog.release`, and `options` of `murmurlog.evaluate`, and have the same names with underscores. A
mechanism that does not declare an option refuses it. A public file must be fixed without the log; the log
itself is refused.

| flag | mechanisms | meaning |
|---|---|---|
"""
MIDDLE = """
What each mechanism makes, where it runs, and how it is asked for:

| mechanism | tables | engines | items a unit by default | asked for by |
|---|---|---|---|---|
"""


def page() -> str:
    """The page as the declarations have it."""
    text = HEAD
    for option, owners in declared_options().values():
        links = ", ".join(
            f"[{name}](../explanation/mechanisms/{MECHANISMS[name].page()})" for name in owners
        )
        public = " A public file." if option.public_file else ""
        text += f"| `{option.flag}` | {links} | {option.help}{public} |\n"
    text += MIDDLE
    for name, mechanism in MECHANISMS.items():
        asked = mechanism.chosen_by or f"--mechanism {name}"
        text += (
            f"| [{name}](../explanation/mechanisms/{mechanism.page()}) | {', '.join(mechanism.tables)} | "
            f"{', '.join(mechanism.engines)} | {mechanism.usual_bound} | `{asked}` |\n"
        )
    return text


def table() -> str:
    """What the command line has to know of mechanisms before it loads them."""
    options = [
        {
            "name": option.name,
            "flag": option.flag,
            "metavar": "" if option.switch else METAVARS.get(option.read, "TEXT"),
            "repeated": option.repeated,
            "help": option.help,
            "mechanisms": owners,
        }
        for option, owners in declared_options().values()
    ]
    mechanisms = [
        {
            "name": name,
            "about": (mechanism.__doc__ or "").partition("\n")[0],
            "tables": ", ".join(mechanism.tables),
            "engines": ", ".join(mechanism.engines),
            "bound": str(mechanism.usual_bound),
            "asked_for_by": mechanism.chosen_by or f"--mechanism {name}",
            "page": mechanism.page(),
        }
        for name, mechanism in MECHANISMS.items()
    ]
    return json.dumps({"options": options, "mechanisms": mechanisms}, indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    TABLE.write_text(table())
