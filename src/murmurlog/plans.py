"""Choosing parameters before any data is read: thresholds for a budget, and what they mean."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.mechanisms import (
    MECHANISMS,
    Gaussian,
    Mechanism,
    named,
    only_its_table,
    parse,
)
from murmurlog.noise import sampler_delta
from murmurlog.privacy import (
    SAFETY,
    Guarantee,
    Loss,
    check_budget,
    check_neighbours,
    compose,
    delta_of_losses,
    mu_of,
)

MECHANISM = "threshold"
EPSILON, DELTA, PER_USER = 1.0, 1e-6, 10
PROBABILITIES = (0.5, 0.95, 0.99)
LEFT_OUT = 0.02  # of the budget, for saying what was left out
KEY_SHARES = tuple(n / 20 for n in range(2, 19))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A mechanism with its parameters, and the guarantee they keep."""

    mechanism: Mechanism
    guarantee: Guarantee

    def passes(self) -> dict[str, int]:
        """How many users an item needs to be published with these probabilities."""
        needed = {str(p): self.mechanism.passes(p) for p in PROBABILITIES}
        return {p: n for p, n in needed.items() if n is not None}

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
        if not n:
            return "What is published is not chosen by a threshold on the number of users."
        if self.guarantee.notion == "none":
            return f"An item held by {n['0.5']} {unit}s is published as it is."
        if n["0.99"] == 0:
            return "Every item of the public list is published with a noisy count."
        alone = (
            f"one held by a single {unit} is published with a chance of at most delta"
            if self.mechanism.needs_delta
            else "keys of the public set that nobody holds are published too, some of them"
        )
        return (
            f"An item held by {n['0.5']} {unit}s is published with even odds, by {n['0.95']} with "
            f"95 % and by {n['0.99']} with 99 %; {alone}."
        )


def plan(
    *,
    mechanism: str = MECHANISM,
    epsilon: float | None = None,
    delta: float | None = None,
    per_user: int | None = None,
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
    per_user = usual_bound(mechanism) if per_user is None else per_user
    if letters or mechanism not in MECHANISMS:
        given = {"d": str(per_user), **({"noise": noise} if noise else {}), **(letters or {})}
        if noise and not letters:
            raise UsageError(f"{mechanism} says all there is to choose: leave --noise out")
        chosen = kind.from_letters(given) if letters else parse(mechanism)
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


def usual_bound(mechanism: str) -> int:
    """How many items a unit keeps unless the owner says otherwise."""
    return int(getattr(named(mechanism), "usual_bound", PER_USER))


def check_options(mechanism: str, options: Mapping[str, Any]) -> None:
    """Raises if an option is not one of the mechanism's."""
    kind = named(mechanism)
    for name in options:
        if name not in kind.options:
            whose = [m for m, other in MECHANISMS.items() if name in other.options]
            flag = "--" + name.replace("_", "-")
            if not whose:
                raise UsageError(f"no mechanism has an option {flag}")
            raise UsageError(f"{flag} is for {' and '.join(whose)}; {mechanism} does not take it")


def _split(tables: Sequence[str], options: Mapping[str, Any]) -> dict[str, float] | None:
    """Each table's share of epsilon by korolova's split; None if there is none."""
    split = options.get("split")
    if split is None:
        return None
    if set(split) != {"select", *tables} or "query" not in tables:
        raise UsageError(
            f"--split must name select and every table, query among them: tables are "
            f"{', '.join(tables)}, the split names {', '.join(split)}"
        )
    return {t: split[t] + (split["select"] if t == "query" else 0.0) for t in tables}


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
    options: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Plan], Guarantee]:
    """A plan for each table and the guarantee of all together. Each table gets its share."""
    options = options or {}
    check_options(mechanism, options)
    if shares and options.get("split"):
        raise UsageError("--shares and --split both divide epsilon: give one of them")
    share = _shares(tables, shares or _split(tables, options))
    bounds = per_user or {}
    if unknown := sorted(set(bounds) - set(tables)):
        raise UsageError(f"--per-user names {', '.join(unknown)}, which --tables does not list")
    if not letters and mechanism in MECHANISMS:
        epsilon = EPSILON if epsilon is None else epsilon
        delta = DELTA if delta is None else delta
    if "left_out" in tables and "query" not in tables:
        raise UsageError("--tables left_out needs query: it says what is not in that table")
    chosen = {
        table: ("left-out", dict[str, Any]())
        if table == "left_out"
        else named(mechanism).for_table(table, options)
        for table in tables
    }
    for table, (name, _) in chosen.items():
        only_its_table(name, named(name).tables, table)
    # Keys from a public set need no delta: it goes to the tables whose keys come from the log.
    needing = sum(share[t] for t, (name, _) in chosen.items() if named(name).needs_delta) or 1.0
    if noise in (None, "gaussian") and not letters and mechanism in MECHANISMS:
        assert epsilon is not None
        assert delta is not None
        joint = _plan_together(chosen, epsilon, delta, share, bounds, unit, neighbours)
        if joint is not None:
            return joint
    plans = {}
    for table, (name, its) in chosen.items():
        if named(name) is named(mechanism):
            name = mechanism  # with its parameters
        plans[table] = plan(
            mechanism=name,
            epsilon=None if epsilon is None else epsilon * share[table],
            delta=None if delta is None else delta * min(1.0, share[table] / needing),
            per_user=bounds.get(table, usual_bound(name)),
            noise=noise,
            unit=unit,
            neighbours=neighbours,
            letters=letters,
            options=its,
        )
    return plans, compose([each.guarantee for each in plans.values()])


def _plan_together(
    chosen: Mapping[str, tuple[str, dict[str, Any]]],
    epsilon: float,
    delta: float,
    share: Mapping[str, float],
    bounds: Mapping[str, int],
    unit: str,
    neighbours: str,
) -> tuple[dict[str, Plan], Guarantee] | None:
    """Several tables of Gaussian noise in one account, which costs them far less than a sum."""
    kinds = {table: named(name) for table, (name, _) in chosen.items()}
    if len(kinds) < 2 or not all(issubclass(kind, Gaussian) for kind in kinds.values()):
        return None
    check_budget(epsilon, delta)
    check_neighbours(neighbours)
    best: dict[str, Mechanism] = {}
    for keys in KEY_SHARES:  # of delta for new keys; the rest is for the noise
        mu = mu_of(epsilon=epsilon, delta=delta * (1 - keys) / SAFETY)
        tried: dict[str, Mechanism] = {}
        for table, kind in kinds.items():
            assert issubclass(kind, Gaussian)
            loss = Loss(mu=mu * math.sqrt(share[table]), keys=delta * keys * share[table] / SAFETY)
            bound = bounds.get(table, PER_USER)
            tried[table] = kind.for_loss(loss, d=bound, neighbours=neighbours, **chosen[table][1])
        if not best or _needed(tried) < _needed(best):
            best = tried
    total = total_of(best.values(), epsilon=epsilon, unit=unit, neighbours=neighbours)
    if total is None or total.delta > delta:
        return None
    plans = {
        table: Plan(
            mechanism=made,
            guarantee=made.guarantee(delta=delta * share[table], unit=unit, neighbours=neighbours),
        )
        for table, made in best.items()
    }
    return plans, total


def _needed(tried: Mapping[str, Mechanism]) -> int:
    return sum(made.passes(0.5) or 0 for made in tried.values())


def total_of(
    mechanisms: Collection[Mechanism], *, epsilon: float, unit: str, neighbours: str
) -> Guarantee | None:
    """The guarantee of all together in one account of Gaussian losses; None if they have none."""
    losses = []
    for made in mechanisms:
        loss = made.loss(neighbours=neighbours) if isinstance(made, Gaussian) else None
        if loss is None:
            return None
        losses.append(loss)
    scale = max(float(made.parameters()["scale"]) for made in mechanisms)
    parts = [made.guarantee(delta=0.5, unit=unit, neighbours=neighbours) for made in mechanisms]
    delta = delta_of_losses(losses, epsilon=epsilon) * math.sqrt(SAFETY)
    return Guarantee(
        epsilon=float(epsilon),
        delta=min(1.0, delta + sampler_delta(scale=scale, epsilon=epsilon)),
        unit=unit,
        neighbours=neighbours,
        assumptions=tuple(sorted({name for part in parts for name in part.assumptions})),
    )


def _shares(tables: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    if not tables:
        raise UsageError("--tables lists no table")
    if len(set(tables)) < len(tables):
        raise UsageError(f"--tables names a table twice: {', '.join(tables)}")
    if shares is None:
        aside = LEFT_OUT if "left_out" in tables and len(tables) > 1 else 0.0
        rest = len(tables) - (aside > 0)
        return {t: aside if aside and t == "left_out" else (1 - aside) / rest for t in tables}
    if set(shares) != set(tables):
        raise UsageError(
            f"--shares must name every table once: tables are {', '.join(tables)}, "
            f"shares were given for {', '.join(shares)}"
        )
    if any(not share > 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        raise UsageError(f"--shares must be positive and add up to 1, not {dict(shares)}")
    return dict(shares)
