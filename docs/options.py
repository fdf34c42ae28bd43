"""Writes what is derived from the commands and from the options that mechanisms declare.

    python docs/options.py

These are docs/reference/cli/flags.md, docs/reference/mechanism-options.md and
src/murmurlog/bundle/mechanism_table.json, from which the command line makes flags, help and completion
without loading the mechanisms. Tests compare them with the commands and declarations.
"""

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path

import click

from murmurlog.cli.main import app
from murmurlog.cli.options import METAVARS, Command
from murmurlog.mechanisms import MECHANISMS, declared_options

PAGE = Path(__file__).parent / "reference" / "mechanism-options.md"
FLAGS = Path(__file__).parent / "reference" / "cli" / "flags.md"
TABLE = Path(__file__).parents[1] / "src" / "murmurlog" / "bundle" / "mechanism_table.json"
HEAD = """# Options of the mechanisms

<!-- Written by docs/options.py from the declarations in src/murmurlog/mechanisms; do not edit. -->

`release` and `plan` take these flags; in Python they are keywords of `murmurlog.release` and have the same names with
underscores. [Requests](cli/evaluate.md#requests) of `evaluate` and `sweep` take them without the dashes. A
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
FLAGS_HEAD = """# Flags

<!-- Written by docs/options.py from the commands in src/murmurlog/cli; do not edit. -->

Every flag of every command, as `--help` prints it. Words for values are `N` (a whole number), `X` (a number), `FILE`
and `TEXT`. The last column says whether a [variable](index.md#settings) sets the flag, too.
"""
COLUMNS = "| flag | meaning | default | variable |\n|---|---|---|---|\n"


def flags_page() -> str:
    """The page of all flags as the commands have them."""
    root = click.Context(app, info_name="murmurlog", **app.context_settings)
    text = FLAGS_HEAD
    for name, command in app.commands.items():
        context = click.Context(command, root, name)
        if isinstance(command, click.Group):
            for inner, member in command.commands.items():
                text += _described(f"{name} {inner}", member, click.Context(member, context, inner))
        else:
            text += _described(name, command, context)
    return text


def _described(name: str, command: click.Command, context: click.Context) -> str:
    """A command's part of the page; flags that are those of release are only named."""
    assert isinstance(command, Command)
    page, anchor = name.split()[0] + ".md", name.replace(" ", "-")
    link = f"{page}#{anchor}" if " " in name else page
    usage = " ".join(command.collect_usage_pieces(context))
    text = f"\n## {name}\n\n`murmurlog {name} {usage}`\n\n{command.short_help} [More]({link}).\n"
    sections = {
        title: _rows(options, context) for title, options in command.sections(context).items()
    }
    if name != "release":
        release = app.commands["release"]
        known = _rows(release.params, context).items()
        same = [
            flag for rows in sections.values() for flag, row in rows.items() if (flag, row) in known
        ]
        sections = {
            title: {flag: row for flag, row in rows.items() if flag not in same}
            for title, rows in sections.items()
        }
        if same:
            line = f"As in [release](#release): {', '.join(same)}."
            text += f"\n{textwrap.fill(line, 120, break_on_hyphens=False)}\n"
    for title, rows in sections.items():
        if rows:
            text += f"\n**{title}**\n" if len(sections) > 1 else ""
            text += f"\n{COLUMNS}{''.join(rows.values())}"
        elif title == "Mechanisms":
            text += "\nFlags of mechanisms are on [a page of their own](../mechanism-options.md).\n"
    return text


def _rows(options: Iterable[click.Parameter], context: click.Context) -> dict[str, str]:
    """By flag, its row of a table, in the words of the help."""
    rows = {}
    for option in options:
        record = option.get_help_record(context)
        if record is None or not isinstance(option, click.Option) or "--help" in option.opts:
            continue
        meaning, _, default = record[1].removesuffix("]").partition("  [")
        cells = (
            f"`{record[0]}`",
            meaning,
            default.removeprefix("default: "),
            "yes" if option.envvar else "",
        )
        row = "".join(f"| {cell} ".replace("  ", " ") for cell in cells)
        names = (f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        rows[", ".join(names)] = row.replace("<", "&lt;") + "|\n"
    return rows


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
    FLAGS.parent.mkdir(exist_ok=True)
    FLAGS.write_text(flags_page())
    PAGE.write_text(page())
    TABLE.write_text(table())
