"""Reads a log as a release would, with proposed options, and counts what could not be read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import InputError
from murmurlog.logs.cleaning import UNREADABLE_TIME, UNREADABLE_URL
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.inspection.inspect import Inspection
from murmurlog.logs.log import read
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.source import find


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The rows that can be used, and those that cannot, by reason."""

    rows: int
    broken: Mapping[str, int]
    sampled: bool  # counted on a part of a large file
    failure: str | None = None  # why nothing could be read

    @property
    def total(self) -> int:
        """All rows: rows with an unreadable time or url are used without it."""
        stay = (UNREADABLE_TIME, UNREADABLE_URL)
        return self.rows + sum(n for reason, n in self.broken.items() if reason not in stay)

    @property
    def share(self) -> float:
        """Of the rows that are broken, as --max-broken counts them."""
        lost = sum(n for reason, n in self.broken.items() if reason != UNREADABLE_URL)
        return lost / self.total if self.total else 1.0


def try_reading(
    inspection: Inspection,
    settings: Mapping[str, Any],
    *,
    memory: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Trial:
    """What a release would read; of a large text a sample is read, from a private copy."""
    options = ReadOptions(**settings)
    if not inspection.is_sampled:
        return _try(inspection.source, options, memory, say, sampled=False)
    with scratch() as outer:
        folder = outer / "rows"
        folder.mkdir()
        for number, file in enumerate(inspection.files):
            with (folder / f"{number}.{inspection.format}").open("wb") as copy:
                copy.writelines(file.blocks())
        return _try(f"{folder}/*", options, memory, say, sampled=True)


def _try(
    source: str,
    options: ReadOptions,
    memory: str | None,
    say: Callable[[str], None],
    *,
    sampled: bool,
) -> Trial:
    try:
        with connect(memory=memory) as engine:
            log = read(find(source, options), engine=engine, url=options.url, say=say)
            return Trial(rows=log.rows, broken=dict(log.broken), sampled=sampled)
    except InputError as error:
        return Trial(rows=0, broken={}, sampled=sampled, failure=str(error))
