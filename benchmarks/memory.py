"""What a release of a log costs that does not fit into memory, beside one that does.

    python benchmarks/memory.py [--rows 20000000,100000000] [--memory 8GB] [--logs FILE,FILE] [--default]

Invents logs (or takes some, the smallest first), then releases the query table of each by
`threshold`, or with --default queries and clicks by `rounds`, with the same memory. Prints CPU seconds, wall, peak memory, and how the CPU seconds
grow from each log to the next: the factor by which they exceed linear growth for each tenfold.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

import duckdb
from measure import Cost, measure

LOG = Path(__file__).parent / "peers" / "log.py"
PROGRAM = [sys.executable, "-c", "from murmurlog.cli.main import main; main()"]
THRESHOLD = "--tables query --mechanism threshold --per-user 10"
BUDGET = "--epsilon 1 --delta 1e-6 --json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="20000000,100000000")
    parser.add_argument("--logs", help="logs of your own, instead of invented ones")
    parser.add_argument("--memory", default="8GB")
    parser.add_argument("--default", action="store_true", help="queries and clicks by rounds")
    options = parser.parse_args()
    flags = BUDGET if options.default else f"{THRESHOLD} {BUDGET}"
    print("| rows | CPU s | wall s | peak MB | queries | beyond linear, a tenfold |")
    print("|---|---|---|---|---|---|")
    before: tuple[int, Cost] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for asked in (options.logs or options.rows).split(","):
            log = Path(asked) if options.logs else Path(folder) / f"{asked}.parquet"
            if not options.logs:
                measure([sys.executable, str(LOG), asked, str(log)])
            ((rows,),) = duckdb.sql(f"SELECT count(*) FROM '{log}'").fetchall()
            cost = released(log, Path(folder) / f"out-{rows}", options.memory, flags)
            queries = json.loads(cost.output)["tables"]["query"]["rows"]
            beyond = f"{growth(*before, rows, cost):.2f}" if before else ""
            print(
                f"| {rows:,} | {cost.cpu:.1f} | {cost.wall:.1f} | {cost.peak_mb:.0f} | {queries} "
                f"| {beyond} |",
                flush=True,
            )
            before = rows, cost
            if not options.logs:
                log.unlink()


def released(log: Path, out: Path, memory: str, flags: str) -> Cost:
    """What a release took."""
    return measure(
        [*PROGRAM, "release", str(log), *flags.split(), "--memory", memory, "--out", str(out)]
    )


def growth(few: int, less: Cost, many: int, more: Cost) -> float:
    """By how much the CPU seconds grow more than the rows do, for each tenfold of rows."""
    beyond = (more.cpu / less.cpu) / (many / few)
    return math.exp(math.log(beyond) / math.log10(many / few))


if __name__ == "__main__":
    main()
