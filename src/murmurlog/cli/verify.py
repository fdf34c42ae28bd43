"""The command that checks a bundle."""

import sys
from pathlib import Path

import click

from murmurlog.cli.options import FILE, command, json_option, ledger_option
from murmurlog.cli.output import show, show_json


@command(examples=["murmurlog verify bundle --ledger budget.db"])
@click.argument("bundle", type=FILE, metavar="BUNDLE", help="The bundle's folder.")
@ledger_option
@json_option
def verify(bundle: Path, ledger: Path | None, as_json: bool) -> None:
    """Check a bundle: files, guarantee recomputed, tables, cards, ledger entry."""
    from murmurlog.auditing.verify import verify as run

    report = run(bundle, ledger=ledger)
    if as_json:
        show_json(report.as_json())
    else:
        show("\n".join(report.lines()))
    sys.exit(report.exit_code)
