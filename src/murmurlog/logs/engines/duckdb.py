"""Logs on this machine: DuckDB reads them, threads of this process count them.

DuckDB is open only while a log is read, so that its memory is free for what follows.
"""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from murmurlog.bundle.progress import Advance
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs import workspace
from murmurlog.logs.cleaning import Cleaning, column_cleaners
from murmurlog.logs.memory import MemoryPlan, least_memory
from murmurlog.logs.row_typer import SETTINGS
from murmurlog.logs.rows import ReadRows, RowCounts, RowReader, Texts
from murmurlog.logs.source import Source
from murmurlog.logs.source_batches import count_rows, size_of
from murmurlog.logs.sql import quote
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.typed_rows import Selection, batches_of, read_batches
from murmurlog.logs.workspace import (
    Workspace,
    in_words,
    memory_of_machine,
    open_workspace,
)

MOST_MEMORY = 10**15
READING_A_THREAD = 32_000_000  # bytes of DuckDB, for a row group of a Parquet file
FEW_ROWS = 100_000  # not worth several partitions
MOST_BITS = 11
BYTES_A_ROW = 60  # of text; only to choose a number of partitions
UNPACKED = 4  # times the bytes of compressed text
ROWS_OF_A_SERVER = 4_000_000  # which does not say how many there are
SCRATCH_A_ROW = 220  # bytes of texts, keys and codes, and of what is set aside
OUT_OF_MEMORY = (
    "the engine ran out of memory or of disk space to spill to. Raise --memory, or set TMPDIR to a "
    "larger disk."
)


@dataclass(frozen=True, eq=False)
class DuckEngine:
    """Reads logs into a workspace of this machine. Use `connect()`."""

    workspace: Workspace
    memory: MemoryPlan

    name = "duckdb"

    @property
    def version(self) -> str:
        return f"duckdb {duckdb.__version__}"

    def read(
        self,
        source: Source,
        selection: Selection,
        cleaning: Cleaning,
        *,
        unit: str,
        text_keys: TextKeys,
        say: Callable[[str], None],
        advance: Advance,
    ) -> ReadRows:
        """The clean rows of a source in partitions of units."""
        counts = RowCounts()  # of records that cannot be read
        rows = rows_of(source)
        self.workspace.check_space(rows * SCRATCH_A_ROW)
        reader = RowReader(
            cleaning=cleaning, text_keys=text_keys, texts=Texts(self.workspace, column_cleaners(cleaning)),
            unit=unit, bits=bits_for(rows, self.memory),
        )  # fmt: skip
        reader = replace(reader, most_rows=min(reader.most_rows, self.memory.most_rows))

        def count(rows: int) -> None:  # of text bytes are measured, where it is read
            advance(0 if source.dialect else rows, rows=rows)

        with _translate_errors(), open_duckdb(self.workspace, self.memory.duckdb) as connection:
            batches = batches_of(
                source, selection, connection,
                broken=counts.broken, read=partial(advance, rows=0), rows=self.memory.rows_a_batch,
            )  # fmt: skip
            with closing(batches):
                routed = reader.read(
                    batches, self.workspace,
                    type_rows=lambda batch: batch.type_rows(connection.cursor()), advance=count,
                )  # fmt: skip
        routed.counts.add(counts)
        return routed.settle()

    def batches(
        self,
        source: Source,
        selection: Selection,
        *,
        broken: dict[str, int],
        read: Callable[[int], None] = lambda _: None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The typed rows of a source, one batch after the other."""
        with _translate_errors(), open_duckdb(self.workspace, self.memory.duckdb) as connection:
            yield from read_batches(
                source, selection, connection=connection, broken=broken, read=read,
                rows=self.memory.rows_a_batch,
            )  # fmt: skip


@contextmanager
def open_duckdb(
    workspace: Workspace, memory: int = 10 * READING_A_THREAD
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that uses so much memory, and the workspace's folder beyond that."""
    settings = SETTINGS | {
        "preserve_insertion_order": "true",  # a log in order of time stays so
        "temp_directory": str(workspace.folder / "spill"),
        "memory_limit": f"{memory}B",
        "threads": str(max(1, min(workspace.threads, memory // READING_A_THREAD))),
    }
    with duckdb.connect() as connection:
        for name, value in settings.items():
            connection.execute(f"SET {name} = {quote(value)}")
        yield connection


def rows_of(source: Source) -> int:
    """How many rows a source has, or about as many as its size lets expect."""
    rows = count_rows(source)
    if rows is None:
        size = size_of(source)
        packed = UNPACKED if any(source.compressions) else 1
        rows = ROWS_OF_A_SERVER if size is None else size * packed // BYTES_A_ROW
    return rows


def bits_for(rows: int, memory: MemoryPlan) -> int:
    """How many bits of a unit's key say in which partition it is, by the number of rows.

    The number of partitions decides where a unit is counted, never what.
    """
    if rows < FEW_ROWS:
        return 0
    partitions = max(-(-rows // memory.rows_a_partition), 2 * memory.threads)
    return min(MOST_BITS, (partitions - 1).bit_length())


@contextmanager
def _translate_errors() -> Iterator[None]:
    """DuckDB's errors as ours. Its messages can quote values of the log, so they are dropped."""
    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError):
        raise EngineError(OUT_OF_MEMORY) from None
    except (duckdb.IOException, duckdb.InvalidInputException, OSError, pa.ArrowInvalid):
        raise InputError(
            "a file of the source could not be read to its end: it is damaged, or changed while it was "
            "read, or the disk for temporary files is full"
        ) from None
    except (duckdb.ConversionException, duckdb.TypeMismatchException):
        raise InputError(
            "files of the source have columns of one name and different types, or values that do not "
            "fit their type: read them one by one"
        ) from None
    except duckdb.Error as error:
        if type(error) is duckdb.Error:  # a file's own pages are damaged
            raise InputError("a file of the source could not be read: it is damaged") from None
        raise EngineError(f"the engine failed with {type(error).__name__}") from None


def check_memory(memory: str | None) -> None:
    """Raises unless it is a size, such as 8GB, with which any log can be read and counted."""
    if memory:
        _bytes_of(memory)


def _bytes_of(memory: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])(i?)B", memory, re.IGNORECASE)
    if not match:
        raise UsageError(f"--memory {memory!r} is not a size: write it as 8GB or 800MB")
    size = float(match[1]) * (1024 if match[3] else 1000) ** ("KMGT".index(match[2].upper()) + 1)
    if not least_memory() <= size <= MOST_MEMORY:
        raise UsageError(
            f"--memory {memory!r:.40} is not enough for the largest unit that counts, or too much: give it "
            f"{in_words(least_memory())} to 1000 TB"
        )
    return int(size)


@contextmanager
def connect(*, memory: str | None = None, folder: Path | None = None) -> Iterator[DuckEngine]:
    """An engine in a new private folder below `folder` (default: the system's temporary folder)."""
    size = _bytes_of(memory) if memory else max(memory_of_machine(), least_memory())
    plan = MemoryPlan.of(size, cores=workspace.cores())
    with open_workspace(memory=plan.values, threads=plan.threads, folder=folder) as place:
        yield DuckEngine(place, plan)
