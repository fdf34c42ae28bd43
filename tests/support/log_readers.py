"""One log, read into partitions in several ways: in one, in many small ones, and in files."""

from contextlib import nullcontext
from unittest.mock import patch

from murmurlog.logs import workspace
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.rows import RowReader
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy

ROWS = 100  # of a small partition


def read_in_partitions(path, *, seed=1, **options):
    """(its name, the log) of each way; a larger partition than `ROWS` is split, unless it is one unit."""
    small = patch.dict(RowReader.__init__.__kwdefaults__, most_rows=ROWS)
    ways = {"one": nullcontext(), "many": small, "files": patch.object(workspace, "ROOM", 0)}
    for name, change in ways.items():
        with change, connect() as engine:
            log = read(find(str(path)), engine=engine, entropy=SeededEntropy(seed), **options)
            assert name != "many" or log.partitions.count > 3
            yield name, log
