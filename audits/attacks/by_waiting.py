"""`--by` with a table that waits for the query table: one user decides which clicks of all others count.

    python audits/attacks/by_waiting.py [--size 1000]

A click counts if its query is published, and with `--by` if it is published under the click's own value.
In France everybody asks something else first, so with one query a user (common, FR) is in nobody's bounded
set and is not published. One user with a long row makes the log too large for memory, and another
implementation counts it. The published clicks of all others must be the same.

Measured before all implementations compared the value, too: without the row the click (common, FR) is
published with about 1,000 users, with it never: delta = 1, where 1e-6 is claimed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import ATTACKER, REFUSALS, Finding, main, release

COLUMNS = ("user", "time", "query", "url", "country")
LONG_ROW = 8_000_000  # bytes: longer than a value may be
FLAGS = (
    *("--tables", "query,click", "--by", "country=DE,FR", "--per-user", "query=1,click=1"),
    *("--epsilon", "1", "--delta", "1e-6", "--memory", "650MB"),
)


def log(users: int, *, hostile: bool) -> pa.Table:
    """Germans ask the common query first, the French second."""
    rows: list[tuple[str | None, ...]]
    rows = [(f"de{n}", "2026-01-01 10:00", "common", "a.example", "DE") for n in range(users)]
    for n in range(users):
        rows.append((f"fr{n}", "2026-01-01 09:00", "first", None, "FR"))
        rows.append((f"fr{n}", "2026-01-01 10:00", "common", "a.example", "FR"))
    if hostile:
        rows.append((ATTACKER, "2026-01-01 10:00", "z" * LONG_ROW, None, "DE"))
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.table(columns, names=COLUMNS)


def clicks(bundle: Path) -> dict[tuple[str, str], int]:
    """The published clicks by query and country, with their users."""
    rows = murmurlog.load(bundle).tables["click"].to_pylist()
    return {(row["query"], row["country"]): row["users"] for row in rows}


def attack(folder: Path, size: int) -> Iterator[Finding]:
    published = []
    for name in ("without", "with"):
        path = folder / f"{name}.parquet"
        pq.write_table(log(size, hostile=name == "with"), path)
        done = release(path, *FLAGS, name=name)
        if done.code:
            expected = done.code in REFUSALS and not done.entries
            word = f"REFUSED ({done.code})" if expected and name == "without" else "BROKEN"
            yield Finding(
                word=word, text=f"the log {name} the row ends with {done.code}: {done.said}"
            )
            return
        published.append(clicks(folder / f"{name}.bundle"))
    before, after = published
    text = f"clicks published without the row {before}, with it {after}"
    yield Finding(word="HOLDS" if before.keys() == after.keys() else "BROKEN", text=text)


if __name__ == "__main__":
    sys.exit(main(attack, size=1_000, meaning="users in each country"))
