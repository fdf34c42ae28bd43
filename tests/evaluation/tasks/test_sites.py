"""Sites by common queries and queries by clicked sites: by hand, and against scipy's single link."""

import numpy as np
import pyarrow as pa
import pytest
from graphs import click_table
from held_out import truth_of_rows
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from murmurlog.bundle.models.sites import clusters, site_graph, topics_of
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks import query_classification, sites
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.sites import agreement, directory, score

TOPICS = {"x.com": "cars", "y.com": "cars", "z.com": "pets", "w.com": "pets"}
LABELS = pa.table(
    {
        "kind": ["topic"] * 4 + ["fear"],
        "query": [f"www.{site}" for site in TOPICS] + ["fear of x.com"],
        "target": [*TOPICS.values(), "x.com"],
    }
)


def test_pages_of_a_host_are_one_site():
    graph = site_graph(
        {"click": click_table(("a", "x.com/1", 2), ("a", "x.com/2", 3), ("a", "y.com", 1))}
    )
    assert graph.urls.to_pylist() == ["x.com", "y.com"]
    assert graph.clicks.toarray().tolist() == [[5, 1]]


@pytest.mark.parametrize(("alone", "together"), [(4, True), (5, False)])
def test_sites_are_merged_at_a_half_of_the_clicks_of_both(alone, together):
    # x and y share a: 4 of 4 + alone clicks of x, 3 of 3 of y. The smaller share decides.
    graph = site_graph(
        {"click": click_table(("a", "x.com", 4), ("b", "x.com", alone), ("a", "y.com", 3))}
    )
    x, y, z = clusters(graph, ["x.com", "y.com", "z.com"])
    assert (x == y) == together
    assert z == -1


def test_clusters_are_those_of_single_link():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 9, (12, 25)) * (rng.random((12, 25)) < 0.25)
    counts[:, 0] += 1 * (counts.sum(axis=1) == 0)
    sites = [f"s{n:02}.com" for n in range(12)]
    rows = [(f"q{q}", sites[w], c) for (w, q), c in np.ndenumerate(counts) if c]
    share = np.array(
        [[counts[v][(counts[w] > 0)].sum() / counts[v].sum() for w in range(12)] for v in range(12)]
    )
    distance = 1 - np.minimum(share, share.T)
    linked = hierarchy.single(squareform(distance, checks=False))
    other = hierarchy.fcluster(linked, 0.5, criterion="distance")
    mine = clusters(site_graph({"click": click_table(*rows)}), sites)
    assert (mine[:, None] == mine).tolist() == (other[:, None] == other).tolist()
    assert 1 < len(set(mine.tolist())) < 12


def test_purity_by_hand():
    # One cluster with topics 0, 0, 1; one with 1, 1; a site alone; one that is not released.
    purity, same = agreement(np.array([3, 3, 3, 0, 0, 1, -1]), np.array([0, 0, 1, 1, 1, 0, 0]))
    assert purity[:5].tolist() == [1, 1, 0, 1, 1]
    assert same[:5].tolist() == [0.5, 0.5, 0, 1, 1]
    assert np.isnan(purity[5:]).all()
    assert np.isnan(same[5:]).all()
    assert np.isnan(agreement(np.array([-1]), np.array([0]))).all()


def test_the_trial_of_sites():
    table = click_table(("a", "x.com", 2), ("a", "y.com", 2), ("b", "z.com", 1))
    truth = Truth(tables={"click": table}, holders={}, labels=LABELS)
    scores = {s.measure: s for s in score({"click": table}, truth, Settings())}
    assert list(directory(truth).items()) == sorted(TOPICS.items())
    # w is not released, z is alone.
    assert np.isnan(scores["purity, all sites"].values).tolist() == [True, False, False, True]
    assert scores["purity, all sites"].values[1:3].tolist() == [1, 1]
    assert (scores["clusters, all sites"].value, scores["clusters, all sites"].n) == (1, 2)
    # The most clicked first, of which there are fewer than a thousand.
    assert scores["same topic, top 1000 sites"].values[:2].tolist() == [1, 1]


def test_the_topic_of_a_query_is_that_of_most_of_its_clicks():
    table = click_table(
        *(("a", "x.com", 2), ("a", "y.com", 2), ("a", "z.com", 3), ("a", "other.com", 9)),
        *(("b", "w.com/page", 1), ("c", "other.com", 1)),
    )
    graph = site_graph({"click": table})
    assert topics_of(graph, ["a", "b", "c", "d"], TOPICS) == ["cars", "pets", None, None]


def test_the_trial_of_query_classification():
    rows = [
        *((1, "a", "x.com"), (1, "a", "x.com/more"), (1, "a", "z.com")),  # a tie: either is right
        *((2, "a", "z.com/1"), (2, "b", "w.com"), (2, "c", "other.com"), (3, "d", "w.com")),
    ]
    table = click_table(("a", "x.com", 2), ("b", "z.com", 1))
    (scores,) = query_classification.score(
        {"click": table}, truth_of_rows(rows, labels=LABELS), Settings()
    )
    assert scores.users.tolist() == [1, 2, 2, 3]
    assert scores.values[:3].tolist() == [1, 0, 1]
    assert np.isnan(scores.values[3])


def test_noise_puts_few_sites_together():
    rng = np.random.default_rng(6)
    sites = [f"s{n}.com" for n in range(200)]
    labels = pa.table(
        {"kind": ["topic"] * 200, "query": sites, "target": [f"t{n % 12}" for n in range(200)]}
    )
    rows = [(f"q{q}", sites[w], 1) for q, w in rng.integers(0, (900, 200), (1500, 2))]
    table = click_table(*rows)
    truth = Truth(tables={"click": table}, holders={}, labels=labels)
    scores = score({"click": table}, truth, Settings())
    assert np.nan_to_num(scores[1].values).mean() < 0.1


def test_without_clicks_or_labels_they_say_so():
    for task in (sites, query_classification):
        with pytest.raises(Unfit, match="needs labels"):
            task.score({}, truth_of_rows([(1, "a", "x.com")]), Settings())
        with pytest.raises(Unfit, match="needs a click table"):
            task.score({}, truth_of_rows([(1, "a", "x.com")], labels=LABELS), Settings())
        with pytest.raises(Unfit, match="of the kind topic"):
            task.score({}, truth_of_rows([(1, "a", "x.com")], labels=LABELS.slice(4)), Settings())
