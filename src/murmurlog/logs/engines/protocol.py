"""The interface of engines for the steps that count a log. Imports no engine."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Engine(Protocol):
    """Runs Ibis expressions. What it keeps is private and is deleted with the engine."""

    @property
    def name(self) -> str:
        """The engine's name after --engine."""

    @property
    def version(self) -> str:
        """The engine and its version, for certificates."""

    @property
    def local(self) -> "LocalEngine | None":
        """The engine itself if it shares the memory and the disk of this process, else None."""

    @property
    def cluster(self) -> "ClusterEngine | None":
        """The engine itself if workers of its own run Python functions, else None."""

    @property
    def dense(self) -> bool:
        """Whether `number_rows` gives 0, 1, .. without gaps."""

    def materialise(self, expression: Any) -> Any:
        """The expression's rows, computed once and kept."""

    def keep(self, table: "pa.Table") -> Any:
        """An Arrow table as a table of the engine."""

    def batches(self, expression: Any) -> "Iterator[pa.RecordBatch]":
        """The expression's rows as a stream of Arrow batches."""

    def map_batches(
        self,
        schema: "pa.Schema",
        source: Any,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch]",
    ) -> Any:
        """A new table of `schema`, made by a Python function from the batches of `source`."""

    def number_rows(self, expression: Any, name: str) -> Any:
        """The expression's rows, kept, with a whole number in a new column: no two have the same."""

    def store_batches(self, schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> Any:
        """A stream of Arrow batches as a table of the engine."""

    def microseconds(self, time: Any) -> Any:
        """A time as whole microseconds since 1970, so that differences are exact."""


class LocalEngine(Engine, Protocol):
    """An engine that shares memory and disk with this process, so a log can be encoded here."""

    @property
    def memory(self) -> int:
        """The bytes that the engine may use before it spills."""

    def show(self, table: "pa.Table") -> Any:
        """An Arrow table as a table of the engine, without a copy; dictionaries become strings."""

    def find_shown(self, expression: Any) -> "pa.Table | None":
        """The Arrow table that `show` was given, if the expression is what it returned."""

    def read_in_order(self, expression: Any, *, rows: int) -> "Iterator[pa.RecordBatch]":
        """The expression's rows as Arrow batches of `rows` rows; rows of a file in its order."""

    def buckets(self, texts: "pa.Array", count: int) -> Any:
        """Of each text (or whole number) a number below `count`, up to 256, that depends on it alone."""

    def open_file(
        self, schema: "pa.Schema"
    ) -> "AbstractContextManager[tuple[Path, pa.ipc.RecordBatchFileWriter]]":
        """A new Arrow file in the engine's private folder, and its writer."""

    def store(self, table: "pa.Table") -> Path:
        """The table as an Arrow file in the engine's private folder."""

    def halve_memory(self) -> AbstractContextManager[None]:
        """Temporarily halves the engine's memory limit; it spills what it holds beyond."""


Work = Callable[["Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


class SharedTable(Protocol):
    """An Arrow table that workers can open; a value that can be sent to them."""

    def open(self) -> "pa.Table": ...


class ClusterEngine(Engine, Protocol):
    """An engine whose workers run Python functions on streams of Arrow batches.

    The functions must be deterministic: a task that is lost is repeated. Their results are kept. A row of
    bytes is never divided between tasks, so what belongs together is packed into one.
    """

    def group_rows(self, rows: Any, by: str, work: Work, schema: "pa.Schema") -> Any:
        """What `work` makes of each group of rows; rows with one value of `by` are in one group."""

    def map_stream(self, source: Any, work: Work, schema: "pa.Schema") -> Any:
        """What `work` makes of the rows of `source`, as many at a time as a task has."""

    def exchange(
        self, source: Any, work: Work, then: Work, schema: "pa.Schema", *, shards: int
    ) -> Any:
        """What `then` makes of the rows (shard, bytes) that `work` makes of the rows of `source`.

        Rows of one shard come to one task together, which may get several shards.
        """

    def unpack(self, source: Any, work: Work, schema: "pa.Schema") -> Any:
        """The same as `map_stream`, but it is computed whenever it is used."""

    def read(self, table: Any, *columns: str) -> "Iterator[pa.RecordBatch]":
        """Some columns of a table that was kept, in no particular order."""

    def share(self, schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> SharedTable:
        """The batches as a table that workers can open, a chunk for each; the batches are on disk here."""

    @property
    def tasks(self) -> int:
        """How many tasks run at the same time."""
