"""Götz et al. 2012, ZEALOUS: index caching (Figure 6) and query substitution (Figures 7 and 8)."""

import hashlib
import math
from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from murmurlog.evaluation.tasks import Settings
from papers.experiments.experiment import (
    Chart,
    Claim,
    Measured,
    Points,
    Row,
    number,
    order,
)
from papers.experiments.prepared_log import PreparedLog, Scored, raw
from papers.experiments.zealous_statistics import (
    EPSILON,
    NOTIONS,
    publish,
    similar,
)

FEW_EPSILONS, FEW_KS = (1.0, 2.0, 5.0, 10.0), (10, 60, 100)
CACHED_M = (1, 2, 6, 10, 20, 40)
HIT = "hit probability, 1 GB, lengths by --doc-freq (all)"


def figure_6(log: PreparedLog) -> Measured:
    """Index caching: hit probabilities by epsilon, by k and by m."""
    settings = Settings(doc_freq=document_frequencies(log.truth.tables["keyword"]["keyword"]))
    score = partial(log.score, "index-caching", settings=settings)
    original = score(raw(log.held_out, "keyword"), label="raw").value(HIT)

    def hit(m: int, epsilon: float, notion: str = "pdp") -> float:
        words = publish(log, "keyword", m, epsilon=epsilon, notion=notion, training=True)
        return score({"keyword": words}, label=f"zealous m={m} epsilon={epsilon:g}").value(HIT)

    by_epsilon = {n: [(e, hit(6, e, n)) for e in FEW_EPSILONS] for n in NOTIONS}
    by_k = [
        (k, score(log.release(f"k-query:{k},tables=keyword", training=True)).value(HIT))
        for k in FEW_KS
    ]
    by_m = [(m, hit(m, EPSILON)) for m in CACHED_M]
    of_m = dict(by_m)
    spread = [y for _, y in by_epsilon["pdp"]]
    return Measured(
        rows=[
            Row(name="hit probability, m = 6 (above 0.36)", printed=0.36, measured=of_m[6]),
            Row(name="hit probability, m = 1 (less than 0.33)", printed=0.33, measured=of_m[1]),
            Row(name="hit probability of the log itself", measured=original),
        ],
        claims=[
            order(
                "ZEALOUS with m = 6 is better than k-query for a range of parameters",
                {
                    "zealous, epsilon 5": dict(by_epsilon["pdp"])[5.0],
                    "k-query, k = 60": dict(by_k)[60],
                },
            ),
            similar("utility suffers only marginally when epsilon falls", max(spread), min(spread)),
            order("m = 6 is better than m = 1", {"m = 6": of_m[6], "m = 1": of_m[1]}),
            order(
                "the hit probability decreases again at some larger m",
                {"largest of m <= 20": max(y for m, y in by_m if m <= 20), "m = 40": of_m[40]},
            ),
        ],
        charts=[
            Chart(
                title="Fig. 6a: hit probability by epsilon, m = 6",
                x_label="epsilon",
                series=by_epsilon,
                percent=True,
            ),
            Chart(
                title="Fig. 6a: hit probability by k",
                x_label="k",
                series={"k-query": by_k},
                percent=True,
            ),
            Chart(
                title="Fig. 6b: hit probability by m, epsilon 5",
                x_label="m",
                series={"pdp": by_m},
                percent=True,
                log=True,
            ),
        ],
        notes=(
            f"Memory is 1 GB, a posting 8 bytes, a list at most 200,000 documents. {DOCUMENTS}",
        ),
    )


DOCUMENTS = (
    "The documents that hold a word are generated from the word alone: half a decade fewer for each letter, and a "
    "factor between 0.1 and 10 by a hash of the word. So short words have long lists, and a frequent word need "
    "not be worth its memory."
)


def document_frequencies(words: Iterable[pa.Scalar]) -> dict[str, int]:
    """How many documents of a generated corpus hold each word."""
    return {word: _documents(word) for word in map(str, words)}


def _documents(word: str) -> int:
    part = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) / 2**32
    return max(1, round(10 ** (8 - 0.5 * len(word) + 2 * part - 1)))


def figures_7_8(log: PreparedLog) -> Measured:
    """Query substitution: precision and coverage by epsilon, by k and by m."""
    found: dict[tuple[int, float], Scored] = {}
    for m in (1, 6):
        for epsilon in FEW_EPSILONS:
            tables = {kind: publish(log, kind, m, epsilon=epsilon) for kind in ("query", "pair")}
            found[m, epsilon] = log.score(
                "substitution", tables, label=f"zealous m={m} epsilon={epsilon:g}"
            )
    anonymous = {
        k: log.score("substitution", log.release(f"k-query:{k},tables=[query,pair]"))
        for k in FEW_KS
    }

    def line(m: int, measure: str) -> Points:
        return [(e, found[m, e].value(measure)) for e in FEW_EPSILONS]

    claims, charts = list[Claim](), list[Chart]()
    for measure in ("P@2 (covered)", "P@5 (covered)", "nDCG@5 (covered)"):
        values = [y for _, y in line(1, measure) if not math.isnan(y)]
        others = [y for each in anonymous.values() if not math.isnan(y := each.value(measure))]
        claims.append(_hardly(f"epsilon has hardly any influence on {measure}", values))
        claims.append(_hardly(f"{measure}: comparable with k-query", _ends(values, others)))
        charts.append(
            Chart(
                title=f"Fig. 7, {measure}, m = 1",
                x_label="epsilon",
                series={"zealous": line(1, measure)},
            )
        )
    one, six = (dict(line(m, "coverage")) for m in (1, 6))
    claims.append(
        order(
            "the coverage of ZEALOUS is not good: below that of k-query",
            {
                "k-query, k = 10": anonymous[10].value("coverage"),
                "zealous, epsilon 5": one[5.0],
            },
        )
    )
    claims += [
        order(
            f"larger m leads to smaller coverage (epsilon {epsilon:g})",
            {"m = 1": one[epsilon], "m = 6": six[epsilon]},
        )
        for epsilon in FEW_EPSILONS
    ]
    charts.append(
        Chart(
            title="Fig. 8: coverage of substitutions",
            x_label="epsilon",
            series={f"m = {m}": line(m, "coverage") for m in (1, 6)},
        )
    )
    rows = [
        Row(name=f"coverage, k-query:{k}", measured=each.value("coverage"))
        for k, each in anonymous.items()
    ]
    rows += [
        Row(name=f"coverage, m = {m}, epsilon {epsilon:g}", measured=each.value("coverage"))
        for (m, epsilon), each in found.items()
    ]
    return Measured(rows=rows, claims=claims, charts=charts)


def _ends(ours: list[float], theirs: list[float]) -> list[float]:
    """The means of two systems, if both have any."""
    return [sum(each) / len(each) for each in (ours, theirs)] if ours and theirs else []


def _hardly(text: str, values: list[float]) -> Claim:
    """Whether values lie within 0.1."""
    if len(values) < 2:
        return Claim(text=text, holds=None, found="fewer than two systems have an answer")
    low, high = min(values), max(values)
    return Claim(
        text=text,
        holds=high - low <= 0.1,
        found=f"{number(low)} to {number(high)}; the rule is within 0.1",
    )
