"""How the memory that a process may take is divided, and the least that any log needs.

The parts follow from public constants, the memory and the number of cores, so that no row decides whether
a log can be read. Sizes decide where a unit is counted, never what.
"""

from dataclasses import dataclass

from murmurlog.logs import source_batches
from murmurlog.logs.rows import MOST_BYTES_A_UNIT, MOST_BYTES_A_VALUE, MOST_ROWS_A_UNIT
from murmurlog.logs.text_keys import bytes_of_numbers

PROCESS = 260_000_000  # bytes of the interpreter, of libraries, and of what allocators keep
DUCKDB = 64_000_000  # at least, while it reads: row groups of Parquet
BYTES_A_ROW = 700  # that work on a partition or a batch takes at its peak, texts not included
COPIES = 2  # of texts that are put in order
ROWS_A_PARTITION = 400_000  # on average; work on so many stays near the CPU's cache
MOST_ROWS_A_PARTITION = 1 << 20  # a larger one is split again


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """How a process divides the memory that it may take."""

    threads: int
    values: int  # bytes of values that stay in memory
    duckdb: int  # bytes that DuckDB may take while it reads
    rows_a_batch: int
    rows_a_partition: int  # on average
    most_rows: int  # of a partition

    @classmethod
    def of(cls, memory: int, *, cores: int) -> "MemoryPlan":
        """The plan for a number of bytes, at least `least_memory()`."""
        rest = memory - PROCESS - bytes_of_numbers(MOST_BYTES_A_VALUE)
        threads = max(1, min(cores, rest // bytes_of_a_unit()))
        largest = MOST_ROWS_A_PARTITION * BYTES_A_ROW
        share = max(bytes_of_a_unit(), min(largest, rest // 2 // threads))
        work = threads * share
        duckdb = max(DUCKDB, work // 4)
        most_rows = max(MOST_ROWS_A_UNIT, share // BYTES_A_ROW * 3 // 4)
        return cls(
            threads=threads,
            values=max(0, rest - work),
            duckdb=duckdb,
            # A batch for each thread, one that waits, and one that is read; no partition is worked on then.
            rows_a_batch=min(
                source_batches.ROWS_A_BATCH, (work - duckdb) // (BYTES_A_ROW * (threads + 2))
            ),
            rows_a_partition=min(ROWS_A_PARTITION, most_rows * 3 // 4),
            most_rows=most_rows,
        )


def bytes_of_a_unit() -> int:
    """The bytes that work on the largest unit takes."""
    return MOST_ROWS_A_UNIT * BYTES_A_ROW + COPIES * MOST_BYTES_A_UNIT


def least_memory() -> int:
    """The least bytes with which any log can be read and counted, by one thread."""
    return PROCESS + bytes_of_numbers(MOST_BYTES_A_VALUE) + bytes_of_a_unit()
