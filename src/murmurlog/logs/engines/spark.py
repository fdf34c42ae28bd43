"""The engine for clusters: Spark reads Parquet, and the functions of partitions run on its workers.

Values of partitions are in a private folder that all workers reach: on a disk in files that workers write
and map, elsewhere in rows of Parquet. No noise is drawn on a worker, where a task can run twice. The package is sent there as a zip file. Spark
comes with the extra `spark` and is imported late.
"""

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from murmurlog.bundle.keys import NORMALISER
from murmurlog.bundle.progress import Advance
from murmurlog.bundle.scratch import PREFIX, scratch
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.addresses import is_uri
from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.engines.spark_errors import translate_errors
from murmurlog.logs.engines.spark_partitions import SparkPartitions
from murmurlog.logs.engines.spark_worker import (
    BYTES_IN_A_ROW,
    COUNTS,
    MOST_BITS,
    Packer,
    PartitionTexts,
    Work,
    read_pieces,
    run,
    settle,
    unpack,
)
from murmurlog.logs.rows import MOST_BYTES_A_VALUE, ReadRows, RowCounts, RowReader, Rows
from murmurlog.logs.source import Source
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.typed_rows import Selection

T = TypeVar("T")

ROWS_A_BATCH = 20_000
BYTES_A_BATCH = 32 << 20
LONGEST_LIST = 10_000  # members of a session, say
BYTES_A_PARTITION = 2 << 20  # of a source's files
ROW_GROUP = 16 << 20  # bytes; a stream holds about one row group
ROW = "number int, value binary"
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
    "spark.sql.adaptive.enabled": "false",  # a job for each step of an exchange
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES_A_BATCH),
}
FOR_VALUES = {"spark.sql.parquet.enableVectorizedReader": "false"}  # it holds 4096 rows at a time
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
# For all values that are written, also in a session that we did not start.
WRITTEN = {
    "parquet.block.size": str(ROW_GROUP),
    "parquet.page.size.row.check.min": "1",  # else a hundred values are in memory
    "parquet.enable.dictionary": "false",
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


@dataclass(frozen=True, eq=False)
class StoredValues:
    """Values as rows of bytes in a folder of Parquet files, or in files of which only the places are here."""

    engine: "SparkEngine"
    name: str
    places: pa.Table | None = None

    @property
    def frame(self) -> Any:
        """The rows, as Spark reads them."""
        if self.places is not None:
            return self.engine.values.createDataFrame(self.places)
        reader = self.engine.values.read.options(**LITERALLY).schema(ROW)
        return reader.parquet(f"{self.engine.folder}/{self.name}")

    def read(self, number: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The values one after the other, by number; or those with one number."""
        with translate_errors():
            if self.places is not None:
                rows = zip(*(column.to_pylist() for column in self.places.columns), strict=True)
                yield from (row for row in rows if number in (None, row[0]))
                return
            frame = self.frame if number is None else self.frame.where(f"number = {number}")
            for row in frame.sort("number").toLocalIterator():
                yield row["number"], bytes(row["value"])

    def numbers(self) -> list[int]:
        """The number of each value, in order."""
        if self.places is not None:
            return [number for number, _ in self.read()]
        with translate_errors():
            return sorted(row["number"] for row in self.frame.select("number").collect())

    def close(self) -> None:
        """Deletes the files."""
        self.engine.delete(self.name)


@dataclass(frozen=True, eq=False)
class Broadcast(Generic[T]):
    """A value that Spark sends to each worker once."""

    sent: Any

    def __call__(self) -> T:
        return self.sent.value  # type: ignore[no-any-return]


class SparkEngine:
    """A session that stores values in a private folder. Use `spark.connect()`."""

    name = "spark"

    def __init__(self, session: Any, folder: str, private: Path) -> None:
        self.session = session
        self.values = session.newSession()  # rows of bytes are large, rows of a source are not
        for name, value in {**SETTINGS, **FOR_VALUES}.items():
            self.values.conf.set(name, value)
        self.folder = folder  # where workers write; deleted with the engine
        self.private = private  # a folder of this machine; deleted with the engine
        self._names, self._sent = count(), list[Any]()
        # The same folder as a path of this machine, if it is one: Hadoop does not decode a %20.
        on_disk = re.fullmatch(r"file:/+(?P<path>.*)", folder)
        self.disk = Path("/" + on_disk["path"]) if on_disk else None
        if self.disk is not None:
            (self.disk / "texts").mkdir(mode=0o700)

    @property
    def version(self) -> str:
        return f"spark {self.session.version}"

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
        from murmurlog.logs.spark_rows import source_rows

        rows = source_rows(source, selection, self, read=partial(advance, rows=0))
        text_keys.draw_ahead(longest=MOST_BYTES_A_VALUE, members=LONGEST_LIST)
        bits = self._bits(rows.frame)
        reader = self.share(
            RowReader(
                cleaning=cleaning,
                text_keys=text_keys,
                texts=PartitionTexts(tuple),
                unit=unit,
                bits=bits,
            )
        )
        stored = self.exchange(
            rows.frame, partial(read_pieces, typer=rows.typer), settle,
            reader=reader,
        )  # fmt: skip
        ((_, packed),) = stored.read(COUNTS)
        counts: RowCounts = unpack(packed, text_keys)
        advance(0 if source.dialect else counts.rows, rows=counts.rows)
        counts.add(RowCounts(broken={**rows.broken}))
        numbers = [number for number in stored.numbers() if number != COUNTS]
        partitions = SparkPartitions[Rows](stored, numbers, self, reader, text_keys)
        return ReadRows(partitions=partitions, counts=counts)

    def _bits(self, frame: Any) -> int:
        """How many bits of its unit's key say in which partition a row is."""
        with translate_errors():
            size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        partitions = min(max(self.tasks, -(-size // BYTES_A_PARTITION)), 1 << MOST_BITS)
        return (partitions - 1).bit_length()

    @property
    def tasks(self) -> int:
        """How many tasks run at the same time."""
        return int(self.session.sparkContext.defaultParallelism)

    def run(
        self, values: StoredValues, work: Work, *, reader: Callable[[], RowReader]
    ) -> StoredValues:
        """What `work` makes of values, stored."""
        with translate_errors():
            return self._store(values.frame, work, reader)

    def exchange(
        self, values: Any, work: Work, then: Work, *, reader: Callable[[], RowReader]
    ) -> StoredValues:
        """The stored results of `then` on the results of `work`; values with one number come to one task, together.

        `values` are stored, or rows of a source.
        """
        sent = self._new_name()
        with translate_errors(), ExitStack() as stack:
            stack.callback(self.delete, sent)
            frame = values.frame if isinstance(values, StoredValues) else values
            pieces = self._map(frame, work, reader, sent, in_rows=BYTES_IN_A_ROW)
            together = pieces.repartition(self.tasks, "number")
            return self._store(together.sortWithinPartitions("number"), then, reader)

    def share(self, value: T) -> Broadcast[T]:
        """A value that is opened on the workers."""
        with translate_errors():
            sent = self.session.sparkContext.broadcast(value)
        self._sent.append(sent)
        return Broadcast(sent)

    def _map(
        self,
        frame: Any,
        work: Work,
        reader: Callable[[], RowReader],
        name: str,
        *,
        in_rows: int = 0,
    ) -> Any:
        """What `work` makes of rows; on a disk values of more bytes than `in_rows` go to files of this name."""
        packer: Callable[[], Packer] = Packer
        if self.disk is not None:
            folder = self.disk / name
            folder.mkdir(mode=0o700)
            packer = partial(Packer, folder, self.disk / "texts", in_rows=in_rows)
        on_workers = partial(run, work=work, reader=reader, packer=packer, normaliser=NORMALISER)
        return frame.mapInArrow(on_workers, ROW)

    def _store(self, frame: Any, work: Work, reader: Callable[[], RowReader]) -> StoredValues:
        name = self._new_name()
        rows = self._map(frame, work, reader, name)
        if self.disk is not None:
            return StoredValues(self, name, rows.toArrow().sort_by("number"))
        rows.write.options(**WRITTEN).parquet(f"{self.folder}/{name}")
        return StoredValues(self, name)

    def adopt(self, file: Path) -> Any:
        """The rows of a Parquet file of this machine, which is moved to where workers reach it."""
        target = f"{self.folder}/{self._new_name()}.parquet"
        with translate_errors():
            if self.disk is not None:
                shutil.move(file, self.disk / Path(target).name)
            else:
                files, path = _open_path(self.session, target)
                files.moveFromLocalFile(_hadoop_path(self.session, literal(file)), path)
            return self.session.read.options(**LITERALLY).parquet(target)

    def delete(self, name: str) -> None:
        """Deletes stored values."""
        if self.disk is not None:
            shutil.rmtree(self.disk / name, ignore_errors=True)
            return
        with translate_errors():
            files, path = _open_path(self.session, f"{self.folder}/{name}")
            files.delete(path, True)

    def close(self) -> None:
        """Removes the broadcast values from the workers."""
        for sent in self._sent:
            with suppress(Exception):  # the session may be gone
                sent.destroy()

    def _new_name(self) -> str:
        return f"t{next(self._names)}"


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
def connect(*, master: str | None = None, scratch_at: str | None = None) -> Iterator[SparkEngine]:
    """An engine on a cluster, or on this machine with master local[*].

    Without a master it is the one that spark-submit or spark-defaults.conf names, or the session
    that runs already. Its values are in a new private folder below `scratch_at`.
    """
    check_settings(master=master, scratch_at=scratch_at, memory=None)
    with ExitStack() as stack:
        private = stack.enter_context(scratch())
        session, is_ours = _session(master, private)
        if is_ours:
            stack.callback(session.stop)
        _check_driver(session)
        check_settings(master=session.sparkContext.master, scratch_at=scratch_at, memory=None)
        folder = stack.enter_context(_folder(session, scratch_at, private))
        _send_package(session.sparkContext)
        engine = SparkEngine(session, folder, private)
        stack.callback(engine.close)
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
        session, is_ours = running.newSession(), False
    else:
        if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
            raise EngineError(
                "--engine spark needs a Java runtime, and there is none: install one, such as "
                "openjdk-17-jre-headless, or set JAVA_HOME"
            )
        session, is_ours = _start_session(SparkSession, master, private), True
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    _silence()
    return session, is_ours


def _silence() -> None:
    """Stops Spark 4 from printing whole errors, which quote plans and values."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _start_session(kind: Any, master: str | None, private: Path) -> Any:
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
    """A new folder for values, as Spark names it, deleted when the block ends."""
    if scratch_at is None:
        yield literal(private)
    elif not is_uri(scratch_at):
        with scratch(Path(scratch_at).resolve()) as folder:
            yield literal(folder)
    else:
        with translate_errors():
            name = f"{scratch_at.rstrip('/')}/{PREFIX}{session.sparkContext.applicationId}"
            files, path = _open_path(session, name)
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


def _open_path(session: Any, uri: str) -> tuple[Any, Any]:
    """The file system of a URI, and its path there."""
    path = _hadoop_path(session, uri)
    return path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), path


def _send_package(context: Any) -> None:
    """Sends this package to the workers as a zip file, once a session: Spark knows a file by its name.

    The file is in a folder of the session, so that workers that start later find it, too.
    """
    home = Path(__file__).parents[2]
    target = Path(context._temp_dir) / "murmurlog.zip"
    if target.exists():
        return
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(home.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, Path("murmurlog") / file.relative_to(home))
    context.addPyFile(target.as_uri())  # a URI indeed: # would end it
