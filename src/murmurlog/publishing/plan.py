"""Choosing parameters before any data is read: thresholds for a budget, and what they mean."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.mechanisms import MECHANISMS, Accounted, Mechanism, check_table, named, parse
from murmurlog.privacy import (
    SAFETY,
    Amounts,
    Guarantee,
    Loss,
    bisect,
    check_budget,
    check_neighbours,
    compose,
    delta_of_losses,
    loss_of_part,
    mu_of,
)
from murmurlog.privacy.sampler import noise_distance, sampler_delta, sampler_distance

MECHANISM = "rounds"
USUAL = {"session": "sessions", "log": "synthetic", "left_out": "left-out"}  # the others: MECHANISM
EPSILON, DELTA = 1.0, 1e-6
MOST_EPSILON = 10_000  # beyond, there is hardly any noise left to scale
PROBABILITIES = (0.5, 0.95, 0.99)
LEFT_OUT = 0.02  # of the budget, for the left_out table
KEY_SHARES = tuple(n / 20 for n in range(2, 19))
STRETCHES = (2.0, 1.7, 1.5, 1.35, 1.25, 1.15, 1.08, 1.04)  # factors on budgets in one account


def drawn_with(mechanisms: Iterable[Mechanism], total: Guarantee) -> float:
    """The part of a release's delta that is set aside for the sampler."""
    scale = _largest_scale(mechanisms)
    if scale is None or total.notion == "none":
        return 0.0
    return sampler_delta(scale=scale, epsilon=total.epsilon)


def distance_of(mechanisms: Iterable[Mechanism], *, keys: bool = True) -> float:
    """The total variation between a release and one with exact noise, once for all its tables.

    Without `keys` that of a release that compared whole texts.
    """
    scale = _largest_scale(mechanisms)
    if scale is None:
        return 0.0
    return sampler_distance(scale) if keys else noise_distance(scale)


def _largest_scale(mechanisms: Iterable[Mechanism]) -> float | None:
    scales = [mechanism.parameters().get("scale") for mechanism in mechanisms]
    return max((float(scale) for scale in scales if scale is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of what a source may spend; `delta` is the one at which its cost alone is stated."""

    loss: Loss
    delta: float

    @classmethod
    def of(cls, limits: Amounts, part: float, *, delta: float) -> "Part":
        """This part of the limits of a cap, and of its delta."""
        return cls(loss=loss_of_part(limits, part), delta=part * delta)


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
        if letters and mechanism not in MECHANISMS:
            raise UsageError(f"{mechanism} states its own parameters: leave --set out")
        if noise and not letters:
            raise UsageError(f"{mechanism} already fixes the noise: leave --noise out")
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
    """The default number of items a unit keeps."""
    return named(mechanism).usual_bound


def usual_mechanism(*, noise: str | None, letters: Mapping[str, str] | None) -> str | None:
    """The mechanism if none is named: threshold for letters or geometric noise, else the default."""
    return "threshold" if letters or noise not in (None, "gaussian") else None


def mechanisms_for(
    tables: Sequence[str], mechanism: str | Mapping[str, str] | None = None
) -> dict[str, str]:
    """The mechanism of each table: one for all, one a table, or the defaults."""
    if not tables:
        raise UsageError("--tables lists no table")
    if len(set(tables)) < len(tables):
        raise UsageError(f"--tables names a table twice: {', '.join(tables)}")
    given = {} if mechanism is None else mechanism
    if isinstance(given, str):
        given = dict.fromkeys((t for t in tables if t != "left_out"), given)
    if unknown := sorted(set(given) - set(tables)):
        raise UsageError(f"--mechanism names {', '.join(unknown)}, which --tables does not list")
    return {table: given.get(table, USUAL.get(table, MECHANISM)) for table in tables}


def check_options(mechanisms: Collection[str], options: Mapping[str, Any]) -> None:
    """Raises if an option belongs to none of these mechanisms."""
    known = {option for name in mechanisms for option in named(name).option_names()}
    for name in options:
        if name not in known:
            whose = [m for m, other in MECHANISMS.items() if name in other.option_names()]
            flag = "--" + name.replace("_", "-")
            if not whose:
                raise UsageError(f"no mechanism has an option {flag}")
            raise UsageError(
                f"{flag} is for {' and '.join(whose)}; {', '.join(dict.fromkeys(mechanisms))} does "
                "not take it: leave it out, or choose another --mechanism"
            )


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
    mechanism: str | Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    shares: Mapping[str, float] | None = None,
    per_user: Mapping[str, int] | None = None,
    noise: str | None = None,
    unit: str = "user",
    neighbours: str = "add-remove",
    letters: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    part: Part | None = None,
) -> tuple[dict[str, Plan], Guarantee]:
    """A plan for each table, which gets its share of the budget, and the guarantee of all together.

    The budget is (epsilon, delta), or a part of what a source may spend.
    """
    options = options or {}
    names = mechanisms_for(tables, mechanism or usual_mechanism(noise=noise, letters=letters))
    check_options(names.values(), options)
    if shares and options.get("split"):
        raise UsageError("--shares and --split both divide epsilon: give one of them")
    share = _shares(tables, shares or _split(tables, options))
    bounds = per_user or {}
    if unknown := sorted(set(bounds) - set(tables)):
        raise UsageError(f"--per-user names {', '.join(unknown)}, which --tables does not list")
    if small := [n for n in bounds.values() if n < 1]:
        raise UsageError(f"--per-user must be at least 1, not {small[0]}")
    if epsilon is not None and epsilon > MOST_EPSILON:
        raise UsageError(f"--epsilon {epsilon:g} protects nobody: use a smaller one, such as 1")
    if "left_out" in tables and "query" not in tables:
        raise UsageError("--tables left_out needs query: it says what is not in that table")
    request = _Request(
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        unit=unit,
        neighbours=neighbours,
        letters=letters,
        part=part,
        tables={
            table: _Table.of(table, name, share[table], bounds.get(table), options)
            for table, name in names.items()
        },
    )
    return request.plan()


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The request for one table."""

    mechanism: str  # a name, or a whole text
    options: Mapping[str, Any]
    share: float
    per_user: int

    @classmethod
    def of(
        cls,
        table: str,
        name: str,
        share: float,
        per_user: int | None,
        options: Mapping[str, Any],
    ) -> "_Table":
        kind = named(name)
        own = {n: value for n, value in options.items() if n in kind.option_names()}
        chosen, its = ("left-out", {}) if table == "left_out" else kind.for_table(table, own)
        check_table(chosen, named(chosen).tables, table)
        return cls(
            mechanism=name if named(chosen) is kind else chosen,  # with its parameters, if any
            options=its,
            share=share,
            per_user=usual_bound(chosen) if per_user is None else per_user,
        )


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The request for all tables of a release."""

    epsilon: float | None
    delta: float | None
    noise: str | None
    unit: str
    neighbours: str
    letters: Mapping[str, str] | None
    part: Part | None
    tables: Mapping[str, _Table]

    def plan(self) -> tuple[dict[str, Plan], Guarantee]:
        """All tables in one account if possible, else each on its own."""
        names = [table.mechanism for table in self.tables.values()]
        if self.part is not None:
            return self._of_part(self.part)
        if self.letters or not all(name in MECHANISMS for name in names):
            plans = self._each(self.epsilon, self.delta)
            return plans, compose([each.guarantee for each in plans.values()])
        epsilon = EPSILON if self.epsilon is None else self.epsilon
        delta = DELTA if self.delta is None else self.delta
        if len(names) > 1:
            joint = self._gaussian(epsilon, delta) or self._stretched(epsilon, delta)
            if joint:
                return joint
        plans = self._each(epsilon, delta)
        return plans, compose([each.guarantee for each in plans.values()])

    def _each(self, epsilon: float | None, delta: float | None) -> dict[str, Plan]:
        """Every table on its own, with its share."""
        # Keys from a public set need no delta: it goes to the tables whose keys come from the log.
        needing = [t.share for t in self.tables.values() if named(t.mechanism).needs_delta]
        return {
            table: plan(
                mechanism=its.mechanism,
                epsilon=None if epsilon is None else epsilon * its.share,
                delta=None if delta is None else delta * min(1.0, its.share / (sum(needing) or 1)),
                per_user=its.per_user,
                noise=self.noise,
                unit=self.unit,
                neighbours=self.neighbours,
                letters=self.letters,
                options=its.options,
            )
            for table, its in self.tables.items()
        }

    def _gaussian(self, epsilon: float, delta: float) -> tuple[dict[str, Plan], Guarantee] | None:
        """All tables with Gaussian noise, solved for their parts of one account; None if impossible."""
        kinds = {table: named(its.mechanism) for table, its in self.tables.items()}
        able = all(issubclass(kind, Accounted) for kind in kinds.values())
        if not able or self.noise not in (None, "gaussian"):
            return None
        check_budget(epsilon, delta)
        check_neighbours(self.neighbours)
        best: dict[str, Mechanism] = {}
        for keys in KEY_SHARES:  # of delta for new keys; the rest is for the noise
            mu = mu_of(epsilon=epsilon, delta=delta * (1 - keys) / SAFETY)
            tried = self._solved(Loss(mu=mu, keys=delta * keys / SAFETY))
            if not best or _bar(tried) < _bar(best):
                best = tried
        try:
            plans = self._stated(best, delta)
        except UsageError:
            return None  # the error is raised when they are planned with their shares
        total = total_of([(each.mechanism, each.guarantee) for each in plans.values()], epsilon)
        return None if total is None or total.delta > delta else (plans, total)

    def _solved(self, loss: Loss) -> dict[str, Mechanism]:
        """Every table with its share of a loss."""
        made: dict[str, Mechanism] = {}
        for table, its in self.tables.items():
            kind = named(its.mechanism)
            assert issubclass(kind, Accounted)
            own = Loss(mu=loss.mu * math.sqrt(its.share), keys=loss.keys * its.share)
            made[table] = kind.for_loss(
                own, d=its.per_user, neighbours=self.neighbours, **its.options
            )
        return made

    def _of_part(self, part: Part) -> tuple[dict[str, Plan], Guarantee]:
        """All tables with Gaussian noise that spends a part of a source's limits."""
        check_neighbours(self.neighbours)
        for table, its in self.tables.items():
            if its.mechanism not in MECHANISMS or not issubclass(named(its.mechanism), Accounted):
                raise UsageError(
                    f"--of-cap needs mechanisms that can be solved for their noise, and {its.mechanism:.60} "
                    "cannot: give --epsilon and --delta instead"
                )
            if not part.loss.keys and table != "left_out":
                raise UsageError(
                    f"the source keeps nothing of delta for keys, so --of-cap cannot make a {table} table"
                )
        if self.letters or self.noise not in (None, "gaussian"):
            raise UsageError("--of-cap chooses Gaussian noise itself: leave --set and --noise out")
        plans = self._stated(self._solved(part.loss), part.delta)
        parts = [(each.mechanism, each.guarantee) for each in plans.values()]
        if len(parts) == 1:
            return plans, parts[0][1]

        def excess(epsilon: float) -> float:
            total = total_of(parts, epsilon)
            assert total is not None
            return total.delta - part.delta

        summed = math.fsum(stated.epsilon for _, stated in parts)
        total = total_of(parts, bisect(excess, good=summed, bad=0.0, steps=40))
        assert total is not None
        return plans, total

    def _stated(self, made: Mapping[str, Mechanism], delta: float) -> dict[str, Plan]:
        """Each table's mechanism with its own cost at the table's share of this delta."""
        plans: dict[tuple[Mechanism, float], Plan] = {}  # tables often have the same mechanism
        for table, each in made.items():
            at = each, delta * self.tables[table].share
            if at not in plans:
                guarantee = each.guarantee(delta=at[1], unit=self.unit, neighbours=self.neighbours)
                plans[at] = Plan(mechanism=each, guarantee=guarantee)
        return {t: plans[each, delta * self.tables[t].share] for t, each in made.items()}

    def _stretched(self, epsilon: float, delta: float) -> tuple[dict[str, Plan], Guarantee] | None:
        """Every table on its own with more than its share, if one account allows it."""
        if not any(issubclass(named(t.mechanism), Accounted) for t in self.tables.values()):
            return None  # only (epsilon, delta) is known of them: hardly any gain
        for stretch in STRETCHES:
            try:
                plans = self._each(epsilon * stretch, delta / 2)
            except UsageError:
                return None  # the error is raised when they are planned with their shares
            parts = [(each.mechanism, each.guarantee) for each in plans.values()]
            total = total_of(parts, epsilon)
            if total is not None and total.delta <= delta:
                return plans, total
        return None


def _bar(tried: Mapping[str, Mechanism]) -> float:
    """What items of all tables need to be published: comparable between calibrations only."""
    return math.fsum(math.log(made.bar()) for made in tried.values() if isinstance(made, Accounted))


def total_of(parts: Collection[tuple[Mechanism, Guarantee]], epsilon: float) -> Guarantee | None:
    """The guarantee of all together in one account, at this epsilon; None if there is none.

    A part that has no loss of its own enters by its stated guarantee.
    """
    summed = compose([stated for _, stated in parts])  # raises if they do not belong together
    if summed.notion != "dp":
        return None
    scale = max(float(made.parameters()["scale"] or 1.0) for made, _ in parts)
    delta = delta_of_losses(losses_of(parts), epsilon=epsilon) * math.sqrt(SAFETY)
    return replace(
        summed,
        epsilon=float(epsilon),
        delta=min(1.0, delta + sampler_delta(scale=scale, epsilon=epsilon)),
    )


def losses_of(parts: Iterable[tuple[Mechanism, Guarantee]]) -> list[Loss]:
    """What each table costs: its mechanism's loss, else that of anything with its plain guarantee."""
    return [
        made.loss(neighbours=stated.neighbours)
        if isinstance(made, Accounted)
        else Loss(keys=stated.plain_delta, pure=(stated.epsilon,))
        for made, stated in parts
    ]


def _shares(tables: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
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
