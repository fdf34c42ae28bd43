"""The random bound on codes: its order is that of a plain model, and ties go by bytes."""

import numpy as np
import pyarrow as pa
import pytest
from bound_replay import random_order
from hypothesis import given, settings
from hypothesis import strategies as st
from replacement import replaced

from murmurlog.counting import choice
from murmurlog.counting.choice import ChoiceKey, choose, combine, hash_texts, order_of


def _columns(items):
    return zip(*items, strict=True) if items else ([], [])


KEY = ChoiceKey(secret=bytes(range(1, 17)))
TEXTS = st.text(max_size=30)


@settings(deadline=None)
@given(units=st.lists(TEXTS, min_size=1, max_size=5), items=st.lists(st.tuples(TEXTS, TEXTS)))
def test_the_order_is_that_of_a_plain_model(units, items):
    columns = [pa.array(column, pa.string()) for column in _columns(items)]
    hashes = KEY.items(columns)
    for unit, of_unit in zip(units, KEY.units(pa.array(units)), strict=True):
        found = order_of(of_unit, hashes).tolist()
        assert found == [random_order(KEY.secret, unit, item) for item in items]


def test_texts_are_hashed_wherever_they_are_in_memory(monkeypatch):
    texts = ["", "a", "1234567", "12345678", "123456789", "é" * 9, "x" * 5000, "a\x00", "a\x00\x00"]
    expected = [hash_texts(pa.array([text]), np.uint64(5))[0] for text in texts]
    assert len(set(expected)) == len(texts)
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(["before", *texts, "after"], kind).slice(1, len(texts))
        monkeypatch.setattr(choice, "TEXTS_AT_ONCE", 4)
        assert hash_texts(array, np.uint64(5)).tolist() == expected
    assert hash_texts(pa.array([], pa.string()), np.uint64(5)).tolist() == []


def test_the_order_of_columns_and_the_key_matter():
    one, two = pa.array(["a"]), pa.array(["b"])
    assert KEY.items([one, two]) != KEY.items([two, one])
    other = ChoiceKey(secret=bytes(16))
    assert KEY.units(one) != other.units(one)
    assert combine([KEY.column(one, 0)]) == KEY.items([one])


ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=80)


ORDERS = {
    "mixed": order_of,
    "of the last bits": lambda units, items: units * np.uint64(3) ^ items,
    "with ties": lambda units, items: (units ^ items) // np.uint64(4) << np.uint64(60),
}


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(rows=ROWS, d=st.integers(1, 4), places=st.booleans())
def test_the_least_are_kept_and_ties_go_by_bytes(order, rows, d, places):
    unit, item = np.array(rows, np.int32).reshape(-1, 2).T
    names = np.array([7, 3, 9, 1, 0, 2, 8, 6, 5, 4])  # their order by bytes
    with replaced(choice, "order_of", ORDERS[order]):
        found = choose(
            unit=unit, item=item, per_unit=d, places=places, ranks=lambda some: names[some],
            unit_hashes=lambda some: some.astype(np.uint64),
            item_hashes=lambda some: some.astype(np.uint64),
        )  # fmt: skip
    expected = set()
    for u in set(unit.tolist()):
        own = sorted(set(item[unit == u].tolist()))
        at = ORDERS[order](np.full(len(own), u, np.uint64), np.array(own, np.uint64))
        first = [i for _, _, i in sorted(zip(at.tolist(), names[own], own, strict=True))][:d]
        expected |= {(u, i, first.index(i) if places else 0) for i in first}
    kept = list(zip(*(column.tolist() for column in found), strict=True))
    assert len(kept) == len(set(kept))
    assert set(kept) == expected


def test_every_item_of_a_unit_is_kept_equally_often():
    """2,000 units with the same 20 items keep 5 each: an item is kept by 500, give or take 19.4."""
    users, names = [f"u{n}" for n in range(2000)], pa.array([f"query {n}" for n in range(20)])
    unit, item = np.divmod(np.arange(40_000), 20)
    _, kept, _ = choose(
        unit=unit, item=item, per_unit=5, places=False, ranks=lambda some: some,
        unit_hashes=lambda some: KEY.units(pa.array(users).take(pa.array(some))),
        item_hashes=lambda some: KEY.items([names.take(pa.array(some))]),
    )  # fmt: skip
    assert abs(np.bincount(kept) - 500).max() < 5 * 19.4
