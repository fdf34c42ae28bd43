"""Götz et al. 2012, ZEALOUS: Table 3 and Figures 2 to 5.

As in the paper neighbours replace a user, delta is 0.001, and every table has all of epsilon. The paper does
not say the epsilon of Table 3 and of Figures 2 and 3; it is 5 here, that of its Section 7.
"""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from murmurlog.evaluation import count_errors as errors
from murmurlog.evaluation.tasks.statistics import MatchedTable, match_tables
from murmurlog.mechanisms import Zealous
from papers.experiments.experiment import (
    Chart,
    Claim,
    Measured,
    Points,
    Row,
    number,
    order,
    trend,
)
from papers.experiments.prepared_log import PreparedLog

EPSILON, DELTA = 5.0, 1e-3
KINDS = ("keyword", "query", "click", "pair")
NOTIONS = ("pdp", "dp")
M = (1, 4, 8, 20, 40)
FEW = 10  # published items below which a table says nothing about effects
TABLE_3A = {  # distinct items by m
    "keyword": (6667, 6043, 5372, 4062, 2964),
    "query": (3334, 2087, 1440, 751, 408),
    "click": (2813, 1576, 1001, 486, 246),
    "pair": (331, 169, 100, 40, 13),
}
TABLE_3B = {  # total counts in thousands
    "keyword": (329, 1157, 1894, 3106, 3871),
    "query": (147, 314, 402, 464, 439),
    "click": (118, 234, 286, 317, 290),
    "pair": (8, 14, 15, 12, 7),
}
FIGURE_M = (1, 2, 4, 8, 10, 20, 40)
TOP = (10, 100, 1_000, 10_000)
EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
KS = (10, 30, 60, 100)


def solve(
    log: PreparedLog, m: int, *, epsilon: float = EPSILON, notion: str = "pdp", users: int = 0
) -> Zealous:
    """The mechanism as in the paper; PDP takes the number of users of the log."""
    known = (users or log.spec.users) if notion == "pdp" else None
    return Zealous.solve(epsilon=epsilon, delta=DELTA, d=m, users=known, neighbours="replace")


def publish(
    log: PreparedLog,
    kind: str,
    m: int,
    *,
    epsilon: float = EPSILON,
    notion: str = "pdp",
    training: bool = False,
) -> pa.Table:
    """One table by ZEALOUS."""
    mechanism = solve(log, m, epsilon=epsilon, notion=notion)
    return mechanism.release(log.tally(kind, m, training=training), entropy=log.entropy)


def table_3(log: PreparedLog) -> Measured:
    """Distinct items and total counts by the number of contributions."""
    rows, distinct, total = list[Row](), dict[str, Points](), dict[str, Points]()
    for kind in KINDS:
        tables = [publish(log, kind, m) for m in M]
        distinct[kind] = [(m, table.num_rows) for m, table in zip(M, tables, strict=True)]
        total[kind] = [
            (m, float(np.maximum(table["users"].to_numpy(), 0).sum()) / 1000)
            for m, table in zip(M, tables, strict=True)
        ]
        for name, printed, found in (
            ("distinct", TABLE_3A[kind], distinct[kind]),
            ("total, thousands", TABLE_3B[kind], total[kind]),
        ):
            rows += [
                Row(name=f"{kind} {name}, m={m}", printed=p, measured=value, sized=True)
                for p, (m, value) in zip(printed, found, strict=True)
            ]
    return Measured(
        rows=rows,
        claims=table_3_claims(distinct, total),
        charts=[
            Chart(title="Distinct items published", x_label="m", series=distinct, log=True),
            Chart(title="Total counts, thousands", x_label="m", series=total, log=True),
        ],
    )


def table_3_claims(distinct: Mapping[str, Points], total: Mapping[str, Points]) -> list[Claim]:
    """What the paper reads from its Table 3."""
    lost = {kind: _lost(distinct[kind]) for kind in ("pair", "keyword")}
    return [
        *(
            trend(f"distinct {kind} items fall as m grows", distinct[kind], up=False, least=FEW)
            for kind in KINDS
        ),
        order(
            "query pairs lose a larger part than keywords (96 % and 55 % from m = 1 to 40)", lost
        ),
        *(_tips(kind, total[kind], distinct[kind]) for kind in ("query", "click", "pair")),
    ]


def _lost(points: Points) -> float:
    """The part of the first value that is gone at the last; NaN of few items."""
    first, last = points[0][1], points[-1][1]
    return 1 - last / first if first >= FEW else math.nan


def _tips(kind: str, points: Points, distinct: Points) -> Claim:
    values = [y for _, y in points]
    peak = points[int(np.argmax(values))][0]
    few = max(y for _, y in distinct) < FEW
    return Claim(
        text=f"the total count of {kind} items rises with m up to a tipping point, then falls",
        holds=None if few else points[0][0] < peak < points[-1][0],
        found=f"largest at m = {peak:g}: " + ", ".join(number(y) for y in values),
    )


def figures_2_3(log: PreparedLog) -> Measured:
    """Coverage and precision of the most frequent items, by m and by j, under both notions."""
    claims, charts = list[Claim](), list[Chart]()
    for kind in KINDS:
        for notion, found in _top_j(log, kind).items():
            claims += top_claims(found, kind, notion)
            charts += _top_charts(found, kind, notion)
    return Measured(claims=claims, charts=charts)


Top = Mapping[tuple[str, int, int], float]  # by measure, m and j


def _top_j(log: PreparedLog, kind: str) -> dict[str, Top]:
    exact = log.truth.tables[kind]
    found: dict[str, dict[tuple[str, int, int], float]] = {notion: {} for notion in NOTIONS}
    for m, notion in itertools.product(FIGURE_M, NOTIONS):
        matched = match_tables(publish(log, kind, m, notion=notion), exact, kind)
        for j in [j for j in TOP if j <= exact.num_rows]:
            first = errors.top(matched.true, j)
            both = errors.shares(matched.true[first], matched.counts[first])
            found[notion]["coverage", m, j] = errors.coverage(matched.published[first])
            found[notion]["L1", m, j] = errors.average_l1(both)
            found[notion]["KL", m, j] = errors.divergence(both)
    return dict(found)


def top_claims(found: Top, kind: str, notion: str) -> list[Claim]:
    """What the paper reads from its Figures 2 and 3."""
    lengths = sorted({j for _, _, j in found})
    long, short = lengths[-1], lengths[0]
    where = f"{kind}, {notion}"
    by_m = [(m, found["coverage", m, long]) for m in FIGURE_M]
    by_j = [(j, found["coverage", FIGURE_M[0], j]) for j in lengths]
    best = {j: min(FIGURE_M, key=lambda m, j=j: found["KL", m, j]) for j in (short, long)}  # type: ignore[misc]
    published = max(found["coverage", m, long] for m in FIGURE_M) * long >= FEW
    return [
        trend(
            f"coverage of the top {long:,} falls as m grows ({where})",
            by_m,
            up=False,
            least=FEW / long,
        ),
        trend(f"coverage falls as j grows ({where}, m = 1)", by_j, up=False),
        Claim(
            text=f"for few top items some m > 1 is more precise than m = 1 ({where}, j = {short})",
            holds=best[short] > 1 if published else None,
            found=f"least KL at m = {best[short]}",
        ),
        Claim(
            text=f"for many top items m = 1 is the most precise ({where}, j = {long:,})",
            holds=best[long] == 1 if published else None,
            found=f"least KL at m = {best[long]}",
        ),
    ]


def _top_charts(found: Top, kind: str, notion: str) -> list[Chart]:
    lengths = sorted({j for _, _, j in found})
    names = (("coverage", "coverage"), ("L1", "average L1 distance"), ("KL", "KL divergence"))
    charts = [
        Chart(
            title=f"Fig. 2, {kind}, {notion}: {words} of the top j",
            x_label="m",
            series={f"j = {j:,}": [(m, found[name, m, j]) for m in FIGURE_M] for j in lengths},
            percent=name == "coverage",
            log=True,
        )
        for name, words in names
    ]
    charts.append(
        Chart(
            title=f"Fig. 3, {kind}, {notion}: KL divergence of the top j",
            x_label="j",
            series={f"m = {m}": [(j, found["KL", m, j]) for j in lengths] for m in FIGURE_M},
            log=True,
        )
    )
    return charts


def figure_4(log: PreparedLog) -> Measured:
    """The distribution of counts at epsilon 5 and m = 1."""
    rows, claims, charts = list[Row](), list[Claim](), list[Chart]()
    rows.append(
        Row(name="tau' at epsilon 5, m = 1", printed=10, measured=solve(log, 1).T, sized=True)
    )  # T: published if at least T, so the paper's tau' is about T
    once = {}
    for kind in KINDS:
        true = log.truth.tables[kind]["users"].to_numpy().astype(np.float64)
        starts = errors.doublings(float(true.max()))
        once[kind] = int((true == 1).sum())
        series = {"log": _binned(true, starts)}
        for notion in NOTIONS:
            counts = publish(log, kind, 1, notion=notion)["users"].to_numpy().astype(np.float64)
            series[f"zealous, {notion}"] = _binned(counts, starts)
            claims += _shape_claims(kind, notion, true, counts, starts)
        charts.append(
            Chart(
                title=f"Fig. 4, {kind}: items by their count (powers of two)",
                x_label="count",
                series={
                    name: [(x, math.log10(y)) for x, y in line if y]
                    for name, line in series.items()
                },
                log=True,
            )
        )
    rows.append(
        Row(
            name="clicks with count 1 for each keyword with count 1 (an order of magnitude)",
            printed=10,
            measured=once["click"] / once["keyword"] if once["keyword"] else math.nan,
        )
    )
    claims.append(
        order("more clicks than keywords have a count of 1", _some(once, "click", "keyword"))
    )
    return Measured(
        rows=rows,
        claims=claims,
        charts=charts,
        notes=("The charts show log10 of the number of items.",),
    )


def _some(values: Mapping[str, float], *names: str) -> dict[str, float]:
    return {name: values[name] for name in names}


def _binned(counts: np.ndarray, starts: np.ndarray) -> Points:
    numbers = errors.count_distribution(counts, starts)[1:]
    return [(float(start), float(n)) for start, n in zip(starts, numbers, strict=True)]


def _shape_claims(
    kind: str, notion: str, true: np.ndarray, counts: np.ndarray, starts: np.ndarray
) -> list[Claim]:
    """The slope of the distribution on both logarithmic axes, over bins above the threshold."""
    least = float(counts.min()) if len(counts) else math.inf
    slopes = [
        _slope([(x, n) for x, n in _binned(of, starts) if x >= least]) for of in (true, counts)
    ]
    text = f"the power-law shape of {kind} counts is preserved ({notion})"
    found = f"slope {number(slopes[0])} in the log, {number(slopes[1])} published; the rule is within a quarter"
    close = None if any(map(math.isnan, slopes)) else abs(slopes[1] / slopes[0] - 1) <= 0.25
    return [
        Claim(text=text, holds=close, found=found),
        order(
            f"the total frequency of {kind} items is lower than in the log ({notion})",
            {"log": float(true.sum()), "published": float(counts.sum())},
        ),
    ]


def _slope(points: Points) -> float:
    """The slope of the bins with at least 5 items; NaN of fewer than three bins."""
    x, n = np.array([point for point in points if point[1] >= 5]).reshape(-1, 2).T
    return float(np.polyfit(np.log(x), np.log(n), 1)[0]) if len(x) >= 3 else math.nan


def figure_5(log: PreparedLog) -> Measured:
    """The average difference of counts by epsilon and by k; m = 1."""
    kinds = ("keyword", "query", "pair")
    zealous = {
        (notion, kind): [
            (epsilon, _difference(log, kind, publish(log, kind, 1, epsilon=epsilon, notion=notion)))
            for epsilon in EPSILONS
        ]
        for notion in NOTIONS
        for kind in (*kinds, "click")
    }
    anonymous: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for k in KS:
        tables = log.release(f"k-query:{k}")
        for kind in kinds:
            anonymous[kind].append((k, _difference(log, kind, tables[kind])))
    charts = [
        Chart(
            title=f"Fig. 5, {kind}: average difference by epsilon",
            x_label="epsilon",
            series={notion: zealous[notion, kind] for notion in NOTIONS},
        )
        for kind in (*kinds, "click")
    ]
    charts.append(
        Chart(title="Fig. 5: average difference by k (k-query)", x_label="k", series=anonymous)
    )
    return Measured(claims=figure_5_claims(zealous, anonymous), charts=charts)


def figure_5_claims(
    zealous: Mapping[tuple[str, str], Points], anonymous: Mapping[str, Points]
) -> list[Claim]:
    """What the paper reads from its Figure 5; `zealous` by notion and table."""
    words, queries, pairs = (dict(zealous["pdp", kind]) for kind in ("keyword", "query", "pair"))
    return [
        *(
            trend(f"the difference falls as epsilon grows ({kind}, {notion})", line, up=False)
            for (notion, kind), line in zealous.items()
        ),
        *(
            trend(f"the difference grows with k ({kind}, k-query)", line, up=True)
            for kind, line in anonymous.items()
        ),
        order(
            "keywords: ZEALOUS is more accurate than k-query for all epsilon > 2 (and every k)",
            {
                "least of k-query": min(y for _, y in anonymous["keyword"]),
                "most of zealous": max(y for x, y in words.items() if x > 2),
            },
        ),
        similar(
            "queries: about the same difference at k = 60 and epsilon = 6",
            dict(anonymous["query"])[60],
            queries[6.0],
        ),
        order(
            "query pairs: k-query is better (k = 10 and epsilon = 5, where the thresholds are alike)",
            {"zealous": pairs[5.0], "k-query": dict(anonymous["pair"])[10]},
        ),
    ]


def _difference(log: PreparedLog, kind: str, table: pa.Table) -> float:
    matched: MatchedTable = match_tables(table, log.truth.tables[kind], kind)
    return errors.scaled_differences(matched.true, matched.counts, matched.false)[0]


def similar(text: str, a: float, b: float, part: float = 0.25) -> Claim:
    """Whether two values differ by at most this part of the larger one."""
    return Claim(
        text=text,
        holds=abs(a - b) <= part * max(a, b),
        found=f"{number(a)} and {number(b)}; the rule is within {part:.0%}",
    )
