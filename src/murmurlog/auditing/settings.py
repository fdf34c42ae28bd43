"""The budgets, bounds and tables at which the audit attacks a mechanism.

Sampling cannot detect a violation of a delta of 1e-6, but it can at a delta of 0.1, and the same code
runs at both: a mechanism that forgets to divide delta among d items does so at any delta. The audit
therefore attacks a mechanism at the claimed budget and at standard budgets that expose wrong
thresholds and bounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from murmurlog.auditing.neighbouring_logs import (
    FIRST,
    PAIR_MAKERS,
    Pair,
    Sizes,
    exchange,
    known_counts,
)
from murmurlog.errors import UsageError
from murmurlog.mechanisms import Accounted, Mechanism, Rounds, SessionTree, find_mechanism
from murmurlog.privacy import noise_sd
from murmurlog.privacy.counts import GRID

LISTS, POOL = "result_lists", "pool"  # options that name public files; the audit writes its own
FAKES = 0.25  # share of a pool's keys published with no users, so that the audit sees many of them
QUICK = (
    "items of many",
    "items at the threshold",
    "new items",
    "items at the threshold for others",
)
# Testing the law of counts needs many worlds too.
COUNTED_PAIRS = ("a click of many", "a session of many", "clicks of many")
DECLARED = 1_000_000  # users, more than any log of worlds has
MORE = 3  # factor on the number of worlds where effects are small


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A release to attack: its budget, bound and tables, and the pairs of neighbouring logs."""

    name: str
    mechanism: str | Mapping[str, str]
    epsilon: float
    delta: float
    per_user: int | Mapping[str, int] | None = 1
    neighbours: str = "add-remove"
    tables: tuple[str, ...] = ("query",)
    noise: str | None = None
    pairs: str = "queries"
    pair_names: tuple[str, ...] = ()  # empty: all pairs
    files: tuple[str, ...] = ()  # options that name public files
    world_factor: int = 1  # on the number of worlds
    replayed: bool = False  # whether to replay its counting; once per kind of counting is enough
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def independent(self) -> bool:
        """Whether the worlds of one log are independent samples."""
        if self.options.get("via_keywords"):  # builds queries from the keywords of all worlds
            return False
        names = self.mechanism.values() if isinstance(self.mechanism, Mapping) else [self.mechanism]
        return not any(find_mechanism(name).mixes_units for name in names)

    def make_pairs(self, mechanisms: Mapping[str, Mechanism]) -> list[Pair]:
        """The pairs for these mechanisms' bounds and thresholds."""
        sizes = _sizes(list(mechanisms.values()))
        pairs = PAIR_MAKERS[self.pairs](sizes)
        if self.pair_names:
            pairs = [pair for pair in pairs if pair.name in self.pair_names]
        if self.neighbours == "replace" and self.pairs != "exchanges":
            pairs = [exchange(pair) for pair in pairs]
        if not self.files:
            return pairs
        inside = [_put_in_pool(pair) if "rounds" in str(self.mechanism) else pair for pair in pairs]
        inside = [replace(pair, secret=False) for pair in inside]
        outside = [
            replace(pair, name=f"{pair.name} outside the pool", in_pools=False)
            for pair in pairs
            if POOL in self.files and "rounds" in str(self.mechanism) and pair.name in QUICK
        ]
        return inside + outside


def _put_in_pool(pair: Pair) -> Pair:
    """The pair in a public pool: a key of the one user's own is published at times without any user."""
    return replace(pair, near=known_counts(0, "mine0")) if pair.name == "new items" else pair


def _sizes(mechanisms: Sequence[Mechanism]) -> Sizes:
    """The sizes of groups that suffice for every one of these mechanisms."""
    d = max(int(mechanism.parameters().get("per_user") or 3) for mechanism in mechanisms)
    first = max(int(mechanism.parameters().get("first_threshold") or 1) for mechanism in mechanisms)
    near, below, sure = 1, 1, 1
    for mechanism in mechanisms:
        middle, sd = _threshold_and_sd(mechanism, d)
        near = max(near, math.ceil(middle))
        below = max(below, round(middle - 1.5 * sd))
        # So far above the threshold, selection does not distort the count's law.
        far = 8 if mechanism.parameters().get("noise") == "gaussian" else 16
        sure = max(sure, math.ceil(middle + far * sd + 4))
    return Sizes(d=d, near=near, below=below, sure=sure, crowd=max(sure, 3 * near), first=first)


def _threshold_and_sd(mechanism: Mechanism, d: int) -> tuple[float, float]:
    """(users that an item needs, standard deviation of the noise in users)."""
    parameters = mechanism.parameters()
    if isinstance(mechanism, SessionTree):  # a session of two queries is its user's only item
        mechanism, d = mechanism.selection, 1
    if isinstance(mechanism, Rounds):  # a user with d items gives each of them 1/sqrt d
        s = mechanism.schedule
        last = s.rounds - 1
        weight = sum(s.coefficients(last)) / math.sqrt(d)
        return s.thresholds[last] / GRID / weight, s.sd(last) / weight
    sd = 0.0
    if parameters.get("noise") and parameters.get("scale"):
        sd = noise_sd(noise=str(parameters["noise"]), scale=float(parameters["scale"]))
    threshold = (
        mechanism.needed_weight()
        if isinstance(mechanism, Accounted)
        else parameters.get("threshold")
    )
    return float(threshold or 1), sd


def claimed_setting(
    *,
    mechanism: str | Mapping[str, str],
    epsilon: float,
    delta: float,
    per_user: int | Mapping[str, int] | None = 1,
    neighbours: str = "add-remove",
    noise: str | None = None,
    tables: tuple[str, ...] | None = None,
    options: Mapping[str, Any] | None = None,
    files: tuple[str, ...] = (),
) -> Setting:
    """The setting with the claimed budget and the pairs that give the best bounds on epsilon."""
    names = set(mechanism.values()) if isinstance(mechanism, Mapping) else {mechanism}
    if tables is None:
        possible = [find_mechanism(name).tables for name in names]
        tables = ("query",) if all("query" in ts for ts in possible) else possible[0][:1]
    if "left_out" in tables:
        raise UsageError(
            "the audit cannot attack left_out, which summarises all worlds together: remove it from "
            "the tables"
        )
    pairs = _pairs_for(tables)
    pair_names: tuple[str, ...] = (*QUICK[:2], FIRST) if pairs == "queries" else ()
    factor = 1
    if pairs == "queries" and neighbours == "replace":
        pairs, factor = "exchanges", MORE
        pair_names = ("items of many for others", "items at the threshold for others")
    if "pool" in names:
        files = (*files, POOL)
    return Setting(
        name="as claimed", mechanism=mechanism, epsilon=epsilon, delta=delta, per_user=per_user,
        neighbours=neighbours, noise=noise, tables=tables, pairs=pairs, pair_names=pair_names,
        files=files, world_factor=factor, replayed=bool(options), options=options or {},
    )  # fmt: skip


def _pairs_for(tables: Sequence[str]) -> str:
    """The name of the pairs that suit these tables."""
    if set(tables) & {"session", "pair"}:
        return "sessions"
    if "log" in tables:
        return "logs"
    return "clicks" if "click" in tables else "queries"


def standard_settings(mechanism: str, *, noise: str | None = None) -> list[Setting]:
    """The audit's standard settings for one mechanism."""
    kind = find_mechanism(mechanism)
    shared: dict[str, Any] = {"mechanism": mechanism, "noise": noise}
    if mechanism == "pool":
        shared |= {"files": (POOL,)}
    if "query" not in kind.tables:
        return _settings_of_other_tables(kind.tables, shared)
    settings = [
        Setting(name="large delta, one item a user", epsilon=1.5, delta=0.05, **shared),
        Setting(name="large delta, three items a user", epsilon=1.5, delta=0.1, per_user=3,
                replayed=True, **shared),
        Setting(name="one user for another", epsilon=2.0, delta=0.02, neighbours="replace",
                pairs="exchanges", world_factor=MORE, **shared),
    ]  # fmt: skip
    if mechanism == "pool":
        return settings
    if "click" in kind.tables:
        settings.append(
            Setting(name="queries and clicks", epsilon=2.0, delta=0.2, tables=("query", "click"),
                    pairs="clicks", replayed=True, **shared)
        )  # fmt: skip
    if LISTS in kind.option_names():
        settings.append(
            Setting(name="clicks on public lists", epsilon=2.0, delta=0.1,
                    tables=("query", "click"), pairs="clicks", files=(LISTS,), replayed=True,
                    **shared)
        )  # fmt: skip
    if mechanism == "zealous":
        # The one variant with a threshold before the noise. It states a delta for plain DP too.
        settings.append(
            Setting(name="probabilistic, with a first threshold", epsilon=0.5, delta=0.1,
                    pair_names=(*QUICK, FIRST), options={"notion": "pdp", "users": DECLARED}, **shared)
        )  # fmt: skip
    if mechanism == "rounds":
        # All of epsilon for the one measurement that decides: the attack comes near the claim.
        settings.append(
            Setting(name="one round, keys only", epsilon=1.5, delta=0.05, pair_names=(*QUICK[:3], "items below the threshold"), world_factor=MORE,
                    options={"rounds": 1, "count_share": 0.0}, **shared)
        )  # fmt: skip
        settings.append(
            Setting(name="two rounds with memory", epsilon=20.0, delta=0.1, per_user=10,
                    pair_names=("new items", "one new item", "an item that is left alone",
                          "items beyond the others' bounds"),
                    options={"rounds": 2, "count_share": 0.0}, **shared)
        )  # fmt: skip
        settings.append(
            Setting(name="a public pool", epsilon=1.5, delta=0.05, pair_names=QUICK[:3], files=(POOL,),
                    options={"rounds": 3}, **shared)
        )  # fmt: skip
    if mechanism == "threshold" and noise != "geometric":
        # The noise is small relative to a count of one, so an error of half a step is visible.
        settings.append(
            Setting(name="little noise", epsilon=2.0, delta=0.1, pair_names=QUICK, world_factor=MORE,
                    **(shared | {"noise": "gaussian"}))
        )  # fmt: skip
    return settings


def _settings_of_other_tables(tables: Sequence[str], shared: Mapping[str, Any]) -> list[Setting]:
    """The standard settings of mechanisms that publish no query table."""
    shared = {**shared, "tables": tables[:1], "pairs": _pairs_for(tables), "per_user": 2}
    return [
        Setting(name="large delta", epsilon=2.0, delta=0.1, replayed=True, **shared),
        Setting(name="larger delta", epsilon=4.0, delta=0.3, **shared),
    ]
