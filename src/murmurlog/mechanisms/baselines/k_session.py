"""k-session anonymity: sessions made equal by adding and deleting words, with a greedy algorithm of ours.

A baseline without any guarantee, like `k_anonymity`. The notion is that of Motwani and Nabar 2008, who
minimise the number of edited keywords.

Differs: their approximation algorithms, with factors O(k log k) and O(1), are not used. Sessions,
sorted by their keywords from frequent to rare, are grouped into k units, and each group is published
with the keywords of its majority. No factor is proved; a test compares it with the optimum.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.schema import keys_schema, with_notes
from murmurlog.mechanisms.baselines.k_anonymity import AtLeast, exact_table
from murmurlog.mechanisms.protocol import View
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.logs.log import Log

Words = tuple[int, ...]  # numbers of words, the most frequent first
NOTE = "`queries` holds the keywords of a session in alphabetical order, not its queries"


@dataclass(frozen=True, kw_only=True)
class KSession(AtLeast):
    """Sessions as sets of keywords, each the same as those of at least k - 1 other units.

    Protects: nothing provable.  Neighbours: none.
    Needs: times.  Drops: keywords that most of a group do not hold, groups with none in common and
    the sessions left over; keywords that most of a group hold are added to the rest of it.
    """

    name: ClassVar[str] = "k-session"
    tables: ClassVar[tuple[str, ...]] = ("session",)

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> pa.Table:
        """unit, queries: each distinct session of every unit."""
        from murmurlog.counting.holdings import bring_holdings

        holdings = bring_holdings(log, view.finder(log))
        return pa.table(
            {"unit": holdings.unit, "queries": holdings.items["queries"].take(holdings.item)}
        )

    def release(self, sessions: pa.Table, /, *, entropy: Entropy) -> pa.Table:
        """(queries, users, users_stderr, reliable) of the sessions after editing."""
        words, holders = _by_keywords(sessions)
        published: dict[Words, set[int]] = {}
        for form, units in _edit_groups(holders, self.k):
            published.setdefault(form, set()).update(units)
        lists = [sorted(words[w] for w in form) for form in published]
        users = [len(units) for units in published.values()]
        keys = pa.table([pa.array(lists, pa.list_(pa.string()))], schema=keys_schema(("queries",)))
        return with_notes(exact_table(keys, users), {"queries": NOTE})


def _by_keywords(sessions: pa.Table) -> tuple[list[str], dict[Words, set[int]]]:
    """The words, most frequent first, and the units of every distinct set of words."""
    cut = cache(keywords)
    sets = [
        frozenset(itertools.chain.from_iterable(map(cut, queries)))
        for queries in sessions["queries"].to_pylist()
    ]
    frequency = Counter(itertools.chain.from_iterable(sets))
    words = sorted(frequency, key=lambda word: (-frequency[word], word))
    place = {word: i for i, word in enumerate(words)}
    holders: dict[Words, set[int]] = {}
    for word_set, unit in zip(sets, sessions["unit"].to_pylist(), strict=True):
        if word_set:
            holders.setdefault(tuple(sorted(place[word] for word in word_set)), set()).add(unit)
    return words, holders


def _edit_groups(holders: dict[Words, set[int]], k: int) -> Iterator[tuple[Words, set[int]]]:
    """(the words a group is written with, its units) for groups of at least k units."""
    group: list[Words] = []
    units: set[int] = set()
    for words in sorted(holders):
        if len(holders[words]) >= k:  # equal as they are: nothing to edit
            yield words, holders[words]
            continue
        group.append(words)
        units |= holders[words]
        if len(units) >= k:
            # Fewest edits: keep a word, and add it to the others, if more than half hold it.
            votes = Counter(word for session in group for word in session for _ in holders[session])
            sessions = sum(len(holders[session]) for session in group)
            if form := tuple(sorted(word for word, n in votes.items() if 2 * n > sessions)):
                yield form, units
            group, units = [], set()
