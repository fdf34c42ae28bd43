"""Orders of rows against plain Python, also where a pair and its place do not fit into one word."""

import numpy as np
import pytest

from murmurlog.counting.sorting import distinct_pairs, first_of_each, sort_ties
from murmurlog.errors import EngineError


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("far", [0, 1 << 58])
def test_the_first_row_of_a_unit_with_an_item_is_marked(seed, far):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 200))
    unit = np.sort(rng.integers(0, 9, rows))
    item = rng.integers(0, 6, rows) + far * rng.integers(0, 2, rows)
    seen, expected = set(), []
    for pair in zip(unit.tolist(), item.tolist(), strict=True):
        expected.append(pair not in seen)
        seen.add(pair)
    assert first_of_each(unit, item).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_distinct_pairs_are_in_order(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 200))
    unit, item = rng.integers(0, 9, rows, np.int32), rng.integers(0, 6, rows, np.int32)
    pairs = sorted(set(zip(unit.tolist(), item.tolist(), strict=True)))
    units, items = distinct_pairs(unit, item)
    assert list(zip(units.tolist(), items.tolist(), strict=True)) == pairs


def test_codes_that_do_not_fit_into_a_word_are_no_pairs():
    with pytest.raises(EngineError, match="do not fit into one word"):
        distinct_pairs(np.array([1 << 40]), np.array([1 << 23]))


def test_rows_of_one_time_are_in_the_order_of_ranks_and_others_stay():
    alike = np.array([True, False, False, True, True])  # rows 0, 1 and rows 3, 4, 5
    item = np.array([2, 0, 1, 1, 2, 0])
    ranked = []

    def ranks(items):
        ranked.extend(items.tolist())
        return -items

    order = sort_ties(np.arange(6), alike, item, ranks)
    assert order.tolist() == [0, 1, 2, 4, 3, 5]
    assert ranked == [0, 1, 2]
