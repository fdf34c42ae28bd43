"""Whether two checkouts make the same tables: seeded releases of one log, byte by byte.

    python audits/same_tables.py CHECKOUT [--rows 400000]

Releases are drawn with a known seed and a fixed release id, the default and four other mechanisms,
once by the other checkout and once by this one. Prints a line for each table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = """
import hashlib, json, secrets, sys
from pathlib import Path
secrets.token_hex = lambda n: "ab" * n
import murmurlog
try:
    from murmurlog.privacy.sampler import SeededEntropy
except ImportError:  # before the package was sorted into rooms
    from murmurlog.noise import SeededEntropy
cases = {
    "default": {},
    "threshold": {"mechanism": "threshold", "per_user": 5, "tables": ["query", "click", "pair"]},
    "korolova": {"mechanism": "korolova", "epsilon": 4.0},
    "zealous": {"mechanism": "zealous", "epsilon": 4.0, "tables": ["query", "click"]},
    "synthetic": {"mechanism": "synthetic", "tables": ["log"], "epsilon": 8.0},
}
out, found = Path(sys.argv[1]), {}
out.mkdir()
for name, asked in cases.items():
    asked = {"epsilon": 2.0, "delta": 1e-4, **asked}
    murmurlog.release("log.parquet", out=out / name, entropy=SeededEntropy(7), **asked)
    for table in sorted((out / name / "data").glob("*.parquet")):
        digest = hashlib.sha256(table.read_bytes()).hexdigest()
        found[f"{name} {table.stem}"] = [digest, table.stat().st_size]
print(json.dumps(found))
"""
COMMAND = "from murmurlog.cli.main import main; main()"


def tables(checkout: Path, folder: Path, name: str) -> dict[str, list[object]]:
    """Digest and size of every table that a checkout makes."""
    environment = os.environ | {"PYTHONPATH": str((checkout / "src").resolve())}
    done = subprocess.run(
        [sys.executable, "-c", CODE, name], cwd=folder, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rows", type=int, default=400_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate = ["generate", "--rows", str(given.rows), "--like", "aol", "--out", "log.parquet"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        subprocess.run(
            [sys.executable, "-c", COMMAND, *generate], cwd=folder, env=environment, check=True
        )
        before = tables(given.checkout, folder, "before")
        after = tables(ROOT, folder, "after")
    for table in before:
        same = before[table] == after[table]
        print(f"{table:22} {'same' if same else 'DIFFERS'}  {after[table][1]} bytes")
    return 0 if before == after else 1


if __name__ == "__main__":
    sys.exit(main())
