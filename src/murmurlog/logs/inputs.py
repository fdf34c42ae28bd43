"""What a log may be given as, and the path or address that it is read from.

A path of this machine and the address of a database are read where they are. Everything else is copied
into a private folder first, as a stream, and read from there like any other file. Imports nothing heavy:
the types are those of public functions.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from murmurlog.errors import DiskError, UsageError
from murmurlog.logs.addresses import READ, mask, scheme_of
from murmurlog.logs.options import FORMATS, SourceOptions

STDIN = "-"
BLOCK = 1 << 20  # bytes


@runtime_checkable
class ArrowStream(Protocol):
    """A table of pandas, polars, Arrow, DuckDB or Ibis: what gives its rows as a stream of Arrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


@runtime_checkable
class LazyTable(Protocol):
    """A lazy frame of polars, which writes its rows without holding them."""

    @property
    def sink_parquet(self) -> Callable[..., Any]: ...


LogSource: TypeAlias = str | os.PathLike[str] | ArrowStream | LazyTable


def is_table(source: object) -> bool:
    """Whether a log is given as an object with its rows, not by name."""
    return not isinstance(source, (str, os.PathLike))


def name_of(source: object) -> str:
    """The log in a message: the file's name, or the kind of object."""
    return type(source).__name__ if is_table(source) else Path(mask(str(source))).name


@contextmanager
def local_source(
    source: LogSource,
    options: SourceOptions,
    *,
    rows: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """The path or address of a log, however it is given; copies are removed when the block ends.

    Without `rows`, of a table only the columns are copied.
    """
    from murmurlog.bundle.scratch import scratch  # late: --help reads this module

    if not is_table(source):
        path = _text(source)
        if not _is_remote(path):
            with copy_standard_input(path, options) as local:
                yield local
            return
        from murmurlog.logs.object_store import copy_source

        with scratch() as folder:
            (folder / "log").mkdir()
            yield copy_source(path, folder / "log", say)
        return
    _check_kind(source)
    from murmurlog.logs.tables import write_parquet

    name = name_of(source)
    say(f"copying the rows of the {name}")
    with scratch() as folder:
        file = folder / f"{name}.parquet"
        try:
            write_parquet(source, file, rows=rows, say=say)
        except OSError as error:
            raise DiskError(
                f"the rows of the {name} could not be copied to the folder for temporary files "
                f"({error.strerror or type(error).__name__}): set TMPDIR to a larger disk"
            ) from error
        yield str(file)


@contextmanager
def copy_standard_input(source: str, options: SourceOptions) -> Iterator[str]:
    """The source's name; of `-` that of a copy of standard input, which is gone when the block ends.

    The folder is readable by this user only. After a crash the next command removes it.
    """
    if source != STDIN:
        yield source
        return
    from murmurlog.bundle.scratch import scratch  # late: --help reads this module

    ending = options.format or ("csv" if options.delimiter else "txt" if options.shape else None)
    if ending is None:
        raise UsageError(
            f"- reads standard input, which has no name: give --format {'|'.join(FORMATS)}"
        )
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "- reads standard input, and nothing is piped into it: zcat log.gz | murmurlog ..."
        )
    with scratch() as folder:
        path = folder / f"stdin.{ending}"
        try:
            with path.open("xb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy, BLOCK)
        except OSError as error:
            raise DiskError(
                f"standard input could not be copied to {tempfile.gettempdir()} ({error.strerror}): free "
                "some room, or set TMPDIR to a folder that has it"
            ) from None
        yield str(path)


def _text(source: object) -> str:
    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    if not isinstance(path, str):
        raise UsageError("the path of a log is text, not bytes: give it as str or Path")
    return path


def _is_remote(path: str) -> bool:
    """Whether a path is an address of a store; raises if it is another one that is not read."""
    scheme = scheme_of(path)
    if not scheme or scheme.startswith("postgres") or os.path.exists(path):
        return False
    if scheme not in READ:
        raise UsageError(
            f"{mask(path)} is not read: {scheme}:// is none of {'://, '.join(READ)}:// and postgresql://. "
            "Other file systems of Hadoop are read by --engine spark."
        )
    return True


def _check_kind(source: object) -> None:
    """Raises unless the object has rows and columns."""
    if isinstance(source, (ArrowStream, LazyTable)) and not isinstance(source, type):
        return
    kind = type(source)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise UsageError(
        f"a log cannot be a {name}: give a path (str or Path), or a table of pandas, polars (lazy, "
        "too), Arrow (also a RecordBatchReader), DuckDB or Ibis"
    )
