"""The sessions of held-out users, as the questions of suggestion, session search and completion.

A query asked again at once (the next page, a second click) is one search, as in a session table.
All of it follows from the log alone, so every system gets the same questions.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Ints
from murmurlog.evaluation.tasks.protocol import Unfit
from murmurlog.evaluation.tasks.sampling import once_per_truth


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """Searches in order, of one session after another; queries and urls as numbers of texts."""

    texts: pa.Array  # of queries
    urls: pa.Array  # texts
    user: Ints
    query: Ints
    start: Ints  # of each session: its first search
    end: Ints  # and the one after its last
    click: Ints  # of each click: its search, rising
    clicked: Ints  # its url

    @property
    def session(self) -> Ints:
        """Of each search: its session."""
        return np.repeat(np.arange(len(self.start)), self.end - self.start)


def places_in_groups(sizes: Ints) -> tuple[Ints, Ints]:
    """(group, place in it) of every member of groups of these sizes, such as the searches of sessions."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def searches(truth: Truth) -> pa.Table:
    """The rows of held-out users. Raises Unfit where nobody is held out."""
    if truth.searches is None:
        raise Unfit("needs users whom the release has not seen")
    return truth.searches


@once_per_truth
def sessions_of(truth: Truth) -> Sessions:
    """What held-out users did. Raises Unfit where nobody is held out."""
    rows = searches(truth)
    coded = rows["query"].combine_chunks().dictionary_encode()
    query = coded.indices.to_numpy().astype(np.int64)
    session = rows["session"].to_numpy()
    new = np.ones(len(query), bool)
    new[1:] = (np.diff(session) != 0) | (np.diff(query) != 0)
    search = np.cumsum(new) - 1
    first = np.ones(int(new.sum()), bool)
    first[1:] = np.diff(session[new]) != 0
    start = np.flatnonzero(first)
    url = rows["url"].combine_chunks().dictionary_encode()
    has_click = url.is_valid().to_numpy(zero_copy_only=False)
    return Sessions(
        texts=coded.dictionary,
        urls=url.dictionary,
        user=rows["user"].to_numpy()[new],
        query=query[new],
        start=start,
        end=np.append(start, len(first))[1:],  # nobody has no session
        click=search[has_click],
        clicked=url.indices.fill_null(0).to_numpy()[has_click].astype(np.int64),
    )
