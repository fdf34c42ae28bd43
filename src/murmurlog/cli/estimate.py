"""The command that adds up published counts and says how sure the sum is."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import show, show_json, tell
from murmurlog.errors import UsageError


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
    from murmurlog.bundle.read import load

    if over_table and over is None:
        raise UsageError("--over-table says whose rows --over is about: give --over, too")
    release, where = load(bundle), {column: match} if column else match
    if over is None:
        found = release.total(table, where, confidence=confidence)
    else:
        under = {column: over} if column and not over_table else over
        found = release.ratio(table, where, over_table or table, under, confidence=confidence)
    if not found.rows:
        tell(f"no row of {table} matches {match!r}: nothing published is not nothing asked")
    if as_json:
        show_json(found.as_json())
    else:
        show(str(found))
        tell(f"published rows in it: {found.rows}; about {release.guarantee.unit}s after bounding")
