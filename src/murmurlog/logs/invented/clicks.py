"""Clicks by the position-based model (Richardson and others, 2007; Craswell and others, 2008).

A result is clicked if the user looks at its place and finds it attractive:

    P(click) = examination of the place * attractiveness of the result for query and intent

independently for the ten results of a page. Users who are not engaged look at nothing.
"""

import numpy as np
import numpy.typing as npt

from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.texts import Facts, Ints

# Fitted to the clicks at ranks 1 to 10 of the AOL log; the last result of a page gets more than the one before.
EXAMINATION = (1.0, 0.54, 0.39, 0.28, 0.225, 0.185, 0.157, 0.138, 0.13, 0.137)
FIRST_OF_SITE, OTHERS_OF_SITE = 0.95, 0.06  # attractiveness of results for a site's name
OTHER_INTENT = 0.2  # attractiveness for another intent, as a part of that for the user's own
OF_MISSPELLING = 0.1  # attractiveness for a misspelling, as a part of that for the right spelling


def clicked_ranks(
    rng: np.random.Generator, *, query: Ints, intent: Ints, page: Ints, engaged: Facts
) -> tuple[Ints, Ints]:
    """(submission, rank) of each row, in order: one row a click, or one of rank 0 without a click."""
    at = np.flatnonzero(engaged)
    hit = rng.random((len(at), text.PAGE), np.float32) < _chances(query[at], intent[at], page[at])
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
    part = np.where(kind == text.WRONG, OF_MISSPELLING, 1.0).astype(np.float32)
    chances = np.empty((len(query), text.PAGE), np.float32)
    for place in range(text.PAGE):
        attractiveness, of_intent = text.result(query, 1 + place + text.PAGE * page)
        there = EXAMINATION[place] * part * attractiveness.astype(np.float32)
        chances[:, place] = np.where(of_intent == meant, there, OTHER_INTENT * there)
    site = (kind == text.SITE) & (page == 0)
    chances[site] *= np.float32(OTHERS_OF_SITE)
    chances[site, 0] = FIRST_OF_SITE
    return chances
