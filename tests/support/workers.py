"""A cluster without Spark: DuckDB, and functions that run on groups of rows as workers would run them.

Functions are pickled on their way, groups come in any order, and rows of bytes are spread over several tasks.
"""

import pickle
import random
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa

from murmurlog.logs.engines import duckdb
from murmurlog.logs.engines.spark_worker import SENT, MappedTable

GROUPS = 5


class WorkersEngine(duckdb.DuckEngine):
    """The parts of a cluster on DuckDB; `groups` partitions."""

    local = None
    dense = False
    tasks = 2
    groups = GROUPS

    @property
    def cluster(self):
        return self

    def group_rows(self, rows, by, work, schema):
        table = pa.Table.from_batches([*self.batches(rows)], rows.schema().to_pyarrow())
        users = table[by].to_pylist()
        place = [hash((user, "group")) % self.groups for user in users]
        parts = [
            table.filter(pa.array([at == group for at in place], pa.bool_()))
            for group in range(self.groups)
        ]
        return self._run(work, [part.to_batches(max_chunksize=50) for part in parts], schema)

    def map_stream(self, source, work, schema):
        return self._run(work, self._tasks(source), schema)

    def exchange(self, source, work, then, schema, *, shards):
        sent = [row for task in self._tasks(source) for row in self._work(work)(iter(task))]
        rows = [row for batch in sent for row in batch.to_pylist()]
        random.shuffle(rows)
        assert {row["shard"] for row in rows} <= set(range(-shards // 2, shards // 2))
        tasks = [[row for row in rows if row["shard"] % 2 == task] for task in range(2)]
        batches = [[pa.RecordBatch.from_pylist(task, SENT)] for task in tasks]
        return self._run(then, batches, schema)

    def unpack(self, source, work, schema):
        return self.map_stream(source, work, schema)

    def read(self, table, *columns):
        return self.batches(table.select(*columns))

    def share(self, schema, batches):
        with self.open_file(schema) as (file, writer):
            for batch in batches:
                writer.write_batch(batch)
        return MappedTable(str(file))

    def _tasks(self, source):
        rows = [row for batch in self.batches(source) for row in batch.to_pylist()]
        random.shuffle(rows)
        tasks = [rows[task :: self.tasks] for task in range(self.tasks)]
        schema = source.schema().to_pyarrow()
        return [[pa.RecordBatch.from_pylist(task, schema)] for task in tasks]

    def _work(self, work):
        return pickle.loads(pickle.dumps(work))

    def _run(self, work, tasks, schema):
        found = [batch for task in tasks for batch in self._work(work)(iter(task))]
        assert all(batch.schema.equals(schema) for batch in found)
        return self.keep(pa.Table.from_batches(found, schema))


@contextmanager
def connect(**how):
    """An engine whose log and items are on workers."""
    with patch.object(duckdb, "DuckEngine", WorkersEngine), duckdb.connect(**how) as engine:
        yield engine
