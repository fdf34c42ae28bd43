"""Both ways to sort codes give the same: counting with SciPy, and sorting words."""

import sys

import numpy as np
import pytest

from murmurlog.counting import sorting
from murmurlog.logs.encoded import NEVER


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("items", [3, 100_000])
def test_counting_and_words_sort_alike(seed, items, monkeypatch):
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 3000))
    unit = random.integers(0, 2 * rows, rows, dtype=random.choice([np.int32, np.int64]))
    item = random.integers(0, items, rows, dtype=random.choice([np.int32, np.int64]))
    monkeypatch.setattr(sorting, "MANY", rows + 1)
    time = random.choice([-5, 3, 4, NEVER - 1, NEVER], rows)
    by_words = *all_orders(unit, item), *orders_in_time(unit, time)
    monkeypatch.setattr(sorting, "MANY", 1)
    counted = *all_orders(unit, item), *orders_in_time(unit, time)
    for ours, other in zip(counted, by_words, strict=True):
        assert ours.dtype == other.dtype
        assert ours.tolist() == other.tolist()


def test_a_worker_without_scipy_sorts_words(monkeypatch):
    monkeypatch.setattr(sorting, "MANY", 1)
    monkeypatch.setattr(sorting, "_has_scipy", lambda: False)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    units, items = np.array([1, 0, 1]), np.array([4, 4, 4])
    order, by_unit, new, *pairs = all_orders(units, items)
    assert (order.tolist(), new.tolist()) == ([1, 0, 2], [True, True, False])
    assert [column.tolist() for column in pairs] == [[0, 1], [4, 4]]


def all_orders(unit, item):
    order, units = sorting.group(unit)
    new = sorting.first_of_each(units, item[order], np.bincount(units))
    return order, units, new, *sorting.distinct_pairs(unit, item)


def orders_in_time(unit, time):
    """The times in order, the units, and which are alike; rows of one unit and time come in any order."""
    order, units, alike = sorting.in_time(unit, time)
    assert sorted(order.tolist()) == list(range(len(unit)))
    assert unit[order].tolist() == units.tolist()
    return time[order], units, alike


def test_groups_keep_the_order_of_rows():
    order, codes = sorting.group(np.array([2, 0, 2, 1, 0]))
    assert order.tolist() == [1, 4, 3, 0, 2]
    assert codes.tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("many", [1, 100])
def test_the_first_row_of_a_unit_with_an_item_is_found(many, monkeypatch):
    monkeypatch.setattr(sorting, "MANY", many)
    units, items = np.array([0, 0, 0, 2, 2, 2, 2]), np.array([5, 3, 5, 5, 1, 1, 5])
    found = sorting.first_of_each(units, items, np.bincount(units))
    assert found.tolist() == [True, True, False, True, True, False, False]
