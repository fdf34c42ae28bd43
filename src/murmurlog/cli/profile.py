"""The command that looks at a log. Imports are late: --help answers at once."""

from pathlib import Path
from typing import Annotated

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    Columns,
    Encoding,
    Json,
    Memory,
    Source,
    Strict,
    Url,
    flag,
    pairs,
)
from murmurlog.cli.output import aligned, progress, show, show_json, tell


@app.command()
def profile(
    source: Source,
    columns: Columns = None,
    encoding: Encoding = None,
    url: Url = "path",
    patterns: Annotated[
        Path | None, flag("--patterns", help="Patterns of the screen, a TOML file.")
    ] = None,
    strict: Strict = False,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """A first look at a log: exact numbers, for the owner's eyes only."""
    from murmurlog.overview import profile as run
    from murmurlog.screen import load

    with progress() as say:
        found = run(
            source,
            columns=pairs(columns, "--columns"),
            encoding=encoding,
            url=url,
            screen=load(patterns),
            strict=strict,
            memory=memory,
            say=say,
        )
    tell("exact numbers, for your eyes only: publishing them, or tuning on them, is a release")
    if as_json:
        show_json(found)
        return
    show(f"{found['rows']} rows of {found['users']} users, {found['shape']}")
    show("columns: " + ", ".join(f"{r}={c}" for r, c in found["columns"].items()))
    for reason, n in found["broken"].items():
        show(f"broken: {n} x {reason}")
    for name, n in found["screened"].items():
        show(f"looks like personal data: {n} x {name}")
    listing = [["distinct items a user", "mean", "median", "99 %"]]
    for kind, n in found["items_per_user"].items():
        listing.append([kind, *(f"{n[name]:.1f}" for name in ("mean", "p50", "p99"))])
    show(aligned(listing))
