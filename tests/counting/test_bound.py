"""Units, bounding and tally: the conditions A1 and A5-A7 that the proofs stand on."""

import random
from datetime import date, timedelta

import pytest
from counts import bounded_rows, counts_of, tally_of_log
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.bundle.schema import BY_VALUE, By
from murmurlog.counting.items import check
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms.protocol import View, tally_view
from murmurlog.privacy.sampler import SeededEntropy

DAY = "2026-01-{:02d} {:02d}:00:00"
UNITS = ("user", "user-month", "user-week", "user-day")

events = st.tuples(
    st.sampled_from("abcd"),  # user
    st.integers(1, 28),
    st.sampled_from((0, 9, 10, 23)),
    st.sampled_from(("red shoes", "Red  SHOES", "blue", "green hat", "x", "y", "z")),
    st.sampled_from(("", "one.example", "two.example/p")),
)
logs = st.lists(events, min_size=1, max_size=40)


def write(folder, rows):
    path = folder / "log.tsv"
    lines = [f"{u}\t{DAY.format(d, h)}\t{q}\t{url}" for u, d, h, q, url in rows]
    path.write_text("user\ttime\tquery\turl\n" + "\n".join(lines) + "\n")
    return path


@given(rows=logs, unit=st.sampled_from(UNITS), way=st.sampled_from(("first", "random")),
       kind=st.sampled_from(("query", "keyword")))  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_no_unit_keeps_more_than_its_bound(tmp_path_factory, rows, unit, way, kind):
    path = write(tmp_path_factory.mktemp("bound"), rows)
    rows = bounded_rows(path, unit=unit, way=way, kind=kind, per_user=2)
    per_unit = {}
    for name, *_ in rows:
        per_unit[name] = per_unit.get(name, 0) + 1
    assert max(per_unit.values(), default=0) <= 2


@given(rows=logs, way=st.sampled_from(("first", "random")),
       unit=st.sampled_from(UNITS))  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_removing_a_unit_changes_no_other_units_choice(tmp_path_factory, rows, way, unit):
    # A1, A6, A7: others' bounded sets are the same with and without it, whatever the row order.
    folder = tmp_path_factory.mktemp("neighbours")
    with_it = bounded_rows(write(folder, rows), unit=unit, way=way, per_user=2)
    victim = sorted(name for name, *_ in with_it)[0]
    if unit == "user":
        rest = [r for r in rows if r[0] != victim]
    else:
        rest = [r for r in rows if _unit_of(r, unit, rows) != victim]
    random.Random(len(rows)).shuffle(rest)
    if not rest:
        return
    without = bounded_rows(write(folder, rest), unit=unit, way=way, per_user=2)
    assert without == {row for row in with_it if row[0] != victim}


def _unit_of(row, unit, rows):
    """The name of a row's unit, computed a second time, in Python."""
    user, d = row[0], row[1]
    day = date(2026, 1, d)
    if unit == "user-month":
        day = day.replace(day=1)
    if unit == "user-week":
        day -= timedelta(days=day.weekday())
    return f"{day}|{user}"


@given(rows=logs)
@settings(max_examples=12, deadline=None)
def test_one_user_moves_the_tally_by_at_most_its_bound(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tally")
    before = tally_of_log(write(folder, rows), kind="click", per_user=2)
    rest = [r for r in rows if r[0] != rows[0][0]]
    after = tally_of_log(write(folder, rest), kind="click", per_user=2) if rest else {}
    moved = {k: before.get(k, 0) - after.get(k, 0) for k in before.keys() | after.keys()}
    assert set(moved.values()) <= {0, 1}
    assert sum(moved.values()) <= 2


def test_a_user_counts_once_however_often_and_however_written(write_tsv):
    # A5: distinct after normalising, or "Red" and "red" would give one user the weight 2.
    rows = [{"user": "a", "query": q} for q in ("Red", "red", " RED ", "red")]
    rows += [{"user": "b", "query": "red"}]
    assert tally_of_log(write_tsv(rows)) == {("red",): 2}


def test_rows_without_a_user_are_dropped_not_made_users(write_tsv):
    rows = [{"user": "", "query": "lonely"}] * 5 + [{"user": "a", "query": "red"}]
    assert tally_of_log(write_tsv(rows)) == {("red",): 1}


def test_first_means_first_by_time_and_ties_go_by_item(write_tsv):
    rows = [
        {"user": "a", "time": DAY.format(2, 0), "query": "late"},
        {"user": "a", "time": DAY.format(1, 0), "query": "zebra"},
        {"user": "a", "time": DAY.format(1, 0), "query": "ape"},
        {"user": "a", "time": "", "query": "aardvark"},
    ]
    assert bounded_rows(write_tsv(rows), per_user=2) == {("a", "ape"), ("a", "zebra")}
    assert len(bounded_rows(write_tsv(rows), per_user=4)) == 4


def test_random_depends_on_the_key_and_not_on_the_rows(write_tsv):
    rows = [{"user": f"u{i % 7}", "query": f"q{i}"} for i in range(70)]
    way = {"way": "random", "per_user": 2}
    chosen = bounded_rows(write_tsv(rows), seed=1, **way)
    assert bounded_rows(write_tsv(rows[::-1]), seed=1, **way) == chosen
    assert bounded_rows(write_tsv(rows), seed=2, **way) != chosen
    assert len(chosen) == 14


def test_units_with_time_drop_rows_without(write_tsv):
    rows = [
        {"user": "a", "time": DAY.format(1, 23), "query": "red"},
        {"user": "a", "time": DAY.format(2, 0), "query": "red"},
        {"user": "a", "time": "", "query": "red"},
    ]
    assert tally_of_log(write_tsv(rows), unit="user-day") == {("red",): 2}
    assert tally_of_log(write_tsv(rows), unit="user-month") == {("red",): 1}
    assert tally_of_log(write_tsv(rows), unit="user") == {("red",): 1}


def test_pairs_of_rows_that_differ_in_the_split_alone_do_not_hang_on_the_order_of_rows(tmp_path):
    """A7: of two rows of one moment, which one comes first must not be others' to settle."""
    rows = [
        f"u{n}\t2026-01-01 10:0{minute}:00\t{query}\t{country}\n"
        for n in range(6)
        for minute, query, country in ((0, "q", "DE"), (0, "q", "FR"), (1, "r", "DE"))
    ]
    tallies = []
    for name, lines in (("one.tsv", rows), ("other.tsv", rows[::-1])):
        (tmp_path / name).write_text("user\ttime\tquery\tcountry\n" + "".join(lines))
        with connect() as engine:
            entropy = SeededEntropy(1)
            log = read(
                find(str(tmp_path / name)), engine=engine, keep={BY_VALUE: "country"},
                entropy=entropy,
            )  # fmt: skip
            by = By(column="country", values=("DE", "FR")).inside()
            view = View(kind="pair", by=by)
            tallies.append(counts_of(tally_view(log, view, per_user=1, entropy=entropy)))
    assert tallies[0] == tallies[1]


def test_names_of_units_cannot_collide(write_tsv):
    rows = [
        {"user": "a", "time": DAY.format(1, 1), "query": "red"},
        {"user": "2026-01-01|a", "time": DAY.format(1, 1), "query": "red"},
    ]
    assert tally_of_log(write_tsv(rows), unit="user-day") == {("red",): 2}


def test_what_a_log_cannot_give_is_said(write_tsv, tmp_path, engine):
    path = write_tsv([{"user": "a", "query": "x"}], columns=("user", "query"))
    source = find(str(path))
    log = read(source, engine=engine)
    entropy = SeededEntropy(1)
    with pytest.raises(InputError, match="no time column, so there are no units 'user-day'"):
        check(source, kind="query", unit="user-day")
    with pytest.raises(InputError, match="no column of clicked urls"):
        check(source, kind="click", unit="user")
    with pytest.raises(InputError, match="the order of rows does not count"):
        View(kind="query", way="first").bound(log, per_user=1, entropy=entropy)
    with pytest.raises(UsageError, match="unknown unit 'household'"):
        check(source, kind="query", unit="household")
    with pytest.raises(UsageError, match="unknown table 'pages'"):
        check(source, kind="pages", unit="user")
    with pytest.raises(UsageError, match="--bound must be first or random"):
        View(kind="query", way="last").bound(log, per_user=1, entropy=entropy)
    with pytest.raises(UsageError, match="--per-user must be at least 1"):
        View(kind="query").bound(log, per_user=0, entropy=entropy)
