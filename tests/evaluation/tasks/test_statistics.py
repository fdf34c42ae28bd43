"""The statistics task: a log against itself, against nothing, and against releases of it."""

import math
import re

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.evaluation.ground_truth import Holders, Truth
from murmurlog.evaluation.tasks import statistics
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.statistics import match_tables, score

PERFECT = r"kept|coverage@|precision@|recall@|diversity|ratio 0-10 %"
FAULTLESS = (
    r"L1|KL@|TV|RMS|difference|distinct false|counts gap|inaccuracy@|frequent missed@"
    r"|support distance|ratio (?!0-10 %)"
)
# Neither: how much there is, and what the raw log by its nature does.
PLAIN = r"\w+ (distinct|total|items per user|items counted .*|infrequent published@\d+)"


def exact_table(keys, repeated_pairs, users):
    """The exact table of items that users hold, as (user, item) with repetitions, and its holders."""
    pairs, times = np.unique(np.array(repeated_pairs), axis=0, return_counts=True)
    size = len(next(iter(keys.values())))
    by_users = np.bincount(pairs[:, 1], minlength=size)
    rows = np.bincount(pairs[:, 1], weights=times, minlength=size).astype(int)
    order = np.argsort(-by_users, kind="stable")
    place = np.argsort(order)
    columns = {name: [texts[i] for i in order] for name, texts in keys.items()}
    table = pa.table({**columns, "users": by_users[order], "rows": rows[order]})
    return table, Holders(user=pairs[:, 0], item=place[pairs[:, 1]], users=users)


@pytest.fixture(scope="module")
def truth():
    """400 users with 20 rows each of 300 items, some of them of very many."""
    rng = np.random.default_rng(4)
    users, items = 400, 300
    popular = 1 / np.arange(1, items + 1)
    tables, holders = {}, {}
    for kind in ("keyword", "query", "pair", "click"):
        item = rng.choice(items, users * 20, p=popular / popular.sum())
        pairs = np.column_stack([np.repeat(np.arange(users), 20), item])
        _, pairs[:, 1] = np.unique(item, return_inverse=True)
        names = [f"{kind} {i:03}" for i in np.unique(item)]
        more = {"pair": "next_query", "click": "url"}
        keys = {"keyword" if kind == "keyword" else "query": names}
        if kind in more:
            keys[more[kind]] = [f"{name}.example" for name in names]
        tables[kind], holders[kind] = exact_table(keys, pairs, users)
    return Truth(tables=tables, holders=holders)


def run(tables, truth):
    return {figure.measure: figure for figure in score(tables, truth, Settings())}


def noisy_tables(truth, *, epsilon, seed=5, kinds=("query", "click")):
    """A crude release: Laplace noise of scale 5/epsilon, and what is below 10/epsilon is left out."""
    rng = np.random.default_rng(seed)
    tables = {}
    for kind in kinds:
        table = truth.tables[kind]
        counts = np.round(table["users"].to_numpy() + rng.laplace(0, 5 / epsilon, table.num_rows))
        noisy = table.drop_columns(["users", "rows"]).append_column("users", pa.array(counts))
        tables[kind] = noisy.filter(pa.array(counts >= 10 / epsilon))
    return tables


def test_the_raw_log_against_itself_is_perfect(truth):
    figures = run(truth.tables, truth)
    assert len(figures) > 200
    for name, figure in figures.items():
        if re.fullmatch(PLAIN, name):
            continue
        is_perfect = re.search(PERFECT, name) is not None
        assert is_perfect or re.search(FAULTLESS, name), name
        assert figure.value == is_perfect, name
        assert figure.low in (None, figure.value), name
        assert figure.high in (None, figure.value), name


def test_numbers_of_the_raw_log_are_its_own(truth):
    figures, table = run(truth.tables, truth), truth.tables["query"]
    assert figures["query distinct"].value == table.num_rows
    assert figures["query total"].value == sum(table["users"].to_pylist())
    assert figures["query items per user"].value == pytest.approx(
        sum(table["users"].to_pylist()) / 400
    )
    counted = [f.value for name, f in figures.items() if name.startswith("query items counted")]
    assert sum(counted) == table.num_rows
    assert (
        figures["query infrequent published@50"].value == figures["query infrequent published@50"].n
    )


def test_a_release_of_nothing_is_worst_and_defined(truth):
    figures = run({kind: table.slice(0, 0) for kind, table in truth.tables.items()}, truth)
    assert all(math.isfinite(figure.value) for figure in figures.values())
    for name, figure in figures.items():
        if re.search(PERFECT, name) or "total" in name or "counted" in name:
            assert figure.value == 0, name
    assert figures["query TV@100"].value == pytest.approx(1)
    assert figures["query TV of all"].value == pytest.approx(1)
    assert figures["query L1@100"].value == pytest.approx(2 / 100)
    assert figures["query KL@100"].value == pytest.approx(math.log(100))
    assert figures["query counts gap"].value == 1
    assert figures["query inaccuracy@50"].value == figures["query frequent missed@50"].n > 0
    assert figures["click ratio missing"].value == 1
    assert set(figures) == set(run(truth.tables, truth))


def test_pure_noise_scores_nothing(truth):
    """Items that nobody has, with the counts of the log."""
    tables = {}
    for kind, table in truth.tables.items():
        first = table.column_names[0]
        strange = pa.array([f"x{text}" for text in table[first].to_pylist()])
        tables[kind] = table.set_column(0, first, strange)
    figures = run(tables, truth)
    for name, figure in figures.items():
        if re.search(PERFECT, name):
            assert figure.value == 0, name
    assert figures["query distinct false"].value == 1
    assert figures["query TV of all"].value == pytest.approx(1)
    assert figures["query TV@50"].value == pytest.approx(1)


def test_use_falls_with_epsilon(truth, monkeypatch):
    """On means over three draws of the noise."""
    monkeypatch.setattr(statistics, "RESAMPLES", 1)  # no interval is looked at
    names = ("query coverage@100", "query volume kept (users)", "click recall@1/500")
    off = ("query TV@100", "query KL@100", "query L1@100", "query difference (scaled)")
    tables = [
        [run(noisy_tables(truth, epsilon=epsilon, seed=seed), truth) for seed in range(3)]
        for epsilon in (10, 1, 0.1)
    ]
    for name in (*names, *off):
        fine, middle, coarse = (np.mean([t[name].value for t in group]) for group in tables)
        ordered = fine > middle > coarse if name in names else fine < middle < coarse
        assert ordered, (name, fine, middle, coarse)


def test_intervals_hold_their_value(truth):
    figures = run(noisy_tables(truth, epsilon=1), truth)
    with_intervals = [figure for figure in figures.values() if figure.low is not None]
    assert len(with_intervals) > 30
    for figure in with_intervals:
        assert figure.low <= figure.value <= figure.high, figure
    assert figures["query TV@100"].low < figures["query TV@100"].high
    volume = figures["query volume kept (users)"]
    assert 0 < volume.high - volume.low < 0.1


def test_users_who_are_all_alike_leave_no_doubt():
    """Whoever is drawn, each of twelve items has five users."""
    names = [f"q{i:02}" for i in range(12)]
    table, holders = exact_table({"query": names}, [(u, i) for u in range(5) for i in range(12)], 5)
    truth = Truth(tables={"query": table}, holders={"query": holders})
    release = pa.table({"query": names[:6], "users": [7, 5, 5, 3, 4, 6]})
    figures = run({"query": release}, truth)
    for name in ("query TV@10", "query KL@10", "query volume kept (users)"):
        figure = figures[name]
        assert figure.value > 0
        assert figure.low == figure.high == pytest.approx(figure.value)


TINY = exact_table(
    {"query": [*"abcd"], "url": [*"wxyz"]},
    # a: 3 users, 4 rows; b: 2 users, 2 rows; c: 2 users, 3 rows; d: 1 user, 1 row
    [(0, 0), (0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 2), (3, 3)],
    4,
)


def tiny_truth(kind="click"):
    table, holders = TINY
    if kind == "query":
        table = table.drop_columns(["url"])
    return Truth(tables={kind: table}, holders={kind: holders})


def clicks(*rows, count="users"):
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("query", "url", count))}
    return {"click": pa.table(columns)}


def test_a_small_release_by_hand():
    """Published: a with 2, c with 2, and a pair that nobody has, with 4."""
    figures = run(clicks(("a", "w", 2), ("c", "y", 2), ("a", "y", 4)), tiny_truth())
    value = {name: figure.value for name, figure in figures.items()}
    assert value["click distinct"] == 3
    assert value["click distinct kept"] == 0.5
    assert value["click distinct false"] == pytest.approx(1 / 3)
    assert value["click volume kept (users)"] == pytest.approx(5 / 8)
    assert value["click volume kept (rows)"] == pytest.approx(7 / 10)
    assert value["click items per user"] == 2
    assert value["click total"] == 8
    # Scaled by 8/8: 2, 0, 2, 0 and 4 against 3, 2, 2, 1 and 0.
    assert value["click difference (scaled)"] == pytest.approx((1 + 2 + 0 + 1 + 4) / 4)
    assert value["click TV of all"] == pytest.approx(0.5)
    assert value["click items counted 1"] == 0
    assert value["click items counted 2 and more"] == 3
    # Pairs of several users: 3, 2, 2 of 7; published 2, 0, 2 of 8; at least a hundredth: all.
    assert value["click diversity (pairs)"] == pytest.approx(2 / 3)
    assert value["click diversity (queries)"] == pytest.approx(2 / 3)
    assert value["click precision@1/100"] == pytest.approx(2 / 3)
    assert value["click recall@1/100"] == pytest.approx(2 / 3)
    distances = [abs(2 / 8 - 3 / 7), 2 / 7, abs(2 / 8 - 2 / 7)]
    assert value["click support distance sum@1/100"] == pytest.approx(sum(distances))
    assert value["click support distance mean@1/100"] == pytest.approx(sum(distances) / 3)
    # Ratios 5/12, 1 (missing), 1/8.
    assert value["click ratio 40-50 %"] == value["click ratio 10-20 %"] == pytest.approx(1 / 3)
    assert value["click ratio missing"] == pytest.approx(1 / 3)


def test_a_pair_of_a_single_user_is_not_hongs():
    figures = run(clicks(("d", "z", 1)), tiny_truth())
    assert figures["click distinct kept"].value == 0.25
    assert figures["click diversity (pairs)"].value == 0
    assert figures["click ratio missing"].value == 1


def test_counts_of_rows_are_held_against_rows():
    rows = [("a", "w", 4), ("b", "x", 2), ("c", "y", 3), ("d", "z", 1)]
    assert run(clicks(*rows, count="rows"), tiny_truth())["click difference (scaled)"].value == 0
    assert run(clicks(*rows), tiny_truth())["click difference (scaled)"].value > 0


def test_counts_below_one_are_published_and_weigh_nothing():
    figures = run(clicks(("a", "w", -5), ("b", "x", 0)), tiny_truth())
    assert figures["click distinct kept"].value == 0.5
    assert figures["click total"].value == 0
    assert figures["click TV of all"].value == 1
    assert figures["click items counted below 1"].value == 2


def test_tables_without_counts_weigh_their_items_alike():
    """One each, which is 2 of 8 each, against 3, 2, 2, 1."""
    whole = tiny_truth().tables["click"].select(["query", "url"])
    figures = run({"click": whole}, tiny_truth())
    assert figures["click difference (scaled)"].value == pytest.approx((1 + 0 + 0 + 1) / 4)
    assert figures["click distinct kept"].value == 1
    assert "click total" not in figures
    assert "click counts gap" not in figures
    assert figures["click inaccuracy@10"].value == 4  # all four are said to be frequent


def test_a_table_split_by_a_column_is_added_up():
    split = pa.table(
        {"query": ["a", "a", "q"], "url": [*"wwu"], "land": [*"xyx"], "users": [1, 2, 3]}
    )
    matched = match_tables(split, tiny_truth().tables["click"], "click")
    assert matched.counts.tolist() == [3, 0, 0, 0]
    assert matched.false.tolist() == [3]


def test_a_released_log_is_counted_by_its_users():
    """u asks a twice, v asks a and b."""
    log = pa.table({"user": [*"uuvv"], "query": [*"aaab"], "url": ["w", None, "w", None]})
    figures = run({"log": log}, tiny_truth("query"))
    assert figures["query total"].value == 3
    assert figures["query distinct kept"].value == 0.5


def test_keys_that_only_look_alike_when_joined_are_told_apart():
    table = pa.table({"query": ["ab"], "url": ["c"], "users": [1]})
    other = pa.table({"query": ["a"], "url": ["bc"], "users": [1], "rows": [1]})
    assert not match_tables(table, other, "click").published.any()


def test_what_the_system_or_the_log_lacks_is_left_out(truth):
    figures = run({"query": truth.tables["query"]}, truth)
    assert {name.split()[0] for name in figures} == {
        "keyword",
        "query",
    }  # words follow from queries
    assert {name.split()[0] for name in run(truth.tables, tiny_truth())} == {"click"}
    with pytest.raises(Unfit, match="needs a keyword, query, pair or click table"):
        run({"session": pa.table({"queries": [["a"]]})}, tiny_truth())


def test_hong_s_measures_count_the_clicks_of_a_released_log():
    """Of 10 clicks of pairs that two users have, w has 8 and x has 2; the release says 4 and 1."""
    pairs = [(0, 0)] * 7 + [(1, 0)] + [(0, 1), (1, 1)] + [(2, 2)] * 9  # the last pair is one user's
    table, holders = exact_table({"query": [*"abc"], "url": [*"wxy"]}, pairs, 3)
    truth = Truth(tables={"click": table}, holders={"click": holders})
    columns = {"user": [*"uvu"], "query": [*"aab"], "url": [*"wwx"], "count": [3, 1, 1]}
    figures = run({"log": pa.table(columns)}, truth)
    assert figures["click output size"].value == 5
    assert figures["click support distance sum@1/100"].value == pytest.approx(0)
    assert figures["click ratio 0-10 %"].value == 1
    assert figures["click precision@1/100"].value == figures["click recall@1/100"].value == 1
    assert figures["click total"].value == 3  # (user, pair): the other measures are about users
    # A log that does not say how often has one row for each user and pair.
    once = run({"log": pa.table(columns | {"count": [1, 1, 1]})}, truth)
    assert once["click support distance sum@1/100"].value == pytest.approx(2 * (2 / 3 - 1 / 2))
    assert "click output size" not in once
