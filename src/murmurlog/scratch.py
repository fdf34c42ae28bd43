"""Private folders for work in progress, removed at the end and swept after a crash.

A folder is locked while its process lives. Whoever comes next removes the unlocked ones, so a
killed release leaves no copy of a log and no half-written bundle behind for long.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".murmurlog-"
LOCK = ".lock"


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` that only this user can read, gone when the block ends."""
    sweep(parent)
    folder, lock = _make(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: Path) -> list[Path]:
    """Removes what dead processes of this user left in `parent`; returns what it removed."""
    removed = []
    for folder in parent.glob(PREFIX + "*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists():
                return folder, lock
        except BlockingIOError:  # somebody swept it in between
            pass
        os.close(lock)
