"""The command that writes bundles in the files of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import show_json, tell


@app.command()
def export(
    bundles: Annotated[
        list[Path],
        typer.Argument(help="The bundle's folder; of a series, several.", show_default=False),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to", help="csv, tsv, trec, hf, ir-datasets or graph; of a series, csv or parquet."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="A folder; must not exist.")],
    as_json: Json = False,
) -> None:
    """Write a bundle, or a series of them, in the files that other tools read."""
    from murmurlog.bundle.export import export as run

    exported = run(bundles, to=to, out=out)
    for note in exported.notes:
        tell(note)
    listed = ", ".join(f"{name} ({n} rows)" for name, n in exported.files.items())
    tell(f"wrote {out}: {listed}")
    if as_json:
        show_json(exported.as_json())
