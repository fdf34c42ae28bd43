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
from murmurlog.logs import partitions, text_keys
from murmurlog.logs.rows import RowReader
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


def ignore_value_of_by(self, keys, value, text_keys):
    """The defect of version 0.2 and before: each of two options alone was right."""
    listed = self.known()
    if value is None:
        return text_keys_places(keys, listed) >= 0
    every = [
        text_keys.combine([keys, np.broadcast_to(v, keys.shape)]) for v in np.unique(value, axis=0)
    ]
    return np.any([text_keys_places(some, listed) >= 0 for some in every], axis=0)


text_keys_places = text_keys.places_of


def route_by_row(self, piece, route=RowReader.route):
    """Rows of one unit in two partitions."""
    parts = route(self, piece)
    return [parts[0].at(slice(0, 1)), *parts[1:-1], parts[-1]] if len(parts) == 1 else parts[::-1] \
        if len(piece.time) % 2 else parts  # fmt: skip


def keys_alone(keys):
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:, 0] != keys[:-1, 0]
    return new


def places_of_keys_alone(keys, listed):
    at = np.searchsorted(listed[:, 0], keys[:, 0])
    inside = at < len(listed)
    inside[inside] = listed[at[inside], 0] == keys[inside, 0]
    return np.where(inside, at, -1)


def rounded_weights(unit, attention, *, grid):
    squares = np.bincount(unit, weights=np.broadcast_to(attention, len(unit)) ** 2.0)
    return np.rint(attention * grid / np.sqrt(squares[unit])).astype(np.int64)


MUTANTS = {
    "the value of --by is not compared": (ItemFinder, "knows", ignore_value_of_by, WHOLE),
    "units are in two partitions": (RowReader, "route", route_by_row, WHOLE),
    "equal times come in the order of rows": (bound, "sort_ties", lambda order, *_: order, WHOLE),
    "queries of one time come in the order of rows": (items, "sort_ties", lambda order, *_: order, WHOLE),
    "weights are rounded": (select, "give_weights", rounded_weights, WHOLE),
    "an item of a unit comes twice": (
        bound, "first_of_each", lambda unit, item: first_of_each(unit, item) | (item == 0), WHOLE,
    ),
    "sums are grouped without checks": (partitions, "starts_of_runs", keys_alone, NARROW),
    "keys are looked up without checks": (select, "places_of", places_of_keys_alone, NARROW),
    "items are looked up without checks": (items, "places_of", places_of_keys_alone, NARROW),
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
