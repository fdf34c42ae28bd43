"""The commands on a ledger."""

import csv
import io
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.bundle.options import read_number
from murmurlog.cli.app import Commands, app
from murmurlog.cli.flags import Json, LedgerFile
from murmurlog.cli.help_text import Group
from murmurlog.cli.output import aligned, show, show_json, tell
from murmurlog.errors import UsageError

ledger_app = Commands(cls=Group, help="What was spent on each source, and what may still be.")
app.add_typer(ledger_app, name="ledger", no_args_is_help=True)


@ledger_app.command("show")
def ledger_show(ledger: LedgerFile = None, as_json: Json = False) -> None:
    """Each source: its cap, what is spent, what is left, and its releases."""
    book = _open(ledger)
    accounts, entries = book.accounts(), book.entries()
    if as_json:
        show_json({"sources": [vars(a) for a in accounts], "entries": [vars(e) for e in entries]})
        return
    listing = [["source", "per", "epsilon spent", "cap", "left", "delta spent", "cap", "releases"]]
    for a in accounts:
        caps = ["none" if cap is None else f"{cap:.4g}" for cap in (a.epsilon_cap, a.delta_cap)]
        left = "-" if a.epsilon_left is None else f"{a.epsilon_left:.4g}"
        spent = [f"{a.epsilon:.4g}", caps[0], left, f"{a.delta:.3g}", caps[1], str(a.releases)]
        listing.append([a.name, a.unit or "-", *spent])
    show(aligned(listing))
    for e in entries:
        show(
            f"{e.reserved_at[:19]} {e.source} {e.release_id} {e.state}: epsilon {e.epsilon:.6g}, "
            f"delta {e.delta:.3g} per {e.unit}, {e.what}"
        )


@ledger_app.command("export")
def ledger_export(ledger: LedgerFile = None, as_json: Json = False) -> None:
    """Every booking as CSV (or JSON) on stdout."""
    from murmurlog.publishing.ledger import Entry

    entries = [asdict(entry) for entry in _open(ledger).entries()]
    if as_json:
        show_json(entries)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    show(text.getvalue().rstrip("\n"))


@ledger_app.command("cap")
def ledger_cap(
    name: Annotated[str, typer.Argument(help="The source.", show_default=False)],
    epsilon: Annotated[float, typer.Option("--epsilon", help="In all.", parser=read_number)],
    delta: Annotated[float, typer.Option("--delta", help="In all.", parser=read_number)],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Set what may be spent on a source in all."""
    from murmurlog.publishing.ledger import Ledger

    name = Ledger(_path(ledger)).cap(name, epsilon=epsilon, delta=delta)
    tell(f'source "{name}" may spend epsilon {epsilon:.4g}, delta {delta:.3g} per unit in all')
    if as_json:
        show_json({"source": name, "epsilon": epsilon, "delta": delta})


def _path(ledger: Path | None) -> Path:
    if ledger is None:
        raise UsageError("which ledger? Give --ledger FILE")
    return ledger


def _open(ledger: Path | None) -> Any:
    from murmurlog.publishing.ledger import Ledger

    return Ledger(_path(ledger), must_exist=True)
