"""How right published counts are: error and coverage of 95 % intervals, before and after.

    python benchmarks/counts.py [--before CHECKOUT] [--quick] [--logs NAME ...] [--sets FOLDER] [--out counts.json]

Every log is generated with seeds that no constant was chosen on. A release is made by the command of this
checkout and, with --before, by that of another one (a folder with `src`). The truth is the number of users in
the log that hold the key, counted exactly. `top` is the median relative error of the 100 most frequent
published keys, `reliable` that of the rows called reliable, with how many there are; `coverage` is the share
of reliable rows whose 95 % interval holds the truth. Releases before version 0.2 state no interval: there it is
users +- 1.96 users_stderr. --sets reads further logs from a folder of Parquet files (user, query).
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from series import ROOT, command

import murmurlog
from murmurlog.bundle.schema import KEYS
from murmurlog.evaluation.ground_truth import count_exactly
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.source import find

LOGS = {  # name: (kind, rows, seed)
    "plain 20 k": ("plain", 800_000, 7141),
    "plain 38 k": ("plain", 1_520_000, 7142),
    "aol 36 k": ("aol", 2_000_000, 7143),
    "aol 117 k": ("aol", 6_500_000, 7144),
    "zealous 63 k": ("zealous", 1_500_000, 7145),
}
QUICK = ("plain 20 k", "zealous 63 k")
EPSILONS = (0.5, 1.0, 3.0)
TABLES = (("query",), ("query", "click"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--logs", nargs="*", choices=LOGS)
    parser.add_argument("--sets", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    checkouts = {"after": ROOT} | ({"before": options.before.resolve()} if options.before else {})
    scores = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = options.logs if options.logs is not None else QUICK if options.quick else LOGS
        logs = {name: _generate(folder, *LOGS[name]) for name in names}
        logs |= {f.stem: f for f in sorted(options.sets.glob("*.parquet"))} if options.sets else {}
        print("log, tables, epsilon, version: table: rows, reliable, top, reliable, coverage, d2")
        for name, path in logs.items():
            exact = _count(path)
            for tables in TABLES:
                if set(tables) - set(exact):
                    continue
                for epsilon in (1.0,) if options.quick else EPSILONS:
                    for version, checkout in checkouts.items():
                        bundle = folder / "bundle"
                        command(
                            "release", str(path), "--epsilon", str(epsilon), "--delta", "1e-6", "--tables",
                            ",".join(tables), "--out", str(bundle), checkout=checkout,
                        )  # fmt: skip
                        for table in tables:
                            row = {"log": name, "tables": list(tables), "epsilon": epsilon}
                            row |= {"version": version, "table": table}
                            row |= _score(bundle, table, exact[table])
                            scores.append(row)
                            print(_line(row), flush=True)
                        shutil.rmtree(bundle)
    if options.out:
        options.out.write_text(json.dumps(scores, indent=1))


def _generate(folder: Path, kind: str, rows: int, seed: int) -> Path:
    log = folder / f"{seed}.parquet"
    murmurlog.generate(rows=rows, seed=seed, like=None if kind == "plain" else kind, out=log)
    return log


def _count(log: Path) -> dict[str, pa.Table]:
    """Of each table how many users in the log hold each key."""
    with connect() as engine:
        rows = read(find(str(log)), engine=engine, screen=load_screen())
        tables, _ = count_exactly(rows, kinds=["query", "click"])
    return {
        name: table.drop_columns("rows").rename_columns([*KEYS[name], "true"])
        for name, table in tables.items()
    }


def _score(bundle: Path, table: str, exact: pa.Table) -> dict[str, float | int | None]:
    published = pq.read_table(bundle / "data" / f"{table}.parquet")
    joined = published.join(exact, list(KEYS[table]), join_type="left outer")
    users, stderr = (_column(joined, name) for name in ("users", "users_stderr"))
    true = np.nan_to_num(_column(joined, "true"))
    reliable = joined["reliable"].to_numpy(zero_copy_only=False).astype(bool)
    if "users_low" in joined.column_names:
        low, high = (_column(joined, f"users_{end}") for end in ("low", "high"))
    else:
        low, high = users - 1.96 * stderr, users + 1.96 * stderr
    off = np.abs(users - true) / np.maximum(true, 1)
    inside = (low <= true) & (true <= high)
    top = np.argsort(-true)[:100]
    stated = json.loads((bundle / "privacy.json").read_text())["tables"][table]
    return {
        "rows": len(users),
        "reliable_rows": int(reliable.sum()),
        "top_error": _median(off[top]),
        "reliable_error": _median(off[reliable]),
        "coverage": float(inside[reliable].mean()) if reliable.any() else None,
        "top_coverage": float(inside[top].mean()) if len(top) else None,
        "d2": stated.get("d2"),
    }


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].cast(pa.float64()).to_numpy()


def _median(values: np.ndarray) -> float | None:
    return float(np.median(values)) if len(values) else None


def _line(row: dict) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} %"

    return (
        f"{row['log']}, {'+'.join(row['tables'])}, {row['epsilon']:g}, {row['version']}: {row['table']}: "
        f"{row['rows']} rows, {row['reliable_rows']} reliable, {share(row['top_error'])}, "
        f"{share(row['reliable_error'])}, {share(row['coverage'])}, d2 {row['d2'] or '-'}"
    )


if __name__ == "__main__":
    main()
