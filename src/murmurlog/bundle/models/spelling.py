"""Spelling corrections, learned from how people correct themselves.

Korolova and others, 2009 (section 1): they "can be inferred from queries with low click through and
high reformulation rates".
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.click_graph import places, sum_by_place
from murmurlog.bundle.models.derived_tables import Ints, weights
from murmurlog.bundle.schema import count_of

FARTHEST = 2  # how many letters a correction changes at most


def corrections(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """A correction for each query that looks misspelled; needs pairs and queries.

    A query looks misspelled if more users continued with another query than clicked. Its correction
    is the most frequent next query within edit distance two that has more users than the query
    itself; ties go by users, then by text. Without a click table no clicks count; without counts of
    queries the correction need not have more users.
    """
    queries, pairs = tables["query"], tables["pair"]
    names = queries["query"].combine_chunks()
    users = weights(queries)
    first, second = (places(pairs[name], names) for name in ("query", "next_query"))
    pair_users = weights(pairs)
    continued, clicks = sum_by_place(first, pair_users, len(users)), np.zeros(len(users))
    if "click" in tables:
        at = places(tables["click"]["query"], names)
        clicks = sum_by_place(at, weights(tables["click"]), len(users))
    # Pairs of published queries, from one that looks misspelled to a more frequent one.
    rows = np.flatnonzero((first >= 0) & (second >= 0) & (pair_users > 0))
    rows = rows[(continued > clicks)[first[rows]]]
    if count_of(queries):
        rows = rows[users[second[rows]] > users[first[rows]]]
    a, b = (pc.take(names, pa.array(side[rows])) for side in (first, second))
    rows = rows[distances(a.to_pylist(), b.to_pylist(), FARTHEST) <= FARTHEST]
    order = pc.sort_indices(
        pa.table(
            {
                "pair_users": pair_users[rows],
                "users": users[second[rows]],
                "text": pc.take(names, pa.array(second[rows])),
            }
        ),
        sort_keys=[("pair_users", "descending"), ("users", "descending"), ("text", "ascending")],
    ).to_numpy()
    rows = rows[order]
    _, best = np.unique(first[rows], return_index=True)
    rows = rows[np.sort(best)]
    wrong, right = (pc.take(names, pa.array(side[rows])).to_pylist() for side in (first, second))
    return dict(zip(wrong, right, strict=True))


def distances(ours: Sequence[str], theirs: Sequence[str], most: int) -> Ints:
    """The edit distance of each pair of texts; `most` + 1 for any larger distance.

    Insertions, deletions and replacements of a character. All pairs at once, one character of `ours`
    at a time, in a band of 2 `most` + 1 places; a pair is dropped when its band exceeds `most`.
    """
    far = most + 1
    a, start_a, long_a = _characters(ours)
    b, start_b, long_b = _characters(theirs)
    result = np.full(len(ours), far, np.int64)
    open_pairs = np.flatnonzero(np.abs(long_a - long_b) <= most)
    shifts = np.arange(-most, most + 1)
    band = np.where(shifts >= 0, shifts, far)[None, :].repeat(len(open_pairs), axis=0)
    step = 0  # characters of `ours` that are compared; band: `theirs` up to step + shift
    while len(open_pairs):
        done = long_a[open_pairs] == step
        ends = long_b[open_pairs[done]] - long_a[open_pairs[done]] + most
        result[open_pairs[done]] = np.minimum(band[done, ends], far)
        open_pairs, band = open_pairs[~done], band[~done]
        letter = a[start_a[open_pairs] + step]
        step += 1
        old = np.column_stack([band, np.full(len(open_pairs), far)])
        for place, shift in enumerate(shifts):
            at = step + shift  # how many of `theirs`
            inside = (at >= 0) & (at <= long_b[open_pairs])
            last = b[np.clip(start_b[open_pairs] + at - 1, 0, len(b) - 1)]
            equal = (letter == last) & (at >= 1)
            value = np.minimum(old[:, place] + ~equal, old[:, place + 1] + 1)
            if place:
                value = np.minimum(value, band[:, place - 1] + 1)
            if at == 0:
                value = np.full(len(open_pairs), step)
            band[:, place] = np.where(inside, np.minimum(value, far), far)
        close = band.min(axis=1, initial=far) < far
        open_pairs, band = open_pairs[close], band[close]
    return result


def _characters(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], Ints, Ints]:
    """All characters one after another, where each text starts, and how long it is."""
    flat = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    long = np.array([len(text) for text in texts], np.int64)
    # A sentinel, so that the array is never empty.
    return np.append(flat, np.uint32(0)), np.cumsum(long) - long, long
