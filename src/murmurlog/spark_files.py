"""Finished bundles at places that only Spark reaches: any file system of Hadoop, hdfs:// or s3a://.

The bundle is made on this machine first. Where a folder can be renamed in one step it is copied to
another name beside its place and renamed; elsewhere its files are copied one by one, the sums last,
and all are taken back if one fails. Nothing of a log comes here, so Hadoop's words are passed on.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from murmurlog.errors import EngineError, UsageError
from murmurlog.scratch import PREFIX
from murmurlog.spark import SparkEngine

# Stores that rename a folder in one step, and not into a folder that is not there.
ONE_STEP = ("hdfs", "webhdfs", "swebhdfs", "viewfs", "file", "ftp", "sftp")


class Landing:
    """A free place for a bundle, and a folder beside it that is gone in the end."""

    def __init__(self, made: Path, files: Any, hadoop: Any, place: Any, beside: Any) -> None:
        self.made = made  # where the bundle is made: a private folder of this machine
        self.files = files  # a file system of our own: its settings are nobody else's
        self.hadoop = hadoop
        self.place = place
        self.beside = beside

    def put(self, *, last: str) -> None:
        """Copies what was made to its place, the file `last` after all others; all or nothing."""
        names = sorted(str(f.relative_to(self.made)) for f in self.made.rglob("*") if f.is_file())
        names.sort(key=lambda name: name == last)
        with _told(self.place):
            self._check()
            if self.one_step:
                self._copied(names, self.beside)
                self._check()
                self._renamed()
            else:
                self._one_by_one(names)

    @property
    def one_step(self) -> bool:
        return self.files.getUri().getScheme() in ONE_STEP

    def prepare(self) -> None:
        """Raises unless the place is free and a folder beside it can be made."""
        with _told(self.place):
            self._check()
            if self.one_step and not self.files.exists(self.place.getParent()):
                raise UsageError(
                    f"--out {self.place.toString()!r}: there is no folder "
                    f"{self.place.getParent().toString()!r}"
                )
            if not self.files.mkdirs(self.beside):
                raise EngineError(f"{self.beside.toString()!r} cannot be made")

    def clear(self) -> None:
        """Removes the folder beside the place and closes the file system."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError):
            self.files.delete(self.beside, True)
        with suppress(Py4JError):
            self.files.close()

    def _below(self, folder: Any, name: str) -> Any:
        return self.hadoop.Path(folder, name)

    def _check(self) -> None:
        if self.files.exists(self.place):
            raise UsageError(
                f"--out {self.place.toString()!r} exists: choose another folder, or remove it first"
            )

    def _copied(self, names: list[str], to: Any) -> None:
        for name in names:
            here, there = self.made / name, self._below(to, name)
            self.files.copyFromLocalFile(False, False, self.hadoop.Path(here.as_uri()), there)
            if self.files.getFileStatus(there).getLen() != here.stat().st_size:
                raise EngineError(f"{there.toString()!r} was not written to its end")

    def _renamed(self) -> None:
        """Moves the finished folder to its place in one step."""
        moved = self.files.rename(self.beside, self.place)
        # Where a folder came into being meanwhile, Hadoop moves into it.
        astray = self._below(self.place, self.beside.getName())
        if moved and self.files.exists(astray):
            self.files.delete(astray, True)
            self._check()
        if not moved:
            raise EngineError(f"{self.beside.toString()!r} could not be renamed")

    def _one_by_one(self, names: list[str]) -> None:
        from py4j.protocol import Py4JError

        begun: list[str] = []
        try:
            for name in names:
                begun.append(name)
                self._copied([name], self.place)
        except BaseException:
            for name in begun:
                with suppress(Py4JError):
                    self.files.delete(self._below(self.place, name), False)
            raise


@contextmanager
def landing(engine: SparkEngine, uri: str) -> Iterator[Landing]:
    """A place for a bundle that is free and can be written; looked at before anything is drawn."""
    context = engine.session.sparkContext
    hadoop = context._jvm.org.apache.hadoop.fs
    with _told(uri):
        place = hadoop.Path(uri)
        if place.getParent() is None:
            raise UsageError(f"--out {uri!r} names no folder: add a name for the bundle")
        files = hadoop.FileSystem.newInstance(place.toUri(), context._jsc.hadoopConfiguration())
        files.setWriteChecksum(False)  # its files would be no files of a bundle
        beside = hadoop.Path(
            place.getParent(), f"{PREFIX}{context.applicationId}-{place.getName()}"
        )
    found = Landing(engine.private / "bundle", files, hadoop, place, beside)
    try:
        found.prepare()
        yield found
    finally:
        found.clear()


@contextmanager
def _told(place: Any) -> Iterator[None]:
    """Hadoop's errors as ours."""
    from py4j.protocol import Py4JError, Py4JJavaError

    name = place if isinstance(place, str) else place.toString()
    try:
        yield
    except Py4JJavaError as error:
        words = str(error.java_exception.toString()).partition("\n")[0]
        raise EngineError(f"--out {name!r} cannot be written: {words}") from None
    except Py4JError as error:
        raise EngineError(f"--out {name!r} cannot be written: Spark was lost ({error})") from None
