"""The command that adds up published counts and says how sure the sum is."""

from pathlib import Path

import click

from murmurlog.cli.options import DECIMAL, FILE, command, json_option, option
from murmurlog.cli.output import show, show_json, tell


@command(examples=["murmurlog estimate bundle --match 'w*'"])
@click.argument("bundle", type=FILE, metavar="BUNDLE", help="The bundle's folder.")
@option("--table", default="query", help="Whose counts.")
@option("--match", default="*", help="Which rows: 'fear of *'; ? is one character.")
@option("--column", help="The key column to match. Default the first.")
@option("--over", help="Divide by the rows that match this.")
@option("--over-table", help="Whose rows --over is about.")
@option("--confidence", type=DECIMAL, default=0.95, help="Of the interval.")
@json_option
def estimate(
    bundle: Path,
    table: str,
    match: str,
    column: str | None,
    over: str | None,
    over_table: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """Add up published counts, or divide two sums, with an interval."""
    from murmurlog.bundle.estimate import estimate as run
    from murmurlog.bundle.read import load
    from murmurlog.bundle.schema import AT_LEAST, IN_LOG

    release = load(bundle)
    result = run(
        release, table=table, match=match, column=column, over=over, over_table=over_table,
        confidence=confidence,
    )  # fmt: skip
    if not result.rows:
        tell(f"no row of {table} matches {match!r}: nothing published is not nothing asked")
    if as_json:
        show_json(result.as_json())
    else:
        show(str(result))
        unit = release.guarantee.unit
        about = {
            IN_LOG: f"a {unit} in the log counts once for each of them",
            AT_LEAST: f"about the {unit}s and items that were counted",
            None: f"about {unit}s after bounding",
        }[result.meaning]
        if period := release.certificate.period("count_from"):
            about += f", in {period}"
        tell(f"published rows in it: {result.rows}; {about}")
