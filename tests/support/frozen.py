"""Releases whose tables are frozen: the net under every change of how rows are read, counted and drawn.

    python tests/support/frozen.py [NAME ...]      writes tests/frozen/NAME.json again

`seeded` are the tables under a seed. `exact` are the same releases with every draw equal to 0: sums as
they are before noise. A file is written again only where a change is on purpose, and its commit says so.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import murmurlog
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.privacy import sampler
from murmurlog.privacy.sampler import SeededEntropy

FOLDER = Path(__file__).parent.parent / "frozen"
LOG, UNTIMED = FOLDER / "log.csv", FOLDER / "untimed.csv"
POOL, LISTS, LABELS = FOLDER / "pool.txt", FOLDER / "lists.tsv", FOLDER / "labels.tsv"
EARLIER = ["cheap phone", "red shoe", "nobody asks this"]  # --after takes no bundle of a seed
SEED = 20261118
WIDE = {"epsilon": 8.0, "delta": 1e-3, "accept_delta": True}
BY = ("country", ["DE", "FR", "IT"])

# Of each release: keywords of murmurlog.release; `source` is LOG unless it is named.
SETTINGS = {
    "threshold": {"mechanism": "threshold", "tables": ["query", "click"], "per_user": 5},
    "threshold-by": {
        "mechanism": "threshold", "tables": ["query", "pair"], "by": BY, "noise": "gaussian",
        "per_user": 6, "neighbours": "replace",
    },
    "threshold-untimed": {
        "source": UNTIMED, "mechanism": "threshold", "tables": ["query", "click"], "per_user": 3,
    },
    "keywords": {"mechanism": "threshold", "tables": ["keyword"], "per_user": 8},
    "korolova": {"mechanism": "korolova", "tables": ["query", "click"], "per_user": 4},
    "korolova-rows": {
        "mechanism": "korolova", "tables": ["query"], "count": "rows", "per_user": 6,
    },
    "korolova-lists": {
        "mechanism": "korolova", "tables": ["query", "click"], "result_lists": str(LISTS),
        "per_user": 4,
    },
    "zealous": {"mechanism": "zealous", "tables": ["query", "pair"], "per_user": 4},
    "zealous-pdp": {
        "mechanism": "zealous", "tables": ["query"], "notion": "pdp", "users": 500, "per_user": 4,
    },
    "zealous-keywords": {
        "mechanism": "zealous", "tables": ["keyword", "query"], "via_keywords": True, "per_user": 4,
    },
    "pool": {"mechanism": "pool", "tables": ["query"], "pool": str(POOL), "fakes": 3, "per_user": 4},
    "sessions": {
        "mechanism": "sessions", "tables": ["session"], "sessions_per_user": 2,
        "queries_per_session": 3,
    },
    "sessions-whole": {
        "mechanism": "sessions", "tables": ["session"], "subsequences": "whole", "gap": 7200,
        "map": str(LABELS),
    },
    "session-tree": {
        "mechanism": "session-tree", "tables": ["session"], "sessions_per_user": 2,
        "queries_per_session": 3,
    },
    "rounds": {"tables": ["query", "click", "pair"], "per_user": 20},
    "rounds-by": {"tables": ["query", "click"], "by": BY, "per_user": 10},
    "rounds-untimed": {"source": UNTIMED, "tables": ["query", "click"], "per_user": 4},
    "rounds-random": {"tables": ["query"], "bound": "random", "per_user": 3},
    "rounds-days": {"tables": ["query", "click"], "unit": "user-day", "per_user": 3},
    "rounds-weeks": {"tables": ["query"], "unit": "user-week", "per_user": 3, "set_only": True},
    "rounds-months": {"tables": ["query"], "unit": "user-month", "per_user": 5, "by": BY},
    "rounds-itemsets": {"tables": ["itemset"], "per_user": 40},
    "rounds-earlier": {"tables": ["query"], "per_user": 10, "unit": "user-week"},
    "rounds-pool": {
        "tables": ["query"], "pool": [f"{POOL}:4"], "per_user": 10, "rounds": 4,
    },
    "rounds-windows": {
        "tables": ["query"], "select_from": "2026-02-10", "count_from": "2026-02-20",
        "per_user": 10,
    },
    "left-out": {"tables": ["query", "left_out"], "per_user": 10},
    "synthetic": {
        "mechanism": "synthetic", "tables": ["log"], "per_user": 6,
        "measure": "together,rank,hour,count",
    },
    "hong": {
        "mechanism": "hong", "tables": ["log"], "accept_no_guarantee": True, "objective": "output",
        "epsilon": 3.0, "delta": 0.5,
    },
    "k-query": {"mechanism": "k-query:5", "tables": ["query"], "accept_no_guarantee": True},
    "users-30": {"mechanism": "users-30", "tables": ["query"], "accept_no_guarantee": True},
    "safelog-literal": {
        "mechanism": "safelog-literal", "tables": ["query", "click"], "accept_no_guarantee": True,
    },
}  # fmt: skip


def release_tables(name, **more):
    """The tables of a setting under the seed."""
    keywords = WIDE | SETTINGS[name] | more
    if name == "rounds-earlier":
        return release_after(EARLIER, keywords)
    if "accept_no_guarantee" in keywords and "epsilon" not in SETTINGS[name]:
        keywords = {key: value for key, value in keywords.items() if key not in WIDE}
    source = keywords.pop("source", LOG)
    with tempfile.TemporaryDirectory() as folder:
        outcome = murmurlog.release(
            source, out=Path(folder) / "bundle", entropy=SeededEntropy(SEED), **keywords
        )
    return {kind: rows_in_order(table) for kind, table in sorted(outcome.tables.items())}


def rows_in_order(table):
    """The rows by their texts and integers: the order of equal counts is no part of a table."""
    return sorted(
        table.to_pylist(),
        key=lambda row: json.dumps([value for value in row.values() if type(value) is not float]),
    )


def release_after(earlier, keywords):
    """The query table by `rounds` where some keys are public already."""
    mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=keywords["per_user"])
    view = View(
        kind="query", unit=keywords["unit"], way="first",
        earlier={"query": pa.table({"query": earlier})},
    )  # fmt: skip
    entropy = SeededEntropy(SEED)
    with connect() as engine:
        gathered = mechanism.gather(
            read(find(str(LOG)), engine=engine, unit=keywords["unit"], entropy=entropy),
            view,
            entropy=entropy,
        )
        return {"query": rows_in_order(mechanism.release(gathered, entropy=entropy))}


def sums_before_noise(name, **more):
    """The same with all draws 0."""
    with patch.object(sampler, "_draw_batch", lambda noise, scale, count, *_: np.zeros(count, int)):
        return release_tables(name, **more)


def write_log():
    """400 people who share queries, differ in how much they search, and often do so at the same second."""
    rng = random.Random(7)
    words = [
        "red",
        "blue",
        "cheap",
        "best",
        "new",
        "old",
        "wide",
        "tiny",
        "shoe",
        "chair",
        "lamp",
        "phone",
        "weather",
        "map",
        "news",
        "song",
    ]
    queries = [f"{a} {b}" for a in words[:8] for b in words[8:]] + words[8:]
    queries += ["münchen wetter", "東京 天気", "İstanbul hava", "café"]
    places = {q: rng.sample(range(40), 4) for q in queries}
    rows = []
    for user in range(400):
        country, pace = rng.choice(["DE", "DE", "FR", "IT", "XX"]), rng.choice([2, 4, 8, 14, 30])
        for _ in range(rng.randint(1, pace)):
            day, minute = rng.randint(1, 59), 20 * rng.randint(0, 71)
            month, day = (1, day) if day <= 31 else (2, day - 31)
            query = queries[min(int(rng.expovariate(0.09)), len(queries) - 1)]
            for step in range(rng.choice([1, 1, 2, 3])):
                shown = query.upper() if rng.random() < 0.05 else query
                rank = rng.choice(["", 1, 1, 2, 3])
                url = "" if rank == "" else f"http://site{places[query][rank - 1]}.org/p{rank}"
                time = f"2026-{month:02}-{day:02} {minute // 60:02}:{minute % 60:02}:{step * 7:02}"
                where = country if rng.random() < 0.9 else "FR"
                rows.append((f"u{user}", time, shown, url, rank, where))
                query = queries[min(int(rng.expovariate(0.09)), len(queries) - 1)]
    rng.shuffle(rows)
    header = "user,time,query,url,rank,country\n"
    LOG.write_text(header + "".join(",".join(map(str, row)) + "\n" for row in rows), "utf-8")
    short = "".join(f"{u},{q},{url},{c}\n" for u, _, q, url, _, c in rows)
    UNTIMED.write_text("user,query,url,country\n" + short, "utf-8")
    POOL.write_text(
        "\n".join([*queries[::2], *(f"unasked {n}" for n in range(300))]) + "\n", "utf-8"
    )
    lists = [
        f"{q}\tsite{s}.org/p{n}\n" for q in queries[:20] for n, s in enumerate(places[q][:3], 1)
    ]
    LISTS.write_text("".join(lists), "utf-8")
    labels = [f"{q}\t{q.split()[-1][:2]}\n" for q in queries]
    LABELS.write_text("".join(labels), "utf-8")


def write(name):
    tables = {"seeded": release_tables(name), "exact": sums_before_noise(name)}
    lines = json.dumps(tables, ensure_ascii=False, indent=None).replace("}, {", "},\n{")
    (FOLDER / f"{name}.json").write_text(lines + "\n", "utf-8")
    return {
        part: {kind: len(rows) for kind, rows in found.items()} for part, found in tables.items()
    }


if __name__ == "__main__":
    if not LOG.exists():
        write_log()
    for setting in sys.argv[1:] or SETTINGS:
        print(setting, write(setting), flush=True)
