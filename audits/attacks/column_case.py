"""Columns whose names differ only in case: the rows of one user count as rows of many.

    python audits/attacks/column_case.py [--size 1000]

DuckDB does not tell `User` from `user` and takes the one that comes first. Where `User` is the id of a
request, every row had a user of its own, whether `--columns user=user` said which one is meant or
the column was guessed: 500 rows of one user were 500 users. The guess did the same in a .tsv. Such a
log may be refused, or the column that `--columns` names must be the one that is read.

Measured before such names were told apart: a query of one user was published with 477 users from Parquet
where the column was named, with 491 where it was guessed, and with 531 from a .tsv where it was guessed.
A .csv was refused, and a .tsv was read as `--columns` said.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.shared import ATTACKER, Finding, Pair, compared, main

OWN_ROWS = 500  # of the attacker, all with one query that nobody else asks
NAMED = {"user": "user"}


def rows(size: int, hostile: bool) -> pa.Table:
    """A row for each user, with a column `User` of requests before the column `user`."""
    asked = [(f"u{n}", f"common query {n % 3}") for n in range(size)]
    asked += [(ATTACKER, "query of one user")] * (OWN_ROWS if hostile else 0)
    users, queries = zip(*asked, strict=True)
    requests = [f"request {n}" for n in range(len(asked))]
    return pa.table([requests, users, queries], names=["User", "user", "query"])


def attack(folder: Path, size: int) -> Iterator[Finding]:
    logs = {"log": rows(size, False), "hostile": rows(size, True)}
    for name, table in logs.items():
        pq.write_table(table, folder / f"{name}.parquet")
        pa_csv.write_csv(table, folder / f"{name}.csv")
        tabbed = pa_csv.WriteOptions(delimiter="\t", quoting_style="none", quoting_header="none")
        pa_csv.write_csv(table, folder / f"{name}.tsv", tabbed)
    for ending in ("parquet", "csv", "tsv"):
        log, hostile = folder / f"log.{ending}", folder / f"hostile.{ending}"
        for how, columns in (("named", NAMED), ("guessed", {})):
            name = f".{ending}, {how}"
            pair = Pair(name=name, without=log, with_rows=hostile, columns=columns, refused="both")
            yield compared(pair)


if __name__ == "__main__":
    sys.exit(main(attack, size=1_000, meaning="how many other users, one row each"))
