"""What releases cost beside others' ways to the same numbers, in one run on the same logs.

    python benchmarks/peers.py [--rows 1000000,5000000,20000000] [--jobs NAME,...]
                               [--log FILE] [--only NAME,...]

The job `libraries` counts queries with other libraries, too. The others compare a release with scripts that
are not private and make the same capped tables in DuckDB and Polars: of a log with times, and of one
without (`plain`), whose users are whole numbers.

Each way runs in a process of its own, those of other projects in virtual environments that are made
on first use; these and the invented logs stay in --cache (by default ~/.cache/murmurlog-peers). One
that does not install or fails is left out, and the reason is printed. CPU seconds are those of all its processes; the memory is that
of the largest one. Ratios are to the fastest way that caps and is not private. The slope is of the
logarithms of CPU seconds and rows between the first and the last number of rows: 1 is linear.
The scripts in benchmarks/peers/ say what exactly each does.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from measure import Cost, measure

HERE = Path(__file__).parent / "peers"
ROOT = Path(__file__).resolve().parents[1]
# murmurlog itself, in an environment with what it needs and nothing else: pyarrow imports pandas where there is one.
OURS = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from murmurlog.cli.entry import main; main()"
CACHE = Path.home() / ".cache" / "murmurlog-peers"
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to the counts: how it is run and in which environment."""

    title: str
    script: str | None = None  # in benchmarks/peers; None: murmurlog itself
    flags: tuple[
        str, ...
    ] = ()  # after --mechanism, if not the default; of a script: tables and cap
    tables: str = "query"
    needs: str | None = (
        None  # a file of requirements: an environment of its own; murmurlog has one, too
    )
    capped: bool = False  # not private, and does the same cap: a yardstick
    most: int | None = None  # rows; more would take too long or too much memory


WAYS = {
    "group-by": Way(title="plain GROUP BY, DuckDB", script="group_by.py"),
    "duckdb": Way(title="cap 10, DuckDB", script="capped_duckdb.py", capped=True),
    "polars": Way(title="cap 10, Polars", script="capped_polars.py", capped=True),
    "threshold": Way(title="**threshold**", flags=("threshold", "--per-user", "10")),
    "rounds": Way(title="**rounds**", flags=("rounds",)),
    "pydp": Way(title="PyDP on Polars", script="pydp_counts.py", needs="pydp.txt"),
    "opendp": Way(title="OpenDP Context", script="opendp_context.py", needs="opendp.txt"),
    "pipelinedp": Way(
        title="PipelineDP, local", script="pipelinedp_local.py", needs="pipelinedp.txt"
    ),
    "tumult": Way(
        title="Tumult Analytics", script="tumult_counts.py", needs="tumult.txt", most=5_000_000
    ),
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """Ways to the same tables, and the log that they are made of."""

    ways: dict[str, Way]
    plain: bool = False


def compare(tables: str, *, cap: int, plain: bool = False, **releases: tuple[str, ...]) -> Job:
    """Releases of these tables beside scripts with the same cap."""
    shown = tables.replace(",", " + ")
    ways = {
        engine: Way(
            title=f"{shown}, cap {cap}, {title}",
            script=f"capped_{engine}.py",
            flags=(tables, str(cap)),
            capped=True,
        )
        for engine, title in {"duckdb": "DuckDB", "polars": "Polars"}.items()
    }
    for name, flags in releases.items():
        ways[name] = Way(title=f"**{name}** {shown}", flags=flags, tables=tables)
    return Job(ways=ways, plain=plain)


THRESHOLD, ROUNDS = ("threshold", "--per-user", "10"), ("rounds",)
JOBS = {
    "libraries": Job(ways=WAYS),
    "threshold": compare(
        "query", cap=10, threshold=THRESHOLD, random=(*THRESHOLD, "--bound", "random")
    ),
    "rounds": compare("query,click", cap=100, rounds=ROUNDS),
    "four": compare("query,click,pair,session", cap=100, default=()),
    "plain-threshold": compare("query", cap=10, plain=True, threshold=THRESHOLD),
    "plain-rounds": compare("query", cap=100, plain=True, rounds=ROUNDS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1000000,5000000,20000000")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--log", type=Path, help="a log of your own, for the job libraries alone")
    parser.add_argument("--only", help="ways, by name; all by default")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    jobs = [JOBS["libraries"]] if options.log else [JOBS[name] for name in options.jobs.split(",")]
    for job in jobs:
        names = options.only.split(",") if options.only else job.ways
        ways = {name: way for name, way in job.ways.items() if name in names}
        pythons = {name: python_for(way, options.cache) for name, way in ways.items()}
        costs: dict[int, dict[str, Cost]] = {}
        for rows in [0] if options.log else [int(rows) for rows in options.rows.split(",")]:
            log = options.log or invented(rows, plain=job.plain, cache=options.cache)
            print(f"\n{shape_of(log)}\n", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                costs[rows] = {
                    name: cost
                    for name, way in ways.items()
                    if (python := pythons[name])
                    and (cost := run(way, python, log, Path(folder) / name, rows))
                }
            show(ways, costs[rows])
        if len(costs) > 1:
            show_slopes(ways, costs)


def invented(rows: int, *, plain: bool, cache: Path) -> Path:
    """A log in the cache, made on first use; its name says what it was made by."""
    made_by = hashlib.sha256((HERE / "log.py").read_bytes()).hexdigest()[:8]
    log = cache / f"{rows}-{'plain' if plain else 'timed'}-{made_by}.parquet"
    if not log.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = log.with_suffix(".part")
        measure([sys.executable, str(HERE / "log.py"), str(rows), str(part)] + ["--plain"] * plain)
        part.rename(log)
    return log


def python_for(way: Way, cache: Path) -> str | None:
    """The interpreter to run it with; None if its environment cannot be made."""
    needs = way.needs if way.script else "../../requirements.txt"
    if needs is None:
        return sys.executable
    name = Path(needs).stem if way.script else "murmurlog"
    folder = cache / name
    python = folder / "bin" / "python"
    wanted = (HERE / needs).read_text()
    made = folder / "made.txt"
    if not (made.exists() and made.read_text() == wanted):
        print(f"installing {name} into {cache}", flush=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run(
                [*pip, "install", "-r", str(HERE / needs)], check=True, capture_output=True
            )
        except subprocess.CalledProcessError as error:
            last = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
            print(f"{way.title} is left out: it does not install here ({' '.join(last)[:200]})")
            return None
        made.write_text(wanted)
    return str(python)


def run(way: Way, python: str, log: Path, out: Path, rows: int) -> Cost | None:
    """What it cost; None if it failed or has too many rows to do."""
    if way.most is not None and rows > way.most:
        print(f"{way.title} is left out: more than {way.most:,} rows take it too long", flush=True)
        return None
    if way.script:
        command = [python, str(HERE / way.script), str(log), *way.flags]
    else:
        command = [
            python,
            "-c",
            OURS,
            "release",
            str(log),
            "--tables",
            way.tables,
            *BUDGET,
            "--json",
        ]
        command += ["--out", str(out), *(["--mechanism", *way.flags] if way.flags else [])]
    try:
        return measure(command)
    except SystemExit as error:
        print(f"{way.title} is left out: {str(error)[-60:]}", flush=True)
        return None


def released(cost: Cost) -> str:
    """How many rows each table has."""
    printed = cost.output.strip()
    if printed.startswith("{"):
        return ", ".join(str(table["rows"]) for table in json.loads(printed)["tables"].values())
    return ", ".join(printed.splitlines())


def show(ways: dict[str, Way], costs: dict[str, Cost]) -> None:
    """One table, with ratios to the fastest yardstick."""
    yardsticks = [costs[name].cpu for name, way in ways.items() if way.capped and name in costs]
    least = min(yardsticks, default=math.nan)
    print("| | CPU s | ratio | wall s | peak MB | rows |")
    print("|---|---|---|---|---|---|")
    for name, cost in costs.items():
        print(
            f"| {ways[name].title} | {cost.cpu:.1f} | {cost.cpu / least:.2f} | {cost.wall:.1f} "
            f"| {cost.peak_mb:.0f} | {released(cost)} |",
            flush=True,
        )


def show_slopes(ways: dict[str, Way], costs: dict[int, dict[str, Cost]]) -> None:
    """How CPU seconds grow with rows."""
    print("\n| | slope | from rows | to rows |\n|---|---|---|---|")
    for name, way in ways.items():
        sizes: Iterable[int] = [rows for rows in costs if name in costs[rows]]
        if (few := min(sizes, default=0)) < (many := max(sizes, default=0)):
            grown = math.log(costs[many][name].cpu / costs[few][name].cpu)
            print(f"| {way.title} | {grown / math.log(many / few):.2f} | {few:,} | {many:,} |")


def shape_of(log: Path) -> str:
    """The log in numbers."""
    import duckdb

    counts = 'count(*), count(DISTINCT "user"), count(DISTINCT query)'
    ((rows, users, queries),) = duckdb.sql(f"SELECT {counts} FROM '{log}'").fetchall()
    return f"{rows:,} rows of {users:,} users with {queries:,} distinct queries"


if __name__ == "__main__":
    main()
