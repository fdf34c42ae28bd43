"""The next label: for a query of a held-out session, the public label of the query asked next.

No paper of the four measures this. It is what paths of labels are published for: how people move between
kinds of queries. Labels are those of the public map (`--map`), which is applied to held-out queries, too.

    sum(a, b) = sum of the counts of the published paths, once for each place where b follows a

For the label of a query, labels are ranked by these sums, equal ones by name. `accuracy` is the share of
questions where the first is right, `MRR` the mean of 1 / place of the right one, 0 if it never follows.
Sessions of queries, those of the raw log too, are scored by the labels of their queries.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.derived_tables import weights
from murmurlog.bundle.schema import lists_of
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Floats, Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import sessions_of
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, lacking
from murmurlog.evaluation.tasks.sampling import spread
from murmurlog.evaluation.tasks.suggestion import questions

Codes = npt.NDArray[np.int64]


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """accuracy and MRR."""
    if truth.query_labels is None:
        raise Unfit("needs --map: a public map from queries to labels")
    if "session" not in tables or lists_of(tables["session"]) not in ("labels", "queries"):
        raise lacking(tables, "session")
    names = pc.unique(truth.query_labels["label"]).sort()
    label = pc.index_in(truth.query_labels["label"], value_set=names).combine_chunks()
    sessions = sessions_of(truth)
    at = spread(questions(sessions), settings.questions)
    asked = _labels(sessions.texts, truth.query_labels["query"], label)[sessions.query]
    flow = follow(tables["session"], truth.query_labels["query"], label, names)
    place = places(flow)[asked[at], asked[at + 1]]
    follows = flow[asked[at], asked[at + 1]] > 0
    answered = flow[asked[at]].sum(axis=1) > 0
    values = {
        "accuracy": np.where(follows & (place == 1), 1.0, 0.0),
        "MRR": np.where(follows, 1 / place, 0.0),
    }
    return [
        Scores(measure=name, values=np.where(answered, value, np.nan), users=sessions.user[at])
        for name, value in values.items()
    ]


def follow(table: pa.Table, queries: pa.Array, label: pa.Array, names: pa.Array) -> Floats:
    """How often each label follows each other one in the lists of a session table."""
    lists = table["queries"].combine_chunks()
    texts, of = lists.flatten(), pc.list_parent_indices(lists).to_numpy()
    if lists_of(table) == "labels":
        code = pc.index_in(texts, value_set=names).fill_null(-1).to_numpy().astype(np.int64)
    else:
        code = _labels(texts, queries, label)
    # A published path may have a label that no query of the log has.
    next_to = (of[1:] == of[:-1]) & (code[1:] >= 0) & (code[:-1] >= 0)
    found = np.zeros((len(names), len(names)))
    np.add.at(found, (code[:-1][next_to], code[1:][next_to]), weights(table)[of[1:][next_to]])
    return found


def places(flow: Floats) -> Codes:
    """The place of each label after each other one, from 1 on; equal sums go by name."""
    order = np.argsort(-flow, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, flow.shape[1] + 1)[None, :], axis=1)
    return found


def _labels(texts: pa.Array, queries: pa.Array, label: pa.Array) -> Codes:
    """The number of the label of each query; -1 where none is known."""
    found = label.take(pc.index_in(texts, value_set=queries))
    codes: Codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
