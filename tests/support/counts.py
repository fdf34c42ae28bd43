"""What is counted of a log: bounded sets and tallies as Python values."""

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy


def bounded_rows(path, *, kind="query", unit="user", per_user=3, way=None, seed=1, columns=None):
    """The bounded set of a log as a set of (unit, key...)."""
    with connect() as engine:
        log = read(find(str(path), columns=columns), engine=engine)
        held = items(log, kind=kind, unit=unit)
        kept = bound(held, per_user=per_user, way=way, entropy=SeededEntropy(seed))
        rows = kept.table.select("unit", *kept.keys).to_pyarrow().to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows)
    return {tuple(row.values()) for row in rows}


def tally_of_log(path, *, kind="query", unit="user", per_user=3, way=None, columns=None):
    """The tally of a log as a dict."""
    with connect() as engine:
        log = read(find(str(path), columns=columns), engine=engine)
        held = items(log, kind=kind, unit=unit)
        counted = tally(bound(held, per_user=per_user, way=way, entropy=SeededEntropy(1)))
        rows = counted.table.to_pyarrow().to_pylist()
    return {tuple(v for k, v in row.items() if k != "users"): row["users"] for row in rows}
