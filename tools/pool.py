"""Makes a public pool of queries from public files.

python -m tools.pool --sites top-1m.csv --titles titles.gz --size 1000000 --out pool.txt.zst
python -m tools.pool --from text.txt --size 50 --out pool.tsv
"""

from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.cli.options import FILE, INTEGER, command, json_option, option
from murmurlog.cli.output import progress, show, show_json, tell
from murmurlog.errors import Refused
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented import generate
from murmurlog.logs.log import read
from murmurlog.logs.rows import Rows
from murmurlog.logs.source import Source, find
from tools import build_pool, pool_recipes
from tools.build_pool import Coverage
from tools.command import run

ROWS = 200_000  # of each invented log that the pool is compared with
MODELS = (None, "aol")
FILES = "UTF-8 (+ .gz, .zst); once for each file."


@command()
@option("--size", type=INTEGER, required=True, help="How many queries, at most.")
@option("--out", type=FILE, required=True, help="A file (+ .gz, .zst); must not exist.")
@option("--sites", type=FILE, multiple=True, help=f"Ranked domains, rank,domain; {FILES}")
@option("--titles", type=FILE, multiple=True, help=f"Titles, one a line; {FILES}")
@option("--text", type=FILE, multiple=True, help=f"Words and pairs of public text; {FILES}")
@option(
    "--queries",
    type=FILE,
    multiple=True,
    help=f"Public queries, a line each or id<TAB>query; {FILES}",
)
@option(
    "--from",
    "phrases",
    type=FILE,
    multiple=True,
    help=f"Phrases of public text that end in a noun; {FILES}",
)
@option("--against", type=FILE, help="A log to measure the cover on: for the owner's eyes only.")
@json_option
def pool(
    size: int,
    out: Path,
    sites: tuple[Path, ...],
    titles: tuple[Path, ...],
    text: tuple[Path, ...],
    queries: tuple[Path, ...],
    phrases: tuple[Path, ...],
    against: Path | None,
    as_json: bool,
) -> None:
    """Make a public pool of queries from public files, for rounds and pool."""
    build_pool.check_out(out)
    log = None if against is None else find(str(against))
    sources = pool_recipes.PoolSources(
        sites=sites, titles=titles, text=text, queries=queries, phrases=phrases
    )
    given = [*sources.sites, *sources.titles, *sources.text, *sources.queries, *sources.phrases]
    if log is not None and any(path.exists() and path.samefile(log.files[0]) for path in given):
        raise Refused(f"{log.name} is the log: a pool made of it is private data (A4)")
    with progress() as say:
        say(f"reading {len(given)} public file{'s' if len(given) > 1 else ''}")
        made = pool_recipes.make_pool(sources, size=size)
        say(f"writing {out.name}")
        build_pool.write(made, out)
        say("measuring the cover on invented logs")
        logs = {like or "plain": generate.invent(rows=ROWS, seed=1, like=like) for like in MODELS}
        found = {name: build_pool.coverage(made, each.table) for name, each in logs.items()}
    tell(f"wrote {out}: {len(made)} queries, the likeliest first")
    if as_json:
        show_json({"size": len(made), "out": str(out), "coverage": _as_json(found)})
    else:
        for name, each in found.items():
            show(f"of an invented log ({name}, {ROWS} rows) the pool holds {_shares(each)}")
    if log is not None:
        tell(f"of {log.name} the pool holds {_shares(_measure(made, log))}")
        tell(
            "this is exact and for your eyes only. A pool that is chosen, changed or left out because of "
            "it is no longer public (A4): decide by invented logs or public query sets"
        )


def _measure(queries: pa.Array, source: Source) -> Coverage:
    """The cover of a log, read as a release reads it by default."""
    with connect() as engine:
        log = read(source, engine=engine)
        searches = pa.concat_tables(log.partitions.results(_searches))
        return build_pool.coverage(queries, searches)


def _searches(rows: Rows) -> pa.Table:
    """The user, as the first word of its key, and the query of each row of a partition."""
    queries = rows.texts.take(rows.query.ids).cast(pa.string())
    return pa.table(
        {"user": rows.user_keys[rows.unit, 0], "query": queries.take(pa.array(rows.query.codes))}
    )


def _shares(found: Coverage) -> str:
    publishable = ", ".join(
        f"{n}: {'none there' if share is None else f'{share:.1%}'}"
        for n, share in found.publishable.items()
    )
    return (
        f"{found.distinct:.2%} of the distinct queries and {found.volume:.2%} of the rows; of the "
        f"queries that at least so many users asked, {publishable}"
    )


def _as_json(found: dict[str, Coverage]) -> dict[str, Any]:
    return {
        name: {
            "distinct": each.distinct,
            "volume": each.volume,
            "publishable": {str(n): share for n, share in each.publishable.items()},
        }
        for name, each in found.items()
    }


def main() -> None:
    run(pool, name="python -m tools.pool")


if __name__ == "__main__":
    main()
