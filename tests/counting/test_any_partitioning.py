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
    comparison = product_fuzz.run(logs=10, seed=3)
    assert comparison.differences == []
    assert comparison.runs["settings"] == 60


def test_keys_of_four_bits_change_nothing_because_checks_tell_texts_apart():
    comparison = product_fuzz.run(logs=0, narrow=6, seed=4)
    assert comparison.differences == []
    assert comparison.runs["narrow"] == 36


def test_keys_of_four_bits_collide():
    sample = case(2, 4)
    queries = {row.query for row in sample.rows if row.query}
    keys = PlainKeys(1, NARROW)
    assert len({keys.text(query)[0] for query in queries}) <= 16 < len(queries)


def test_logs_in_files_are_read_as_the_model_reads_them():
    comparison = product_fuzz.run(logs=0, files=4, seed=5)
    assert comparison.differences == []
    assert comparison.runs["files"] == 4


# An implementation that differs is seen


def ignore_value_of_by(self, rows, query, row, published=ItemFinder.is_published):
    """The defect of version 0.2 and before: each of two options alone was right."""
    if self.by is None:
        return published(self, rows, query, row)
    published_keys, keys = self.published(), rows.query.keys
    with_value = [
        rows.text_keys.combine([keys, np.broadcast_to(value, keys.shape)])
        for value in rows.kept_columns[self.by.column].keys
    ]
    return np.any([published_keys.places(combined) >= 0 for combined in with_value], axis=0)[query]


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
    comparison = Comparison()
    for number in range(2, 100, 3):  # long logs
        cut = Cut(bits=1, rows_a_batch=7, memory=10**9, threads=1, most_rows=10**6, seed=number)
        sample = case(number, 6)
        try:
            product_fuzz.in_partitions(sample, [cut], tmp_path, comparison, mask=mask)
        except Exception:  # a check of the package is as good
            return
        if comparison.differences:
            return
    pytest.fail("no difference")


def test_a_model_that_differs_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(
        product_fuzz, "outcome", lambda sample, keys: outcome(case(sample.number + 1, 7), keys)
    )
    comparison = Comparison()
    product_fuzz.in_partitions(case(1, 7), [Cut.draw("1")], tmp_path, comparison)
    assert comparison.differences


# The settings


def test_every_option_meets_every_other():
    """Of the tables that `make fuzz` makes; --by has no session and no itemset table."""
    cases = [case(i, 1, tables=40, whole=True) for i in range(40)]
    every = [options_of(sample, table) for sample in cases for table in sample.tables]
    names = sorted(set().union(*every))
    alike = [
        {n for n in names if n.endswith(" table")},
        {"user", *PERIODS},
        {"bound first", "bound random"},
    ]
    for first, second in itertools.combinations(names, 2):
        if any({first, second} <= group for group in alike) or not can_meet(first, second):
            continue
        assert any({first, second} <= options for options in every), (first, second)


def options_of(sample, table):
    """The options that a table has, by name."""
    flags = ("by", "earlier", "pools", "select_from", "count_from", "longest", "consecutive")
    options = {name for name in flags if getattr(table, name)}
    options |= {"known"} if table.known is not None else set()
    options |= {"count rows"} if table.count == "rows" else set()
    options |= {"subsequences"} if table.repeats is not None else set()
    return options | {f"{table.kind} table", sample.unit, f"bound {table.way}"}


def can_meet(first, second):
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
    tables = [only.get(name, {name} if name in every else every) for name in (first, second)]
    return bool(tables[0] & tables[1]) and {first, second} != {"count rows", "bound random"}


def test_logs_are_of_many_kinds():
    cases = [case(i, 1) for i in range(200)]
    assert {sample.format for sample in cases} == {"parquet", "csv", "tsv", "jsonl", "duckdb"}
    assert {sample.unit for sample in cases} == {"user", *PERIODS}
    assert {sample.numbered for sample in cases} == {True, False}
    assert any(sample.since for sample in cases)
    assert any(sample.where for sample in cases)
    results = [outcome(sample, PlainKeys(sample.number)) for sample in cases[:60]]
    assert 0 < sum(not result.rows for result in results) < 20
    assert sum(any(facts["sums"] for facts in result.tables) for result in results) > 40
    assert sum(bool(result.screened) for result in results) > 5
    alive = [
        facts["weights"] for result in results for facts in result.tables if "weights" in facts
    ]
    assert sum(any(k == 2 for k, _ in weights) for weights in alive) > 20
