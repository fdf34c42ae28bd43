"""The click graph and walks on it: by hand, and against dense matrices."""

import numpy as np
import pyarrow as pa
import pytest
from graphs import SMALL, click_table, pair_table
from scipy import sparse

from murmurlog.bundle.models import click_graph as walks
from murmurlog.bundle.models.click_graph import Ranking, Walker, best, click_graph, places
from murmurlog.errors import UsageError


def test_the_graph_sums_what_stands_twice_and_leaves_out_what_counts_nothing():
    table = click_table(("b", "x", 2), ("a", "x", 1), ("b", "x", 3), ("b", "y", -4))
    after = pair_table(("b", "b", 7), ("b", "c", 2))
    graph = click_graph({"click": table, "pair": after})
    assert graph.queries.to_pylist() == ["a", "b", "c"]
    assert graph.urls.to_pylist() == ["x", "y"]
    assert graph.clicks.toarray().tolist() == [[1, 0], [5, 0], [0, 0]]
    assert graph.follows.toarray().tolist() == [[0, 0, 0], [0, 0, 2], [0, 0, 0]]
    assert (graph.query("b"), graph.query("z"), graph.url("y"), graph.url("z")) == (1, -1, 1, -1)


def test_a_released_log_has_a_graph_and_a_release_without_clicks_has_none():
    log = pa.table({"user": ["1", "1", "2"], "query": ["a", "a", "a"], "url": ["x", None, "x"]})
    assert click_graph({"log": log}).clicks.toarray().tolist() == [[2]]
    with pytest.raises(UsageError, match="needs a click table"):
        click_graph({"query": pa.table({"query": ["a"], "users": [1]})})


def test_pairs_that_follow_from_sessions_are_in_the_graph():
    sessions = pa.table({"queries": [["a", "b"]], "users": [4]})
    graph = click_graph({**SMALL, "session": sessions})
    assert graph.follows.toarray().tolist() == [[0, 4, 0], [0, 0, 0], [0, 0, 0]]


def test_related_queries_by_hand():
    # From a: x with 3/4, y with 1/4. From x: a 3/4, b 1/4. From y: a 1/2, c 1/2.
    assert Walker(SMALL).related("a", 5) == [("b", 0.1875), ("c", 0.125)]
    assert Walker(SMALL).related("a", 1) == [("b", 0.1875)]
    assert Walker(SMALL).related("b", 5) == [("a", 0.75)]
    assert Walker(SMALL).related("nobody asked this", 5) == []


def test_rounds_add_up_as_dense_matrices_do(monkeypatch):
    monkeypatch.setattr(walks, "FAINT", 0.0)
    monkeypatch.setattr(walks, "BLOCK", 3)
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, (7, 5)) * (rng.random((7, 5)) < 0.6) + np.eye(7, 5, dtype=int)
    counts[5:, 0] += 1
    rows = [(f"q{i}", f"u{j}", counts[i, j]) for i in range(7) for j in range(5) if counts[i, j]]
    walker = Walker({"click": click_table(*rows)})
    out = counts / counts.sum(axis=1, keepdims=True)
    back = counts.T / counts.T.sum(axis=1, keepdims=True)
    once = out @ back
    for ranking, dense in (
        (walker.of_queries(np.arange(7), 99, rounds=2), once + once @ once),
        (walker.of_urls(np.arange(5), 99, rounds=2), back + back @ once),
    ):
        dense = dense.copy()
        if len(dense) == 7:
            np.fill_diagonal(dense, 0)
        mine = np.zeros_like(dense)
        mine[ranking.rows, ranking.columns] = ranking.scores
        assert np.allclose(mine, dense, atol=1e-11)


def test_faint_walkers_are_let_go_but_the_first_round_is_whole():
    many = 1500  # each with less than one in a thousand
    rows = [("a", f"u{n}", 1) for n in range(many)] + [(f"b{n}", f"u{n}", 1) for n in range(many)]
    ranking = Walker({"click": click_table(*rows)}).of_queries(np.array([0]), 5000, rounds=1)
    assert len(ranking.columns) == many
    assert walks.prune(sparse.csr_array([[0.5, 0.0009, 0.001]])).toarray().tolist() == [
        [0.5, 0, 0.001]
    ]


def test_the_best_of_rows_are_those_of_a_sort_with_ties_by_column():
    rng = np.random.default_rng(2)
    dense = rng.integers(0, 6, (40, 30)) / 7 * (rng.random((40, 30)) < 0.7)
    dense[3] = 0
    ranking = best(sparse.csr_array(dense), 8)
    for row in range(40):
        expected = sorted((-v, c) for c, v in enumerate(dense[row]) if v > 0)[:8]
        part = slice(ranking.starts[row], ranking.starts[row + 1])
        assert ranking.columns[part].tolist() == [c for _, c in expected]
        assert ranking.ranks[part].tolist() == list(range(1, len(expected) + 1))


def test_ranks_of_columns_are_found_and_others_are_zero():
    ranking = Ranking(starts=np.array([0, 2, 2, 3]), columns=np.array([4, 1, 4]), scores=np.ones(3))
    cells = np.array([[0, 4], [0, 1], [0, 2], [1, 4], [2, 4], [1, -1], [2, 9]])
    assert ranking.rank_of(cells[:, 0], cells[:, 1]).tolist() == [1, 2, 0, 0, 1, 0, 0]
    empty = Ranking(starts=np.zeros(3, int), columns=np.zeros(0, int), scores=np.zeros(0))
    assert empty.rank_of(cells[:2, 0], cells[:2, 1]).tolist() == [0, 0]


def test_places_of_texts():
    assert places(["b", "z", "a"], pa.array(["a", "b"])).tolist() == [1, -1, 0]


@pytest.mark.parametrize("queries", [900, 1100, 3000])
def test_a_url_of_many_equal_queries_has_related_ones(queries):
    """Each is faint; the first round counts them all the same."""
    table = click_table(*((f"q{n:04}", "x", 1) for n in range(queries)))
    ranking = Walker({"click": table}).of_urls(np.array([0]), 20, rounds=2)
    assert ranking.lengths.tolist() == [20]
