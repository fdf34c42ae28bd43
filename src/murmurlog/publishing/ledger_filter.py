"""The budget filter of a ledger's source: limits that a cap fixes, and what fits them.

What is allowed here is what the proof of the filter needs (docs/explanation/budget-filter.md): limits are fixed
before the first release under them, a changed cap keeps what earlier caps promised, and nothing but booked
numbers decides what is refused.
"""

import math
import shlex
from collections.abc import Callable, Sequence

from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Amounts, Guarantee, Loss, amounts_of, limits_of
from murmurlog.privacy.budget_filter import KEYS_SHARE, contains, fits
from murmurlog.publishing.ledger_records import FILTER, Account, CapChange

CAP_EPSILON, CAP_DELTA = 3.0, 1e-5  # of a new source for which the owner sets no other
PURE_SHARE = 1 / 3  # of a first cap's epsilon (docs/explanation/decisions.md)
LAST_WITH_SUMS = "0.2.0"  # the last version that adds up epsilons, and converts such sources

NAMES = {
    "mu2": "the noise budget",
    "keys": "the chance that keys show",
    "distance": "the error that its sampler may have",
    "pure": "the epsilon for pure releases",
}


def check_rule(account: Account, ledger: str) -> None:
    """Refuses a source whose releases were added up, as ledgers did by default up to version 0.2.0.

    What it has spent says nothing about a rectangle, and one made now could be chosen by what was seen.
    """
    if account.rule == FILTER:
        return
    cap, first = "without a cap", ""
    if account.epsilon_cap is not None:
        cap = f"of a cap of epsilon {account.epsilon_cap:.6g}, delta {account.delta_cap:.3g}"
    else:
        first = "set its cap and "
    raise Refused(
        f'source "{account.name}" of {ledger} is under the rule sum, which this version does not have: epsilon '
        f"{account.epsilon_by_sum:.6g}, delta {account.delta_by_sum:.3g}\n  {cap} is spent, by {account.releases} "
        f"release{'s' * (account.releases != 1)}. Nothing was changed. murmurlog {LAST_WITH_SUMS} is the last "
        f"version that puts what is left\n  under the filter. There, {first}run: murmurlog ledger convert "
        f"{shlex.quote(account.name)} --to filter --ledger {shlex.quote(ledger)}"
    )


def pure_after(account: Account, epsilon: float, pure: float | None) -> float:
    """The pure part of a cap: as said, else a third of epsilon, else that of the largest cap.

    A lowered cap keeps its proportion, so that the next one can be the largest again.
    """
    if pure is not None:
        return pure
    largest = account.largest_cap
    if largest is None or largest.pure is None:
        return epsilon * PURE_SHARE
    if epsilon >= largest.epsilon:
        return largest.pure
    before = largest.epsilon - account.epsilon_by_sum
    return largest.pure * max(0.0, epsilon - account.epsilon_by_sum) / before


def limits_after(
    account: Account,
    history: Sequence[CapChange],
    *,
    epsilon: float,
    delta: float,
    keys_share: float | None,
    pure: float,
) -> tuple[float, Amounts]:
    """The share of keys and the limits of a cap, first or changed; raises unless the change is allowed.

    The share and the sampler's distance stay those of the first limits. Limits must contain all earlier
    ones, or lie within the largest: otherwise owners could choose, by what they saw, between caps that
    promise different things.
    """
    earlier = [change.limits for change in history if change.limits is not None]
    first = next((change for change in history if change.limits is not None), None)
    if first is not None and keys_share not in (None, first.keys_share):
        raise Refused(
            f'source "{account.name}" keeps the share {first.keys_share} of delta for keys that its first '
            f"rectangle fixed: leave --keys-share out"
        )
    if epsilon <= account.epsilon_by_sum or delta <= account.delta_by_sum:
        raise UsageError(
            f'epsilon {account.epsilon_by_sum:.6g}, delta {account.delta_by_sum:.3g} of source "{account.name}" '
            "were spent before its filter began: a cap must be larger than both"
        )
    share = first.keys_share if first is not None else keys_share
    share = KEYS_SHARE if share is None else share
    limits = limits_of(
        epsilon - account.epsilon_by_sum,
        delta - account.delta_by_sum,
        keys_share=share,
        pure=pure,
        distance=earlier[0].distance if earlier else None,
    )
    if not contains(limits, earlier) and not any(contains(other, [limits]) for other in earlier):
        raise Refused(
            f'a cap of epsilon {epsilon:.6g}, delta {delta:.3g} allows source "{account.name}" more of one '
            "amount and less of another than an earlier cap: then all caps together promise less than each "
            "says. Raise epsilon and delta (and --pure) together, or lower them together."
        )
    return share, limits


def amounts_for(
    account: Account, cost: Guarantee, *, loss: Loss | None, distance: float
) -> Amounts:
    """What a release books on a source beside epsilon and delta.

    Of a release without a loss nothing is known but (epsilon, delta).
    """
    if cost.notion == "none":
        raise Refused("what has no guarantee cannot be booked")
    loss = loss or Loss(keys=cost.plain_delta, pure=(cost.epsilon,))
    assert account.largest_cap is not None
    return amounts_of(loss, distance=distance, limits=account.largest_cap.limits)


def check_room(account: Account, more: Amounts) -> None:
    """Raises Refused unless a release fits into what is left."""
    assert account.limits is not None
    if fits(account.limits, [account.booked], more):
        return
    every = zip(NAMES, account.limits, account.booked, more, strict=True)
    short = [
        f"{percent(some, most)} of {NAMES[name]} ({percent_left(spent, most)} is left)"
        for name, most, spent, some in every
        if not fits(Amounts(most), [Amounts(spent)], Amounts(some))
    ]
    raise Refused(
        f'this release needs {" and ".join(short)} on source "{account.name}" '
        f"({account.releases} release{'s' * (account.releases != 1)} so far).\n  {_advice(account, more)}"
    )


def _advice(account: Account, more: Amounts) -> str:
    """What to do about a release that does not fit."""
    assert account.limits is not None
    assert account.left is not None
    limits, booked, left = account.limits, account.booked, account.left
    if not fits(Amounts(limits.distance), [Amounts(booked.distance)], Amounts(more.distance)):
        return (
            "The first cap of a source fixes this error, the smaller the larger its epsilon is: neither another "
            "cap nor\n  a smaller release changes it. Give a source a first cap of a smaller epsilon."
        )
    part, flag = 0.0, "of-cap"
    if not fits(Amounts(limits.pure), [Amounts(booked.pure)], Amounts(more.pure)):
        part, flag = left.pure, "epsilon"
    elif limits.mu2:
        part = min(rest / most for rest, most in zip(left[:2], limits[:2], strict=True) if most)
    smaller = f"Try --{flag} {_rounded_down(part)}, or raise" if part >= 1e-4 else "Raise"
    return (
        f"{smaller} the cap: murmurlog ledger cap {shlex.quote(account.name)} --epsilon ... --delta ... "
        "--reason ..."
    )


def spent_in_words(account: Account) -> str:
    """What was spent of each amount that the cap allows."""
    assert account.limits is not None
    return in_words(account.limits, account.booked)


def left_in_words(account: Account) -> str:
    """What is left of each amount, and for how many releases."""
    assert account.limits is not None
    text = in_words(account.limits, account.booked, percent_left)
    if account.last is None:
        return text
    fitting = account.room_for(account.last)
    plural = fitting != 1
    return f"{text}; {fitting} more release{'s' * plural} like the last fit{'s' * (not plural)}"


def in_words(
    limits: Amounts, some: Amounts, share: Callable[[float, float], str] | None = None
) -> str:
    """Amounts as shares of their limits."""
    share = share or percent
    every = zip(NAMES, some, limits, strict=True)
    # The sampler's error is a part of delta that hardly any release comes near.
    *texts, last = [
        f"{share(amount, most)} of {NAMES[name]}"
        for name, amount, most in every
        if most and (name != "distance" or amount > 0.01 * most)
    ]
    return f"{', '.join(texts)} and {last}" if texts else last


def percent(some: float, most: float) -> str:
    """A share that is spent, rounded up."""
    if not most:
        return "more than all" if some else "0 %"
    return _percent(100 * some / most, up=True)


def percent_left(spent: float, most: float) -> str:
    """A share that is left, rounded down."""
    return _percent(100 * max(0.0, 1 - spent / most), up=False) if most else "nothing"


def _percent(number: float, *, up: bool) -> str:
    """At most two digits after the point, and fewer for larger numbers."""
    if number > 1e6:
        return "more than a million %"
    digits = 0 if number >= 10 else 1 if number >= 1 else 2
    scaled = number * 10**digits
    # What is a whole number but for rounding stays so.
    near = round(scaled)
    whole = near if abs(scaled - near) < 1e-4 else (math.ceil if up else math.floor)(scaled)
    return (
        f"{whole / 10**digits:.{digits}f}".rstrip("0").rstrip(".") + " %"
        if digits
        else f"{whole} %"
    )


def _rounded_down(part: float) -> str:
    return f"{math.floor(part * 1e4) / 1e4:g}"
