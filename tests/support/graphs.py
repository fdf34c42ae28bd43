"""Small tables of a click graph, and rankings, written by hand."""

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.click_graph import Ranking


def click_table(*rows):
    query, url, users = zip(*rows, strict=True)
    return pa.table({"query": query, "url": url, "users": pa.array(users, pa.int64())})


def pair_table(*rows):
    query, after, users = zip(*rows, strict=True)
    return pa.table({"query": query, "next_query": after, "users": pa.array(users, pa.int64())})


SMALL = {"click": click_table(("a", "x", 3), ("a", "y", 1), ("b", "x", 1), ("c", "y", 1))}


def make_ranking(*rows):
    """A ranking of columns, given as lists."""
    lengths = [len(row) for row in rows]
    return Ranking(
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        columns=np.array([c for row in rows for c in row], np.int64),
        scores=np.zeros(sum(lengths)),
    )
