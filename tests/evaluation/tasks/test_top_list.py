"""The top-list study: which queries are like a pattern, and what a release keeps of their order."""

import math

import pyarrow as pa
import pytest

from murmurlog.bundle.models.top_list import match_pattern
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.top_list import ranks, score

RAW = {"fear of flying": 9, "fear of dogs": 7, "maps": 6, "fear of love": 5, "fear of bees": 5}


def queries(counts):
    return pa.table({"query": list(counts), "users": list(counts.values())})


def truth(counts=RAW):
    return Truth(tables={"query": queries(counts)}, holders={})


def score_figures(released, exact):
    scores = score({"query": released}, exact, Settings())
    return {figure.measure: figure for figure in scores}


def test_a_star_is_one_character_or_more_and_all_else_is_itself():
    texts = ["fear of x", "fear of ", "fear of", "a fear of x", "50% off_", "50x off_", "50% offx"]
    texts += ["fear of \\ slashes"]
    table = pa.table({"query": texts})

    def found(pattern):
        return match_pattern(table, pattern)["query"].to_pylist()

    assert found("fear of *") == ["fear of \\ slashes", "fear of x"]
    assert found("* of x") == ["a fear of x", "fear of x"]
    assert found("50% off_") == ["50% off_"]
    assert found("50* off_") == ["50% off_", "50x off_"]
    assert found("*\\*") == ["fear of \\ slashes"]


def test_the_heaviest_come_first_then_by_text():
    assert match_pattern(queries(RAW), "fear of *").to_pydict() == {
        "query": ["fear of flying", "fear of dogs", "fear of bees", "fear of love"],
        "weight": [9.0, 7.0, 5.0, 5.0],
    }


def test_the_list_by_hand():
    released = queries({"fear of dogs": 12, "fear of love": 6, "fear of flying": 6, "fear of x": 4})
    assert ranks({"query": released}, truth(), "fear of *").to_pydict() == {
        "query": ["fear of flying", "fear of dogs", "fear of bees", "fear of love"],
        "raw": [9, 7, 5, 5],
        "raw rank": [1, 2, 3, 4],
        "released": [6.0, 12.0, None, 6.0],
        "released rank": [2, 1, None, 3],
    }
    figures = score_figures(released, truth())
    assert figures["top 5 published"].value == pytest.approx(3 / 4)
    assert figures["top 5 published"].n == 4
    # Raw 9, 7, 5 and released 6, 12, 6: of three pairs one agrees, one is turned, one is tied.
    assert figures["Kendall tau (covered)"].value == pytest.approx(0.0)
    assert figures["Kendall tau (covered)"].n == 3
    # With bees at 0: raw 9, 7, 5, 5 (one tie), released 6, 12, 0, 6 (one tie). flying-dogs is
    # turned, flying-love tied, bees-love tied in raw; the other three agree: 2 / sqrt(5 * 5).
    assert figures["Kendall tau (all)"].value == pytest.approx(2 / 5)
    # Ranks 1, 2, 3.5, 3.5 and 2.5, 1, 4, 2.5.
    assert figures["Spearman rho (all)"].value == pytest.approx(
        (1.5 * 0 + 0.5 * 1.5 + 1 * 1.5 + 1 * 0) / 4.5
    )


def test_the_first_of_the_raw_list_may_be_published_far_down():
    counts = {f"fear of {i:02}": 100 - i for i in range(50)}
    turned = {query: 101 - users for query, users in counts.items()}
    figures = score_figures(queries(turned), truth(counts))
    assert figures["top 5 published"].value == 1
    assert figures["top 20 among the top 20"].value == 0  # they are at 31 to 50
    assert figures["top 40 among the top 40"].value == pytest.approx(30 / 40)
    assert figures["Kendall tau (covered)"].value == pytest.approx(-1)


def test_the_raw_list_is_perfect_and_an_empty_release_worth_nothing():
    assert {figure.value for figure in score_figures(queries(RAW), truth()).values()} == {1.0}
    for released in (queries(RAW).slice(0, 0), queries({"fear of nobody": 9, "fear of all": 3})):
        figures = score_figures(released, truth())
        covered = {name for name in figures if "(covered)" in name}
        assert all(math.isnan(figures[name].value) for name in covered)  # of no query at all
        assert {figures[name].value for name in figures.keys() - covered} == {0.0}


def test_a_set_has_no_order():
    figures = score_figures(queries(RAW).select(["query"]), truth())
    assert list(figures) == [f"top {j} published" for j in (5, 10, 20, 40)]
    assert figures["top 5 published"].value == 1


def test_what_is_missing_is_said():
    with pytest.raises(Unfit, match="needs a query table"):
        score({}, truth(), Settings())
    with pytest.raises(Unfit, match=r"needs queries like 'love of \*', and this log has none"):
        score(truth().tables, truth(), Settings(pattern="love of *"))
