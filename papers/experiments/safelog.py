"""Zhang 2017 (SafeLog): ad-hoc search by K, b and q_f, p_g, and four logs for suggestion and session search.

A_Click is run as printed (`safelog-literal`), which has no guarantee; the epsilons are those of the thesis's
Theorem 1. A_Session's sessions and clicks are `sessions` and `threshold` with the thesis's b and K.
"""

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.evaluation.tasks import Tables
from murmurlog.mechanisms.baselines.safelog_literal import TAU
from murmurlog.privacy import turning_point
from papers.experiments.experiment import (
    Chart,
    Claim,
    Experiment,
    LogSpec,
    Measured,
    Row,
    number,
    order,
    trend,
)
from papers.experiments.prepared_log import PreparedLog, Scored, raw
from papers.experiments.runner import Paper
from papers.formulas import click_printed_epsilon

WALK = "nDCG@10, walk, per query"
WALKS = {"RW": "walk", "RW-2": "walk with impact", "IF": "feedback"}
TABLE_3_5 = {  # measure: original, anonymized; random walk
    "nDCG@10": (0.6658, 0.6675),
    "P@5": (0.1484, 0.1486),
    "P@10": (0.0779, 0.0777),
    "MAP": (0.6395, 0.6424),
}
TABLE_3_9 = {  # q_f = c_f: epsilon, IF, RW, RW-2
    1: (0.43, 0.5872, 0.5871, 0.5884),
    2: (0.85, 0.6298, 0.6270, 0.6305),
    4: (1.71, 0.6535, 0.6464, 0.6539),
    6: (2.56, 0.6602, 0.6545, 0.6602),
    8: (3.42, 0.6638, 0.6566, 0.6635),
    10: (4.27, 0.6667, 0.6587, 0.6663),
}
TABLE_4_5 = {  # run: P@5, R@5, evaluated sessions
    "Original": (0.0421, 0.1402, 18_475),
    "KA": (0.0693, 0.2312, 9_494),
    "DP_C": (0.1133, 0.3891, 4_144),
    "DP_S": (0.1139, 0.3911, 4_119),
}
TABLE_4_6 = {  # run: nDCG@10, MAP, evaluated sessions
    "Original": (0.24792, 0.19073, 1_007_170),
    "KA": (0.19740, 0.15363, 782_873),
    "DP_C": (0.21875, 0.17779, 433_375),
    "DP_S": (0.21879, 0.17783, 433_375),
}
COUNT_SCALE = 10  # b_q = b_c: the thesis keeps them constant, and Table 3.8 gives the constant
KS, BS = (10, 50, 100), (1, 10, 50, 100)
LOSS_KS = (10, 20, 30, 50, 100)
CHANCES = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1)
CLICKS = "threshold(noise=geometric, d=4, scale=1, K={K}):tables=[click]"
SESSIONS = "sessions(l_s=1, l_q=3, subsequences=all, noise=geometric, scale=1, K={K})"


def _click(log: PreparedLog, *, q: int = 10, b: float = 10, K: float = 10) -> Tables:
    """A_Click as printed."""
    letters = f"q_f={q}, c_f={q}, b={b:g}, b_q={COUNT_SCALE}, b_c={COUNT_SCALE}, K={K:g}"
    return log.release(f"safelog-literal({letters})", training=True)


def _claimed(*, q: int = 10, b: float = 10, K: float = 10, p_g: float = 1.0) -> float:
    """epsilon by Theorem 1."""
    scales = {"b": b, "b_q": COUNT_SCALE, "b_c": COUNT_SCALE}
    return click_printed_epsilon(q_f=q, c_f=q, K=K, p_g=p_g, **scales)


def _covered(measure: str) -> str:
    return f"{measure} (covered)"


def table_3_5(log: PreparedLog) -> Measured:
    """Retrieval with the original log and with an anonymized one; K = 500, b = 10."""
    scored = {
        "original": log.score("ad-hoc", raw(log.held_out, "click"), label="raw"),
        "anonymized": log.score("ad-hoc", _click(log, K=500), label="K=500"),
    }
    rows = [
        Row(
            name=f"{measure}, random walk, {system}",
            printed=printed[at],
            measured=each.value(_covered(f"{measure}, walk, per query")),
        )
        for measure, printed in TABLE_3_5.items()
        for at, (system, each) in enumerate(scored.items())
    ]
    rows += [
        Row(name=f"coverage, {system}", measured=each.value("coverage"))
        for system, each in scored.items()
    ]
    both = [each.value(_covered(WALK)) for each in scored.values()]
    return Measured(
        rows=rows,
        claims=[
            Claim(
                text="on released queries the anonymized log is as useful as the original",
                holds=None if any(map(math.isnan, both)) else both[1] >= 0.95 * both[0],
                found=f"nDCG@10 {number(both[0])} and {number(both[1])}; the rule is at most 5 % less",
            )
        ],
        notes=(
            "Covered: over queries that the log has clicks for, as in the thesis. The coverage is not.",
        ),
    )


def table_3_9(log: PreparedLog) -> Measured:
    """nDCG@10 and epsilon by q_f = c_f; K = b = 10."""
    rows, lines = list[Row](), dict[str, list[tuple[float, float]]]()
    everything = list[tuple[float, float]]()
    for q, (epsilon, *printed) in TABLE_3_9.items():
        scored = log.score("ad-hoc", _click(log, q=q), label=f"q_f={q}")
        claimed = _claimed(q=q)
        rows.append(Row(name=f"epsilon, q_f = {q}", printed=epsilon, measured=claimed))
        everything.append((q, scored.value(f"{WALK} (all)")))
        for name, value in zip(("IF", "RW", "RW-2"), printed, strict=True):
            found = scored.value(_covered(f"nDCG@10, {WALKS[name]}, per query"))
            lines.setdefault(name, []).append((claimed, found))
            rows.append(Row(name=f"nDCG@10, {name}, q_f = {q}", printed=value, measured=found))
    return Measured(
        rows=rows,
        claims=[
            *(
                trend(f"nDCG@10 rises with epsilon (q_f = 1 to 10; {name})", line, up=True)
                for name, line in lines.items()
            ),
            trend(
                "so does nDCG@10 over all test queries, misses as 0 (random walk)",
                everything,
                up=True,
            ),
        ],
        charts=[
            Chart(title="Fig. 3.7: nDCG@10 by epsilon", x_label="epsilon", series=lines),
            Chart(title="nDCG@10 over all queries", x_label="q_f = c_f", series={"RW": everything}),
        ],
    )


def figure_3_5(log: PreparedLog) -> Measured:
    """nDCG@10 and epsilon by K and b; q_f = c_f = 10."""
    found = {
        (K, b): log.score("ad-hoc", _click(log, K=K, b=b), label=f"K={K} b={b}").value(
            _covered(WALK)
        )
        for K in KS
        for b in BS
    }
    by_b = {K: [(float(b), found[K, b]) for b in BS] for K in KS}
    epsilons = {
        f"K = {K}": [(b, _claimed(b=b, K=K)) for b in (1, 2, 5, 10, 20, 50, 100)] for K in KS
    }
    claims = [
        trend(f"nDCG@10 falls as b grows (K = {K})", line, up=False) for K, line in by_b.items()
    ]
    near, far = (by_b[KS[-1]][at][1] for at in (0, 1))
    claims.append(
        Claim(
            text="utility is less sensitive to b where b is much smaller than K (K = 100, b = 1 and 10)",
            holds=None if math.isnan(near + far) else abs(near - far) <= 0.05 * near,
            found=f"{number(near)} and {number(far)}; the rule is within 5 %",
        )
    )
    claims.append(_turns())
    return Measured(
        rows=[
            Row(name=f"nDCG@10, K = {K}, b = {b}", measured=value)
            for (K, b), value in found.items()
        ],
        claims=claims,
        charts=[
            Chart(
                title="Fig. 3.5: nDCG@10 by b",
                x_label="b",
                series={f"K = {K}": line for K, line in by_b.items()},
                log=True,
            ),
            Chart(title="Fig. 3.6: epsilon by b", x_label="b", series=epsilons, log=True),
        ],
    )


def _turns() -> Claim:
    """Whether epsilon at fixed K has its least value inside, at the turning point of eq. (3.11)."""
    scales = np.geomspace(1, 1000, 400)
    values = [_claimed(b=float(b), K=100.0) for b in scales]
    least = float(scales[int(np.argmin(values))])
    return Claim(
        text="epsilon is not monotone in b: it has a least value, the turning point (K = 100)",
        holds=bool(scales[0] < least < scales[-1]),
        found=f"least at b = {number(least)}, where the turning point's K is {number(turning_point(least))}",
    )


def p_g(log: PreparedLog) -> Measured:
    """The chance that a query is in the pool: what it costs by Theorem 1, and what a pool of others gives."""
    queries = log.held_out.tables["query"]
    clean = queries.filter(pc.greater_equal(queries["rows"], TAU))["query"]
    searches = log.held_out.searches
    assert searches is not None
    inside = pc.is_in(clean, value_set=pc.unique(searches["query"]))
    chance = pc.mean(inside.cast(pa.float64())).as_py() if len(clean) else math.nan
    line = [(p, _claimed(p_g=p)) for p in CHANCES]
    return Measured(
        rows=[
            Row(name="p_g of a pool of the held-out users' queries", measured=chance),
            Row(name="epsilon with p_g = 1, q_f = K = b = 10", printed=4.27, measured=line[0][1]),
            Row(
                name="epsilon with the measured p_g",
                measured=_claimed(p_g=chance) if chance else math.nan,
            ),
        ],
        claims=[
            trend("epsilon grows as p_g falls (Theorem 1)", [(1 - p, e) for p, e in line], up=True),
            Claim(
                text="a large pool of historic queries has a p_g close to 1",
                holds=None if math.isnan(chance) else chance >= 0.9,
                found=f"{number(chance)} of {len(clean):,} queries asked {TAU} times or more; the rule is 0.9",
            ),
        ],
        charts=[Chart(title="epsilon by p_g", x_label="p_g", series={"q_f = K = b = 10": line})],
        notes=(
            "The pool has the queries of one user in five; the log has those of the other four.",
        ),
    )


def _runs(log: PreparedLog) -> dict[str, Tables]:
    """The four logs of Tables 4.5 and 4.6."""
    clicks = CLICKS.format(K=20)
    sessions = SESSIONS.format(K=20)
    dp_c = log.release(clicks, training=True)
    dp_s = log.release(sessions, training=True)
    return {
        # Without pairs and sessions the models walk over clicks alone, as the thesis's do.
        "Original": raw(log.held_out, "query", "click", "session"),
        "KA": {"click": log.release("k-click:21", training=True)["click"]},
        "DP_C": dp_c,
        "DP_S": {**dp_c, **dp_s},
    }


def table_4_5(log: PreparedLog) -> Measured:
    """Query suggestion with four logs."""
    runs = _runs(log)
    scored = {run: log.score("suggestion", tables, label=run) for run, tables in runs.items()}
    rows, values = _run_rows(scored, TABLE_4_5, ("P@5", "R@5"))
    sessions = _evaluated(scored, "P@5")
    return Measured(
        rows=rows,
        claims=[
            order(
                "P@5 on evaluated questions: DP_S is best, then DP_C, KA, Original",
                {run: values[run, "P@5"] for run in ("DP_S", "DP_C", "KA", "Original")},
            ),
            order(
                "evaluated: Original has most, then KA, then DP_C and DP_S",
                {run: sessions[run] for run in ("Original", "KA", "DP_C")},
            ),
        ],
        notes=(_published(runs),),
    )


def table_4_6(log: PreparedLog) -> Measured:
    """Session search with four logs."""
    runs = _runs(log)
    scored = {run: log.score("session-search", tables, label=run) for run, tables in runs.items()}
    rows, values = _run_rows(scored, TABLE_4_6, ("nDCG@10", "MAP@10"))
    sessions = _evaluated(scored, "nDCG@10")
    return Measured(
        rows=rows,
        claims=[
            order(
                "nDCG@10 on evaluated sessions: Original is best, then DP_S, DP_C, KA",
                {run: values[run, "nDCG@10"] for run in ("Original", "DP_S", "DP_C", "KA")},
            ),
            order(
                "evaluated: Original has most, then KA, then DP_C and DP_S",
                {run: sessions[run] for run in ("Original", "KA", "DP_C")},
            ),
        ],
        notes=(_published(runs),),
    )


def _published(runs: Mapping[str, Tables]) -> str:
    counts = {run: tables["click"].num_rows for run, tables in runs.items()}
    clicks = ", ".join(f"{run} {n:,}" for run, n in counts.items())
    return f"Clicks: {clicks}. DP_S has {runs['DP_S']['session'].num_rows:,} sessions."


def _run_rows(
    scored: Mapping[str, Scored],
    printed: Mapping[str, tuple[float, float, int]],
    measures: tuple[str, str],
) -> tuple[list[Row], dict[tuple[str, str], float]]:
    """Measures and evaluated questions of each run; DP_S by its sessions, the others by clicks."""
    rows, values = list[Row](), dict[tuple[str, str], float]()
    for run, each in scored.items():
        for at, measure in enumerate(measures):
            found = _of_run(each, run, measure)
            values[run, measure] = each.value(found)
            rows.append(
                Row(name=f"{measure}, {run}", printed=printed[run][at], measured=each.value(found))
            )
        rows.append(
            Row(
                name=f"evaluated, {run}",
                printed=printed[run][2],
                measured=each.questions(_of_run(each, run, measures[0])),
                sized=True,
            )
        )
    return rows, values


def _of_run(scored: Scored, run: str, measure: str) -> str:
    """The measure that a run is scored by."""
    how = {"DP_S": " with sessions", "Original": " with sessions"}.get(run, "")
    name = _covered(measure + how)
    return name if name in scored else _covered(measure)


def _evaluated(scored: Mapping[str, Scored], measure: str) -> dict[str, float]:
    return {run: each.questions(_of_run(each, run, measure)) for run, each in scored.items()}


def figure_4_2(log: PreparedLog) -> Measured:
    """Click-through tuples and sessions that are left, by K."""
    lines: dict[str, list[tuple[float, float]]] = {"KA": [], "DP_C": [], "DP_S sessions": []}
    for K in LOSS_KS:
        for name, request, table in (
            ("KA", f"k-click:{K + 1}", "click"),
            ("DP_C", CLICKS.format(K=K), "click"),
            ("DP_S sessions", SESSIONS.format(K=K), "session"),
        ):
            tables = log.release(request)
            lines[name].append((K, float(tables[table].num_rows)))
    both = {name: dict(lines[name])[20] for name in ("KA", "DP_C")}
    return Measured(
        rows=[
            Row(name=f"{name}, K = {K}", measured=n)
            for name, line in lines.items()
            for K, n in line
        ],
        claims=[
            *(
                trend(f"the log loses data as K grows ({name})", line, up=False)
                for name, line in lines.items()
            ),
            order("k-anonymity keeps more than differential privacy at the same K (K = 20)", both),
        ],
        charts=[
            Chart(title=f"Fig. 4.2: {name}", x_label="K", series={name: line})
            for name, line in lines.items()
        ],
    )


_HELD = "One user in five is held out; the thesis does not say how its test log is sampled."
_RUNS = (
    f"{_HELD} K = 20, b = 1, one session of three queries, four clicks a user, as in the thesis. A session "
    "counts once a user, and one draw does for selection and count. The thesis's log has 657,426 users."
)

PAPER = Paper(
    name="safelog",
    title="SafeLog (Zhang 2017)",
    spec=LogSpec(like="aol", users=200_000, seed=1, paper_users=657_426),
    experiments=(
        Experiment(
            name="safelog.table-3-5",
            about="retrieval with the original and an anonymized log",
            run=table_3_5,
            setting=_HELD,
        ),
        Experiment(
            name="safelog.figure-3-5",
            about="K and b: utility and epsilon (also Figures 3.6 and 3.8)",
            run=figure_3_5,
            setting=f"{_HELD} q_f = c_f = 10.",
        ),
        Experiment(
            name="safelog.table-3-9",
            about="q_f and c_f: utility and epsilon (also Figure 3.7)",
            run=table_3_9,
            setting=f"{_HELD} K = b = 10.",
        ),
        Experiment(name="safelog.p-g", about="the chance p_g of the query pool", run=p_g),
        Experiment(
            name="safelog.table-4-5",
            about="query suggestion with Original, KA, DP_C and DP_S",
            run=table_4_5,
            setting=_RUNS,
        ),
        Experiment(
            name="safelog.table-4-6",
            about="session search with Original, KA, DP_C and DP_S",
            run=table_4_6,
            setting=_RUNS,
        ),
        Experiment(
            name="safelog.figure-4-2",
            about="clicks and sessions left by K",
            run=figure_4_2,
            setting="b = 1, one session of three queries, four clicks a user.",
        ),
    ),
)
