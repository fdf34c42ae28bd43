"""What is found, bounded and counted of a log, as Python values."""

from datetime import date, timedelta
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from murmurlog.bundle.schema import keys_of
from murmurlog.counting.bound import Bound, find_and_bound
from murmurlog.counting.items import ItemFinder
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.rows import PERIODS, period_start
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy


def same(value):
    return value


def names_of_units(rows, *, users, unit):
    """Of each unit of a partition its user, after the first day of its period."""
    known = dict(
        zip(map(tuple, rows.text_keys.texts(pa.array(users)).tolist()), users, strict=True)
    )
    names = [known[tuple(key)] for key in rows.user_keys.tolist()]
    if unit == "user":
        return names
    first = np.unique(rows.unit, return_index=True)[1]
    days = period_start(rows.time[first], PERIODS[unit]).tolist()
    start = date(1970, 1, 1)
    return [f"{start + timedelta(days=d)}|{name}" for d, name in zip(days, names, strict=True)]


def held_by_units(log, items, users):
    """(unit, key ...) of every row of items in the partitions of a log."""
    names = log.partitions.results(partial(names_of_units, users=users, unit=log.unit))
    found = []
    for own, held in zip(names, items.results(same), strict=True):
        columns = [column.to_pylist() for column in held.columns(held.item)]
        found += zip([own[code] for code in held.unit.tolist()], *columns, strict=True)
    return found


def users_of(path, columns=None):
    """The users of a file."""
    user = (columns or {}).get("user", "user")
    rows = duckdb.sql(f"SELECT DISTINCT \"{user}\"::VARCHAR FROM '{path}'").fetchall()
    return [name for (name,) in rows if name]


def bounded_rows(path, *, kind="query", unit="user", per_user=3, way=None, seed=1, columns=None):
    """The bounded set of a log as a set of (unit, key...)."""
    with connect() as engine:
        entropy = SeededEntropy(seed)
        log = read(
            find(str(path), SourceOptions(columns=columns)),
            engine=engine,
            unit=unit,
            entropy=entropy,
        )
        bound = Bound.of(per_user, way, timed=log.has_times, entropy=entropy)
        kept = log.partitions.derive(
            partial(find_and_bound, find=ItemFinder(kind=kind), bound=bound)
        )
        rows = held_by_units(log, kept, users_of(path, columns))
    assert len(set(rows)) == len(rows)
    return set(rows)


def tally_of_log(path, *, kind="query", unit="user", per_user=3, way=None, columns=None):
    """The tally of a log as a dict."""
    with connect() as engine:
        entropy = SeededEntropy(1)
        log = read(
            find(str(path), SourceOptions(columns=columns)),
            engine=engine,
            unit=unit,
            entropy=entropy,
        )
        bound = Bound.of(per_user, way, timed=log.has_times, entropy=entropy)
        finder = ItemFinder(kind=kind)
        return counts_of(
            tally(log, finder, bound, kind=kind, keys=keys_of(kind), per_user=per_user)
        )


def counts_of(counted):
    """The counts of a tally by key columns; lists as tuples."""
    found = {}
    for shard in counted:
        for row, number in zip(counted.table(shard.keys).to_pylist(), shard.sums, strict=True):
            key = tuple(tuple(v) if isinstance(v, list) else v for v in row.values())
            assert key not in found
            found[key] = int(number)
    return found
