"""Windows of `rounds`: keys from one period, counts over another, in every implementation and as a plain program says."""

from collections import Counter, defaultdict
from datetime import datetime
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import hostile_log
from log_readers import read_by_implementation
from quick_cases import sample_cases

from murmurlog.bundle.schema import keys_of
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.rounds.holders import find_holders
from murmurlog.privacy.sampler import SeededEntropy


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """(a log, its size, its clean rows, its times)."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    log = hostile_log(1500, seed=4)
    pq.write_table(log, path)
    with connect() as engine:
        rows = read(find(str(path)), engine=engine).table.to_pyarrow().to_pylist()
    assert any(row["time"] is None for row in rows)
    return path, log.nbytes, rows, sorted(row["time"] for row in rows if row["time"])


def key_of(kind, row):
    return (row["query"],) if kind == "query" else (row["query"], row["url"])


def units(rows, kind, unit, since):
    """Of each unit, the first time of each item in the window: a plain program."""
    found = defaultdict(dict)
    for row in rows:
        if kind == "click" and row["url"] is None:
            continue
        if (since and (row["time"] is None or row["time"] < since)) or (
            unit == "user-day" and row["time"] is None
        ):
            continue
        name = (row["user"], row["time"].date()) if unit == "user-day" else row["user"]
        key, time = key_of(kind, row), row["time"] or datetime.max
        found[name][key] = min(time, found[name].get(key, time))
    return found


@pytest.mark.parametrize(
    ("unit", "kind", "way"),
    sample_cases(
        product(["user", "user-day"], ["query", "click"], ["from first", "from last", "apart"]),
        every=5,
    ),
)
def test_keys_and_counts_are_of_their_windows_in_every_implementation(
    hostile, monkeypatch, kind, unit, way
):
    path, size, rows, times = hostile
    middle, late = times[len(times) // 2], times[2 * len(times) // 3]
    select, count = {
        "from first": (None, middle),
        "from last": (late, None),
        "apart": (middle, late),
    }[way]
    d = 3
    selected, counted = (units(rows, kind, unit, since) for since in (select, count))
    asked = Counter(key for items in units(rows, kind, unit, None).values() for key in items)
    common = [key for key, _ in sorted(asked.items(), key=lambda pair: (-pair[1], pair[0]))]
    names = keys_of(kind)

    def listed(keys):
        return pa.table({name: [key[i] for key in keys] for i, name in enumerate(names)})

    known = [common[0], common[2], ("nobody asks this",) + ("nowhere.org",) * (kind == "click")]
    published = [*common[:9], known[-1]]
    bounded = Counter(
        key
        for items in selected.values()
        for _, key in sorted((time, key) for key, time in items.items() if key not in known)[:d]
    )
    held_by = Counter()
    for items in counted.values():
        some = [key for key in items if key in published]
        held_by.update((key, len(some)) for key in some)
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=d)
    view = View(
        kind=kind, unit=unit, way="first", earlier={kind: listed(known)}, select_from=select,
        count_from=count,
    )  # fmt: skip
    shown = {}
    for name, log in read_by_implementation(path, room=size / 3):
        held = mechanism.gather(log, view, entropy=SeededEntropy(3))
        kept = held.table.join(held.names, "item").select(*names).to_pyarrow().to_pylist()
        assert Counter(tuple(row.values()) for row in kept) == bounded, name
        holders = find_holders(held, listed(published))
        found = Counter()
        for item, m, n in zip(holders.item, holders.m, holders.units, strict=True):
            found[published[item], int(m)] += int(n)
        assert found == held_by, name
        with monkeypatch.context() as patched:  # no noise: all publish the same rows
            patched.setattr(
                "murmurlog.mechanisms.rounds.mechanism.draw",
                lambda *, count, **_: np.zeros(count, np.int64),
            )
            made = mechanism.release(held, entropy=SeededEntropy(1)).to_pylist()
        assert set(known) <= {tuple(row[name] for name in names) for row in made}
        shown[name] = made
    assert shown["general"] == shown["encoded"] == shown["partitioned"]


@pytest.mark.parametrize("kind", ["keyword", "pair", "itemset"])
def test_other_tables_have_windows(hostile, monkeypatch, kind):
    path, size, _, times = hostile
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
        names = [every.names.to_pyarrow().sort_by("item"), apart.names.to_pyarrow().sort_by("item")]
        assert names[0].drop_columns("item").num_rows == names[1].num_rows
        keys = names[0].drop_columns("item").slice(0, 40)
        counts = [find_holders(each, keys) for each in (every, apart, cut)]
        users = [np.bincount(each.item, each.units, minlength=40).tolist() for each in counts]
        assert users[1] == users[2] != users[0]


def test_runs_are_counted_where_they_were_cut(hostile):
    path, _, _, times = hostile
    view = View(kind="itemset", way="first", consecutive=True, count_from=times[9])
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        with pytest.raises(UsageError, match="rows that they were cut from"):
            Rounds.solve(epsilon=4.0, delta=1e-3, d=5).gather(log, view, entropy=SeededEntropy(1))
