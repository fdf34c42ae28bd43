"""The command that adds up published counts and says how sure the sum is."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import show, show_json, tell


@app.command()
def estimate(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", show_default=False)],
    table: Annotated[str, typer.Option("--table", help="Whose counts.")] = "query",
    match: Annotated[
        str, typer.Option("--match", help="Which rows: 'fear of *'; ? is one character.")
    ] = "*",
    column: Annotated[
        str | None, typer.Option("--column", help="The key column to match. Default the first.")
    ] = None,
    over: Annotated[
        str | None, typer.Option("--over", help="Divide by the rows that match this.")
    ] = None,
    over_table: Annotated[
        str | None, typer.Option("--over-table", help="Whose rows --over is about.")
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the interval.")] = 0.95,
    as_json: Json = False,
) -> None:
    """Add up published counts, or divide two sums, with an interval."""
    from murmurlog.bundle.estimate import estimate as run
    from murmurlog.bundle.read import load
    from murmurlog.bundle.schema import AT_LEAST, IN_LOG

    release = load(bundle)
    found = run(
        release, table=table, match=match, column=column, over=over, over_table=over_table,
        confidence=confidence,
    )  # fmt: skip
    if not found.rows:
        tell(f"no row of {table} matches {match!r}: nothing published is not nothing asked")
    if as_json:
        show_json(found.as_json())
    else:
        show(str(found))
        unit = release.guarantee.unit
        about = {
            IN_LOG: f"a {unit} in the log counts once for each of them",
            AT_LEAST: f"about the {unit}s and items that were counted",
            None: f"about {unit}s after bounding",
        }[found.meaning]
        if period := release.certificate.period("count_from"):
            about += f", in {period}"
        tell(f"published rows in it: {found.rows}; {about}")
