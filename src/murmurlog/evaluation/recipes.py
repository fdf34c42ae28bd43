"""How a system's tables are released from a log: a bundle's own recipe, or a mechanism by its name.

A certificate says all that is needed to release the same kind of tables again from other users, except
public files (a pool, result lists, a map) and the owner's list of denied queries.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.options import GAP
from murmurlog.bundle.read import Release
from murmurlog.bundle.schema import with_lists
from murmurlog.counting.bound import choose_way
from murmurlog.errors import BundleError, MurmurlogError, Refused, UsageError
from murmurlog.evaluation.grid import (
    Grid,
    Value,
    changes,
    mechanisms_in,
    show,
    varied_request,
    with_letters,
    without_effect,
)
from murmurlog.evaluation.request import RAW, EvaluationRequest
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import (
    MECHANISMS,
    Asked,
    Mechanism,
    Rounds,
    View,
    declared_options,
    named,
    parse,
)
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.options import bounds_of, chosen_options, prepare_options, takes_bound
from murmurlog.publishing.plan import EPSILON, Plan, check_options, plan_tables
from murmurlog.publishing.request import mechanism_of
from murmurlog.publishing.tables import make

FILES = {  # public files by the mechanisms that are made with one, named as in options
    "pool": "pool",
    "korolova-lists": "result_lists",
    "label-paths": "map",
}
FILES_READ = ("pool", "result_lists", "map")
WAITED_FOR = {"zealous-keywords": "keyword", "left-out": "query"}  # tables, by who looks at them


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Plans for tables, and how they are carried out."""

    name: str
    plans: Mapping[str, Plan]
    view: View
    guarantee: Guarantee
    set_only: bool = False
    point: tuple[str, float] | None = None  # of a sweep: the line of a chart, and where on it

    @property
    def signature(self) -> tuple[Any, ...]:
        """What decides the law of a release: recipes with equal ones make equal releases."""
        files = [
            (name, self.view.options[name]) for name in FILES_READ if name in self.view.options
        ]
        texts = tuple((table, str(plan.mechanism)) for table, plan in self.plans.items())
        return texts, files, self.set_only

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
            entropy=entropy, set_only=self.set_only,
        )  # fmt: skip
        return {
            kind: with_lists(table, str(self.plans[kind].mechanism))
            for kind, table in made.tables.items()
        }


@dataclass(frozen=True, kw_only=True)
class Place:
    """What recipes depend on besides the request: the log's columns and files, and how it is read."""

    columns: Container[str]
    gap: float = GAP
    reading: Reading = field(default_factory=Reading)
    files: Sequence[Path] = ()


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """The recipes of all systems except the raw log, in the order of the report."""

    found: Mapping[str, Recipe]
    failed: Mapping[str, str]  # systems that cannot be released so, and why


def all_recipes(
    request: EvaluationRequest, releases: Mapping[str, Release], place: Place
) -> Recipes:
    """The recipe of every system. One that cannot be planned does not stop the others.

    Raises if that is every mechanism that was named, and if something is given that no system takes.
    """
    _check_taken(request, releases)
    found = {
        name: of_bundle(name, release.certificate, bundle_options(release, request, place))
        for name, release in releases.items()
    }
    failed = dict[str, MurmurlogError]()
    planned = list[Recipe]()
    grid = request.grid
    for name in request.mechanisms:
        if grid is None:
            planned += _planned(name, failed, partial(of_mechanism, name, request, place))
        else:
            planned += _along(name, grid, request, place, failed)
    if request.mechanisms and not planned:
        raise next(iter(failed.values()))
    # Letters, noise and keys alone are choices for the mechanisms that are evaluated.
    plain = replace(request, vary=None, letters=None, noise=None, set_only=False)
    for name in (name for name in request.baselines if name != RAW):
        planned += _planned(name, failed, partial(of_mechanism, name, plain, place))
    for recipe in planned:
        if recipe.name in found and grid is None:
            raise UsageError(f"two systems are called {recipe.name}: name each once")
        found.setdefault(recipe.name, recipe)  # a baseline may be a point of a sweep, too
    return Recipes(found=found, failed={name: str(why) for name, why in failed.items()})


def _planned(
    name: str, failed: dict[str, MurmurlogError], plan: Callable[[], Recipe]
) -> list[Recipe]:
    try:
        return [plan()]
    except MurmurlogError as why:
        failed[name] = why
        return []


def _along(
    mechanism: str,
    grid: Grid,
    request: EvaluationRequest,
    place: Place,
    failed: dict[str, MurmurlogError],
) -> list[Recipe]:
    """The recipes of a mechanism at the points of a grid; raises if a parameter changes nothing."""
    found, made = list[Recipe](), dict[tuple[Value, ...], object]()
    for point in grid.points():
        name = grid.name(mechanism, point)
        some = _planned(name, failed, partial(vary, mechanism, grid, point, request, place))
        found += some
        made |= {tuple(point.values()): recipe.signature for recipe in some}
    if useless := without_effect(grid, made):
        raise UsageError(
            f"--vary {useless} changes nothing in {mechanism}: vary a parameter that it takes, or "
            "leave its own parameters out"
        )
    return found


def _check_taken(request: EvaluationRequest, releases: Mapping[str, Release]) -> None:
    """Raises if something is given that no system takes."""
    systems = [n for n in (*request.mechanisms, *request.baselines) if n != RAW]
    names = [one for system in systems for one in mechanisms_in(system)]
    claims = [c.mechanism for each in releases.values() for c in each.certificate.tables.values()]
    for option, value in request.options.items():
        takers = [*names, *claims]
        if not any(_takes(option, one, letters=request.letters) for one in takers):
            if names:
                check_options(names, {option: value})  # says whose option it is
            flag = "--" + option.replace("_", "-")
            raise UsageError(f"no system takes {flag}: leave it out, or name one in --mechanisms")
    if request.users is not None:
        check_options(names, {"users": request.users})
    own = [one for system in request.mechanisms for one in mechanisms_in(system)]
    if request.letters and not any(name in MECHANISMS for name in own):
        raise UsageError("--set is for --mechanisms that state no parameters: leave it out")
    bounded = request.per_user is None or not own
    if not bounded and not any(takes_bound(named(one).tables[0], one) for one in own):
        raise UsageError(f"{', '.join(own)} takes no --per-user: leave it out")


def _takes(option: str, mechanism: str, *, letters: Any = None) -> bool:
    """Whether a mechanism takes an option; one that states its parameters takes public files alone."""
    if _public_file(mechanism) == option:
        return True
    free = mechanism in MECHANISMS and not letters
    declared = declared_options()
    public = option in declared and declared[option][0].public_file
    return option in named(mechanism).option_names() and (free or public)


def system_options(
    mechanisms: Mapping[str, str], request: EvaluationRequest, place: Place
) -> dict[str, Any]:
    """Of the options of the request those that these mechanisms take, by table; public files read."""
    names = list(dict.fromkeys(mechanisms.values()))
    own = {
        option: value
        for option, value in request.options.items()
        if any(_takes(option, name, letters=request.letters) for name in names)
    }
    chosen = chosen_options(
        names, own, letters=request.letters, set_only=request.set_only or None, users=request.users
    )
    return prepare_options(chosen, _asked(mechanisms, place.reading), log=place.files)


def _asked(mechanisms: Mapping[str, str], reading: Reading) -> Asked:
    return Asked(mechanisms=mechanisms, url=reading.url, keys=reading.keys, allowed=reading.allowed)


def bundle_options(release: Release, request: EvaluationRequest, place: Place) -> dict[str, Any]:
    """Of the public files of the request those that a bundle was made with, read as its log was."""
    claims = {table: claim.mechanism for table, claim in release.certificate.tables.items()}
    needed = {_public_file(text) for text in claims.values()}
    own = {option: value for option, value in request.options.items() if option in needed}
    return prepare_options(own, _asked(claims, place.reading), log=place.files)


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
        option = _public_file(str(plan.mechanism))
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
    )


def _public_file(mechanism: str) -> str | None:
    """The public file that a mechanism with parameters was made with, by the name of its option."""
    name, parenthesis, _ = mechanism.partition("(")
    if parenthesis and name == Rounds.name:
        made = parse(mechanism)
        return "pool" if isinstance(made, Rounds) and made.pools else None
    return FILES.get(name)


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
    place: Place,
    letters: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe of a mechanism, or of one for each table: of the tables that are requested, those it makes.

    `letters` are set by hand, instead of those that follow from epsilon.
    """
    tables = _tables(name, request, place.columns)
    stated = mechanism_of(name)
    by_table = dict.fromkeys(tables, stated) if isinstance(stated, str) else dict(stated)
    options = system_options(by_table, request, place)
    free = all(each in MECHANISMS for each in by_table.values())
    taking = any(takes_bound(table, each) for table, each in by_table.items())
    plans, total = plan_tables(
        tables,
        mechanism=stated,
        epsilon=request.epsilon,
        delta=request.delta,
        per_user=bounds_of(request.per_user, by_table, request.letters) if taking else None,
        noise=request.noise if free else None,
        letters=request.letters if free else None,
        options={
            n: v
            for n, v in options.items()
            if any(n in named(m).option_names() for m in by_table.values())
        },
    )
    if letters:
        plans, total = _with_letters(name, plans, letters, request, options)
    way = choose_way(None, timed="time" in place.columns)
    view = View(kind="", unit=total.unit, way=way, gap=place.gap, options=options)
    return Recipe(name=name, plans=plans, view=view, guarantee=total, set_only=request.set_only)


def _tables(name: str, request: EvaluationRequest, columns: Container[str]) -> list[str]:
    """The tables of a system: those that are requested and that it makes, or its usual ones."""
    stated = mechanism_of(name)
    if not isinstance(stated, str):
        return list(stated)
    kind = named(stated)
    usual = usual_tables(columns)
    found = [table for table in request.tables or usual if _makes(kind, table, request.tables)]
    if found:
        return found
    if request.tables is None:
        return list(kind.tables[:1])
    raise UsageError(f"{name} makes {', '.join(kind.tables)}, and of these --tables names none")


def _makes(kind: type[Mechanism], table: str, requested: Sequence[str] | None) -> bool:
    """Whether a mechanism makes a table, itself or, where the table is requested, by another one."""
    if table in kind.tables:
        return True
    if requested is None or kind.chosen_by:
        return False
    try:
        return table in named(kind.for_table(table, {})[0]).tables
    except UsageError:  # it needs an option for its own tables
        return False


def usual_tables(columns: Container[str]) -> tuple[str, ...]:
    """The tables that every task needs, as far as the columns of a log allow them."""
    pair = ("pair",) if "time" in columns else ()
    click = ("click",) if "url" in columns else ()
    return ("query", *click, *pair, "keyword")


def vary(
    mechanism: str, grid: Grid, point: Mapping[str, Value], request: EvaluationRequest, place: Place
) -> Recipe:
    """The recipe of a mechanism at one point of a grid."""
    changed = changes(mechanism, point)
    asked = varied_request(request, changed)
    letters = dict(changed.letters)
    if request.letters:  # those of the papers belong together; names that stand for one come after
        standing: dict[str, str] = {
            n: letters.pop(n) for n in ("threshold", "scale") if n in letters
        }
        asked = replace(asked, letters={**request.letters, **letters})
        letters = standing
    name = f"{mechanism}:{show(point['k'])}" if "k" in point else mechanism
    recipe = of_mechanism(name, asked, place, letters)
    at = point.get(grid.axis or "")
    return replace(
        recipe,
        name=grid.name(mechanism, point),
        point=None if at is None else (grid.line(mechanism, point), float(at)),
    )


def _with_letters(
    name: str,
    plans: Mapping[str, Plan],
    letters: Mapping[str, str],
    request: EvaluationRequest,
    options: Mapping[str, Any],
) -> tuple[dict[str, Plan], Guarantee]:
    """The plans with letters set by hand; the guarantee is what follows from them.

    It is stated at the requested epsilon, or at what it costs where that is more.
    """
    texts = {table: str(plan.mechanism) for table, plan in plans.items()}
    for letter, value in letters.items():
        changed = {table: with_letters(text, {letter: value}) for table, text in texts.items()}
        if not any(changed.values()):
            raise UsageError(
                f"--vary cannot vary {letter!r}: {name} has no {letter} of its own, as an option or a "
                f"letter. It is {'; '.join(dict.fromkeys(texts.values()))}"
            )
        texts |= {table: text for table, text in changed.items() if text}
    files = {n: v for n, v in options.items() if n in ("pool", "result_lists", "map")}
    epsilon = EPSILON if request.epsilon is None else request.epsilon
    try:
        return plan_tables(list(plans), mechanism=texts, epsilon=epsilon, options=files)
    except (UsageError, Refused):
        return plan_tables(list(plans), mechanism=texts, options=files)
