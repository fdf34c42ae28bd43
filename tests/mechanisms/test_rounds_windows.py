"""Windows of `rounds`: keys from one period, counts over another, in any partitions and as a plain program says."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import hostile_log
from log_readers import read_in_partitions
from quick_cases import sample_cases
from tallies import same

from murmurlog.bundle.schema import in_order, keys_of
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.rounds.count import find_holders
from murmurlog.privacy.sampler import SeededEntropy


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """(a log, its clean rows, its times)."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(hostile_log(1500, seed=4), path)
    with connect() as engine:
        rows = [
            row
            for part in read(find(str(path)), engine=engine).partitions.results(rows_of)
            for row in part
        ]
    assert any(row["time"] is None for row in rows)
    return path, rows, sorted(row["time"] for row in rows if row["time"])


def rows_of(rows):
    """The rows of a partition as dicts; a user is the key of its name."""
    never = np.iinfo(np.int64).max
    queries = rows.texts.take(rows.query.ids).to_pylist()
    urls = [*rows.texts.take(rows.url.ids).to_pylist(), None]
    columns = (rows.unit, rows.time, rows.query.codes, rows.url.codes)
    return [
        {
            "user": tuple(rows.user_keys[unit].tolist()),
            "time": None if time == never else datetime(1970, 1, 1) + timedelta(microseconds=time),
            "query": queries[query],
            "url": urls[url],
        }
        for unit, time, query, url in zip(*(column.tolist() for column in columns), strict=True)
    ]


def key_of(kind, row):
    return (row["query"],) if kind == "query" else (row["query"], row["url"])


def units(rows, kind, unit, since):
    """Of each unit, the first time of each item in the window: a plain program."""
    items = defaultdict(dict)
    for row in rows:
        if kind == "click" and row["url"] is None:
            continue
        if (since and (row["time"] is None or row["time"] < since)) or (
            unit == "user-day" and row["time"] is None
        ):
            continue
        name = (row["user"], row["time"].date()) if unit == "user-day" else row["user"]
        key, time = key_of(kind, row), row["time"] or datetime.max
        items[name][key] = min(time, items[name].get(key, time))
    return items


@pytest.mark.parametrize(
    ("unit", "kind", "way"),
    sample_cases(
        product(["user", "user-day"], ["query", "click"], ["from first", "from last", "apart"]),
        every=5,
    ),
)
def test_keys_and_counts_are_of_their_windows_in_any_partitions(
    hostile, monkeypatch, kind, unit, way
):
    path, rows, times = hostile
    middle, late = times[len(times) // 2], times[2 * len(times) // 3]
    select, count = {
        "from first": (None, middle),
        "from last": (late, None),
        "apart": (middle, late),
    }[way]
    d = 3
    selected, counted = (units(rows, kind, unit, since) for since in (select, count))
    frequency = Counter(key for items in units(rows, kind, unit, None).values() for key in items)
    common = [key for key, _ in sorted(frequency.items(), key=lambda pair: (-pair[1], pair[0]))]
    names = keys_of(kind)

    def key_table(keys):
        return pa.table({name: [key[i] for key in keys] for i, name in enumerate(names)})

    earlier = [common[0], common[2], ("nobody asks this",) + ("nowhere.org",) * (kind == "click")]
    published = [*common[:9], earlier[-1]]
    bounded = Counter(
        key
        for items in selected.values()
        for _, key in sorted((time, key) for key, time in items.items() if key not in earlier)[:d]
    )
    held_by = Counter()
    for items in counted.values():
        some = [key for key in items if key in published]
        held_by.update((key, len(some)) for key in some)
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=d)
    view = View(
        kind=kind, unit=unit, way="first", earlier={kind: key_table(earlier)}, select_from=select,
        count_from=count,
    )  # fmt: skip
    tables = {}
    for name, log in read_in_partitions(path, unit=unit):
        candidates = mechanism.gather(log, view, entropy=SeededEntropy(3))
        bounded_items = Counter()
        for part in candidates.bounded.results(same):
            bounded_items.update(
                zip(*(c.to_pylist() for c in part.columns(part.item)), strict=True)
            )
        assert bounded_items == bounded, name
        holders = find_holders(candidates, key_table(published))
        holder_counts = Counter()
        for item, m, n in zip(holders.item, holders.m, holders.units, strict=True):
            holder_counts[published[item], int(m)] += int(n)
        assert holder_counts == held_by, name
        with monkeypatch.context() as patched:  # no noise: all publish the same rows
            for module in ("mechanism", "select"):
                patched.setattr(
                    f"murmurlog.mechanisms.rounds.{module}.draw",
                    lambda *, count, **_: np.zeros(count, np.int64),
                )
            released = mechanism.release(candidates, entropy=SeededEntropy(1)).to_pylist()
        assert set(earlier) <= {tuple(row[name] for name in names) for row in released}
        tables[name] = released
    assert tables["one"] == tables["many"] == tables["files"]


@pytest.mark.parametrize("kind", ["keyword", "pair", "itemset"])
def test_other_tables_have_windows(hostile, monkeypatch, kind):
    path, _, times = hostile
    middle = times[len(times) // 2]
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=5)
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        late = read(find(str(path)), engine=engine, since=middle.isoformat())
        every, apart = (
            mechanism.gather(log, View(kind=kind, way="first", **more), entropy=SeededEntropy(3))
            for more in ({}, {"count_from": middle})
        )
        cut = mechanism.gather(late, View(kind=kind, way="first"), entropy=SeededEntropy(3))
        selected = [
            in_order(candidates.table(keys_in(candidates.first))) for candidates in (every, apart)
        ]
        assert selected[0].equals(selected[1])
        keys = selected[0].slice(0, 40)
        holders = [find_holders(candidates, keys) for candidates in (every, apart, cut)]
        users = [np.bincount(h.item, h.units, minlength=40).tolist() for h in holders]
        assert users[1] == users[2] != users[0]


def keys_in(shards):
    return np.concatenate([shard.keys for shard in shards])


def test_runs_are_counted_where_they_were_cut(hostile):
    path, _, times = hostile
    view = View(kind="itemset", way="first", consecutive=True, count_from=times[9])
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        with pytest.raises(UsageError, match="rows that they were cut from"):
            Rounds.solve(epsilon=4.0, delta=1e-3, d=5).gather(log, view, entropy=SeededEntropy(1))
