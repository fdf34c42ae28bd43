"""All attacks on reading, counting and budgets, one after the other, and a table of what came of them.

    python audits/attacks/run.py [--only csv] [--quick]

Exit code 0 only if none succeeds. `--quick` tries a few names of columns instead of all.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ATTACKS = (
    *("csv_border", "head_shape", "column_case", "by_number", "jsonl_roles", "by_waiting"),
    *("by_names", "frame_objects", "init_budget", "chosen_texts"),
)
QUICK = {
    "by_names": ("--names", "8"),
    "by_number": ("--size", "50"),
    "chosen_texts": ("--size", "100"),
    "init_budget": ("--size", "3"),
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="attacks whose name holds this text")
    parser.add_argument("--quick", action="store_true", help="fewer names and draws")
    given = parser.parse_args()
    rows = []
    for name in (attack for attack in ATTACKS if given.only in attack):
        began = time.monotonic()
        script = str(Path(__file__).with_name(f"{name}.py"))
        more = QUICK.get(name, ()) if given.quick else ()
        done = subprocess.run(
            [sys.executable, script, *more], stdout=subprocess.PIPE, text=True, check=False
        )
        lines = done.stdout.strip().splitlines() or ["NO RESULT: it printed nothing"]
        print(f"{name}: {lines[-1]}\n", flush=True)
        rows.append((name, lines[-1].partition(":")[0], done.returncode, time.monotonic() - began))
    print(f"{'attack':14} {'result':14} {'exit':>4} {'seconds':>8}")
    for name, word, code, seconds in rows:
        print(f"{name:14} {word:14} {code:4} {seconds:8.0f}")
    return 1 if any(code for _, _, code, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
