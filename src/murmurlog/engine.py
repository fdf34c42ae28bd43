"""The embedded engine: DuckDB behind Ibis, in a private folder that is wiped at the end.

Holds everything that depends on where the relational steps run. Knows nothing about logs.
"""

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa

from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.scratch import scratch

ROWS_A_BATCH = 200_000
OUT_OF_MEMORY = (
    "the engine ran out of memory or of room to spill. Give it more with --memory, or point TMPDIR "
    "to a larger disk."
)


class Engine:
    """A connection whose tables spill to a private folder. Use `engine.connect()`."""

    name = "duckdb"

    def __init__(self, backend: Any, folder: Path) -> None:
        self.backend = backend
        self.folder = folder  # private, gone with the engine
        self._tables = 0

    @property
    def version(self) -> str:
        return f"duckdb {duckdb.__version__}, ibis {ibis.__version__}"

    def sql(self, statement: str) -> Any:
        """Runs a DuckDB statement and returns its cursor; its errors are DuckDB's."""
        return self.backend.con.execute(statement)

    def materialise(self, expression: Any) -> Any:
        """The expression's rows, computed once and kept."""
        self._tables += 1
        with _told():
            return self.backend.create_table(f"t{self._tables}", expression)

    def keep(self, table: pa.Table) -> Any:
        """An Arrow table as a table of the engine."""
        self._tables += 1
        with _told():
            return self.backend.create_table(f"t{self._tables}", ibis.memtable(table))

    def batches(self, expression: Any) -> Iterator[pa.RecordBatch]:
        """The expression's rows as a stream of Arrow batches, on a connection of its own."""
        statement = ibis.to_sql(expression, dialect="duckdb")
        cursor = self.backend.con.cursor()
        try:
            with _told():
                yield from cursor.execute(statement).to_arrow_reader(ROWS_A_BATCH)
        finally:
            cursor.close()

    def filled(
        self, schema: pa.Schema, source: Any, function: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Any:
        """A new table of `schema`, made by a Python function from the batches of `source`."""
        self._tables += 1
        name = f"t{self._tables}"
        table = self.backend.create_table(name, schema=ibis.Schema.from_pyarrow(schema))
        for batch in self.batches(source):
            self.backend.con.register("incoming", function(batch))
            with _told():
                self.backend.con.execute(f"INSERT INTO {name} SELECT * FROM incoming")
            self.backend.con.unregister("incoming")
        return table

    def self_test(self) -> None:
        """Raises unless the engine gives known answers for what the privacy proofs rely on."""
        hostile = ["a", "é", "İ", "x'y", "", "\u05d0", "👩\u200d🔬", "Z", "\uffff"]
        table = ibis.memtable(pa.table({"s": hostile}))
        rows = self.backend.to_pyarrow(
            table.mutate(h=table.s.hexdigest("sha256"), n=table.s.length()).order_by("s")
        ).to_pylist()
        expected = [
            {"s": s, "h": hashlib.sha256(s.encode()).hexdigest(), "n": len(s)}
            for s in sorted(hostile, key=str.encode)
        ]
        if rows != expected:
            raise EngineError(
                f"{self.version} fails its self-test: hashing, length or byte order differ from "
                "Python's, so bounding would not be what the proof assumes. Install the versions "
                "of requirements.txt."
            )


@contextmanager
def _told() -> Iterator[None]:
    """DuckDB's errors as ours. Its texts can quote values of the log, so most are not passed on."""
    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError):
        raise EngineError(OUT_OF_MEMORY) from None
    except (duckdb.IOException, duckdb.InvalidInputException, OSError, pa.ArrowInvalid):
        raise InputError(
            "a file of the source could not be read to its end: it is damaged, or changed meanwhile, "
            "or the disk for temporary files is full"
        ) from None
    except duckdb.Error as error:
        raise EngineError(f"the engine failed with {type(error).__name__}") from None


def check_memory(memory: str | None) -> None:
    """Raises unless it is a size, such as 8GB."""
    if memory and not re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", memory, re.IGNORECASE):
        raise UsageError(f"--memory {memory!r} is not a size: write it as 8GB or 500MB")


@contextmanager
def connect(*, memory: str | None = None, folder: Path | None = None) -> Iterator[Engine]:
    """An engine in a new private folder below `folder` (default: the system's temporary one)."""
    with scratch(folder or Path(tempfile.gettempdir())) as private:
        # Tables live in memory and spill to the folder; a database file costs four times the CPU.
        backend = ibis.duckdb.connect()
        try:
            settings = {
                "temp_directory": str(private / "spill"),
                "preserve_insertion_order": "false",
                "TimeZone": "UTC",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "enable_progress_bar": "false",
            }
            if memory:
                check_memory(memory)
                settings["memory_limit"] = memory
            for name, value in settings.items():
                backend.con.execute(f"SET {name} = {quoted(value)}")
            engine = Engine(backend, private)
            engine.self_test()
            yield engine
        finally:
            backend.disconnect()


def quoted(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
