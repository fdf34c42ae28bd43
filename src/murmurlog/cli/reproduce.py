"""The command that computes the papers' tables again."""

from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import aligned, show, show_json


@app.command()
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(help="korolova, zealous, hong or safelog. Default all.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """The papers' printed tables beside the same numbers computed again, and what is true."""
    from murmurlog.evaluation.reproduce.formulas import PAPERS, tables

    made = tables(PAPERS if paper is None else (paper,))
    if as_json:
        show_json({"tables": [table.as_json() for table in made]})
        return
    for table in made:
        show(f"{table.paper}, {table.name}: {table.about}")
        show(aligned(table.rows()))
        for note in table.notes():
            show(f"* {note}")
        show("")
    cells = [cell for table in made for cell in table.cells]
    printed = [cell for cell in cells if cell.printed is not None]
    matched = sum(cell.matched is True for cell in printed)
    show(f"{len(printed)} printed numbers, {matched} of them matched; {len(cells)} cells in all")
