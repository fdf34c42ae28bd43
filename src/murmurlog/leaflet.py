"""report.html of a bundle: what was published, how sure it is and what protects whom, to look at.

A function of the certificate and the published tables alone, so it costs no privacy and `verify`
can make it again, byte by byte. Never sees a log.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog import charts, paper
from murmurlog.cards import NO_GUARANTEE, NOT_PRIVATE, limits
from murmurlog.certificate import Certificate, TableClaim
from murmurlog.privacy import Guarantee
from murmurlog.tables import COUNTED, count_of, keys_of

TOP = 20  # rows of each table that are shown
MARKS = 60  # of each picture: ranks far enough apart to be told from each other
SURE = 1.96  # standard errors: 95 % of a normal law
LEAD = "What many had in common in a search log. The label says who is protected, and how well."
# What a row of a table is, of one and of several.
ITEMS = {
    "keyword": ("word", "words"),
    "query": ("query", "queries"),
    "pair": ("pair of queries", "pairs of queries"),
    "click": ("query with a clicked url", "queries with a clicked url"),
    "session": ("sequence of queries", "sequences of queries"),
    "itemset": ("set of queries", "sets of queries"),
    "log": ("row", "rows"),
    "left_out": ("search", "searches"),
}
PLAIN = {
    "A0": "One id of the log is protected, not a person: whoever has several ids has less protection. "
    "Settings were not chosen by peeping at the log, the noise was kept secret, and nothing else of "
    "this log was published without being counted.",
    "A1": "Nobody counts for more than a fixed number of different items, and for each of them once.",
    "A2": "Which results a search engine lists for a query is public knowledge.",
    "A3": "How many users there are is public knowledge.",
    "A4": "The list of candidates was public before anyone looked at the log.",
    "A5": "The log was cleaned record by record, in a fixed order of steps, before anything was "
    "counted.",
    "A6": "What is put together (sessions, pairs of queries) is always of one and the same unit.",
    "A7": "Which of a unit's items count depends on that unit's own rows only.",
    "A8": "How to read the files was settled before they were read.",
    "A9": "Every byte of this folder, this page too, was made from noisy numbers and public settings.",
}


def leaflet(certificate: Certificate, tables: Mapping[str, pa.Table]) -> str:
    """The page. `tables` are the published ones, in their order on disk."""
    views = [view_of(certificate, name, tables[name]) for name in certificate.tables]
    parts = [
        *warnings(certificate),
        paper.columns(
            label_card(certificate), paper.facts(facts(certificate, views)) + waterfall(certificate)
        ),
        *pictures(certificate, views),
        _rows(certificate, views),
        bounds(certificate),
        assumptions(certificate),
    ]
    return paper.printed(
        title=certificate.title,
        kicker=_kicker(certificate),
        lead=certificate.about.get("description", LEAD),
        parts=parts,
        foot=f"Release {certificate.release_id}, {certificate.published}, murmurlog "
        f"{certificate.murmurlog}. This page was made from privacy.json and the tables in data/, and "
        "from nothing else. Check both: murmurlog verify .",
        marks={"murmurlog-report": "released"},
    )


def _kicker(certificate: Certificate) -> str:
    if certificate.guarantee.notion == "none":
        return "A search log without a privacy guarantee"
    return "A private release of a search log" if certificate.private else "A demonstration"


@dataclass(frozen=True, kw_only=True)
class View:
    """A table as it is shown: the first rows as texts, and all counts with their errors."""

    name: str
    keys: tuple[str, ...]
    top: list[dict[str, Any]]
    counted: str  # what the counts are of
    counts: np.ndarray[Any, np.dtype[np.float64]] | None  # falling
    errors: np.ndarray[Any, np.dtype[np.float64]] | None
    reliable: np.ndarray[Any, np.dtype[np.bool_]] | None


def view_of(certificate: Certificate, name: str, table: pa.Table) -> View:
    """A published table, ready to be shown."""
    keys, counted = keys_of(name, certificate.by), f"{certificate.guarantee.unit}s"
    if name == "log":
        # One row is what one invented user did; what can be looked at is how often all did it.
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
            name=name, keys=keys, top=top, counted="", counts=None, errors=None, reliable=None
        )
    stderr = f"{count}_stderr"
    has = stderr in table.column_names
    return View(
        name=name,
        keys=keys,
        top=top,
        counted=counted if count == "users" else count,
        counts=table[count].to_numpy().astype(np.float64),
        errors=table[stderr].to_numpy().astype(np.float64) if has else None,
        reliable=table["reliable"].to_numpy(zero_copy_only=False).astype(bool) if has else None,
    )


def _shown(value: Any) -> str:
    """A key as one text."""
    return "  →  ".join(value) if isinstance(value, list) else str(value)


# --- the parts ------------------------------------------------------------------------------------


def warnings(certificate: Certificate) -> list[str]:
    """What must be said first, if anything."""
    if certificate.guarantee.notion == "none":
        return [paper.banner(NO_GUARANTEE)]
    return [] if certificate.private else [paper.banner(NOT_PRIVATE)]


def label_card(certificate: Certificate) -> str:
    """Who is protected, from what, how well, until when."""
    g, users = certificate.guarantee, certificate.declared_users
    change = (
        "added to the log or taken out" if g.neighbours == "add-remove" else "replaced by another"
    )
    unit = f"one {g.unit}"
    words = (
        f"An id of the log, not a person: all of its rows, {change}."
        if g.unit == "user"
        else f"All of its rows, {change}. A user with n of them is protected n times less."
    )
    rows = [("Protected unit", unit, words)]
    if g.notion == "none":
        rows.append(("Guarantee", "none", "One person's presence can change this data for sure."))
    else:
        rows += [
            (
                "Odds",
                f"× {paper.odds(g)} at most (epsilon {g.epsilon:.6g})",
                _odds(g),
            ),
            (
                "Chance of more",
                paper.chance(g.plain_delta),
                f"delta = {g.plain_delta:.3g}"
                + (
                    ""
                    if users is None
                    else f"; times {users:,} declared users: {g.plain_delta * users:.3g}"
                )
                + ".",
            ),
        ]
        if g.notion == "pdp":
            rows.append(
                (
                    "Also",
                    "",
                    f"Probabilistic differential privacy at epsilon {g.epsilon:.6g}, delta "
                    f"{g.delta:.3g}, for the tables as they are, though for nothing made from them.",
                )
            )
    claims = certificate.tables.items()
    kept = _together({name: _bound(claim, g.unit) for name, claim in claims})
    thresholds = _together({name: needs(claim, g.unit)[0] for name, claim in claims})
    rows.append(("Bounds", "", " ".join(kept)))
    rows.append(("Thresholds", "", " ".join(thresholds)))
    rows.append(("Noise", "", _noise(certificate)))
    if certificate.unprotected:
        rows.append(
            (
                "Conditional on",
                "",
                "Chosen by looking at the log: " + "; ".join(certificate.unprotected),
            )
        )
    if certificate.planned_by:
        rows.append(
            ("Planned by", "", f"{certificate.planned_by}; its cost adds to this guarantee.")
        )
    if certificate.booked:
        rows.append(("Booked", "", _booked(certificate.booked)))
    rows.append(("Published", "", _published(certificate)))
    return paper.label("Privacy label", rows)


def _odds(g: Guarantee) -> str:
    """What the factor means, and what it means for a guess: (epsilon, delta) as a test sees it."""
    what, sides = (
        (f"one {g.unit}'s presence changes", "whether it is there")
        if g.neighbours == "add-remove"
        else (f"putting another in the place of one {g.unit} changes", "which of two it is")
    )
    return (
        f"Whatever anyone concludes from this bundle, {what} the odds of it by no more than this "
        f"factor, e to the epsilon, but for the chance below. A guess {sides} that was even before is "
        f"right at most {paper.guess(g)} of the time."
    )


def _together(texts: Mapping[str, str]) -> list[str]:
    """Sentences about tables, told once for those that share them."""
    same: dict[str, list[str]] = {}
    for name, text in texts.items():
        same.setdefault(text, []).append(name)
    if len(same) == 1:
        return [f"{text[:1].upper()}{text[1:]}." for text in same]
    return [f"{', '.join(names)}: {text}." for text, names in same.items()]


def _bound(claim: TableClaim, unit: str) -> str:
    """What of one unit counts."""
    most = claim.parameters.get("per_user")
    if most is None:
        return "no bound"
    text = f"at most {most} different items of one {unit}"
    if (counted := claim.parameters.get("count_per_user")) is not None:
        text += f", {counted} of the published ones in the counts"
    return text


def _noise(certificate: Certificate) -> str:
    kinds = {
        name: f"{claim.parameters.get('noise') or 'none'}"
        for name, claim in certificate.tables.items()
    }
    if set(kinds.values()) == {"none"}:
        return "None."
    drawn = "from the operating system's entropy" if certificate.private else "NOT SECRET"
    return f"{' '.join(_together(kinds))} Whole numbers, {drawn}."


def _booked(booked: Mapping[str, Any]) -> str:
    return (
        f"In a ledger, under {booked['source']!r}. Releases of it before this one: "
        f"{booked['releases_before']}, with epsilon {booked['epsilon_before']:.6g} and delta "
        f"{booked['delta_before']:.3g}; they add up with this one."
    )


def _published(certificate: Certificate) -> str:
    about = certificate.about
    who = f" by {about['publisher']}" if "publisher" in about else ""
    return f"{certificate.published}{who}. License: {about.get('license', 'not stated')}."


def pictures(certificate: Certificate, views: Sequence[View]) -> list[str]:
    """Counts over rank, one picture for each table, all on the same axes."""
    drawn = [v for v in views if v.counts is not None and len(v.counts) and v.name != "left_out"]
    if not drawn:
        return []
    last = max(len(v.counts) for v in drawn if v.counts is not None)
    most = max(float(v.counts[0]) for v in drawn if v.counts is not None)
    found = []
    for ink, view in enumerate(drawn):
        needed = certificate.tables[view.name].passes.get("0.5")
        found.append(
            charts.ranks(
                _marks(view),
                title=f"{view.name}: {len(view.counts) if view.counts is not None else 0:,} "
                f"{ITEMS[view.name][1] if view.name != 'log' else 'queries with a url'}",
                x_label=f"rank (most {view.counted} first)",
                ink=ink,
                within=(last, most),
                rule=(needed, "published with even odds")
                if needed and view.errors is not None
                else None,
            )
        )
    words = (
        "Each point is a published row, its height the published count, with a 95 % interval; of the "
        "many rows on the right a few are drawn. Grey ones are unreliable: their standard error is "
        "more than a quarter of the count. What is rarer is missing by design."
    )
    return [paper.section("Few items are held by many", paper.figures(found), note=words)]


def _marks(view: View) -> list[charts.Mark]:
    """Ranks that are about equally far apart on a logarithmic axis."""
    assert view.counts is not None
    size = len(view.counts)
    places = sorted({min(size, round(size ** (n / MARKS))) for n in range(MARKS + 1)})
    marks = []
    for rank in places:
        count = float(view.counts[rank - 1])
        error = None if view.errors is None else SURE * float(view.errors[rank - 1])
        marks.append(
            charts.Mark(
                rank=rank,
                count=count,
                shown=view.reliable is None or bool(view.reliable[rank - 1]),
                low=None if error is None else count - error,
                high=None if error is None else count + error,
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
            head += [view.counted] if view.errors is None else [view.counted, "±"]
            numbers = [len(view.keys), len(view.keys) + 1]
        cells, dim = list[list[str]](), list[int]()
        for place, row in enumerate(view.top):
            line = [row[key] for key in view.keys]
            count = next((c for c in COUNTED if c in row), None)
            if count is not None:
                line.append(f"{row[count]:,}")
            if count is not None and view.errors is not None:
                unsure = "" if row["reliable"] else " *"
                line.append(f"{SURE * row[f'{count}_stderr']:,.0f}{unsure}")
                dim += [place] if unsure else []
            cells.append(line)
        shown = (
            f"{view.name}: the first {len(cells)} of {rows:,}" if rows > len(cells) else view.name
        )
        if view.name == "log":
            shown = "log: what its invented users did most"
        table = paper.grid(head, cells, numbers=numbers, dim=dim)
        parts.append((paper.heading(shown) + table, len(view.keys) > 1))
    note = (
        "Counts are of units after each was bounded to a few different items, plus noise; they are not "
        "traffic. ± is a 95 % interval of the noise and the selection; it does not cover what bounding "
        "took away. Grey rows with an asterisk are unreliable."
    )
    if not parts:
        return paper.section("First rows of each table", note="Nothing passed the thresholds.")
    return paper.section("First rows of each table", paper.tables(parts), note=note)


def facts(certificate: Certificate, views: Sequence[View]) -> list[tuple[str, str, str]]:
    """How much there is of each table."""
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
    """What each table costs alone, what that adds up to, and what it comes to."""
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
    return f"<figure>{chart}<figcaption>{paper.escape(words)}</figcaption></figure>"


def bounds(certificate: Certificate) -> str:
    """What bounds and thresholds let through, and which mechanisms they are of."""
    unit, claims = certificate.guarantee.unit, certificate.tables.items()
    texts = _together(
        {
            name: f"{_bound(claim, unit)}. {' '.join(needs(claim, unit)[1:])}".rstrip(" .")
            for name, claim in claims
        }
    )
    kept = {
        "first": "Of a unit's items the first ones by time count.",
        "random": "Which of a unit's items count was drawn by lot.",
    }.get(certificate.bound, "")
    cells = [[name, claim.mechanism, *_costs(claim.guarantee)] for name, claim in claims]
    cells.append(["all", certificate.composition, *_costs(certificate.guarantee)])
    table = paper.grid(["table", "mechanism", "epsilon", "delta"], cells, numbers=(2, 3), wide=(1,))
    return paper.section(
        "What bounds and thresholds keep",
        paper.listed(texts),
        paper.folded("The mechanisms, as verify reads them", table),
        note=f"{kept} What few {unit}s have in common does not pass.",
    )


def _costs(guarantee: Guarantee) -> tuple[str, str]:
    if guarantee.notion == "none":
        return "none", "none"
    return f"{guarantee.epsilon:.6g}", f"{guarantee.plain_delta:.3g}"


def needs(claim: TableClaim, unit: str) -> list[str]:
    """How many units an item needs to be seen: in short, then in sentences."""
    needed, given = claim.passes, claim.parameters
    if "0.5" in needed and claim.guarantee.notion == "none":
        return [
            f"{needed['0.5']} {unit}s",
            f"What {needed['0.5']} {unit}s have in common is published as it is.",
        ]
    if {"0.5", "0.95", "0.99"} <= set(needed) and needed["0.5"] > 0:
        return [
            f"an item needs about {needed['0.5']} {unit}s",
            f"An item that {needed['0.5']} {unit}s hold is published with even odds, one of "
            f"{needed['0.95']} with 95 %, one of {needed['0.99']} with 99 %.",
        ]
    if given.get("thresholds") and given.get("own"):
        # The weight that the last round asks for: docs/mechanisms/rounds.md.
        past = given.get("past") or []
        weight = given["thresholds"][-1] / given["grid"] / (sum(past) + given["own"][-1])
        few, ten, hundred = (math.ceil(weight * math.sqrt(n)) for n in (1, 10, 100))
        return [
            f"an item needs about {few} to {hundred} {unit}s, fewer if they have few others in play",
            f"Every {unit} spreads a weight of 1 over the items in play. The last round asks for "
            f"about {few} {unit}s with nothing else in play, {ten} who have ten items in play each, "
            f"{hundred} who have a hundred.",
        ]
    return ["none on the number of users", "What is published is not chosen by how many have it."]


def assumptions(certificate: Certificate) -> str:
    """Limits, and what the guarantee assumes, in plain words and in the certificate's."""
    stated = certificate.as_json()["assumptions"]
    parts = [paper.heading("Limits") + paper.listed(limits(certificate))]
    if stated:
        exact = paper.listed(f"{name}: {text}" for name, text in stated.items())
        parts.append(
            paper.heading("What the guarantee assumes")
            + paper.listed(PLAIN[name] for name in stated)
            + paper.folded("The same in the words of the certificate", exact)
        )
    return paper.section("What to keep in mind", paper.columns(*parts))
