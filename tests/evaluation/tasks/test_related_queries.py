"""Related queries by hand: from sets, from users, and how they are scored."""

import numpy as np
import pyarrow as pa
import pytest
from held_out import truth_of_rows

from murmurlog.bundle.models.related_queries import RelatedQueries
from murmurlog.evaluation.ground_truth import Holders, Truth
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.related_queries import score

SETS = pa.table(
    {
        "items": [["a", "b"], ["a", "c"], ["b", "c", "d"], ["a", "d"]],
        "users": [5, 9, 2, -1],
    }
)


def best(model, *texts, k=3):
    places = model.best(model.numbers(pa.array(texts)), k)
    return [[model.texts[i].as_py() for i in row if i >= 0] for row in places.tolist()]


def test_related_queries_by_hand():
    model = RelatedQueries.from_table(SETS)
    assert best(model, "a", "b", "x", "d") == [["c", "b"], ["a", "c", "d"], [], ["b", "c"]]
    assert best(model, "b", k=1) == [["a"]]
    nothing = RelatedQueries.from_table(SETS.slice(0, 0))
    assert nothing.best(nothing.numbers(pa.array(["a"])), 3).tolist() == [[-1, -1, -1]]


def test_sums_are_those_of_a_plain_count():
    rng = np.random.default_rng(1)
    sets = [sorted(rng.choice(40, rng.integers(2, 5), replace=False).tolist()) for _ in range(400)]
    counts = rng.integers(1, 50, len(sets)).tolist()
    table = pa.table({"items": [[f"q{i}" for i in items] for items in sets], "users": counts})
    model = RelatedQueries.from_table(table)
    order = {text: place for place, text in enumerate(model.texts.to_pylist())}
    for query in ("q0", "q17", "q39"):
        sums = dict.fromkeys(order, 0)
        for items, count in zip(table["items"].to_pylist(), counts, strict=True):
            if query in items:
                for other in items:
                    sums[other] += count
        del sums[query]
        ranked = sorted((text for text in sums if sums[text]), key=lambda t: (-sums[t], order[t]))
        assert best(model, query, k=7) == [ranked[:7]]


def values(tables, truth):
    return {s.measure: s.values.tolist() for s in score(tables, truth, Settings())}


def test_scores_by_hand():
    held_out = truth_of_rows([(0, "a", None), (0, "c", None), (0, "c", None), (1, "a", None), (2, "b", None),
                         (2, "d", None), (2, "z", None)])  # fmt: skip
    scores = values({"itemset": SETS}, held_out)
    # a: c is right. c: a is right, b and d are not. b: d is right, a and c are not. d: b. z: no answer.
    assert scores["P@5"] == pytest.approx([0.2, 0.2, 0.2, 0.2, np.nan], nan_ok=True)
    assert scores["R@5"] == pytest.approx([1, 1, 0.5, 0.5, np.nan], nan_ok=True)


def test_the_raw_log_has_what_users_asked_as_sets():
    query = pa.table({"query": ["a", "b", "c"], "users": [3, 2, 1], "rows": [3, 2, 1]})
    user, item = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 2])
    searches = truth_of_rows([(0, "c", None), (0, "a", None)]).searches
    exact = Truth(
        tables={"query": query},
        holders={"query": Holders(user=user, item=item, users=3)},
        searches=searches,
    )
    # a: b first, then c. c: a.
    assert values(dict(exact.tables), exact)["P@5"] == pytest.approx([0.2, 0.2])


def test_a_release_without_sets_is_not_scored():
    with pytest.raises(Unfit, match="itemset table"):
        score({"query": pa.table({"query": ["a"]})}, truth_of_rows([(0, "a", None)]), Settings())
