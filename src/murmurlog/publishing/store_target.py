"""Finished bundles in an object store: s3://, gs://, az://, abfs://.

A store cannot rename a folder in one step. The bundle is made on this machine, and its files are copied
one by one, the sums last: without them it does not verify. All are removed again if one fails.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.object_store import (
    PIECE,
    Store,
    StoreError,
    has_object,
    is_free,
    open_store,
    put_object,
    remove_objects,
    wait_for_steps,
)


def check_address(address: str) -> None:
    """Raises unless a bundle could have this address; connects to nothing."""
    if "/" not in open_store(address).path:
        raise UsageError(f"--out {address!r} names a bucket: add a name for the bundle")


class StoreLanding:
    """A free place for a bundle in a store."""

    def __init__(self, store: Store, private: Path) -> None:
        self.store = store
        self.made = private / "bundle"  # where it is made first
        self.name = f"--out {store.shown!r}"
        self._last = ""  # the key of the last file, once it is being copied

    def prepare(self, probe: str) -> None:
        """Raises unless the place is free and objects can be written and removed beside it."""
        self._check()
        key = f"{self.store.path.rpartition('/')[0]}/{probe}"
        try:
            put_object(self.store, key, iter([b"-"]), 1)
            remove_objects(self.store, [key])
        except StoreError as error:
            raise EngineError(f"{self.name} cannot be written: {error}") from None

    def put(self, *, last: str) -> None:
        """Copies what was made to its place, the file `last` after all others; all or nothing."""
        self._check()
        names = sorted(
            file.relative_to(self.made).as_posix()
            for file in self.made.rglob("*")
            if file.is_file()
        )
        names.sort(key=lambda name: name == last)
        begun: list[str] = []
        try:
            for name in names:
                begun.append(f"{self.store.path}/{name}")
                self._last = begun[-1] if name == last else ""
                file = self.made / name
                with file.open("rb") as stream:
                    pieces = iter(partial(stream.read, PIECE), b"")
                    put_object(self.store, begun[-1], pieces, file.stat().st_size)
        except BaseException as error:
            if not isinstance(error, StoreError):  # interrupted: a step may still write
                wait_for_steps()
            left = self._take_back(begun)
            if isinstance(error, StoreError):
                raise EngineError(f"{error}{left}") from None
            raise

    def is_there(self) -> bool | None:
        """Whether the bundle is there: its last file. None if the store does not say."""
        try:
            return bool(self._last) and has_object(self.store, self._last)
        except StoreError:
            return None

    def _take_back(self, keys: list[str]) -> str:
        """Removes the objects, the last one first; returns what is to be said if it cannot."""
        try:
            remove_objects(self.store, keys[::-1])
        except StoreError:
            return f"; up to {len(keys)} objects of it, which do not verify, may be left there"
        return ""

    def _check(self) -> None:
        try:
            free = is_free(self.store)
        except StoreError as error:
            raise EngineError(f"{self.name} cannot be reached: {error}") from None
        if not free:
            raise UsageError(f"{self.name} exists: choose another name, or remove it first")


@contextmanager
def store_landing(address: str) -> Iterator[StoreLanding]:
    """A place for a bundle that is free and can be written; looked at before anything is drawn."""
    with scratch(Path(tempfile.gettempdir())) as private:
        found = StoreLanding(open_store(address), private)
        found.prepare(private.name)  # the folder's name is random
        yield found
