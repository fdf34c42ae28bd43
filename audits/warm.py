"""A process with murmurlog loaded that forks for every run of its command line.

Starting Python anew takes two seconds each time; so runs by the thousand become possible. Faults and
limits are set in the fork, before the command starts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

FORKING = Path(__file__).with_name("forking.py")


class Runner:
    """Runs murmurlog in processes forked from a warm one."""

    def __init__(self) -> None:
        self.rss = 0  # bytes that the last run held at most
        self._process = subprocess.Popen(
            [sys.executable, str(FORKING)],
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
