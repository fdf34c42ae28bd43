"""The result of an audit: every attack with its outcome, the power of attacks, and what was not attacked."""

from dataclasses import dataclass, field
from typing import Any

from murmurlog.auditing.measurement import Measurement
from murmurlog.auditing.verdict import AttackPower, Omission
from murmurlog.privacy import Guarantee


@dataclass(kw_only=True)
class Audit:
    """The result of an audit: every attack on a mechanism, with its outcome."""

    mechanism: str
    claim: Guarantee
    confidence: float
    tests: int
    measured: list[Measurement] = field(default_factory=list)
    attack_power: list[AttackPower] = field(default_factory=list)  # what attacks would show
    not_attacked: list[Omission] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # settings that the mechanism does not support
    worlds: int = 0
    releases: int = 0
    seconds: float = 0.0

    @property
    def violations(self) -> list[str]:
        """One sentence for each violation."""
        return [
            f"{m.setting}, {m.pair} ({m.method}): claimed {m.claim:.4g}, "
            f"measured at least {m.least:.3g} at delta {m.delta:.3g}"
            for m in self.measured
            if m.violates
        ]

    @property
    def best(self) -> Measurement | None:
        """The attack with the largest bound relative to the claim; single ids only."""
        return max(
            (m for m in self.measured if m.linked == 1),
            key=lambda m: m.least / m.claim,
            default=None,
        )

    def at(self, setting: str) -> Measurement | None:
        """The attack with the largest bound at a setting; single ids only."""
        here = [m for m in self.measured if m.setting == setting and m.linked == 1]
        return max(here, key=lambda m: m.least, default=None)

    def sentence(self) -> str:
        """The verdict: a violation, or that none was found."""
        sure = f"at {100 * self.confidence:.6g} %"
        if self.violations:
            what = f"{len(self.violations)} violation{'s' if len(self.violations) > 1 else ''}"
            return f"{what} found {sure}; first: {self.violations[0]}"
        here = self.at("as claimed")
        if here is None:
            return f"no violation found (nothing could be measured as claimed) {sure}"
        return f"no violation found (claimed {here.claim:.4g}, measured at least {here.least:.2f} {sure})"

    def as_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "claim": self.claim.as_json(),
            "verdict": self.sentence(),
            "violations": self.violations,
            "confidence": self.confidence,
            "tests": self.tests,
            "worlds": self.worlds,
            "releases": self.releases,
            "seconds": round(self.seconds, 1),
            "measured": [measurement.as_json() for measurement in self.measured],
            "attack_power": [power.as_json() for power in self.attack_power],
            "not_attacked": [omission.as_json() for omission in self.not_attacked],
            "not_offered": self.skipped,
        }
