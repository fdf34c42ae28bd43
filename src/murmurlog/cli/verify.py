"""The command that checks a bundle."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json, LedgerFile
from murmurlog.cli.output import show, show_json


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", show_default=False)],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Check a bundle: files, guarantee recomputed, tables, cards, ledger entry."""
    from murmurlog.auditing.verify import verify as run

    report = run(bundle, ledger=ledger)
    if as_json:
        show_json(report.as_json())
    else:
        for check in report.checks:
            show(f"{'ok    ' if check.ok else 'FAILED'} {check.name}: {check.message}")
    raise typer.Exit(report.exit_code)
