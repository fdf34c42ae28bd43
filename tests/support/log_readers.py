"""The rows of a log, for tests that compare them with what was written."""

from contextlib import nullcontext
from datetime import datetime, timedelta
from unittest.mock import patch

import numpy as np

from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.rows import NEVER, NO_RANK, RowReader
from murmurlog.logs.source import find
from murmurlog.logs.workspace import Workspace
from murmurlog.privacy.sampler import SeededEntropy

USER = "the user's name"  # a kept column


def read_log(source, *, keep=None, **options):
    """The log of a source that `rows_of_log` can say the users of."""
    return read(source, keep={**(keep or {}), USER: source.columns["user"]}, **options)


def read_rows(path, *, keep=None, source_options=None, **options):
    """(the rows of a log in order, how many were dropped by reason); `source_options` are those of `find`."""
    with connect() as engine:
        log = read_log(
            find(str(path), SourceOptions(**(source_options or {}))),
            engine=engine,
            keep=keep,
            **options,
        )
        return rows_of_log(log), dict(log.broken)


def rows_of_log(log):
    """The rows as dicts, by user, time and query; a user is a name after `read_log`, else a key."""
    rows = [row for part in log.partitions.results(rows_of_partition) for row in part]
    names = {(row["user key"], row.get(USER)) for row in rows}
    keys, texts = zip(*names, strict=True) if names else ((), ())
    assert len(set(keys)) == len(names), "one user has two names"
    assert not any(texts) or len(set(texts)) == len(names), "two users have one name"
    for row in rows:
        key = row.pop("user key")
        row["user"] = row.pop(USER, key)
    return sorted(rows, key=lambda row: (row["user"], str(row["time"] or ""), row["query"]))


def rows_of_partition(rows):
    """The rows of one partition as dicts."""
    columns = {
        "user key": [tuple(key) for key in rows.user_keys[rows.unit].tolist()],
        "time": [None if time == NEVER else moment(time) for time in rows.time.tolist()],
        "query": texts_of(rows, rows.query),
        "url": [None] * rows.count if rows.url is None else texts_of(rows, rows.url),
        "rank": [None] * rows.count
        if rows.rank is None
        else [None if rank == NO_RANK else rank for rank in rows.rank.tolist()],
        **{name: texts_of(rows, column) for name, column in rows.kept_columns.items()},
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def texts_of(rows, column):
    """The text of each row, None for none."""
    texts = [*rows.texts.take(column.ids).to_pylist(), None]
    return np.array(texts, object)[column.codes].tolist()


def moment(microseconds):
    return datetime(1970, 1, 1) + timedelta(microseconds=microseconds)


ROWS = 100  # of a small partition


def read_in_partitions(path, *, seed=1, **options):
    """(its name, the log) of each way; a larger partition than `ROWS` is split, unless it is one unit."""
    small = patch.dict(RowReader.__init__.__kwdefaults__, most_rows=ROWS)
    ways = {
        "one": nullcontext(),
        "many": small,
        "files": patch.object(Workspace, "_take", lambda *_: False),
    }
    for name, change in ways.items():
        with change, connect() as engine:
            log = read(find(str(path)), engine=engine, entropy=SeededEntropy(seed), **options)
            assert name != "many" or log.partitions.count > 3
            yield name, log
