"""Batches become the rows of partitions: any batches, order and sizes give the same rows; large units are cut."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import murmurlog.logs.rows
from murmurlog.logs.cleaning import Cleaning, column_cleaners
from murmurlog.logs.rows import NO_RANK, RowReader, Texts, order_in_time, period_start
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.workspace import open_workspace
from murmurlog.privacy.sampler import SeededEntropy


def random_log(rng, *, rows):
    """Rows of which some users have very many, with equal times, equal records and missing urls."""
    many = ["a", "b", "c"]
    users = [*many, *(f"u{number}" for number in range(30))]
    weights = np.array([8, 5, 3] + [0.3] * 30)
    return pa.table(
        {
            "user": rng.choice(users, rows, p=weights / weights.sum()),
            "time": pa.array(rng.integers(0, 30, rows) * 3_600_000_000, pa.timestamp("us")),
            "bad_time": np.zeros(rows, bool),
            "query": rng.choice([f"Q{'x' * n}" for n in range(20)] + ["qx", " qx"], rows),
            "url": rng.choice(["http://a.b/c", "http://d.e/", ""], rows),
            "rank": pa.array(rng.integers(1, 4, rows), pa.int32()),
        }
    )


def read_rows(table, *, seed=1, batch=100, memory=1 << 30, threads=1, **options):
    """The rows of a table as Python values, the partition of each unit, and what was dropped."""
    keys, cleaning = TextKeys(SeededEntropy(seed)), Cleaning(url="path")
    with open_workspace(memory=memory, threads=threads) as workspace:
        texts = Texts(workspace, column_cleaners(cleaning))
        reader = RowReader(cleaning=cleaning, text_keys=keys, texts=texts, **options)
        read = reader.read(iter(table.combine_chunks().to_batches(batch)), workspace).settle()
        rows, units = [], Counter()
        for part in read.partitions.results(lambda part: part):
            units.update(key.tobytes() for key in part.unit_keys)
            queries, urls = (
                part.texts.take(column.ids).to_pylist() for column in (part.query, part.url)
            )
            assert (np.diff(part.unit) >= 0).all()
            assert (np.diff(part.time)[np.diff(part.unit) == 0] >= 0).all()
            for n in range(part.count):
                url = urls[part.url.codes[n]] if part.url.codes[n] >= 0 else None
                unit = part.unit_keys[part.unit[n]].tobytes()
                record = (int(part.time[n]), queries[part.query.codes[n]], url, int(part.rank[n]))
                rows.append((unit, *record))
    assert set(units.values()) <= {1}, "a unit is in two partitions"
    return sorted(rows, key=repr), read


@pytest.mark.parametrize("seed", range(12))
def test_rows_do_not_depend_on_order_batches_partitions_memory_or_threads(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 700))
    table = random_log(rng, rows=rows)
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_ROWS_A_UNIT", int(rng.integers(1, 60)))
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_BYTES_A_UNIT", int(rng.integers(20, 2000)))
    unit = "user-day" if seed % 3 == 2 else "user"
    expected, _ = read_rows(table, bits=0, unit=unit)
    for _ in range(4):
        again, _ = read_rows(
            table.take(pa.array(rng.permutation(rows))),
            batch=int(rng.integers(max(1, rows // 20), rows + 1)),
            memory=int(rng.choice([0, 20_000, 1 << 30])),
            threads=int(rng.integers(1, 3)),
            bits=int(rng.integers(0, 5)),
            most_rows=int(rng.integers(5, 500)),
            most_bytes=int(rng.integers(100, 50_000)),
            unit=unit,
        )
        assert again == expected


def test_a_unit_keeps_its_first_rows_and_nothing_after_the_first_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_BYTES_A_UNIT", 20)
    sizes = [
        4,
        4,
        12,
        1,
        1,
    ]  # with the user's name a byte more; the third does not fit, the others would
    table = pa.table(
        {
            "user": ["a"] * 5 + ["b"],
            "time": pa.array([*range(5), 0], pa.timestamp("us")),
            "bad_time": np.zeros(6, bool),
            "query": [*("q" * size for size in sizes), "z"],
            "url": pa.nulls(6, pa.string()),
            "rank": pa.nulls(6, pa.int32()),
        }
    )
    rows, read = read_rows(table)
    assert sorted(query for _, _, query, _, _ in rows) == ["qqqq", "qqqq", "z"]
    assert {rank for *_, rank in rows} == {NO_RANK}
    assert read.counts.rows == 6  # the cut is no fault of a row


@pytest.mark.parametrize("unit", ["user", "user-day"])
def test_the_cut_of_one_unit_does_not_depend_on_others(monkeypatch, unit):
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_ROWS_A_UNIT", 7)
    rng = np.random.default_rng(5)
    table = random_log(rng, rows=400)
    rows, _ = read_rows(table, unit=unit, most_rows=20)
    for user in ("a", "u3"):
        others = table.filter(pa.compute.not_equal(table["user"], user))
        fewer, _ = read_rows(others, unit=unit, most_rows=20)
        assert set(fewer) <= set(rows)
        left = {row[0] for row in rows} - {row[0] for row in fewer}
        assert {row for row in rows if row[0] not in left} == set(fewer)


def test_a_row_with_a_long_value_is_broken(monkeypatch):
    monkeypatch.setattr(murmurlog.logs.rows, "MOST_BYTES_A_VALUE", 10)
    table = pa.table(
        {
            "user": ["a", "b", "c" * 11, "d"],
            "time": pa.array([0, 1, 2, 3], pa.timestamp("us")),
            "bad_time": np.zeros(4, bool),
            "query": ["x", "y" * 11, "z", "w"],
            "url": [None, None, None, "http://a/" + "p" * 9],
            "rank": pa.nulls(4, pa.int32()),
        }
    )
    rows, read = read_rows(table)
    assert [query for _, _, query, _, _ in rows] == ["x"]
    assert read.counts.broken["value too long"] == 3
    assert read.counts.rows == 1


def test_whole_numbers_are_users_without_a_clash():
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63)] * 2)
    keys = TextKeys(SeededEntropy(3)).numbers(numbers)
    assert len({key.tobytes() for key in keys}) == 5


@pytest.mark.parametrize("shift", [0, -(2**62)])
def test_rows_are_in_order_of_unit_and_time_whatever_the_span(shift):
    rng = np.random.default_rng(2)
    unit = np.sort(rng.integers(0, 9, 300))
    time = rng.integers(shift, shift + 2**61 if shift else 50, 300)
    never = np.iinfo(np.int64).max
    time[rng.random(300) < 0.1] = never
    order = order_in_time(unit, time)
    assert sorted(order.tolist()) == list(range(300))
    pairs = list(zip(unit[order].tolist(), time[order].tolist(), strict=True))
    assert pairs == sorted(pairs)
    assert order_in_time(unit, time[order]) is None


def test_periods_begin_on_their_first_day():
    moments = np.array(["2024-02-29T23:59", "1969-12-31T00:00"], "datetime64[us]").astype(np.int64)
    starts = {period: period_start(moments, period) for period in "DWM"}
    days = {period: start.astype("datetime64[D]").astype(str) for period, start in starts.items()}
    assert days["D"].tolist() == ["2024-02-29", "1969-12-31"]
    assert days["W"].tolist() == ["2024-02-26", "1969-12-29"]
    assert days["M"].tolist() == ["2024-02-01", "1969-12-01"]
