"""Private temporary folders, removed at the end, or by a later process after a crash.

A process holds a lock on its folder while it runs. Later processes remove unlocked folders, so that a
killed release leaves neither a copy of a log nor a half-written bundle behind for long.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".murmurlog-"
LOCK = ".lock"


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` that only this user can read, removed when the block ends."""
    sweep(parent)
    folder, lock = _make(parent)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def sweep(parent: Path) -> list[Path]:
    """Removes what dead processes of this user left in `parent`; returns what it removed."""
    removed = []
    for folder in abandoned(parent):
        with suppress(OSError):
            _remove(folder)
            removed.append(folder)
    return removed


def abandoned(parent: Path) -> Iterator[Path]:
    """The folders that dead processes of this user left in `parent`, each locked while it is looked at."""
    for folder in parent.glob(PREFIX + "*"):
        with suppress(OSError):
            found = folder.lstat()  # a link by another user could point to any folder of this one
            if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
                continue
            if not (folder / LOCK).exists():
                # Its process died before locking it, or after removing the lock: it is empty, or
                # another process removes it just now.
                folder.rmdir()
                continue
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
            finally:
                os.close(lock)


def settle(made: Path, out: Path, *, ready: Callable[[], None] = lambda: None) -> None:
    """Flushes a finished file or folder to disk and moves it to its target in one step.

    `ready` is called just before that step; if it raises, nothing is moved.
    """
    for path in (*sorted(made.rglob("*")), made):
        _to_disk(path)
    ready()
    made.rename(out)
    try:
        _to_disk(out.parent)
    except OSError:
        out.rename(made)  # undo: the caller reports that nothing was written
        raise


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder, lock = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)), -1
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / LOCK).exists():
                return folder, lock
        except FileNotFoundError:  # another process swept it before it was locked
            continue
        except BlockingIOError:  # another process is sweeping it
            pass
        except BaseException:  # stopped
            _remove(folder)
            raise
        os.close(lock)


def _remove(folder: Path) -> None:
    """Removes a folder, its lock last, so that the next sweep can continue after a crash."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
