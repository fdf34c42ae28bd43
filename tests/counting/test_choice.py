"""The random bound: a unit's items in the order of a keyed hash of unit and item, whatever else there is."""

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.counting.bound import Bound
from murmurlog.counting.items import Items, TextNames
from murmurlog.logs.text_keys import TextKeys, order_of_keys
from murmurlog.privacy.sampler import SeededEntropy

MASK = (1 << 64) - 1


def mixed(word):
    """The finaliser of splitmix64, on Python's integers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
    return word ^ word >> 31


def items_of(rows, *, units, items, seed=1):
    """Items of units, given as pairs of numbers."""
    text_keys = TextKeys(SeededEntropy(seed))
    unit_keys = text_keys.texts(pa.array([f"user {n}" for n in range(units)]))
    keys = text_keys.texts(pa.array([f"item {n}" for n in range(items)]))
    keys = keys[order_of_keys(keys)]
    unit, item = np.array(sorted(rows), np.int32).reshape(-1, 2).T
    return Items(
        unit=unit, item=item, time=np.zeros(len(unit), np.int64), keys=keys,
        names=(TextNames(np.arange(items)),), unit_keys=unit_keys, texts=None, text_keys=text_keys,
    )  # fmt: skip


def bounded(items, *, per_unit, secret=5, places=False):
    choice = Bound(per_unit=per_unit, secret=secret, places=places)(items)
    places = [0] * len(choice.unit) if choice.place is None else choice.place.tolist()
    keys = [key.tobytes() for key in choice.keys[choice.item]]
    return set(zip(choice.unit.tolist(), keys, places, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_the_least_of_a_plain_model_are_kept(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, [7, 10], (int(rng.integers(1, 80)), 2)).tolist()
    items, d = items_of(rows, units=7, items=10), int(rng.integers(1, 5))
    secret, places = int(rng.integers(0, 2**63)), bool(seed % 2)
    expected = set()
    for unit in {unit for unit, _ in rows}:
        salt = mixed(int(items.unit_keys[unit, 0]) ^ secret)
        order = sorted(
            {item for other, item in rows if other == unit},
            key=lambda item: (mixed(salt ^ int(items.keys[item, 0])), int(items.keys[item, 1])),
        )
        expected |= {
            (unit, items.keys[item].tobytes(), place if places else 0)
            for place, item in enumerate(order[:d])
        }
    assert bounded(items, per_unit=d, secret=secret, places=places) == expected


def test_equal_first_words_are_told_apart_by_the_check():
    items = items_of([(0, n) for n in range(6)], units=1, items=6)
    items.keys[:, 0] = 7
    items.keys[:, 1] = [5, 3, 9, 1, 0, 2]
    choice = bounded(items, per_unit=3)
    checks = {int(np.frombuffer(key, np.uint64)[1]) for _, key, _ in choice}
    assert checks == {0, 1, 2}


def test_every_item_of_a_unit_is_kept_equally_often():
    """2,000 units with the same 20 items keep 5 each: an item is kept by 500, give or take 19.4."""
    rows = [(unit, item) for unit in range(2000) for item in range(20)]
    items = items_of(rows, units=2000, items=20)
    choice = Bound(per_unit=5, secret=11)(items)
    assert len(choice.unit) == 10_000
    assert abs(np.bincount(choice.item) - 500).max() < 5 * 19.4


def test_another_secret_chooses_others():
    items = items_of([(n % 7, n % 50) for n in range(350)], units=7, items=50)
    assert bounded(items, per_unit=3, secret=1) != bounded(items, per_unit=3, secret=2)
