"""The command that shows everything on an invented log. Imports are late: --help answers at once."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import progress, show, show_json


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="A folder; must not exist.")] = Path("demo"),
    rows: Annotated[int, typer.Option("--rows", help="Rows of the invented log.")] = 400_000,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Known noise: the bundle is then NOT private.")
    ] = None,
    as_json: Json = False,
) -> None:
    """The whole road on an invented log: generate, release, book, verify."""
    from murmurlog.cli import demo_log as demonstration

    with progress() as say:
        result = demonstration.demo(out=out, rows=rows, seed=seed, say=say)
    if as_json:
        show_json(result.as_json())
    else:
        for line in result.lines():
            show(line)
    raise typer.Exit(result.exit_code)
