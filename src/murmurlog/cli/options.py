"""The parts of commands: Click's options from declarations, and help in groups.

A group of options is a dataclass whose fields declare options (`murmurlog.bundle.options`). Flags,
MURMURLOG_* variables and settings in murmurlog.toml all become one value of that group. Options of
mechanisms come from a table that docs/options.py writes, so that help and completion need not load
the mechanisms.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.bundle.options import Option, mechanism_table, options_of, read_number
from murmurlog.cli.completion import complete_file, complete_value

WIDTH = 100
SECTIONS = ("Options", "What to publish", "Budget", "Your log", "Mechanisms", "Where it runs")
# Of a command with sections.
OUTPUT = ("--out", "--dry-run", "--json", "--picture", "--help", "--help-all")
ALL_FLAGS = "murmurlog.all_flags"  # whether help lists them
# Groups of options by the task that they are for; other groups are named by their docstrings.
TITLES = {
    "Content": "What to publish",
    "Choice": "What to publish",
    "Budget": "Budget",
    "Privacy": "Budget",
    "PlanBudget": "Budget",
    "Booking": "Budget",
    "SeriesOptions": "Series",
    "ReadOptions": "Your log",
    "SourceOptions": "Your log",
    "Running": "Where it runs",
    "Statements": "Output",
}
FIRST = ("--tables", "--out")  # in their sections
METAVARS = {integer: "N", decimal: "X", read_number: "X", Path: "FILE"}
_DEFAULT = re.compile(r"\. Default:? ([^\[\]]+?)\.?$")


class Number(click.ParamType[Any]):
    """A number in plain digits; Python's own conversions take 1_0 and nan."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.read, self.name = read, METAVARS[read].lower()

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return self.read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


INTEGER, DECIMAL, NUMBER = Number(integer), Number(decimal), Number(read_number)
FILE = click.Path(path_type=Path)
FILE.name = "file"


class Flag(click.Option):
    """An option with its section of the help, whose known values shells complete."""

    def __init__(self, *names: Any, section: str = "", **more: Any) -> None:
        super().__init__(*names, **more)
        self.section = section

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (record[0], with_default(record[1]))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        values = complete_value(self.opts[0], incomplete)
        return list(map(CompletionItem, values)) or super().shell_complete(ctx, incomplete)


def with_default(text: str) -> str:
    """The help of a flag with its default written as [default: X]."""
    return _DEFAULT.sub(lambda match: f".  [default: {match[1]}]", text)


class Command(click.Command):
    """A command whose help lists its flags by section and ends with examples.

    Of a command with many flags --help lists the `usual` ones, and --help-all all of them.
    """

    def __init__(
        self, *names: Any, examples: Sequence[str] = (), usual: Sequence[str] = (), **more: Any
    ) -> None:
        super().__init__(*names, **more)
        self.examples, self.usual = examples, usual
        if usual:
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all_help,
                    help="Show all flags and exit.",
                )  # fmt: skip
            )
        self.short_help = (self.help or "").partition("\n")[0]

    def sections(self, context: click.Context) -> dict[str, list[click.Option]]:
        """The flags by section of the help, but for those of mechanisms."""
        options = [
            option for option in self.get_params(context) if isinstance(option, click.Option)
        ]
        names = [getattr(option, "section", "") for option in options]
        sections: dict[str, list[click.Option]] = {}
        for option, section in zip(options, names, strict=True):
            plain = "Output" if any(names) and option.opts[0] in OUTPUT else "Options"
            sections.setdefault(section or plain, []).append(option)
        if "Mechanisms" in sections:
            sections["Mechanisms"] = []
        order = [*SECTIONS, *(name for name in sections if name not in SECTIONS)]
        order.sort(key=lambda name: name == "Output")
        return {
            name: sorted(sections[name], key=lambda option: option.opts[0] not in FIRST)
            for name in order
            if name in sections
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        short = bool(self.usual) and not ctx.meta.get(ALL_FLAGS)
        for name, options in self.sections(ctx).items():
            if short:
                options = [option for option in options if {*option.opts} & {*self.usual, *OUTPUT}]
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if name == "Mechanisms":
                records = list(_mechanism_records())[: 1 if short else None]
            if records:
                with formatter.section(name):
                    formatter.write_dl(records, col_max=27)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.examples))


class Group(click.Group):
    """Commands in the order in which they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _show_all_help(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[ALL_FLAGS] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _mechanism_records() -> Iterator[tuple[str, str]]:
    """Each mechanism that has flags, with its flags; `murmurlog help NAME` explains them."""
    flags: dict[str, list[str]] = {}
    for option in mechanism_table()["options"]:
        for owner in option["mechanisms"]:
            flags.setdefault(owner, []).append(option["flag"])
    yield "help MECHANISM", "These flags are explained by, for example, murmurlog help rounds."
    for name, texts in flags.items():
        # The formatter would break a line inside a flag, at a hyphen.
        first, *more = textwrap.wrap(" ".join(texts), WIDTH - 25, break_on_hyphens=False)
        yield name, first
        yield from (("", line) for line in more)


# --- flags that are written in the commands -------------------------------------------------------

command = partial(click.command, cls=Command)
option = partial(click.option, cls=Flag)
source_argument = click.argument(
    "source",
    help="A file, folder, 'glob*', file.duckdb::table, s3://.., postgresql://..::table, - (stdin).",
    shell_complete=complete_file,
)
memory_option = option(
    "--memory",
    envvar="MURMURLOG_MEMORY",
    section="Where it runs",
    help="Memory of the process, 600MB or more, such as 8GB.",
)
ledger_option = option("--ledger", type=FILE, envvar="MURMURLOG_LEDGER", help="The ledger file.")
json_option = option("--json", "as_json", is_flag=True, help="Print JSON.")


# --- flags from declarations ----------------------------------------------------------------------


def takes(*, mechanisms: bool = False, **groups: type) -> Callable[..., Callable[..., Any]]:
    """A decorator that gives a command the flags of these groups, and calls it with a value of each group.

    With `mechanisms` it adds the flags of mechanisms, and passes those that are set as `options`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        flags = [
            declared_flag(option, TITLES.get(group.__name__) or str(group.__doc__).split(".")[0])
            for group in groups.values()
            for option in options_of(group)
        ]
        of_mechanisms = mechanism_flags() if mechanisms else []

        @wraps(function)
        def call(**parameters: Any) -> Any:
            values = {name: group_value(group, parameters) for name, group in groups.items()}
            if mechanisms:
                values["options"] = mechanism_options(
                    {str(flag.name): parameters[str(flag.name)] for flag in of_mechanisms}
                )
            used = {flag.name for flag in (*flags, *of_mechanisms)}
            others = {name: value for name, value in parameters.items() if name not in used}
            return function(**others, **values)

        own_flags = getattr(function, "__click_params__", [])
        # Click keeps parameters from the last to the first, as decorators are applied.
        call.__click_params__ = [*own_flags, *reversed([*flags, *of_mechanisms])]  # type: ignore[attr-defined]
        return call

    return decorate


def group_value(group: type, parameters: Mapping[str, Any]) -> Any:
    """The value of a group from the parameters of a command."""
    return group(**{option.name: parameters[option.name] for option in options_of(group)})


def declared_flag(option: Option, section: str) -> Flag:
    """The flag of an option; a mistake in its text is reported as in Python."""

    def read(_context: click.Context, _parameter: click.Parameter, text: Any) -> Any:
        return option.default if text in (None, ()) else option.value(text)

    help = option.help
    if type(option.default) in (int, float) and "efault" not in help:
        help += f" Default {option.default}."
    more: dict[str, Any] = {"help": help, "section": section}
    if option.variable:
        more["envvar"] = _variable(option.flag)
    if option.switch:
        no = f"/--no-{option.flag.strip('-')}" if option.default else ""
        return Flag([option.flag + no, option.name], is_flag=True, default=option.default, **more)
    return Flag(
        [option.flag, option.name],
        multiple=option.repeated,
        default=option.default if isinstance(option.default, str) else None,
        metavar=METAVARS.get(option.read, "TEXT"),
        callback=read,
        shell_complete=complete_file if option.read is Path else None,
        **more,
    )


def mechanism_flags() -> list[Flag]:
    """A flag for each option of a mechanism."""
    return [
        Flag(
            [option["flag"], option["name"]],
            is_flag=not option["metavar"],
            multiple=option["repeated"],
            metavar=option["metavar"] or None,
            envvar=_variable(option["flag"]),
            section="Mechanisms",
        )
        for option in mechanism_table()["options"]
    ]


def mechanism_options(texts: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the mechanisms' options that are set."""
    from murmurlog.mechanisms import declared_options

    declared = declared_options()
    return {
        name: declared[name][0].value(text)
        for name, text in texts.items()
        if text not in (None, False, ())
    }


def _variable(flag: str) -> str:
    return "MURMURLOG_" + flag.strip("-").replace("-", "_").upper()
