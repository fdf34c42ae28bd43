"""The application and its settings: flags win over MURMURLOG_* variables, those over murmurlog.toml."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog import __version__
from murmurlog.errors import UsageError

app = typer.Typer(
    name="murmurlog",
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
        Path | None, typer.Option(help="Settings; default murmurlog.toml if it is there.")
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
        context.default_map = _settings(path)


def _settings(path: Path) -> dict[str, Any]:
    """murmurlog.toml as click's defaults: a section for each command, names as the flags'."""
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} is not TOML: {error}") from None
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    settings: dict[str, Any] = {}
    for section, values in sections.items():
        if section not in commands or not isinstance(values, dict):
            raise UsageError(f"{path.name}: [{section}] is no command of murmurlog")
        flags = {o.lstrip("-"): p.name for p in commands[section].params for o in p.opts}
        for name, value in values.items():
            if name not in flags:
                raise UsageError(f"{path.name}: [{section}] has no setting {name!r}")
            if isinstance(value, dict):
                value = ",".join(f"{k}={v}" for k, v in value.items())
            elif isinstance(value, list):
                value = ",".join(map(str, value))
            elif not isinstance(value, bool):
                value = str(value)
            settings.setdefault(section, {})[flags[name]] = value
    return settings
