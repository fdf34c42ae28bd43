"""Items of several partitions get one number for each distinct key, wherever the keys are compared."""

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.counting import numbering
from murmurlog.counting.bound import FirstItems, PartitionedBounded
from murmurlog.counting.holdings import Holdings
from murmurlog.counting.numbering import number_partitions
from murmurlog.logs.encoded import EncodedColumn
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.partitions import map_file

# Of each partition, what its units hold.
PARTS = [
    [[("a", "x"), ("b", "x")], [("é", "y")]],
    [],
    [[("b", "x"), ("b", "y")], [("a", "x")], [("ab", "x"), ("a", "bx")]],
]


def partition(units):
    pairs = [(unit, key) for unit, keys in enumerate(units) for key in keys]
    distinct = sorted({key for _, key in pairs}, reverse=True)
    codes = np.arange(len(distinct), dtype=np.int32)
    columns = [pa.array([key[place] for key in distinct], pa.string()) for place in (0, 1)]
    unit = np.array([unit for unit, _ in pairs], np.int32)
    item = np.array([distinct.index(key) for _, key in pairs], np.int32)
    return Holdings(
        unit=unit, time=np.zeros(len(unit)), item=item, users=pa.array([], pa.string()),
        keys=tuple(EncodedColumn(codes=codes, texts=texts) for texts in columns),
        unit_user=None, unit_start=None,
    )  # fmt: skip


def make_bounded(engine, parts):
    return PartitionedBounded(
        engine=engine, kind="click", keys=("query", "url"), unit="user", per_user=9, way="first",
        count="users", holdings=lambda: map(partition, parts), places=False,
        first=lambda held: FirstItems(unit=held.unit, item=held.item, place=held.unit),
    )  # fmt: skip


@pytest.mark.parametrize("hashes", ["usual", "all equal"])
def test_a_key_has_one_number_in_all_partitions(hashes, monkeypatch):
    monkeypatch.setattr(numbering, "RUN", 1e-12)  # a bucket at a time
    if hashes == "all equal":
        monkeypatch.setattr(Holdings, "item_hashes", lambda _, some, key: np.zeros(len(some), "u8"))
    done = []
    with connect() as engine:
        found = number_partitions(make_bounded(engine, PARTS), advance=lambda: done.append(1))
        files = set(engine.folder.glob("*.arrow"))
        assert files == {*found.rows, *found.names}
        names = pa.concat_tables(map(map_file, found.names)).to_pylist()
        rows = [row for file in found.rows for row in map_file(file).to_pylist()]
        last = pa.concat_tables(found.keys_of(np.array([1, found.size - 1]))).to_pylist()
    assert [row.pop("item") for row in names] == list(range(found.size))
    keys = [tuple(row.values()) for row in names]
    units = [unit for part in PARTS for unit in part]
    assert len({*keys}) == found.size == len({key for unit in units for key in unit})
    assert last == [names[1], names[-1]]
    held = {}
    for row in rows:
        held.setdefault(row["unit"], []).append(keys[row["item"]])
    assert [held[unit] for unit in sorted(held)] == units
    assert len(done) == len(PARTS)


def test_nothing_has_no_numbers():
    with connect() as engine:
        found = number_partitions(make_bounded(engine, [[]]), advance=lambda: None)
        assert found.size == 0
        assert pa.concat_tables(found.keys_of(np.zeros(0, np.int64))).num_rows == 0
