"""Any partitioning of a log gives what a plain model gives, for products of options; and what differs is seen."""

import itertools

import numpy as np
import product_fuzz
import pytest
from plain_keys import NARROW, WHOLE, PlainKeys
from product_fuzz import Comparison, Cut
from random_logs import case
from reference_model import outcome

from murmurlog.counting import bound, items
from murmurlog.counting.items import ItemFinder
from murmurlog.counting.sorting import first_of_each
from murmurlog.logs import partitions, rows
from murmurlog.logs.text_keys import KeyList
from murmurlog.mechanisms.rounds import select

PERIODS = ("user-day", "user-week", "user-month")


def test_any_partitioning_of_a_log_gives_what_a_plain_model_gives():
    found = product_fuzz.run(logs=10, seed=3)
    assert found.differences == []
    assert found.runs["settings"] == 60


def test_keys_of_four_bits_change_nothing_because_checks_tell_texts_apart():
    found = product_fuzz.run(logs=0, narrow=6, seed=4)
    assert found.differences == []
    assert found.runs["narrow"] == 36


def test_keys_of_four_bits_collide():
    made = case(2, 4)
    queries = {row.query for row in made.rows if row.query}
    keys = PlainKeys(1, NARROW)
    assert len({keys.text(query)[0] for query in queries}) <= 16 < len(queries)


def test_logs_in_files_are_read_as_the_model_reads_them():
    found = product_fuzz.run(logs=0, files=4, seed=5)
    assert found.differences == []
    assert found.runs["files"] == 4


# An implementation that differs is seen


def ignore_value_of_by(self, rows, query, row, published=ItemFinder.is_published):
    """The defect of version 0.2 and before: each of two options alone was right."""
    if self.by is None:
        return published(self, rows, query, row)
    listed, keys = self.published(), rows.query.keys
    with_value = [
        rows.text_keys.combine([keys, np.broadcast_to(value, keys.shape)])
        for value in rows.kept_columns[self.by.column].keys
    ]
    return np.any([listed.places(own) >= 0 for own in with_value], axis=0)[query]


def order_by_row(units, used, bits, usable):
    """Rows of one unit in two partitions."""
    rows = np.flatnonzero(usable)
    place = rows % (1 << bits)
    ends = np.cumsum(np.bincount(place, minlength=1 << bits))
    return rows[np.argsort(place, kind="stable")], [0, *ends.tolist()]


def group_without_checks(keys):
    order = np.argsort(keys[:, 0], kind="stable")
    words = keys[order, 0]
    return order, np.append(True, words[1:] != words[:-1])[: len(words)]


def places_without_checks(self, keys):
    at = np.searchsorted(self.keys[:, 0], keys[:, 0])
    inside = at < len(self)
    inside[inside] = self.keys[at[inside], 0] == keys[inside, 0]
    return np.where(inside, at, -1)


def rounded_weights(unit, attention, *, grid):
    squares = np.bincount(unit, weights=np.broadcast_to(attention, len(unit)) ** 2.0)
    return np.rint(attention * grid / np.sqrt(squares[unit])).astype(np.int64)


MUTANTS = {
    "the value of --by is not compared": (ItemFinder, "is_published", ignore_value_of_by, WHOLE),
    "units are in two partitions": (rows, "order_by_bits", order_by_row, WHOLE),
    "equal times come in the order of rows": (bound, "sort_ties", lambda order, *_: order, WHOLE),
    "queries of one time come in the order of rows": (items, "sort_ties", lambda order, *_: order, WHOLE),
    "weights are rounded": (select, "give_weights", rounded_weights, WHOLE),
    "an item of a unit comes twice": (
        bound, "first_of_each", lambda unit, item: first_of_each(unit, item) | (item == 0), WHOLE,
    ),
    "sums are grouped without checks": (partitions, "group_keys", group_without_checks, NARROW),
    "keys are looked up without checks": (KeyList, "places", places_without_checks, NARROW),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_an_implementation_that_differs_is_seen(name, monkeypatch, tmp_path):
    target, attribute, value, mask = MUTANTS[name]
    monkeypatch.setattr(target, attribute, value)
    found = Comparison()
    for number in range(2, 100, 3):  # long logs
        cut = Cut(bits=1, rows_a_batch=7, memory=10**9, threads=1, most_rows=10**6, seed=number)
        made = case(number, 6)
        try:
            product_fuzz.in_partitions(made, [cut], tmp_path, found, mask=mask)
        except Exception:  # a check of the package is as good
            return
        if found.differences:
            return
    pytest.fail("no difference")


def test_a_model_that_differs_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(
        product_fuzz, "outcome", lambda made, keys: outcome(case(made.number + 1, 7), keys)
    )
    found = Comparison()
    product_fuzz.in_partitions(case(1, 7), [Cut.draw("1")], tmp_path, found)
    assert found.differences


# The settings


def test_every_option_meets_every_other():
    """Of the tables that `make fuzz` makes; --by has no session and no itemset table."""
    cases = [case(i, 1, tables=40, whole=True) for i in range(40)]
    every = [options_of(made, table) for made in cases for table in made.tables]
    names = sorted(set().union(*every))
    alike = [
        {n for n in names if n.endswith(" table")},
        {"user", *PERIODS},
        {"bound first", "bound random"},
    ]
    for one, other in itertools.combinations(names, 2):
        if any({one, other} <= group for group in alike) or not can_meet(one, other):
            continue
        assert any({one, other} <= options for options in every), (one, other)


def options_of(made, table):
    """The options that a table has, by name."""
    flags = ("by", "earlier", "pools", "select_from", "count_from", "longest", "consecutive")
    given = {name for name in flags if getattr(table, name)}
    given |= {"known"} if table.known is not None else set()
    given |= {"count rows"} if table.count == "rows" else set()
    given |= {"subsequences"} if table.repeats is not None else set()
    return given | {f"{table.kind} table", made.unit, f"bound {table.way}"}


def can_meet(one, other):
    """Whether two options can be of one table."""
    only = {
        "known": {"click table", "pair table", "session table"},
        "earlier": {"query table", "click table", "pair table"},
        "pools": {"query table", "click table", "pair table"},
        "longest": {"session table"},
        "subsequences": {"session table"},
        "consecutive": {"itemset table"},
        "by": {"query table", "keyword table", "click table", "pair table"},
        "count rows": {"query table", "keyword table", "click table", "pair table"},
    }
    every = {
        f"{kind} table" for kind in ("query", "keyword", "click", "pair", "session", "itemset")
    }
    tables = [only.get(name, {name} if name in every else every) for name in (one, other)]
    return bool(tables[0] & tables[1]) and {one, other} != {"count rows", "bound random"}


def test_logs_are_of_many_kinds():
    cases = [case(i, 1) for i in range(200)]
    assert {made.format for made in cases} == {"parquet", "csv", "tsv", "jsonl", "duckdb"}
    assert {made.unit for made in cases} == {"user", *PERIODS}
    assert {made.numbered for made in cases} == {True, False}
    assert any(made.since for made in cases)
    assert any(made.where for made in cases)
    some = [outcome(made, PlainKeys(made.number)) for made in cases[:60]]
    assert 0 < sum(not one.rows for one in some) < 20
    assert sum(any(facts["sums"] for facts in one.tables) for one in some) > 40
    assert sum(bool(one.screened) for one in some) > 5
    alive = [facts["weights"] for one in some for facts in one.tables if "weights" in facts]
    assert sum(any(k == 2 for k, _ in weights) for weights in alive) > 20
