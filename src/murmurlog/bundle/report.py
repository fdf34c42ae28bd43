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
    label_rows,
    merge_sentences,
    needs,
)
from murmurlog.bundle.schema import AT_LEAST, COUNTED, IN_LOG, TABLES, count_of, keys_of
from murmurlog.charts import charts, pages
from murmurlog.privacy import Guarantee
from murmurlog.privacy.rounding import round_up_text

TOP = 20  # rows shown of each table
MARKS = 60  # points in each chart, at distinguishable ranks


def make_report(
    certificate: Certificate,
    tables: Mapping[str, pa.Table],
    sha256: Mapping[str, str] | None = None,
) -> str:
    """The page. `tables` are the published ones, in their order on disk; with checksums, facts too."""
    facts = stated_facts(certificate, sha256) if sha256 else {}
    values = {
        "certificate": certificate,
        "report": report_values(certificate, tables),
        "stated_facts": {n: json.dumps(value, ensure_ascii=False) for n, value in facts.items()},
    }
    return pages.render("murmurlog.bundle", "report.html", values)


def report_values(certificate: Certificate, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """What the macros of parts.html and the page show of a release."""
    views = [view_of(certificate, name, tables[name]) for name in certificate.tables]
    uncertain = [view for view in views if view.intervals]
    return {
        "certificate": certificate,
        "warning": warning(certificate),
        "label": label_rows(certificate),
        "sizes": [_size(certificate, view) for view in views],
        "waterfall": _waterfall(certificate),
        "in_one_account": _in_one_account(certificate),
        "charts": _rank_charts(certificate, views),
        "has_intervals": bool(uncertain),
        "has_lower_ends_only": all(view.meaning == AT_LEAST for view in uncertain),
        "covers_noise_only": any(view.meaning is None for view in uncertain),
        "counts_note": counts_note(certificate),
        "first_rows": [_first_rows(certificate, view) for view in views if view.top],
        **_bounds(certificate),
        "limits": limits(certificate),
        "assumptions": [
            (name, PLAIN[name], text) for name, text in certificate.as_json()["assumptions"].items()
        ],
    }


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
        {key: key_text(row[key]) for key in keys} | {c: row[c] for c in row if c not in keys}
        for row in table.slice(0, TOP).to_pylist()
    ]
    claim = certificate.tables[name]
    noisy = count is not None and name != "log"  # those of a synthetic log are sums of its rows
    intervals = published_intervals(name, table, claim) if noisy else None
    reliable = table["reliable"].to_numpy(zero_copy_only=False) if intervals else None
    return View(
        name=name,
        keys=keys,
        top=top,
        counted=(counted if count == "users" else count) or "",
        meaning=claim.meaning if noisy else None,
        counts=None if count is None else table[count].to_numpy().astype(np.float64),
        intervals=intervals,
        reliable=reliable,
    )


def key_text(value: Any) -> str:
    """A key as one text."""
    return "  →  ".join(value) if isinstance(value, list) else str(value)


# --- the parts ------------------------------------------------------------------------------------


def warning(certificate: Certificate) -> str:
    """The warning at the top of the page, or nothing."""
    if certificate.guarantee.notion == "none":
        return NO_GUARANTEE
    return "" if certificate.private else NOT_PRIVATE


def _rank_charts(certificate: Certificate, views: Sequence[View]) -> list[str]:
    """Counts over rank, a chart for each table, all on the same axes."""
    counts = {v.name: v.counts for v in views if v.counts is not None and len(v.counts)}
    counted = [view for view in views if view.name in counts and view.name != "left_out"]
    if not counted:
        return []
    last = max(len(counts[view.name]) for view in counted)
    most = max(float(counts[view.name][0]) for view in counted)
    pictures = []
    for ink, view in enumerate(counted):
        claim = certificate.tables[view.name]
        needed = claim.passes.get("0.5") if view.intervals else None
        word = "threshold" if claim.guarantee.notion == "none" else "even odds to be published"
        items = "pairs of query and url" if view.name == "log" else TABLES[view.name].rows
        pictures.append(
            charts.ranks(
                _marks(view, counts[view.name]),
                title=f"{view.name}: {len(counts[view.name]):,} {items}",
                x_label=f"rank (most {view.counted} first)",
                ink=ink,
                within=(last, most),
                rule=(needed, word) if needed else None,
            )
        )
    return pictures


def _marks(view: View, counts: Floats) -> list[charts.Mark]:
    """Points at ranks that are about equally spaced on a logarithmic axis."""
    size = len(counts)
    ranks = sorted({min(size, round(size ** (n / MARKS))) for n in range(MARKS + 1)})
    marks = []
    for rank in ranks:
        count = float(counts[rank - 1])
        low, high = None, None
        if view.intervals is not None:
            low, high = (float(ends[rank - 1]) for ends in view.intervals)
            high = count if math.isinf(high) else high  # only the lower end is known
        marks.append(
            charts.Mark(
                rank=rank,
                count=count,
                coloured=view.reliable is None or bool(view.reliable[rank - 1]),
                low=low,
                high=high,
            )
        )
    return marks


def _first_rows(certificate: Certificate, view: View) -> dict[str, Any]:
    """The first rows of a table with their uncertainty."""
    head = list(view.keys)
    if view.counts is not None:
        head += _heads(view) if view.intervals else [view.counted]
    rows, dim = list[list[str]](), list[int]()
    for place, row in enumerate(view.top):
        cells = [row[key] for key in view.keys]
        count = next((c for c in COUNTED if c in row), None)
        if count is not None:
            cells.append(f"{row[count]:,}")
        if count is not None and view.intervals is not None:
            unsure = "" if row["reliable"] else " *"
            low, high = (float(ends[place]) for ends in view.intervals)
            text = f"{low:,.0f} to {high:,.0f}"
            if math.isinf(high):
                text = f"at least {low:,.0f}"
            cells.append(text + unsure)
            dim += [place] if unsure else []
        rows.append(cells)
    return {
        "name": view.name,
        "key_columns": len(view.keys),
        "all": certificate.tables[view.name].rows,
        "head": head,
        "rows": rows,
        "dim": dim,
    }


def _heads(view: View) -> list[str]:
    """The heads of the columns of a count and its uncertainty."""
    if view.meaning == AT_LEAST:
        return [f"{view.counted} counted", "in the log, 95 % sure"]
    counted = f"{view.counted} in the log" if view.meaning == IN_LOG else view.counted
    return [counted, "95 % interval"]


def _size(certificate: Certificate, view: View) -> tuple[int, str, str]:
    """The number of rows of a table, the name of its rows, and a remark."""
    rows = certificate.tables[view.name].rows
    remark = "" if rows else "nothing passed the threshold"
    if view.reliable is not None and rows:
        remark = f"{int(view.reliable.sum()):,} of them with a reliable count"
    table = TABLES[view.name]
    return rows, table.row if rows == 1 else table.rows, remark


def _in_one_account(certificate: Certificate) -> bool:
    return certificate.composition != "sum of the tables"


def _waterfall(certificate: Certificate) -> str:
    """A chart of the cost of each table, their sum and the stated total; empty for one table."""
    g = certificate.guarantee
    if g.notion == "none" or len(certificate.tables) == 1:
        return ""
    return charts.waterfall(
        [(name, claim.guarantee.epsilon) for name, claim in certificate.tables.items()],
        title=f"What each table costs: epsilon per {g.unit}",
        total=("in one account" if _in_one_account(certificate) else "stated", g.epsilon),
    )


def _bounds(certificate: Certificate) -> dict[str, Any]:
    """The bounds, thresholds and mechanisms of all tables."""
    unit, claims = certificate.guarantee.unit, certificate.tables.items()
    texts = merge_sentences(
        {
            name: f"{bound_of(claim, unit)}. {needs(claim, unit)[1]}".rstrip(" .")
            for name, claim in claims
        }
    )
    choice = {
        "first": "The bound keeps a unit's first items by time.",
        "random": "The bound keeps items of a unit that were drawn by lot.",
    }.get(certificate.bound, "")
    notes = [choice] if any(claim.parameters.get("per_user") for _, claim in claims) else []
    if all(needs(claim, unit)[0] != FREE and not counts_rows(claim) for _, claim in claims):
        notes.append(f"What few {unit}s have in common does not pass.")
    rows = [[name, claim.mechanism, *_costs(claim.guarantee)] for name, claim in claims]
    rows.append(["all", certificate.composition, *_costs(certificate.guarantee)])
    return {"bounds": texts, "bound_note": " ".join(notes), "mechanisms": rows}


def _costs(guarantee: Guarantee) -> tuple[str, str]:
    if guarantee.notion == "none":
        return "none", "none"
    return round_up_text(guarantee.epsilon, 6), round_up_text(guarantee.plain_delta)
