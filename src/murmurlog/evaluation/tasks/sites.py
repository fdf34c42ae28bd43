"""Sites by common queries, and queries by clicked sites, against planted topics.

Sites (Zhang 2017, 6.3): those that share queries are put together, and the topics they were planted
with say whether rightly. Every site with a topic is a question; one that is not released, or is put
together with no other, has no answer.

    purity     = sites whose topic is the most frequent one of their cluster / sites in clusters
    same topic = the mean over sites of the share of the other sites in their cluster that have
                 their topic

Purity is the thesis' measure. Two sites put together at random are half pure whatever they are, so
beside it stands the share of the same topic, which at random is that of the topic itself. Both are
told for all sites with a topic, and for the thousand of them that the most users clicked: the thesis
clustered a thousand. Nobody in particular asks about a site, so the intervals are over sites.

Query classification: a question is a query that a held-out user clicked a site with a topic for, each
once a user. The answer is the topic of most of the released clicks of that query; it is right if as
many of the sites this user clicked have it as any other topic.

    accuracy = queries with the right topic / queries with a topic

Which site has which topic is given to the classifier, as a public directory of sites would.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import clean_url
from murmurlog.bundle.models.click_graph import ClickGraph
from murmurlog.bundle.models.sites import clusters, site_graph, topics_of
from murmurlog.errors import UsageError
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Figure, Scores
from murmurlog.evaluation.tasks.ad_hoc import clicked_by
from murmurlog.evaluation.tasks.held_out_sessions import spread
from murmurlog.evaluation.tasks.protocol import Settings, Unfit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOP = 1000


@dataclass(frozen=True)
class Sites:
    """Sites put together by the queries that lead to them."""

    name: ClassVar[str] = "sites"
    needs: ClassVar[frozenset[str]] = frozenset({"url", "labels"})
    held_out: ClassVar[bool] = False

    def run(
        self, tables: Mapping[str, pa.Table], truth: Truth, settings: Settings
    ) -> list[Scores | Figure]:
        """Purity and same topic, of all sites with a topic and of the most clicked."""
        topic_of = directory(truth)
        graph = _graph(tables)
        everything = list(topic_of)
        found: list[Scores | Figure] = []
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
            found += [
                Scores(measure=f"purity, {which}", values=purity, users=users),
                Scores(measure=f"same topic, {which}", values=same, users=users),
                Figure(measure=f"clusters, {which}", value=len(merged), n=int(merged.sum())),
                Figure(
                    measure=f"sites in the largest cluster, {which}",
                    value=int(merged.max(initial=0)),
                    n=int(merged.sum()),
                ),
            ]
        return found


@dataclass(frozen=True)
class QueryClassification:
    """The topic of a query by the sites clicked for it."""

    name: ClassVar[str] = "query-classification"
    needs: ClassVar[frozenset[str]] = frozenset({"url", "labels"})
    held_out: ClassVar[bool] = True

    def run(
        self, tables: Mapping[str, pa.Table], truth: Truth, settings: Settings
    ) -> list[Scores | Figure]:
        """Accuracy on queries of held-out users."""
        topic_of = directory(truth)
        topics = sorted(set(topic_of.values()))
        user, query, counts, texts = clicked_topics(truth, topic_of, topics, settings.questions)
        graph = _graph(tables)
        asked, at = np.unique(query, return_inverse=True)
        answers = topics_of(graph, texts.take(pa.array(asked)), topic_of)
        number = {topic: float(n) for n, topic in enumerate(topics)}
        answer = np.array([number.get(a, np.nan) if a else np.nan for a in answers])[at]
        answered = ~np.isnan(answer)
        values = np.full(len(answer), np.nan)
        chosen = counts[answered, answer[answered].astype(np.int64)]
        values[answered] = chosen == counts[answered].max(axis=1)
        return [Scores(measure="accuracy", values=values, users=user)]


def directory(truth: Truth) -> dict[str, str]:
    """The topic of each site, as planted, in order of text. Raises Unfit without."""
    if truth.labels is None:
        raise Unfit("needs labels: what was planted")
    rows = truth.labels.filter(pc.equal(truth.labels["kind"], "topic"))
    pairs = zip(rows["query"].to_pylist(), rows["target"].to_pylist(), strict=True)
    topics = {clean_url(host, "host") or host: topic for host, topic in pairs}
    if not topics:
        raise Unfit("needs labels of the kind topic")
    return dict(sorted(topics.items()))


def most_clicked(truth: Truth, sites: list[str]) -> list[str]:
    """The sites with the most clicks of a (user, query), by the exact table; ties by text."""
    exact = _graph(truth.tables)
    clicks = dict(
        zip(exact.urls.to_pylist(), np.asarray(exact.clicks.sum(axis=0)).ravel(), strict=True)
    )
    return sorted(sites, key=lambda site: (-clicks.get(site, 0.0), site))[:TOP]


def agreement(cluster: Ints, topics: Ints) -> tuple[Floats, Floats]:
    """Of each site: is its topic its cluster's, and the share of its mates with it; NaN if alone."""
    purity, same = (np.full(len(cluster), np.nan) for _ in range(2))
    known = cluster >= 0
    if not known.any():
        return purity, same
    place = np.unique(cluster[known], return_inverse=True)[1]
    own = topics[known]
    counts = np.zeros((place.max() + 1, own.max() + 1), np.int64)
    np.add.at(counts, (place, own), 1)
    size = counts.sum(axis=1)[place]
    together = size > 1
    at = np.flatnonzero(known)[together]
    purity[at] = (counts.argmax(axis=1)[place] == own)[together]
    same[at] = ((counts[place, own] - 1)[together]) / (size - 1)[together]
    return purity, same


def clicked_topics(
    truth: Truth, topic_of: Mapping[str, str], topics: list[str], most: int
) -> tuple[Ints, Ints, Ints, pa.Array]:
    """Questions: user, query (a place among texts), clicked sites by topic; and the texts."""
    clicks = clicked_by(truth)
    number = {topic: n for n, topic in enumerate(topics)}
    hosts = [clean_url(url, "host") or url for url in clicks.urls.to_pylist()]
    topic = np.array([number[topic_of[h]] if h in topic_of else -1 for h in hosts], np.int64)
    site = np.unique(np.array(hosts, dtype=np.str_), return_inverse=True)[1]
    labelled = topic[clicks.url] >= 0
    size, wide = max(len(clicks.queries), 1), max(len(hosts), 1)
    asked = (clicks.user * size + clicks.query)[labelled]
    # A site counts once a question, whatever pages of it were clicked.
    key, first = np.unique(asked * wide + site[clicks.url[labelled]], return_index=True)
    question, of = np.unique(key // wide, return_inverse=True)
    counts = np.zeros((len(question), len(topics)), np.int64)
    np.add.at(counts, (of, topic[clicks.url[labelled]][first]), 1)
    kept = spread(np.arange(len(question)), most)
    return question[kept] // size, question[kept] % size, counts[kept], clicks.queries


def _graph(tables: Mapping[str, pa.Table]) -> ClickGraph:
    try:
        return site_graph(tables)
    except UsageError:
        raise Unfit("needs a click table") from None
