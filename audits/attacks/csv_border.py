"""A row of a correctly quoted .csv deletes and forges rows of other users.

    python audits/attacks/csv_border.py [--size 345000]

DuckDB reads a .csv with several threads. Each starts at a border, every 8,000,000 bytes, and looks
for the start of a row. Where a quoted field with line feeds lies across a border, it takes the text
in the quotes for rows, and the quote at the end of the field for the start of another, which swallows
rows of other users. The four forms here: a query of 0.9 MB, which meets a border wherever the file
grows; a row of 69 bytes on a border; the same in a .csv.gz; and 100 rows whose quote stays open,
which need no border (a file that is not in the grammar, so it may be refused).

Needs two threads or more, so two cores or more, to succeed.
"""

import csv
import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.shared import ATTACKER, Finding, Pair, compared, main

BORDER = 8_000_000
HEADER = "user,query\n"
ROW_BYTES = 24
BIG, FEW = 37_500, 3  # lines of a query
OPEN_QUOTES = 100
SIZE = 345_000  # the first whole thousands whose file has a border with rows after it


def users(count: int) -> list[str]:
    """A row for each user, all of the same length; seven queries."""
    return [f"u{n:07},common query {n % 7}\n" for n in range(count)]


def hostile_row(lines: int) -> str:
    """One row of one user, whose query has lines that look like rows of others."""
    forged = "".join(f"\nx{n},injected query" for n in range(lines))
    out = io.StringIO()
    # The last line ends before a field, so that the closing quote can be taken for an opening one.
    csv.writer(out, lineterminator="\n").writerow([ATTACKER, f"{forged}\nzz,"])
    return out.getvalue()


def inserted(rows: list[str], row: str, at: int) -> str:
    return HEADER + "".join(rows[:at]) + row + "".join(rows[at:])


def attack(folder: Path, size: int) -> Iterator[Finding]:
    rows = users(size)
    last = (BORDER - len(HEADER)) // ROW_BYTES  # the last row that starts before the border
    big, small = hostile_row(BIG), hostile_row(FEW)
    plain = folder / "log.csv"
    plain.write_text(HEADER + "".join(rows))
    forms = {
        "a row of 0.9 MB": inserted(rows, big, last - len(big) // 2 // ROW_BYTES),
        f"a row of {len(small)} bytes on a border": inserted(rows, small, last),
    }
    for number, (name, text) in enumerate(forms.items()):
        hostile = folder / f"hostile{number}.csv"
        hostile.write_text(text)
        yield compared(Pair(name=name, without=plain, with_rows=hostile))
    packed, hostile = folder / "log.csv.gz", folder / "hostile.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    hostile.write_bytes(gzip.compress(inserted(rows, small, last).encode(), 1))
    yield compared(Pair(name="the same in .csv.gz", without=packed, with_rows=hostile))
    unclosed = folder / "unclosed.csv"
    step = max(1, size // OPEN_QUOTES)
    parts = ("".join(rows[n : n + step]) for n in range(0, size, step))
    unclosed.write_text(HEADER + f'{ATTACKER},"\n'.join(parts))
    yield compared(Pair(name="100 open quotes", without=plain, with_rows=unclosed, refused="with"))


if __name__ == "__main__":
    sys.exit(main(attack, size=SIZE, meaning="how many other users, one row each"))
