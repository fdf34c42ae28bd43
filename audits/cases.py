"""What a hostile input is, and the secrets that are planted in every log."""

import gzip
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

# In every hostile log, held by one user: nothing that is printed, published or left may show them.
QUERY, USER, URL = "zorbafinch77 street", "wexlerid88", "quondam55.example"
SECRETS = tuple(text.encode() for text in (QUERY, USER, URL))
MOST = 700 << 20  # bytes of memory that an ordinary run may take
LOG_CODES = frozenset({0, 4})  # used as it is, or refused as a log
FAST = (
    *("--mechanism", "threshold(noise=geometric, d=1, scale=1.0, T=24)", "--tables", "query"),
    *("--out", "out/bundle", "--ledger", "books/ledger.db", "--source", "web", "--new-source"),
)


@dataclass(frozen=True)
class Case:
    """One run: what is written into its folder, the command, and which exit codes are right."""

    kind: str
    name: str
    make: Callable[[Path], None]
    arguments: tuple[str, ...]
    codes: frozenset[int] = LOG_CODES
    most: int = MOST  # bytes of memory


def release(log: str, *more: str) -> tuple[str, ...]:
    """The command that publishes the queries of a log at little cost."""
    said: tuple[str, ...] = ()
    if ".jsonl" in log and "--columns" not in more:  # which keys count is never read off rows
        said = ("--columns", "user=user,time=time,query=query,url=url")
    elif log.startswith(("sogou", "excite")):
        said = ("--shape", log.partition(".")[0])
    # Most rows of a hostile log may be broken; the release is to go on all the same.
    return ("release", log, *FAST, "--max-broken", "1", *said, *more)


def rows(count: int = 60) -> list[dict[str, str]]:
    """A small sound log, in which one user has secrets."""
    day = "2026-01-31 18:00:0"
    made = [
        {"user": f"u{n}", "time": f"{day}{n % 10}", "query": f"common {n % 2}", "url": "a.example"}
        for n in range(count)
    ]
    return [*made, {"user": USER, "time": f"{day}1", "query": QUERY, "url": URL}]


def table(count: int = 60) -> pa.Table:
    return pa.Table.from_pylist(rows(count))


def text(format: str, count: int = 60, names: Sequence[str] = ()) -> str:
    """The log as CSV, TSV or JSONL, with other names of its columns if they are given."""
    import csv
    import io
    import json

    names = names or ("user", "time", "query", "url")
    if format == "jsonl":
        lines = (dict(zip(names, row.values(), strict=False)) for row in rows(count))
        return "".join(json.dumps(line) + "\n" for line in lines)
    if format == "tsv":
        every = [names, *(row.values() for row in rows(count))]
        return "".join("\t".join(line) + "\n" for line in every)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names, *(row.values() for row in rows(count))])
    return out.getvalue()


Content = bytes | str | Callable[[], bytes]  # large ones are made when they are needed


def writes(name: str, content: Content) -> Callable[[Path], None]:
    """Writes one file into the folder of a run."""

    def make(root: Path) -> None:
        made = content() if callable(content) else content
        (root / name).write_bytes(made if isinstance(made, bytes) else made.encode())

    return make


def packed(content: bytes, how: str) -> bytes:
    """The content as .gz or .zst."""
    if how == "gz":
        return gzip.compress(content, mtime=0)
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def bomb(piece: bytes, times: int, how: str) -> bytes:
    """A piece repeated, packed without ever being held unpacked: members or frames in a row."""
    return packed(piece, how) * times


def mutated(content: bytes, choice: random.Random) -> bytes:
    """The content after a few changes: bytes turned, cut out, repeated, or replaced by nasty ones."""
    nasty = (
        b"\x00", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b"\r\n", b'"', b"'", b"\t", b",", b"\\",
        b"{", b"}", b"[" * 50, b"1e999", b"-1", b"9" * 30, b"NaN", b"null", b"\xef\xbb\xbf",
        b"\xff\xfe", b"\xe2\x80\xae", b"=cmd()", b"<script>", b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd",
    )  # fmt: skip
    spoiled = bytearray(content)
    for _ in range(choice.randint(1, 6)):
        at = choice.randrange(len(spoiled) + 1)
        how = choice.randrange(6)
        if how == 0 and at < len(spoiled):
            spoiled[at] ^= 1 << choice.randrange(8)
        elif how == 1:
            spoiled[at:at] = choice.choice(nasty)
        elif how == 2:
            del spoiled[at : at + choice.randint(1, 40)]
        elif how == 3:
            end = at + choice.randint(1, 200)
            spoiled[at:at] = spoiled[at:end]
        elif how == 4:
            spoiled[at : at + 4] = choice.randbytes(4)
        elif choice.random() < 0.2:
            del spoiled[at:]
    return bytes(spoiled)
