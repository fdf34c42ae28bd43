"""Flags from declarations: a command takes groups of options, and the mechanisms' own.

A group is a dataclass whose fields declare options. Flags, MURMURLOG_* variables and settings in
murmurlog.toml all become the same value of that group. The mechanisms' options are taken from a table
that docs/options.py writes, so that help and completion need not load the mechanisms.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.bundle.options import Option, mechanism_table, options_of, read_number
from murmurlog.cli.completion import completer
from murmurlog.cli.help_text import TITLES, WIDTH, GroupedCommand
from murmurlog.cli.startup import import_special, skip_pandas

__all__ = ["GroupedCommand", "MechanismCommand", "takes"]

MEANT = "murmurlog.options"  # where a context holds the options of mechanisms
METAVARS = {integer: "N", decimal: "X", read_number: "X", Path: "FILE"}


class MechanismCommand(GroupedCommand):
    """A command that also takes the options that mechanisms declare."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with those of the mechanisms behind them."""
        if not hasattr(self, "of_mechanisms"):
            found = mechanism_flags({p.name for p in self.params})
            self.of_mechanisms = {p.name for p in found}
            for each in found:
                each.of_mechanism = True  # listed in short by `more_records`
            self.params += found
        return list(super().get_params(ctx))

    def more_records(self) -> Iterator[tuple[str, str]]:
        """Each mechanism that has flags, and these; `murmurlog help NAME` explains them."""
        flags: dict[str, list[str]] = {}
        for option in mechanism_table()["options"]:
            if option["name"] in self.of_mechanisms:
                for owner in option["mechanisms"]:
                    flags.setdefault(owner, []).append(option["flag"])
        yield "help MECHANISM", "These flags are explained by, for example, murmurlog help rounds."
        for name, some in flags.items():
            # The formatter would break a line inside a flag, at a hyphen.
            first, *more = textwrap.wrap(" ".join(some), WIDTH - 25, break_on_hyphens=False)
            yield name, first
            yield from (("", line) for line in more)

    def invoke(self, ctx: Any) -> Any:
        """Calls the command; Typer knows its own parameters only, the others go by the context."""
        ctx.meta[MEANT] = {name: ctx.params.pop(name) for name in self.of_mechanisms}
        return super().invoke(ctx)


def mechanism_flags(taken: set[Any]) -> list[Any]:
    """A flag for each option of a mechanism that the command does not have already."""
    parameters = [
        _parameter(
            Option(
                name=each["name"],
                alias=each["flag"],
                help=f"{', '.join(each['mechanisms'])}: {each['help']}",
                switch=not each["metavar"],
                default=False if not each["metavar"] else None,
            ),
            "Mechanisms",
            each["metavar"],
        )
        for each in mechanism_table()["options"]
        if each["name"] not in taken
    ]
    app = typer.Typer(add_completion=False)
    app.command()(_typed(lambda **_: None, parameters))
    return list(typer.main.get_command(app).params)


def _typed(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """The function, with these parameters for Typer to see."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


def variable(option: Option) -> str | None:
    """The variable that sets an option, too."""
    return (
        "MURMURLOG_" + option.flag.strip("-").replace("-", "_").upper() if option.variable else None
    )


def takes(**groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the flags of these groups; it is called with one value for each group.

    A `MechanismCommand` is also called with `options`, the mechanisms' that were given.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function).parameters
        kept = [
            p
            for p in own.values()
            if p.name not in (*groups, "options") and p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        made = [
            _parameter(o, _title(group)) for group in groups.values() for o in options_of(group)
        ]
        context = next((p for p in kept if p.annotation is typer.Context), CONTEXT)
        if context is CONTEXT:
            made.append(CONTEXT)
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*kept, *made)]

        def command(**given: Any) -> Any:
            options = given[context.name].meta.get(MEANT)
            given.pop(CONTEXT.name, None)
            values: dict[str, Any] = {}
            for name, group in groups.items():
                values[name] = from_flags(group, given)
                given = {n: v for n, v in given.items() if n not in _names(group)}
            if options is not None:
                import_special()
                values["options"] = mechanism_options(options)
            skip_pandas()
            return function(**given, **values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__module__ = function.__module__
        return _typed(command, parameters)

    return decorate


def from_flags(group: type, given: Mapping[str, Any]) -> Any:
    """A group's value from what is written after its flags."""
    return group(**{o.name: _value(o, given.get(o.name)) for o in options_of(group)})


def _names(group: type) -> set[str]:
    return {option.name for option in options_of(group)}


def _title(group: type) -> str:
    """The heading of a group of flags: its task, or the first line of its docstring."""
    return TITLES.get(group.__name__) or (group.__doc__ or "").splitlines()[0].rstrip(".")


CONTEXT = inspect.Parameter("the_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _value(option: Option, text: Any) -> Any:
    """The value of a flag; the default where nothing was written."""
    if option.switch:
        return option.default if text is None else text
    if text is None or (option.repeated and not text):
        return option.default
    return option.value(text)


def _parameter(option: Option, panel: str, metavar: str | None = None) -> inspect.Parameter:
    """The flag of an option as a parameter that Typer reads."""
    names = [option.flag]
    kind: Any = str | None
    default: Any = None
    if option.switch:
        names = [f"{option.flag}/--no-{option.flag.strip('-')}"] if option.default else names
        kind, default = bool, option.default
    elif option.repeated:
        kind = list[str] | None
    elif isinstance(option.default, str):
        default = option.default  # shown in the help
    text = option.help
    if type(option.default) in (int, float) and "efault" not in text:
        text += f" Default {option.default}."
    info = typer.Option(
        *names,
        help=text,
        metavar=None if option.switch else metavar or METAVARS.get(option.read, "TEXT"),
        autocompletion=None if option.switch else completer(option.flag),
        envvar=variable(option),
        show_envvar=False,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def mechanism_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanisms' options that were given, as values."""
    from murmurlog.mechanisms import declared_options

    declared = declared_options()
    return {
        name: declared[name][0].value(text)
        for name, text in given.items()
        if text is not None and text is not False
    }
