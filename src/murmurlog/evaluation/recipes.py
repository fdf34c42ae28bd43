"""How a system's tables are released from a log: a bundle's own recipe, or a mechanism by its name.

A certificate says all that is needed to release the same kind of tables again from other users, except
public files (a pool, result lists, a map) and the owner's list of denied queries.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.options import GAP
from murmurlog.bundle.read import Release, read_certificate
from murmurlog.bundle.schema import with_lists
from murmurlog.counting.bound import choose_way
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import BundleError, UsageError
from murmurlog.evaluation.request import RAW, WHOLE, EvaluationRequest
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import Mechanism, View, named, parse, read_letters
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.plan import EPSILON, Plan, plan_tables
from murmurlog.publishing.tables import make

SCALES = ("scale", "b", "lam", "sigma")  # what mechanisms call the scale of their noise
THRESHOLDS = ("T", "K", "tau2")
FILES = {  # public files by the mechanisms that are made with one, named as in options
    "pool": "pool",
    "hybrid": "pool",
    "korolova-lists": "result_lists",
    "label-paths": "map",
}
WAITED_FOR = {"zealous-keywords": "keyword", "left-out": "query"}  # tables, by who looks at them


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Plans for tables, and how they are carried out."""

    name: str
    plans: Mapping[str, Plan]
    view: View
    guarantee: Guarantee
    set_only: bool = False
    consistent: bool = False
    point: tuple[str, float] | None = None  # of a sweep: the mechanism, and the value varied

    @property
    def budget(self) -> dict[str, float]:
        """The epsilon of each table alone; nothing where nothing is proved."""
        return {
            kind: plan.guarantee.epsilon
            for kind, plan in self.plans.items()
            if plan.guarantee.notion != "none"
        }

    def release(self, log: Log, reading: Reading, *, entropy: Entropy) -> dict[str, pa.Table]:
        """The tables of one more release, which is not booked and must stay with the owner."""
        made = make(
            self.plans, log, self.view, reading,
            entropy=entropy, set_only=self.set_only, consistent=self.consistent,
        )  # fmt: skip
        return {
            kind: with_lists(table, str(self.plans[kind].mechanism))
            for kind, table in made.tables.items()
        }


def public_files(
    *,
    pool: Path | None = None,
    result_lists: Path | None = None,
    labels: str | None = None,
    tables: Sequence[str] | None = None,
    url: str = "path",
    keys: str | None = None,
    bundles: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """The public files that recipes may need again, read; by the mechanisms' names for them.

    They are read as the bundles' logs were, for all tables that may need them.
    """
    certificates = [read_certificate(Path(bundle)) for bundle in bundles]
    pooled = [
        name
        for certificate in certificates
        for name, claim in certificate.tables.items()
        if _public_file(parse(claim.mechanism)) == "pool"
    ]
    if certificates:
        url, keys = certificates[0].text["url"], certificates[0].keys
    found: dict[str, Any] = {}
    if pool is not None:
        names = list(dict.fromkeys([*(tables or ()), *pooled])) or ["query"]
        found["pool"] = read_pools(pool, tables=names, url=url, keys=keys)
    if result_lists is not None:
        found["result_lists"] = read_lists(result_lists, url=url, keys=keys)
    if labels is not None:
        found["map"] = read_labels(labels, keys=keys)
    return found


def all_recipes(
    request: EvaluationRequest,
    releases: Mapping[str, Release],
    *,
    columns: Container[str],
    gap: float,
) -> dict[str, Recipe]:
    """The recipes of all systems except the raw log, in the order of the report."""
    found = {
        name: of_bundle(name, release.certificate, request.options)
        for name, release in releases.items()
    }
    baselines = [name for name in request.baselines if name != RAW]
    if request.vary is None:
        recipes = [
            of_mechanism(name, request, columns=columns, gap=gap) for name in request.mechanisms
        ]
    else:
        what, values = request.vary
        recipes = [
            vary(name, what, value, request, columns=columns, gap=gap)
            for name in request.mechanisms
            for value in values
        ]
    recipes += [of_mechanism(name, request, columns=columns, gap=gap) for name in baselines]
    for recipe in recipes:
        if recipe.name in found and request.vary is None:
            raise UsageError(f"two systems are called {recipe.name}: name each once")
        found.setdefault(recipe.name, recipe)  # a baseline may be a point of a sweep, too
    return found


def of_bundle(name: str, certificate: Certificate, options: Mapping[str, Any]) -> Recipe:
    """The recipe in a bundle's certificate."""
    if certificate.by:
        raise UsageError(
            f"{name} is split by {certificate.by.column!r}, and evaluation compares whole tables: "
            "evaluate a release made without --by"
        )
    if certificate.after or certificate.period("count_from"):
        raise UsageError(
            f"{name} counts keys of earlier releases, or keys and counts of different periods, and "
            "evaluation releases one period again: evaluate a release made without --after, --select-from "
            "and --count-from"
        )
    plans = {
        kind: Plan(mechanism=parse(claim.mechanism), guarantee=claim.guarantee)
        for kind, claim in certificate.tables.items()
    }
    for kind, plan in plans.items():
        _check_tables(name, kind, plan.mechanism, plans)
        option = _public_file(plan.mechanism)
        if option is not None and option not in options:
            flag = "--" + option.replace("_", "-")
            raise UsageError(
                f"{name} was made with a public file that a bundle does not hold: give {flag} again"
            )
    text = certificate.text
    guarantee = certificate.guarantee
    return Recipe(
        name=name,
        plans=plans,
        view=View(
            kind="",
            unit=guarantee.unit,
            way=certificate.bound,
            gap=text["gap"] or GAP,
            set_size=text["set_size"] or 2,
            consecutive=bool(text["consecutive"]),
            options=options,
        ),
        guarantee=guarantee,
        # A mechanism that releases no counts needs no flag for it.
        set_only={claim.count for kind, claim in certificate.tables.items() if kind != "log"}
        == {None},
        consistent=certificate.consistent,
    )


def _public_file(mechanism: Mechanism) -> str | None:
    """The public file that a mechanism was made with, by the name of its option."""
    return FILES.get(str(mechanism).partition("(")[0])


def _check_tables(name: str, kind: str, mechanism: Mechanism, tables: Container[str]) -> None:
    """Raises unless the mechanism makes such a table, and those it waits for are there."""
    if kind not in mechanism.tables:
        raise BundleError(f"{name} says that {mechanism} made a {kind} table, which it never does")
    first = WAITED_FOR.get(str(mechanism).partition("(")[0])
    if first is not None and first not in tables:
        raise BundleError(f"{name} has a {kind} table by {mechanism}, and no {first} table")


def of_mechanism(
    name: str,
    request: EvaluationRequest,
    *,
    columns: Container[str],
    gap: float = GAP,
    parameters: Mapping[str, float] | None = None,
) -> Recipe:
    """The recipe of a mechanism: of the tables that are requested, those it makes.

    `parameters` are a threshold or a scale to use instead of the one that follows from epsilon.
    """
    kind = named(name)
    tables = [table for table in request.tables or usual_tables(columns) if table in kind.tables]
    if not tables:
        raise UsageError(f"{name} makes {', '.join(kind.tables)}, and of these --tables names none")
    own = {n: value for n, value in request.options.items() if n in kind.option_names()}
    plans, total = plan_tables(
        tables,
        mechanism=name,
        epsilon=request.epsilon,
        delta=request.delta,
        per_user=None if request.per_user is None else dict.fromkeys(tables, request.per_user),
        options=own,
    )
    if parameters:
        plans, total = _with_parameters(name, plans, parameters, request)
    way = choose_way(None, timed="time" in columns)
    view = View(kind="", unit=total.unit, way=way, gap=gap, options=own)
    return Recipe(name=name, plans=plans, view=view, guarantee=total)


def usual_tables(columns: Container[str]) -> tuple[str, ...]:
    """The tables that every task needs, as far as the columns of a log allow them."""
    pair = ("pair",) if "time" in columns else ()
    click = ("click",) if "url" in columns else ()
    return ("query", *click, *pair, "keyword")


def vary(
    mechanism: str,
    what: str,
    value: float,
    request: EvaluationRequest,
    *,
    columns: Container[str],
    gap: float = GAP,
) -> Recipe:
    """The recipe of a mechanism with one parameter at this value."""
    name, parameters = mechanism, dict[str, float]()
    shown = f"{mechanism} {what}={value:g}"
    exact = int(value) if what in WHOLE else value
    if what == "k":
        name = shown = f"{mechanism}:{exact}"
    elif what in ("threshold", "scale"):
        parameters[what] = exact
    else:
        changed: dict[str, Any] = {what.replace("-", "_"): exact}
        request = replace(request, **changed)
    recipe = of_mechanism(name, request, columns=columns, gap=gap, parameters=parameters)
    return replace(recipe, name=shown, point=(mechanism, value))


def _with_parameters(
    name: str, plans: Mapping[str, Plan], given: Mapping[str, float], request: EvaluationRequest
) -> tuple[dict[str, Plan], Guarantee]:
    """The plans with a threshold or a scale set by hand; the guarantee is what follows from it.

    It is stated at the requested epsilon, or at what it costs where that is more.
    """
    texts = {}
    for table, plan in plans.items():
        text = str(plan.mechanism)
        letters = read_letters(text.partition("(")[2].removesuffix(")"))
        for what, value in given.items():
            names = THRESHOLDS if what == "threshold" else SCALES
            letter = next((each for each in names if each in letters), None)
            if letter is None or "_" in letters[letter]:  # one for each round is not one
                raise UsageError(f"{name} has no {what} of its own to vary")
            letters[letter] = repr(value)
        arguments = ", ".join(f"{letter}={value}" for letter, value in letters.items())
        texts[table] = f"{text.partition('(')[0]}({arguments})"
    epsilon = EPSILON if request.epsilon is None else request.epsilon
    try:
        return plan_tables(list(plans), mechanism=texts, epsilon=epsilon, options=request.options)
    except UsageError:
        return plan_tables(list(plans), mechanism=texts, options=request.options)
