"""Clicks by the position-based model (Richardson and others, 2007; Craswell and others, 2008).

A result is clicked if the user looks at its place and finds it attractive:

    P(click) = examination of the place * attractiveness of the result for query and intent

independently for the ten results of a page. Users who are not engaged look at nothing.
Draws no privacy noise.
"""

import numpy as np
import numpy.typing as npt

from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.texts import Facts, Ints

# Fitted to the clicks by rank of the AOL log. On the first page the last place gets more than the one before.
EXAMINATION = (
    (1.0, 0.41, 0.29, 0.21, 0.17, 0.14, 0.118, 0.104, 0.098, 0.104),
    (0.36, 0.28, 0.26, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25),  # on later pages
)
FIRST_OF_SITE, OTHERS_OF_SITE = 0.95, 0.06  # attractiveness of results for a site's name
OTHER_INTENT = 0.2  # attractiveness for another intent, as a part of that for the user's own
OF_OWN = 0.72  # attractiveness for queries of one user only, as a part of that for shared ones
OF_MISSPELLING = 0.1  # the same for misspellings
REFINDS = 0.8  # of submissions that repeat the one before: the same clicks


def clicked_ranks(
    rng: np.random.Generator,
    *,
    query: Ints,
    intent: Ints,
    page: Ints,
    engaged: Facts,
    again: Facts,
) -> tuple[Ints, Ints]:
    """(submission, rank) of each row, in order: one row a click, or one of rank 0 without a click.

    `again`: submissions that show what the one before showed. If the user looked there, a part of the users
    clicks the same once more; each probability of a click stays the same.
    """
    at = np.flatnonzero(engaged)
    luck = rng.random((len(at), text.PAGE), np.float32)
    same = again[at] & (np.diff(at, prepend=-2) == 1) & (rng.random(len(at)) < REFINDS)
    luck = luck[np.maximum.accumulate(np.where(same, 0, np.arange(len(at))))]
    hit = luck < _chances(query[at], intent[at], page[at])
    which, place = np.nonzero(hit)
    clicks = np.zeros(len(query), np.int64)
    clicks[at] = np.bincount(which, minlength=len(at))
    submission = np.repeat(np.arange(len(query)), np.maximum(clicks, 1))
    rank = np.zeros(len(submission), np.int64)
    rank[clicks[submission] > 0] = 1 + place + text.PAGE * page[at][which]
    return submission, rank


def _chances(query: Ints, intent: Ints, page: Ints) -> npt.NDArray[np.float32]:
    """The probability of a click on each of the ten results."""
    kind = text.kind_of(query)
    meant = np.minimum(intent, text.intents(query) - 1)
    part = np.ones(len(query), np.float32)
    part[(kind == text.OWN) | (kind == text.OWN_SPECIAL)] = OF_OWN
    part[kind == text.WRONG] = OF_MISSPELLING
    chances = np.empty((len(query), text.PAGE), np.float32)
    for place in range(text.PAGE):
        attractiveness, of_intent = text.result(query, 1 + place + text.PAGE * page)
        examination = np.where(page == 0, EXAMINATION[0][place], EXAMINATION[1][place])
        chance = (examination * attractiveness).astype(np.float32) * part
        chances[:, place] = np.where(of_intent == meant, chance, OTHER_INTENT * chance)
    site = (kind == text.SITE) & (page == 0)
    chances[site] *= np.float32(OTHERS_OF_SITE)
    chances[site, 0] = FIRST_OF_SITE
    return chances
