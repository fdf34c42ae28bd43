"""The power of the attacks of an audit, and what the audit did not attack.

The result of an audit collects these values as its steps run; the terminal, the page and the JSON show them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from scipy.stats import binom

from murmurlog.auditing.epsilon_bounds import MOST_EPSILON, Counts, lower_bound
from murmurlog.auditing.observer import TRAINING

POWER = 0.99
STEPS = 40  # of a bisection


@dataclass(frozen=True, kw_only=True)
class Omission:
    """Something that was not attacked, and why."""

    what: str
    why: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class AttackPower:
    """What the attack at one setting would have seen with a probability of 99 %.

    `epsilon`: of two logs that can be told apart as far as this epsilon and the claimed delta allow at all;
    None where worlds are not independent or too few. `chance`: the probability that an item of one user
    alone is published; None where no user has one.
    """

    setting: str
    worlds: int  # of the pair that has most
    epsilon: float | None
    chance: float | None

    def as_json(self) -> dict[str, str | int | float | None]:
        return {
            "setting": self.setting,
            "worlds": self.worlds,
            "epsilon_seen_at_99_percent": self.epsilon,
            "own_item_shown_seen_at_99_percent": self.chance,
        }


def power_of_attack(
    setting: str,
    *,
    worlds: int,
    own_worlds: int,
    claim: float,
    delta: float,
    alpha: float,
    independent: bool,
) -> AttackPower:
    """The power of an attack with this many worlds of one pair, half of them on each side.

    `own_worlds` is the number of worlds of a pair in which the one user has items of its own.
    """
    tested = (worlds - worlds // TRAINING) // 2
    epsilon = _least_epsilon(tested, claim, delta, alpha) if independent else None
    return AttackPower(
        setting=setting,
        worlds=worlds,
        epsilon=epsilon,
        chance=_least_chance(own_worlds // 2, delta, alpha),
    )


def _least_epsilon(trials: int, claim: float, delta: float, alpha: float) -> float | None:
    """The least epsilon whose worst pair of laws is seen: with delta a sure sign, else a randomised response."""
    missed = (1 - POWER) / 2

    def is_seen(epsilon: float) -> bool:
        q = (1 - delta) / (1 + math.exp(epsilon))
        counts = Counts(
            hits=int(binom.ppf(missed, trials, 1 - q)),
            trials=trials,
            hits_of_neighbour=int(binom.isf(missed, trials, q)),
            trials_of_neighbour=trials,
        )
        return counts.least(delta=delta, alpha=alpha) > claim

    least = None if claim >= MOST_EPSILON else _least_seen(is_seen, claim, MOST_EPSILON)
    return None if least is None else round(least, 3)


def _least_chance(trials: int, delta: float, alpha: float) -> float | None:
    """The least chance that is seen to be above delta."""

    def is_seen(chance: float) -> bool:
        return lower_bound(int(binom.ppf(1 - POWER, trials, chance)), trials, alpha) > delta

    least = _least_seen(is_seen, delta, 1.0)
    return None if least is None else float(f"{least:.3g}")


def _least_seen(is_seen: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least value between two that is seen, by bisection; None if even the largest is not."""
    if not is_seen(high):
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


# --- what is left out -----------------------------------------------------------------------------

ALWAYS = (
    Omission(
        what="the steps inside a release: draws of noise, counts and bounds, reading, totals, the ledger",
        why="`make audit` in a clone of murmurlog checks them, and that it catches broken twins",
    ),
    Omission(
        what="everything in a bundle besides its rows",
        why="`make audit` in a clone looks for side channels in cards, sizes and sums",
    ),
    Omission(
        what="chances below one in a thousand",
        why="too few worlds: a delta of 1e-6 that is really 1e-4 is left to proofs and exact laws",
    ),
    Omission(what="your log, pools and ledger file", why="the audit writes its own"),
    Omission(what="units other than users", why="a world is one user more or less"),
    Omission(what="Spark", why="the attacks run on DuckDB"),
    Omission(what="left_out and --map", why="what they publish names no world"),
    Omission(what="time, memory and the machine", why="a bundle does not show them"),
)
MIXED = Omission(
    what="samples of worlds",
    why="this mechanism mixes users of all worlds: only guesses and own items are counted",
)


def omissions(
    *, tables: Sequence[str], attacked: Sequence[str], skipped: Sequence[str], mixed: bool
) -> list[Omission]:
    """Everything that was not attacked: settings, tables, and what no audit attacks.

    `tables` are those that the mechanism can make, `attacked` those of released worlds.
    """
    items = []
    for text in skipped:
        what, _, why = text.partition(": ")
        items.append(Omission(what=what, why=why))
    if rest := [table for table in tables if table not in attacked]:
        what = f"the table{'s' * (len(rest) > 1)} {', '.join(rest)}"
        items.append(Omission(what=what, why="attacked only if a --spec names it"))
    return [*items, *([MIXED] if mixed else []), *ALWAYS]
