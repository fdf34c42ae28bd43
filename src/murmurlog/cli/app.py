"""The application and its settings: flags win over MURMURLOG_* variables, those over murmurlog.toml."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from murmurlog import __version__
from murmurlog.bundle.decimals import decimal, integer
from murmurlog.cli.completion import completer
from murmurlog.cli.help_text import WIDTH, Group, GroupedCommand
from murmurlog.errors import UsageError, did_you_mean

DECISIONS = ("new-source", "same-users")  # about the users of one log


class Commands(typer.Typer):
    """Commands whose flags take plain decimals for numbers, without being told one by one."""

    def command(self, *names: Any, **more: Any) -> Callable[[Any], Any]:
        register = super().command(*names, **{"cls": GroupedCommand, **more})

        def registered(function: Any) -> Any:
            _take_decimals(function)
            _complete_values(function)
            return register(function)

        return registered


def _take_decimals(function: Callable[..., Any]) -> None:
    """Gives the numeric flags of a command that have no parser of their own one that is strict."""
    for hint in get_type_hints(function, include_extras=True).values():
        for info in getattr(hint, "__metadata__", ()):
            kinds = {hint.__origin__, *get_args(hint.__origin__)}
            parser = integer if int in kinds else decimal if float in kinds else None
            if parser:
                info.parser = _of_text(info.parser or parser)


def _complete_values(function: Callable[..., Any]) -> None:
    """Lets shells complete the values of flags that are known."""
    for hint in get_type_hints(function, include_extras=True).values():
        for info in getattr(hint, "__metadata__", ()):
            flag = next(iter(getattr(info, "param_decls", None) or ("",)))
            if info.autocompletion is None:
                info.autocompletion = completer(flag)


def _of_text(parser: Callable[[str], Any]) -> Callable[[Any], Any]:
    """The parser, whose error is printed as it is; defaults come as numbers and stay."""

    def parse(value: Any) -> Any:
        try:
            return parser(value) if isinstance(value, str) else value
        except ValueError as error:  # each version of Typer words a ValueError in another way
            raise typer.BadParameter(str(error)) from None

    return parse


app = Commands(
    name="murmurlog",
    cls=Group,
    context_settings={"max_content_width": WIDTH},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"murmurlog {__version__}")
        raise typer.Exit


@app.callback()
def configure(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings. Default murmurlog.toml if it is there."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Publish search logs so that the crowd can be heard and no single person can."""
    path = config or Path("murmurlog.toml")
    if config and not path.is_file():
        raise UsageError(f"there is no configuration file {str(path)!r}")
    if path.is_file():
        context.default_map = settings_of(path)
        _tell_settings(path, _sections(path).get(context.invoked_subcommand or ""))


def _tell_settings(path: Path, settings: dict[str, Any] | None) -> None:
    """Says in one line which settings of the file apply to the command that runs."""
    if not settings:
        return
    from murmurlog.cli.output import tell  # late: --help answers at once

    tell(f"settings from {path} (flags and MURMURLOG_* variables win): {', '.join(settings)}")


def _sections(path: Path) -> dict[str, Any]:
    """The sections of murmurlog.toml as they are written: keys are flags without dashes."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path.name}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is not TOML: {str(error)[:200]}") from None


def settings_of(path: Path) -> dict[str, Any]:
    """murmurlog.toml as the parser's defaults: a section for each command, names as the flags'."""
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    settings: dict[str, Any] = {}
    for section, values in _sections(path).items():
        if not isinstance(values, dict):
            raise UsageError(
                f"{path.name}: {section!r:.60} is in no section: put it below the name of its command, "
                "such as [release]"
            )
        if section not in commands:
            raise UsageError(
                f"{path.name}: [{section:.60}] is no command of murmurlog."
                f"{did_you_mean(section, commands)}"
            )
        if decided := sorted(set(values) & set(DECISIONS)):
            raise UsageError(
                f"{path.name}: [{section}] {decided[0]} is a decision about one command, which no file takes for "
                f"all later ones: give --{decided[0]} on the command line"
            )
        group = getattr(commands[section], "commands", None)
        members = group or {section: commands[section]}
        found = {name: _defaults(command, values) for name, command in members.items()}
        if unknown := set(values) - {flag for _, flags in found.values() for flag in flags}:
            first = min(unknown)
            known = [
                o.lstrip("-") for c in members.values() for p in parameters_of(c) for o in p.opts
            ]
            raise UsageError(
                f"{path.name}: [{section}] has no setting {first!r:.60}; settings are named as the flags "
                f"are, see 'murmurlog {section} --help'.{did_you_mean(first, known)}"
            )
        defaults = {name: each for name, (each, _) in found.items()}
        settings[section] = defaults if group else defaults[section]
    return settings


def _defaults(command: Any, values: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The values that are flags of a command, by parameter, and the names of those flags."""
    flags = {option.lstrip("-"): p for p in parameters_of(command) for option in p.opts}
    used = {name: value for name, value in values.items() if name in flags}
    return {flags[n].name: _as_flag(flags[n], v) for n, v in used.items()}, set(used)


def parameters_of(command: Any) -> list[Any]:
    """The parameters of a command, with those that it looks up when it is run."""
    with command.make_context("settings", [], resilient_parsing=True) as context:
        return list(command.get_params(context))


def _as_flag(parameter: Any, value: Any) -> Any:
    """A TOML value as it would be written after the flag."""
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    if isinstance(value, list):
        texts = [str(each) for each in value]
        return texts if parameter.multiple else ",".join(texts)
    return value if isinstance(value, bool) and parameter.is_flag else str(value)
