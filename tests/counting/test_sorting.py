"""Both ways to sort codes give the same: counting with SciPy, and sorting words."""

import numpy as np
import pytest

from murmurlog.counting import sorting


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("items", [3, 100_000])
def test_counting_and_words_sort_alike(seed, items, monkeypatch):
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 3000))
    unit = random.integers(0, 2 * rows, rows, dtype=random.choice([np.int32, np.int64]))
    item = random.integers(0, items, rows, dtype=random.choice([np.int32, np.int64]))
    monkeypatch.setattr(sorting, "MANY", rows + 1)
    by_words = *sorting.group(unit), *sorting.distinct_pairs(unit, item)
    monkeypatch.setattr(sorting, "MANY", 1)
    counted = *sorting.group(unit), *sorting.distinct_pairs(unit, item)
    for ours, other in zip(counted, by_words, strict=True):
        assert ours.dtype == other.dtype
        assert ours.tolist() == other.tolist()


def test_groups_keep_the_order_of_rows():
    order, codes = sorting.group(np.array([2, 0, 2, 1, 0]))
    assert order.tolist() == [1, 4, 3, 0, 2]
    assert codes.tolist() == [0, 0, 1, 2, 2]
