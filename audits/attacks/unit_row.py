"""`--unit row` with the mechanism `profiles`: one row decides whether anything is published.

    python audits/attacks/unit_row.py [--size 1000]

`profiles` joins bounded items with the log's rows by the name of the unit. A single row had one name where
the log is in memory and another where it is not, so in memory nothing matched and nothing was published.
One long row, which makes the log too large for memory, changed that for all rows.

Measured before the unit was removed: 0 rows are published without the long row, about 1,000 with it. Since
then the unit is refused for both logs, before anything is booked.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import ATTACKER, REFUSALS, Finding, main, release

LONG_ROW = 8_000_000  # bytes: with this memory no room for them as codes
FLAGS = (
    *("--mechanism", "profiles", "--tables", "log", "--unit", "row", "--per-user", "1"),
    *("--epsilon", "1", "--memory", "50MB"),
)


def log(rows: int, *, hostile: bool) -> pa.Table:
    """Equal clicks, and perhaps one long row."""
    long = [ATTACKER] * hostile
    users = [*(f"u{n}" for n in range(rows)), *long]
    queries = [*["common"] * rows, *("z" * LONG_ROW for _ in long)]
    urls = [*["a.example"] * rows, *[None for _ in long]]
    return pa.table({"user": users, "query": queries, "url": pa.array(urls, pa.string())})


def attack(folder: Path, size: int) -> Iterator[Finding]:
    runs = []
    for name in ("without", "with"):
        path = folder / f"{name}.parquet"
        pq.write_table(log(size, hostile=name == "with"), path)
        runs.append(release(path, *FLAGS, name=name))
    codes = [run.code for run in runs]
    if all(code in REFUSALS for code in codes) and not any(run.entries for run in runs):
        text = f"refused with and without the row, nothing booked ({runs[0].said})"
        yield Finding(word=f"REFUSED ({codes[0]})", text=text)
        return
    if any(codes):
        yield Finding(word="BROKEN", text=f"exit codes {codes}: {[run.said for run in runs]}")
        return
    before, after = (
        murmurlog.load(folder / f"{name}.bundle").tables["log"].num_rows
        for name in ("without", "with")
    )
    text = f"{before:,} rows are published without the row, {after:,} with it"
    yield Finding(word="HOLDS" if min(before, after) > size / 2 else "BROKEN", text=text)


if __name__ == "__main__":
    sys.exit(main(attack, size=1_000, meaning="rows"))
