"""A process with murmurlog loaded that forks for every run of its command line.

Starting Python anew takes two seconds each time; so runs by the thousand become possible. Faults and
limits are set in the fork, before the command starts.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

# A process that has murmurlog loaded and forks for every release, so that a run costs no start. It
# has opened no engine, so there are no threads to lose. One JSON line asks for one run.
SERVER = textwrap.dedent(
    """
    import json, os, resource, signal, sys, threading

    import murmurlog.cli.main as entry
    import ibis.backends.duckdb, pandas  # noqa: loaded before the fork, as all that follows
    import murmurlog.checks, murmurlog.export, murmurlog.pool_text, murmurlog.road  # noqa

    WATCHED = ("open", "os.", "shutil.", "sqlite3.", "tempfile.", "fcntl.")

    def kill():
        os.kill(os.getpid(), signal.SIGKILL)

    def run(asked):
        for name, stream in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        os.environ["TMPDIR"] = asked["tmp"]
        import tempfile
        tempfile.tempdir = None
        os.chdir(asked["folder"])
        if asked.get("home"):
            os.environ["HOME"] = asked["home"]
        if "umask" in asked:
            os.umask(asked["umask"])
        counted = {"event": 0, "call": 0}

        def count(what):
            counted[what] += 1
            if counted[what] == asked.get("at_" + what):
                kill()

        def watch(event, _):
            if event.startswith(WATCHED):
                count("event")

        def profile(frame, event, _):
            if event == "call" and "murmurlog" in frame.f_code.co_filename:
                count("call")

        if asked.get("after"):
            timer = threading.Timer(asked["after"], kill)
            timer.daemon = True
            timer.start()
        if asked.get("size"):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["size"], asked["size"]))
        if asked.get("ordinary") and os.geteuid() == 0:
            # Root without the right to pass over permissions (DAC_OVERRIDE, DAC_READ_SEARCH).
            import ctypes
            head, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
            libc = ctypes.CDLL(None)
            libc.capget(head, data)
            data[0] &= ~0b110
            data[1] &= ~0b110
            assert libc.capset(head, data) == 0
        if asked.get("seconds"):
            signal.setitimer(signal.ITIMER_REAL, asked["seconds"])  # ends it: nobody handles it
        if asked.get("clock"):
            import datetime, itertools
            import murmurlog.ledger, murmurlog.road
            jumps = itertools.cycle(asked["clock"])
            class Clock(datetime.datetime):
                @classmethod
                def now(cls, tz=None):
                    return datetime.datetime.fromtimestamp(next(jumps), tz)
            murmurlog.ledger.datetime = murmurlog.road.datetime = Clock
        written = []

        def writing(event, arguments):
            if event == "open" and not (arguments[2] or 0) & 0b11 | (arguments[2] or 0) & os.O_CREAT:
                return
            if event in ("open", "os.mkdir", "os.rename", "os.link", "os.symlink"):
                for path in arguments[:2] if event == "os.rename" else arguments[:1]:
                    if isinstance(path, (str, bytes)):
                        path = os.path.abspath(os.fsdecode(path))
                        if not path.startswith((asked["folder"], "/dev/")):
                            written.append(path)

        if asked.get("writes"):
            sys.addaudithook(writing)
        if asked.get("count") or asked.get("at_event"):
            sys.addaudithook(watch)
        if asked.get("count") or asked.get("at_call"):
            sys.setprofile(profile)
        sys.argv = ["murmurlog", *asked["arguments"]]
        code = 0
        try:
            entry.main()
        except SystemExit as stop:
            code = stop.code or 0
        sys.setprofile(None)
        if asked.get("count"):
            with open(asked["count"], "w") as file:
                json.dump(counted, file)
        if asked.get("writes"):
            with open(asked["writes"], "w") as file:
                json.dump(written, file)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_maxrss, flush=True)
    """
)


class Runner:
    """Runs murmurlog in processes forked from a warm one."""

    def __init__(self) -> None:
        self.rss = 0  # bytes that the last run held at most
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )

    def start(self, root: Path, arguments: list[str], **fault: object) -> None:
        """Starts a run in a folder that has a folder tmp; its words go to stdout and stderr there."""
        asked = {
            "arguments": arguments,
            "folder": str(root),
            "tmp": str(root / "tmp"),
            "stdout": str(root / "stdout"),
            "stderr": str(root / "stderr"),
            **fault,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """The exit code of the run, negative for a signal."""
        assert self._process.stdout is not None
        code, kilobytes = map(int, self._process.stdout.readline().split())
        self.rss = kilobytes * 1024
        return code

    def run(self, root: Path, arguments: list[str], **fault: object) -> int:
        self.start(root, arguments, **fault)
        return self.end()

    def close(self) -> None:
        self._process.communicate()
