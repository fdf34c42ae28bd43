"""What is counted of a log: bounded sets and tallies as Python values."""

from functools import partial

from log_readers import USER, read_log, texts_of

from murmurlog.counting.bound import find_and_bound
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.rows import PERIODS, period_start
from murmurlog.logs.source import find
from murmurlog.mechanisms.protocol import View, tally_view
from murmurlog.privacy.sampler import SeededEntropy


def bounded_rows(path, *, kind="query", unit="user", per_user=3, way=None, seed=1, columns=None):
    """The bounded set of a log as a set of (unit, key...); a unit is a user, or a user and a day."""
    view, entropy = View(kind=kind, unit=unit, way=way), SeededEntropy(seed)
    with connect() as engine:
        source = find(str(path), columns=columns)
        log = read_log(source, engine=engine, unit=unit, entropy=entropy)
        finder, bound = view.finder(log), view.bound(log, per_user=per_user, entropy=entropy)
        work = partial(_bounded, find=finder, bound=bound, unit=unit)
        rows = [row for part in log.partitions.results(work) for row in part]
    assert len(set(rows)) == len(rows)
    return set(rows)


def _bounded(rows, *, find, bound, unit):
    items = find_and_bound(rows, find=find, bound=bound)
    names = texts_of(rows, rows.kept[USER])
    if unit in PERIODS:
        names = [*zip(names, period_start(rows.time, PERIODS[unit]).tolist(), strict=True)]
    name_of = dict(zip(rows.unit.tolist(), names, strict=True))
    keys = [column.to_pylist() for column in items.columns(items.item)]
    units = [name_of[code] for code in items.unit.tolist()]
    return list(zip(units, *keys, strict=True))


def tally_of_log(path, *, kind="query", unit="user", per_user=3, way=None, columns=None):
    """The tally of a log as a dict."""
    view, entropy, counts = View(kind=kind, unit=unit, way=way), SeededEntropy(1), {}
    with connect() as engine:
        log = read(find(str(path), columns=columns), engine=engine, unit=unit, entropy=entropy)
        tally = tally_view(log, view, per_user=per_user, entropy=entropy)
        for shard in tally:
            keys = tally.table(shard.keys).to_pylist()
            counts |= {tuple(k.values()): n for k, n in zip(keys, shard.sums.tolist(), strict=True)}
    return counts
