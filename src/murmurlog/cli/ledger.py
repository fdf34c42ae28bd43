"""The commands on a ledger."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from murmurlog.bundle.options import Option, read_number
from murmurlog.cli.options import (
    FILE,
    NUMBER,
    Group,
    json_option,
    ledger_option,
    option,
    takes,
)
from murmurlog.cli.output import show, show_csv, show_json, tell
from murmurlog.errors import UsageError

if TYPE_CHECKING:
    from murmurlog.publishing.ledger import Ledger

name_argument = click.argument("name", metavar="NAME", help="The source.")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Who decided, and why."""

    reason: Annotated[str | None, Option(help="Why; the ledger keeps it.", variable=False)] = None
    by_whom: Annotated[
        str | None, Option(help="Who decided this. Default: the account on this machine.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a cap is split into."""

    keys_share: Annotated[
        float | None,
        Option(
            help="Of delta, for the chance that keys show. Default 0.4.",
            read=read_number,
            variable=False,
        ),
    ] = None
    pure: Annotated[
        float | None,
        Option(
            help="Of epsilon, for releases booked as pure epsilon. Default: a third.",
            read=read_number,
            variable=False,
        ),
    ] = None


@click.group(cls=Group)
def ledger() -> None:
    """What was spent on each source, and what may still be."""


@ledger.command("show", examples=["murmurlog ledger show --ledger budget.db"])
@ledger_option
@json_option
def ledger_show(ledger: Path | None, as_json: bool) -> None:
    """Each source in words: its cap, what is spent and left, its releases, changes of its cap."""
    from murmurlog.publishing import ledger_statement as statement

    open_ledger = _open(ledger)
    contents = open_ledger.contents()
    if as_json:
        show_json(statement.as_json(contents))
        return
    show(statement.as_text(contents, open_ledger.path.name))


@ledger.command("export", examples=["murmurlog ledger export --ledger budget.db > bookings.csv"])
@ledger_option
@json_option
def ledger_export(ledger: Path | None, as_json: bool) -> None:
    """Every booking as CSV (or JSON) on stdout."""
    from murmurlog.publishing.ledger_records import Entry

    entries = [asdict(entry) for entry in _open(ledger).entries()]
    if as_json:
        show_json(entries)
        return
    show_csv([field.name for field in fields(Entry)], (entry.values() for entry in entries))


@ledger.command(
    "cap", examples=["murmurlog ledger cap web --epsilon 4 --delta 1e-5 --ledger budget.db"]
)
@name_argument
@option("--epsilon", type=NUMBER, required=True, help="In all.")
@option("--delta", type=NUMBER, required=True, help="In all.")
@option("--new-source", is_flag=True, help="Accept a new name that resembles a known one.")
@ledger_option
@json_option
@takes(parts=Parts, decision=Decision)
def ledger_cap(
    name: str,
    epsilon: float,
    delta: float,
    new_source: bool,
    ledger: Path | None,
    as_json: bool,
    parts: Parts,
    decision: Decision,
) -> None:
    """Create a source, or set what may be spent on it in all. Raising a cap needs --reason."""
    open_ledger = _open(ledger, must_exist=False)
    change = open_ledger.cap(
        name,
        epsilon=epsilon,
        delta=delta,
        new_source=new_source,
        **asdict(parts),
        **asdict(decision),
    )
    account = open_ledger.account(change.source)
    tell(
        f'source "{account.name}" may spend epsilon {epsilon:.4g}, delta {delta:.3g} per unit in all, of it '
        f"epsilon {change.pure:.4g} by pure releases"
    )
    if change.changed and change.raised and account.releases:
        tell(
            "warning: if this cap was raised because of what a release showed, all releases together are "
            "not covered by it: add the deltas of all caps that might have been chosen"
        )
    if not change.changed:
        tell("this is the cap it had: nothing was changed")
    if not account.fits_limits:
        tell(
            "warning: more than this cap allows is spent already: every further release of this source is "
            "refused"
        )
    if as_json:
        show_json({**asdict(change), "changed": change.changed})


@ledger.command("require-cap", examples=["murmurlog ledger require-cap --ledger budget.db"])
@option("--off", is_flag=True, help="End the requirement; needs --reason.")
@ledger_option
@json_option
@takes(decision=Decision)
def ledger_require_cap(off: bool, ledger: Path | None, as_json: bool, decision: Decision) -> None:
    """Refuse releases on sources without a cap, from now on."""
    open_ledger = _open(ledger, must_exist=off)
    changed = open_ledger.require_cap(not off, **asdict(decision))
    contents = open_ledger.contents()
    tell(
        f"{open_ledger.path.name}: a source "
        + ("may be without a cap" if off else "needs a cap; releases on one without are refused")
        + ("" if changed else " (as before: nothing was changed)")
    )
    without = [account.name for account in contents.accounts if account.epsilon_cap is None]
    if without and not off:
        tell(f"note: these have none yet: {', '.join(without)}")
    if as_json:
        show_json({"cap_required": contents.cap_required, "changed": changed})


@ledger.command(
    "statement", examples=["murmurlog ledger statement web --ledger budget.db --out web.html"]
)
@name_argument
@option("--out", type=FILE, required=True, help="The page, an .html file; must not exist.")
@ledger_option
@json_option
def ledger_statement(name: str, out: Path, ledger: Path | None, as_json: bool) -> None:
    """A page about one source to print and sign: cap, history, releases, sums."""
    from murmurlog.publishing.ledger_statement import write_statement

    source = write_statement(_open(ledger), name, out=out)
    tell(f"wrote {out}")
    if as_json:
        show_json({"source": source, "out": str(out)})


def _open(path: Path | None, *, must_exist: bool = True) -> "Ledger":
    """The ledger in a file."""
    if path is None:
        raise UsageError("which ledger? Give --ledger FILE")
    from murmurlog.publishing.ledger import Ledger

    return Ledger(path, must_exist=must_exist)
