"""The top-list study (Korolova and others 2009, "fears"): does a release give the same top list?

Their text compares the most common fears of a log with those of its release. Here the queries like a
pattern are ranked by users, raw and released.
"""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from murmurlog.bundle.models.top_list import match_pattern
from murmurlog.bundle.schema import count_of
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Figure, Floats, Scoring, mean
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, complete

TOP = (5, 10, 20, 40)


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """How much of the raw top list a release keeps, and in which order.

    "top j published": the share of the j most asked that are published at all.
    "top j among the top j": the share of them that are among the j first of the release.
    "Kendall tau", "Spearman rho": of the counts, raw and released; covered: of those that are
    published; all: of all queries of the raw log that match the pattern, unpublished ones with a
    count of 0. With ties: tau-b, mean ranks. 0 where there are not two different counts on each side.
    A set without counts is scored only on what is published. Intervals are over the queries.
    """
    rows = ranks(tables, truth, settings.pattern)
    rank = rows["released rank"].to_numpy(zero_copy_only=False)  # NaN: not published
    ordered = count_of(complete(tables)["query"]) is not None  # a set is not
    scoring = Scoring()
    for j in TOP:
        top = rank[:j]
        who = np.arange(len(top))
        scoring.append(mean(f"top {j} published", (~np.isnan(top)).astype(float), who))
        if ordered:
            scoring.append(mean(f"top {j} among the top {j}", (top <= j).astype(float), who))
    if not ordered:
        return scoring
    raw = rows["raw"].to_numpy().astype(float)
    released = rows["released"].to_numpy(zero_copy_only=False)
    published = ~np.isnan(released)
    for measure, of in (("Kendall tau", stats.kendalltau), ("Spearman rho", stats.spearmanr)):
        for which, a, b in (
            ("covered", raw[published], released[published]),
            ("all", raw, np.nan_to_num(released)),
        ):
            value = float(of(a, b).statistic) if _vary(a) and _vary(b) else 0.0
            value = value if len(a) else math.nan
            scoring.append(Figure(measure=f"{measure} ({which})", value=value, n=len(a)))
    return scoring


def _vary(values: Floats) -> bool:
    return len(values) > 1 and bool(np.any(values != values[0]))


def ranks(tables: Tables, truth: Truth, pattern: str) -> pa.Table:
    """The list itself, raw order: query, raw (users), raw rank, released (count), released rank.

    The last two are null for what is not published. Ranks start at 1; equal counts are ordered by
    text.
    """
    all_tables = complete(tables, "query")
    raw = match_pattern(truth.tables["query"].select(["query", "users"]), pattern)
    if not raw.num_rows:
        raise Unfit(f"needs queries like {pattern!r}, and this log has none")
    released = match_pattern(all_tables["query"], pattern)
    place = pc.index_in(raw["query"], value_set=released["query"].combine_chunks())
    return pa.table(
        {
            "query": raw["query"],
            "raw": pc.cast(raw["weight"], pa.int64()),
            "raw rank": pa.array(np.arange(raw.num_rows) + 1),
            "released": released["weight"].take(place),
            "released rank": pc.add(place, 1),
        }
    )
