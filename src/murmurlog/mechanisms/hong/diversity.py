"""As many distinct pairs or queries as the budget allows: the D-UMP of Hong et al. (EDBT 2012).

Every published pair is drawn once (theorem 2 of the paper: more copies only cost). `eliminate` is the
paper's heuristic SPE; `diverse_output` starts from it and is never worse; `most_diverse_output` is
exact, for small histories. The output is not differentially private (see `programs`).
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
    size: int  # distinct pairs, or distinct queries if those count
    bound: int  # proved: no choice keeps more


def eliminate(histories: Histories, *, B: float) -> Integers:
    """The paper's SPE: pairs by their most exposed user, dropped from the worst on until all fit.

    Differs: the paper drops one pair before it looks whether all fit; here none is, so this keeps
    at least as many. Of pairs that are equally bad the one with the higher number goes first.
    """
    reduced = preprocess(histories)
    x = np.zeros(histories.pairs, np.int64)
    x[reduced.pairs[_longest_run(packing_of(reduced.histories, B=B))]] = 1
    return x


def diverse_output(histories: Histories, *, B: float, queries: Integers | None = None) -> Diverse:
    """At least as many pairs as the paper's SPE keeps, or queries if each pair's is given."""
    reduced = preprocess(histories)
    packing = packing_of(reduced.histories, B=B)
    start = _longest_run(packing)
    if queries is None:
        chosen, bound = pack(packing, start)
        return _diverse(histories, reduced.pairs[chosen], int(chosen.sum()), bound)
    query = _query_of(histories, queries)[reduced.pairs]
    narrow = _one_pair_a_query(packing, query)
    choice, bound = pack(narrow, _least_exposing(start, query, packing))
    # The other pairs of a kept query cost no query: publish those that fit as well.
    chosen = extend(packing, choice, packing.heaviest)
    return _diverse(histories, reduced.pairs[chosen], len(np.unique(query[chosen])), bound)


def most_diverse_output(
    histories: Histories, *, B: float, queries: Integers | None = None, seconds: float = 60
) -> Diverse | None:
    """The most pairs or queries there can be, or None if that was not proved in time."""
    reduced = preprocess(histories)
    packing = packing_of(reduced.histories, B=B)
    query = None if queries is None else _query_of(histories, queries)[reduced.pairs]
    chosen = pack_exactly(
        packing if query is None else _one_pair_a_query(packing, query), seconds=seconds
    )
    if chosen is None:
        return None
    best = int(chosen.sum())
    return _diverse(histories, reduced.pairs[chosen], best, float(best))


def _longest_run(packing: Packing) -> Chosen:
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


def _one_pair_a_query(packing: Packing, query: Integers) -> Packing:
    """The same with a row for each query that holds one pair: a second keeps no further query."""
    return Packing(
        rows=packing.rows + int(query.max(initial=-1)) + 1,
        columns=packing.columns,
        row=np.concatenate([packing.row, packing.rows + query]),
        column=np.concatenate([packing.column, np.arange(packing.columns)]),
        weight=np.concatenate([packing.weight, np.ones(packing.columns)]),
    )


def _least_exposing(chosen: Chosen, query: Integers, packing: Packing) -> Chosen:
    """Of the chosen pairs of a query only the least exposing one."""
    numbers = np.flatnonzero(chosen)
    numbers = numbers[np.argsort(packing.heaviest[numbers], kind="stable")]
    _, first = np.unique(query[numbers], return_index=True)
    mask = np.zeros_like(chosen)
    mask[numbers[first]] = True
    return mask


def _query_of(histories: Histories, queries: Integers) -> Integers:
    """The query of each pair, numbered from 0 on."""
    if np.shape(queries) != (histories.pairs,):
        raise UsageError(f"give the query of each of the {histories.pairs} pairs")
    return np.unique(queries, return_inverse=True)[1].astype(np.int64)


def _diverse(histories: Histories, pairs: Integers, size: int, bound: float) -> Diverse:
    x = np.zeros(histories.pairs, np.int64)
    x[pairs] = 1
    return Diverse(x=x, size=size, bound=math.floor(bound))
