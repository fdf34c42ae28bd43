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
    from murmurlog.logs.invented import generate as synth

    synth.check_target(out)
    if labels:
        synth.check_labels(labels, like=like, out=out)
    with progress() as say:
        say(f"inventing {rows} rows")
        log = synth.invent(rows=rows, seed=seed, like=like)
        say(f"writing {out.name}")
        synth.write(log, out)
        if labels:
            synth.write_labels(log, labels)
    tell(f"wrote {out}: {log.rows} rows of {log.users} invented users, seed {seed}")
    if as_json:
        made: dict[str, Any] = {"rows": log.rows, "users": log.users, "seed": seed, "out": str(out)}
        if like:
            made["like"] = like
        if labels:
            made["labels"] = str(labels)
        show_json(made)
