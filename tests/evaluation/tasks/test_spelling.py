"""Spelling: bounded edit distance, which queries are corrected, and the score."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.bundle.models.spelling import corrections, distances
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import results
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.spelling import misspellings, score


def table(counts, *columns):
    rows = [key if isinstance(key, tuple) else (key,) for key in counts]
    arrays = {c: pa.array([row[i] for row in rows], pa.string()) for i, c in enumerate(columns)}
    return pa.table({**arrays, "users": pa.array(list(counts.values()), pa.int64())})


QUERIES = {"weather": 100, "wether": 9, "weathr": 4, "leather": 60, "maps": 50, "mpas": 3}
PAIRS = {
    ("wether", "weather"): 5,
    ("wether", "leather"): 2,
    ("weathr", "weather"): 3,
    ("weather", "wether"): 2,
    ("mpas", "weather"): 2,
    ("weather", "leather"): 40,
    ("leather", "weather"): 7,
}
CLICKS = {("weather", "w.com"): 80, ("weathr", "w.com"): 1, ("leather", "l.com"): 50}
TABLES = {
    "query": table(QUERIES, "query"),
    "pair": table(PAIRS, "query", "next_query"),
    "click": table(CLICKS, "query", "url"),
}


def labels(*planted):
    kinds = ["misspelling"] * len(planted)
    rows = [("fear", "fear of maps", "maps"), *zip(kinds, *zip(*planted, strict=True), strict=True)]
    return pa.table(dict(zip(("kind", "query", "target"), zip(*rows, strict=True), strict=True)))


def plain_distance(a, b):
    """The textbook's way, a row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(row[j - 1] + (x != y), row[j] + 1, new[-1] + 1))
        row = new
    return row[-1]


def test_distances_by_hand():
    ours = ["kitten", "", "ab", "abc", "same", "maps", "x" * 90, "naïve"]
    theirs = ["sitting", "ab", "", "abcdef", "same", "mpas", "x" * 89 + "y", "naive"]
    assert distances(ours, theirs, 2).tolist() == [3, 2, 2, 3, 0, 2, 1, 1]
    assert distances(ours, theirs, 3).tolist() == [3, 2, 2, 3, 0, 2, 1, 1]
    assert distances([], [], 2).tolist() == []


words = st.lists(st.tuples(st.text("ab", max_size=7), st.text("ab", max_size=7)), max_size=40)


@settings(max_examples=30)
@given(words, st.integers(1, 3))
def test_distances_are_the_textbooks(pairs, most):
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    expected = [min(plain_distance(a, b), most + 1) for a, b in pairs]
    assert distances(ours, theirs, most).tolist() == expected


def test_a_correction_is_near_more_asked_and_most_gone_to():
    # wether: 7 went on, nobody clicked; weather is one letter away with 5, leather two with 2.
    # weathr: 3 went on, 1 clicked. weather: more click than go on. leather too. mpas: too far.
    assert corrections(TABLES) == {"wether": "weather", "weathr": "weather"}


def test_queries_that_are_clicked_are_not_corrected():
    clicked = {**TABLES, "click": table({**CLICKS, ("wether", "w.com"): 7}, "query", "url")}
    assert corrections(clicked) == {"weathr": "weather"}
    # Without clicks "leather" looks misspelled.
    unclicked = {kind: TABLES[kind] for kind in ("query", "pair")}
    assert corrections(unclicked) == {
        "wether": "weather", "weathr": "weather", "leather": "weather",
    }  # fmt: skip


def test_a_query_that_is_not_published_is_no_correction():
    few = {**TABLES, "query": table({"wether": 9, "leather": 60}, "query")}
    assert corrections(few) == {"wether": "leather"}


def test_a_release_without_counts_has_corrections():
    pairs = table({("wether", "weather"): 5}, "query", "next_query")
    uncounted = {"query": TABLES["query"].select(["query"]), "pair": pairs.drop_columns(["users"])}
    assert corrections(uncounted) == {"wether": "weather"}


def test_nothing_published_corrects_nothing():
    assert corrections({kind: rows.slice(0, 0) for kind, rows in TABLES.items()}) == {}


def test_scores_by_hand():
    planted = labels(("wether", "leather"), ("weathr", "weather"), ("mpas", "maps"), ("x", "y"))
    truth = Truth(tables=TABLES, holders={}, labels=planted)
    scores = score(TABLES, truth, Settings())
    assert np.nan_to_num(scores[0].values, nan=-1).tolist() == [0, 1, -1, -1]
    lines = {line.measure: line for line in results("s", "t", scores)}
    assert lines["coverage"].value == 0.5
    assert (lines["corrected (covered)"].value, lines["corrected (covered)"].n) == (0.5, 2)
    assert (lines["corrected (all)"].value, lines["corrected (all)"].n) == (0.25, 4)
    precision = lines["precision of all corrections"]
    assert (precision.value, precision.n) == (0.5, 2)
    some = score(TABLES, truth, Settings(questions=2))[0]
    assert np.nan_to_num(some.values, nan=-1).tolist() == [0, -1]


def test_a_query_may_be_a_misspelling_of_several():
    planted = labels(("wether", "leather"), ("wether", "weather"))
    truth = Truth(tables=TABLES, holders={}, labels=planted)
    assert misspellings(truth) == {"wether": {"leather", "weather"}}
    assert score(TABLES, truth, Settings())[0].values.tolist() == [1]


def test_what_is_missing_is_said():
    truth = Truth(tables=TABLES, holders={}, labels=labels(("wether", "weather")))
    with pytest.raises(Unfit, match="needs a pair table"):
        score({"query": TABLES["query"]}, truth, Settings())
    with pytest.raises(Unfit, match="needs planted misspellings"):
        score(TABLES, Truth(tables=TABLES, holders={}), Settings())
