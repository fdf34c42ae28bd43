"""The command that makes a public pool of queries."""

from pathlib import Path
from typing import Annotated

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import Json
from murmurlog.cli.output import progress, show, show_json, tell

ROWS = 200_000  # of each invented log that the pool is compared with
MODELS = (None, "aol")


@app.command()
def pool(
    texts: Annotated[
        list[Path],
        typer.Option("--from", help="Public text, UTF-8 (+ .gz, .zst); once for each file."),
    ],
    size: Annotated[int, typer.Option("--size", help="How many queries.")],
    out: Annotated[Path, typer.Option("--out", help="A file (+ .gz, .zst); must not exist.")],
    as_json: Json = False,
) -> None:
    """Make a public pool of queries from public text, for --mechanism pool and hybrid."""
    from murmurlog.counting.public_sets import build_pool as pool_text
    from murmurlog.logs.invented import generate as synth

    pool_text.check_out(out)
    with progress() as say:
        say(f"counting phrases of {len(texts)} text{'s' if len(texts) > 1 else ''}")
        made = pool_text.build(texts, size=size)
        say(f"writing {out.name}")
        pool_text.write(made, out)
        say("holding the pool against invented logs")
        logs = {like or "plain": synth.invent(rows=ROWS, seed=1, like=like) for like in MODELS}
        shares = {name: pool_text.coverage(made, log.table["query"]) for name, log in logs.items()}
    tell(f"wrote {out}: {len(made)} queries, the most frequent first")
    if as_json:
        covered = {
            name: {"distinct": each.distinct, "volume": each.volume}
            for name, each in shares.items()
        }
        show_json({"size": len(made), "out": str(out), "coverage": covered})
        return
    for name, each in shares.items():
        show(
            f"of an invented log ({name}, {ROWS} rows) the pool holds {each.distinct:.2%} of the "
            f"distinct queries, {each.volume:.2%} of the rows"
        )
