"""Keyword generation: the walk and the overlap by hand, a log against itself, and noise."""

import numpy as np
import pytest
from graphs import SMALL, click_table, make_ranking

from murmurlog.bundle.models.keyword_generation import Generator
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.keyword_generation import overlaps, score, seeds_of
from murmurlog.evaluation.tasks.protocol import Settings, Unfit


def truth_of(click):
    return Truth(tables={"click": click}, holders={})


def test_keywords_of_a_url_by_hand():
    # First round, from x: a 3/4, b 1/4. Second, a to itself 11/16 (x: 3/4 * 3/4, y: 1/4 * 1/2),
    # to b 3/16, to c 1/8; b to a 3/4, to b 1/4.
    first, second = {"a": 3 / 4, "b": 1 / 4, "c": 0}, {}
    second["a"] = 3 / 4 * 11 / 16 + 1 / 4 * 3 / 4
    second["b"] = 3 / 4 * 3 / 16 + 1 / 4 * 1 / 4
    second["c"] = 3 / 4 * 1 / 8
    model = Generator(SMALL)
    keywords = model.from_urls(["x"], 5).row(0, model.queries)
    assert keywords == [(q, pytest.approx(first[q] + second[q])) for q in "abc"]


def test_keywords_of_a_query_are_without_it():
    model = Generator(SMALL)
    ranking = model.from_queries(["a", "unheard of"], 5)
    assert [query for query, _ in ranking.row(0, model.queries)] == ["b", "c"]
    assert ranking.row(1, model.queries) == []


def test_overlap_by_hand():
    # Our columns 0, 1, 2, 3 are theirs 5, 6, -, 7.
    place = np.array([5, 6, -1, 7])
    ours, theirs = make_ranking([0, 2, 3, 1], [], [1]), make_ranking([6, 5, 7], [5], [6, 5])
    assert overlaps(ours, theirs, place, 2).tolist()[0] == 1 / 2  # 5 of 6 and 5
    values = overlaps(ours, theirs, place, 4)
    assert values[0] == 1  # all three there are
    assert np.isnan(values[1])
    assert values[2] == 1 / 2


def test_seeds_are_the_most_clicked_or_spread_over_all():
    table = click_table(("a", "x", 3), ("b", "x", 1), ("c", "y", 9), ("d", "z", 2), ("e", "z", 2))
    original = Generator({"click": table})
    assert seeds_of(original, "urls", top=True, most=2) == ["y", "x"]
    assert seeds_of(original, "urls", top=False, most=3) == ["x", "y", "z"]
    # From c a walk leads to no other query.
    assert seeds_of(original, "queries", top=True, most=9) == ["a", "d", "e", "b"]
    assert seeds_of(original, "queries", top=False, most=2) == ["a", "d"]


def random_clicks(seed, size=1600):
    rng = np.random.default_rng(seed)
    query, url = rng.integers(0, 400, size), rng.integers(0, 300, size)
    users = rng.integers(1, 30, size)
    return click_table(
        *((f"q{q:03}", f"u{u:03}", n) for q, u, n in zip(query, url, users, strict=True))
    )


def test_a_log_against_itself_is_perfect_and_noise_is_near_nothing():
    table = random_clicks(1)
    itself = score({"click": table}, truth_of(table), Settings())
    assert [scores.measure for scores in itself] == [
        f"overlap@{k}, {which} {kind}"
        for which in ("top", "any")
        for kind in ("urls", "queries")
        for k in (10, 20)
    ]
    assert all((scores.values == 1).all() and len(scores.values) for scores in itself)
    noise = score({"click": random_clicks(2)}, truth_of(table), Settings())
    assert all(np.nan_to_num(scores.values).mean() < 0.15 for scores in noise)


def test_what_is_not_released_is_not_answered():
    table = random_clicks(1)
    half = table.slice(0, 40)
    scores = score({"click": half}, truth_of(table), Settings(questions=50))
    assert {len(s.values) for s in scores} == {50}
    some = scores[0].has_answer
    assert some.any()
    assert not some.all()


def test_without_clicks_it_says_so():
    with pytest.raises(Unfit, match="needs a click table"):
        score({}, truth_of(random_clicks(1)), Settings())
    with pytest.raises(Unfit, match="needs clicks in the log"):
        score(SMALL, Truth(tables={}, holders={}), Settings())
