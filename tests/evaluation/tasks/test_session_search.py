"""Session search: ranks combined by hand, what counts as truth, and what is told."""

import numpy as np
import pyarrow as pa
import pytest
from held_out import truth_of_sessions

from murmurlog.bundle.models.search import Searcher
from murmurlog.bundle.models.session_search import GAMMA, SessionSearcher, link_queries
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.held_out_sessions import sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.session_search import questions, score, truths

CLICK = pa.table(
    {
        "query": ["a", "a", "b", "b", "b"],
        "url": ["x", "y", "z", "y", "x"],
        "users": [9, 3, 8, 4, 2],
    }
)
PAIR = pa.table({"query": ["c"], "next_query": ["a"], "users": [5]})
SESSION = pa.table({"queries": [["c", "a", "b"]], "users": [4]})


def test_ranks_combine_by_hand():
    """a ranks x, y; b ranks z, y, x. With the session a, b and gamma 1/2:

    x = 1/2 * 1/1 + 1/3, y = 1/2 * 1/2 + 1/2, z = 1.
    """
    model = SessionSearcher({"click": CLICK})
    assert model.rank(["a", "b"], gamma=0.5) == [
        ("z", 1.0),
        ("x", pytest.approx(5 / 6)),
        ("y", 0.75),
    ]
    assert model.rank(["a", "b"]) == [
        ("x", pytest.approx(GAMMA + 1 / 3)),
        ("z", 1.0),
        ("y", pytest.approx(GAMMA / 2 + 1 / 2)),
    ]
    assert model.rank(["b", "a"], 1, gamma=0.5) == [("x", pytest.approx(1 + 0.5 / 3))]


def test_with_gamma_0_only_the_last_query_counts():
    model = SessionSearcher({"click": CLICK})
    assert model.rank(["b", "a"], gamma=0.0) == [("x", 1.0), ("y", 0.5)]
    assert model.rank(["a", "unheard of"], gamma=0.0) == []
    assert model.rank([], gamma=0.5) == []


def test_a_query_asked_twice_counts_twice():
    model = SessionSearcher({"click": CLICK})
    assert model.rank(["a", "b", "a"], 1, gamma=1.0) == [("x", pytest.approx(2 + 1 / 3))]


def test_one_query_is_ranked_as_in_ad_hoc_search():
    model, alone = SessionSearcher({"click": CLICK, "pair": PAIR}), Searcher({"click": CLICK})
    assert [url for url, _ in model.rank(["b"])] == [url for url, _ in alone.rank("b", 10)]


def test_queries_are_linked_by_pairs_by_sessions_or_not_at_all():
    tables = {"click": CLICK, "pair": PAIR, "session": SESSION}
    assert SessionSearcher(tables, links="clicks").rank(["c"]) == []
    # After c only a: its urls alone.
    assert [url for url, _ in SessionSearcher(tables, links="pairs").rank(["c"])] == ["x", "y"]
    # After c also b, later in a session: z comes in.
    both = SessionSearcher(tables, links="sessions").rank(["c"])
    assert {url for url, _ in both} == {"x", "y", "z"}
    assert set(link_queries(tables, "clicks")) == {"click"}


# --- the truth and the score ----------------------------------------------------------------------

ASKED = (
    [("a", "x"), ("b", None)],  # ends without a click
    [("a", "y"), ("b", "z"), ("b", "gone")],
    [("a", "x"), ("a", "y")],  # one query: ad-hoc search
    ["a", "b"],  # no click at all
    [("unheard of", "x"), ("unheard", "x")],
)


def test_a_question_has_two_queries_and_a_click():
    sessions = sessions_of(truth_of_sessions(*ASKED))
    chosen = questions(sessions)
    assert chosen.tolist() == [0, 1, 4]
    question, url = truths(sessions, chosen)
    pairs = zip(question.tolist(), sessions.urls.take(pa.array(url)).to_pylist(), strict=True)
    assert set(pairs) == {(0, "x"), (1, "y"), (1, "z"), (1, "gone"), (2, "x")}
    question, url = truths(sessions, chosen, last=True)
    pairs = zip(question.tolist(), sessions.urls.take(pa.array(url)).to_pylist(), strict=True)
    assert set(pairs) == {(1, "z"), (1, "gone"), (2, "x")}


def test_measures_by_hand():
    """The session a, b is ranked x, z, y. Clicked: x; y, z and something that is not published."""
    scores = score({"click": CLICK}, truth_of_sessions(*ASKED), Settings())
    by = {s.measure: s for s in scores}
    log = np.log2
    most = 1 + 1 / log(3) + 1 / log(4)
    second = (1 / log(3) + 1 / log(4)) / most
    assert by["nDCG@10"].values == pytest.approx([1, second, np.nan], nan_ok=True)
    assert by["MAP@10"].values == pytest.approx([1, (1 / 2 + 2 / 3) / 3, np.nan], nan_ok=True)
    assert by["nDCG@10"].users.tolist() == [0, 1, 4]
    # z comes second for the last query alone, of two that were clicked for it.
    last = by["MAP@10 of the last query"]
    assert last.values == pytest.approx([(1 / 2) / 2, np.nan], nan_ok=True)
    assert last.users.tolist() == [1, 4]
    # With gamma 0 the ranking is z, y, x.
    assert by["MAP@10, gamma 0 (covered)"].value == pytest.approx((1 / 3 + (1 + 1) / 3) / 2)
    assert by["MAP@10, gamma 0 (all)"].n == 3
    assert not any("alone" in name or "sessions" in name for name in by)


def test_with_pairs_and_sessions_all_ways_are_told():
    tables = {"click": CLICK, "pair": PAIR, "session": SESSION}
    scores = score(tables, truth_of_sessions([("c", None), ("d", "z")]), Settings())
    by = {s.measure: s for s in scores}
    assert np.isnan(by["nDCG@10 clicks alone"].values).all()
    assert by["nDCG@10"].values.tolist() == [0.0]
    assert by["nDCG@10 with sessions"].values[0] > 0


def test_what_it_cannot_do_it_says():
    with pytest.raises(Unfit, match="needs a click table"):
        score({"pair": PAIR}, truth_of_sessions(*ASKED), Settings())
    with pytest.raises(Unfit, match="whom the release has not seen"):
        score({"click": CLICK}, Truth(tables={}, holders={}), Settings())


def test_pure_noise_scores_near_zero():
    rng = np.random.default_rng(1)
    queries, urls = ([f"{kind}{i}" for i in range(2000)] for kind in "qu")
    noise = pa.table({"query": rng.choice(queries, 4000), "url": rng.choice(urls, 4000)})
    sessions = [
        list(zip(rng.choice(queries, 3).tolist(), rng.choice(urls, 3).tolist(), strict=True))
        for _ in range(300)
    ]
    truth = truth_of_sessions(*sessions)
    by = {e.measure: e for e in score({"click": noise}, truth, Settings())}
    assert np.nanmean(by["nDCG@10"].values) < 0.02
