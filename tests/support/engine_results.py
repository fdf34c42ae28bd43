"""What an engine reads, counts and releases under a seed, to hold one engine against another.

    python engine_results.py MASTER SCRATCH REQUESTS.json OUT.json

runs on Spark, in a process of its own: what Spark leaves open is no fault of ours.
"""

import json
import sys

import frozen
import numpy as np

from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.screen import load
from murmurlog.logs.source import find
from murmurlog.mechanisms import View
from murmurlog.mechanisms.protocol import tally_view
from murmurlog.privacy.sampler import SeededEntropy

EVERY = (("query", "first"), ("query", "random"), ("click", "first"), ("pair", "first"), ("keyword", "random"))  # fmt: skip


def read_and_count(engine, path, counted=(), source=None, **reading):
    """The rows that an engine reads, how many it dropped, and its tallies of some kinds and bounds."""
    options = {"entropy": SeededEntropy(7), "screen": load(), **reading}
    log = read(find(path, SourceOptions(**(source or {}))), engine=engine, **options)
    results = {
        "rows": sorted(row for part in log.partitions.results(dump) for row in part),
        "broken": dict(log.broken),
        "screened": dict(log.screened),
    }
    for kind, way in counted:
        view = View(kind=kind, unit=log.unit, way=way)
        tally = tally_view(log, view, per_user=4, entropy=SeededEntropy(7))
        shards = list(tally)
        items = tally.table(np.concatenate([shard.keys for shard in shards])).to_pylist()
        users = np.concatenate([shard.sums for shard in shards]).tolist()
        results[f"{kind}, {way}"] = sorted(
            [*item.values(), number] for item, number in zip(items, users, strict=True)
        )
    return results


def dump(rows):
    """The rows of a partition as texts and numbers, in order."""
    columns = {"query": rows.query, "url": rows.url, **rows.kept_columns}
    columns = {name: column for name, column in columns.items() if column is not None}
    texts = {
        name: [*rows.texts.take(column.ids).to_pylist(), None] for name, column in columns.items()
    }
    return sorted(
        json.dumps(
            [
                rows.unit_keys[unit].tolist(), rows.user_keys[unit].tolist(), int(time),
                *(texts[name][columns[name].codes[place]] for name in columns),
                None if rows.rank is None else int(rows.rank[place]),
            ]
        )
        for place, (unit, time) in enumerate(zip(rows.unit, rows.time, strict=True))
    )  # fmt: skip


def on_duckdb(requests):
    """The results in this process: a request is a setting that is released, or a log that is counted."""
    results = []
    for request in requests:
        if "release" in request:
            results.append(frozen.release_tables(request["release"], **request["with"]))
            continue
        with connect() as engine:
            results.append(read_and_count(engine, **request))
    return json.loads(json.dumps(results))


def on_spark(engine, requests, **where):
    """The same on Spark, where a session runs."""
    return [
        frozen.release_tables(request["release"], engine="spark", **where, **request["with"])
        if "release" in request
        else read_and_count(engine, **request)
        for request in requests
    ]


def main():
    master, scratch, requests, out = sys.argv[1:]
    with open(requests, encoding="utf-8") as file:
        asked = json.load(file)
    with connect_spark(master=master, scratch_at=scratch) as engine:
        results = on_spark(engine, asked, scratch=scratch)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
