"""Korolova et al. 2009: what is published by the bound d, lists of queries, and uses of the click graph.

The copy of the paper that we had ends before its experiments. So there are no printed numbers but those of
the parameters, and the effects are those that its abstract and introduction state. "Resemble" is made a rule here.
"""

import math

import numpy as np

from murmurlog.evaluation import count_errors as errors
from murmurlog.evaluation.tasks import Settings, Tables
from murmurlog.evaluation.tasks.statistics import match_tables
from murmurlog.mechanisms import Korolova
from papers import printed_numbers as printed
from papers.experiments.experiment import (
    Chart,
    Claim,
    Experiment,
    LogSpec,
    Measured,
    Row,
    at_least,
    number,
    order,
    trend,
)
from papers.experiments.prepared_log import PreparedLog, Scored
from papers.experiments.runner import Paper

EPSILON, DELTA = math.log(10), 1e-5  # the paper's e^epsilon = 10
D = 20  # of the lists and uses
EXPONENTIALS = (2.0, 5.0, 10.0, 20.0, 50.0)


def volume(log: PreparedLog) -> Measured:
    """Distinct queries and query volume by d, and by epsilon."""
    rows, by_d, published = list[Row](), dict[str, list[tuple[float, float]]](), list[float]()
    for d, _, K in printed.KOROLOVA:
        mechanism = Korolova.solve(epsilon=EPSILON, delta=DELTA, d=d, counts=False)
        distinct, share, kept = _published(log, mechanism)
        rows.append(Row(name=f"K, d = {d}", printed=float(K), measured=float(mechanism.T - 1)))
        rows.append(Row(name=f"queries published, d = {d}", measured=kept))
        by_d.setdefault("distinct queries", []).append((d, distinct))
        by_d.setdefault("query volume", []).append((d, share))
        published.append(kept)
    by_epsilon = [
        (e, _published(log, Korolova.solve(epsilon=math.log(e), delta=DELTA, d=D, counts=False))[2])
        for e in EXPONENTIALS
    ]
    most = max(y for _, y in by_d["query volume"])
    best = int(np.argmax([y for _, y in by_d["query volume"]]))
    return Measured(
        rows=rows,
        claims=[
            at_least(
                "the share of query volume that can be published is non-negligible (at the best d)",
                most,
                0.01,
            ),
            order(
                "a small share of distinct queries has a larger share of the volume",
                {"volume": most, "distinct": by_d["distinct queries"][best][1]},
            ),
            trend(
                f"the more stringent the privacy, the fewer queries: they grow with e^epsilon (d = {D})",
                by_epsilon,
                up=True,
            ),
        ],
        charts=[
            *(
                Chart(
                    title=f"Share of {name} published",
                    x_label="d",
                    series={name: line},
                    percent=True,
                    log=True,
                )
                for name, line in by_d.items()
            ),
            Chart(
                title=f"Queries published, d = {D}",
                x_label="e^epsilon",
                series={"queries": by_epsilon},
                log=True,
            ),
        ],
        notes=(
            "K is the paper's; ours follows from the exact delta and is lower. Keys alone are published here, "
            "with all of epsilon on the selection, as the paper's optimum has it.",
        ),
    )


def _published(log: PreparedLog, mechanism: Korolova) -> tuple[float, float, float]:
    """The share of distinct queries, the share of rows, and the number of queries published."""
    keys = mechanism.release(log.tally("query", mechanism.d), entropy=log.entropy)
    matched = match_tables(keys, log.truth.tables["query"], "query")
    return (
        errors.coverage(matched.published),
        errors.volume(matched.rows, matched.published),
        float(matched.published.sum()),
    )


def top_lists(log: PreparedLog) -> Measured:
    """The most frequent queries, raw and released."""
    return _list(log, "*", claims=False)


def fears(log: PreparedLog) -> Measured:
    """The most common fears, raw and released."""
    return _list(log, "fear of *", claims=True)


def _list(log: PreparedLog, pattern: str, *, claims: bool) -> Measured:
    lines: dict[str, list[tuple[float, float]]] = {"published": [], "among the top 10": []}
    found = dict[int, Scored]()
    for d in (1, 5, D, 80):
        tables = log.release(f"korolova:tables=query,epsilon={EPSILON},delta={DELTA},per-user={d}")
        found[d] = log.score("top-list", tables, settings=Settings(pattern=pattern), label=f"d={d}")
        lines["published"].append((d, found[d].value("top 10 published")))
        lines["among the top 10"].append((d, found[d].value("top 10 among the top 10")))
    best = max(found, key=lambda d: found[d].value("top 10 among the top 10"))
    tau = found[best].value("Kendall tau (covered)")
    any_published = any(each.value("top 10 published") for each in found.values())
    stated = [
        at_least(
            f"fears from the release closely resemble those of the log (top 10, best d = {best})",
            found[best].value("top 10 among the top 10") if any_published else math.nan,
            0.8,
        ),
        at_least("and have nearly the same order (Kendall tau of published ones)", tau, 0.5),
    ]
    return Measured(
        rows=[
            Row(name=f"{measure}, d = {d}", measured=each.value(measure))
            for d, each in found.items()
            for measure in ("top 10 published", "top 10 among the top 10", "Kendall tau (covered)")
        ],
        claims=stated if claims else (),
        charts=[
            Chart(title=f"Top 10 of {pattern!r}", x_label="d", series=lines, percent=True, log=True)
        ],
        notes=()
        if claims
        else ("The copy of the paper that we had says nothing about such a list.",),
    )


def keywords(log: PreparedLog) -> Measured:
    """Keywords for sites: the walk from a url in the released graph and in the original one."""
    return _overlaps(log, "urls", "keywords from the perturbed data resemble those of the original")


def similar_queries(log: PreparedLog) -> Measured:
    """Similar queries: the walk from a query over common urls."""
    return _overlaps(log, "queries", "similar queries can be found by common urls of the release")


def _overlaps(log: PreparedLog, seeds: str, text: str) -> Measured:
    scored = log.score("keyword-generation", _graph(log))
    names = [f"overlap@{k}, {which} {seeds}" for which in ("top", "any") for k in (10, 20)]
    return Measured(
        rows=[
            Row(name=f"{name} ({part})", measured=scored.value(f"{name} ({part})"))
            for name in names
            for part in ("covered", "all")
        ],
        claims=[
            at_least(
                f"{text} (overlap@10, the top {seeds} that the release knows)",
                scored.value(f"overlap@10, top {seeds} (covered)"),
                0.5,
            )
        ],
        notes=(
            "Covered: of seeds for which the release has an answer. All: seeds without one count 0.",
        ),
    )


def _graph(log: PreparedLog) -> Tables:
    return log.release(
        f"korolova:tables=[query,click,pair],epsilon={3 * EPSILON},delta={3 * DELTA},per-user={D}"
    )


def spelling(log: PreparedLog) -> Measured:
    """Corrections of planted misspellings, from reformulations."""
    scored = log.score("spelling", _graph(log))
    right = scored.value("corrected (covered)")  # NaN if the release corrects nothing
    return Measured(
        rows=[
            Row(name=measure, measured=scored.value(measure))
            for measure in ("coverage", "corrected (covered)", "corrected (all)",
                            "precision of all corrections")
        ],
        claims=[
            Claim(
                text="spelling corrections can be inferred from the released graph",
                holds=None if math.isnan(right) else right > 0,
                found=f"{number(right)} of the corrections of planted misspellings are right; the rule is more than none",
            )
        ],
    )  # fmt: skip


_SAME = f"e^epsilon is 10 and delta 1e-5 for each table, d = {D}"
_CLICKS = (
    f"{_SAME}. Clicks and pairs have a threshold of their own: the paper takes the urls from public result "
    "lists, which a generated log has not."
)

PAPER = Paper(
    name="korolova",
    title="Korolova et al. 2009",
    spec=LogSpec(like="aol", users=200_000, seed=1, paper_users=None),
    experiments=(
        Experiment(
            name="korolova.volume",
            about="published queries and volume by d",
            run=volume,
            setting="e^epsilon is 10, delta 1e-5. Users are counted, not repeats.",
        ),
        Experiment(
            name="korolova.top-lists",
            about="the most frequent queries in the release",
            run=top_lists,
            setting="e^epsilon is 10, delta 1e-5; half of epsilon is for the counts.",
        ),
        Experiment(
            name="korolova.keywords",
            about="keyword generation from the released graph",
            run=keywords,
            setting=_CLICKS,
        ),
        Experiment(
            name="korolova.fears",
            about="the study of fears",
            run=fears,
            setting="e^epsilon is 10, delta 1e-5; half of epsilon is for the counts.",
        ),
        Experiment(
            name="korolova.spelling",
            about="spelling corrections from the released graph",
            run=spelling,
            setting=_CLICKS,
        ),
        Experiment(
            name="korolova.similar-queries",
            about="similar queries from the released graph",
            run=similar_queries,
            setting=_CLICKS,
        ),
    ),
)
