"""Checks of a certificate: its keys, its guarantee and its noise, from parameters alone."""

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from murmurlog.auditing.check import ROUNDING, is_same_version, require, require_value
from murmurlog.bundle.certificate import (
    ABOUT,
    ALL,
    ENTROPY,
    METHOD,
    TEXT_KEYS,
    WINDOWS,
    Certificate,
    TableClaim,
)
from murmurlog.bundle.read import stated_json
from murmurlog.bundle.schema import NOTES, SEVERAL, WAYS
from murmurlog.mechanisms import Mechanism, Rounds, parse
from murmurlog.privacy import (
    Amounts,
    Guarantee,
    amounts_of,
    compose,
    delta_of_limits,
    join_losses,
    limits_of,
)
from murmurlog.privacy.budget_filter import fits
from murmurlog.privacy.safelog import LONGEST
from murmurlog.privacy.sampler import KEY_DISTANCE
from murmurlog.publishing.plan import (
    PROBABILITIES,
    distance_of,
    drawn_with,
    losses_of,
    total_of,
)


def check_certificate(root: Path, certificate: Certificate) -> str:
    """Raises unless privacy.json is a complete certificate without contradictions or further keys."""
    stated = stated_json(root)
    extra = sorted(set(stated) - set(certificate.as_json()))
    require(not extra, f"privacy.json holds unknown keys: {', '.join(extra)}")
    expected, note = certificate.as_json(), ""
    if not is_same_version(certificate) and stated["assumptions"] != expected["assumptions"]:
        # Other versions may word them differently; the proof needs their names only.
        names = expected["assumptions"]
        expected["assumptions"] = {name: stated["assumptions"][name] for name in names}
        note = f"; the wording of its assumptions, of murmurlog {certificate.murmurlog}, was not checked"
    require(stated == expected, "privacy.json contradicts itself, or holds more than a certificate")
    set_size = certificate.text["set_size"]
    require(
        set_size is None or set_size <= LONGEST,
        f"privacy.json states sets of {set_size} queries; a release makes sets of at most {LONGEST}",
    )
    strange = sorted(set(certificate.about) - set(ABOUT))
    require(not strange, f"`about` holds keys other than {', '.join(ABOUT)}")
    return f"release {certificate.release_id}, {certificate.published}{note}"


def _compared_texts(certificate: Certificate) -> bool:
    """Whether the version that made the release compared whole texts, not keys of texts."""
    return certificate.murmurlog.startswith(("0.1.", "0.2."))


def _cost_of_keys(certificate: Certificate) -> float:
    """The delta of keys of texts, which a release that compared whole texts does not state."""
    if not _compared_texts(certificate):
        return 0.0
    return (1 + math.exp(min(certificate.guarantee.epsilon, 700))) * KEY_DISTANCE


def _parts(certificate: Certificate) -> list[tuple[Mechanism, Guarantee]]:
    """The mechanism and the stated guarantee of each table."""
    claims = certificate.tables.values()
    return [(parse(claim.mechanism), claim.guarantee) for claim in claims]


def check_guarantee(root: Path, certificate: Certificate) -> str:
    """Raises unless the guarantee follows from the mechanisms' parameters; returns it."""
    total = certificate.guarantee
    require(total.notion != "none", "this bundle has NO privacy guarantee and claims none")
    require(total.delta < 1, "a delta of 1 promises nothing")
    keys_delta = _cost_of_keys(certificate)
    for name, claim in certificate.tables.items():
        _check_claim(name, claim, total, keys_delta)
    public = set(certificate.tables) & set(SEVERAL)
    require(
        not certificate.by or not (public or "A4" in total.assumptions),
        "a release never splits these tables by a column",
    )
    parts = _parts(certificate)
    if total.notion == "pdp":
        declared = certificate.declared_users
        require(
            declared is not None
            and all(declared <= mechanism.parameters()["users"] for mechanism, _ in parts),
            "probabilistic DP is computed for fewer users than are declared",
        )
    summed = compose([guarantee for _, guarantee in parts])
    over = summed.epsilon > total.epsilon * ROUNDING or summed.delta > total.delta * ROUNDING
    if len(parts) > 1 and over:  # then they share one account
        summed = total_of(parts, total.epsilon) or summed
    require(
        summed.unit == total.unit and summed.neighbours == total.neighbours,
        "the unit or neighbours of the tables differ from those of the release",
    )
    require(
        summed.notion == total.notion
        and summed.epsilon <= total.epsilon * ROUNDING
        and summed.delta <= total.delta * ROUNDING + keys_delta
        and summed.plain_delta <= total.plain_delta * ROUNDING + keys_delta,
        f"the tables add up to {summed}, more than the stated {total}",
    )
    return f"recomputed: {total}"


def _check_claim(name: str, claim: TableClaim, total: Guarantee, keys_delta: float) -> None:
    """Raises unless the claim of a table follows from its mechanism; deltas may lack `keys_delta`."""
    mechanism = parse(claim.mechanism)
    require(
        str(mechanism) == claim.mechanism,
        f"{name}: {claim.mechanism} is not the canonical text of the mechanism {mechanism}",
    )
    require(name in mechanism.tables, f"{name}: {mechanism} makes no such table")
    require(
        {str(p): n for p in PROBABILITIES if (n := mechanism.passes(p)) is not None}
        == dict(claim.passes),
        f"{name}: `passes` is not what {mechanism} gives",
    )
    require(
        set(claim.notes) <= NOTES
        and all(n is None or type(n) in (int, float) for n in claim.notes.values()),
        f"{name}: `notes` holds something other than numbers under known names",
    )
    require(
        mechanism.parameters() == dict(claim.parameters),
        f"{name}: the parameters are not those of {claim.mechanism}",
    )
    stated = claim.guarantee
    proved = mechanism.guarantee(
        epsilon=stated.epsilon, unit=total.unit, neighbours=total.neighbours
    )
    require(proved.notion == stated.notion, f"{name}: {claim.mechanism} is {proved.notion}")
    require(
        proved.delta <= stated.delta * ROUNDING + keys_delta
        and proved.plain_delta <= stated.plain_delta * ROUNDING + keys_delta,
        f"{name}: {claim.mechanism} has delta {proved.delta:.4g} at epsilon "
        f"{stated.epsilon:.6g} per {total.unit}, not {stated.delta:.4g}",
    )
    require(
        set(proved.assumptions) <= set(total.assumptions),
        f"{name}: the proof needs assumptions that privacy.json does not state",
    )


def check_windows(root: Path, certificate: Certificate) -> str:
    """The periods of keys and counts; a mechanism must take them."""
    stated = [certificate.text.get(name) for name in WINDOWS]
    require(None not in stated, "privacy.json states one of two windows only")
    for name, text in zip(WINDOWS, stated, strict=True):
        require(text == ALL or _is_moment(text), f"{name} is neither a date nor {ALL}")
    for table, claim in certificate.tables.items():
        require(parse(claim.mechanism).takes_windows, f"{table}: {claim.mechanism} has no windows")
    selected, counted = (certificate.period(name) for name in WINDOWS)
    return f"keys are of {selected}, counts of {counted}"


def _is_moment(text: Any) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_after(root: Path, certificate: Certificate) -> str:
    """What is stated on keys of earlier releases; the counts of the mechanism must allow for them."""
    after, booked = certificate.after, certificate.booked
    assert after is not None
    releases, keys = after["releases"], after["keys"]
    require(
        booked is not None and certificate.private,
        "keys of earlier releases are counted by a release that is booked and private only",
    )
    assert booked is not None
    require(
        len({*releases, certificate.release_id}) == len(releases) + 1,
        "`after` names a release twice, or the release itself",
    )
    require(
        len(releases) <= booked["releases_before"],
        f"`after` names {len(releases)} releases, and {booked['releases_before']} were booked before",
    )
    for table, count in keys.items():
        claim = require_value(
            certificate.tables.get(table),
            f"`after` states keys of a {table} table that is not there",
        )
        require(
            isinstance(parse(claim.mechanism), Rounds) and table != "itemset",
            f"{table}: {claim.mechanism} does not count keys of earlier releases",
        )
        require(
            claim.rows >= count,
            f"{table} has {claim.rows} rows, fewer than the {count} keys that each have a row",
        )
    return f"{sum(keys.values())} known keys; earlier releases: {len(releases)}"


def check_budget(root: Path, certificate: Certificate) -> str:
    """The rectangle of the cap and the release's part of it, from the cap and the mechanisms' texts."""
    booked = certificate.booked
    assert booked is not None
    cap, spent = booked["cap"], booked["spent_by_sum"]
    limits, part = Amounts(**booked["rectangle"]), Amounts(**booked["part"])
    epsilon, delta = cap["epsilon"] - spent["epsilon"], cap["delta"] - spent["delta"]
    computed = limits_of(
        epsilon, delta, keys_share=cap["keys_share"], pure=limits.pure, distance=limits.distance
    )
    require(
        _same(limits, computed) and delta_of_limits(limits, epsilon=epsilon) <= delta,
        f"the rectangle is not that of a cap of epsilon {cap['epsilon']:.6g}, delta {cap['delta']:.3g}",
    )
    parts = _parts(certificate)
    loss = join_losses(losses_of(parts))
    keys = "keys" in certificate.sampler
    distance = distance_of((mechanism for mechanism, _ in parts), keys=keys)
    booking = amounts_of(loss, distance=distance, limits=limits)
    # Up to version 0.2.0 a cap with a pure part booked pure epsilons there and draws by mu: valid, too.
    earlier = amounts_of(replace(loss, pure=()), distance=distance)
    earlier = earlier._replace(pure=math.fsum(loss.pure))
    require(
        _same(part, booking) or (limits.pure > 0 and _same(part, earlier)),
        f"the mechanisms book {booking}, the certificate states {part}",
    )
    require(fits(limits, [], part), "the part of this release exceeds the rectangle of the cap")
    return f"a part of a cap of epsilon {cap['epsilon']:.6g}, delta {cap['delta']:.3g}; recomputed"


def _same(stated: Amounts, proved: Amounts) -> bool:
    pairs = zip(stated, proved, strict=True)
    return all(math.isclose(some, other, rel_tol=ROUNDING - 1) for some, other in pairs)


def check_noise(root: Path, certificate: Certificate) -> str:
    """Raises unless the noise was drawn as a private release draws it, as far as the certificate states."""
    require(certificate.private, "the noise was drawn from a known seed: this is NOT private")
    require(
        certificate.sampler.get("entropy") == ENTROPY[certificate.private],
        "the statements on the noise contradict each other",
    )
    facts = {"method", "entropy", "delta"}
    if not _compared_texts(certificate):
        facts.add("keys")
    require(
        set(certificate.sampler) == facts
        and certificate.sampler.get("keys", TEXT_KEYS) == TEXT_KEYS,
        f"the statement on the noise does not consist of {', '.join(sorted(facts))}",
    )
    proved = drawn_with([mechanism for mechanism, _ in _parts(certificate)], certificate.guarantee)
    require(
        certificate.sampler["method"] == METHOD
        and math.isclose(
            certificate.sampler["delta"],
            proved,
            rel_tol=ROUNDING - 1,
            abs_tol=_cost_of_keys(certificate) * ROUNDING,
        ),
        "the certificate states another method of drawing noise than murmurlog's, or another delta",
    )
    require(certificate.bound in WAYS, f"the bound {certificate.bound!r:.40} is unknown")
    return "drawn from the operating system's entropy, as stated"
