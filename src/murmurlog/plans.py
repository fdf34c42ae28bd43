"""Choosing parameters before any data is read: thresholds for a budget, and what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.mechanisms import Mechanism, named
from murmurlog.privacy import Guarantee, compose

MECHANISM = "threshold"
LISTS = "korolova-lists"
EPSILON, DELTA, PER_USER = 1.0, 1e-6, 10
PROBABILITIES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A mechanism with its parameters, and the guarantee they keep."""

    mechanism: Mechanism
    guarantee: Guarantee

    def passes(self) -> dict[str, int]:
        """How many users an item needs to be published with these probabilities."""
        return {str(p): self.mechanism.passes(p) for p in PROBABILITIES}

    def as_json(self) -> dict[str, Any]:
        parameters = self.mechanism.parameters()
        return {
            "mechanism": str(self.mechanism),
            **parameters,
            "guarantee": self.guarantee.as_json(),
            "passes": self.passes(),
        }

    def sentence(self) -> str:
        """The threshold in words."""
        n = self.passes()
        unit = self.guarantee.unit
        if n["0.99"] == 0:
            return "Every item of the public list is published with a noisy count."
        return (
            f"An item held by {n['0.5']} {unit}s is published with even odds, by {n['0.95']} with "
            f"95 % and by {n['0.99']} with 99 %; one held by a single {unit} is published with a "
            f"chance of at most delta."
        )


def plan(
    *,
    mechanism: str = MECHANISM,
    epsilon: float | None = None,
    delta: float | None = None,
    per_user: int = PER_USER,
    noise: str | None = None,
    unit: str = "user",
    neighbours: str = "add-remove",
    letters: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """The parameters for a budget; or, from a mechanism's own letters, the guarantee they give.

    `options` are the mechanism's own choices, such as count="rows" for korolova.
    """
    kind = named(mechanism)
    if letters:
        given = {"d": str(per_user), **({"noise": noise} if noise else {}), **letters}
        chosen = kind.from_letters(given)
        return Plan(
            mechanism=chosen,
            guarantee=chosen.guarantee(
                epsilon=epsilon, delta=delta, unit=unit, neighbours=neighbours
            ),
        )
    epsilon = EPSILON if epsilon is None else epsilon
    delta = DELTA if delta is None else delta
    chosen = kind.solve(
        epsilon=epsilon,
        delta=delta,
        d=per_user,
        neighbours=neighbours,
        noise=noise,
        **(options or {}),
    )
    return Plan(
        mechanism=chosen,
        guarantee=chosen.guarantee(epsilon=epsilon, unit=unit, neighbours=neighbours),
    )


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a mechanism lets its user choose beyond a budget and a bound."""

    count: str = "users"
    split: Mapping[str, float] | None = None  # korolova: select=.., query=.., click=..
    lists: bool = False  # korolova: clicks on public lists of results
    set_only: bool = False

    def check(self, mechanism: str) -> None:
        """Raises if a choice is not one of the mechanism's."""
        if mechanism == LISTS:
            raise UsageError(f"{LISTS} is chosen by --mechanism korolova --result-lists FILE")
        for flag, given in (
            ("--count rows", self.count != "users"),
            ("--split", self.split is not None),
            ("--result-lists", self.lists),
        ):
            if given and mechanism != "korolova":
                raise UsageError(f"{flag} is korolova's; {mechanism} does not take it")

    def of(self, table: str, mechanism: str) -> tuple[str, dict[str, Any]]:
        """The mechanism of one table and its options."""
        if mechanism != "korolova":
            return mechanism, {}
        if table == "click" and self.lists:
            return LISTS, {}
        options: dict[str, Any] = {"count": self.count, "counts": not self.set_only}
        if self.split and table == "query":
            options["select"] = self.split["select"] / (self.split["select"] + self.split["query"])
        return mechanism, options

    def shares(self, tables: Sequence[str]) -> dict[str, float] | None:
        """Each table's share of epsilon by the split; None if there is none."""
        if self.split is None:
            return None
        if set(self.split) != {"select", *tables} or "query" not in tables:
            raise UsageError(
                f"--split must name select and every table, query among them: tables are "
                f"{', '.join(tables)}, the split names {', '.join(self.split)}"
            )
        return {t: self.split[t] + (self.split["select"] if t == "query" else 0.0) for t in tables}


def plan_tables(
    tables: Sequence[str],
    *,
    mechanism: str = MECHANISM,
    epsilon: float | None = None,
    delta: float | None = None,
    shares: Mapping[str, float] | None = None,
    per_user: Mapping[str, int] | None = None,
    noise: str | None = None,
    unit: str = "user",
    neighbours: str = "add-remove",
    letters: Mapping[str, str] | None = None,
    choices: Choices | None = None,
) -> tuple[dict[str, Plan], Guarantee]:
    """A plan for each table and the guarantee of all together. Each table gets its share."""
    choices = choices or Choices()
    choices.check(mechanism)
    if shares and choices.split:
        raise UsageError("--shares and --split both divide epsilon: give one of them")
    share = _shares(tables, shares or choices.shares(tables))
    bounds = per_user or {}
    if unknown := sorted(set(bounds) - set(tables)):
        raise UsageError(f"--per-user names {', '.join(unknown)}, which --tables does not list")
    if epsilon is None and not letters:
        epsilon = EPSILON
    if delta is None and not letters:
        delta = DELTA
    chosen = {table: choices.of(table, mechanism) for table in tables}
    # Keys from public lists need no delta: it goes to the tables whose keys come from the log.
    needing = sum(share[table] for table, (name, _) in chosen.items() if name != LISTS) or 1.0
    plans = {}
    for table, (name, options) in chosen.items():
        plans[table] = plan(
            mechanism=name,
            epsilon=None if epsilon is None else epsilon * share[table],
            delta=None if delta is None else delta * min(1.0, share[table] / needing),
            per_user=bounds.get(table, PER_USER),
            noise=noise,
            unit=unit,
            neighbours=neighbours,
            letters=letters,
            options=options,
        )
    return plans, compose([each.guarantee for each in plans.values()])


def _shares(tables: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    if not tables:
        raise UsageError("--tables lists no table")
    if len(set(tables)) < len(tables):
        raise UsageError(f"--tables names a table twice: {', '.join(tables)}")
    if shares is None:
        return {table: 1 / len(tables) for table in tables}
    if set(shares) != set(tables):
        raise UsageError(
            f"--shares must name every table once: tables are {', '.join(tables)}, "
            f"shares were given for {', '.join(shares)}"
        )
    if any(not share > 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        raise UsageError(f"--shares must be positive and add up to 1, not {dict(shares)}")
    return dict(shares)
