"""The process that has murmurlog loaded and forks for every run: `warm.Runner` starts and feeds it.

It has opened no engine, so there are no threads to lose. A line of JSON asks for one run and says what
is to go wrong in it; the answer is its exit code and the memory it held.
"""

import ctypes
import datetime
import importlib
import itertools
import json
import os
import resource
import signal
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import murmurlog.cli.entry as entry
import murmurlog.cli.main
import murmurlog.logs.engines.duckdb
import murmurlog.logs.memory
import murmurlog.logs.source_batches
import murmurlog.logs.workspace
import murmurlog.publishing.ledger
import murmurlog.publishing.release
import murmurlog.publishing.series
from murmurlog.logs.rows import RowReader
from murmurlog.mechanisms.rounds.mechanism import Rounds

WATCHED = ("open", "os.", "shutil.", "sqlite3.", "tempfile.", "fcntl.")
# Landlock: system calls, and the rights to write, make, remove, move and cut files.
CREATE, ADD, RESTRICT = 444, 445, 446
WRITING, WRITING_A_FILE = 0b111_1111_1111_0010, 1 << 1 | 1 << 14


def fences() -> bool:
    """Whether the kernel can keep a process from writing elsewhere (Landlock's third version)."""
    try:
        return bool(ctypes.CDLL(None).syscall(CREATE, None, 0, 1) >= 3)
    except (AttributeError, OSError, TypeError):
        return False


def fence(folder: str) -> None:
    """From here on the kernel itself refuses whatever is written but into the folder."""
    libc = ctypes.CDLL(None)
    handled = struct.pack("Q", WRITING)
    rules = libc.syscall(CREATE, handled, len(handled), 0)
    for path, rights in ((folder, WRITING), ("/dev/null", WRITING_A_FILE)):
        opened = os.open(path, os.O_PATH)
        assert libc.syscall(ADD, rules, 1, struct.pack("=Qi", rights, opened), 0) == 0
        os.close(opened)
    no_new_privileges = 38
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)


def ordinary() -> None:
    """Takes from root the right to pass over permissions (DAC_OVERRIDE, DAC_READ_SEARCH)."""
    head, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.capget(head, data)
    data[0] &= ~0b110
    data[1] &= ~0b110
    assert libc.capset(head, data) == 0


def jumping(seconds: list[float]) -> None:
    """Every look at the clock finds another of these times."""
    jumps = itertools.cycle(seconds)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(next(jumps), tz)

    for module in (
        murmurlog.publishing.ledger,
        murmurlog.publishing.release,
        murmurlog.publishing.series,
    ):
        module.__dict__["datetime"] = Clock


def limit_files(size: int) -> None:
    """From here on no file grows beyond so many bytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def work_as_on_large_logs(room: float) -> None:
    """Two threads work on many batches and partitions, and mostly one is split; `room` of the memory is for values."""
    murmurlog.logs.source_batches.ROWS_A_BATCH = 2_048
    murmurlog.logs.engines.duckdb.FEW_ROWS = 0
    murmurlog.logs.memory.ROWS_A_PARTITION = 2_500
    murmurlog.logs.workspace.cores = lambda: 2
    if not room:
        murmurlog.logs.workspace.Workspace._take = lambda *_: False  # type: ignore[method-assign]
    defaults = RowReader.__init__.__kwdefaults__
    assert defaults is not None
    defaults["most_rows"] = 3_600


def record_draws(path: str, ledger: str, size: int | None) -> None:
    """Appends to a file, at each draw of a table by rounds, how many entries the ledger has.

    After that the disk is full, if a size is given.
    """
    draw = Rounds.release

    def recorded(self: Any, *given: Any, **more: Any) -> Any:
        with open(path, "a") as file:
            file.write(f"{len(murmurlog.publishing.ledger.Ledger(ledger).entries())}\n")
        if size is not None:
            limit_files(size)
        return draw(self, *given, **more)

    Rounds.release = recorded  # type: ignore[method-assign]


def run(asked: dict[str, Any]) -> NoReturn:
    """Runs the command line in this process, with what is to go wrong, and ends it."""
    for name, stream in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.environ["TMPDIR"] = asked["tmp"]
    tempfile.tempdir = None
    os.chdir(asked["folder"])
    if asked.get("home"):
        os.environ["HOME"] = asked["home"]
    if "umask" in asked:
        os.umask(asked["umask"])
    counted, written, lock = Counter[str](), list[str](), threading.Lock()
    at = (asked.get("at"), asked.get("number"))  # the number-th event, call or call of a function
    signalled = (
        os.open(asked["signalled"], os.O_WRONLY | os.O_CREAT) if asked.get("signalled") else -1
    )

    def kill() -> None:
        if signalled >= 0:
            os.write(signalled, repr(time.monotonic()).encode())
        os.kill(os.getpid(), asked.get("signal", signal.SIGKILL))

    def count(what: str) -> None:
        with lock:  # of several threads each is counted
            counted[what] += 1
            now = (what, counted[what]) == at
        if now:
            kill()

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if event.startswith(WATCHED):
            count("event")

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "murmurlog" in frame.f_code.co_filename:
            count("call")
            count(frame.f_code.co_name)

    def writing(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if event in ("open", "os.mkdir", "os.rename", "os.link", "os.symlink"):
            for path in arguments[:2] if event == "os.rename" else arguments[:1]:
                if isinstance(path, str | bytes):
                    path = os.path.abspath(os.fsdecode(path))
                    if not path.startswith((asked["folder"] + "/", "/dev/")):
                        written.append(path)

    if asked.get("after"):
        timer = threading.Timer(asked["after"], kill)
        timer.daemon = True
        timer.start()
    if asked.get("size"):
        limit_files(asked["size"])
    if asked.get("ordinary") and os.geteuid() == 0:
        ordinary()
    if asked.get("seconds"):
        # Either ends it: nobody handles them. Time on the clock is more, for other work slows a run.
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])
        signal.setitimer(signal.ITIMER_REAL, 10 * asked["seconds"])
    if asked.get("clock"):
        jumping(asked["clock"])
    if asked.get("draws"):
        record_draws(asked["draws"], asked["ledger"], asked.get("size_when_drawn"))
    if asked.get("writes"):
        sys.addaudithook(writing)
    if asked.get("fenced"):
        fence(asked["folder"])
    if asked.get("room") is not None:
        work_as_on_large_logs(asked["room"])
    if asked.get("count") or at[0] == "event":
        sys.addaudithook(watch)
    if asked.get("count") or at[0] not in ("event", None):
        threading.setprofile(profile)
        sys.setprofile(profile)
    sys.argv = ["murmurlog", *asked["arguments"]]
    code = 0
    try:
        entry.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    sys.setprofile(None)
    for name, found in (("count", counted), ("writes", written)):
        if asked.get(name):
            with open(asked[name], "w") as file:
                json.dump(found, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def load() -> None:
    """Imports whatever a release and a check of it import, so that no run has to."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:  # the engine that it opens has threads, which must not be here
            os.chdir(folder)
            log = "".join(f"u{n}\tweather\ta.example\n" for n in range(60))
            Path("log.tsv").write_text(f"user\tquery\turl\n{log}")
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
            for command in (
                ["release", "log.tsv", "--out", "b"],
                ["verify", "b"],
                ["estimate", "b"],
            ):
                sys.argv = ["murmurlog", *command]
                with suppress(SystemExit):
                    entry.main()
            Path("modules").write_text("\n".join(sys.modules))
            os._exit(0)
        os.waitpid(child, 0)
        for name in (Path(folder) / "modules").read_text().split("\n"):
            with suppress(Exception):
                importlib.import_module(name)


def main() -> None:
    load()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_maxrss, flush=True)


if __name__ == "__main__":
    main()
