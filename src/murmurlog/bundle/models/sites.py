"""Sites and the queries that lead to them: clusters of sites (Zhang 2017, 6.3), topics of queries."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from scipy.sparse import csgraph

from murmurlog.bundle.keys import clean_url
from murmurlog.bundle.models.click_graph import (
    ClickGraph,
    best,
    click_graph,
    normalise,
    places,
    walkers_at,
)
from murmurlog.bundle.models.derived_tables import Ints, Tables

MERGE = 0.5
SLACK = 1e-9  # tolerance for sums of shares that are exactly one half


def site_of(url: str) -> str:
    """The host of a published url or of a site in a list: they begin with it, without a scheme."""
    return clean_url(url if "://" in url else f"//{url}", "host") or url


def site_graph(tables: Tables) -> ClickGraph:
    """The click graph with sites instead of urls: clicks on all pages of a host are summed."""
    graph = click_graph(tables, pairs=False)
    urls: list[str] = graph.urls.to_pylist()
    hosts = pa.array(list(map(site_of, urls)), pa.string())
    sites = hosts.unique()
    sites = sites.take(pc.sort_indices(sites))
    of = places(hosts, sites)
    belongs = sparse.csr_array(
        (np.ones(len(of)), (np.arange(len(of)), of)), shape=(len(of), len(sites))
    )
    return ClickGraph(
        queries=graph.queries,
        urls=sites,
        clicks=sparse.csr_array(graph.clicks @ belongs),
        follows=graph.follows,
    )


def clusters(graph: ClickGraph, sites: list[str]) -> Ints:
    """For each site the number of its cluster, -1 if no published query leads to it.

    The similarity of two sites is the smaller of the two shares of their clicks that come from
    queries which lead to both (6.1):

        Sim(w1, w2) = min over w in {w1, w2} of  sum of C(q, w) over common queries q / C(w)

    Two clusters are merged when a site of one and a site of the other have a similarity of at least
    0.5 (single link), so a cluster is a connected part of the graph of such pairs.
    """
    place = places(sites, graph.urls)
    published = np.flatnonzero(place >= 0)
    clicks = graph.clicks.T.tocsr()[place[published]]
    share = normalise(clicks) @ (clicks > 0).astype(np.float64).T
    similarity = sparse.csr_array(share.minimum(share.T))
    similarity.data[similarity.data < MERGE - SLACK] = 0.0
    similarity.eliminate_zeros()
    numbers = np.full(len(sites), -1, np.int64)
    numbers[published] = csgraph.connected_components(similarity, directed=False)[1]
    return numbers


def topics_of(
    graph: ClickGraph, queries: pa.Array | list[str], directory: Mapping[str, str]
) -> list[str | None]:
    """For each query the topic of most of its published clicks, None if it has none.

    The directory maps sites to topics and is public; other sites do not count. A tie goes to the
    first topic in alphabetical order.
    """
    topics = sorted(set(directory.values()))
    site = places(list(directory), graph.urls)
    topic = np.searchsorted(topics, list(directory.values()))
    published = site >= 0
    about = sparse.csr_array(
        (np.ones(int(published.sum())), (site[published], topic[published])),
        shape=(len(graph.urls), len(topics)),
    )
    rows = places(queries, graph.queries)
    ranking = best(walkers_at(rows, len(graph.queries)) @ graph.clicks @ about, 1)
    answer: list[str | None] = [None] * len(rows)
    for row, column in zip(ranking.rows, ranking.columns, strict=True):
        answer[row] = topics[column]
    return answer
