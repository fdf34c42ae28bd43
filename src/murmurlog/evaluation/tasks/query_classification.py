"""Query classification: the topic of a query by the sites clicked for it, against planted topics.

A question is a query that a held-out user clicked a site with a topic for, each
once a user. The answer is the topic of most of the released clicks of that query; it is right if as
many of the sites this user clicked have it as any other topic.

    accuracy = queries with the right topic / queries with a topic

Which site has which topic is given to the classifier, as a public directory of sites would.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.sites import site_graph, site_of, topics_of
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Ints, Scores, Scoring
from murmurlog.evaluation.tasks.ad_hoc import held_out_clicks
from murmurlog.evaluation.tasks.protocol import Settings, Tables, require_clicks
from murmurlog.evaluation.tasks.sampling import spread
from murmurlog.evaluation.tasks.sites import directory


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """Accuracy on queries of held-out users."""
    topic_of = directory(truth)
    topics = sorted(set(topic_of.values()))
    user, query, counts, texts = topic_questions(truth, topic_of, topics, settings.questions)
    require_clicks(tables)
    graph = site_graph(tables)
    queries, at = np.unique(query, return_inverse=True)
    answers = topics_of(graph, texts.take(pa.array(queries)), topic_of)
    number = {topic: float(n) for n, topic in enumerate(topics)}
    answer = np.array([number.get(a, np.nan) if a else np.nan for a in answers])[at]
    answered = ~np.isnan(answer)
    values = np.full(len(answer), np.nan)
    chosen = counts[answered, answer[answered].astype(np.int64)]
    values[answered] = chosen == counts[answered].max(axis=1)
    return [Scores(measure="accuracy", values=values, users=user)]


def topic_questions(
    truth: Truth, topic_of: Mapping[str, str], topics: list[str], most: int
) -> tuple[Ints, Ints, Ints, pa.Array]:
    """Questions: user, query (a place among texts), clicked sites by topic; and the texts."""
    clicks = held_out_clicks(truth)
    number = {topic: n for n, topic in enumerate(topics)}
    hosts = list(map(site_of, clicks.urls.to_pylist()))
    topic = np.array([number[topic_of[h]] if h in topic_of else -1 for h in hosts], np.int64)
    site = np.unique(np.array(hosts, dtype=np.str_), return_inverse=True)[1]
    labelled = topic[clicks.url] >= 0
    size, wide = max(len(clicks.queries), 1), max(len(hosts), 1)
    question_key = (clicks.user * size + clicks.query)[labelled]
    # A site counts once a question, whatever pages of it were clicked.
    key, first = np.unique(question_key * wide + site[clicks.url[labelled]], return_index=True)
    question, of = np.unique(key // wide, return_inverse=True)
    counts = np.zeros((len(question), len(topics)), np.int64)
    np.add.at(counts, (of, topic[clicks.url[labelled]][first]), 1)
    chosen = spread(np.arange(len(question)), most)
    return question[chosen] // size, question[chosen] % size, counts[chosen], clicks.queries
