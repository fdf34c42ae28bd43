"""A second account of a ledger: random sequences of charges, each checked by formulas of its own.

Charges of every kind that a ledger knows go through a real ledger file. What fits, what is left and what a cap
promises are computed here from the theorem (docs/explanation/budget-filter.md), with hockey sticks and a
convolution where the package has closed forms; nothing of `murmurlog.privacy` is used but the values that a
ledger takes and gives.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from independent_total import Cost, gaussian, joint_delta
from scipy.special import ndtr
from scipy.stats import binom

from murmurlog.errors import MurmurlogError, Refused, UsageError
from murmurlog.privacy import Amounts, Guarantee, Loss
from murmurlog.privacy.sampler import Entropy, draw_below
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.series_periods import Step

CHARGES = 14  # of one sequence
KINDS = ("gaussian", "geometric", "pure", "mixed", "stated")
# Relative distances from a limit within which either answer is right: that of rounding, and that of the search
# for the mu of noise that is not Gaussian.
ROUNDING, SEARCH = 1e-8, 1e-5
POINTS = 4000  # epsilons at which two hockey sticks are compared
LEAST_DELTA = 1e-9  # below, differences of normal tails are rounding
NAMES = ("noise", "keys", "distance", "pure epsilon")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A release as a ledger sees it."""

    kind: str
    cost: Guarantee
    loss: Loss | None  # None: nothing but (epsilon, delta) is known
    distance: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether its amounts need no search."""
        return self.kind == "gaussian"

    def choices(self, largest: Amounts) -> list[tuple[float, float, float]]:
        """Each part that is not Gaussian: its square of mu, its pure epsilon, and how much dearer the first is."""
        known = self.loss or Loss(keys=self.cost.delta, pure=(self.cost.epsilon,))
        # A randomised response is one geometric draw that is moved by one.
        draws = [*known.draws, *((1 / epsilon, 1) for epsilon in known.pure)]
        pairs = [(least_mu(scale, n) ** 2, n / scale) for scale, n in draws]
        return [
            (s, e, s / largest.mu2 / (e / largest.pure) if largest.pure else 0.0) for s, e in pairs
        ]

    def amounts(self, largest: Amounts) -> list[float]:
        """What it costs: squares of mu, keys, distance, pure epsilon."""
        known = self.loss or Loss(keys=self.cost.delta, pure=(self.cost.epsilon,))
        choices = self.choices(largest)
        squares = known.mu**2 + sum(square for square, _, dearer in choices if dearer <= 1)
        pure = sum(epsilon for _, epsilon, dearer in choices if dearer > 1)
        return [squares, known.keys, self.distance, pure]

    def as_cost(self) -> Cost:
        """For the convolution of everything that was accepted."""
        known = self.loss or Loss(keys=self.cost.delta, pure=(self.cost.epsilon,))
        return Cost(squares=known.mu**2, keys=known.keys, geometric=known.draws, pure=known.pure)


@cache
def least_mu(scale: float, moved: int) -> float:
    """The least mu whose hockey stick is nowhere below that of `moved` geometric draws moved by one."""
    against = np.arange(moved + 1)
    chance = binom.pmf(against, moved, 1 / (1 + math.exp(1 / scale)))
    loss = (moved - 2 * against) / scale
    at = np.linspace(0, moved / scale, POINTS, endpoint=False)
    delta = (chance * -np.expm1(np.minimum(0.0, at[:, None] - loss))).sum(axis=1)
    at, delta = at[delta > LEAST_DELTA], delta[delta > LEAST_DELTA]
    low, high = np.zeros(len(at)), np.full(len(at), 4 + 4 * moved / scale)
    for _ in range(60):
        mu = (low + high) / 2
        too_small = ndtr(mu / 2 - at / mu) - np.exp(at) * ndtr(-mu / 2 - at / mu) < delta
        low, high = np.where(too_small, mu, low), np.where(too_small, high, mu)
    return float(high.max())


class _Dice:
    """Choices from a source of entropy."""

    def __init__(self, entropy: Entropy) -> None:
        self.entropy = entropy

    def part(self, low: float, high: float) -> float:
        """A number between two others."""
        return low + (high - low) * int(draw_below(1 << 30, entropy=self.entropy)[0]) / (1 << 30)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(draw_below(len(choices), entropy=self.entropy)[0])]


@dataclass
class _Source:
    """A source by the second account: its caps, and what was charged, whatever became of it."""

    name: str
    epsilon: float
    delta: float
    caps: list[Amounts] = field(default_factory=list)  # the last one counts
    charges: list[Charge] = field(default_factory=list)
    amounts: list[list[float]] = field(
        default_factory=list
    )  # of the charges, under the cap of then

    @property
    def largest(self) -> Amounts:
        return max(self.caps)

    def take(self, charge: Charge) -> None:
        self.charges.append(charge)
        self.amounts.append(charge.amounts(self.largest))

    def spent(self) -> list[float]:
        return [math.fsum(column) for column in zip([0.0] * 4, *self.amounts, strict=True)]

    def verdict(self, charge: Charge) -> bool | None:
        """Whether the charge fits; None where rounding decides."""
        new = charge.amounts(self.largest)
        pairs = [(s + n, most) for s, n, most in zip(self.spent(), new, self.caps[-1], strict=True)]
        room = ROUNDING if all(c.exact for c in (*self.charges, charge)) else SEARCH
        if any(some > most * (1 + room) for some, most in pairs):
            return False
        return True if all(some <= most * (1 - room) for some, most in pairs) else None


@dataclass
class _Replay:
    """One ledger file, two accounts of it."""

    path: Path
    dice: _Dice
    faults: list[str] = field(default_factory=list)
    number: int = 0  # of sources
    asked: int = 0  # charges

    @property
    def book(self) -> Ledger:
        """The file opened anew: nothing may live in a process."""
        return Ledger(self.path)

    def fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)

    # --- caps

    def open(self) -> _Source:
        """A source with a cap."""
        name = f"population {'abcdefgh'[self.number]}"
        self.number += 1
        epsilon, delta = self.dice.part(0.5, 6), 10 ** self.dice.part(-7, -3)
        shares = (None, 0.5, 0.0) if self.number > 1 else (None, 0.5)
        change = self.book.cap(
            name, epsilon=epsilon, delta=delta, new_source=True, keys_share=self.dice.one_of(shares),
            pure=self.dice.one_of((None, 0.0)),
        )  # fmt: skip
        source = _Source(name=name, epsilon=epsilon, delta=delta)
        self._take(source, change.limits, epsilon, delta)
        return source

    def _take(self, source: _Source, limits: Amounts | None, epsilon: float, delta: float) -> None:
        """Checks that everything within the limits is (epsilon, delta)-DP, and keeps them."""
        if limits is None:
            self.fault("a cap has no limits")
            return
        total = gaussian(epsilon - limits.pure, math.sqrt(limits.mu2)) + limits.keys
        total += (1 + math.exp(epsilon)) * limits.distance
        if total > delta * (1 + ROUNDING):
            self.fault(
                f"a cap of epsilon {epsilon:.4g}, delta {delta:.3g} allows amounts that together have delta "
                f"{total:.3g}"
            )
        source.caps.append(limits)

    def change_cap(self, source: _Source) -> None:
        """Raises a cap, and tries changes that must be refused."""
        name, epsilon, delta = source.name, source.epsilon, source.delta
        self._must_refuse(
            lambda: self.book.cap(name, epsilon=2 * epsilon, delta=delta * 2),
            "raises a cap without a reason",
        )
        if source.caps[-1].keys:  # else there would be more noise and nothing less
            self._must_refuse(
                lambda: self.book.cap(name, epsilon=1.5 * epsilon, delta=delta / 4, reason="audit"),
                "takes a cap with more of one amount and less of another",
            )
        source.epsilon, source.delta = 1.5 * epsilon, 2 * delta
        change = self.book.cap(name, epsilon=source.epsilon, delta=source.delta, reason="audit")
        before = source.caps[-1]
        self._take(source, change.limits, source.epsilon, source.delta)
        for old, new, what in zip(before, source.caps[-1], NAMES, strict=True):
            if new < old:
                self.fault(f"a raised cap allows less {what} than before")

    # --- charges

    def draw_charge(self, source: _Source) -> Charge:
        """A charge for which rounding does not decide which amount it is booked by."""
        while True:
            charge = self._draw_charge(source)
            if all(abs(dearer - 1) > 1e-3 for *_, dearer in charge.choices(source.largest)):
                return charge

    def _draw_charge(self, source: _Source) -> Charge:
        """A charge of about a tenth of the cap; at times one that leaves exactly nothing, or is just too much."""
        dice = self.dice
        limits = source.caps[-1]
        if dice.part(0, 1) < 0.2:
            return self._last_charge(source, dice.one_of((1 - 1e-7, 1.01)))
        kind = dice.one_of(KINDS)
        square, keys = limits.mu2 * dice.part(0.01, 0.25), limits.keys * dice.part(0, 0.25)
        loss: Loss | None = Loss(mu=math.sqrt(square), keys=keys)
        # Of n draws of scale b, mu is about sqrt(n)/b; of a pure epsilon, about 1.25 epsilon.
        n, pure = int(dice.part(1, 20)), math.sqrt(square) / 1.3
        if limits.pure and dice.one_of((True, False)):
            pure = limits.pure * dice.part(0.05, 0.4)
        draws = ((math.sqrt(n / square), n),)
        if kind == "geometric":
            loss = Loss(keys=keys, draws=draws)
        elif kind == "pure":
            loss = Loss(keys=0.0, pure=(pure,))
        elif kind == "mixed":
            loss = Loss(
                mu=math.sqrt(square / 4), keys=keys, draws=((2 * draws[0][0], n),), pure=(pure / 2,)
            )
        elif kind == "stated":
            loss = None
        distance = limits.distance * dice.part(0, 0.02)
        return Charge(
            kind=kind, cost=self._cost(pure, max(keys, 1e-12)), loss=loss, distance=distance
        )

    def _last_charge(self, source: _Source, part: float) -> Charge:
        """This part of the noise and keys that are left, by the second account."""
        left = [most - spent for most, spent in zip(source.caps[-1], source.spent(), strict=True)]
        mu, keys = math.sqrt(max(0.0, left[0] * part)), max(0.0, left[1] * part)
        return Charge(
            kind="gaussian",
            cost=self._cost(0.1, max(keys, 1e-12)),
            loss=Loss(mu=mu, keys=min(1.0, keys)),
        )

    @staticmethod
    def _cost(epsilon: float, delta: float) -> Guarantee:
        return Guarantee(epsilon=epsilon, delta=delta)

    def charge(self, source: _Source, charge: Charge) -> None:
        """Books a charge, and compares the ledger's answer and what it says is left."""
        expected = source.verdict(charge)
        release_id = f"release{self.asked}"
        self.asked += 1
        given: dict[str, Any] = {"loss": charge.loss, "distance": charge.distance}
        answers = []
        asked: list[Callable[[], Any]] = [
            lambda: self.book.check(source.name, charge.cost, **given),
            lambda: self.book.reserve(
                source.name, charge.cost, release_id=release_id, what="audit", **given
            ),
        ]
        for ask in asked:
            try:
                ask()
                answers.append(True)
            except Refused:
                answers.append(False)
        if answers[0] != answers[1]:
            self.fault("the answer before a release is not the one at its booking")
        accepted = answers[1]
        if expected is False and accepted:
            self.fault(f"accepts a release ({charge.kind}) that exceeds the cap")
        if expected is True and not accepted:
            self.fault(f"refuses a release ({charge.kind}) that fits the cap")
        if accepted:
            source.take(charge)
            self._finish(release_id)
        self.compare(source)

    def _finish(self, release_id: str) -> None:
        """A release is published, stays booked, or fails after it was committed: all of them count."""
        what = self.dice.one_of(("published", "stopped", "failed"))
        if what != "stopped":
            self.book.commit(release_id, bundle="bundle", checksum="0" * 64)
        if what == "failed":
            self.book.reopen(release_id)

    def compare(self, source: _Source) -> None:
        """What the ledger says is left, against the second account."""
        account = self.book.account(source.name)
        if account.left is None:
            self.fault("the ledger does not say what is left")
            return
        room = ROUNDING if all(c.exact for c in source.charges) else SEARCH
        for left, most, spent, name in zip(
            account.left, source.caps[-1], source.spent(), NAMES, strict=True
        ):
            near = room * spent + ROUNDING * most
            if left > max(0.0, most - spent) + near:
                self.fault(f"more is left of the cap ({name}) than the releases so far leave")
            if left < max(0.0, most - spent - near):
                self.fault(f"less is left of the cap ({name}) than the releases so far leave")

    def check_total(self, source: _Source) -> None:
        """Everything that was accepted, convolved, is within the largest cap."""
        found = joint_delta([charge.as_cost() for charge in source.charges], source.epsilon)
        if found > source.delta * (1 + ROUNDING):
            self.fault(
                f"accepted releases have delta {found:.3g} together at epsilon {source.epsilon:.4g}, the cap is "
                f"{source.delta:.3g}"
            )

    def check_units(self, source: _Source) -> None:
        """A release of another unit, or of other neighbours, must not be added."""
        epsilon, delta = source.epsilon * 1e-9, source.delta * 1e-9
        others = [
            Guarantee(epsilon=epsilon, delta=delta, unit="user-day"),
            Guarantee(epsilon=epsilon, delta=delta, neighbours="replace"),
        ]
        for other in others:
            ask = partial(
                self.book.reserve, source.name, other, release_id=f"{source.name} {other.unit}",
                what="audit", loss=Loss(mu=1e-9, keys=0.0),
            )  # fmt: skip
            self._must_refuse(
                ask,
                f"adds a release per {other.unit} ({other.neighbours}) to one per user (add-remove)",
            )

    def check_series(self, source: _Source) -> None:
        """A lost period of a series stays spent, and is not booked twice."""
        part = Loss(mu=0.0, keys=0.0)
        step = Step(series="audit", period="2026-01")
        cost = self._cost(source.epsilon * 1e-4, source.delta * 1e-4)
        given: dict[str, Any] = {"what": "audit", "loss": part}
        self.book.reserve(source.name, cost, release_id=f"period{self.number}", step=step, **given)
        source.take(Charge(kind="gaussian", cost=cost, loss=part))
        for state in ("booked", "lost"):
            ask = partial(
                self.book.reserve, source.name, cost, release_id=f"{state}{self.number}", step=step, **given
            )  # fmt: skip
            self._must_refuse(ask, f"books a period of a series again that is {state}")
            self.book.lose(f"period{self.number}")
        self.compare(source)

    def _must_refuse(self, ask: Callable[[], Any], what: str) -> None:
        try:
            ask()
        except (Refused, UsageError):
            return
        self.fault(f"the ledger {what}")


def check_ledger(folder: Path, *, entropy: Entropy, sequences: int = 3) -> list[str]:
    """Random sequences of charges on several sources; one sentence for each wrong answer."""
    dice = _Dice(entropy)
    found: list[str] = []
    for number in range(sequences):
        replay = _Replay(path=folder / f"audit-{number}.ledger", dice=dice)
        try:
            _run(replay)
        except MurmurlogError as error:
            replay.fault(f"stops where it should go on: {error}")
        found += [what for what in replay.faults if what not in found]
    return found


def _run(replay: _Replay) -> None:
    sources = [replay.open() for _ in range(3)]
    for number in range(CHARGES):
        source = replay.dice.one_of(sources) if number >= len(sources) else sources[number]
        replay.charge(source, replay.draw_charge(source))
    replay.change_cap(sources[0])
    replay.check_series(sources[0])
    for number in range(CHARGES):
        source = sources[number % len(sources)]
        replay.charge(source, replay.draw_charge(source))
    for source in sources:
        replay.check_units(source)
        replay.check_total(source)
