"""The command that runs all steps on an invented log. Imports are late: --help answers at once."""

import sys
from pathlib import Path

from murmurlog.cli.options import FILE, INTEGER, command, json_option, option
from murmurlog.cli.output import progress, show, show_json


@command(examples=["murmurlog demo --out demo"])
@option("--out", type=FILE, default="demo", help="A folder; must not exist.")
@option("--rows", type=INTEGER, default=400_000, help="Rows of the invented log.")
@option("--seed", type=INTEGER, help="Known noise: the bundle is then NOT private.")
@json_option
def demo(out: Path, rows: int, seed: int | None, as_json: bool) -> None:
    """All steps on an invented log: generate, release, book, verify."""
    from murmurlog.cli import demo_log as demonstration

    with progress() as say:
        result = demonstration.demo(out=out, rows=rows, seed=seed, say=say)
    if as_json:
        show_json(result.as_json())
    else:
        for line in result.lines():
            show(line)
    sys.exit(result.exit_code)
