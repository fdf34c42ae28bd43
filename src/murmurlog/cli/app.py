"""The application and its settings: flags win over MURMURLOG_* variables, those over murmurlog.toml."""

import tomllib
from pathlib import Path
from typing import Any

import click

from murmurlog import __version__
from murmurlog.cli.options import FILE, WIDTH, Group, option
from murmurlog.errors import UsageError, did_you_mean

DECISIONS = ("new-source", "same-users")  # about the users of one log


@click.group(cls=Group, context_settings={"max_content_width": WIDTH, "show_default": True})
@option("--config", type=FILE, help="Settings. Default murmurlog.toml if it is there.")
@click.version_option(__version__, message="murmurlog %(version)s", help="Print the version.")
@click.pass_context
def app(context: click.Context, config: Path | None) -> None:
    """Publish search logs so that the crowd can be heard and no single person can."""
    path = config or Path("murmurlog.toml")
    if config and not path.is_file():
        raise UsageError(f"there is no configuration file {str(path)!r}")
    if path.is_file():
        context.default_map = settings_of(path)
        _tell_settings(path, _sections(path).get(context.invoked_subcommand or ""))


def _tell_settings(path: Path, settings: dict[str, Any] | None) -> None:
    """Prints in one line which settings of the file apply to the command that runs."""
    if not settings:
        return
    from murmurlog.cli.output import tell  # late: --help answers at once

    tell(f"settings from {path} (flags and MURMURLOG_* variables win): {', '.join(settings)}")


def _sections(path: Path) -> dict[str, Any]:
    """The sections of murmurlog.toml; their keys are flags without dashes."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path.name}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is not TOML: {str(error)[:200]}") from None


def settings_of(path: Path) -> dict[str, Any]:
    """murmurlog.toml as defaults of the parser: a section for each command, names as those of flags."""
    commands = app.commands
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
        command = commands[section]
        members = command.commands if isinstance(command, click.Group) else {section: command}
        flags = {name: _flags(member) for name, member in members.items()}
        names = {flag for parameters in flags.values() for flag in parameters}
        if unknown := set(values) - names:
            first = min(unknown)
            raise UsageError(
                f"{path.name}: [{section}] has no setting {first!r:.60}; settings are named as the flags "
                f"are, see 'murmurlog {section} --help'.{did_you_mean(first, names)}"
            )
        defaults = {
            name: {
                parameters[key].name: _as_flag(parameters[key], value)
                for key, value in values.items()
                if key in parameters
            }
            for name, parameters in flags.items()
        }
        settings[section] = defaults[section] if command is members.get(section) else defaults
    return settings


def _flags(command: click.Command) -> dict[str, click.Parameter]:
    """The parameters of a command by the names of their flags, without dashes."""
    return {name.lstrip("-"): parameter for parameter in command.params for name in parameter.opts}


def _as_flag(parameter: Any, value: Any) -> Any:
    """A TOML value as it would be written after the flag."""
    if isinstance(value, dict):
        value = [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, list):
        texts = [str(item) for item in value]
        return texts if parameter.multiple else ",".join(texts)
    return value if isinstance(value, bool) and parameter.is_flag else str(value)
