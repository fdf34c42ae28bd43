"""`--by number=...` with the mechanism `rounds`: the unit becomes the value of the column.

    python audits/attacks/by_number.py [--size 300]

The units of a log are numbered before `rounds` spreads their weights. The numbers stood in a column
called `number`, beside the column of the log with that name, and the wrong one was taken for the unit:
all users with one value shared one weight. So one user with 1,000 queries of his own takes the weight
away from a query that 210 others ask and he does not, and it is no longer published.

The line says how many units were counted, and a lower bound on delta at the claimed epsilon, with
99 % confidence (Clopper-Pearson on both sides), from repeated draws of the same release: the event is
that the query is not published.

Measured before columns of the log got names of our own: 1 unit was counted of 211 users, and the query
was missing in 0 of 500 draws without the rows and in 494 of 500 with them: delta(3) >= 0.7573, where
1e-6 is claimed.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import ATTACKER, REFUSALS, Finding, main, release
from murmurlog.mechanisms.rounds.mechanism import Rounds
from murmurlog.privacy.sampler import Entropy

EPSILON, DELTA, CONFIDENCE = 3.0, 1e-6, 0.99
USERS, OWN_ROWS = 210, 1_000  # as many rows as the bound keeps
QUERY, COLUMN, VALUE = "common query", "number", "7"
FLAGS = (
    *("--mechanism", "rounds", "--rounds", "1", "--set-only", "--tables", "query"),
    *("--epsilon", f"{EPSILON:g}", "--delta", f"{DELTA:g}", "--per-user", str(OWN_ROWS)),
    *("--by", f"{COLUMN}={VALUE}"),
)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What repeated draws of one release gave."""

    users: int  # in the log
    units: int  # that were counted
    missing: int  # draws in which the query was not published


def log(hostile: bool) -> pa.Table:
    rows = [(f"u{n}", QUERY) for n in range(USERS)]
    rows += [(ATTACKER, f"own query {n}") for n in range(OWN_ROWS if hostile else 0)]
    users, queries = zip(*rows, strict=True)
    return pa.table([users, queries, [VALUE] * len(rows)], names=["user", "query", COLUMN])


def drawn(path: Path, users: int, draws: int) -> Drawn:
    """One release by the library, whose last step, all that is random in it, is done many times."""
    seen: list[Drawn] = []
    once = Rounds.release

    def often(mechanism: Rounds, held: Any, *, entropy: Entropy) -> pa.Table:
        tables = [once(mechanism, held, entropy=entropy) for _ in range(draws)]
        missing = sum(QUERY not in table["query"].to_pylist() for table in tables)
        units = sum(held.bounded.results(lambda items: items.units))
        seen.append(Drawn(users=users, units=units, missing=missing))
        return tables[-1]

    with mock.patch.object(Rounds, "release", often):
        murmurlog.release(
            str(path), out=path.with_suffix(".often"), mechanism="rounds", rounds=1, set_only=True,
            tables=["query"], epsilon=EPSILON, delta=DELTA, per_user=OWN_ROWS, by=(COLUMN, [VALUE]),
        )  # fmt: skip
    return seen[0]


def least_delta(before: Drawn, after: Drawn, draws: int) -> float:
    """A lower bound on delta at EPSILON: of the event with the rows, less e^epsilon times without."""
    tail = (1 - CONFIDENCE) / 2
    n, with_rows = before.missing, after.missing
    least = beta.ppf(tail, with_rows, draws - with_rows + 1) if with_rows else 0.0
    most = beta.ppf(1 - tail, n + 1, draws - n) if n < draws else 1.0
    return max(0.0, float(least - math.exp(EPSILON) * most))


def attack(folder: Path, size: int) -> Iterator[Finding]:
    paths = {name: folder / f"{name}.parquet" for name in ("without", "with")}
    for name, path in paths.items():
        pq.write_table(log(name == "with"), path)
    runs = [release(path, *FLAGS, name=name) for name, path in paths.items()]
    codes = [run.code for run in runs]
    if all(code in REFUSALS for code in codes) and not any(run.entries for run in runs):
        text = f"refused with and without the rows, nothing booked ({runs[0].said})"
        yield Finding(word=f"REFUSED ({codes[0]})", text=text)
        return
    if any(codes):
        yield Finding(word="BROKEN", text=f"exit codes {codes}: {[run.said for run in runs]}")
        return
    before = drawn(paths["without"], USERS, size)
    after = drawn(paths["with"], USERS + 1, size)
    delta = least_delta(before, after, size)
    merged = before.units < before.users or after.units < after.users
    yield Finding(
        word="BROKEN" if merged or delta > DELTA else "HOLDS",
        text=f"{after.units:,} units are counted of {after.users:,} users; a query of {USERS} others "
        f"is not published in {before.missing} of {size} draws without the rows and in "
        f"{after.missing} of {size} with them: delta({EPSILON:g}) >= {delta:.4f} "
        f"({CONFIDENCE:.0%}), claimed {DELTA:g}",
    )


if __name__ == "__main__":
    sys.exit(main(attack, size=300, meaning="how many draws of each release"))
