"""The next label by hand: from paths of labels and from sessions of queries."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from held_out import truth

from murmurlog.bundle.schema import with_notes
from murmurlog.evaluation.tasks.next_label import score
from murmurlog.evaluation.tasks.protocol import Settings, Unfit

LABELS = pa.table({"query": ["n1", "n2", "m1", "s1"], "label": ["news", "news", "maps", "shops"]})
PATHS = {
    "queries": [["news", "maps"], ["news", "news", "shops"], ["maps", "news"]],
    "users": [7, 5, 2],
}


def session_table(columns, hold):
    return with_notes(pa.table(columns), {"hold": hold}, name="lists")


def values(table, held_out):
    found = score({"session": table}, replace(held_out, query_labels=LABELS), Settings())
    return {each.measure: each.values.tolist() for each in found}


def test_scores_by_hand():
    # news is followed by maps 7, news 5, shops 5 times, maps by news, shops by nothing.
    held_out = truth(["n1", "m1", "n2", "s1", "m1"], ["n1", "n2"], ["m1", "s1"])
    found = values(session_table(PATHS, "labels"), held_out)
    assert found["accuracy"] == pytest.approx([1, 1, 0, np.nan, 0, 0], nan_ok=True)
    assert found["MRR"] == pytest.approx([1, 1, 1 / 3, np.nan, 1 / 2, 0], nan_ok=True)


def test_sessions_of_queries_have_the_labels_of_their_queries():
    queries = {"queries": [["n1", "m1"], ["n2", "n1", "s1"], ["m1", "n1"], ["m1", "x"]]}
    held_out = truth(["n1", "m1", "n2"], ["s1", "n1"])
    by_queries = values(session_table(queries | {"users": [7, 5, 2, 90]}, "queries"), held_out)
    by_labels = values(session_table(PATHS, "labels"), held_out)
    for measure, found in by_queries.items():
        assert found == pytest.approx(by_labels[measure], nan_ok=True)
    assert by_labels["accuracy"] == pytest.approx([1, 1, np.nan], nan_ok=True)


def test_what_cannot_be_scored_is_declined():
    held_out = truth(["n1", "m1"])
    with pytest.raises(Unfit, match="needs --map"):
        score({"session": session_table(PATHS, "labels")}, held_out, Settings())
    with pytest.raises(Unfit, match="session table"):
        values(session_table(PATHS, "keywords"), held_out)
