"""One log, read for each way of counting on DuckDB: as texts, dictionary-encoded, in partitions."""

from contextlib import nullcontext
from unittest.mock import patch

from murmurlog.logs import partitions
from murmurlog.logs.engines.duckdb import DuckEngine, connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find

IMPLEMENTATIONS = ("general", "encoded", "partitioned")


def read_by_implementation(path, *, room, rows=300, **options):
    """(its name, the log) of each; partitions have `room` bytes and batches of `rows`."""
    for name in IMPLEMENTATIONS:
        with connect() as engine:
            changes = {
                "general": patch.object(DuckEngine, "local", None),
                "encoded": nullcontext(),
                "partitioned": patch.multiple(
                    partitions, ROOM=room / engine.memory, ROWS_A_BATCH=rows
                ),
            }
            with changes[name]:
                yield name, read(find(str(path)), engine=engine, **options)
