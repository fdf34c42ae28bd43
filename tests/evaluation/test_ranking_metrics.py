"""Ranking metrics as arrays, against ir-measures."""

import ir_measures
import numpy as np
import pytest

from murmurlog.evaluation.ranking_metrics import (
    average_precision,
    curve_point,
    ndcg,
    precision,
    recall,
    relevant,
)


@pytest.fixture(scope="module")
def rankings():
    """Rankings of ten of forty things for 50 questions, some short, with up to 8 wanted."""
    rng = np.random.default_rng(3)
    ranked = np.full((50, 10), -1)
    wanted = []
    for n, row in enumerate(ranked):
        length = rng.integers(0, 11)
        row[:length] = rng.permutation(40)[:length]
        wanted += [(n, thing) for thing in rng.permutation(40)[: rng.integers(1, 9)]]
    question, thing = np.array(wanted).T
    return ranked, question, thing


def test_measures_are_those_of_ir_measures(rankings):
    ranked, question, thing = rankings
    hit, t = relevant(ranked, question, thing), np.bincount(question)
    ours = {
        "P@10": precision(hit),
        "P@5": precision(hit[:, :5]),
        "R@5": recall(hit[:, :5], t),
        "nDCG@10": ndcg(hit, t),
        "AP@10": average_precision(hit, t),
        "Success@10": hit.any(axis=1).astype(float),
    }
    qrels = [ir_measures.Qrel(str(q), str(d), 1) for q, d in zip(question, thing, strict=True)]
    run = [
        ir_measures.ScoredDoc(str(n), str(thing), -place)
        for n, row in enumerate(ranked)
        for place, thing in enumerate(row)
        if thing >= 0
    ]
    measures = [ir_measures.parse_measure(name) for name in ours]
    theirs = {
        (str(m.measure), int(m.query_id)): m.value
        for m in ir_measures.iter_calc(measures, qrels, run)
    }
    assert len(theirs) == len(ours) * 50
    for name, values in ours.items():
        assert values == pytest.approx([theirs[name, n] for n in range(50)]), name


def test_average_precision_divides_by_ten_where_more_are_wanted():
    hit = np.ones((1, 10), bool)
    assert average_precision(hit, np.array([20])).tolist() == [1.0]  # 0.5 as AP@10
    assert ndcg(hit, np.array([20])).tolist() == [1.0]


def test_measures_work_along_the_last_axis(rankings):
    ranked, question, thing = rankings
    twice = np.stack([ranked, ranked[:, ::-1]], axis=1)
    t = np.bincount(question)
    hit, plain = relevant(twice, question, thing), relevant(ranked, question, thing)
    assert hit[:, 0].tolist() == plain.tolist()
    assert ndcg(hit, t)[:, 0].tolist() == ndcg(plain, t).tolist()
    assert recall(hit, t)[:, 0].tolist() == recall(hit, t)[:, 1].tolist()


def test_what_nobody_can_give_is_no_hit_with_an_empty_place():
    assert not relevant(np.array([[-1, 0]]), np.array([0]), np.array([-1])).any()


def test_a_point_of_a_curve_is_told_over_answered_and_all():
    covered, every = curve_point("x", np.array([1.0, np.nan, 0.5, np.nan]))
    assert (covered.measure, covered.value, covered.n) == ("x (covered)", 0.75, 2)
    assert (every.measure, every.value, every.n) == ("x (all)", 0.375, 4)
    covered, every = curve_point("x", np.array([np.nan]))
    assert np.isnan(covered.value)  # a mean over nothing
    assert every.value == 0.0
