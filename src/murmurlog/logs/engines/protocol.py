"""The interface of engines: where a log is read into partitions. Imports no engine."""

from collections.abc import Callable
from typing import Protocol

from murmurlog.bundle.progress import Advance
from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.rows import ReadRows
from murmurlog.logs.source import Source
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.typed_rows import Selection


class Engine(Protocol):
    """Reads logs. What it keeps is private and is deleted with the engine."""

    @property
    def name(self) -> str:
        """The engine's name after --engine."""

    @property
    def version(self) -> str:
        """The engine and its version, for certificates."""

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
