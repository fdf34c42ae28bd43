"""Where values of a log's partitions are kept, and the threads that work on them.

A workspace owns a private folder, the memory that values may take, and the threads. A value that fits
into what is left of the memory stays there; others go to files, which only their owner can read and
which are deleted with the value, at the latest with the workspace. Whether a value is in memory never
changes what it is. Knows nothing about logs.
"""

import math
import mmap
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate, count, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import EngineError

Array = npt.NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound=tuple[Any, ...])

ROOM = 0.5  # of the memory for values that are kept; the rest is for work on them
DISK_FULL = (
    "there is no room left for temporary files: set TMPDIR to a larger disk, or raise --memory"
)


@dataclass(eq=False)
class Kept(Generic[T]):
    """A value of the workspace: in memory, or in a part of a file."""

    workspace: "Workspace"
    size: int
    value: T | None
    file: "_File | None" = None
    start: int = 0
    columns: "_Columns | None" = None  # of a run of rows in a file

    def load(self, *, mapped: bool = False) -> T:
        """The value; from a file a new copy, or, if mapped, one whose arrays stay in the file."""
        if self.file is None:
            assert self.value is not None
            return self.value
        if self.columns is None:
            value: T = self.workspace.read(self.file.path, mapped=mapped)
        else:
            data = np.fromfile(self.file.path, np.uint8, self.size, offset=self.start)
            value = self.columns.read(data)
        return value

    def close(self) -> None:
        """Forgets the value, and its file with the last value in it."""
        if self.file is not None:
            self.file.release()
        elif self.value is not None:
            self.workspace.free(self.size)
        self.value, self.file, self.size = None, None, 0

    def __del__(self) -> None:
        # What nobody refers to any more takes no room: a log is counted many times in one evaluation.
        self.close()


class _Columns(NamedTuple):
    """The type of a tuple of arrays, and the type and shape of each."""

    kind: Any
    arrays: list[tuple[Any, tuple[int, ...]]]

    def read(self, data: npt.NDArray[np.uint8]) -> Any:
        """The arrays, of which these are the bytes."""
        counts = [math.prod(shape) for _, shape in self.arrays]
        sizes = [
            count * dtype.itemsize for count, (dtype, _) in zip(counts, self.arrays, strict=True)
        ]
        return self.kind(
            np.frombuffer(data, dtype, count, offset=start).reshape(shape)
            for start, count, (dtype, shape) in zip(
                accumulate(sizes, initial=0), counts, self.arrays, strict=False
            )
        )


class Resident:
    """An object that values refer to and that stays in this process, also where they go to a file."""


class _Pickler(pickle.Pickler):
    """Names what stays in this process instead of writing it."""

    residents: dict[int, Resident]

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Resident):
            return None
        self.residents[id(value)] = value
        return id(value)


class _Unpickler(pickle.Unpickler):
    """Puts back what stayed in this process."""

    residents: dict[int, Resident]

    def persistent_load(self, name: int) -> Resident:
        return self.residents[name]


class Workspace:
    """A private folder, memory and threads. Use `open_workspace()`."""

    def __init__(self, folder: Callable[[], Path], *, memory: int, threads: int) -> None:
        self._folder, self._names = folder, count()
        self.lock, self._used = threading.RLock(), 0
        self.memory, self.threads = memory, threads
        self._residents = dict[int, Resident]()  # held here: values in files only name them
        self._pools, self._closed = WeakSet[ThreadPoolExecutor](), False

    @property
    def room(self) -> int:
        """The bytes that kept values may take in memory."""
        return int(self.memory * ROOM)

    @property
    def folder(self) -> Path:
        """The private folder, made when it is first needed."""
        with self.lock:
            self._check_open()
            return self._folder()

    def close(self) -> None:
        """From here on no value is kept and no file begun; waits for threads, which begin nothing more.

        A stop can come while threads work and while nobody reads their results.
        """
        with self.lock:
            self._closed = True
        for pool in list(self._pools):
            pool.shutdown(cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the work has ended: nothing more is kept")

    def keep(self, value: T) -> Kept[T]:
        """The value, in memory or in a file of its own."""
        head, buffers = self._pickled(value)
        sizes = np.array([len(head), *(buffer.nbytes for buffer in buffers)], np.int64)
        size = int(sizes.sum())
        if self._take(size):
            return Kept(workspace=self, size=size, value=value)
        file = _File(self._new_file(), 1)
        with self._writing(file.path) as out:
            out.write(np.int64(len(sizes)).tobytes() + sizes.tobytes() + head)
            for buffer in buffers:
                out.write(buffer)
        return Kept(workspace=self, size=size, value=None, file=file)

    def keep_slices(self, columns: C, ends: Sequence[int]) -> "list[Kept[C]]":
        """Runs of the rows of columns, each from one end to the next: all in memory, or in one file."""
        bounds = list(pairwise(ends))
        runs = [type(columns)(column[start:end] for column in columns) for start, end in bounds]
        sizes = [sum(column.nbytes for column in run) for run in runs]
        if self._take(sum(sizes)):
            return [
                Kept(workspace=self, size=size, value=run)
                for run, size in zip(runs, sizes, strict=True)
            ]
        file = _File(self._new_file(), len(runs))
        with self._writing(file.path) as out:
            for run in runs:
                for column in run:
                    out.write(np.ascontiguousarray(column).data)
        return [
            Kept(
                workspace=self, size=size, value=None, file=file, start=start,
                columns=_Columns(type(run), [(column.dtype, column.shape) for column in run]),
            )
            for start, size, run in zip(accumulate(sizes, initial=0), sizes, runs, strict=False)
        ]  # fmt: skip

    def _pickled(self, value: Any) -> tuple[bytes, list[memoryview]]:
        """A value without its arrays, and the bytes of these, which are not copied."""
        head, buffers = BytesIO(), list[pickle.PickleBuffer]()
        pickler = _Pickler(head, protocol=5, buffer_callback=buffers.append)
        pickler.residents = self._residents
        pickler.dump(value)
        return head.getvalue(), [buffer.raw() for buffer in buffers]

    def read(self, path: Path, *, mapped: bool = False) -> Any:
        """The value in a file; if mapped, its arrays stay there."""
        with open(path, "rb") as source:
            (many,) = np.fromfile(source, np.int64, 1)
            sizes = np.fromfile(source, np.int64, many)
            head = source.read(int(sizes[0]))
            if mapped:
                ends = source.tell() + np.append(0, np.cumsum(sizes[1:]))
                whole = memoryview(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ))
                buffers: list[Any] = [whole[a:b] for a, b in pairwise(ends.tolist())]
            else:
                buffers = [np.fromfile(source, np.uint8, size) for size in sizes[1:]]
        unpickler = _Unpickler(BytesIO(head), buffers=buffers)
        unpickler.residents = self._residents
        return unpickler.load()

    def _new_file(self) -> Path:
        return self.folder / f"{next(self._names)}.values"

    @contextmanager
    def _writing(self, path: Path) -> "Iterator[BinaryIO]":
        """A new file that only this user can read, which is gone if it cannot be written."""

        def create(name: str, flags: int) -> int:
            with self.lock:  # so that the folder is not removed at this moment
                self._check_open()
                return os.open(name, flags, 0o600)

        try:
            with open(path, "xb", opener=create) as out:
                yield out
        except OSError as error:
            path.unlink(missing_ok=True)
            raise EngineError(DISK_FULL) from error

    def _take(self, size: int) -> bool:
        with self.lock:
            self._check_open()
            fits = self._used + size <= self.room
            self._used += size * fits
            return fits

    def free(self, size: int) -> None:
        """Values of so many bytes have left the memory."""
        with self.lock:
            self._used -= size

    def map(self, work: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
        """The results of `work` in the order of its inputs, of which no more are taken than threads need.

        An error, or the end of who reads, stops what has not begun.
        """
        if self.threads == 1:
            yield from map(work, inputs)
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


@contextmanager
def open_workspace(
    *, memory: int | None = None, threads: int | None = None, folder: Path | None = None
) -> Iterator[Workspace]:
    """A workspace below `folder` (default: the system's temporary folder), deleted at the end."""
    with ExitStack() as stack:
        made: list[Path] = []

        def make() -> Path:
            if not made:
                made.append(stack.enter_context(scratch(folder)))
            return made[0]

        workspace = Workspace(
            make,
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


@dataclass
class _File:
    """A file that is deleted when none of its values is needed any more."""

    path: Path
    values: int
    # Reentrant: wherever objects are made, the collector may drop another value of the file.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def release(self) -> None:
        with self.lock:
            self.values -= 1
            if self.values == 0:
                with suppress(OSError):
                    self.path.unlink(missing_ok=True)
