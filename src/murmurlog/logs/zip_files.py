"""The one log inside a .zip file, chosen by the names of its members and never by their content."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import BadZipFile, LargeZipFile, ZipFile

from murmurlog.errors import InputError

# RuntimeError: a password is needed. NotImplementedError: a method that Python does not know.
UNREADABLE = (BadZipFile, LargeZipFile, RuntimeError, NotImplementedError, zlib.error)
ENDINGS = ("csv", "tsv", "tab", "jsonl", "ndjson", "json")
OTHERS_KEPT = 10  # names in a message


def member_of(file: Path) -> str:
    """The name of the only file in it, or of the only one with the ending of a log."""
    try:
        with ZipFile(file) as packed:
            names = [info.filename for info in packed.infolist() if not info.is_dir()]
    except (OSError, *UNREADABLE):
        raise InputError(f"{file.name} is not a readable .zip file") from None
    visible = [name for name in names if not _is_hidden(name)]
    logs = [name for name in visible if PurePosixPath(name.lower()).suffix[1:] in ENDINGS]
    for candidates in (logs, visible):
        if len(candidates) == 1:
            return candidates[0]
    examples = ", ".join(visible[:OTHERS_KEPT]) + (
        " and others" if len(visible) > OTHERS_KEPT else ""
    )
    raise InputError(
        f"{file.name} must hold one log, and it holds {len(logs) or len(visible)}: {examples or 'no file'}. "
        "Unpack it into a folder and name the folder or a file."
    )


def _is_hidden(name: str) -> bool:
    """Whether it is a file of another program, such as .DS_Store or __MACOSX/..."""
    return any(part.startswith((".", "__")) for part in PurePosixPath(name).parts)


@contextmanager
def open_member(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The bytes of one member of an open file."""
    with ZipFile(file) as packed, packed.open(name) as stream:
        yield stream
