"""Private temporary folders, removed at the end, or by a later process after a crash.

A process holds a lock on its folder while it runs. Later processes remove unlocked folders, so that a
killed release leaves neither a copy of a log nor a half-written bundle behind for long.

Ctrl-C can come between any two steps. Signals wait while a folder is made or removed. A stop just before
that, or in a context manager that has made a folder and not yet returned, leaves the folder to
`remove_rest`, at the end of the process.
"""

import atexit
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PREFIX = ".murmurlog-"
LOCK = ".lock"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_locks: dict[Path, tuple[int, int]] = {}  # of each folder: its lock and the process that has it


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A new folder that only this user can read, removed when the block ends.

    It is in `parent`, by default the system's temporary folder.
    """
    parent = parent or temporary_folder()
    sweep(parent)
    folder = None
    try:
        with _delay_signals():
            folder, lock = _make(parent)
            _locks[folder] = lock, os.getpid()
        yield folder
    finally:
        if folder is not None:
            _end(folder)


def temporary_folder() -> Path:
    """The system's temporary folder."""
    with _delay_signals():  # at first Python writes a file, to see whether that is possible
        return Path(tempfile.gettempdir())


@atexit.register
def remove_rest() -> None:
    """Removes the folders of this process that are still there, when nothing uses them any more."""
    for folder in list(_locks):
        _end(folder)


def _end(folder: Path) -> None:
    """Removes a folder of this process, once; a forked process has no folders."""
    with _delay_signals():
        lock, process = _locks.pop(folder, (-1, -1))
        if process == os.getpid():
            _remove(folder)
            os.close(lock)


@contextmanager
def _delay_signals() -> Iterator[None]:
    """Signals that Python handles are handled after the block. Other threads never handle any."""
    pending: list[int] = []
    try:
        with ExitStack() as handlers:
            if threading.current_thread() is threading.main_thread():
                for stop in STOPPING:
                    if callable(handler := signal.getsignal(stop)):
                        handlers.callback(signal.signal, stop, handler)
                        signal.signal(stop, lambda number, _: pending.append(number))
            yield
    finally:
        for number in pending:
            signal.raise_signal(number)


def sweep(parent: Path) -> list[Path]:
    """Removes what dead processes of this user left in `parent`; returns what it removed."""
    removed = []
    for folder in _own_folders(parent):
        with suppress(OSError):
            if not (folder / LOCK).exists():
                # Its process died before locking it, or after removing the lock: it is empty, or
                # another process removes it just now.
                folder.rmdir()
                removed.append(folder)
    for folder in abandoned_folders(parent):
        with suppress(OSError):
            _remove(folder)
            removed.append(folder)
    return removed


def abandoned_folders(parent: Path) -> Iterator[Path]:
    """The folders that dead processes of this user left in `parent`, each locked while the caller has it."""
    for folder in _own_folders(parent):
        with suppress(OSError):
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
            finally:
                os.close(lock)


def _own_folders(parent: Path) -> Iterator[Path]:
    """The temporary folders of this user in `parent`."""
    for folder in parent.glob(PREFIX + "*"):
        with suppress(OSError):
            status = folder.lstat()  # a link by another user could point to any folder of this one
            if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode):
                yield folder


def settle(path: Path, out: Path) -> None:
    """Flushes a finished file or folder to disk and moves it to its target in one step."""
    flush(path)
    move(path, out)


def flush(root: Path) -> None:
    """Flushes a finished file or folder to disk. Only its owner may write it, whatever the umask is."""
    for path in (*sorted(root.rglob("*")), root):
        path.chmod(path.stat().st_mode & 0o755)
        _to_disk(path)


def move(path: Path, out: Path) -> None:
    """Moves what was flushed to its target in one step, or not at all."""
    path.rename(out)
    try:
        _to_disk(out.parent)
    except OSError:
        out.rename(path)  # undo: the caller reports that nothing was written
        raise


def make_folders(folder: Path) -> None:
    """Makes a folder and those above it that are missing; only their owner may write them."""
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            path.mkdir(mode=0o755, exist_ok=True)


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
