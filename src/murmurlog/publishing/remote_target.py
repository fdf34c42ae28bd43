"""Finished bundles at places that only Spark reaches: any file system of Hadoop, hdfs:// or s3a://.

The bundle is made on this machine first. Where a folder can be renamed in one step it is copied to
another name beside its place and renamed; elsewhere its files are copied one by one, the sums last,
and all are taken back if one fails. Nothing of a log comes here, so Hadoop's words are passed on.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from murmurlog.bundle.scratch import PREFIX
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.addresses import mask
from murmurlog.logs.engines.spark import SparkEngine, literal

# Stores that rename a folder in one step, and not into a folder that is not there.
ONE_STEP = ("hdfs", "webhdfs", "swebhdfs", "file", "ftp", "sftp")


class Landing:
    """A free place for a bundle, and a folder beside it that is gone in the end."""

    def __init__(self, engine: SparkEngine, uri: str) -> None:
        self.made = engine.private / "bundle"  # where it is made first
        self.uri = mask(uri)  # for messages
        self._last = ""  # the name of the last file, once the bundle is being copied
        context = engine.session.sparkContext
        self.hadoop = context._jvm.org.apache.hadoop.fs
        with self._told():
            place = self.hadoop.Path(uri)
            if place.getParent() is None:
                raise UsageError(f"--out {self.uri!r} names no folder: add a name for the bundle")
            settings = context._jsc.hadoopConfiguration()
            if place.toUri().getScheme() == "viewfs":
                shown = self.hadoop.FileSystem.get(place.toUri(), settings)
                place = self._below(shown.resolvePath(place.getParent()), place.getName())
            # A file system of our own: its settings are nobody else's.
            self.files = self.hadoop.FileSystem.newInstance(place.toUri(), settings)
            self.files.setWriteChecksum(False)  # files of sums would be no files of a bundle
            # The client of ftp cannot rename what has a scheme.
            self.place = self.hadoop.Path.getPathWithoutSchemeAndAuthority(place)
            name = f"{PREFIX}{context.applicationId}-{place.getName()}"
            self.beside = self._below(self.place.getParent(), name)

    def put(self, *, last: str) -> None:
        """Copies what was made to its place, the file `last` after all others; all or nothing."""
        names = sorted(str(f.relative_to(self.made)) for f in self.made.rglob("*") if f.is_file())
        names.sort(key=lambda name: name == last)
        with self._told():
            self._check()
            self._last = last
            if self.one_step:
                self._copied(names, self.beside)
                self._check()
                self._renamed()
            else:
                self._one_by_one(names)

    def is_there(self) -> bool | None:
        """Whether the bundle is there: its last file. None if the file system does not say."""
        from py4j.protocol import Py4JError

        try:
            return bool(self._last) and bool(self.files.exists(self._below(self.place, self._last)))
        except Py4JError:
            return None

    @property
    def one_step(self) -> bool:
        return self.files.getUri().getScheme() in ONE_STEP

    def prepare(self) -> None:
        """Raises unless the place is free and a folder beside it can be made."""
        with self._told():
            self._check()
            if self.one_step and not self.files.exists(self.place.getParent()):
                folder = self.place.getParent().toString()
                raise UsageError(f"--out {self.uri!r}: there is no folder {folder!r}")
            if not self.files.mkdirs(self.beside):
                raise EngineError(f"--out {self.uri!r}: no folder can be made beside it")

    def clear(self) -> None:
        """Removes the folder beside the place and closes the file system."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError):
            self.files.delete(self.beside, True)
        with suppress(Py4JError):
            self.files.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Hadoop's errors as ours."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            words = str(error.java_exception.toString()).partition("\n")[0]
            raise EngineError(f"--out {self.uri!r} cannot be written: {words}") from None
        except Py4JError:
            raise EngineError(f"--out {self.uri!r} cannot be written: Spark is gone") from None

    def _below(self, folder: Any, name: str) -> Any:
        return self.hadoop.Path(folder, name)

    def _check(self) -> None:
        if self.files.exists(self.place):
            raise UsageError(
                f"--out {self.uri!r} exists: choose another folder, or remove it first"
            )

    def _copied(self, names: list[str], to: Any) -> None:
        for name in names:
            here, there = self.made / name, self._below(to, name)
            self.files.copyFromLocalFile(False, False, self.hadoop.Path(literal(here)), there)
            if self.files.getFileStatus(there).getLen() != here.stat().st_size:
                raise EngineError(f"{name} was not written to its end")

    def _renamed(self) -> None:
        """Moves the finished folder to its place in one step."""
        from py4j.protocol import Py4JJavaError

        try:
            moved = self.files.rename(self.beside, self.place)
        except Py4JJavaError:
            # It may have been done, and only the answer lost.
            if self.files.exists(self.beside) or not self.files.exists(self.place):
                raise
            moved = True
        # Where a folder came into being meanwhile, Hadoop moves into it.
        astray = self._below(self.place, self.beside.getName())
        if moved and self.files.exists(astray):
            self.files.delete(astray, True)
            self._check()
        if not moved:
            raise EngineError("the finished folder could not be renamed")

    def _one_by_one(self, names: list[str]) -> None:
        from py4j.protocol import Py4JError

        begun: list[Any] = []
        try:
            for name in names:
                there = self._below(self.place, name)
                if self.files.exists(there):  # somebody else's: it is not ours to take back
                    raise UsageError(f"--out {self.uri!r} came into being meanwhile")
                begun.append(there)
                self._copied([name], self.place)
        except BaseException:
            # Folders go only if they are empty.
            for path in (*begun, *(file.getParent() for file in begun), self.place):
                with suppress(Py4JError):
                    self.files.delete(path, False)
            raise


@contextmanager
def landing(engine: SparkEngine, uri: str) -> Iterator[Landing]:
    """A place for a bundle that is free and can be written; looked at before anything is drawn."""
    found = Landing(engine, uri)
    try:
        found.prepare()
        yield found
    finally:
        found.clear()
