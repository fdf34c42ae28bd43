"""Bounds in any partitions, and the weights of counts; twins that keep more, or look at other users, are caught."""

import pytest
from blind_twins import BLIND
from product_fuzz import check_partitions
from rounds_replay import check_count_weights
from twins import TWINS

BROKEN = {twin.name: twin for twin in (*TWINS, *BLIND)}
OF_BOUNDS = (
    "random bound keyed by the row count",
    "some partitions bounding to d + 1",
    "bound skipped",
    "sessions: the gap is measured over all users",
)


def test_the_weights_of_counts_are_those_of_the_proof():
    assert check_count_weights() == []
    for name in ("d2 clip off by one", "count weights rounded up"):
        with BROKEN[name].broken():
            assert "a unit with 2 published items" in check_count_weights()[0]


def test_bounds_are_those_of_the_model(tmp_path):
    assert check_partitions(tmp_path) == []


@pytest.mark.parametrize("name", OF_BOUNDS)
def test_a_bound_that_is_another_one_is_caught(name, tmp_path):
    with BROKEN[name].broken():
        assert check_partitions(tmp_path)
