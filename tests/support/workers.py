"""A cluster without Spark: the functions that workers run, in this process.

Functions are pickled on their way, rows are spread over several tasks and come in any order. A task can
run again after it failed half-way, or twice at the same time.
"""

import pickle
import random
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle.keys import NORMALISER
from murmurlog.logs.engines.spark import SparkEngine
from murmurlog.logs.engines.spark_worker import VALUES, Packer, run


class StoredRows:
    """Rows of bytes in memory; the number of each task that made them is not known."""

    def __init__(self, engine, rows):
        self.engine, self.rows = engine, rows
        engine.stored.append(self)

    def read(self, number=None):
        yield from sorted(row for row in self.rows if number in (None, row[0]))

    def numbers(self):
        return [number for number, _ in self.read()]

    def close(self):
        self.engine.stored.remove(self)

    @property
    def batches(self):
        """A batch for each row, in any order."""
        rows = self.engine.random.sample(self.rows, len(self.rows))
        return [as_batch([row]) for row in rows]


class WorkersEngine(SparkEngine):
    """Reads files of text into `1 << bits` partitions.

    `on_disk`: whether workers write files; `fails`: whether a task fails at first; `twice`: whether another
    one does the same work at the same time, and which of both counts is chosen at random.
    """

    version = "spark in this process"

    def __init__(self, private, *, bits, seed, on_disk, fails, twice):
        self.private, self.bits, self.fails, self.twice = Path(private), bits, fails, twice
        self.random, self.stored = random.Random(seed), []
        self.packer = Packer
        if on_disk:
            (self.private / "values").mkdir()
            self.packer = partial(
                Packer, self.private / "values", self.private / "values", in_rows=500
            )

    def _bits(self, frame):
        return self.bits

    def adopt(self, file):
        return pq.read_table(file).to_batches(max_chunksize=70)

    def share(self, value):
        return Shared(pickle.dumps(value))

    def run(self, values, work, *, reader):
        return StoredRows(self, self._run(values.batches, work, reader))

    def exchange(self, values, work, then, *, reader):
        batches = values.batches if isinstance(values, StoredRows) else values
        sent = self._run(batches, work, reader)
        self.random.shuffle(sent)
        tasks = [[], [], []]
        for row in sent:
            tasks[hash(row[0]) % 3].append(row)
        together = [[as_batch(sorted(task, key=lambda row: row[0]))] for task in tasks]
        return StoredRows(
            self, [row for task in together for row in self._task(task, then, reader)]
        )

    def _run(self, batches, work, reader):
        tasks = [batches[place::3] for place in range(3)]
        return [row for task in tasks for row in self._task(task, work, reader)]

    def _task(self, batches, work, reader):
        def attempt():
            sent, opened, packer = pickle.loads(pickle.dumps((work, reader, self.packer)))
            return run(
                iter(batches), work=sent, reader=opened, packer=packer, normaliser=NORMALISER
            )

        if self.fails:
            next(attempt(), None)
        attempts = [attempt()]
        if self.twice:
            attempts.append(attempt())
        together = zip(*zip_longest(*attempts), strict=True)
        made = [batch for batch in self.random.choice([*together] or [()]) if batch]
        made = pa.Table.from_batches(made, VALUES)
        return list(zip(*(column.to_pylist() for column in made.columns), strict=True))


class Shared:
    """A value that was sent."""

    def __init__(self, sent):
        self.sent = sent

    def __call__(self):
        return pickle.loads(self.sent)


def as_batch(rows):
    columns = list(zip(*rows, strict=True)) or [(), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, VALUES.types, strict=True)],
        schema=VALUES,
    )


@contextmanager
def connect(*, bits=2, seed=1, on_disk=True, fails=False, twice=False):
    """An engine whose partitions are on workers."""
    with TemporaryDirectory() as folder:
        yield WorkersEngine(folder, bits=bits, seed=seed, on_disk=on_disk, fails=fails, twice=twice)
