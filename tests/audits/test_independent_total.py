"""A second computation of epsilon and delta agrees with the first, and sees what is left out."""

import math
from dataclasses import replace

import pytest
from independent_total import (
    Cost,
    check_total,
    delta_of_table,
    gaussian,
    geometric,
    joint_delta,
)

from murmurlog.privacy import Loss, delta_of_losses, hockey_stick
from murmurlog.publishing.plan import plan_tables

CASES = [
    (("query",), "rounds", {}),
    (("query", "click", "pair"), "rounds", {}),
    (("query",), "threshold", {}),
    (("query",), "threshold", {"noise": "geometric"}),
    (("query",), "korolova", {}),
    (("query",), "zealous", {}),
    (("session",), "sessions", {}),
    (("session",), "session-tree", {}),
    (("query", "session"), "session-tree", {}),
    (("log",), "synthetic", {}),
    (("query", "left_out"), "rounds", {}),
    (("query", "left_out", "pair"), "threshold", {}),
    (("query", "left_out"), "korolova", {}),
]


def plan_texts(tables, mechanism, more, neighbours="add-remove", epsilon=1.0, delta=1e-6):
    plans, total = plan_tables(
        tables, mechanism=mechanism, epsilon=epsilon, delta=delta, neighbours=neighbours,
        per_user=dict.fromkeys(tables, 3), **more,
    )  # fmt: skip
    texts = {table: str(plan.mechanism) for table, plan in plans.items()}
    return texts, {table: plan.guarantee for table, plan in plans.items()}, total


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("tables", "mechanism", "more"), CASES)
def test_what_is_stated_is_what_the_printed_numbers_cost(tables, mechanism, more, neighbours):
    texts, stated, total = plan_texts(tables, mechanism, more, neighbours)
    assert check_total(texts, stated, total) == []
    for table, text in texts.items():
        computed = delta_of_table(text, stated[table].epsilon, neighbours)
        assert computed == pytest.approx(stated[table].delta, rel=1e-5)


@pytest.mark.parametrize(("tables", "mechanism", "more"), CASES)
def test_a_smaller_delta_or_epsilon_than_that_is_a_fault(tables, mechanism, more):
    texts, stated, total = plan_texts(tables, mechanism, more)
    table = tables[0]
    less = stated | {table: replace(stated[table], delta=0.9 * stated[table].delta)}
    assert f"{table}: " in check_total(texts, less, total)[0]
    less = stated | {table: replace(stated[table], epsilon=0.9 * stated[table].epsilon)}
    assert f"{table}: " in check_total(texts, less, total)[0]


def test_a_total_of_less_than_all_tables_is_a_fault():
    texts, stated, total = plan_texts(("query", "click", "pair"), "rounds", {})
    less = replace(total, delta=0.9 * total.delta)
    assert check_total(texts, stated, less)[0].startswith("all tables together have delta")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_sums_over_losses_are_the_closed_forms(epsilon):
    for d, scale in ((1, 0.7), (4, 2.0), (30, 9.0)):
        closed = hockey_stick(noise="geometric", epsilon=epsilon, copies=d, scale=scale)
        assert geometric(epsilon, scale, d) == pytest.approx(closed, rel=1e-9, abs=1e-15)
        closed = hockey_stick(noise="gaussian", epsilon=epsilon, copies=d, scale=scale)
        assert gaussian(epsilon, math.sqrt(d) / scale) == pytest.approx(closed, rel=1e-9, abs=1e-15)


def test_convolution_is_below_what_is_stated_and_near_it():
    ours = [Cost(squares=0.04, keys=1e-7), Cost(geometric=((4.0, 2),)), Cost(pure=(0.3,))]
    theirs = [
        Loss(mu=0.2, keys=1e-7), Loss(keys=0.0, draws=((4.0, 2),)), Loss(keys=0.0, pure=(0.3,))
    ]  # fmt: skip
    for epsilon in (0.5, 1.0, 1.3):
        low, high = joint_delta(ours, epsilon), delta_of_losses(theirs, epsilon=epsilon)
        assert 0.98 * high < low <= high
