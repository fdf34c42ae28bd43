"""What a release costs from text, next to the same rows as Parquet.

    python benchmarks/text.py [--rows 5000000] [--commit PATH]

Invents a log and writes it as Parquet, .tsv, .csv, .csv with every field quoted, and .jsonl. Then it runs
`murmurlog release --tables query --mechanism threshold` on each, one after the other in processes of
their own, and prints one table. Ratios are of CPU seconds in this run. With --commit, the folder of another
checkout, its code reads the same files in the same run (PYTHONPATH), to compare before and after.
"""

import argparse
import csv
import os
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from measure import measure

COLUMNS = "user=user,query=query,time=time,url=url,rank=rank"


def write_quoted(table: Path, out: Path) -> None:
    """The rows as a .csv with every field in quotes, as Python's csv module writes them."""
    with out.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        source = pq.ParquetFile(table)
        writer.writerow(source.schema_arrow.names)
        for batch in source.iter_batches():
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--commit", type=Path)
    options = parser.parse_args()
    murmurlog = str(Path(sys.executable).with_name("murmurlog"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        logs = [root / f"log.{ending}" for ending in ("parquet", "tsv", "csv", "jsonl")]
        for log in logs:
            measure([murmurlog, "generate", "--rows", str(options.rows), "--seed", "1",
                     "--out", str(log)])  # fmt: skip
        write_quoted(logs[0], quoted := root / "quoted.csv")
        codes = {"this checkout": os.environ.get("PYTHONPATH", "")}
        if options.commit:
            codes[options.commit.name] = str(options.commit / "src")
        print(f"{'code':<16} {'log':<14} {'MB':>6} {'CPU s':>7} {'wall s':>7} {'x Parquet':>9}")
        for code, path in codes.items():
            os.environ["PYTHONPATH"] = path
            base = 0.0
            for log in (*logs, quoted):
                out = root / f"out-{code}-{log.name}".replace(" ", "-")
                ran = measure([murmurlog, "release", str(log), "--tables", "query", "--columns",
                               COLUMNS, "--mechanism", "threshold", "--out", str(out)])  # fmt: skip
                base = base or ran.cpu
                size = log.stat().st_size / 1e6
                print(f"{code:<16} {log.name:<14} {size:>6.0f} {ran.cpu:>7.1f} {ran.wall:>7.1f} "
                      f"{ran.cpu / base:>9.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
