"""Hong et al. 2012, Tables 3 to 6, beside what their own constraints allow.

The constraints of all users add up: no output is larger than floor(n B), n = 1980 users and B =
min(epsilon, -ln(1 - delta)). Every printed number needs more, so there is nothing to match; the same
programs are solved on an invented log of as many users instead. None of it is differentially
private end to end: the solution itself shows who is in the log.
"""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog import printed
from murmurlog.cells import Cell, PaperTable
from murmurlog.diversity import diverse, eliminate
from murmurlog.histories import Histories, histories, preprocess
from murmurlog.synth import invent
from murmurlog.ump import budget, largest_output, size_bound

ROWS, SEED = 138_400, 1  # 2,500 users, as many as the paper drew from the AOL log

_NOTE = (
    "The constraints of all users add up to n B, and each published pair takes at least 1 of "
    "that, so no output is larger than n B: the printed numbers cannot come from the printed "
    "program. Nor is the program differentially private: its solution is a function of the log."
)


def tables() -> list[PaperTable]:
    """Tables 3 to 6, with our own solutions on an invented log."""
    given = clicks(invent(rows=ROWS, seed=SEED, like="aol").table)
    kept = preprocess(given).histories
    log = (
        f"an invented log: {ROWS:,} rows of 2,500 users, of whom {kept.users:,} share "
        f"{kept.pairs:,} pairs and {kept.rows:,} clicks (paper: {printed.HONG_USERS:,} users, "
        f"{printed.HONG_PAIRS:,} pairs, {printed.HONG_ROWS:,} clicks)"
    )
    rate = largest_output(given, B=1.0).optimum  # the program is homogeneous: lambda = rate * B
    return [_output(rate, log), *_frequent(rate), *_diversity(kept)]


def clicks(table: pa.Table) -> Histories:
    """How often each user clicked each (query, url) of a log."""
    clicked = table.filter(pc.is_valid(table["url"])).combine_chunks()
    user, query, url = (clicked[name] for name in ("user", "query", "url"))
    pair = pc.binary_join_element_wise(query, url, "\t")
    users, pairs = (pc.dictionary_encode(each).combine_chunks() for each in (user, pair))
    counts = sparse.coo_array(
        (np.ones(len(clicked), np.int64), (np.asarray(users.indices), np.asarray(pairs.indices))),
        shape=(len(users.dictionary), len(pairs.dictionary)),
    )
    return histories(counts.tocsr())


def _output(rate: float, log: str) -> PaperTable:
    cells = []
    for exponential, sizes in printed.HONG_3:
        for delta, size in zip(printed.HONG_DELTAS, sizes, strict=True):
            B = _budget(exponential, delta)
            most = size_bound(printed.HONG_USERS, B)
            cells.append(
                Cell(
                    name=f"e^epsilon={exponential:g} delta={delta:g}",
                    printed=str(size),
                    recomputed=rate * B,
                    true=most,
                    reason=_reason(size, most),
                    note=_NOTE,
                )
            )
    return PaperTable(
        paper="hong",
        name="Table 3",
        about=f"the largest output, O-UMP; our lambda is for {log}",
        cells=tuple(cells),
        columns=("our lambda", "floor(n B), n=1980"),
    )


def _frequent(rate: float) -> list[PaperTable]:
    B = _budget(2.0, 0.5)
    most = size_bound(printed.HONG_USERS, B)
    return [
        PaperTable(
            paper="hong",
            name=name,
            about=f"{what} by support s and output size |O|, F-UMP, e^epsilon = 2, delta = 0.5",
            cells=tuple(
                Cell(
                    name=f"s=1/{s} |O|={size}",
                    printed=text,
                    recomputed=rate * B,
                    true=most,
                    reason=f"impossible: |O| = {size} is above {most}",
                    note="No output of this size exists, so it has no recall and no distance.",
                )
                for s, texts in rows
                for size, text in zip(printed.HONG_SIZES, texts, strict=True)
            ),
            columns=("our lambda", "largest |O|, n=1980"),
        )
        for name, what, rows in (
            ("Table 4", "recall", printed.HONG_4),
            ("Table 5", "sum of support distances", printed.HONG_5),
        )
    ]


def _diversity(kept: Histories) -> list[PaperTable]:
    by_delta = [(f"delta={d:g}", _budget(2.0, d)) for d in printed.HONG_6A_DELTAS]
    by_epsilon = [(f"e^epsilon={e:g}", _budget(e, 0.1)) for e in printed.HONG_6B_EXPONENTIALS]
    ours: dict[tuple[bool, float], float] = {}
    for _, B in (*by_delta, *by_epsilon):
        ours[True, B] = int(eliminate(kept, B=B).sum()) / kept.pairs
        ours[False, B] = diverse(kept, B=B).kept / kept.pairs
    return [
        PaperTable(
            paper="hong",
            name=name,
            about=f"the share of pairs that is kept, D-UMP, {fixed}; ours is SPE for SPE, and our "
            "own best for the solvers",
            cells=tuple(_shares(rows, columns, ours)),
            columns=("ours", "floor(n B)/6043"),
        )
        for name, fixed, rows, columns in (
            ("Table 6a", "e^epsilon = 2", printed.HONG_6A, by_delta),
            ("Table 6b", "delta = 0.1", printed.HONG_6B, by_epsilon),
        )
    ]


def _shares(
    rows: Sequence[tuple[str, Sequence[str]]],
    columns: Sequence[tuple[str, float]],
    ours: dict[tuple[bool, float], float],
) -> list[Cell]:
    cells = []
    for solver, texts in rows:
        for (where, B), text in zip(columns, texts, strict=True):
            most = size_bound(printed.HONG_USERS, B) / printed.HONG_PAIRS
            cells.append(
                Cell(
                    name=f"{solver} {where}",
                    printed=text,
                    recomputed=ours[solver == "SPE", B],
                    true=most,
                    reason=_reason(float(text), most),
                    note=_NOTE,
                )
            )
    return cells


def _budget(exponential: float, delta: float) -> float:
    return budget(epsilon=math.log(exponential), delta=delta)


def _reason(value: float, most: float) -> str:
    return f"impossible: at most {most:.4g}" if value > most else ""
