"""Every mechanism on one generated log: seconds, rows published, guarantee.

    python benchmarks/mechanisms.py [--rows 1000000]

Makes an AOL-like log and a public pool in a temporary folder, runs `murmurlog release` once for each
mechanism as a new process, and verifies what claims a guarantee.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import measure

ROOT = Path(__file__).resolve().parents[1]
RUNS = {
    "threshold": "--tables query,click",
    "threshold, itemset": "--mechanism threshold --tables itemset",
    "rounds": "--tables query",
    "korolova": "--tables query,click,pair",
    "zealous": "--tables keyword,query,pair,click",
    "zealous, pdp": "--mechanism zealous --tables keyword,query,pair,click --notion pdp --users 20000",
    "zealous, via keywords": "--mechanism zealous --tables keyword,query --via-keywords",
    "pool": "--tables query --pool {pool}",
    "sessions": "--tables session,query,click",
    "sessions, whole": "--mechanism sessions --tables session --subsequences whole",
    "sessions, labels": "--mechanism sessions --tables session --map length",
    "synthetic": "--tables log",
    "synthetic, all measured": "--mechanism synthetic --tables log --measure together,hour,count",
    "hong, output": "--mechanism hong --tables log --objective output",
    "hong, frequent": "--mechanism hong --tables log --objective frequent",
    "hong, diverse": "--mechanism hong --tables log --objective diverse",
    "hong, breach": "--mechanism hong --tables log --objective breach",
    "safelog-literal": "--tables query,click --pool {pool}",
    "k-query:20": "--tables query",
    "k-click:20": "--tables click",
    "k-session:5": "--tables session",
    "k-keyword:20": "--tables keyword",
    "users-30": "--tables query,click",
}
UNPROVED = ("hong", "safelog", "k-", "users-30")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", help="a mechanism's name or its beginning")
    given = parser.parse_args()
    program = [str(Path(sys.executable).with_name("murmurlog"))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, pool = folder / "log.parquet", folder / "pool.txt"
        made = ["generate", "--rows", str(given.rows), "--seed", "1", "--like", "aol"]
        measure([*program, *made, "--out", str(log)])
        text = folder / "text.txt"
        text.write_text("the price of a house in the city\nweather report of the day\n" * 50)
        size = ["--size", "1000000", "--out", str(pool)]
        build = [sys.executable, "-m", "tools.pool", "--from", str(text), *size]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        print(f"{given.rows} rows; epsilon 2, delta 1e-6 (hong: e^epsilon = 2, delta = 0.5)\n")
        print("| mechanism | CPU s | wall s | peak MB | rows | guarantee |")
        print("|---|---|---|---|---|---|")
        for number, (title, flags) in enumerate(RUNS.items()):
            if given.only and not title.startswith(given.only):
                continue
            out = folder / f"bundle-{number}"
            budget = ["--epsilon", "ln(2)", "--delta", "0.5"] if title.startswith("hong") else []
            command = [*program, "release", str(log), "--out", str(out), "--json"]
            command += flags.format(pool=pool).split()
            if "--mechanism" not in flags:
                command += ["--mechanism", title.split(",")[0]]
            command += budget or ["--epsilon", "2", "--delta", "1e-6"]
            if title.startswith(UNPROVED):
                command.append("--accept-no-guarantee")
            cost = measure(command)
            done = json.loads(cost.output)
            rows = " + ".join(f"{t['rows']} {table}" for table, t in done["tables"].items())
            print(
                f"| {title} | {cost.cpu:.1f} | {cost.wall:.1f} | {cost.peak_mb:.0f} | {rows} "
                f"| {_claim(done['guarantee'])} |",
                flush=True,
            )
            if not title.startswith(UNPROVED):
                subprocess.run([*program, "verify", str(out)], check=True, capture_output=True)


def _claim(guarantee: dict[str, str | float | None]) -> str:
    if guarantee["notion"] == "none":
        return "none"
    text = f"({guarantee['epsilon']:.4g}, {guarantee['delta']:.2g})"
    if guarantee["notion"] == "pdp":
        text += f" probabilistic; DP delta {guarantee['delta_dp']:.2g}"
    return f"{text} per {guarantee['unit']}"


if __name__ == "__main__":
    main()
