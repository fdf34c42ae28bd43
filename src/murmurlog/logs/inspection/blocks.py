"""The lines of text files, whole files or blocks spread over large ones, with little memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.logs.formats import pieces

MOST = 1 << 27  # bytes of a file that are looked at; of a larger file, blocks spread over it
BLOCK = 1 << 22
RATIO = 4  # of a compressed log's text to its size, about


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A text file, by its name compressed or not."""

    path: Path
    compression: str | None = None

    @property
    def step(self) -> int:
        """Every how many blocks one is read."""
        size = self.path.stat().st_size * (RATIO if self.compression else 1)
        return max(1, -(-size // MOST))

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines, in order; the first line of the file is always among them."""
        if self.step == 1:
            yield from whole_lines(pieces(self.path, self.compression))
        elif self.compression:
            yield from self._some_pieces()
        else:
            yield from self._some_blocks()

    def whole(self) -> Iterator[bytes]:
        """All bytes, in pieces."""
        yield from pieces(self.path, self.compression)

    def _some_pieces(self) -> Iterator[bytes]:
        for number, piece in enumerate(pieces(self.path, self.compression, block=BLOCK)):
            if number % self.step == 0:
                yield _inner_lines(piece, first=number == 0)

    def _some_blocks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            for start in range(0, self.path.stat().st_size, BLOCK * self.step):
                file.seek(start)
                yield _inner_lines(file.read(BLOCK), first=start == 0)


def whole_lines(stream: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut after line feeds only."""
    rest = b""
    for piece in stream:
        text = rest + piece
        cut = text.rfind(b"\n") + 1
        if cut:
            yield text[:cut]
        rest = text[cut:]
    if rest:
        yield rest + b"\n"


def _inner_lines(block: bytes, *, first: bool) -> bytes:
    """The lines that begin and end in a block."""
    start = 0 if first else block.find(b"\n") + 1
    return block[start : block.rfind(b"\n") + 1]


class Spread:
    """Up to `most` items of a stream of any length, evenly spread over it."""

    def __init__(self, most: int) -> None:
        self.most, self.step, self.seen = most, 1, 0
        self.items: list[Any] = []

    def extend(self, items: Sequence[Any]) -> None:
        """Keeps every n-th item; n doubles when there are too many."""
        self.items += items[-self.seen % self.step :: self.step]
        self.seen += len(items)
        while len(self.items) > self.most:
            self.items, self.step = self.items[::2], self.step * 2
