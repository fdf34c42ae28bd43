"""As many distinct pairs or queries as the budget allows: the D-UMP of Hong et al. (EDBT 2012).

Every published pair is drawn once (theorem 2 of the paper: more copies only cost). `eliminate` is
the paper's heuristic SPE; `diverse` starts from it and is never worse; `most_diverse` is exact and
for small histories. The output is not differentially private (see `programs`).
"""

import math
from dataclasses import dataclass

import numpy as np

from murmurlog.errors import UsageError
from murmurlog.mechanisms.hong.histories import Histories, Integers, preprocess
from murmurlog.mechanisms.hong.packing import (
    Chosen,
    Packing,
    extend,
    pack,
    pack_exactly,
    packing_of,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Diverse:
    """Which pairs to publish once."""

    x: Integers  # 0 or 1 for each pair of the histories
    kept: int  # distinct pairs, or distinct queries if those were asked for
    bound: int  # proved: no choice keeps more


def eliminate(given: Histories, *, B: float) -> Integers:
    """The paper's SPE: pairs by their most exposed user, dropped from the worst on until all fit.

    Differs: the paper drops one pair before it looks whether all fit; here none is, so this keeps
    at least as many. Of pairs that are equally bad the one with the higher number goes first.
    """
    kept = preprocess(given)
    x = np.zeros(given.pairs, np.int64)
    x[kept.pairs[_eliminated(packing_of(kept.histories, B=B))]] = 1
    return x


def diverse(given: Histories, *, B: float, queries: Integers | None = None) -> Diverse:
    """At least as many pairs as the paper's SPE keeps, or queries if each pair's is given."""
    kept = preprocess(given)
    packing = packing_of(kept.histories, B=B)
    start = _eliminated(packing)
    if queries is None:
        chosen, bound = pack(packing, start)
        return _diverse(given, kept.pairs[chosen], int(chosen.sum()), bound)
    of = _query_of(given, queries)[kept.pairs]
    narrow = _one_a_query(packing, of)
    one, bound = pack(narrow, _first_of_each(start, of, packing))
    # The other pairs of a kept query cost no query: publish those that fit as well.
    chosen = extend(packing, one, packing.heaviest)
    return _diverse(given, kept.pairs[chosen], len(np.unique(of[chosen])), bound)


def most_diverse(
    given: Histories, *, B: float, queries: Integers | None = None, seconds: float = 60
) -> Diverse | None:
    """The most pairs or queries there can be, or None if that was not proved in time."""
    kept = preprocess(given)
    packing = packing_of(kept.histories, B=B)
    of = None if queries is None else _query_of(given, queries)[kept.pairs]
    chosen = pack_exactly(packing if of is None else _one_a_query(packing, of), seconds=seconds)
    if chosen is None:
        return None
    best = int(chosen.sum())
    return _diverse(given, kept.pairs[chosen], best, float(best))


def _eliminated(packing: Packing) -> Chosen:
    """What SPE keeps: the longest run of pairs, the least exposing first, that fits as a whole."""
    order = np.argsort(packing.heaviest, kind="stable")
    low, high = 0, packing.columns
    while low < high:  # more pairs never fit where fewer did not
        middle = (low + high + 1) // 2
        chosen = np.zeros(packing.columns, bool)
        chosen[order[:middle]] = True
        low, high = (middle, high) if packing.fits(chosen) else (low, middle - 1)
    chosen = np.zeros(packing.columns, bool)
    chosen[order[:low]] = True
    return chosen


def _one_a_query(packing: Packing, of: Integers) -> Packing:
    """The same with a row for each query that holds one pair: a second keeps no further query."""
    return Packing(
        rows=packing.rows + int(of.max(initial=-1)) + 1,
        columns=packing.columns,
        row=np.concatenate([packing.row, packing.rows + of]),
        column=np.concatenate([packing.column, np.arange(packing.columns)]),
        weight=np.concatenate([packing.weight, np.ones(packing.columns)]),
    )


def _first_of_each(chosen: Chosen, of: Integers, packing: Packing) -> Chosen:
    """Of the chosen pairs of a query only the least exposing one."""
    numbers = np.flatnonzero(chosen)
    numbers = numbers[np.argsort(packing.heaviest[numbers], kind="stable")]
    _, first = np.unique(of[numbers], return_index=True)
    found = np.zeros_like(chosen)
    found[numbers[first]] = True
    return found


def _query_of(given: Histories, queries: Integers) -> Integers:
    """The query of each pair, numbered from 0 on."""
    if np.shape(queries) != (given.pairs,):
        raise UsageError(f"give the query of each of the {given.pairs} pairs")
    return np.unique(queries, return_inverse=True)[1].astype(np.int64)


def _diverse(given: Histories, pairs: Integers, kept: int, bound: float) -> Diverse:
    x = np.zeros(given.pairs, np.int64)
    x[pairs] = 1
    return Diverse(x=x, kept=kept, bound=math.floor(bound))
