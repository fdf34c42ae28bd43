"""The command that says what changed between two bundles, beyond what noise explains."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmurlog.cli.options import FILE, INTEGER, command, json_option, option
from murmurlog.cli.output import align, show, show_csv, show_json, tell
from murmurlog.errors import UsageError

if TYPE_CHECKING:
    from murmurlog.bundle.compare import Comparison

TITLES = {
    "rose": "rose, by more than their errors explain",
    "fell": "fell, by more than their errors explain",
    "gained": "only in the second bundle",
    "lost": "only in the first bundle",
    "same": "in both, without a clear change",
}
WIDEST = 60  # characters of a key on a terminal


@command(
    examples=[
        "murmurlog compare first bundle",
        "murmurlog compare first bundle --table query --csv > changes.csv",
    ]
)
@click.argument("before", type=FILE, metavar="A", help="A bundle's folder.")
@click.argument("after", type=FILE, metavar="B", help="Another one's, usually later.")
@option("--table", default="query", help="Which table.")
@option("--top", type=INTEGER, default=10, help="Rows of each kind that are listed.")
@option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV.")
@json_option
def compare(before: Path, after: Path, table: str, top: int, as_csv: bool, as_json: bool) -> None:
    """Say what changed from one bundle to another, beyond what noise explains."""
    from murmurlog.bundle.compare import compare as run

    if as_csv and as_json:
        raise UsageError("--csv and --json are two forms of the output: give one")
    if top < 0:
        raise UsageError(f"--top must be at least 0, not {top}")
    comparison = run(before, after, table=table)
    if as_json:
        numbers = {"table": table, **comparison.as_json()}
        meanings = dict(zip(("before", "after"), comparison.meanings, strict=True))
        about = {"meaning": meanings, "about": comparison.about}
        show_json(numbers | about | {"rows": comparison.rows.to_pylist()})
        return
    tell(comparison.about)
    if as_csv:
        from murmurlog.bundle.export import cell  # escapes what a spreadsheet would run

        rows = (map(cell, row.values()) for row in comparison.rows.to_pylist())
        show_csv(comparison.rows.column_names, rows)
        return
    for change, title in TITLES.items():
        _show_part(comparison, change, title, top)


def _show_part(comparison: "Comparison", change: str, title: str, top: int) -> None:
    """The rows of one kind of change, at most `top` of them."""
    import pyarrow.compute as pc

    rows = comparison.rows.filter(pc.equal(comparison.rows["change"], change))
    more = f", the first {top}" if rows.num_rows > top > 0 else ""
    show(f"{rows.num_rows:,} {title}{more}")
    if first_rows := rows.slice(0, top).to_pylist():
        keys = rows.column_names[: rows.column_names.index("change")]
        lines = [[*keys, "before", "after", "difference"]]
        lines += [_line(row, keys) for row in first_rows]
        show("\n".join(f"  {line}" for line in align(lines).splitlines()))


def _line(row: dict[str, Any], keys: list[str]) -> list[str]:
    count = "users" if "users_before" in row else "rows"

    def number(name: str) -> str:
        value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
        if value is None:
            return "-"
        sign = "+" if name == "difference" else ""
        ends = [f"{end:{sign},}" if end is not None else "no end" for end in (low, high)]
        return f"{value:{sign},} ({ends[0]} to {ends[1]})"

    texts = [row[k] if isinstance(row[k], str) else " > ".join(row[k]) for k in keys]
    cut = [text if len(text) <= WIDEST else text[: WIDEST - 3] + "..." for text in texts]
    return [*cut, *(number(name) for name in (f"{count}_before", f"{count}_after", "difference"))]
