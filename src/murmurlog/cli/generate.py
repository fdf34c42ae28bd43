"""The command that generates a log. Imports are late: --help answers at once."""

from pathlib import Path

from murmurlog.cli.options import FILE, INTEGER, command, json_option, option
from murmurlog.cli.output import progress, show_json, tell


@command(examples=["murmurlog generate --rows 60000 --out log.parquet"])
@option("--rows", type=INTEGER, required=True, help="How many rows.")
@option("--out", type=FILE, required=True, help=".parquet, .csv, .tsv, .jsonl (+ .gz, .zst).")
@option("--seed", type=INTEGER, default=1, help="The same seed gives the same log.")
@option("--like", help="Users of a known shape: aol or zealous.")
@option("--labels", type=FILE, help="Also what was planted: .parquet or .csv.")
@json_option
def generate(
    rows: int, out: Path, seed: int, like: str | None, labels: Path | None, as_json: bool
) -> None:
    """Generate a synthetic search log: invented users, with the shape of a real log."""
    from murmurlog.logs.invented.generate import generate as run

    with progress() as say:
        log = run(rows=rows, out=out, seed=seed, like=like, labels=labels, say=say)
    tell(f"wrote {out}: {log.rows} rows of {log.users} invented users, seed {seed}")
    if as_json:
        facts = {"rows": log.rows, "users": log.users, "seed": seed, "out": str(out)}
        choices = {"like": like, "labels": labels and str(labels)}
        show_json(facts | {name: value for name, value in choices.items() if value})
