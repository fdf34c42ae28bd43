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

    def bucket(self, text: Any, count: int) -> Any:
        """A number below `count`, up to 256, that depends on the text (or whole number) alone."""

    def open_file(
        self, schema: "pa.Schema"
    ) -> "AbstractContextManager[tuple[Path, pa.ipc.RecordBatchFileWriter]]":
        """A new Arrow file in the engine's private folder, and its writer."""

    def store(self, table: "pa.Table") -> Path:
        """The table as an Arrow file in the engine's private folder."""

    def halve_memory(self) -> AbstractContextManager[None]:
        """Temporarily halves the engine's memory limit; it spills what it holds beyond."""
