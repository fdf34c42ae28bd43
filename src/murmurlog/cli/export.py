"""The command that writes bundles in the files of other tools."""

from pathlib import Path

import click

from murmurlog.cli.options import FILE, command, json_option, option
from murmurlog.cli.output import show_json, tell


@command(
    examples=[
        "murmurlog export bundle --to tsv --out tables",
        "murmurlog export first bundle --to parquet --out series",
    ]
)
@click.argument(
    "bundles",
    type=FILE,
    nargs=-1,
    required=True,
    metavar="BUNDLES...",
    help="The bundle's folder; of a series, several.",
)
@option(
    "--to",
    required=True,
    help="csv, tsv, trec, hf, ir-datasets or graph; of a series, csv or parquet.",
)
@option("--out", type=FILE, required=True, help="A folder; must not exist.")
@json_option
def export(bundles: tuple[Path, ...], to: str, out: Path, as_json: bool) -> None:
    """Write a bundle, or a series of them, in the files that other tools read."""
    from murmurlog.bundle.export import export as run

    exported = run(bundles, to=to, out=out)
    for note in exported.notes:
        tell(note)
    files = ", ".join(f"{name} ({n} rows)" for name, n in exported.files.items())
    tell(f"wrote {out}: {files}")
    if as_json:
        show_json(exported.as_json())
