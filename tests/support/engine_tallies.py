"""Tallies of a log as an engine counts them, to hold one engine against another.

    python engine_tallies.py MASTER SCRATCH REQUESTS.json OUT.json

runs on Spark, in a process of its own: what Spark leaves open is no fault of ours.
"""

import json
import sys

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.log import read
from murmurlog.logs.screen import load
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy

SETTINGS = (
    ("query", "user", "first"),
    ("query", "user", "random"),
    ("query", "user-day", "first"),
    ("click", "user-week", "first"),
    ("pair", "user-day", "first"),
    ("keyword", "user-month", "random"),
)


def count_tallies(engine, requests):
    """For each request (a path, what to count, how to read) the rows read and the tallies."""
    return [_count_tables(engine, **request) for request in requests]


def _count_tables(engine, path, counted, columns=None, **reading):
    log = read(find(path, columns=columns), engine=engine, screen=load(), **reading)
    rows = sorted(
        json.dumps([*row.values()], default=str, ensure_ascii=False)
        for batch in engine.batches(log.table)
        for row in batch.to_pylist()
    )
    found = {"rows": rows, "broken": dict(log.broken), "screened": dict(log.screened)}
    for kind, unit, way in counted:
        held = items(log, kind=kind, unit=unit)
        kept = tally(bound(held, per_user=4, way=way, entropy=SeededEntropy(7)))
        found[f"{kind}, {unit}, {way}"] = sorted(
            [[row[key] for key in kept.keys], row["users"]]
            for batch in kept.batches()
            for row in batch.to_pylist()
        )
    return found


def count_on_duckdb(requests):
    """The same in this process, an engine for each request."""
    found = []
    for request in requests:
        with connect() as engine:
            found += count_tallies(engine, [request])
    return json.loads(json.dumps(found))


def main():
    master, scratch, requests, out = sys.argv[1:]
    with open(requests, encoding="utf-8") as file:
        asked = json.load(file)
    with connect_spark(master=master, scratch_at=scratch) as engine:
        found = count_tallies(engine, asked)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
