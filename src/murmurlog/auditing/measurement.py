"""Bounds on epsilon from the bundle of one attacked release.

A `Measurement` states how large epsilon must be at least, at the delta that the bundle claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from murmurlog.auditing.epsilon_bounds import least_by_guesses, loss, lower_bound
from murmurlog.auditing.neighbouring_logs import OWN, Pair
from murmurlog.auditing.observer import (
    Flags,
    Observation,
    best_events,
    make_guesses,
    own_items_published,
)
from murmurlog.auditing.settings import Setting
from murmurlog.privacy import Guarantee

SLACK = 1e-6
GUESSED = 2.0**-90  # more than the probability that another user enters a secret of 94 bits


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A bound on epsilon by one attack at one setting, at the delta claimed there."""

    setting: str
    pair: str
    method: str  # "samples, with" or "without" the user, "one run", or "own items"
    claim: float
    delta: float
    least: float  # lower bound on epsilon
    near: float | None = None  # point estimate
    most: float | None = None  # upper end of the interval of this attack
    linked: int = 1

    @property
    def violates(self) -> bool:
        return self.least > self.claim * (1 + SLACK)

    def as_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "pair": self.pair,
            "way": self.method,
            "epsilon_claimed": self.claim,
            "delta_claimed": self.delta,
            "epsilon_at_least": self.least,
            "epsilon_near": self.near,
            "epsilon_at_most_by_this_attack": self.most,
            "linked_ids": self.linked,
            "violation": self.violates,
        }


def measure(
    claim: Guarantee, setting: Setting, pair: Pair, view: Observation, inside: Flags, alpha: float
) -> list[Measurement]:
    """The bounds by samples in both directions, if worlds are independent, and by one run.

    `inside` marks the worlds that include the one user.
    """
    epsilon, delta = claim.for_linked(pair.linked)
    shared: dict[str, Any] = {
        "setting": setting.name, "pair": pair.name, "claim": epsilon, "delta": delta,
        "linked": pair.linked,
    }  # fmt: skip
    measurements = []
    if setting.independent:
        samples = "samples" if pair.replacement else "samples, {} the user"
        measurements += [
            Measurement(
                method=samples.format(event.direction),
                least=event.counts.least(delta=delta, alpha=alpha),
                near=event.counts.near(delta=delta),
                most=event.counts.most(delta=delta, alpha=alpha),
                **shared,
            )
            for event in best_events(view, inside, delta=delta)
        ]
    score = make_guesses(view, inside)
    least = least_by_guesses(
        canaries=score.canaries, guesses=score.guesses, right=score.right, delta=delta, alpha=alpha
    )
    measurements.append(Measurement(method="one run", least=least, **shared))
    # An item is published at most as often as it passes its threshold, independently in each world.
    if has_own_items(pair):
        measurements.append(_measure_own_items(own_items_published(view), inside, alpha, shared))
    return measurements


def has_own_items(pair: Pair) -> bool:
    """Whether the one user has items that nobody else can enter."""
    texts = (text or "" for row in pair.target for text in (row.query, row.url))
    return pair.secret and any(text.startswith(OWN) for text in texts)


def _measure_own_items(
    published: Flags, inside: Flags, alpha: float, shared: Mapping[str, Any]
) -> Measurement:
    """The bound by items that only the one user has: without that user they appear with a probability
    of less than 2^-90."""
    hits, trials = int((published & inside).sum()), int(inside.sum())
    p, delta = lower_bound(hits, trials, alpha), float(shared["delta"])
    return Measurement(
        method=f"own items, {hits} of {trials} show, at least {p:.3g}",
        least=loss(p, GUESSED, delta),
        **shared,
    )
