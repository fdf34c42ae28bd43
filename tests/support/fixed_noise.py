"""`rounds` on an engine under one fixed noise, to hold one engine against another.

    python fixed_noise.py MASTER SCRATCH REQUESTS.json OUT.json

runs on Spark, in a process of its own. The noise of an item in a round is a function of its text, so
every engine must sum up the same weights in every round, publish the same rows, and find the same holders.
"""

import json
import random
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial, partialmethod
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import notes_of
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.public_pools import PublicPool
from murmurlog.mechanisms.rounds import mechanism as rounds
from murmurlog.mechanisms.rounds import streaming as streamed
from murmurlog.mechanisms.rounds import weights as spread
from murmurlog.mechanisms.rounds.cluster import ClusterRounds
from murmurlog.mechanisms.rounds.holders import find_holders
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.sampler import SeededEntropy


def release_rounds(
    engine, path, kind, unit, d, way="first", dense=False, pool=(), earlier=(), **windows
):
    """The draws and the sums of every round by the items' texts, and what is published.

    `pool` and `earlier` are public queries, `windows` the moments of select_from and count_from.
    """
    pools = (PublicPool(keys=Listed(table=pa.table({"query": pool}))),) if pool else ()
    sizes = tuple((each.keys.size, 2.0) for each in pools)
    mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=d, rounds=4, pools=sizes)
    log = read(find(path), engine=engine)
    view = View(
        kind=kind, unit=unit, way=way, options={"pool": {kind: pools}} if pools else {},
        earlier={kind: pa.table({"query": earlier})} if earlier else {},
        **{name: datetime.fromisoformat(text) for name, text in windows.items()},
    )  # fmt: skip
    held = mechanism.gather(log, view, entropy=SeededEntropy(7))
    held = replace(held, dense=dense)
    texts = {
        row["item"]: json.dumps([row[key] for key in held.keys])
        for batch in engine.batches(held.names)
        for row in batch.to_pylist()
    }
    assert len(texts) == held.size
    table = _noise_table(engine, texts, mechanism.schedule.scales)
    sums, draws = [], []

    def add_noise(real, rows):
        """The real sums, which are noted down, with the noise of the round."""
        exact = engine.materialise(real(rows))
        sums.append(
            sorted(
                [texts[row["item"]], row["weight"]]
                for batch in engine.batches(exact)
                for row in batch.to_pylist()
            )
        )
        both = exact.join(table, "item")
        return both.select("item", weight=both.weight + both[f"n{len(sums)}"])

    def add_noise_to_arrays(real, held, rows):
        """The same where sums are an array over all items."""
        exact = real(held, rows)
        sums.append(sorted([texts[item], int(exact[item])] for item in np.flatnonzero(exact)))
        return exact + spread.by_item(held, table, f"n{len(sums)}")

    def add_noise_to_shards(real, source, **options):
        """The same where sums come from workers."""
        shards = [*real(source, **options)]
        exact = pa.Table.from_batches(shards)
        noise = engine.batches(table.select("item", noise=f"n{len(sums) + 1}"))
        of = {row["item"]: row["noise"] for batch in noise for row in batch.to_pylist()}
        weights = zip(exact["item"].to_pylist(), exact["weight"].to_pylist(), strict=True)
        sums.append(sorted([texts[item], weight] for item, weight in weights))
        for shard in shards:
            items, given = (shard.column(name).to_pylist() for name in ("item", "weight"))
            noised = [weight + of[item] for item, weight in zip(items, given, strict=True)]
            yield shard.set_column(1, "weight", pa.array(noised, pa.int64()))

    def draw(*, count, **_):
        draws.append(count)
        return np.zeros(count, np.int64)

    summed, weighed, sharded = streamed.summed_weights, spread.weights, ClusterRounds.sums
    with ExitStack() as stack:
        note = partial(add_noise, summed), partial(add_noise_to_arrays, weighed)
        stack.enter_context(patch.object(streamed, "summed_weights", note[0]))
        stack.enter_context(patch.object(spread, "weights", note[1]))
        shards = partialmethod(partial(add_noise_to_shards, sharded))
        stack.enter_context(patch.object(ClusterRounds, "sums", shards))
        for module in (rounds, streamed):
            stack.enter_context(patch.object(module, "draw", draw))
        released = mechanism.release(held, entropy=SeededEntropy(2))
    keys = released.select(list(held.keys))
    found = find_holders(held, keys)
    of = [json.dumps(list(row.values())) for row in keys.to_pylist()]
    holders = Counter()
    for item, m, units in zip(found.item, found.m, found.units, strict=True):
        holders[of[item], int(m)] += int(units)
    return {
        "holders": sorted([*pair, units] for pair, units in holders.items()),
        "counting": notes_of(released, name="counting"),
        "sums": sums,
        "draws": sum(draws),
        "published": sorted([row[k] for k in (*held.keys, "users")] for row in released.to_pylist()),
    }  # fmt: skip


def _noise_table(engine, texts, scales):
    columns = {
        f"n{k + 1}": [
            round(random.Random(f"{k}|{text}").gauss(0, scale * GRID)) for text in texts.values()
        ]
        for k, scale in enumerate(scales)
    }
    return engine.keep(pa.table({"item": list(texts), **columns}))


def release_on_duckdb(requests, connected=connect, **more):
    """The same in this process, an engine for each request."""
    found = []
    for request in requests:
        with connected() as engine:
            found.append(release_rounds(engine, **request, **more))
    return json.loads(json.dumps(found))


def main():
    master, scratch, requests, out = sys.argv[1:]
    with open(requests, encoding="utf-8") as file:
        asked = json.load(file)
    with connect_spark(master=master, scratch_at=scratch) as engine:
        found = [release_rounds(engine, **request) for request in asked]
    with open(out, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
