"""The rows of a log as texts again, for checks that compare them with what they know."""

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from murmurlog.logs.log import Log
from murmurlog.logs.rows import NEVER, NO_RANK, Rows
from murmurlog.logs.text_keys import number_keys
from murmurlog.privacy.sampler import Keys

EPOCH = datetime(1970, 1, 1)
# The keys of unit and user, time, query, url, rank, and the value of a kept column.
Row = tuple[Any, ...]


def rows_of(log: Log, kept: str = "") -> Counter[Row]:
    """How often each row is there."""
    rows = Counter[Row]()
    for part in log.partitions.results(partial(partition_rows, kept=kept)):
        rows.update(part)
    return rows


def partition_rows(rows: Rows, *, kept: str = "") -> Counter[Row]:
    """The same of a partition."""
    query, url, value = (
        _texts(rows, column) for column in (rows.query, rows.url, rows.kept_columns.get(kept))
    )
    ranks = [None] * rows.count if rows.rank is None else rows.rank.tolist()
    return Counter(
        zip(
            pairs(rows.unit_keys[rows.unit]), pairs(rows.user_keys[rows.unit]),
            (None if t == NEVER else EPOCH + timedelta(microseconds=t) for t in rows.time.tolist()),
            query, url, (None if rank == NO_RANK else rank for rank in ranks), value, strict=True,
        )
    )  # fmt: skip


def queries_of(log: Log) -> set[str]:
    """The distinct queries."""
    return {str(row[3]) for row in rows_of(log)}


def count_users(log: Log) -> int:
    """How many users have a row."""
    parts = list(log.partitions.results(lambda rows: rows.user_keys[np.unique(rows.unit)]))
    return len(number_keys(np.concatenate(parts))[1])


def pairs(keys: Keys) -> list[tuple[int, ...]]:
    """Keys as tuples."""
    return [tuple(key) for key in keys.tolist()]


def _texts(rows: Rows, column: Any) -> list[str | None]:
    if column is None:
        return [None] * rows.count
    texts = [*rows.texts.take(column.ids).to_pylist(), None]
    return [texts[code] for code in column.codes.tolist()]
