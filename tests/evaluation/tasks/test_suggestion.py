"""Query suggestion: the thesis's formula on a graph done by hand, the measures, and their truth."""

import numpy as np
import pyarrow as pa
import pytest
from held_out import truth_of_sessions

from murmurlog.bundle.models.suggestion import Suggester, later_pairs
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.held_out_sessions import sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.suggestion import questions, score, truths

CLICK = pa.table(
    {
        "query": ["a", "a", "b", "c", "d"],
        "url": ["x", "y", "x", "y", "z"],
        "users": [3, 4, 10, 5, 9],
    }
)
PAIR = pa.table({"query": ["a", "a", "b"], "next_query": ["b", "d", "a"], "users": [1, 3, 2]})
SESSION = pa.table({"queries": [["a", "b", "c"], ["a", "c"]], "users": [2, 1]})
TABLES = {"click": CLICK, "pair": PAIR, "session": SESSION}


def test_the_formula_by_hand():
    # a = (3, 4) of length 5, b = (10, 0), c = (0, 5): cos(a, b) = 0.6, cos(a, c) = 0.8.
    # a is followed by b once and by d three times: 1/4 and 3/4.
    model = Suggester(TABLES, sessions=False)
    assert model.suggest("a", lam=1.0) == [("c", pytest.approx(0.8)), ("b", pytest.approx(0.6))]
    assert model.suggest("a", lam=0.0) == [("d", 0.75), ("b", 0.25)]
    assert model.suggest("a") == [
        ("b", pytest.approx(0.5 * 0.6 + 0.5 * 0.25)),
        ("c", pytest.approx(0.4)),
        ("d", pytest.approx(0.375)),
    ]
    assert model.suggest("a", 1) == [("b", pytest.approx(0.425))]
    assert model.suggest("nobody asked this") == []


def test_with_sessions_every_later_query_follows():
    pairs = {(r["query"], r["next_query"]): r["users"] for r in later_pairs(SESSION).to_pylist()}
    assert pairs == {("a", "b"): 2, ("a", "c"): 3, ("b", "c"): 2}
    model = Suggester(TABLES, sessions=True)
    assert model.suggest("a", lam=0.0) == [("c", 0.6), ("b", 0.4)]
    assert Suggester(TABLES).suggest("a", lam=0.0) == model.suggest("a", lam=0.0)


def test_queries_that_come_back_in_a_session_count_as_often_as_they_follow():
    table = later_pairs(pa.table({"queries": [["a", "b", "a", "b"]], "users": [2]}))
    pairs = {(r["query"], r["next_query"]): r["users"] for r in table.to_pylist()}
    assert pairs == {("a", "b"): 6, ("b", "a"): 2, ("a", "a"): 2, ("b", "b"): 2}
    model = Suggester({"session": pa.table({"queries": [["a", "b", "a"]], "users": [1]})})
    assert model.suggest("a", lam=0.0) == [("b", 1.0)]  # never the query itself


def test_no_sessions_no_pairs_no_clicks():
    assert later_pairs(SESSION.slice(0, 0)).num_rows == 0
    assert Suggester({"click": CLICK}).suggest("a") == [("c", 0.4), ("b", pytest.approx(0.3))]
    assert Suggester({"pair": PAIR}).suggest("a") == [("d", 0.375), ("b", 0.125)]


def test_counts_below_0_are_no_edges():
    pair = pa.table({"query": ["a", "a"], "next_query": ["b", "d"], "users": [-2, 4]})
    click = pa.table({"query": ["a", "b"], "url": ["x", "x"], "users": [0, 3]})
    assert Suggester({"pair": pair, "click": click}).suggest("a", lam=0.0) == [("d", 1.0)]
    assert Suggester({"pair": pair, "click": click}).suggest("a", lam=1.0) == []


def test_equal_scores_go_by_the_query_table():
    pair = pa.table({"query": ["a"] * 3, "next_query": ["x", "y", "z"], "users": [1, 1, 1]})
    query = pa.table({"query": ["z", "y", "x", "a"], "users": [9, 8, 7, 6]})
    model = Suggester({"pair": pair, "query": query})
    assert [text for text, _ in model.suggest("a")] == ["z", "y", "x"]


def test_the_quick_road_gives_what_the_formula_gives():
    """Against every score of every pair, worked out with dense matrices."""
    rng = np.random.default_rng(5)
    size, urls = 60, 12
    names = np.array([f"q{i:02}" for i in range(size)])
    clicks = rng.integers(0, 4, (size, urls)) * (rng.random((size, urls)) < 0.2)
    flow = rng.integers(1, 4, (size, size)) * (rng.random((size, size)) < 0.15)
    q, u = np.nonzero(clicks)
    a, b = np.nonzero(flow)
    tables = {
        "query": pa.table({"query": names}),
        "click": pa.table(
            {"query": names[q], "url": [f"u{i}" for i in u], "users": clicks[q, u].astype(np.int64)}
        ),
        "pair": pa.table({"query": names[a], "next_query": names[b], "users": flow[a, b]}),
    }
    np.fill_diagonal(flow, 0)
    length = np.sqrt(np.maximum((clicks**2).sum(axis=1), 1))
    cosine = (clicks @ clicks.T) / np.outer(length, length)
    np.fill_diagonal(cosine, 0)
    share = flow / np.maximum(flow.sum(axis=1, keepdims=True), 1)
    model, lambdas = Suggester(tables), [0.0, 0.3, 0.5, 1.0]
    best = model.suggest_all(np.arange(size), 5, lambdas)
    for column, lam in enumerate(lambdas):
        score = np.round(lam * cosine + (1 - lam) * share, 12)
        for row in range(size):
            top = np.sort(score[row])[::-1][:5]
            queries = best[row, column][best[row, column] >= 0]
            assert score[row][queries] == pytest.approx(top[top > 0], abs=1e-11)


# --- the truth and the score ----------------------------------------------------------------------


def test_a_question_is_a_search_that_others_follow_and_its_truth_what_does():
    sessions = sessions_of(truth_of_sessions(["a", "a", "b", "c", "b"], ["d"], ["e", "a", "e"]))
    assert sessions.texts.take(pa.array(sessions.query)).to_pylist() == list("abcbdeae")
    at = questions(sessions)
    assert at.tolist() == [0, 1, 2, 5, 6]
    question, query = truths(sessions, at)
    wanted = [set() for _ in at]
    for number, text in zip(
        question, sessions.texts.take(pa.array(query)).to_pylist(), strict=True
    ):
        wanted[number].add(text)
    assert wanted == [{"b", "c"}, {"c"}, {"b"}, {"a"}, {"e"}]


def test_precision_and_recall_by_hand():
    """After a: b, c, d are suggested. Asked later: b and something else, of one user; c of another."""
    truth = truth_of_sessions(["a", "b", "unheard of"], ["a", "c"], ["unheard of", "a"])
    scores = score({"click": CLICK, "pair": PAIR}, truth, Settings())
    by = {s.measure: s for s in scores}
    # Questions: a, b (of which a is suggested, not what was asked), a, and one without an answer.
    assert by["P@5"].values == pytest.approx([1 / 5, 0, 1 / 5, np.nan], nan_ok=True)
    assert by["R@5"].values == pytest.approx([1 / 2, 0, 1, np.nan], nan_ok=True)
    assert by["P@5"].users.tolist() == [0, 0, 1, 2]
    # Without the clicks c is not suggested after a.
    assert by["R@5, lambda 0 (covered)"].value == pytest.approx(0.5 / 3)
    assert by["R@5, lambda 0 (all)"].value == pytest.approx(0.5 / 4)
    assert by["R@5, lambda 0 (all)"].n == 4
    assert by["R@5, lambda 0.5 (all)"].value == pytest.approx(1.5 / 4)
    assert "P@5 with sessions" not in by


def test_with_a_session_table_both_ways_are_told():
    scores = score(TABLES, truth_of_sessions(["a", "c"]), Settings())
    by = {s.measure: s for s in scores}
    assert by["R@5, lambda 0 (all)"].value == 0.0
    assert by["R@5 with sessions, lambda 0 (all)"].value == 1.0
    assert by["R@5 with sessions"].values.tolist() == [1.0]


def test_what_it_cannot_do_it_says():
    with pytest.raises(Unfit, match="needs a click, pair or session table"):
        score({"query": pa.table({"query": ["a"]})}, truth_of_sessions(["a", "b"]), Settings())
    with pytest.raises(Unfit, match="whom the release has not seen"):
        score(TABLES, Truth(tables={}, holders={}), Settings())


def test_questions_are_limited_and_the_same_each_time():
    many = truth_of_sessions(*([f"q{i}", "b", "c"] for i in range(50)))
    first, again = (score(TABLES, many, Settings(questions=7)) for _ in range(2))
    assert len(first[0].users) == 7
    assert first[0].users.tolist() == again[0].users.tolist()


def test_pure_noise_scores_near_zero():
    rng = np.random.default_rng(1)
    names = np.array([f"q{i}" for i in range(3000)])
    pairs = {"query": rng.choice(names, 3000), "next_query": rng.choice(names, 3000)}
    noise = {"pair": pa.table({name: pa.array(texts) for name, texts in pairs.items()})}
    truth = truth_of_sessions(*(rng.choice(names, 3, replace=False).tolist() for _ in range(300)))
    by = {s.measure: s for s in score(noise, truth, Settings())}
    assert np.nanmean(by["R@5"].values) < 0.02
