"""Give murmurlog hostile input, thousands of times, and look at what it does.

    python audits/fuzz.py [--share 1] [--kinds text packed ...] [--seed 1]

Hostile logs of every format, settings, public files, parameters and bundles are run through the
command line; readers, names of mechanisms and manifests are explored by changed inputs that reach new
lines of code, and by inputs that Hypothesis draws against promises. Every log holds secrets of one user.
10,000 forged bundles are given to the page, which must refuse them or answer in little time and space.

After each run these must hold: the exit code is the right one and never 70; no traceback; nothing is
written but into --out and the ledger (where there is Landlock, the kernel refuses it, so that a library
that tries fails); the folder for temporary files is empty; memory and time have a bound; no secret is
printed, published or booked. Exit 0 only if all of it held every time.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from cases import SECRETS, Case
from explore import EXPLORED, explore
from forged_bundles import SERVED, serve_forged
from forking import fences
from hostile_bundles import bundles
from hostile_files import files
from hostile_logs import logs
from properties import PROPERTIES, hold
from warm import Runner

SECONDS = 120.0  # of a processor: a run that takes longer hangs
EXPLORATIONS, DRAWN = 4000, 150  # inputs of a function, and against a promise
FORGED = 10_000  # bundles that are given to the page
OURS = ("out", "books", "tmp", "stdout", "stderr", "writes")  # what a run may write in its folder


@dataclass
class Kind:
    """What came of the runs with one kind of input."""

    name: str
    runs: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    tracebacks: int = 0
    wrong: int = 0  # exit codes
    outside: int = 0  # bytes
    secrets: int = 0
    most: int = 0  # bytes of memory
    lines: int = 0  # of code that inputs reached, where that is what guides them
    violations: list[str] = field(default_factory=list)


def state(root: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and time of everything in a folder that a run must leave alone."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if relative.split("/")[0] not in OURS:
                seen = os.lstat(path)
                changed = 0 if name in folders else seen.st_mtime_ns
                found[relative] = (seen.st_mode, seen.st_size if changed else 0, changed)
    return found


def judge(
    case: Case, code: int, root: Path, before: dict[str, tuple[int, int, int]], kind: Kind, rss: int
) -> None:
    """Adds what a run did, and which promises it broke."""
    said = (root / "stderr").read_bytes() if (root / "stderr").exists() else b""
    shown = (root / "stdout").read_bytes() if (root / "stdout").exists() else b""
    broken = []
    kind.runs += 1
    kind.codes[code] += 1
    if b"Traceback" in said + shown:
        kind.tracebacks += 1
        broken.append("a traceback")
    if code not in case.codes:
        kind.wrong += 1
        broken.append(
            "it hangs"
            if code in (-signal.SIGALRM, -signal.SIGPROF)
            else f"exit {code}, not {sorted(case.codes)}"
        )
    if code and not (said + shown).strip():
        broken.append("no word about it")
    after = state(root)
    changed = [path for path in before | after if before.get(path) != after.get(path)]
    changed += json.loads((root / "writes").read_text()) if (root / "writes").exists() else []
    changed += [f"tmp/{path.name}" for path in (root / "tmp").iterdir()]
    if changed:
        kind.outside += sum(after[path][1] or 1 for path in changed if path in after) or 1
        broken.append(f"written outside: {changed[:3]}")
    places = {"stderr": said, "stdout": shown}
    for part in ("out", "books"):
        for path in (root / part).rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26:
                places[str(path.relative_to(root))] = path.read_bytes()
    for place, content in places.items():
        if any(secret in content.lower() for secret in SECRETS):
            kind.secrets += 1
            broken.append(f"a secret in {place}")
        if place.startswith("std") and any(
            c in content for c in (b"\x1b", b"\x07", "\u202e".encode())
        ):
            broken.append(f"a command for the terminal in {place}")
    if str(root).encode() in places.get("out/bundle/privacy.json", b""):
        broken.append("a path in the bundle")
    kind.most = max(kind.most, rss)
    if rss > case.most:
        broken.append(f"{rss >> 20} MB of memory")
    if broken:
        what = "; ".join(broken)
        found = f"{case.name}: {what}: {said[-300:].decode(errors='replace')!a}"
        kind.violations.append(found)
        print(f"VIOLATION ({kind.name}): {found}", flush=True)


def run(cases: Iterable[Case], home: Path, *, workers: int = 2) -> dict[str, Kind]:
    """Runs the cases in processes forked from warm ones and says what came of each kind."""
    kinds: dict[str, Kind] = {}
    lock, waiting = threading.Lock(), iter(cases)

    def work(_: int) -> None:
        runner, fenced = Runner(), fences()
        try:
            while True:
                with lock:
                    if (case := next(waiting, None)) is None:
                        return
                root = Path(tempfile.mkdtemp(prefix="run-", dir=home))
                for name in ("out", "tmp", "books", "home"):
                    (root / name).mkdir()
                case.make(root)
                before = state(root)
                code = runner.run(
                    root, list(case.arguments), seconds=SECONDS, home=str(root / "home"),
                    writes=str(root / "writes"), fenced=fenced,
                )  # fmt: skip
                with lock:
                    kind = kinds.setdefault(case.kind, Kind(case.kind))
                    judge(case, code, root, before, kind, runner.rss)
                    done = sum(each.runs for each in kinds.values())
                if done % 500 == 0:
                    print(f"{done} runs", file=sys.stderr, flush=True)
                shutil.rmtree(root, ignore_errors=True)
        finally:
            runner.close()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return kinds


def every(seed: int, share: float, home: Path) -> Iterator[Case]:
    """All cases, those that are drawn in a number that `share` says."""
    choice = random.Random(seed)
    yield from logs(choice, share)
    yield from files(choice, share)
    yield from bundles(choice, share, home)


def fuzz(
    *,
    seed: int = 1,
    share: float = 1.0,
    kinds: list[str] | None = None,
    part: float = 1.0,
    workers: int = 2,
) -> list[Kind]:
    """Runs every kind of hostile input, or a part of it, and says what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        cases = [c for c in every(seed, share, home) if kinds is None or c.kind in kinds]
        if part < 1:
            random.Random(seed).shuffle(cases)
            cases = cases[: max(1, round(len(cases) * part))]
        found = list(run(cases, home, workers=workers).values())
    known = (*SERVED, *EXPLORED, *PROPERTIES)
    wanted = [name for name in known if kinds is None or name in kinds]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for kind in pool.map(_in_python, wanted, [seed] * len(wanted), [share] * len(wanted)):
            found.append(kind)
            for violation in kind.violations:
                print(f"VIOLATION ({kind.name}): {violation}", flush=True)
    return found


def _in_python(name: str, seed: int, share: float) -> Kind:
    """What came of the inputs of one function, of those against one promise, or of forged bundles."""
    if name in SERVED:
        served = serve_forged(name, seed=seed, inputs=math.ceil(FORGED * share / len(SERVED)))
        print(
            f"{name}: {served.inputs} forged, {served.shown} shown, {served.answers} answers of at "
            f"most {served.largest:,} bytes and {served.longest:.2f} s of CPU",
            flush=True,
        )
        return Kind(name, runs=served.inputs, violations=served.violations,
                    tracebacks=len(served.violations))  # fmt: skip
    if name in PROPERTIES:
        inputs = round(DRAWN * share)
        broken = hold(name, seed=seed, inputs=inputs)
        return Kind(name, runs=inputs, violations=broken, tracebacks=len(broken))
    explored = explore(name, seed=seed, inputs=round(EXPLORATIONS * share))
    return Kind(name, runs=explored.inputs, lines=explored.lines, violations=explored.violations,
                tracebacks=len(explored.violations))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile inputs by kind, and what came of them.")
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs that are drawn")
    parser.add_argument("--part", type=float, default=1.0, help="run only this part of all")
    parser.add_argument("--kinds", nargs="*", help="only these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    started = time.monotonic()
    found = fuzz(
        seed=asked.seed,
        share=asked.share,
        kinds=asked.kinds,
        part=asked.part,
        workers=asked.workers,
    )
    line = "{:<22}{:>7}{:>12}{:>13}{:>15}{:>9}{:>8}   {}"
    print(
        line.format(
            "input",
            "runs",
            "tracebacks",
            "wrong exits",
            "bytes outside",
            "secrets",
            "MB",
            "exit codes",
        )
    )
    for kind in found:
        codes = ", ".join(f"{code} x {n}" for code, n in sorted(kind.codes.items()))
        print(
            line.format(
                kind.name,
                kind.runs,
                kind.tracebacks,
                kind.wrong,
                kind.outside,
                kind.secrets,
                kind.most >> 20,
                codes or (f"in Python, {kind.lines} lines" if kind.lines else "in Python, drawn"),
            )
        )
    total = sum(len(kind.violations) for kind in found)
    runs = sum(kind.runs for kind in found)
    print(
        "writes elsewhere: refused by the kernel"
        if fences()
        else "writes elsewhere: watched in Python only (no Landlock here)"
    )
    print(f"{runs} inputs, {total} violations, {time.monotonic() - started:.0f} s")
    return 0 if total == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
