"""A log from standard input, copied to a private folder for as long as it is read."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import DiskError, UsageError
from murmurlog.logs.options import FORMATS, SourceOptions

STDIN = "-"
BLOCK = 1 << 20


@contextmanager
def on_disk(source: str, options: SourceOptions) -> Iterator[str]:
    """The source's name; of `-` that of a copy of standard input, which is gone when the block ends.

    The folder is readable by this user only. After a crash the next command removes it.
    """
    if source != STDIN:
        yield source
        return
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
