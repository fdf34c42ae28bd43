"""Queries to advertise with, for a seed that is a url or a query (Korolova et al. 2009).

The paper runs the generator of Fuxman and others (2008) on the released click graph. It computes for
every query the probability that a walk from it ends at a seed, and keeps those above a threshold. Most
queries of a log have one user who clicked one url: they tie at 1. Differs: here the walk starts at the
seed, so that a query is weighted by the clicks that lead from it to the seed.
"""

from murmurlog.bundle.models.click_graph import Ranking, Walker, places
from murmurlog.bundle.models.derived_tables import Tables

ROUNDS = 2  # out and back; from a url the first round is the return step alone


class Generator:
    """The queries that a walker from a seed meets, by probability summed over the rounds.

    One round is from a query to a url clicked for it and to a query the url was clicked for, each in
    proportion to the published clicks. A seed query is not its own keyword.
    """

    def __init__(self, tables: Tables) -> None:
        self.walker = Walker(tables)
        self.queries = self.walker.graph.queries

    def from_queries(self, seeds: list[str], k: int) -> Ranking:
        """The best k queries for each seed query, as places in `queries`."""
        return self.walker.of_queries(places(seeds, self.queries), k, rounds=ROUNDS)

    def from_urls(self, seeds: list[str], k: int) -> Ranking:
        """The best k queries for each seed url, as places in `queries`."""
        return self.walker.of_urls(places(seeds, self.walker.graph.urls), k, rounds=ROUNDS)
