"""The certificate in plain words: the privacy label, bounds, thresholds, assumptions.

Numbers are rounded so that they never promise more than the certificate does.
"""

import math
from collections.abc import Mapping
from typing import Any

from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.schema import IN_LOG
from murmurlog.privacy.rounding import round_up_text

PLAIN = {
    "A0": "One id of the log is protected, not a person: whoever has several ids has less protection. "
    "Settings were not chosen by looking at the log, the noise was kept secret, and nothing else of "
    "this log was published without being counted.",
    "A1": "Nobody counts for more than a fixed number of items: of different ones, each once, or of rows, "
    "where rows are counted; or, where items have weights, for more than a fixed weight.",
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

FREE = "none on the number of users"


def label_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """The rows of the privacy label below the guarantee: how it was achieved."""
    unit, claims = certificate.guarantee.unit, certificate.tables.items()
    bounds = merge_sentences({name: bound_of(claim, unit) for name, claim in claims})
    thresholds = merge_sentences({name: needs(claim, unit)[0] for name, claim in claims})
    rows = [
        ("Bounds", " ".join(bounds)),
        ("Thresholds", " ".join(thresholds)),
        ("Noise", _noise(certificate)),
    ]
    if certificate.unprotected:
        conditions = "; ".join(certificate.unprotected)
        rows.append(("Conditional on", f"Chosen by looking at the log: {conditions}"))
    if certificate.booked:
        rows.append(("Booked", _ledger_text(certificate.booked)))
    if selected := certificate.period("select_from"):
        rows.append(("Periods", periods(certificate, selected)))
    if certificate.after:
        rows.append(("Keys from before", known_keys(certificate)))
    rows.append(("Published", _publication(certificate)))
    return rows


def merge_sentences(texts: Mapping[str, str]) -> list[str]:
    """Sentences about tables, stated once for tables that share them."""
    same: dict[str, list[str]] = {}
    for name, text in texts.items():
        same.setdefault(text, []).append(name)
    if len(same) == 1:
        return [f"{text[:1].upper()}{text[1:]}." for text in same]
    return [f"{', '.join(names)}: {text}." for text, names in same.items()]


def counts_rows(claim: TableClaim) -> bool:
    """Whether a table bounds and counts rows, not units."""
    return "rows" in (claim.count, claim.parameters.get("count"))


def bound_of(claim: TableClaim, unit: str) -> str:
    """The bound on one unit's contribution."""
    most = claim.parameters.get("per_user")
    if most is None:
        return "no bound"
    if counts_rows(claim):
        return f"at most {most} rows of one {unit}, equal ones each for itself"
    text = f"at most {most} different items of one {unit}"
    full = (claim.counting or {}).get("d2")
    if claim.meaning == IN_LOG and full is not None:
        return f"{text} in the selection; in the counts {full} published ones in full, or more for less each"
    if (counted := claim.parameters.get("count_per_user")) is not None:
        return f"{text}, {counted} of the published ones in the counts"
    return text


def _noise(certificate: Certificate) -> str:
    laws = {
        name: str(claim.parameters.get("noise") or "none")
        for name, claim in certificate.tables.items()
    }
    if set(laws.values()) == {"none"}:
        return "None."
    source = "from the operating system's entropy" if certificate.private else "NOT SECRET"
    return f"{' '.join(merge_sentences(laws))} Whole numbers, {source}."


def _ledger_text(booked: Mapping[str, Any]) -> str:
    """Sentences on how the release is booked in a ledger."""
    stated = booked_numbers(booked)
    text = (
        f"In a ledger, under {booked['source']!r}. Releases of it before this one: "
        f"{booked['releases_before']}"
    )
    if "rule" not in booked:
        return f"{text}, with epsilon {stated['epsilon']} and delta {stated['delta']}; they add up with this one."
    parts = [
        f"{round_up_text(100 * booked['part'][name] / booked['rectangle'][name])} % of what it allows of {what}"
        for name, what in (("mu2", "noise"), ("keys", "the chance that keys show"))
        if booked["rectangle"][name]
    ]
    return (
        f"{text}. All of them together, and those to come, stay below the cap of epsilon {stated['epsilon']} "
        f"and delta {stated['delta']}; this one takes {' and '.join(parts)}."
    )


def booked_numbers(booked: Mapping[str, Any]) -> dict[str, str]:
    """The epsilon and delta that a booking states: of releases before, or of the cap of all."""
    if "rule" in booked:
        pair = booked["cap"]
    else:
        pair = {name: booked[f"{name}_before"] for name in ("epsilon", "delta")}
    return {"epsilon": round_up_text(pair["epsilon"], 6), "delta": round_up_text(pair["delta"])}


def periods(certificate: Certificate, selected: str) -> str:
    """Sentences on what the counts are about, and which rows keys were selected from."""
    text = f"Keys were selected from {selected}."
    if not any(claim.count for claim in certificate.tables.values()):
        return text
    return f"Counts: {certificate.guarantee.unit}s with {certificate.period('count_from')}. {text}"


def known_keys(certificate: Certificate) -> str:
    """A sentence on the keys that earlier releases published and this one counts again."""
    after = certificate.after or {"releases": [], "keys": {}}
    releases = len(after["releases"])
    keys = ", ".join(f"{table} {n:,}" for table, n in after["keys"].items()) or "none"
    return (
        f"{releases:,} earlier release{'s' * (releases != 1)} of the same source published keys that are "
        f"counted again ({keys}). Each of them has a row, also if no {certificate.guarantee.unit} holds it now."
    )


def _publication(certificate: Certificate) -> str:
    """The day, the publisher and the license."""
    about = certificate.about
    publisher = f" by {about['publisher']}" if "publisher" in about else ""
    return f"{certificate.published}{publisher}. License: {about.get('license', 'not stated')}."


def needs(claim: TableClaim, unit: str) -> tuple[str, str]:
    """How many units an item needs to be published: in short, and in sentences."""
    needed, parameters = claim.passes, claim.parameters
    if "0.5" in needed and claim.guarantee.notion == "none":
        return (
            f"{needed['0.5']} {unit}s",
            f"What {needed['0.5']} {unit}s have in common is published as it is.",
        )
    if needed.get("0.5", 0) > 0 and counts_rows(claim):
        # One unit may have several of them.
        return (
            f"an item needs about {needed['0.5']} rows, of however few {unit}s",
            f"An item of {needed['0.5']} rows is published with even odds, one of "
            f"{needed['0.95']} with 95 %, one of {needed['0.99']} with 99 %.",
        )
    if {"0.5", "0.95", "0.99"} <= set(needed) and needed["0.5"] > 0:
        return (
            f"an item needs about {needed['0.5']} {unit}s",
            f"An item that {needed['0.5']} {unit}s hold is published with even odds, one of "
            f"{needed['0.95']} with 95 %, one of {needed['0.99']} with 99 %.",
        )
    if all(parameters.get(name) for name in ("thresholds", "own", "grid")):
        # The weight that the last round asks for: docs/explanation/mechanisms/rounds.md.
        shares = sum(parameters.get("past") or []) + parameters["own"][-1]
        weight = parameters["thresholds"][-1] / parameters["grid"] / shares
        few, ten, hundred = (math.ceil(weight * math.sqrt(n)) for n in (1, 10, 100))
        return (
            f"an item needs about {few} to {hundred} {unit}s, fewer if they have few other items",
            f"Every {unit} spreads a weight of 1 over the items that are still candidates. The last round "
            f"asks for about {few} {unit}s with no other candidate, {ten} with ten candidates each, "
            f"{hundred} with a hundred.",
        )
    return FREE, "What is published is not chosen by how many have it."
