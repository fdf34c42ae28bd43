"""What --keys canonical gains: queries published and reliable, and searches they cover, at epsilon 1.

    python benchmarks/canonical.py [--rows 500000] [--out canonical.json]

Generated logs of two seeds (plain, --like aol, --like zealous), and the plain ones with half of the searches
replaced by spellings of site names (x, x.com, www.x.com, http://x.com/). Keys that mean the same are one
query: `queries` folds the published keys of both releases, so that four spellings of one site count once.
`reliable` does so with the reliable rows. `searches` is the share of the log's searches whose key is published.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import murmurlog
from murmurlog.bundle.canonical import CHOICES, canonical
from murmurlog.evaluation.ground_truth import count_exactly
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.source import find

SEEDS = (8161, 8162)
LOGS = ("plain", "aol", "zealous", "navigational")
SITES = 20_000
SPELLINGS = (("", ""), ("", ".com"), ("www.", ".com"), ("http://", ".com/"))
SHARES = (0.35, 0.3, 0.25, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    print("log, seed, keys: rows published, queries, reliable queries, searches covered")
    with tempfile.TemporaryDirectory() as folder:
        for name in LOGS:
            for seed in SEEDS:
                log = _log(Path(folder) / f"{name}-{seed}.parquet", name, options.rows, seed)
                for keys in CHOICES:
                    bundle = Path(folder) / f"{name}-{seed}-{keys}"
                    murmurlog.release(
                        str(log), out=bundle, epsilon=1, delta=1e-6, tables=["query"], keys=keys
                    )
                    row = {"log": name, "seed": seed, "keys": keys} | _score(bundle, log, keys)
                    found.append(row)
                    print(
                        f"{name}, {seed}, {keys}: {row['rows']}, {row['queries']}, "
                        f"{row['reliable']}, {100 * row['searches']:.1f} %",
                        flush=True,
                    )
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))


def _log(path: Path, name: str, rows: int, seed: int) -> Path:
    like = None if name in ("plain", "navigational") else name
    murmurlog.generate(rows=rows, seed=seed, like=like, out=path)
    if name != "navigational":
        return path
    table, random = pq.read_table(path), np.random.default_rng(seed)
    n, place = table.num_rows, table.column_names.index("query")
    ranks = 1 / np.arange(1, SITES + 1)
    site = pa.array(map(_name, range(SITES))).take(
        pa.array(random.choice(SITES, n, p=ranks / ranks.sum()))
    )
    spelling = random.choice(len(SPELLINGS), n, p=SHARES)
    start, end = (
        pa.array([pair[i] for pair in SPELLINGS]).take(pa.array(spelling)) for i in (0, 1)
    )
    spelled = pc.binary_join_element_wise(start, site, end, "")
    mixed = pc.if_else(pa.array(random.random(n) < 0.5), spelled, table["query"])
    pq.write_table(table.set_column(place, "query", mixed), path)
    return path


def _name(number: int) -> str:
    """A site's name: five letters that differ for every number."""
    return "".join(chr(97 + number // 26**i % 26) for i in range(5))


def _score(bundle: Path, log: Path, keys: str) -> dict[str, float | int]:
    table = murmurlog.load(bundle).tables["query"]
    reliable = table.filter(table["reliable"])
    with connect() as engine:
        rows = read(
            find(str(log)), engine=engine, url=None, keys=CHOICES[keys], screen=load_screen()
        )
        exact = count_exactly(rows, kinds=["query"])[0]["query"]
    published = pc.is_in(exact["query"], value_set=table["query"])
    searches = exact["rows"]
    return {
        "rows": table.num_rows,
        "queries": len({canonical(text) for text in table["query"].to_pylist()}),
        "reliable": len({canonical(text) for text in reliable["query"].to_pylist()}),
        "searches": pc.sum(searches.filter(published), min_count=0).as_py()
        / pc.sum(searches).as_py(),
    }


if __name__ == "__main__":
    main()
