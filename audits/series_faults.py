"""Break the runner of a series from outside, hundreds of times, and look at what is left.

    python audits/series_faults.py [--runs 200]

Each series has twelve months of small logs under one cap. Kinds: killed (SIGKILL) at points from the first
step to the last, and run again until every month is settled; sixteen runs at once, with the lock of the
series and while somebody removes it; a clock that is set back; a disk that is full; a damaged ledger; a
folder that is lost with its description and bundles.

After each run these must hold: no month is published twice, out of order or without a booking; each draw has
a booking of its own; the rectangle of the cap is not exceeded; every bundle verifies; a month that is lost
is reported once, and its budget stays spent; the exit code is one of ours and never 70; no traceback is
printed. After the last run nothing but bundles is left. Exit 0 only if all of it held every time.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from faults import KILLED, OURS, Kind, exceeded
from warm import Runner

from murmurlog.auditing.verify import verify
from murmurlog.bundle.read import read_certificate
from murmurlog.bundle.scratch import PREFIX
from murmurlog.errors import MurmurlogError
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.series_init import init_series
from murmurlog.publishing.series_spec import SeriesOptions

MONTHS = 12
USERS, QUERIES = 300, 40
SPEC = "series.toml"
_STATES = {KILLED: "killed", 0: "done", 5: "loss reported", 3: "refused"}
Found = tuple[str, list[str]]  # a state, and which promises were broken


def write_logs(folder: Path) -> None:
    """A small log for each month of 2025."""
    folder.mkdir()
    for month in range(1, MONTHS + 1):
        choice = random.Random(month)
        rows = [
            (
                f"u{user}",
                f"query {int(choice.paretovariate(0.6)) % QUERIES}",
                datetime(2025, month, choice.randint(1, 28)),
            )
            for user in range(USERS)
            for _ in range(4)
        ]
        columns = zip(("user", "query", "time"), map(list, zip(*rows, strict=True)), strict=True)
        pq.write_table(pa.table(dict(columns)), folder / f"2025-{month:02}.parquet")


@dataclass
class Place:
    """A series in a folder of its own, and what was seen of it so far."""

    root: Path
    verified: dict[str, str] = field(default_factory=dict)  # release by month

    @property
    def ledger(self) -> Path:
        return self.root / "books" / "budget.db"

    @property
    def out(self) -> Path:
        return self.root / "bundles"

    @property
    def said(self) -> str:
        path = self.root / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    def run(self, runner: Runner, *more: str, **fault: Any) -> int:
        """One run of the series in a warm process, with values in files; draws are recorded."""
        draws = {"draws": str(self.root / "draws"), "ledger": str(self.ledger), "room": 0.0}
        return runner.run(self.root, ["series", "run", SPEC, *more], **draws, **fault)

    def write_spec(self, **more: Any) -> None:
        said = SeriesOptions(
            logs="logs/{period}.parquet", first="2025-01", last="2025-12", source_name="web",
            ledger="books/budget.db", epsilon=8.0, delta=1e-4, **more,
        )  # fmt: skip
        init_series(self.root / SPEC, said, reason="audit")


@dataclass(frozen=True)
class Bench:
    """Where runs take place, and how many kills are wanted."""

    root: Path
    runs: int

    def place(self, **more: Any) -> Place:
        root = Path(tempfile.mkdtemp(prefix="series-", dir=self.root))
        for name in ("tmp", "books"):
            (root / name).mkdir()
        shutil.copytree(self.root / "logs", root / "logs", copy_function=os.link)
        place = Place(root)
        place.write_spec(**more)
        return place


def look(place: Place, code: int, *, killed: bool = False, at_rest: bool = False) -> list[str]:
    """Which promises are broken; `at_rest`: after a run that was left alone."""
    broken = []
    if code not in OURS and not (killed and code == KILLED):
        broken.append(f"exit {code}: {place.said[-300:]}")
    if "Traceback" in place.said:
        broken.append(f"a traceback: {place.said[-300:]}")
    try:
        book = Ledger(place.ledger)
        entries = book.entries("web")
        broken += exceeded(book)
    except MurmurlogError as error:
        return [*broken, f"the ledger does not open again: {error}"]
    alive = Counter(entry.period for entry in entries if entry.state != "lost")
    broken += [f"{month} is booked {n} times" for month, n in alive.items() if n > 1]
    months = [entry.period or "" for entry in entries]
    if months != sorted(months):
        broken.append(f"out of order: {months}")
    draws = [int(line) for line in _lines(place.root / "draws")]
    if draws != sorted(set(draws)) or (draws and (draws[0] < 1 or draws[-1] > len(entries))):
        broken.append(f"a draw without a booking of its own: {draws}, {len(entries)} bookings")
    by_month = {entry.period: entry for entry in entries if entry.state == "committed"}
    bundles = [p for p in place.out.glob("*") if not p.name.startswith(PREFIX)]
    for bundle in bundles:
        release = read_certificate(bundle).release_id
        if place.verified.setdefault(bundle.name, release) != release:
            broken.append(f"{bundle.name} was published twice")
        entry = by_month.get(bundle.name)
        if entry is None or entry.release_id != release:
            broken.append(f"{bundle.name} is published and not booked")
        elif not verify(bundle, ledger=place.ledger).ok:
            broken.append(f"{bundle.name} fails verify")
    there = {bundle.name for bundle in bundles}
    broken += [
        f"{month} was seen in its place and is gone"
        for month, entry in by_month.items()
        if entry.placed_at and month not in there
    ]
    if at_rest:
        broken += [f"{e.period} is {e.state} at rest" for e in entries if e.state == "reserved"]
        if set(by_month) != there:
            broken.append(
                f"booked as published: {sorted(map(str, by_month))}; there: {sorted(there)}"
            )
        for folder in (place.out, place.root / "tmp"):
            broken += [f"{folder.name}: {left.name} is left" for left in folder.glob(PREFIX + "*")]
    return broken


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def settle(place: Place, runner: Runner) -> Found:
    """Runs without a fault until nothing is due; each loss is reported by one run."""
    broken: list[str] = []
    reported = 0
    code = -1
    for _ in range(2 * MONTHS):
        code = place.run(runner)
        if code != 5:
            break
        reported += 1
    entries = Ledger(place.ledger).entries("web")
    lost = sum(entry.state == "lost" for entry in entries)
    if code not in (0, 3):
        broken.append(f"no rest: exit {code}: {place.said[-300:]}")
    if code == 0 and len({entry.period for entry in entries}) != MONTHS:
        broken.append("done, and not every month is booked")
    before = Ledger(place.ledger).entries()
    if place.run(runner) != code or Ledger(place.ledger).entries() != before:
        broken.append("a run with nothing due did something")
    broken += look(place, code, at_rest=True)
    return f"{len(place.verified)} published, {lost} lost, {reported} reported", broken


def kills(bench: Bench, runner: Runner, seed: int = 1) -> Iterator[Found]:
    """SIGKILL at random steps, more of them towards the end of a release, where a bundle is published."""
    choice = random.Random(seed)
    counted = _steps(bench, runner)
    done = 0
    while done < bench.runs:
        place = bench.place()
        for _ in range(3 * MONTHS):
            what = choice.choice(("event", "call"))
            low = counted[what] * choice.choice((0.0, 0.6, 0.92))
            number = int(choice.uniform(max(1, low), counted[what] * 1.05))
            moment: dict[str, Any] = {"at": what, "number": number}
            if choice.random() < 0.15:
                moment = {"after": choice.uniform(0.01, counted["seconds"])}
            code = place.run(runner, "--once", **moment)
            done += code == KILLED
            state = _STATES.get(code, f"exit {code}")
            if "an earlier run had made it" in place.said:
                state += ", one finished"
            yield state, [f"{moment}: {each}" for each in look(place, code, killed=True)]
            if done >= bench.runs or code == 3:
                break
        _, broken = settle(place, runner)
        yield "settled", broken
        shutil.rmtree(place.root)


def _steps(bench: Bench, runner: Runner) -> dict[str, float]:
    """How many events and calls one release of a series has, and how long it takes."""
    place = bench.place()
    counts = place.root / "counts"
    started = time.monotonic()
    place.run(runner, "--once", count=str(counts))
    seconds = time.monotonic() - started
    return {**json.loads(counts.read_text()), "seconds": seconds}


def crowd(
    bench: Bench, runner: Runner, without_lock: bool = False, size: int = 16
) -> Iterator[Found]:
    """Sixteen runs at once."""
    place = bench.place()
    command = [sys.executable, "-c", "from murmurlog.cli.main import main; main()"]
    many = [
        subprocess.Popen(
            [*command, "series", "run", SPEC],
            cwd=place.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(place.root / "tmp")},
        )
        for _ in range(size)
    ]
    over = threading.Event()
    remover = threading.Thread(target=_remove_locks, args=(place, over))
    if without_lock:
        remover.start()
    codes = [(process.communicate()[1], process.returncode)[1] for process in many]
    over.set()
    if without_lock:
        remover.join()
    broken = [f"exit {code}" for code in codes if code not in OURS]
    if not without_lock and Counter(codes) != {0: size}:
        broken.append(f"exit codes {Counter(codes)}")
    broken += look(place, 0, at_rest=not without_lock)
    state, others = settle(place, runner)
    yield state, broken + others


def _remove_locks(place: Place, over: threading.Event) -> None:
    while not over.wait(0.002):
        for lock in place.ledger.parent.glob("*.lock"):
            lock.unlink(missing_ok=True)


def crowd_without_lock(bench: Bench, runner: Runner) -> Iterator[Found]:
    """Sixteen runs at once, while somebody removes the lock of the series: the ledger alone decides."""
    yield from crowd(bench, runner, without_lock=True)


def clock(bench: Bench, runner: Runner) -> Iterator[Found]:
    """A clock that is set back between runs, and that jumps during one."""
    place = bench.place()

    def at(*months: tuple[int, int]) -> list[float]:
        return [datetime(year, month, 2, tzinfo=UTC).timestamp() for year, month in months]

    expected = 0
    for times, published in (
        (at((2025, 4)), 3),  # January to March are over
        (at((2025, 2)), 3),  # set back: nothing again, nothing else
        (at((2024, 1)), 3),
        (at((2025, 6)), 5),
        (at((2025, 8), (2025, 3)), None),  # jumps with every look at it
        (at((1970, 1)), None),
    ):
        code = place.run(runner, clock=times)
        broken = look(place, code)
        if code != 0:
            broken.append(f"exit {code}: {place.said[-300:]}")
        if published is not None and len(place.verified) != published:
            broken.append(f"{sorted(place.verified)} published, not {published}")
        if len(place.verified) < expected:
            broken.append("fewer than before")
        expected = len(place.verified)
        yield "clock set", broken
    yield settle(place, runner)


def full_disk(bench: Bench, runner: Runner) -> Iterator[Found]:
    """No file can grow beyond some bytes, from the start or once a table is drawn; then it can again."""
    place = bench.place()
    for n in range(12):
        moment = ("size", "size_when_drawn")[n % 2]
        code = place.run(runner, "--once", **{moment: int(500 * 1000 ** (n / 11))})
        broken = look(place, code)
        if code not in (0, 3, 5):
            broken.append(f"exit {code}: {place.said[-300:]}")
        yield f"exit {code}", broken
    yield settle(place, runner)


def damaged_ledger(bench: Bench, runner: Runner) -> Iterator[Found]:
    """Bytes of the ledger turned over, or cut off: refused, and nothing is done."""
    choice = random.Random(5)
    place = bench.place()
    place.run(runner, "--once")
    for n in range(12):
        sound = place.ledger.read_bytes()
        spoiled = bytearray(sound)
        if n % 2:
            spoiled = spoiled[: choice.randrange(len(spoiled))]
        else:
            start = choice.randrange(100, len(spoiled) - 64)
            spoiled[start : start + 64] = choice.randbytes(64)
        place.ledger.write_bytes(spoiled)
        before = sorted(place.out.iterdir())
        code = place.run(runner, "--once")
        if code != 0:  # else the bytes were unused ones
            place.ledger.write_bytes(sound)
            for extra in place.ledger.parent.glob("budget.db-*"):
                extra.unlink()
        broken = look(place, code)
        if code != 0 and sorted(place.out.iterdir()) != before:
            broken.append("refused, and something was published")
        if code not in (0, 3):
            broken.append(f"exit {code}: {place.said[-300:]}")
        yield f"exit {code}", broken
    yield settle(place, runner)


def lost_folder(bench: Bench, runner: Runner) -> Iterator[Found]:
    """The description and the bundles are removed, and the series is described again."""
    place = bench.place()
    for _ in range(3):
        place.run(runner, "--once")
    entries = Ledger(place.ledger).entries("web")
    shutil.rmtree(place.out)
    (place.root / SPEC).unlink()
    place.write_spec()
    code = place.run(runner, "--once")
    after = Ledger(place.ledger).entries("web")
    months = [entry.period for entry in after]
    broken = [] if code == 0 else [f"exit {code}: {place.said[-300:]}"]
    if after[:3] != entries or months != ["2025-01", "2025-02", "2025-03", "2025-04"]:
        broken.append(f"booked: {months}")
    if [bundle.name for bundle in place.out.iterdir()] != ["2025-04"]:
        broken.append(f"published: {sorted(place.out.iterdir())}")
    yield "described again", broken


KINDS: dict[str, Callable[[Bench, Runner], Iterator[Found]]] = {
    "killed": kills,
    "16 at once": crowd,
    "16 at once, lock removed": crowd_without_lock,
    "clock set back": clock,
    "disk full": full_disk,
    "ledger damaged": damaged_ledger,
    "folder lost": lost_folder,
}


def series_faults(runs: int, *, kinds: list[str] | None = None) -> list[Kind]:
    """Runs every kind of fault and says what came of it."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_logs(root / "logs")
        runner = Runner()
        try:
            for name in KINDS if kinds is None else kinds:
                kind = Kind(name)
                for state, broken in KINDS[name](Bench(root, runs), runner):
                    kind.runs += 1
                    kind.states[state] += 1
                    kind.violations += broken
                found.append(kind)
        finally:
            runner.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Faults of a series by kind, runs, violations.")
    parser.add_argument("--runs", type=int, default=200, help="kills")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), help="only these")
    asked = parser.parse_args()
    started = time.monotonic()
    found = series_faults(asked.runs, kinds=asked.kinds)
    print(f"{'fault':<26}{'runs':>6}{'violations':>12}   what was left")
    for kind in found:
        left = ", ".join(f"{n} {state}" for state, n in kind.states.items())
        print(f"{kind.name:<26}{kind.runs:>6}{len(kind.violations):>12}   {left}")
    for kind in found:
        for violation in kind.violations:
            print(f"VIOLATION ({kind.name}): {violation}")
    total = sum(len(kind.violations) for kind in found)
    print(f"{total} violations, {time.monotonic() - started:.0f} s")
    return 0 if total == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
