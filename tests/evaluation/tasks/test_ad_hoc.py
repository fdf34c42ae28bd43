"""Ad-hoc search: rankings by hand, measures against ir-measures, and what the task may not see."""

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from graphs import make_ranking
from held_out import truth_of_rows
from ir_measures import AP, P, R, nDCG

from murmurlog.bundle.models import click_graph as walks
from murmurlog.bundle.models import search
from murmurlog.bundle.models.click_graph import click_graph
from murmurlog.bundle.models.search import Searcher, merge_feedback, rank_by_clicks
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Scores
from murmurlog.evaluation.tasks.ad_hoc import (
    LEAK,
    Clicks,
    held_out_clicks,
    measures,
    questions,
    rankings,
    score,
)
from murmurlog.evaluation.tasks.protocol import Settings, Unfit

CLICK = pa.table({"query": ["a", "a", "b"], "url": ["x", "y", "y"], "users": [2, 1, 4]})
PAIR = pa.table({"query": ["a"], "next_query": ["b"], "users": [1]})


def test_without_pairs_a_walk_ranks_by_clicks(monkeypatch):
    monkeypatch.setattr(walks, "FAINT", 0.0)
    # From a: x with 0.9 * 2/3, y with 0.9 * 1/3, stays with 0.1, ten steps.
    left = 1 - 0.1**10
    urls = Searcher({"click": CLICK}).rank("a", 10)
    assert [url for url, _ in urls] == ["x", "y"]
    assert [p for _, p in urls] == pytest.approx([2 / 3 * left, 1 / 3 * left])
    assert Searcher({"click": CLICK}).rank("a", 1) == urls[:1]
    assert Searcher({"click": CLICK}).rank("nobody asked this", 10) == []


@pytest.mark.parametrize("impact", [False, True])
def test_a_walk_is_the_power_of_its_matrix_where_urls_absorb(impact, monkeypatch):
    # Nodes a, b, x, y. From a: clicks x 2 and y 1, next b 1. From b: y 4. Impact of x and y:
    # 1 + log(1 + 2) and 1 + log(1 + 5).
    x, y = (1 + np.log(3), 1 + np.log(6)) if impact else (1.0, 1.0)
    a = np.array([0.1, 0.9 / 4, 0.9 * 2 / 4 * x, 0.9 / 4 * y])
    b = np.array([0, 0.1, 0, 0.9 * y])
    steps = np.array([a / a.sum(), b / b.sum(), [0, 0, 1, 0], [0, 0, 0, 1]])
    stopped = np.linalg.matrix_power(steps, search.STEPS)[0, 2:]
    searcher = Searcher({"click": CLICK, "pair": PAIR}, impact=impact)
    ranking = dict(searcher.rank("a", 10))
    assert [ranking["x"], ranking["y"]] == pytest.approx(
        stopped, abs=2e-3
    )  # faint walkers are let go
    monkeypatch.setattr(walks, "FAINT", 0.0)
    ranking = dict(searcher.rank("a", 10))
    assert [ranking["x"], ranking["y"]] == pytest.approx(stopped)


def test_impact_factors_can_turn_an_order_round():
    table = pa.table({"query": ["a", "a", "b"], "url": ["x", "y", "y"], "users": [11, 10, 500]})
    first = [Searcher({"click": table}, impact=impact).rank("a", 1)[0][0] for impact in (0, 1)]
    assert first == ["x", "y"]


def test_feedback_by_hand():
    # 1/2 and 1/3 without feedback; 0.6/2 + 0.4/4 = 0.4 with it, from the third place.
    merged = merge_feedback(make_ranking([7, 8, 9], [], [5]), make_ranking([9], [1], []))
    assert merged.columns.tolist() == [7, 9, 8, 5]
    assert merged.scores == pytest.approx([1 / 2, 0.4, 1 / 3, 1 / 2])
    assert merged.starts.tolist() == [0, 3, 3, 4]


def test_feedback_by_the_same_clicks_changes_nothing():
    rows = np.array([0, 1])
    order = rank_by_clicks(click_graph({"click": CLICK}), rows, 10)
    assert merge_feedback(order, order).columns.tolist() == order.columns.tolist() == [0, 1, 1]


def test_measures_are_those_of_ir_measures():
    rng = np.random.default_rng(3)
    size, urls = 60, 40
    rows = [rng.permutation(urls)[: rng.integers(1, 30)].tolist() for _ in range(size)]
    relevant = [rng.permutation(urls + 5)[: rng.integers(1, 15)] for _ in range(size)]
    of = np.repeat(np.arange(size), [len(r) for r in relevant])
    mine = measures(make_ranking(*rows), np.arange(size), of, np.concatenate(relevant))
    run = {str(q): {str(d): -float(n) for n, d in enumerate(r)} for q, r in enumerate(rows)}
    qrels = {str(q): {str(d): 1 for d in r} for q, r in enumerate(relevant)}
    names = {nDCG @ 10: "nDCG@10", AP: "MAP", P @ 5: "P@5", P @ 10: "P@10", R @ 100: "recall"}
    reference = list(ir_measures.iter_calc(list(names), qrels, run))
    assert len(reference) == size * len(names)
    for metric in reference:
        assert mine[names[metric.measure]][int(metric.query_id)] == pytest.approx(
            metric.value, abs=1e-6
        )


def test_measures_by_hand():
    # Relevant are 1 and 9; 1 is at rank 2, 9 is not found. The second question has no ranking.
    row, of, url = np.array([0, 1]), np.array([0, 0, 1]), np.array([1, 9, 1])
    mine = measures(make_ranking([3, 1], []), row, of, url)
    ideal = 1 + 1 / np.log2(3)
    assert mine["nDCG@10"][0] == pytest.approx(1 / np.log2(3) / ideal)
    assert [mine[name][0] for name in ("MAP", "P@5", "P@10", "recall")] == [0.25, 0.2, 0.1, 0.5]
    assert all(np.isnan(values[1]) for values in mine.values())


def test_the_trial_on_a_log_small_enough_to_do_by_hand():
    rows = [
        (4, "a", "y"),
        (4, "a", "y"),
        (4, "a", None),
        (5, "a", "x"),
        (5, "c", "x"),
        (6, "b", None),
    ]
    scores = {s.measure: s for s in score({"click": CLICK}, truth_of_rows(rows), Settings())}
    assert all(isinstance(s, Scores) for s in scores.values())
    ours = scores["nDCG@10, walk"]
    assert ours.users.tolist() == [4, 5, 5]
    # x before y: y is second for user 4, x first for user 5; c is not released.
    assert ours.values[:2] == pytest.approx([1 / np.log2(3), 1])
    assert np.isnan(ours.values[2])
    # Per query, x and y are both relevant for a.
    thesis = scores["nDCG@10, walk, per query"]
    assert thesis.values[0] == pytest.approx(1)
    assert np.isnan(thesis.values[1])
    assert len(thesis.values) == 2
    assert scores["P@5, walk, per query"].values[0] == pytest.approx(0.4)
    assert {name for name in scores if "leaks" in name} == {
        f"{m}, {LEAK}, per query" for m in ("nDCG@10", "MAP", "P@5", "P@10")
    }


def test_test_clicks_change_the_leaking_ranking_and_no_other():
    # Three users who were held out clicked y, so what leaks puts it first.
    graph = click_graph({"click": CLICK})
    before, after = (
        rankings(graph, held_out_clicks(truth_of_rows(rows)), np.array([0]))
        for rows in (
            [(1, "a", "x"), (2, "a", "x"), (3, "a", "y")],
            [(1, "a", "y"), (2, "a", "y"), (3, "a", "x")],
        )
    )
    for way in before:
        same = before[way].columns.tolist() == after[way].columns.tolist()
        assert same == (way != LEAK)
    assert after[LEAK].columns.tolist() == [1, 0]


def test_at_most_so_many_questions_and_the_same_each_time():
    truth = truth_of_rows([(user, f"q{user % 7}", "x") for user in range(50)])
    clicks = held_out_clicks(truth)
    some = questions(clicks, per_query=False, most=10)
    assert some.user.tolist() == list(range(0, 50, 5))
    assert some.of.tolist() == list(range(10))
    assert len(questions(clicks, per_query=True, most=10).query) == 7


def test_per_query_the_queries_of_the_most_users_are_asked_and_a_url_counts_once():
    rows = [
        (1, "b", "x"),
        (1, "b", "y"),
        (1, "b", "z"),
        (2, "a", "x"),
        (3, "a", "x"),
        (3, "a", "y"),
    ]
    clicks = held_out_clicks(truth_of_rows(rows))
    (query,) = questions(clicks, per_query=True, most=1).query
    assert clicks.queries[int(query)].as_py() == "a"
    posed = questions(clicks, per_query=True, most=1)
    assert [clicks.urls[int(url)].as_py() for url in posed.url] == ["x", "y"]


def test_noise_finds_next_to_nothing_and_the_log_itself_much():
    rng = np.random.default_rng(4)
    queries, urls = [[f"{kind}{n}" for n in range(300)] for kind in "qu"]
    rows = [(n, queries[n], urls[n]) for n in range(300)]
    noise = pa.table({"query": rng.choice(queries, 900), "url": rng.choice(urls, 900)})
    real = pa.table({"query": queries, "url": urls, "users": [3] * 300})
    means = [
        np.nan_to_num(score({"click": t}, truth_of_rows(rows), Settings())[0].values).mean()
        for t in (noise, real)
    ]
    assert means[0] < 0.05
    assert means[1] == 1


def test_without_clicks_or_held_out_users_it_says_so():
    with pytest.raises(Unfit, match="needs a click table"):
        score({}, truth_of_rows([(1, "a", "x")]), Settings())
    with pytest.raises(Unfit, match="has not seen"):
        score({"click": CLICK}, Truth(tables={}, holders={}), Settings())


def test_nobody_clicked_anything():
    scores = score({"click": CLICK}, truth_of_rows([(1, "a", None)]), Settings())
    assert {len(s.values) for s in scores} == {0}
    assert isinstance(held_out_clicks(truth_of_rows([(1, "a", None)])), Clicks)
