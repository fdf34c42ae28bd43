"""The embedded engine: DuckDB behind Ibis, in a private folder that is deleted at the end.

Knows nothing about logs.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs.workspace import open_workspace

ROWS_A_BATCH = 200_000
LEAST_MEMORY = 2_000_000  # bytes; with less the engine cannot even be started
MOST_MEMORY = 10**15
OUT_OF_MEMORY = (
    "the engine ran out of memory or of disk space to spill to. Raise --memory, or set TMPDIR to a "
    "larger disk."
)


def _epoch_us(time: Any) -> Any: ...


_MICROSECONDS = ibis.udf.scalar.builtin(
    _epoch_us, name="epoch_us", signature=(("timestamp",), "int64")
)


class DuckEngine:
    """A connection whose tables spill to a private folder. Use `engine.connect()`."""

    name = "duckdb"
    dense = True

    def __init__(self, backend: Any, folder: Path, workspace: Any) -> None:
        self.backend, self.workspace = backend, workspace
        self.folder = folder  # private, deleted with the engine
        self._tables = 0
        self._shown: dict[str, pa.Table] = {}

    @property
    def version(self) -> str:
        return f"duckdb {duckdb.__version__}, ibis {ibis.__version__}"

    @property
    def local(self) -> "DuckEngine":
        return self

    @property
    def cluster(self) -> None:
        return None

    def new_name(self) -> str:
        """A name that no table of the engine has."""
        self._tables += 1
        return f"t{self._tables}"

    def sql(self, statement: str) -> Any:
        """Runs a DuckDB statement and returns its cursor; its errors are DuckDB's."""
        return self.backend.con.execute(statement)

    def materialise(self, expression: Any) -> Any:
        """The expression's rows, computed once and kept."""
        with _translate_errors():
            return self.backend.create_table(self.new_name(), expression)

    def keep(self, table: pa.Table) -> Any:
        """An Arrow table as a table of the engine."""
        name = self.new_name()
        with _translate_errors(), self.backend.con.cursor() as cursor:
            cursor.register("given", table)  # `ibis.memtable` would import pandas
            cursor.execute(f"CREATE TABLE {name} AS FROM given")
        return self.backend.table(name)

    def show(self, table: pa.Table) -> Any:
        """An Arrow table as a table of the engine, without a copy; dictionaries become strings."""
        name = self.new_name()
        self._shown[name] = table
        self.backend.con.register(name, table)
        return self.backend.table(name)

    def find_shown(self, expression: Any) -> pa.Table | None:
        """The Arrow table that `show` was given, if the expression is what it returned."""
        return self._shown.get(_name(expression))

    @contextmanager
    def open_file(self, schema: pa.Schema) -> Iterator[tuple[Path, pa.ipc.RecordBatchFileWriter]]:
        """A new Arrow file in the engine's private folder, and its writer."""
        file = self.folder / f"{self.new_name()}.arrow"
        with (
            _translate_errors(),
            pa.OSFile(str(file), "wb") as out,
            pa.ipc.new_file(out, schema) as writer,
        ):
            yield file, writer

    def store(self, table: pa.Table) -> Path:
        """The table as an Arrow file in the engine's private folder."""
        with self.open_file(table.schema) as (file, writer):
            writer.write_table(table)
        return file

    def buckets(self, texts: pa.Array, count: int) -> Any:
        """Of each text (or whole number) a number below `count`, up to 256, that depends on it alone."""
        cursor = self.backend.con.cursor()
        cursor.register("texts", pa.table({"text": texts, "place": np.arange(len(texts))}))
        statement = f"SELECT place, (hash(text) % {count})::UTINYINT AS bucket FROM texts"
        with _translate_errors(), closing(cursor):
            found = cursor.execute(statement).fetchnumpy()
        buckets = np.empty(len(texts), np.uint8)
        buckets[found["place"]] = found["bucket"]  # rows come in any order
        return buckets

    @property
    def memory(self) -> int:
        """The bytes that the engine may use before it spills."""
        ((limit,),) = self.sql(
            "SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'"
        ).fetchall()
        number, unit = limit.split()
        return int(float(number) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit))

    @contextmanager
    def halve_memory(self) -> Iterator[None]:
        """Temporarily halves DuckDB's memory limit; it spills what it holds beyond."""
        whole = self.memory
        with _translate_errors():
            self.sql(f"SET memory_limit = '{whole // 2}B'")
        try:
            yield
        finally:
            self.sql(f"SET memory_limit = '{whole}B'")

    def batches(self, expression: Any) -> Iterator[pa.RecordBatch]:
        """The expression's rows as a stream of Arrow batches, on a connection of its own."""
        return self._stream(expression, rows=ROWS_A_BATCH, ordered=False)

    def read_in_order(self, expression: Any, *, rows: int) -> Iterator[pa.RecordBatch]:
        """The same in batches of `rows` rows; rows of a file come in the file's order."""
        return self._stream(expression, rows=rows, ordered=True)

    def _stream(self, expression: Any, *, rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        if (shown := self.find_shown(expression)) is not None:
            schema = pa.schema([(name, _plain(kind)) for name, kind in _types(shown)])
            for batch in shown.to_batches(rows):
                yield batch.cast(schema)
            return
        statement = ibis.to_sql(expression, dialect="duckdb")
        cursor = self.backend.con.cursor()
        try:
            for name, table in self._shown.items():
                cursor.register(name, table)
            with _translate_errors():
                self.sql(f"SET preserve_insertion_order = {ordered}")
                yield from cursor.execute(statement).to_arrow_reader(rows)
        finally:
            self.sql("SET preserve_insertion_order = false")
            cursor.close()

    def map_batches(
        self, schema: pa.Schema, source: Any, function: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Any:
        """A new table of `schema`, made by a Python function from the batches of `source`."""
        return self.store_batches(schema, map(function, self.batches(source)))

    def number_rows(self, expression: Any, name: str) -> Any:
        """The expression's rows, kept, with their places 0, 1, .. in the order of all columns."""
        place = ibis.row_number().over(ibis.window(order_by=list(expression.columns)))
        return self.materialise(expression.mutate(**{name: place.cast("int64")}))

    def store_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        """A stream of Arrow batches as a table of the engine."""
        name = self.new_name()
        table = self.backend.create_table(name, schema=ibis.Schema.from_pyarrow(schema))
        for batch in batches:
            self.backend.con.register("incoming", batch)
            with _translate_errors():
                self.backend.con.execute(f"INSERT INTO {name} SELECT * FROM incoming")
            self.backend.con.unregister("incoming")
        return table

    def microseconds(self, time: Any) -> Any:
        """A time as whole microseconds since 1970, so that differences are exact."""
        return _MICROSECONDS(time)

    def read(
        self,
        source: Any,
        cleaning: Any,
        *,
        where: Any,
        keep: Any,
        unit: str,
        text_keys: Any,
        say: Callable[[str], None],
        advance: Callable[[int], None],
    ) -> Any:
        """The clean rows of a source in partitions of units."""
        from murmurlog.logs.duckdb_rows import count_rows, raw_rows
        from murmurlog.logs.rows import RowReader, Texts

        broken: dict[str, int] = {}
        raw = raw_rows(source, self, broken, where, keep, say)
        columns = {"user": raw["user_number"] if "user_number" in raw.columns else raw.user, "query": raw.query}
        if cleaning.timed:
            columns |= {"time": raw.time, "bad_time": raw.timed & raw.time.isnull()}
        if cleaning.url is not None:
            columns |= {"url": raw.url, "rank": raw["rank"]}
        columns |= {f"k{i}": raw[f"k{i}"] for i in range(len(cleaning.keep))}
        rows = raw.select(**columns)
        say("normalising text")
        total = count_rows(source) or 1_000_000
        bits = min(8, max(0, (total // 200_000).bit_length()))
        reader = RowReader(
            cleaning=cleaning, text_keys=text_keys, texts=Texts(self.workspace), unit=unit, bits=bits
        )
        found = reader.read(self._stream(rows, rows=ROWS_A_BATCH, ordered=False), self.workspace, advance)
        for reason, number in found.broken.items():
            broken[reason] = broken.get(reason, 0) + number
        from dataclasses import replace
        return replace(found, broken=broken)


def _name(expression: Any) -> str:
    """The name of a table, if the expression is no more than that."""
    op = expression.op()
    return str(op.name) if isinstance(op, ibis.expr.operations.DatabaseTable) else ""


def _types(table: pa.Table) -> list[tuple[str, pa.DataType]]:
    return list(zip(table.schema.names, table.schema.types, strict=True))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@contextmanager
def _translate_errors() -> Iterator[None]:
    """DuckDB's errors as ours. Its messages can quote values of the log, so most are dropped."""
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
    """Raises unless it is a size, such as 8GB."""
    if memory:
        _for_tables(memory)


def _for_tables(memory: str) -> int:
    """DuckDB's part of it, in bytes: the process itself takes up to a gigabyte."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])(i?)B", memory, re.IGNORECASE)
    if not match:
        raise UsageError(f"--memory {memory!r} is not a size: write it as 8GB or 500MB")
    size = float(match[1]) * (1024 if match[3] else 1000) ** ("KMGT".index(match[2].upper()) + 1)
    if not LEAST_MEMORY <= size <= MOST_MEMORY:
        raise UsageError(
            f"--memory {memory!r:.40} is not a size that the engine can start with: give it 2MB to 1000TB"
        )
    return int(size - min(size / 5, 1e9))


@contextmanager
def connect(*, memory: str | None = None, folder: Path | None = None) -> Iterator[DuckEngine]:
    """An engine in a new private folder below `folder` (default: the system's temporary folder)."""
    with scratch(folder or Path(tempfile.gettempdir())) as private:
        # Tables live in memory and spill to the folder; a database file costs four times the CPU.
        backend = ibis.duckdb.connect()
        try:
            settings = {
                "temp_directory": str(private / "spill"),
                "preserve_insertion_order": "false",
                "GLOBAL TimeZone": "UTC",  # else cursors use that of the machine
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "enable_progress_bar": "false",
            }
            if memory:
                settings["memory_limit"] = f"{_for_tables(memory)}B"
            for name, value in settings.items():
                backend.con.execute(f"SET {name} = {quoted(value)}")
            with open_workspace(memory=_for_tables(memory) if memory else None, folder=private) as workspace:
                yield DuckEngine(backend, private, workspace)
        finally:
            backend.disconnect()


def quoted(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literal(path: Path) -> str:
    """The SQL of a file name that DuckDB reads literally, without patterns."""
    name = str(path)
    if "\\" in name and any(c in name for c in "*?["):
        raise InputError(
            f"the path of {path.name!r} has a backslash and one of *?[ in it, which DuckDB cannot "
            "tell from a pattern: rename the file or the folder"
        )
    return quoted(re.sub(r"[*?\[]", r"[\g<0>]", name))


def identifier(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
