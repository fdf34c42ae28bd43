"""The command that invents a log. Imports are late: --help answers at once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import progress, show_json, tell


@app.command()
def generate(
    rows: Annotated[int, typer.Option("--rows", help="How many rows.")],
    out: Annotated[Path, typer.Option("--out", help=".parquet, .csv, .tsv, .jsonl (+ .gz, .zst).")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same log.")] = 1,
    like: Annotated[
        str | None, typer.Option("--like", help="Users of a known shape: aol or zealous.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Also what was planted: .parquet or .csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Invent a search log: nobody's, and shaped like a real one."""
    from murmurlog.logs.invented.write import generate as run

    with progress() as say:
        log = run(rows=rows, out=out, seed=seed, like=like, labels=labels, say=say)
    tell(f"wrote {out}: {log.rows} rows of {log.users} invented users, seed {seed}")
    if as_json:
        made: dict[str, Any] = {"rows": log.rows, "users": log.users, "seed": seed, "out": str(out)}
        if like:
            made["like"] = like
        if labels:
            made["labels"] = str(labels)
        show_json(made)
