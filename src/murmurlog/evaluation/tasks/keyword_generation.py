"""Keyword generation: does a release give the keywords that the log itself would give?

Korolova and others (2009) show that keywords generated from the released click graph resemble those
from the original. Here as a number, for each seed:

    overlap@k = |first k from the release, and first k from the log| / |first k from the log|

where both come from the same walk. Seeds are urls and queries: `top`, those with the most clicking
users, and `any`, evenly spread over all in order of text. Only seeds for which the log gives a
keyword are asked. A seed belongs to no user, so the intervals are over seeds.
"""

import numpy as np
import pyarrow as pa

from murmurlog.bundle.models.click_graph import Ranking, places
from murmurlog.bundle.models.keyword_generation import Generator
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Floats, Ints, Scores, Scoring
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, require_clicks
from murmurlog.evaluation.tasks.sampling import spread

CUTS = (10, 20)
SEEDS = 250  # of each kind


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """overlap@10 and overlap@20 for the top urls, the top queries, any urls, any queries."""
    if "click" not in truth.tables:
        raise Unfit("needs clicks in the log")
    require_clicks(tables)
    released = Generator(tables)
    original = Generator({"click": truth.tables["click"]})
    most = min(SEEDS, settings.questions)
    scores: Scoring = []
    for which in ("top", "any"):
        for kind in ("urls", "queries"):
            seeds = seeds_of(original, kind, top=which == "top", most=most)
            ours, theirs = (
                (generator.from_urls if kind == "urls" else generator.from_queries)(
                    seeds, max(CUTS)
                )
                for generator in (released, original)
            )
            place = places(released.queries, original.queries)
            scores += [
                Scores(
                    measure=f"overlap@{k}, {which} {kind}",
                    values=overlaps(ours, theirs, place, k),
                    users=np.arange(len(seeds)),
                )
                for k in CUTS
            ]
    return scores


def seeds_of(original: Generator, kind: str, *, top: bool, most: int) -> list[str]:
    """Urls or queries from which a walk leads to some other query."""
    graph = original.walker.graph
    clicks = graph.clicks if kind == "queries" else graph.clicks.T.tocsr()
    names = graph.queries if kind == "queries" else graph.urls
    users = np.asarray(clicks.sum(axis=1)).ravel()
    leads = users > 0
    if kind == "queries":
        # A url that another query leads to as well.
        shared = (np.asarray((graph.clicks > 0).sum(axis=0)).ravel() > 1).astype(np.float64)
        leads = graph.clicks @ shared > 0
    able = np.flatnonzero(leads)
    ordered = able[np.lexsort((able, -users[able]))][:most] if top else spread(able, most)
    seeds: list[str] = names.take(pa.array(ordered)).to_pylist()
    return seeds


def overlaps(ours: Ranking, theirs: Ranking, place: Ints, k: int) -> Floats:
    """overlap@k of each row; NaN where ours has nothing. `place`: our columns as theirs, or -1."""
    first = ours.ranks <= k
    rank = theirs.rank_of(ours.rows[first], place[ours.columns[first]])
    both = np.bincount(
        ours.rows[first], weights=(rank > 0) & (rank <= k), minlength=len(ours.lengths)
    )
    share: Floats = both / np.maximum(1, np.minimum(theirs.lengths, k))
    return np.where(ours.lengths > 0, share, np.nan)
