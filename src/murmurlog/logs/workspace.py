"""Where values of a log's partitions are kept, and the threads that work on them.

A workspace owns a private folder, the memory that values may take, and the threads. A value that fits
into what is left of the memory stays there; others go to files, which only their owner can read and
which are deleted with the value, at the latest with the workspace. Whether a value is in memory never
changes what it is. Knows nothing about logs.
"""

import ctypes
import math
import mmap
import os
import pickle
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from io import BufferedReader, BytesIO, FileIO
from itertools import accumulate, count, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import EngineError

Array = npt.NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound=tuple[Any, ...])


@dataclass(eq=False)
class Handle(Generic[T]):
    """A value of the workspace: in memory, or in a file of its own."""

    workspace: "Workspace"
    size: int
    value: T | None
    file: Path | None = None
    mapped: bool = False  # whether arrays may still be in the file

    def load(self, *, mapped: bool = False) -> T:
        """The value; from a file a new copy, or, if mapped, one whose arrays stay in the file."""
        if self.file is None:
            assert self.value is not None
            return self.value
        self.mapped |= mapped
        value: T = self.workspace.read(self.file, mapped=mapped)
        return value

    def close(self) -> None:
        """Forgets the value, and its file."""
        self.workspace.release(self.size, self.file, again=not self.mapped)
        self.value, self.file, self.size = None, None, 0

    def __del__(self) -> None:
        # A value that nothing refers to takes no room: a log is counted many times in one evaluation.
        self.close()


@dataclass(eq=False)
class StoredRuns(Generic[C]):
    """Runs of rows, each of which is a tuple of columns: all in memory, or one after the other in one file."""

    workspace: "Workspace"
    values: list[C | None] | None  # None if they are in a file
    rows: Sequence[int]  # of each run
    like: C  # no rows of the same columns
    file: Path | None = None
    # Reentrant: wherever objects are made, the collector may drop another run.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.starts = [0, *accumulate(self.rows)]
        self.left = len(self)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> "Run[C]":
        if not 0 <= number < len(self):
            raise IndexError(number)
        return Run(self, number)

    def load(self, number: int) -> C:
        """The columns of a run."""
        if self.values is not None:
            value = self.values[number]
            assert value is not None
            return value
        assert self.file is not None
        rows, width = self.rows[number], bytes_of_rows(self.like, 1)
        data = np.empty(rows * width, np.uint8)
        with open(self.file, "rb", buffering=0) as source:
            source.seek(self.starts[number] * width)
            _read_into(source, data)
        columns, first = [], 0
        for column in self.like:
            shape = (rows, *column.shape[1:])
            columns.append(
                np.frombuffer(data, column.dtype, math.prod(shape), first).reshape(shape)
            )
            first += columns[-1].nbytes
        return type(self.like)(columns)

    def close_run(self, number: int) -> None:
        """Forgets a run; the last one takes the file with it."""
        with self.lock:
            self.left -= 1
            last = self.left == 0
        if self.values is not None:
            self._release(number)
        elif last:
            self.close()

    def close(self) -> None:
        """Forgets all runs, and their file."""
        if self.values is not None:
            for number in range(len(self)):
                self._release(number)
        elif self.file is not None:
            self.workspace.release(self.starts[-1] * bytes_of_rows(self.like, 1), self.file)
            self.file = None

    def _release(self, number: int) -> None:
        assert self.values is not None
        if self.values[number] is not None:
            self.values[number] = None
            self.workspace.release(bytes_of_rows(self.like, self.rows[number]), None)

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Run(Generic[C]):
    """One of several runs."""

    runs: StoredRuns[C]
    number: int

    def load(self) -> C:
        """The columns of the run."""
        return self.runs.load(self.number)

    def close(self) -> None:
        """Forgets the run; to be called once."""
        self.runs.close_run(self.number)


def split_rows(columns: C, ends: Sequence[int]) -> list[C]:
    """Runs of the rows of columns, each from one end to the next."""
    kind = type(columns)
    return [kind(column[start:end] for column in columns) for start, end in pairwise(ends)]


def _read_into(source: BufferedReader | FileIO, data: Array) -> None:
    """Fills an array from a file, which is as long as it was written."""
    if source.readinto(data.data) != len(data):
        raise EngineError("a temporary file was cut while it was in use")


def bytes_of_rows(columns: Iterable[Array], rows: int) -> int:
    """The bytes of so many rows of columns."""
    return sum(rows * column.itemsize * math.prod(column.shape[1:]) for column in columns)


class Resident:
    """An object that stays in this process, also where values that refer to it go to a file."""


class _Pickler(pickle.Pickler):
    """Writes only the names of objects that stay in this process."""

    residents: dict[int, Resident]

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Resident):
            return None
        self.residents[id(value)] = value
        return id(value)


class _Unpickler(pickle.Unpickler):
    """Reads these names as the objects that stayed in this process."""

    residents: dict[int, Resident]

    def persistent_load(self, name: int) -> Resident:
        return self.residents[name]


class Workspace:
    """A private folder, memory for kept values, and threads. Use `open_workspace()`."""

    def __init__(self, folder: Callable[[], Path], *, memory: int, threads: int) -> None:
        self._folder, self._names = folder, count()
        self.lock, self._used = threading.RLock(), 0
        self._in_files = 0  # bytes
        # Files of values that are no longer kept: a file system is slow to make files where many were deleted.
        self._unused: list[Path] = []
        self._aside: tuple[Path, int] | None = None
        self.memory, self.threads = memory, threads
        self._residents = dict[int, Resident]()  # values in files have only their names
        self._pools, self._closed = WeakSet[ThreadPoolExecutor](), False

    @property
    def folder(self) -> Path:
        """The private folder, made when it is first needed."""
        with self.lock:
            self._check_open()
            return self._folder()

    def close(self) -> None:
        """Stores no further value and creates no further file; waits for the threads, which start nothing more.

        A stop can come while threads work and while nobody reads their results.
        """
        with self.lock:
            self._closed = True
        for pool in list(self._pools):
            pool.shutdown(cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the work has ended: nothing more is kept")

    def keep(self, value: T) -> Handle[T]:
        """The value, in memory or in a file of its own."""
        head, buffers = self._pickle(value)
        sizes = np.array([len(head), *(buffer.nbytes for buffer in buffers)], np.int64)
        size = int(sizes.sum())
        if self._take(size):
            return Handle(workspace=self, size=size, value=value)
        with self._writing(size) as out:
            out.write(np.int64(len(sizes)).tobytes() + sizes.tobytes() + head)
            for buffer in buffers:
                out.write(buffer)
        return Handle(workspace=self, size=size, value=None, file=Path(out.name))

    def keep_runs(self, runs: Sequence[C]) -> StoredRuns[C]:
        """Runs of rows, at least one, all of which have the same columns."""
        like = type(runs[0])(column[:0].copy() for column in runs[0])
        rows = [len(run[0]) for run in runs]
        size = bytes_of_rows(like, sum(rows))
        if self._take(size):
            return StoredRuns(workspace=self, values=list(runs), rows=rows, like=like)
        with self._writing(size) as out:
            for run in runs:
                for column in run:
                    out.write(np.ascontiguousarray(column).data)
        return StoredRuns(workspace=self, values=None, rows=rows, like=like, file=Path(out.name))

    def _pickle(self, value: Any) -> tuple[bytes, list[memoryview]]:
        """A value without its arrays, and the bytes of these, which are not copied."""
        head, buffers = BytesIO(), list[pickle.PickleBuffer]()
        pickler = _Pickler(head, protocol=5, buffer_callback=buffers.append)
        pickler.residents = self._residents
        pickler.dump(value)
        return head.getvalue(), [buffer.raw() for buffer in buffers]

    def read(self, path: Path, *, mapped: bool = False) -> Any:
        """The value in a file; if mapped, its arrays stay there."""
        with open(path, "rb") as source:
            (number,) = np.frombuffer(source.read(8), np.int64)
            sizes = np.frombuffer(source.read(8 * number), np.int64)
            head = source.read(sizes[0])
            if mapped:
                ends = source.tell() + np.append(0, np.cumsum(sizes[1:]))
                whole = memoryview(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ))
                buffers: list[Any] = [whole[a:b] for a, b in pairwise(ends.tolist())]
            else:
                buffers = [np.empty(size, np.uint8) for size in sizes[1:]]
                for buffer in buffers:
                    _read_into(source, buffer)
        unpickler = _Unpickler(BytesIO(head), buffers=buffers)
        unpickler.residents = self._residents
        return unpickler.load()

    @contextmanager
    def _writing(self, size: int) -> "Iterator[BinaryIO]":
        """A new file of so many bytes that only this user can read; it is deleted if it cannot be written."""
        folder = self.folder
        with self.lock:
            path = self._unused.pop() if self._unused else folder / f"{next(self._names)}.values"
            self._in_files += size
            self._use_what_is_aside(size)

        def create(name: str, flags: int) -> int:
            with self.lock:  # so that the folder is not removed at this moment
                self._check_open()
                return os.open(name, flags, 0o600)

        try:
            with open(path, "wb", opener=create) as out:
                yield out
        except OSError as error:
            self.release(size, path)
            raise EngineError(
                f"there is no room left for temporary files in {str(self.folder.parent)!r}: set TMPDIR to "
                "a larger disk, or raise --memory"
            ) from error

    def _take(self, size: int) -> bool:
        with self.lock:
            self._check_open()
            fits = self._used + size <= self.memory
            self._used += size * fits
            return fits

    def release(self, size: int, file: Path | None, *, again: bool = True) -> None:
        """Frees the memory of a value, or its file, which is used again unless `again` is false."""
        if file is None:
            with self.lock:
                self._used -= size
            return
        with suppress(OSError):  # the folder may be gone
            if again:
                os.truncate(file, 0)
            else:
                file.unlink()
        with self.lock:
            self._in_files -= size
            if again:
                self._unused.append(file)

    def check_space(self, need: int) -> None:
        """Raises unless values of so many bytes have room in memory and on the disk of the folder."""
        need -= self.memory
        if need > 0 and need > (free := shutil.disk_usage(self.folder).free):
            place = self.folder.parent
            raise EngineError(
                f"about {in_words(need)} of temporary files are needed, and {str(place)!r} has "
                f"{in_words(free)} free: set TMPDIR to a larger disk, or raise --memory"
            )

    def set_aside(self) -> None:
        """Reserves as much disk space as all values take now, less what still fits into memory.

        Values that are stored later use it. A round stores a part of what the round before it stored.
        """
        with self.lock:
            need = self._in_files + self._used - (self.memory - self._used)
            if need <= 0 or self._aside is not None:
                return
            path = self.folder / "aside"
            try:
                with open(
                    path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)
                ) as out:
                    if hasattr(os, "posix_fallocate"):  # not on macOS
                        os.posix_fallocate(out.fileno(), 0, need)
            except OSError as error:
                path.unlink(missing_ok=True)
                raise EngineError(
                    f"{in_words(need)} of disk space for the rest of the work could not be set aside in "
                    f"{str(self.folder.parent)!r}: set TMPDIR to a larger disk, or raise --memory"
                ) from error
            self._aside = path, need

    def _use_what_is_aside(self, size: int) -> None:
        if self._aside is not None:
            path, left = self._aside
            left = max(0, left - size)
            os.truncate(path, left)
            self._aside = path, left

    def map(self, work: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
        """The results of `work` in the order of its inputs, of which no more are taken than threads need.

        An error, or a reader that stops early, cancels the work that has not begun.
        """
        if self.threads == 1:
            yield from map(work, inputs)
            self._trim()
            return
        with ThreadPoolExecutor(self.threads) as pool:
            self._pools.add(pool)
            waiting: deque[Any] = deque()
            try:
                for value in inputs:
                    waiting.append(pool.submit(work, value))
                    del value
                    if len(waiting) > self.threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
        self._trim()

    def _trim(self) -> None:
        """Returns freed memory to the system where memory is short; allocators keep it."""
        if _malloc_trim is not None and self._in_files:
            _malloc_trim(0)


def _find_malloc_trim() -> Callable[[int], int] | None:
    """The function of the GNU C library; None with others."""
    with suppress(OSError, AttributeError):
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return trim
    return None


_malloc_trim = _find_malloc_trim()


@contextmanager
def open_workspace(
    *, memory: int | None = None, threads: int | None = None, folder: Path | None = None
) -> Iterator[Workspace]:
    """A workspace below `folder` (default: the system's temporary folder), deleted at the end."""
    with ExitStack() as stack:
        workspace = Workspace(
            cache(lambda: stack.enter_context(scratch(folder))),
            memory=memory_of_machine() if memory is None else memory,
            threads=threads or cores(),
        )
        try:
            yield workspace
        finally:
            workspace.close()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_of_machine() -> int:
    """Four fifths of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8)


def in_words(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{-(-size // 10**6)} MB"
