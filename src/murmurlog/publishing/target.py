"""Where a release runs: in this process with DuckDB, or on a cluster with Spark."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.engines.duckdb import check_memory, connect
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.engines.spark import SparkEngine, check_settings, is_uri
from murmurlog.logs.engines.spark import connect as connect_spark
from murmurlog.logs.postgres import looks_like_address
from murmurlog.logs.source import Source, find
from murmurlog.logs.spark_rows import find_at
from murmurlog.publishing.plan import Plan
from murmurlog.publishing.remote_target import Landing, landing

# What is made on Spark without holding every item in this process.
ON_SPARK = ("rounds", "threshold", "korolova", "zealous")
SPARK_TABLES = ("keyword", "query", "pair", "click")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a release runs."""

    engine: str = "duckdb"
    memory: str | None = None
    master: str | None = None
    scratch: str | None = None

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.engine == "spark":
            check_settings(master=self.master, scratch_at=self.scratch, memory=self.memory)
        elif self.engine != "duckdb":
            raise EngineError(f"there is no engine {self.engine!r}: use duckdb or spark")
        elif self.master or self.scratch:
            raise UsageError("--master and --scratch go with --engine spark only")

    def find(
        self,
        source: str,
        *,
        columns: Mapping[str, str] | None,
        encoding: str | None,
        shape: str | None,
    ) -> Source:
        """The source, which is looked for by Spark if its path is a URI."""
        if self.engine == "duckdb" or looks_like_address(source) or not is_uri(source):
            return find(source, columns=columns, encoding=encoding, shape=shape)
        if encoding is not None or shape is not None:
            raise UsageError("Parquet knows its text: leave --encoding and --shape out")
        with connect_spark(master=self.master, scratch_at=self.scratch, test=False) as engine:
            return find_at(source, columns=columns, engine=engine)

    def target(self, out: str | Path) -> Path | str:
        """Where a bundle goes: a path of this machine, or the URI of one that Spark reaches."""
        if isinstance(out, Path) or not is_uri(out):
            return Path(out)
        if self.engine != "spark":
            raise UsageError(
                f"--out {out!r} is reached by Spark only: name a path of this machine, or use "
                "--engine spark"
            )
        return out if urlsplit(out).scheme != "file" else Path(url2pathname(urlsplit(out).path))

    def check(self, plans: Mapping[str, Plan]) -> None:
        """Raises if a table cannot be made there."""
        for kind, each in plans.items():
            name = str(each.mechanism).partition("(")[0]
            if self.engine == "spark" and (name not in ON_SPARK or kind not in SPARK_TABLES):
                raise EngineError(
                    f"a {kind} table by {name} is not made on Spark, which makes "
                    f"{', '.join(SPARK_TABLES)} by {', '.join(ON_SPARK)}: use --engine duckdb"
                )

    @contextmanager
    def landing(self, engine: Engine, target: Path | str) -> Iterator[Landing | None]:
        """What takes a bundle to a URI; None for a path of this machine."""
        if isinstance(target, Path):
            yield None
        else:  # `target` gives a URI only with --engine spark
            with landing(cast(SparkEngine, engine), target) as found:
                yield found

    @contextmanager
    def connect(self) -> Iterator[Engine]:
        """The engine, with a private folder that is gone at the end."""
        if self.engine == "duckdb":
            with connect(memory=self.memory) as duck:
                yield duck
        else:
            with connect_spark(master=self.master, scratch_at=self.scratch) as spark:
                yield spark
