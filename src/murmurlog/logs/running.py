"""Where a release runs: in this process, or on a cluster with Spark. Imports nothing heavy: --help reads it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from murmurlog.bundle.options import Group, Option
from murmurlog.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from murmurlog.logs.engines.protocol import Engine
    from murmurlog.logs.inputs import LogSource
    from murmurlog.logs.options import SourceOptions
    from murmurlog.logs.source import Source


@dataclass(frozen=True, kw_only=True)
class Running(Group):
    """Engine."""

    engine: Annotated[str, Option(help="Where it runs: duckdb or spark.")] = "duckdb"
    memory: Annotated[
        str | None, Option(help="Memory of the process, 600MB or more, such as 8GB.")
    ] = None
    master: Annotated[str | None, Option(help="spark: spark://host:7077, or local[*].")] = None
    scratch: Annotated[str | None, Option(help="spark: a folder that all workers reach.")] = None

    def check(self) -> None:
        """Raises if nothing can run there."""
        from murmurlog.logs.engines.duckdb import check_memory

        check_memory(self.memory)
        if self.engine == "spark":
            from murmurlog.logs.engines.spark import check_settings

            check_settings(master=self.master, scratch_at=self.scratch, memory=self.memory)
        elif self.engine != "duckdb":
            near = did_you_mean(self.engine, ("duckdb", "spark"))
            raise UsageError(
                f"--engine {self.engine!r:.60} is not known: use duckdb or spark.{near}"
            )
        elif self.master or self.scratch:
            raise UsageError("--master and --scratch go with --engine spark only")

    def find(
        self,
        log: "LogSource",
        options: "SourceOptions",
        copies: ExitStack,
        *,
        rows: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> "Source":
        """The source of a log, which Spark looks for if its path is a URI.

        `copies` holds the copy of a log that is not on this machine; without `rows`, a table's
        columns are enough.
        """
        from murmurlog.logs.addresses import is_uri
        from murmurlog.logs.inputs import copy_standard_input, is_table, local_source, name_of
        from murmurlog.logs.postgres import looks_like_address
        from murmurlog.logs.source import find, text_flags

        if self.engine == "duckdb":
            path = copies.enter_context(local_source(log, options, rows=rows, say=say))
            return find(path, options)
        if is_table(log):
            raise UsageError(
                f"a {name_of(log)} is in this process, which the workers of Spark do not reach: use "
                "--engine duckdb, or write it as Parquet and give its path"
            )
        path = copies.enter_context(copy_standard_input(str(log), options))
        if looks_like_address(path) or not is_uri(path):
            return find(path, options)
        if flags := text_flags(replace(options, format=None)):
            raise UsageError(f"Parquet knows its text: leave {flags} out")
        from murmurlog.logs.engines.spark import connect
        from murmurlog.logs.spark_rows import find_at

        with connect(master=self.master, scratch_at=self.scratch) as engine:
            return find_at(path, options, engine=engine)

    @contextmanager
    def connect(self) -> Iterator["Engine"]:
        """The engine, with a private folder that is gone at the end."""
        if self.engine == "duckdb":
            from murmurlog.logs.engines.duckdb import connect

            with connect(memory=self.memory) as engine:
                yield engine
        else:
            from murmurlog.logs.engines.spark import connect as connect_spark

            with connect_spark(master=self.master, scratch_at=self.scratch) as cluster:
                yield cluster
