"""A row of a correctly quoted .csv deletes and forges rows of other users.

    python audits/attacks/csv_border.py [--size 20000]

DuckDB reads a .csv with several threads. Each starts at a border, every 8,000,000 bytes, and looks
for the start of a row. Where a quoted field with line feeds lies across a border, it takes the text
in the quotes for rows, and the quote at the end of the field for the start of another, which swallows
rows of other users. The four forms here: a query of 0.9 MB, which meets a border wherever the file
grows; a short row on a border; the same in a .csv.gz; and 100 rows whose quote stays open,
which need no border (a file that is not in the grammar, so it may be refused).

Measured before the reader was changed, with 345,000 other users of seven queries in 8.3 MB: the query
of 0.9 MB took 28,624 rows of others away and forged 18,497 (the seven queries fell from 345,099 to
316,263 published users, and an "injected query" appeared with 18,459); a row of 69 bytes on a border
took 11,668 and forged 2, in .csv.gz as well; 100 open quotes took 172,500 (344,891 to 172,440 users).

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
FILE_BYTES = 8_280_000  # at least: a border, and rows after it
LEAST_ROW = 24  # bytes
BIG, FEW = 37_500, 3  # lines of a query
OPEN_QUOTES = 100


def users(count: int) -> list[str]:
    """A row for each user, all of the same length; seven queries, long ones where users are few."""
    width = max(LEAST_ROW, -(-FILE_BYTES // count))
    rows = (f"u{n:07},common query {n % 7}" for n in range(count))
    return [row + " word" * ((width - LEAST_ROW) // 5) + "\n" for row in rows]


def hostile_row(lines: int, start: str = "") -> str:
    """One row of one user, whose query has lines that look like rows of others after a start."""
    forged = "".join(f"\nx{n},injected query" for n in range(lines))
    out = io.StringIO()
    # The last line ends before a field, so that the closing quote can be taken for an opening one.
    csv.writer(out, lineterminator="\n").writerow([ATTACKER, f"{start}{forged}\nzz,"])
    return out.getvalue()


def inserted(rows: list[str], row: str, at: int) -> str:
    return HEADER + "".join(rows[:at]) + row + "".join(rows[at:])


def attack(folder: Path, size: int) -> Iterator[Finding]:
    rows = users(size)
    last = (BORDER - len(HEADER)) // len(rows[0])  # the last row that starts before the border
    to_border = BORDER - len(HEADER) - last * len(rows[0])
    big, small = hostile_row(BIG), hostile_row(FEW, start="p" * to_border)
    plain = folder / "log.csv"
    plain.write_text(HEADER + "".join(rows))
    forms = {
        "a row of 0.9 MB": inserted(rows, big, last - len(big) // 2 // len(rows[0])),
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
    sys.exit(main(attack, size=20_000, meaning="how many other users, one row each"))
