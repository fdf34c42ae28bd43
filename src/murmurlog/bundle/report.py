"""report.html of a bundle: the published data, its uncertainty and its guarantee, for readers.

A function of the certificate and the published tables alone, so it costs no privacy and `verify`
can reproduce it byte by byte. Never sees a log.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.bundle.cards import NO_GUARANTEE, NOT_PRIVATE, counts_note, limits
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.estimates import Floats, published_intervals
from murmurlog.bundle.facts import facts as stated_facts
from murmurlog.bundle.label import (
    FREE,
    PLAIN,
    bound_of,
    counts_rows,
    label,
    merge_sentences,
    needs,
)
from murmurlog.bundle.schema import AT_LEAST, COUNTED, IN_LOG, count_of, keys_of
from murmurlog.charts import charts, html
from murmurlog.privacy import Guarantee

TOP = 20  # rows shown of each table
MARKS = 60  # points in each chart, at distinguishable ranks
LEAD = "What many had in common in a search log. The label says who is protected, and how well."
HEADING = "Few items are held by many"
COMPARISON = "Parts of a search log, made for comparison."
# The name of a table's rows, singular and plural.
ITEMS = {
    "keyword": ("word", "words"),
    "query": ("query", "queries"),
    "pair": ("pair of queries", "pairs of queries"),
    "click": ("pair of query and url", "pairs of query and url"),
    "session": ("sequence of queries", "sequences of queries"),
    "itemset": ("set of queries", "sets of queries"),
    "log": ("row", "rows"),
    "left_out": ("search", "searches"),
}


def make_report(
    certificate: Certificate,
    tables: Mapping[str, pa.Table],
    sha256: Mapping[str, str] | None = None,
) -> str:
    """The page. `tables` are the published ones, in their order on disk; with checksums, facts too."""
    views = [view_of(certificate, name, tables[name]) for name in certificate.tables]
    drawn, one = pictures(certificate, views), len(certificate.tables) == 1
    beside = [html.facts(facts(certificate, views)), waterfall(certificate)]
    if one and drawn:
        beside.append(html.captioned(drawn[0], caption(views)))
    parts = [*warnings(certificate), html.columns(label(certificate), "".join(beside))]
    if drawn and not one:
        parts.append(html.section(HEADING, html.figures(drawn), note=caption(views)))
    parts += [_rows(certificate, views), bounds(certificate), assumptions(certificate)]
    nothing = certificate.guarantee.notion == "none"
    return html.printed(
        title=certificate.title,
        kicker=kicker(certificate),
        lead=certificate.about.get("description", COMPARISON if nothing else LEAD),
        parts=parts,
        foot=f"Release {certificate.release_id}, {certificate.published}, murmurlog "
        f"{certificate.murmurlog}. This page was made from privacy.json and the tables in data/, and "
        "from nothing else. Check both: murmurlog verify .",
        marks={"murmurlog-report": "released"}
        | {
            f"murmurlog-{name}": json.dumps(stated, ensure_ascii=False)
            for name, stated in (sha256 and stated_facts(certificate, sha256) or {}).items()
        },
    )


def kicker(certificate: Certificate) -> str:
    """The line above the title: the kind of release."""
    if certificate.guarantee.notion == "none":
        return "A search log without a privacy guarantee"
    return "A private release of a search log" if certificate.private else "A demonstration"


@dataclass(frozen=True, kw_only=True)
class View:
    """A table for display: the first rows as texts, and all counts with their intervals."""

    name: str
    keys: tuple[str, ...]
    top: list[dict[str, Any]]
    counted: str  # what the counts are of
    meaning: str | None  # what they are about: users in the log, or at least so many
    counts: Floats | None  # falling
    intervals: tuple[Floats, Floats] | None  # their lower and upper ends
    reliable: np.ndarray[Any, np.dtype[np.bool_]] | None


def view_of(certificate: Certificate, name: str, table: pa.Table) -> View:
    """The view of a published table."""
    keys, counted = keys_of(name, certificate.by), f"{certificate.guarantee.unit}s"
    if name == "log":
        # A row is one action of one synthetic user; the view sums over users.
        keys, counted = ("query", "url"), "times"
        table = (
            table.group_by(list(keys))
            .aggregate([("count", "sum")])
            .sort_by([("count_sum", "descending"), *((key, "ascending") for key in keys)])
            .rename_columns([*keys, "users"])
        )
    count = count_of(table)
    top = [
        {key: _shown(row[key]) for key in keys} | {c: row[c] for c in row if c not in keys}
        for row in table.slice(0, TOP).to_pylist()
    ]
    if count is None:
        return View(
            name=name, keys=keys, top=top, counted="", meaning=None, counts=None, intervals=None,
            reliable=None,
        )  # fmt: skip
    intervals, meaning = None, None
    if name != "log":
        intervals = published_intervals(name, table, certificate.tables[name])
        meaning = certificate.tables[name].meaning
    return View(
        meaning=meaning,
        name=name,
        keys=keys,
        top=top,
        counted=counted if count == "users" else count,
        counts=table[count].to_numpy().astype(np.float64),
        intervals=intervals,
        reliable=table["reliable"].to_numpy(zero_copy_only=False).astype(bool)
        if intervals
        else None,
    )


def _shown(value: Any) -> str:
    """A key as one text."""
    return "  →  ".join(value) if isinstance(value, list) else str(value)


# --- the parts ------------------------------------------------------------------------------------


def warnings(certificate: Certificate) -> list[str]:
    """Warnings at the top of the page, if any."""
    if certificate.guarantee.notion == "none":
        return [html.banner(NO_GUARANTEE)]
    return [] if certificate.private else [html.banner(NOT_PRIVATE)]


def pictures(certificate: Certificate, views: Sequence[View]) -> list[str]:
    """Counts over rank, a chart for each table, all on the same axes."""
    drawn = [v for v in views if v.counts is not None and len(v.counts) and v.name != "left_out"]
    if not drawn:
        return []
    last = max(len(v.counts) for v in drawn if v.counts is not None)
    most = max(float(v.counts[0]) for v in drawn if v.counts is not None)
    found = []
    for ink, view in enumerate(drawn):
        claim = certificate.tables[view.name]
        needed = claim.passes.get("0.5") if view.intervals else None
        word = "threshold" if claim.guarantee.notion == "none" else "even odds to be published"
        what = "pairs of query and url" if view.name == "log" else ITEMS[view.name][1]
        assert view.counts is not None
        found.append(
            charts.ranks(
                _marks(view),
                title=f"{view.name}: {len(view.counts):,} {what}",
                x_label=f"rank (most {view.counted} first)",
                ink=ink,
                within=(last, most),
                rule=(needed, word) if needed else None,
            )
        )
    return found


def caption(views: Sequence[View]) -> str:
    """The caption of the charts."""
    if all(view.intervals is None for view in views):
        return (
            "Each point is a row, its height the count; of the many on the right a few are drawn."
        )
    certain = "with its 95 % interval"
    if all(view.meaning == AT_LEAST for view in views if view.intervals):
        certain = "with the least number in the log, 95 % sure"
    return (
        f"Each point is a published row, its height the published count, {certain}; of the many rows on "
        "the right a few are drawn. Grey ones are unreliable: their standard error is more than a quarter "
        "of the count. What is rarer is missing by design."
    )


def _marks(view: View) -> list[charts.Mark]:
    """Points at ranks that are about equally spaced on a logarithmic axis."""
    assert view.counts is not None
    size = len(view.counts)
    places = sorted({min(size, round(size ** (n / MARKS))) for n in range(MARKS + 1)})
    marks = []
    for rank in places:
        count = float(view.counts[rank - 1])
        low, high = None, None
        if view.intervals is not None:
            low, high = (float(ends[rank - 1]) for ends in view.intervals)
            high = count if math.isinf(high) else high  # only the lower end is known
        marks.append(
            charts.Mark(
                rank=rank,
                count=count,
                shown=view.reliable is None or bool(view.reliable[rank - 1]),
                low=low,
                high=high,
            )
        )
    return marks


def _rows(certificate: Certificate, views: Sequence[View]) -> str:
    """The first rows of each table with their uncertainty."""
    parts = []
    for view in views:
        rows = certificate.tables[view.name].rows
        if not rows:
            continue
        head, numbers = list(view.keys), list[int]()
        if view.counts is not None:
            head += _heads(view) if view.intervals else [view.counted]
            numbers = [len(view.keys), len(view.keys) + 1]
        cells, dim = list[list[str]](), list[int]()
        for place, row in enumerate(view.top):
            line = [row[key] for key in view.keys]
            count = next((c for c in COUNTED if c in row), None)
            if count is not None:
                line.append(f"{row[count]:,}")
            if count is not None and view.intervals is not None:
                unsure = "" if row["reliable"] else " *"
                low, high = (float(ends[place]) for ends in view.intervals)
                text = f"{low:,.0f} to {high:,.0f}"
                if math.isinf(high):
                    text = f"at least {low:,.0f}"
                line.append(text + unsure)
                dim += [place] if unsure else []
            cells.append(line)
        shown = (
            f"{view.name}: the first {len(cells)} of {rows:,}" if rows > len(cells) else view.name
        )
        if view.name == "log":
            shown = "log: what its invented users did most"
        table = html.grid(head, cells, numbers=numbers, dim=dim)
        parts.append((html.heading(shown) + table, len(view.keys) > 1))
    note = ""
    if any(view.intervals for view in views):
        note = "Grey rows with an asterisk are unreliable."
        if any(view.intervals and view.meaning is None for view in views):
            note = (
                "The 95 % interval covers the noise and the selection, not what bounding took away. "
                + note
            )
        if certificate.guarantee.notion != "none":
            note = f"{counts_note(certificate)} {note}"
    if not parts:
        return html.section("First rows of each table", note="Nothing passed the thresholds.")
    return html.section("First rows of each table", html.tables(parts), note=note)


def _heads(view: View) -> list[str]:
    """The heads of the columns of a count and its uncertainty."""
    if view.meaning == AT_LEAST:
        return [f"{view.counted} counted", "in the log, 95 % sure"]
    counted = f"{view.counted} in the log" if view.meaning == IN_LOG else view.counted
    return [counted, "95 % interval"]


def facts(certificate: Certificate, views: Sequence[View]) -> list[tuple[str, str, str]]:
    """The size of each table."""
    found = []
    for view in views:
        rows = certificate.tables[view.name].rows
        if view.reliable is not None and rows:
            small = f"{int(view.reliable.sum()):,} of them with a reliable count"
        else:
            small = "" if rows else "nothing passed the threshold"
        found.append((f"{rows:,}", ITEMS[view.name][rows != 1], small))
    return found


def waterfall(certificate: Certificate) -> str:
    """A chart of the cost of each table, their sum and the stated total."""
    g = certificate.guarantee
    if g.notion == "none" or len(certificate.tables) == 1:
        return ""
    together = certificate.composition != "sum of the tables"
    chart = charts.waterfall(
        [(name, claim.guarantee.epsilon) for name, claim in certificate.tables.items()],
        title=f"What each table costs: epsilon per {g.unit}",
        total=("in one account" if together else "stated", g.epsilon),
    )
    words = (
        "All noise in one account is what the guarantee states; the sum is a coarser bound on the "
        "same loss."
        if together
        else "The costs of the tables add up."
    )
    return html.captioned(chart, words)


def bounds(certificate: Certificate) -> str:
    """The bounds, thresholds and mechanisms of all tables."""
    unit, claims = certificate.guarantee.unit, certificate.tables.items()
    texts = merge_sentences(
        {
            name: f"{bound_of(claim, unit)}. {' '.join(needs(claim, unit)[1:])}".rstrip(" .")
            for name, claim in claims
        }
    )
    kept = {
        "first": "The bound keeps a unit's first items by time.",
        "random": "The bound keeps items of a unit that were drawn by lot.",
    }.get(certificate.bound, "")
    notes = [kept] if any(claim.parameters.get("per_user") for _, claim in claims) else []
    if all(needs(claim, unit)[0] != FREE and not counts_rows(claim) for _, claim in claims):
        notes.append(f"What few {unit}s have in common does not pass.")
    cells = [[name, claim.mechanism, *_costs(claim.guarantee)] for name, claim in claims]
    cells.append(["all", certificate.composition, *_costs(certificate.guarantee)])
    table = html.grid(["table", "mechanism", "epsilon", "delta"], cells, numbers=(2, 3), wide=(1,))
    return html.section(
        "What bounds and thresholds keep",
        html.listed(texts),
        html.folded("The mechanisms, as verify reads them", table),
        note=" ".join(notes),
    )


def _costs(guarantee: Guarantee) -> tuple[str, str]:
    if guarantee.notion == "none":
        return "none", "none"
    return html.up(guarantee.epsilon, 6), html.up(guarantee.plain_delta)


def assumptions(certificate: Certificate) -> str:
    """The limits and assumptions of the guarantee, in plain words and as in the certificate."""
    stated = certificate.as_json()["assumptions"]
    parts = [html.heading("Limits") + html.listed(limits(certificate))]
    if stated:
        exact = html.listed(f"{name}: {text}" for name, text in stated.items())
        parts.append(
            html.heading("What the guarantee assumes")
            + html.listed(PLAIN[name] for name in stated)
            + html.folded("The same in the words of the certificate", exact)
        )
    return html.section("What to keep in mind", html.columns(*parts))
