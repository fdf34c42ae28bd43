"""What a release costs, next to a plain GROUP BY on the same file.

    python benchmarks/release.py [--rows 5000000] [--log FILE]

Invents a log (or takes one), then runs, one after the other in processes of their own:
  group by    DuckDB: SELECT query, count(*) ... GROUP BY query; not private
  threshold   murmurlog release --tables query --mechanism threshold
  rounds      murmurlog release --tables query
  with clicks murmurlog release --tables query,click
and prints one table. Ratios are of CPU seconds in this run.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from measure import measure

GROUP_BY = """
import duckdb, sys
rows = duckdb.sql(f"SELECT query, count(*) AS n FROM '{sys.argv[1]}' GROUP BY query").fetch_arrow_table()
print(rows.num_rows)
"""


RELEASES = {
    "threshold": "--tables query --mechanism threshold",
    "rounds": "--tables query",
    "with clicks": "--tables query,click",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    murmurlog = str(Path(sys.executable).with_name("murmurlog"))
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or Path(folder) / "log.parquet"
        if not options.log:
            made = measure(
                [
                    murmurlog,
                    "generate",
                    "--rows",
                    str(options.rows),
                    "--seed",
                    "1",
                    "--out",
                    str(log),
                ]
            )
            print(
                f"generate: {options.rows} rows in {made.wall:.1f} s, {made.cpu:.1f} CPU s, {made.peak_mb:.0f} MB"
            )
        runs = {"group by": measure([sys.executable, "-c", GROUP_BY, str(log)])}
        for name, flags in RELEASES.items():
            out = Path(folder) / name.replace(" ", "-")
            runs[name] = measure(
                [murmurlog, "release", str(log), *flags.split(), "--out", str(out), "--json"]
            )
    base = runs["group by"].cpu
    print(f"{'':12} {'CPU s':>7} {'ratio':>6} {'wall s':>7} {'peak MB':>8}  rows")
    for name, cost in runs.items():
        if name == "group by":
            rows = cost.output.split()[-1]  # after what DuckDB shows of its progress
        else:
            tables = json.loads(cost.output)["tables"]
            rows = ", ".join(f"{kind} {table['rows']}" for kind, table in tables.items())
        print(
            f"{name:12} {cost.cpu:7.1f} {cost.cpu / base:6.1f} {cost.wall:7.1f} {cost.peak_mb:8.0f}  {rows}"
        )


if __name__ == "__main__":
    main()
