"""Running a command and reading off what it cost: CPU seconds of its process tree, wall, memory."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run of a command took."""

    cpu: float
    wall: float
    peak_mb: float
    output: str


def measure(command: list[str]) -> Cost:
    """Runs a command to its end; raises with its words if it fails."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed with {process.returncode}")
        output.seek(0)
        printed = output.read()
    return Cost(
        cpu=usage.ru_utime + usage.ru_stime,
        wall=time.monotonic() - started,
        peak_mb=usage.ru_maxrss / 1024,
        output=printed,
    )
