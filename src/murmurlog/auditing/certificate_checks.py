"""Checks of what a certificate claims: its keys, its guarantee and its noise, from parameters alone."""

import math
from pathlib import Path

from murmurlog.auditing.check import ROUNDING, is_own, require
from murmurlog.bundle.certificate import ABOUT, ENTROPY, METHOD, Certificate
from murmurlog.bundle.read import stated_json
from murmurlog.bundle.schema import NOTES, SEVERAL, WAYS
from murmurlog.mechanisms import parse
from murmurlog.privacy import compose
from murmurlog.privacy.safelog import LONGEST
from murmurlog.publishing.plan import PROBABILITIES, drawn_with, total_of


def check_certificate(root: Path, certificate: Certificate) -> str:
    stated = stated_json(root)
    extra = sorted(set(stated) - set(certificate.as_json()))
    require(not extra, f"privacy.json holds keys of no meaning here: {', '.join(extra)}")
    given, made = certificate.as_json(), ""
    if not is_own(certificate) and stated["assumptions"] != given["assumptions"]:
        # Other versions may word them otherwise; their names are what the proof needs.
        given["assumptions"] = {name: stated["assumptions"][name] for name in given["assumptions"]}
        made = f"; the wording of its assumptions, of murmurlog {certificate.murmurlog}, was not checked"
    require(stated == given, "privacy.json contradicts itself or holds more")
    set_size = certificate.text["set_size"]
    require(
        set_size is None or set_size <= LONGEST,
        f"privacy.json states sets of {set_size} queries; a release makes sets of at most {LONGEST}",
    )
    strange = sorted(set(certificate.about) - set(ABOUT))
    require(not strange, f"`about` holds other things than {', '.join(ABOUT)}")
    return f"release {certificate.release_id}, {certificate.published}{made}"


def check_guarantee(root: Path, certificate: Certificate) -> str:
    total = certificate.guarantee
    require(total.notion != "none", "this bundle has NO privacy guarantee and claims none")
    require(total.delta < 1, "a delta of 1 promises nothing")
    for name, claim in certificate.tables.items():
        mechanism = parse(claim.mechanism)
        require(
            str(mechanism) == claim.mechanism,
            f"{name}: {claim.mechanism} is not how the mechanism {mechanism} is written",
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
            f"{name}: `notes` holds other remarks than numbers of a known name",
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
            proved.delta <= stated.delta * ROUNDING
            and proved.plain_delta <= stated.plain_delta * ROUNDING,
            f"{name}: {claim.mechanism} has delta {proved.delta:.4g} at epsilon "
            f"{stated.epsilon:.6g} per {total.unit}, not {stated.delta:.4g}",
        )
        require(
            set(proved.assumptions) <= set(total.assumptions),
            f"{name}: the proof needs assumptions that privacy.json does not state",
        )
    public = set(certificate.tables) & set(SEVERAL)
    require(
        not certificate.by or not (public or "A4" in total.assumptions),
        "tables of this kind are never split by a column",
    )
    if total.notion == "pdp":
        declared, needed = (
            certificate.declared_users,
            [parse(claim.mechanism).parameters()["users"] for claim in certificate.tables.values()],
        )
        require(
            declared is not None and all(declared <= users for users in needed),
            "probabilistic DP is computed for fewer users than are declared",
        )
    summed = compose([claim.guarantee for claim in certificate.tables.values()])
    if len(certificate.tables) > 1 and summed.epsilon > total.epsilon * ROUNDING:
        claims = certificate.tables.values()
        parts = [(parse(claim.mechanism), claim.guarantee) for claim in claims]
        summed = total_of(parts, total.epsilon) or summed
    require(
        summed.unit == total.unit and summed.neighbours == total.neighbours,
        "the tables' unit or neighbours are not the release's",
    )
    require(
        summed.notion == total.notion
        and summed.epsilon <= total.epsilon * ROUNDING
        and summed.delta <= total.delta * ROUNDING
        and summed.plain_delta <= total.plain_delta * ROUNDING,
        f"the tables add up to {summed}, more than the stated {total}",
    )
    return f"recomputed: {total}"


def check_noise(root: Path, certificate: Certificate) -> str:
    require(certificate.private, "the noise was drawn from a known seed: this is NOT private")
    require(
        certificate.sampler.get("entropy") == ENTROPY[certificate.private],
        "what is said of the noise contradicts itself",
    )
    said = {name: type(value) for name, value in certificate.sampler.items()}
    require(
        said == {"method": str, "entropy": str, "delta": float},
        "what is said of the noise is not its method, its entropy and its delta",
    )
    proved = drawn_with(
        [parse(c.mechanism) for c in certificate.tables.values()], certificate.guarantee
    )
    require(
        certificate.sampler["method"] == METHOD
        and math.isclose(certificate.sampler["delta"], proved, rel_tol=ROUNDING - 1),
        "the noise is not said to be drawn as murmurlog draws it, or at another delta",
    )
    require(certificate.bound in WAYS, f"there is no bound {certificate.bound!r:.40}")
    return "drawn from the operating system's entropy, as stated"
