"""Hong et al. 2012, Tables 3 to 6, beside what their own constraints allow.

The constraints of all users add up: no output is larger than floor(n B), n = 1980 users and B =
min(epsilon, -ln(1 - delta)). Every printed number needs more, so there is nothing to match; the same
programs are solved on an invented log of as many users instead. None of it is differentially
private end to end: the solution itself shows who is in the log.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from murmurlog.logs.invented.generate import invent
from murmurlog.mechanisms.hong.diversity import (
    Diverse,
    diverse_output,
    eliminate,
    most_diverse_output,
)
from murmurlog.mechanisms.hong.histories import Histories, preprocess
from murmurlog.mechanisms.hong.programs import (
    Plan,
    budget,
    frequent_output,
    largest_output,
    recall,
    size_bound,
    support_distance,
)
from papers import printed_numbers as printed
from papers.cells import Cell, PaperTable

ROWS, SEED = 138_400, 1  # 2,500 users, as many as the paper drew from the AOL log
LAMBDA = 13088  # the paper's at e^epsilon = 2, delta = 0.5, for its |O| (Table 3)
PROVABLE = 50  # pairs kept up to which the most is looked for exactly

_NOTE = (
    "The constraints of all users add up to n B, and each published pair takes at least 1 of "
    "that, so no output is larger than n B: the printed numbers cannot come from the printed "
    "program. Nor is the program differentially private: its solution is a function of the log."
)


def tables() -> list[PaperTable]:
    """Tables 3 to 6, with our own solutions on an invented log, and what they are of the best."""
    given = clicks(invent(rows=ROWS, seed=SEED, like="aol").table)
    kept = preprocess(given).histories
    log = (
        f"an invented log: {ROWS:,} rows of 2,500 users, of whom {kept.users:,} share "
        f"{kept.pairs:,} pairs and {kept.rows:,} clicks (paper: {printed.HONG_USERS:,} users, "
        f"{printed.HONG_PAIRS:,} pairs, {printed.HONG_ROWS:,} clicks)"
    )
    rate = largest_output(given, B=1.0).optimum  # the program is homogeneous: lambda = rate * B
    return [_output(rate, log), *_frequent(kept, rate), *_diversity(kept)]


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
    return Histories.of(counts.tocsr())


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


def _frequent(kept: Histories, rate: float) -> list[PaperTable]:
    """Tables 4 and 5; our sizes are as large a part of our lambda as the paper's are of its own."""
    B = _budget(2.0, 0.5)
    most, lam = size_bound(printed.HONG_USERS, B), rate * B
    sizes = {size: math.floor(lam * size / LAMBDA) for size in printed.HONG_SIZES}
    ours: dict[tuple[int, int], tuple[Plan, float]] = {}
    for s, _ in printed.HONG_4:
        for size, scaled in sizes.items():
            plan = frequent_output(kept, B=B, support=1 / s, size=scaled, fill=True)
            ours[s, size] = plan, support_distance(kept, plan.x, support=1 / s)
    about = (
        "by support s and output size |O|, F-UMP, e^epsilon = 2, delta = 0.5; ours is for "
        f"|O| x {lam:.1f}/{LAMBDA} ({', '.join(map(str, sizes.values()))}), the same part of lambda"
    )

    def cells(rows: Sequence[tuple[int, Sequence[str]]], distance: bool) -> Iterator[Cell]:
        for s, texts in rows:
            for size, text in zip(printed.HONG_SIZES, texts, strict=True):
                plan, far = ours[s, size]
                yield Cell(
                    name=f"s=1/{s} |O|={size}",
                    printed=text,
                    recomputed=plan.size,  # of another log: no number that could match
                    true=(far, plan.bound) if distance else recall(kept, plan.x, support=1 / s),
                    reason=f"impossible: |O| = {size} is above {most}",
                    note="No output of this size exists, so it has no recall and no distance.",
                )

    return [
        PaperTable(
            paper="hong",
            name="Table 4",
            about=f"recall {about}",
            cells=tuple(cells(printed.HONG_4, distance=False)),
            columns=("our |O|, reached", "our recall"),
        ),
        PaperTable(
            paper="hong",
            name="Table 5",
            about=f"sum of support distances {about}",
            cells=tuple(cells(printed.HONG_5, distance=True)),
            columns=("our |O|, reached", "(ours, least by LP)"),
        ),
    ]


def _diversity(kept: Histories) -> list[PaperTable]:
    by_delta = [(f"delta={d:g}", _budget(2.0, d)) for d in printed.HONG_6A_DELTAS]
    by_epsilon = [(f"e^epsilon={e:g}", _budget(e, 0.1)) for e in printed.HONG_6B_EXPONENTIALS]
    ours: dict[tuple[bool, float], float] = {}
    best: dict[float, Diverse] = {}
    for B in dict.fromkeys(B for _, B in (*by_delta, *by_epsilon)):
        best[B] = diverse_output(kept, B=B)
        ours[True, B] = int(eliminate(kept, B=B).sum()) / kept.pairs
        ours[False, B] = best[B].size / kept.pairs
    made = [
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
    own = PaperTable(
        paper="hong",
        name="D-UMP, ours",
        about=f"pairs kept of the {kept.pairs:,} of our log, e^epsilon = 2: the paper's SPE, our "
        "heuristic, the most by branch and bound, and the bound of the linear program",
        cells=tuple(c for where, B in by_delta for c in _kept(kept, where, B, best[B])),
        columns=("pairs kept", "at most, LP"),
    )
    return [*made, own]


def _kept(kept: Histories, where: str, B: float, best: Diverse) -> list[Cell]:
    """How many pairs three solvers keep; exactly where that is proved, or can be in a moment."""
    exact = (
        most_diverse_output(kept, B=B, seconds=20) if best.size < best.bound <= PROVABLE else None
    )
    most = best.size if best.size == best.bound else None if exact is None else exact.size
    found = (
        ("SPE", int(eliminate(kept, B=B).sum()), "the paper's heuristic"),
        ("ours", best.size, "as good as proved" if best.size == most else "a heuristic"),
        ("exact", most, "not proved" if most is None else "proved"),
    )
    return [
        Cell(name=f"{solver} {where}", printed=None, recomputed=n, true=best.bound, reason=reason)
        for solver, n, reason in found
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
