"""Sites clustered by common queries, against planted topics (Zhang 2017, 6.3).

Sites that share queries are clustered; their planted topics say whether that was right. Every site with a
topic is a question; one that is not released, or is alone in its cluster, has no answer.

    purity     = sites whose topic is the most frequent one of their cluster / sites in clusters
    same topic = the mean over sites of the share of the other sites in their cluster that have
                 their topic

Purity is the thesis' measure. Two sites clustered at random are half pure whatever they are, so the
share of the same topic is reported, too, which at random is that of the topic itself. Both are
reported for all sites with a topic, and for the thousand of them that the most users clicked: the
thesis clustered a thousand. A site belongs to no user, so the intervals are over sites.
"""

import numpy as np
import pyarrow.compute as pc

from murmurlog.bundle.models.sites import clusters, site_graph, site_of
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Figure, Floats, Ints, Scores, Scoring
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, require_clicks

TOP = 1000


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """Purity and same topic, of all sites with a topic and of the most clicked."""
    topic_of = directory(truth)
    require_clicks(tables)
    graph = site_graph(tables)
    everything = list(topic_of)
    scores: Scoring = []
    for which, sites in (
        ("all sites", everything),
        (f"top {TOP} sites", most_clicked(truth, everything)),
    ):
        topics = np.unique([topic_of[site] for site in sites], return_inverse=True)[1]
        cluster = clusters(graph, sites)
        purity, same = agreement(cluster, topics)
        users = np.arange(len(sites))
        sizes = np.bincount(cluster[cluster >= 0])
        merged = sizes[sizes > 1]
        scores += [
            Scores(measure=f"purity, {which}", values=purity, users=users),
            Scores(measure=f"same topic, {which}", values=same, users=users),
            Figure(measure=f"clusters, {which}", value=len(merged), n=int(merged.sum())),
            Figure(
                measure=f"sites in the largest cluster, {which}",
                value=int(merged.max(initial=0)),
                n=int(merged.sum()),
            ),
        ]
    return scores


def directory(truth: Truth) -> dict[str, str]:
    """The topic of each site, as planted, in order of text. Raises Unfit without."""
    if truth.labels is None:
        raise Unfit("needs labels: what was planted")
    rows = truth.labels.filter(pc.equal(truth.labels["kind"], "topic"))
    pairs = zip(rows["query"].to_pylist(), rows["target"].to_pylist(), strict=True)
    topics = {site_of(host): topic for host, topic in pairs}
    if not topics:
        raise Unfit("needs labels of the kind topic")
    return dict(sorted(topics.items()))


def most_clicked(truth: Truth, sites: list[str]) -> list[str]:
    """The sites with the most clicks of a (user, query), by the exact table; ties by text."""
    exact = site_graph(truth.tables)
    clicks = dict(
        zip(exact.urls.to_pylist(), np.asarray(exact.clicks.sum(axis=0)).ravel(), strict=True)
    )
    return sorted(sites, key=lambda site: (-clicks.get(site, 0.0), site))[:TOP]


def agreement(cluster: Ints, topics: Ints) -> tuple[Floats, Floats]:
    """Whether the topic of each site is that of its cluster, and the share of the cluster's other sites
    with the same topic; NaN of a site that is alone."""
    purity, same = (np.full(len(cluster), np.nan) for _ in range(2))
    clustered = cluster >= 0
    if not clustered.any():
        return purity, same
    place = np.unique(cluster[clustered], return_inverse=True)[1]
    topic = topics[clustered]
    counts = np.zeros((place.max() + 1, topic.max() + 1), np.int64)
    np.add.at(counts, (place, topic), 1)
    size = counts.sum(axis=1)[place]
    together = size > 1
    at = np.flatnonzero(clustered)[together]
    purity[at] = (counts.argmax(axis=1)[place] == topic)[together]
    same[at] = ((counts[place, topic] - 1)[together]) / (size - 1)[together]
    return purity, same
