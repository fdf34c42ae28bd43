"""What public parameters decide before any data is read: mechanisms and their options, thresholds for a budget, and
the guarantee, with what an owner must accept to have a weak one."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms import (
    MECHANISMS,
    Accounted,
    Mechanism,
    OptionContext,
    check_table,
    declared_options,
    find_mechanism,
    parse,
)
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
BOUNDS = ("d", "m", "q_f", "c_f")  # letters for the number of items a unit keeps
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
        users = self.passes()
        unit = self.guarantee.unit
        if not users:
            return "What is published is not chosen by a threshold on the number of users."
        if self.guarantee.notion == "none":
            return f"An item held by {users['0.5']} {unit}s is published as it is."
        if users["0.99"] == 0:
            return "Every item of the public list is published with a noisy count."
        alone = (
            f"one held by a single {unit} is published with a chance of at most delta"
            if self.mechanism.needs_delta
            else "keys of the public set that nobody holds are published too, some of them"
        )
        return (
            f"An item held by {users['0.5']} {unit}s is published with even odds, by {users['0.95']} with "
            f"95 % and by {users['0.99']} with 99 %; {alone}."
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
    mechanism_class = find_mechanism(mechanism)
    per_user = mechanism_class.usual_bound if per_user is None else per_user
    if letters or mechanism not in MECHANISMS:
        if letters and mechanism not in MECHANISMS:
            raise UsageError(f"{mechanism} states its own parameters: leave --set out")
        if noise and not letters:
            raise UsageError(f"{mechanism} already fixes the noise: leave --noise out")
        if letters:
            noise_letter = {"noise": noise} if noise else {}
            instance = mechanism_class.from_letters({"d": str(per_user), **noise_letter, **letters})
        else:
            instance = parse(mechanism)
        return Plan(
            mechanism=instance,
            guarantee=instance.guarantee(
                epsilon=epsilon, delta=delta, unit=unit, neighbours=neighbours
            ),
        )
    epsilon = EPSILON if epsilon is None else epsilon
    delta = DELTA if delta is None else delta
    instance = mechanism_class.solve(
        epsilon=epsilon,
        delta=delta,
        d=per_user,
        neighbours=neighbours,
        noise=noise,
        **(options or {}),
    )
    return Plan(
        mechanism=instance,
        guarantee=instance.guarantee(epsilon=epsilon, unit=unit, neighbours=neighbours),
    )


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
    names = {} if mechanism is None else mechanism
    if isinstance(names, str):
        names = dict.fromkeys((t for t in tables if t != "left_out"), names)
    if unknown := sorted(set(names) - set(tables)):
        raise UsageError(f"--mechanism names {', '.join(unknown)}, which --tables does not list")
    return {table: names.get(table, USUAL.get(table, MECHANISM)) for table in tables}


def check_options(mechanisms: Collection[str], options: Mapping[str, Any]) -> None:
    """Raises if an option belongs to none of these mechanisms."""
    accepted = {option for name in mechanisms for option in find_mechanism(name).option_names()}
    for name in options:
        if name not in accepted:
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
        requested = find_mechanism(name)
        options = {n: value for n, value in options.items() if n in requested.option_names()}
        maker, arguments = (
            ("left-out", {}) if table == "left_out" else requested.for_table(table, options)
        )
        mechanism_class = find_mechanism(maker)
        check_table(maker, mechanism_class.tables, table)
        return cls(
            # With its parameters, if any.
            mechanism=name if mechanism_class is requested else maker,
            options=arguments,
            share=share,
            per_user=mechanism_class.usual_bound if per_user is None else per_user,
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
            plans = self._apart(self.epsilon, self.delta)
            return plans, compose([plan.guarantee for plan in plans.values()])
        epsilon = EPSILON if self.epsilon is None else self.epsilon
        delta = DELTA if self.delta is None else self.delta
        if len(names) > 1:
            together = self._with_gaussian_noise(epsilon, delta) or self._stretch(epsilon, delta)
            if together:
                return together
        plans = self._apart(epsilon, delta)
        return plans, compose([plan.guarantee for plan in plans.values()])

    def _apart(self, epsilon: float | None, delta: float | None) -> dict[str, Plan]:
        """Every table on its own, with its share."""
        # Keys from a public set need no delta: it goes to the tables whose keys come from the log.
        needing = [t.share for t in self.tables.values() if find_mechanism(t.mechanism).needs_delta]
        return {
            table: plan(
                mechanism=request.mechanism,
                epsilon=None if epsilon is None else epsilon * request.share,
                delta=None
                if delta is None
                else delta * min(1.0, request.share / (sum(needing) or 1)),
                per_user=request.per_user,
                noise=self.noise,
                unit=self.unit,
                neighbours=self.neighbours,
                letters=self.letters,
                options=request.options,
            )
            for table, request in self.tables.items()
        }

    def _with_gaussian_noise(
        self, epsilon: float, delta: float
    ) -> tuple[dict[str, Plan], Guarantee] | None:
        """All tables with Gaussian noise, solved for their parts of one account; None if impossible."""
        able = all(issubclass(find_mechanism(t.mechanism), Accounted) for t in self.tables.values())
        if not able or self.noise not in (None, "gaussian"):
            return None
        check_budget(epsilon, delta)
        check_neighbours(self.neighbours)
        best: dict[str, Mechanism] = {}
        for keys in KEY_SHARES:  # of delta for new keys; the rest is for the noise
            mu = mu_of(epsilon=epsilon, delta=delta * (1 - keys) / SAFETY)
            candidate = self._solve(Loss(mu=mu, keys=delta * keys / SAFETY))
            if not best or _needed_weight(candidate) < _needed_weight(best):
                best = candidate
        try:
            plans = self._state(best, delta)
        except UsageError:
            return None  # the error is raised when they are planned with their shares
        total = total_of([(plan.mechanism, plan.guarantee) for plan in plans.values()], epsilon)
        return None if total is None or total.delta > delta else (plans, total)

    def _solve(self, loss: Loss) -> dict[str, Mechanism]:
        """Every table with its share of a loss."""
        mechanisms: dict[str, Mechanism] = {}
        for table, request in self.tables.items():
            mechanism_class = find_mechanism(request.mechanism)
            assert issubclass(mechanism_class, Accounted)
            share = Loss(mu=loss.mu * math.sqrt(request.share), keys=loss.keys * request.share)
            mechanisms[table] = mechanism_class.for_loss(
                share, d=request.per_user, neighbours=self.neighbours, **request.options
            )
        return mechanisms

    def _of_part(self, part: Part) -> tuple[dict[str, Plan], Guarantee]:
        """All tables with Gaussian noise that spends a part of a source's limits."""
        check_neighbours(self.neighbours)
        for table, request in self.tables.items():
            name = request.mechanism
            if name not in MECHANISMS or not issubclass(find_mechanism(name), Accounted):
                raise UsageError(
                    f"--of-cap needs mechanisms that can be solved for their noise, and {name:.60} "
                    "cannot: give --epsilon and --delta instead"
                )
            if not part.loss.keys and table != "left_out":
                raise UsageError(
                    f"the source keeps nothing of delta for keys, so --of-cap cannot make a {table} table"
                )
        if self.letters or self.noise not in (None, "gaussian"):
            raise UsageError("--of-cap chooses Gaussian noise itself: leave --set and --noise out")
        plans = self._state(self._solve(part.loss), part.delta)
        parts = [(plan.mechanism, plan.guarantee) for plan in plans.values()]
        if len(parts) == 1:
            return plans, parts[0][1]

        def excess(epsilon: float) -> float:
            total = total_of(parts, epsilon)
            assert total is not None
            return total.delta - part.delta

        by_sum = math.fsum(guarantee.epsilon for _, guarantee in parts)
        total = total_of(parts, bisect(excess, good=by_sum, bad=0.0, steps=40))
        assert total is not None
        return plans, total

    def _state(self, mechanisms: Mapping[str, Mechanism], delta: float) -> dict[str, Plan]:
        """Each table's mechanism with its own cost at the table's share of this delta."""
        plans: dict[str, Plan] = {}
        costs: dict[tuple[Mechanism, float], Plan] = {}  # tables often have the same mechanism
        for table, mechanism in mechanisms.items():
            share = delta * self.tables[table].share
            if (mechanism, share) not in costs:
                guarantee = mechanism.guarantee(
                    delta=share, unit=self.unit, neighbours=self.neighbours
                )
                costs[mechanism, share] = Plan(mechanism=mechanism, guarantee=guarantee)
            plans[table] = costs[mechanism, share]
        return plans

    def _stretch(self, epsilon: float, delta: float) -> tuple[dict[str, Plan], Guarantee] | None:
        """Every table on its own with more than its share, if one account allows it."""
        if not any(
            issubclass(find_mechanism(t.mechanism), Accounted) for t in self.tables.values()
        ):
            return None  # only (epsilon, delta) is known of them: hardly any gain
        for stretch in STRETCHES:
            try:
                plans = self._apart(epsilon * stretch, delta / 2)
            except UsageError:
                return None  # the error is raised when they are planned with their shares
            parts = [(plan.mechanism, plan.guarantee) for plan in plans.values()]
            total = total_of(parts, epsilon)
            if total is not None and total.delta <= delta:
                return plans, total
        return None


def _needed_weight(mechanisms: Mapping[str, Mechanism]) -> float:
    """What items of all tables need to be published: comparable between calibrations only."""
    return math.fsum(
        math.log(m.needed_weight()) for m in mechanisms.values() if isinstance(m, Accounted)
    )


def total_of(parts: Collection[tuple[Mechanism, Guarantee]], epsilon: float) -> Guarantee | None:
    """The guarantee of all together in one account, at this epsilon; None if there is none.

    A part that has no loss of its own enters by its stated guarantee.
    """
    by_sum = compose([guarantee for _, guarantee in parts])  # raises if they do not belong together
    if by_sum.notion != "dp":
        return None
    scale = max(float(mechanism.parameters()["scale"] or 1.0) for mechanism, _ in parts)
    delta = delta_of_losses(losses_of(parts), epsilon=epsilon) * math.sqrt(SAFETY)
    return replace(
        by_sum,
        epsilon=float(epsilon),
        delta=min(1.0, delta + sampler_delta(scale=scale, epsilon=epsilon)),
    )


def losses_of(parts: Iterable[tuple[Mechanism, Guarantee]]) -> list[Loss]:
    """What each table costs: its mechanism's loss, else that of anything with its plain guarantee."""
    return [
        mechanism.loss(neighbours=guarantee.neighbours)
        if isinstance(mechanism, Accounted)
        else Loss(keys=guarantee.plain_delta, pure=(guarantee.epsilon,))
        for mechanism, guarantee in parts
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


# The mechanisms' own options


def chosen_options(
    mechanisms: Sequence[str],
    options: Mapping[str, Any],
    letters: Mapping[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """The options that were given, each of which one of the mechanisms must have.

    Parameters, in a mechanism's text or as `letters`, leave nothing to choose but public files.
    `settings` mean something for every release; a mechanism gets those that it looks at.
    """
    chosen = {n: value for n, value in options.items() if value is not None and value is not False}
    if chosen.get("count") == "users":  # what everything counts by default
        del chosen["count"]
    check_options(mechanisms, chosen)
    declared = declared_options()
    chosen = {n: declared[n][0].fit(v) if n in declared else v for n, v in chosen.items()}
    for text in mechanisms if letters else (name for name in mechanisms if name not in MECHANISMS):
        surplus = [
            n
            for n in chosen
            if n in find_mechanism(text).option_names() and not _goes_beside(n, declared)
        ]
        if letters and "map" in surplus:  # it selects the mechanism whose letters these are
            surplus.remove("map")
        if surplus:
            flag, source = declared[min(surplus)][0].flag, "--set" if letters else text
            raise UsageError(f"{source} says all there is to choose: leave {flag} out")
    accepted = {option for name in mechanisms for option in find_mechanism(name).option_names()}
    return chosen | {n: v for n, v in settings.items() if v is not None and n in accepted}


def _goes_beside(name: str, declared: Mapping[str, Any]) -> bool:
    """Whether a mechanism takes the option beside its parameters: the content of a public file."""
    return bool(declared[name][0].public_file and name != "map")


def takes_bound(table: str, mechanism: str) -> bool:
    """Whether --per-user changes the table: not where parameters fix the bound, or nothing is bounded."""
    mechanism_class = find_mechanism(mechanism)
    ignores_bound = table in mechanism_class.tables and "d" in mechanism_class.ignored
    return mechanism in MECHANISMS and not ignores_bound


def bounds_of(
    per_user: int | Mapping[str, int] | None,
    mechanisms: Mapping[str, str],
    letters: Mapping[str, str] | None = None,
) -> dict[str, int] | None:
    """The bound of each table that takes one; raises if --per-user is given twice or would be ignored."""
    if per_user is None:
        return None
    if twice := [letter for letter in BOUNDS if letter in (letters or {})]:
        raise UsageError(f"--per-user and --set {twice[0]} are the same bound: give one of them")
    by_table = isinstance(per_user, Mapping)
    bounds = (
        dict(per_user) if isinstance(per_user, Mapping) else dict.fromkeys(mechanisms, per_user)
    )
    ignored = [
        table
        for table in bounds
        if table in mechanisms and not takes_bound(table, mechanisms[table])
    ]
    if ignored and (by_table or len(ignored) == len(bounds)):
        table, name = ignored[0], mechanisms[ignored[0]]
        why = "keeps no number of items a unit" if name in MECHANISMS else "states its own bound"
        raise UsageError(f"{name} {why}, so --per-user has no effect on {table}: leave it out")
    return {table: n for table, n in bounds.items() if table not in ignored}


def prepare_options(
    options: Mapping[str, Any], context: OptionContext, *, log: Sequence[Path] = ()
) -> dict[str, Any]:
    """The options checked against the release, with what is in the public files they name."""
    declared = {name: declared_options()[name][0] for name in options if name in declared_options()}
    files = [option for option in declared.values() if option.public_file]
    for option in files:
        paths = option.files(options[option.name])
        if any(path.exists() and path.samefile(file) for path in paths for file in log):
            raise Refused(
                f"{option.flag} names the log itself. What it lists must be public and fixed without "
                "the log (A4): everything made from the log is private until it is released."
            )
    loaded = dict(options)
    for name, option in declared.items():
        if option.prepare is not None:
            loaded[name] = option.prepare(options[name], context)
    if context.by and files:
        raise UsageError(
            f"--by and {files[0].flag} do not go together: the file has no such column"
        )
    return loaded


def plan_mechanism(
    mechanism: str | None = None, *, users: int | None = None, url: str = "path", **options: Any
) -> Plan:
    """The plan of one table of a mechanism, with its public files read; looks at no log."""
    names = ("epsilon", "delta", "per_user", "noise", "unit", "neighbours", "letters")
    general = {name: options.pop(name) for name in names if name in options}
    set_only = options.pop("set_only", None)
    usual = usual_mechanism(noise=general.get("noise"), letters=general.get("letters"))
    mechanism = mechanism or usual or MECHANISM
    mechanism_class = find_mechanism(mechanism)
    table = "query" if "query" in mechanism_class.tables else mechanism_class.tables[0]
    letters = general.get("letters")
    chosen = chosen_options([mechanism], options, letters=letters, users=users, set_only=set_only)
    bounds = bounds_of(general.pop("per_user", None), {table: mechanism}, letters) or {}
    general["per_user"] = bounds.get(table)
    chosen = prepare_options(chosen, OptionContext(mechanisms={table: mechanism}, url=url))
    if general.get("letters") or mechanism not in MECHANISMS:
        result = plan(mechanism=mechanism, **general)
        check_budget_kept(result.guarantee, general.get("epsilon"), general.get("delta"))
        return result
    name, arguments = mechanism_class.for_table(table, chosen)
    return plan(mechanism=name, options=arguments, **general)


# Guarantees that a release refuses, or accepts on its owner's word only


def check_claims(
    names: Sequence[str],
    plans: Mapping[str, Plan],
    total: Guarantee,
    *,
    epsilon: float | None,
    delta: float | None,
    users: int | None,
    accept_delta: bool,
    accept_no_guarantee: bool,
    set_only: bool,
) -> None:
    """Refuses a guarantee that says nothing, or less than requested, unless the owner accepts that."""
    _check_guarantee(total, ", ".join(names), accept_no_guarantee)
    check_budget_kept(total, epsilon, delta)
    if total.notion == "pdp":
        _check_pdp(plans, users, set_only)
    _check_delta(total, delta, users, accept_delta)


def _check_guarantee(total: Guarantee, mechanism: str, accepted: bool) -> None:
    """Refuses what nothing is proved about, unless the owner says so."""
    if total.notion != "none" and total.delta >= 1:
        raise Refused(
            f"{mechanism} would have a delta of 1 at epsilon {total.epsilon:.4g}: nothing"
        )
    if total.notion == "none" and not accepted:
        raise Refused(
            f"{mechanism} has no privacy guarantee: one person can make its output differ for sure. "
            "It is here for comparison. Say --accept-no-guarantee to run it, and do not publish it."
        )


def check_budget_kept(proved: Guarantee, epsilon: float | None, delta: float | None) -> None:
    """Refuses a guarantee that is weaker than the one that was asked for; None: not asked for."""
    if proved.notion == "none":
        return  # accepted by its owner, or refused for that
    for name, cost, most in (("epsilon", proved.epsilon, epsilon), ("delta", proved.delta, delta)):
        if most is not None and cost > most * SAFETY**2:
            raise Refused(
                f"these parameters have {name} {cost:.6g} per {proved.unit}, more than --{name} {most:.6g}: "
                f"change them, raise --{name}, or leave it out to accept what follows from them"
            )


def _check_pdp(plans: Mapping[str, Plan], users: int | None, set_only: bool) -> None:
    """Probabilistic DP is about a declared number of users, and about tables as they are drawn."""
    for plan in plans.values():
        if plan.mechanism.parameters()["users"] != users:
            raise UsageError(
                f"{plan.mechanism} is probabilistic DP for its own number of users: declare the "
                f"same with --users, which is {users or 'not given'}"
            )
    if set_only:
        raise UsageError(
            "probabilistic DP does not survive dropping counts, so --set-only does not go with it. Use "
            "--notion dp."
        )


def _check_delta(total: Guarantee, delta: float | None, users: int | None, accepted: bool) -> None:
    """Refuses a delta of 1/users or more; only a declared number counts, the log's is private."""
    if users is None:
        return
    if users < 1:
        raise UsageError(f"--users must be at least 1, not {users}")
    if total.notion == "none":
        return
    largest = max(total.plain_delta, (delta or 0.0) if total.notion == "dp" else 0.0)
    if largest * users >= 1 and not accepted:
        raise Refused(
            f"delta {largest:.3g} per {total.unit} is at least 1/users for the declared {users} "
            "users: publishing one whole user at random would pass. Use --delta "
            f"{1 / users / 10:.1g} or less, or say --accept-delta."
        )
