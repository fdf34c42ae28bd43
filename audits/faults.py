"""Break a release from outside, hundreds of times, and look at what is left.

    python audits/faults.py [--runs 300]

Kinds: killed (SIGKILL) or stopped (Ctrl-C, SIGTERM) at points from the first row read to the last
booking, a disk that is full, a folder that cannot be written, a damaged ledger, a ledger that somebody
else holds, a log that changes while it is read, sixteen releases at once under a cap that fits three, a
clock that jumps. Releases that are killed, stopped or out of disk work with two threads on several
partitions, of which one is split, in memory and all in files.

After each run these must hold: what is booked is never less than what is published, and never more than
the limits of the cap; a bundle is whole or absent; the ledger opens again (where it was not itself destroyed); nothing but the bundle is in its
folder, and no process; the exit code is one of ours and never 70; no traceback is printed, and what is
printed says what to do; a stopped release ends within seconds and says what was spent, and that is what
the ledger has; temporary files are left by SIGKILL alone, nobody else can read them, and the next release
removes them. Exit 0 only if all of it held every time.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from warm import Runner

from murmurlog.auditing.verify import verify
from murmurlog.bundle.scratch import PREFIX, sweep
from murmurlog.errors import MurmurlogError
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy import Guarantee
from murmurlog.privacy.budget_filter import fits
from murmurlog.publishing.ledger import Ledger

EPSILON, DELTA = 9.0, 1e-4  # the cap
PART = "1/3"  # of it, for a release
OURS = {0, 1, 2, 3, 4, 5, 6}  # exit codes that say what happened
KILLED = -signal.SIGKILL
STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM}
WORKERS = 2
PROMPT = 10.0  # seconds from a signal to the end, on a busy machine
ROOMS = (0.5, 0.0)  # of the memory for values: then they are in memory, or all in files
# A function of every stage of a release, from the first batch to the commit; most are called by threads.
STAGES = (
    *("clean", "lines", "order_by_bits", "keep_runs", "settle", "find_and_bound", "weigh_first"),
    *("answer", "_decide_shard", "keep_alive", "weigh", "_places", "_labels", "_count_holders"),
    *("reserve", "stage", "commit", "put_in_place"),
)


@dataclass(frozen=True)
class Place:
    """A folder of its own for one run: a log, a ledger with a cap, room for the bundle."""

    root: Path
    more: tuple[str, ...] = ()  # flags of every release

    @property
    def ledger(self) -> Path:
        return self.root / "books" / "ledger.db"

    @property
    def bundle(self) -> Path:
        return self.root / "out" / "bundle"

    @property
    def said(self) -> str:
        path = self.root / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    def arguments(self, log: str, out: str = "out/bundle") -> list[str]:
        return [
            "release", log, "--out", out, "--of-cap", PART, "--ledger", "books/ledger.db", "--source", "web",
            *self.more,
        ]  # fmt: skip


@dataclass
class Kind:
    """What came of the runs with one kind of fault."""

    name: str
    runs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """Where runs take place: a folder, the logs, and how many runs are wanted of the many kinds."""

    root: Path
    logs: dict[str, Path]
    runs: int
    more: tuple[str, ...] = ()

    def place(self) -> Place:
        root = Path(tempfile.mkdtemp(prefix="fault-", dir=self.root))
        for name in ("out", "tmp", "books"):
            (root / name).mkdir()
        for name, log in self.logs.items():
            (root / name).hardlink_to(log)
        place = Place(root, self.more)
        Ledger(place.ledger).cap("web", epsilon=EPSILON, delta=DELTA)
        return place


def look(
    place: Place,
    code: int,
    *,
    killed: bool = False,
    stopped: bool = False,
    before: str | None = None,
) -> tuple[str, list[str]]:
    """What a run left behind, and which promises it broke; `before` was booked before it."""
    broken = []
    if code not in OURS and not (killed and code == KILLED) and not (stopped and code in STOPPED):
        broken.append(f"exit {code}: {place.said[-300:]}")
    if "Traceback" in place.said:
        broken.append(f"a traceback: {place.said[-300:]}")
    if code in OURS - {0} and not place.said.strip():
        broken.append(f"exit {code} without a word")
    broken += [f"a process is left: {name}" for name in processes_in(place.root)]
    published = place.bundle.exists()
    try:
        book = Ledger(place.ledger)
        entries, accounts = book.entries(), book.accounts()
        if before and before not in {entry.release_id for entry in entries}:
            broken.append("what was booked before is lost")
        if [account.epsilon_cap for account in accounts] != [EPSILON]:
            broken.append("the cap is lost")
        if [change.epsilon for change in book.cap_history()] != [EPSILON]:
            broken.append("the history of the cap is lost")
        broken += exceeded(book)
        entries = [entry for entry in entries if entry.release_id != before]
        if published:
            report = verify(place.bundle, ledger=place.ledger)
            if not report.ok:
                broken.append(f"a bundle that fails verify: {report.as_json()}")
        if published and not entries:
            broken.append("published and not booked")
        if code == 0 and [entry.state for entry in entries] != ["committed"]:
            broken.append("done, and not committed")
    except MurmurlogError as error:
        entries = []
        broken.append(f"the ledger does not open again: {error}")
    visible = [p for p in (place.root / "out").iterdir() if not p.name.startswith(PREFIX)]
    if visible not in ([], [place.bundle]):
        broken.append(f"left in the bundle's folder: {[p.name for p in visible]}")
    for parent in (place.root / "out", place.root / "tmp"):
        for left in parent.glob(PREFIX + "*"):
            if code != KILLED:
                broken.append(f"exit {code}, and {left.name} is left in {parent.name}")
            if left.stat().st_mode & 0o077:
                broken.append("what was left can be read by others")
        sweep(parent)
        if list(parent.glob(PREFIX + "*")):
            broken.append("what was left is not swept")
    state = "published" if published else "reserved" if entries else "nothing"
    if code in OURS - {0} and state == "reserved" and "booked" not in place.said:
        broken.append("a budget was spent and the message does not say so")
    return state, broken


def processes_in(folder: Path) -> list[str]:
    """The processes that work in a folder, where the system lists processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(process / "cwd")).is_relative_to(folder.resolve()):
                found.append(f"{process.name} {(process / 'comm').read_text().strip()}")
    return found


def exceeded(book: Ledger) -> list[str]:
    """Which promises a ledger breaks about what is booked."""
    broken = []
    for account in book.accounts():
        booked = [entry.amounts for entry in book.entries(account.name)]
        every = [amounts for amounts in booked if amounts is not None]
        if len(every) < len(booked):
            broken.append(f"{account.name}: booked without amounts")
        if every and not (account.limits and fits(account.limits, every[:-1], every[-1])):
            broken.append(f"{account.name}: the rectangle is exceeded")
    return broken


def kills(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """SIGKILL at events that touch the outside, in every stage, at calls in between, and at moments in time."""
    for n, moment in enumerate(_moments(bench, runner, share)):
        place = bench.place()
        code = runner.run(place.root, place.arguments("log.parquet"), **moment)
        broken = []
        if n % 8 == 0 and any((place.root / "tmp").glob(PREFIX + "*")):
            broken = [f"{moment}: {each}" for each in _swept(place, runner)]
        state, others = look(place, code, killed=True)
        yield state, broken + [f"{moment}: {each}" for each in others]
        shutil.rmtree(place.root, ignore_errors=True)


def _swept(place: Place, runner: Runner) -> list[str]:
    """What is wrong after the next release: it removes what the killed one left."""
    code = runner.run(
        place.root, ["release", "log.parquet", "--out", "next", "--epsilon", "1", *place.more]
    )
    left = [path.name for path in (place.root / "tmp").glob(PREFIX + "*")]
    return [f"the next release left {name}" for name in left] + [f"its exit: {code}"] * bool(code)


def _moments(bench: Bench, runner: Runner, share: int) -> list[dict[str, Any]]:
    """Where to interrupt releases with each room: events and calls are counted in one that is left alone."""
    return [
        {"room": room, **moment}
        for room in ROOMS
        for moment in _moments_with(room, bench, runner, max(4, share // len(ROOMS)))
    ]


def _moments_with(
    room: float, bench: Bench, runner: Runner, share: int
) -> Iterator[dict[str, Any]]:
    place = bench.place()
    counts = place.root / "counts"
    started = time.monotonic()
    runner.run(place.root, place.arguments("log.parquet"), count=str(counts), room=room)
    seconds = time.monotonic() - started
    counted = json.loads(counts.read_text())
    if not bench.more and (unknown := [stage for stage in STAGES if stage not in counted]):
        raise AssertionError(f"a release calls no {', '.join(unknown)}: STAGES is out of date")
    many = {"event": int(share * 0.4), "call": int(share * 0.3)}
    for what, number in many.items():
        last = counted[what]
        number = max(2, number)
        yield from (
            {"at": what, "number": 1 + n * (last - 1) // (number - 1)} for n in range(number)
        )
    stages = [stage for stage in STAGES if stage in counted]
    for n in range(number := int(share * 0.2)):
        stage = stages[n * len(stages) // number]
        # The first call, one in the middle, or the last.
        yield {"at": stage, "number": max(1, counted[stage] * (n % 3) // 2)}
    timed = max(1, int(share * 0.1))
    yield from ({"after": (n + 0.5) / timed * seconds} for n in range(timed))


def stops(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """Ctrl-C and SIGTERM at the same points: one sentence says what was spent, and it is true."""
    for n, moment in enumerate(_moments(bench, runner, share)):
        if (moment.get("at"), moment.get("number")) == ("call", 1):
            continue  # nobody listens to signals yet
        place, number = bench.place(), (signal.SIGINT, signal.SIGTERM)[n % 2]
        signalled = place.root / "signalled"
        code = runner.run(
            place.root, place.arguments("log.parquet"), signal=int(number), signalled=str(signalled), **moment
        )  # fmt: skip
        ended = time.monotonic()
        entries = Ledger(place.ledger).entries()
        said = place.said.strip().rpartition("\n")[2]
        broken = []
        if (came := signalled.read_text()) and ended - float(came) > PROMPT:
            broken.append(f"{moment}: {ended - float(came):.0f} s from the signal to the end")
        if code != 0:  # it was not over before the signal came
            stated = {
                "stay booked on source web as ": bool(entries),
                "nothing was booked": not entries,
                "out/bundle was published": place.bundle.exists(),
            }
            broken += [
                f"{moment}: {said!r}" for text, true in stated.items() if (text in said) != true
            ]
            if code != 128 + number or not said.startswith("stopped: "):
                broken.append(f"{moment}: exit {code}: {place.said[-300:]}")
            if any(entry.release_id not in said for entry in entries):
                broken.append(f"{moment}: another release is named: {said!r}")
            if any((entry.state == "committed") != place.bundle.exists() for entry in entries):
                broken.append(f"{moment}: {entries[0].state}, and not what was published")
        state, others = look(place, code, stopped=True)
        yield state, broken + [f"{moment}: {each}" for each in others]
        shutil.rmtree(place.root, ignore_errors=True)


def full_disk(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """No file can grow beyond some bytes: the ledger, the scratch, the bundle."""
    for n in range(share):
        place = bench.place()
        code = runner.run(
            place.root, place.arguments("log.parquet"), room=ROOMS[n % 2],
            size=int(200 * 20_000 ** (n / (share - 1))),
        )  # fmt: skip
        yield look(place, code)


def read_only(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """Folders and files that cannot be written, or read."""
    for what in ("out", "books", "tmp", "books/ledger.db", "log.csv"):
        place = bench.place()
        shutil.copy(bench.logs["log.csv"], place.root / "own.csv")
        target = place.root / ("own.csv" if what == "log.csv" else what)
        target.chmod(0o555 if target.is_dir() else 0o000 if what == "log.csv" else 0o444)
        code = runner.run(place.root, place.arguments("own.csv"), ordinary=True)
        target.chmod(0o755 if target.is_dir() else 0o644)
        yield look(place, code)


def damaged_ledger(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """Bytes of the ledger turned over, cut off or replaced; it must refuse, or still be right."""
    choice = random.Random(7)
    cost = Guarantee(epsilon=EPSILON / 3, delta=DELTA / 100)
    for n in range(share):
        place = bench.place()
        Ledger(place.ledger).reserve("web", cost, release_id="before", what="")
        sound = place.ledger.read_bytes()
        spoiled = bytearray(sound)
        how = n % 4
        if how == 0:
            for _ in range(1 + n // 4):
                spoiled[choice.randrange(len(spoiled))] ^= 1 + choice.randrange(255)
        elif how == 1:
            spoiled = spoiled[: choice.randrange(len(spoiled)) if n > 1 else 0]
        elif how == 2:
            start = choice.randrange(len(spoiled) - 64)
            spoiled[start : start + 64] = choice.randbytes(64)
        else:
            spoiled = bytearray(b"this is no ledger\n" * (1 + n))
        place.ledger.write_bytes(spoiled)
        code = runner.run(place.root, place.arguments("log.parquet"))
        if code == 0:
            yield look(place, code, before="before")
        else:  # refused: then nothing may have happened, and the backup opens
            place.ledger.write_bytes(sound)
            for extra in place.ledger.parent.glob("ledger.db-*"):
                extra.unlink()
            state, broken = look(place, code, before="before")
            if state != "nothing":
                broken.append(f"refused, but {state}")
            yield state, broken


def held_ledger(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """Another process holds the ledger for a moment, and for longer than anybody waits."""
    for seconds in (0.5, 2.0, 40.0):
        place = bench.place()
        holder = sqlite3.connect(place.ledger, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN EXCLUSIVE")
        runner.start(place.root, place.arguments("log.parquet"))
        time.sleep(seconds)
        holder.execute("ROLLBACK")
        holder.close()
        code = runner.end()
        state, broken = look(place, code)
        if (code == 0) != (seconds < 30):
            broken.append(f"held for {seconds} s: exit {code}")
        yield state, broken


def changing_log(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """The log is cut, overwritten, replaced or removed while it is read."""

    def cut(path: Path) -> None:
        os.truncate(path, path.stat().st_size // 2)

    def overwrite(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 3)
            file.write(b"\xff" * 20_000)

    def replace(path: Path) -> None:
        other = path.with_name("other")
        other.write_bytes(b"user,query\n1,a\n")
        other.replace(path)

    ways: list[Callable[[Path], None]] = [cut, overwrite, replace, Path.unlink]
    for n in range(share):
        place = bench.place()
        name = ("log.parquet", "log.csv")[n % 2]
        own = place.root / f"own{Path(name).suffix}"
        shutil.copy(bench.logs[name], own)
        runner.start(place.root, place.arguments(own.name), room=ROOMS[n % 2])
        time.sleep(0.03 * (n // 8))
        if own.exists():
            ways[n // 2 % 4](own)
        yield look(place, runner.end())


def crowd(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """Sixteen releases at once, under a cap that fits three."""
    yield _crowd(bench.place(), 16)


def _crowd(place: Place, releases: int) -> tuple[str, list[str]]:
    """So many releases at once, where three fit."""
    many = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", "from murmurlog.cli.main import main; main()"),
                *place.arguments("log.csv", f"out/b{n}"),
                *("--memory", "700MB"),
            ],
            cwd=place.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(place.root / "tmp")},
        )
        for n in range(releases)
    ]
    codes = [(process.communicate()[1], process.returncode)[1] for process in many]
    book = Ledger(place.ledger)
    broken = exceeded(book)
    bundles = sorted((place.root / "out").iterdir())
    entries = book.entries()
    if Counter(codes) != {0: 3, 3: releases - 3}:
        broken.append(f"exit codes {Counter(codes)}")
    if len(bundles) != 3 or len(entries) != 3:
        broken.append(f"{len(bundles)} bundles and {len(entries)} bookings")
    broken += [f"{b.name} fails verify" for b in bundles if not verify(b, ledger=place.ledger).ok]
    return f"{len(bundles)} published", broken


def clock(bench: Bench, runner: Runner, share: int) -> Iterator[tuple[str, list[str]]]:
    """A clock that stands in 1970, in 2106, or runs backwards while a release is made."""
    for times in ([0.0], [4_294_967_296.0], [2e9, 1e9], [1.7e9, 1.7e9 - 3600, 1.7e9 + 86_400]):
        place = bench.place()
        code = runner.run(place.root, place.arguments("log.parquet"), clock=times)
        state, broken = look(place, code)
        if code != 0:
            broken.append(f"exit {code}: {place.said[-200:]}")
        yield state, broken


# A kind, and what part of the runs it gets; 0: it has its own number.
KINDS: dict[str, tuple[Callable[..., Iterator[tuple[str, list[str]]]], float]] = {
    "killed": (kills, 0.8),
    "stopped": (stops, 0.2),
    "disk full": (full_disk, 0.1),
    "read-only": (read_only, 0.0),
    "ledger damaged": (damaged_ledger, 0.2),
    "ledger held": (held_ledger, 0.0),
    "log changes": (changing_log, 0.1),
    "16 at once, room for 3": (crowd, 0.0),
    "clock": (clock, 0.0),
}


def faults(runs: int, *, kinds: list[str] | None = None, more: tuple[str, ...] = ()) -> list[Kind]:
    """Runs every kind of fault and says what came of it; `more` are flags of all releases."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        logs = {"log.parquet": root / "log.parquet", "log.csv": root / "log.csv"}
        for path in logs.values():
            write(invent(rows=20_000, seed=1), path)
        bench = Bench(root, logs, runs, more)
        chosen = [name for name in KINDS if kinds is None or name in kinds]
        idle = Queue[Runner]()
        runners = [Runner() for _ in range(WORKERS)]
        for runner in runners:
            idle.put(runner)
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return list(pool.map(lambda name: _one(bench, name, idle), chosen))
        finally:
            for runner in runners:
                runner.close()


def _one(bench: Bench, name: str, idle: Queue[Runner]) -> Kind:
    function, part = KINDS[name]
    runner, kind = idle.get(), Kind(name)
    for state, broken in function(bench, runner, max(2, round(bench.runs * part))):
        kind.runs += 1
        kind.states[state] += 1
        kind.violations += broken
    idle.put(runner)
    return kind


def main() -> int:
    parser = argparse.ArgumentParser(description="Faults by kind, runs, violations.")
    parser.add_argument("--runs", type=int, default=300, help="about how many in all")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), help="only these")
    asked = parser.parse_args()
    started = time.monotonic()
    found = faults(asked.runs, kinds=asked.kinds)
    print(f"{'fault':<26}{'runs':>6}{'violations':>12}   what was left")
    for kind in found:
        left = ", ".join(f"{n} {state}" for state, n in kind.states.items())
        print(f"{kind.name:<26}{kind.runs:>6}{len(kind.violations):>12}   {left}")
    for kind in found:
        for violation in kind.violations:
            print(f"VIOLATION ({kind.name}): {violation}")
    total = sum(len(kind.violations) for kind in found)
    runs = sum(kind.runs for kind in found)
    print(f"{runs} runs, {total} violations, {time.monotonic() - started:.0f} s")
    return 0 if total == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
