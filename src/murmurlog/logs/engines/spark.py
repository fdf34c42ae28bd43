"""The engine for clusters: Spark behind Ibis, with tables as Parquet files that all workers reach.

Nothing is collected: what is used twice is written to a private folder and read again, and rows
come to this process as a stream of Arrow batches, one partition at a time. No noise is drawn on a
worker, where a task can run twice. Python functions run on the workers, on batches; the package
is sent there as a zip file. Independent of logs. Spark comes with the extra `spark` and is imported
late.
"""

import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle.keys import NORMALISER, normalise
from murmurlog.bundle.scratch import PREFIX, scratch
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.engines.protocol import SharedTable, Work
from murmurlog.logs.engines.self_test import HOSTILE, self_test
from murmurlog.logs.engines.spark_errors import translate_errors
from murmurlog.logs.engines.spark_worker import (
    SENT,
    BroadcastTable,
    MappedTable,
    apply_to_each,
    check_normaliser,
    normalise_texts,
    pack,
)

ROWS_A_BATCH = 20_000
ROWS_A_GROUP = 1_000_000  # of a file that this process writes
BYTES_A_GROUP = 2 << 20  # of a source's files, for each partition of encoded rows
MOST_GROUPS = 4096
SHARDS_A_TASK = 4
ROW_GROUP = 16 << 20  # bytes; a stream holds about one row group
IPC = "ipc binary"  # the schema of Arrow batches on their way
# Settings that override the cluster's defaults.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.ansi.enabled": "false",  # its errors quote values
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
}
# Java compiles for short runs: its second compiler took most of the time of a small release. The driver, which
# plans and moves rows of bytes, does without; on executors it waits for code that runs ten times as often.
EXECUTORS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
AT_START = {
    "spark.app.name": "murmurlog",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.defaultJavaOptions": EXECUTORS,
    "spark.ui.enabled": "false",  # it would show query plans to anyone who opens the port
    "spark.ui.showConsoleProgress": "false",
}
# For every table that is written, also in a session that we did not start.
WRITTEN = {
    "parquet.block.size": str(ROW_GROUP),
    # With version 2 a task that fails during its commit leaves rows behind.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
# Paths are read literally: * is not a pattern and `day=1` not a column.
LITERALLY = {
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    # The default client needs a checksum file, whose name fails for files with a colon.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
PIP = "pip install 'murmurlog[spark]'"


def _time(time: Any) -> Any: ...


# Times have no zone in our tables, but Spark counts from 1970 only in one; the session's is UTC.
_ZONED = ibis.udf.scalar.builtin(
    _time, name="to_timestamp_ltz", signature=(("timestamp",), "timestamp")
)
_MICROSECONDS = ibis.udf.scalar.builtin(
    _time, name="unix_micros", signature=(("timestamp",), "int64")
)


class SparkEngine:
    """A session whose tables are Parquet files in a private folder. Use `spark.connect()`."""

    name = "spark"
    local = None
    dense = False  # each partition counts for itself

    def __init__(self, session: Any, folder: str, private: Path) -> None:
        self.session = session
        self.backend = _backend(session)
        self.folder = folder  # where workers write; deleted with the engine
        self.private = private  # a folder of this machine; deleted with the engine
        self._tables = 0
        self._kept: dict[str, str] = {}  # the files of tables, by their names
        # The same folder as a path of this machine, if it is one: Hadoop does not decode a %20.
        on_disk = re.fullmatch(r"file:/+(?P<path>.*)", folder)
        self._disk = Path("/" + on_disk["path"]) if on_disk else None

    @property
    def version(self) -> str:
        return f"spark {self.session.version}, ibis {ibis.__version__}"

    def materialise(self, expression: Any) -> Any:
        """The expression's rows, computed once and kept."""
        with translate_errors():
            return self.write(self.session.sql(self.backend.compile(expression)))

    def keep(self, table: pa.Table) -> Any:
        """An Arrow table as a table of the engine, by way of a file on this machine."""
        return self.store_batches(table.schema, table.to_batches())

    def batches(self, expression: Any) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of Arrow batches, unordered; little of them is in memory at a time."""
        if not isinstance(expression.op(), ibis.expr.operations.DatabaseTable) or (
            expression.get_name() not in self._kept
        ):
            # A task that is repeated must not change the rows.
            expression = self.materialise(expression)
        yield from self.read(expression, *expression.columns)

    def read(self, table: Any, *columns: str) -> Iterator[pa.RecordBatch]:
        """Some columns of a table that was kept, in no particular order."""
        schema, name = table.select(*columns).schema().to_pyarrow(), table.get_name()
        if self._disk is not None:  # no job of Spark is needed where this process reads the files
            path = self._disk / self._kept[name]
            for file in [path] if path.is_file() else sorted(path.glob("part-*")):
                with file.open("rb") as opened:
                    for batch in pq.ParquetFile(opened).iter_batches(ROWS_A_BATCH, columns=columns):
                        yield batch.select(columns).cast(schema)
            return
        with translate_errors():
            rows = self.session.table(name).select(*columns)
            for (one,) in rows.mapInArrow(pack, IPC).toLocalIterator():
                with pa.ipc.open_stream(one) as stream:
                    for batch in stream:
                        yield batch.cast(schema)

    def map_batches(
        self, schema: pa.Schema, source: Any, function: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Any:
        """A new table of `schema`, made by a Python function from the batches of `source`.

        The function runs on the workers, and more than once where a task is lost.
        """
        with translate_errors():
            return self.map_stream(source, partial(apply_to_each, function=function), schema)

    def number_rows(self, expression: Any, name: str) -> Any:
        """The expression's rows, kept, with a whole number in a new column: no two have the same.

        The numbers have gaps, because each partition counts for itself, and are unique: a task that
        is repeated replaces its earlier output.
        """
        from pyspark.sql import functions

        with translate_errors():
            rows = self.session.sql(self.backend.compile(expression))
            return self.write(rows.withColumn(name, functions.monotonically_increasing_id()))

    def store_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        """A stream of Arrow batches as a table, by way of a file on this machine."""
        file = self.private / f"{self._new()}.parquet"
        with pq.ParquetWriter(file, schema) as out:
            for batch in batches:
                out.write_batch(batch, row_group_size=ROWS_A_GROUP)
        return self.adopt(file, schema)

    @property
    def cluster(self) -> "SparkEngine":
        return self

    @property
    def tasks(self) -> int:
        """How many tasks run at the same time."""
        return int(self.session.sparkContext.defaultParallelism)

    def group_rows(self, rows: Any, by: str, work: Work, schema: pa.Schema) -> Any:
        """What `work` makes of each group of rows, kept; rows with one value of `by` are in one group."""
        with translate_errors():
            frame = self.session.sql(self.backend.compile(rows))
            size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
            groups = min(max(self.tasks, -(-size // BYTES_A_GROUP)), MOST_GROUPS)
            return self.write(self._map(frame.repartition(groups, by), work, schema))

    def map_stream(self, source: Any, work: Work, schema: pa.Schema) -> Any:
        """What `work` makes of the rows of a table, as many at a time as a task has; kept."""
        with translate_errors():
            return self.write(self._map(self._frame(source), work, schema))

    def exchange(
        self, source: Any, work: Work, then: Work, schema: pa.Schema, *, shards: int
    ) -> Any:
        """What `then` makes of the rows (shard, bytes) that `work` makes, those of a shard together; kept."""
        with translate_errors():
            sent = self._map(self._frame(source), work, SENT)
            together = sent.repartition(max(self.tasks, shards // SHARDS_A_TASK), "shard")
            return self.write(self._map(together, then, schema))

    def unpack(self, source: Any, work: Work, schema: pa.Schema) -> Any:
        """What `work` makes of the rows of a table, computed whenever it is used."""
        with translate_errors():
            return self.view(self._map(self._frame(source), work, schema))

    def _frame(self, source: Any) -> Any:
        return self.session.sql(self.backend.compile(source))

    def _map(self, frame: Any, work: Work, schema: pa.Schema) -> Any:
        checked = partial(check_normaliser, work=work, normaliser=NORMALISER)
        return frame.mapInArrow(checked, spark_schema(schema))

    def share(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> SharedTable:
        """The batches as a table that workers can open, a chunk for each."""
        file = self.private / f"{self._new()}.arrow"
        with pa.ipc.new_file(file, schema) as out:
            for batch in batches:
                out.write_batch(batch)
        if self._disk is None:
            sent = self.session.sparkContext.broadcast(file.read_bytes())
            return BroadcastTable(sent)
        return MappedTable(str(shutil.move(file, self._disk / file.name)))

    def microseconds(self, time: Any) -> Any:
        """A time as whole microseconds since 1970, so that differences are exact."""
        return _MICROSECONDS(_ZONED(time))

    def write(self, rows: Any) -> Any:
        """The rows of a Spark frame, written once, as a table."""
        name = self._new()
        path = f"{self.folder}/{name}"
        with translate_errors():
            rows.write.options(**WRITTEN).parquet(path)
            self._kept[name] = name
            again = self.session.read.options(**LITERALLY).schema(rows.schema)
            return self.view(again.parquet(path), name)

    def view(self, rows: Any, name: str | None = None) -> Any:
        """The rows of a Spark frame as a table that is computed whenever it is used."""
        name = name or self._new()
        with translate_errors():
            rows.createTempView(name)
            return self.backend.table(name)

    def adopt(self, file: Path, schema: pa.Schema) -> Any:
        """A Parquet file of this machine as a table; it is moved to where workers reach it."""
        name = self._new()
        target = f"{self.folder}/{name}.parquet"
        with translate_errors():
            if self._disk is not None:
                shutil.move(file, self._disk / f"{name}.parquet")
            else:
                path = _hadoop_path(self.session, target)
                files = path.getFileSystem(self.session.sparkContext._jsc.hadoopConfiguration())
                files.moveFromLocalFile(_hadoop_path(self.session, literal(file)), path)
            self._kept[name] = f"{name}.parquet"
            again = self.session.read.options(**LITERALLY).schema(spark_schema(schema))
            return self.view(again.parquet(target), name)

    def _new(self) -> str:
        self._tables += 1
        return f"t{self._tables}"

    def self_test(self) -> None:
        """Raises unless Spark and the workers' Python give known answers."""
        self_test(self)
        schema = pa.schema([("raw", pa.string()), ("clean", pa.string())])
        given = self.keep(pa.table({"raw": pa.array(HOSTILE, pa.string())}))
        found = self.map_batches(schema, given, normalise_texts)
        rows = {row["raw"]: row["clean"] for b in self.batches(found) for row in b.to_pylist()}
        if rows != {text: normalise(text) for text in HOSTILE}:
            raise EngineError(
                f"{self.version} fails its self-test: text that is cleaned on the workers differs "
                "from what this process makes of it. Use one version of Python."
            )


def is_uri(path: str) -> bool:
    """Whether only Spark can read the path: s3a://..., hdfs://..."""
    return re.match(r"[a-z][a-z0-9+.-]*://", path, re.IGNORECASE) is not None


def literal(path: Path) -> str:
    """A path of this machine as Hadoop and Spark name it.

    It is not a URI: percent signs, spaces and other characters are not escaped.
    """
    return f"file://{path.resolve()}"


def check_settings(*, master: str | None, scratch_at: str | None, memory: str | None) -> None:
    """Raises unless the settings are consistent; starts nothing."""
    if memory:
        raise UsageError(
            "--memory is for --engine duckdb: Spark's memory is spark.executor.memory and "
            "spark.driver.memory, in spark-defaults.conf"
        )
    if scratch_at is None and master is not None and not master.startswith("local"):
        raise UsageError(
            f"--master {master} needs --scratch: a folder that this machine and all workers reach, "
            "such as a shared disk, hdfs://... or s3a://..."
        )
    if scratch_at is not None and not is_uri(scratch_at) and not Path(scratch_at).is_dir():
        raise UsageError(f"--scratch {scratch_at!r} is not a folder: create it first")


@contextmanager
def connect(
    *, master: str | None = None, scratch_at: str | None = None, test: bool = True
) -> Iterator[SparkEngine]:
    """An engine on a cluster, or on this machine with master local[*].

    Without a master it is the one that spark-submit or spark-defaults.conf names, or the session
    that runs already. Its tables are in a new private folder below `scratch_at`.
    """
    check_settings(master=master, scratch_at=scratch_at, memory=None)
    with ExitStack() as stack:
        private = stack.enter_context(scratch(Path(tempfile.gettempdir())))
        session, own = _session(master, private)
        if own:
            stack.callback(session.stop)
        _check_driver(session)
        check_settings(master=session.sparkContext.master, scratch_at=scratch_at, memory=None)
        folder = stack.enter_context(_folder(session, scratch_at, private))
        session.sparkContext.addPyFile(_package(private).as_uri())  # a URI indeed: # would end it
        engine = SparkEngine(session, folder, private)
        if test:
            engine.self_test()
        yield engine


def _check_driver(session: Any) -> None:
    """Raises if the disk of this process, and a bundle and a ledger on it, would be gone at its end."""
    if session.sparkContext.getConf().get("spark.submit.deployMode", "client") == "cluster":
        raise UsageError(
            "spark.submit.deployMode is cluster: this process runs on a machine of the cluster, whose disk is "
            "gone at its end, and the bundle and the ledger with it. Submit with --deploy-mode client"
        )


def _session(master: str | None, private: Path) -> tuple[Any, bool]:
    """A session of Spark and whether it is ours to stop."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EngineError(f"--engine spark needs Spark, which is not installed: {PIP}") from None
    if master is None and (running := SparkSession.getActiveSession()) is not None:
        session, own = running.newSession(), False
    else:
        if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
            raise EngineError(
                "--engine spark needs a Java runtime, and there is none: install one, such as "
                "openjdk-17-jre-headless, or set JAVA_HOME"
            )
        session, own = _started(SparkSession, master, private), True
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    _silence()
    return session, own


def _silence() -> None:
    """Stops Spark 4 from printing whole errors, which quote plans and values."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _started(kind: Any, master: str | None, private: Path) -> Any:
    if kind.getActiveSession() is not None:
        raise EngineError("a Spark session runs in this process: use it by leaving --master out")
    builder = kind.builder
    for name, value in AT_START.items():
        builder = builder.config(name, value)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            if "," in str(private):
                raise UsageError(
                    f"the folder for temporary files, {str(private.parent)!r}, has a comma in its "
                    "name, which Spark takes for two folders: name another with TMPDIR"
                )
            # Shuffled rows are written to the private folder and deleted with it.
            builder = builder.config("spark.local.dir", str(private))
    try:
        session = builder.getOrCreate()
    except Exception as error:  # its type depends on where Java failed
        text = str(error)
        if "master URL" in text:
            raise UsageError(
                "--engine spark needs --master: spark://host:7077, or local[*] for this machine"
            ) from None
        if "GATEWAY" in text.upper():
            raise EngineError(
                "Java could not start Spark: it needs Java 17 or 21 (see its message above)"
            ) from None
        raise EngineError(f"Spark could not start: {text.splitlines()[0]}") from None
    context = session.sparkContext
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # workers on this machine have what this process has
    if session.conf.get("spark.log.level", None) is None:
        context.setLogLevel("OFF")  # its warnings quote values of the log
    return session


@contextmanager
def _folder(session: Any, scratch_at: str | None, private: Path) -> Iterator[str]:
    """A new folder for tables, as Spark names it, deleted when the block ends."""
    if scratch_at is None:
        yield literal(private)
    elif not is_uri(scratch_at):
        with scratch(Path(scratch_at).resolve()) as folder:
            yield literal(folder)
    else:
        with translate_errors():
            name = f"{scratch_at.rstrip('/')}/{PREFIX}{session.sparkContext.applicationId}"
            path = _hadoop_path(session, name)
            files = path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
            jvm = session.sparkContext._jvm
            private_mode = jvm.org.apache.hadoop.fs.permission.FsPermission("700")
            if files.exists(path) or not files.mkdirs(path, private_mode):
                raise EngineError(f"the scratch folder {name} cannot be made")
        try:
            yield name
        finally:
            with translate_errors():
                files.delete(path, True)


def _hadoop_path(session: Any, uri: str) -> Any:
    return session.sparkContext._jvm.org.apache.hadoop.fs.Path(uri)


def _package(private: Path) -> Path:
    """This package as a zip file, for the workers."""
    home = Path(__file__).parents[2]
    target = private / "murmurlog.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(home.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, Path("murmurlog") / file.relative_to(home))
    return target


def spark_schema(schema: pa.Schema) -> Any:
    """The columns as Spark has them, times without a zone."""
    from ibis.backends.pyspark.datatypes import PySparkSchema
    from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

    fields = PySparkSchema.from_ibis(ibis.Schema.from_pyarrow(schema)).fields
    for field in fields:
        if isinstance(field.dataType, TimestampType):
            field.dataType = TimestampNTZType()
    return StructType(fields)


def _backend(session: Any) -> Any:
    """Ibis on Spark, but small results are collected as rows, without pandas."""
    from ibis.backends.pyspark import Backend

    backend = type("Rows", (Backend,), {"to_pyarrow": _to_pyarrow})()
    backend.do_connect(session)
    return backend


def _to_pyarrow(backend: Any, expression: Any, /, **_: Any) -> Any:
    """The whole result, in memory: for sums and counts, and for tests."""
    from ibis.formats.pyarrow import PyArrowData

    table = expression.as_table()
    with translate_errors():
        rows = backend.raw_sql(backend.compile(table)).collect()
    schema = table.schema()
    found = pa.Table.from_pylist([row.asDict() for row in rows], schema=schema.to_pyarrow())
    return expression.__pyarrow_result__(PyArrowData.convert_table(found, schema))
