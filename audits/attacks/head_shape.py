"""Rows at the head of a log change how the rest of the file is read.

    python audits/attacks/head_shape.py [--size 2000]

The shape of a log was told by most of the lines in its first 64 kB. One user can write them: a single
quoted query of 2,900 tabbed lines turned a .csv into a log of Excite, 33 rows of 2 kB turned a .tsv
with the columns user, query and time into one of Excite, where a time of 12 digits is no Unix time,
and 33 rows in UTF-8 settled the encoding of a log of Sogou, whose other users write GB18030. Later, with
`--shape excite`, a first row of the words query, user, time was taken for a header that says the order of
the columns.

Measured before shapes were said by name: each of the three took all 2,000 rows of the other users away
and, with them, all three published queries; the quoted query forged 2,900 users, and changed the bound
from random to first.
"""

import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.shared import ATTACKER, Finding, Pair, compared, main

TABBED_LINES = 2_900  # of 23 bytes: more than the 64 kB that were looked at
HEAD_ROWS, LONG = 33, 2_000  # rows of one user, and the bytes of each
SHORT_TIME = "970916001949"
UNIX_TIME = 878_000_000_000  # milliseconds, in 1997: 12 digits that are no time of Excite


def quoted_query(folder: Path, size: int) -> Pair:
    """A .csv whose first row is one user's query of many tabbed lines."""
    rows = [f"u{n},common query {n % 3}\n" for n in range(size)]
    out = io.StringIO()
    query = "".join(f"\nm{n:04}\t{SHORT_TIME}\tfake" for n in range(TABBED_LINES))
    csv.writer(out, lineterminator="\n").writerow([ATTACKER, query])
    return written(folder, "log.csv", "user,query\n", out.getvalue(), rows, name="a quoted query")


def timed_rows(folder: Path, size: int) -> Pair:
    """A .tsv whose first rows are of one user, with times in the form of Excite."""
    rows = [f"u{n}\tcommon query {n % 3}\t{UNIX_TIME + n}\n" for n in range(size)]
    hostile = f"{ATTACKER}\t{'x' * LONG}\t{SHORT_TIME}\n" * HEAD_ROWS
    header = "user\tquery\ttime\n"
    return written(folder, "log.tsv", header, hostile, rows, name=f"{HEAD_ROWS} rows of a .tsv")


def foreign_rows(folder: Path, size: int) -> Pair:
    """A log of Sogou in GB18030 whose first rows are of one user, in UTF-8."""
    line = "20111230000005\t{}\t[{}]\t1 1\thttp://a.example/\n"
    rows = [line.format(f"u{n}", f"地图{n % 3}").encode("gb18030") for n in range(size)]
    hostile = line.format(ATTACKER, "图" * (LONG // 3)).encode() * HEAD_ROWS
    without, with_rows = folder / "sogou.txt", folder / "hostile.txt"
    without.write_bytes(b"".join(rows))
    with_rows.write_bytes(hostile + b"".join(rows))
    name = f"{HEAD_ROWS} rows of a Sogou log"
    return Pair(name=name, without=without, with_rows=with_rows, shape="sogou")


def named_row(folder: Path, size: int) -> Pair:
    """A log of Excite whose first row holds names of columns in another order."""
    rows = [f"u{n}\t{SHORT_TIME}\tcommon query {n % 3}\n" for n in range(size)]
    name, hostile = "a row of names in an Excite log", "query\tuser\ttime\n"
    pair = written(folder, "excite.log", "", hostile, rows, name=name)
    return replace(pair, shape="excite", attacker="query")


def written(
    folder: Path, file: str, header: str, hostile: str, rows: list[str], *, name: str
) -> Pair:
    without, with_rows = folder / file, folder / f"hostile-{file}"
    without.write_text(header + "".join(rows))
    with_rows.write_text(header + hostile + "".join(rows))
    return Pair(name=name, without=without, with_rows=with_rows)


def attack(folder: Path, size: int) -> Iterator[Finding]:
    for made in (quoted_query, timed_rows, foreign_rows, named_row):
        yield compared(made(folder, size))


if __name__ == "__main__":
    sys.exit(main(attack, size=2_000, meaning="how many other users, one row each"))
