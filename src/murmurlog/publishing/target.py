"""Where a release runs: in this process with DuckDB, or on a cluster with Spark."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from murmurlog.errors import EngineError, UsageError, did_you_mean
from murmurlog.logs.addresses import is_uri, mask
from murmurlog.logs.engines.duckdb import check_memory, connect
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.inputs import LogSource, is_table, local_source, name_of
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.postgres import looks_like_address
from murmurlog.logs.source import Source, find, of_files
from murmurlog.logs.standard_input import on_disk
from murmurlog.mechanisms import MECHANISMS
from murmurlog.publishing.plan import Plan
from murmurlog.publishing.request import Running


def local_path(out: str | Path) -> Path:
    """The path of a bundle; raises for an address, to which nothing is written."""
    if isinstance(out, str) and is_uri(out):
        raise UsageError(
            f"--out {mask(out)!r} is an address: a bundle is written to a folder of this machine. Name one, "
            "and copy the finished bundle with the tools of the store"
        )
    return Path(out)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a release runs."""

    running: Running = Running()

    def __post_init__(self) -> None:
        asked = self.running
        check_memory(asked.memory)
        if asked.engine == "spark":
            from murmurlog.logs.engines.spark import check_settings

            check_settings(master=asked.master, scratch_at=asked.scratch, memory=asked.memory)
        elif asked.engine != "duckdb":
            near = did_you_mean(asked.engine, ("duckdb", "spark"))
            raise UsageError(
                f"--engine {asked.engine!r:.60} is not known: use duckdb or spark.{near}"
            )
        elif asked.master or asked.scratch:
            raise UsageError("--master and --scratch go with --engine spark only")

    def find(
        self,
        given: LogSource,
        read: SourceOptions,
        copies: ExitStack,
        *,
        rows: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> Source:
        """The source, which is looked for by Spark if its path is a URI.

        `copies` holds the copy of a log that is not on this machine; without `rows`, a table's
        columns are enough.
        """
        asked = self.running
        if asked.engine == "spark" and is_table(given):
            raise UsageError(
                f"a {name_of(given)} is in this process, which the workers of Spark do not reach: use "
                "--engine duckdb, or write it as Parquet and give its path"
            )
        if asked.engine == "duckdb":
            source = copies.enter_context(local_source(given, read, rows=rows, say=say))
        else:
            source = copies.enter_context(on_disk(str(given), read))
        if asked.engine == "duckdb" or looks_like_address(source) or not is_uri(source):
            return find(source, read)
        if flags := of_files(replace(read, format=None)):
            raise UsageError(f"Parquet knows its text: leave {flags} out")
        from murmurlog.logs.engines.spark import connect as connect_spark
        from murmurlog.logs.spark_rows import find_at

        with connect_spark(master=asked.master, scratch_at=asked.scratch) as engine:
            return find_at(source, read, engine=engine)

    def check(self, plans: Mapping[str, Plan]) -> None:
        """Raises if a table cannot be made there: what brings rows to this process is not made on Spark."""
        for kind, plan in plans.items():
            mechanism = plan.mechanism
            if self.running.engine not in mechanism.engines:
                able = [name for name, one in MECHANISMS.items() if "spark" in one.engines]
                raise EngineError(
                    f"a {kind} table by {mechanism.name} is not made on Spark, which makes tables by "
                    f"{', '.join(able)}: use --engine duckdb"
                )

    @contextmanager
    def connect(self) -> Iterator[Engine]:
        """The engine, with a private folder that is gone at the end."""
        if self.running.engine == "duckdb":
            with connect(memory=self.running.memory) as duck:
                yield duck
        else:
            from murmurlog.logs.engines.spark import connect as connect_spark

            asked = self.running
            with connect_spark(master=asked.master, scratch_at=asked.scratch) as spark:
                yield spark
