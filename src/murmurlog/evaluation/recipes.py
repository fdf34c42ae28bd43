"""How a system's tables are made from a log: a bundle's own recipe, or a mechanism by its name.

A certificate says all that is needed to make the same kind of release again from other users, but for
public files (a pool, result lists, a map) and the owner's list of denied queries.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.options import GAP
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import BundleError, UsageError
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

    @property
    def budget(self) -> dict[str, float]:
        """The epsilon of each table alone; nothing where nothing is proved."""
        return {
            kind: plan.guarantee.epsilon
            for kind, plan in self.plans.items()
            if plan.guarantee.notion != "none"
        }

    def made(self, log: Log, reading: Reading, *, entropy: Entropy) -> dict[str, pa.Table]:
        """The tables of one more release, which is not booked and must stay with the owner."""
        made = make(
            self.plans, log, self.view, reading,
            entropy=entropy, set_only=self.set_only, consistent=self.consistent,
        )  # fmt: skip
        return dict(made.tables)


def public_files(
    *,
    pool: Path | None = None,
    result_lists: Path | None = None,
    labels: str | None = None,
    tables: Sequence[str] = ("query",),
    url: str = "path",
) -> dict[str, Any]:
    """The public files that recipes may need again, read; by the mechanisms' names for them."""
    found: dict[str, Any] = {}
    if pool is not None:
        found["pool"] = read_pools(pool, tables=tables, url=url)
    if result_lists is not None:
        found["result_lists"] = read_lists(result_lists, url=url)
    if labels is not None:
        found["map"] = read_labels(labels)
    return found


def with_pools(certificate: Certificate) -> list[str]:
    """The tables of a bundle that were made with a public pool."""
    return [
        name
        for name, claim in certificate.tables.items()
        if _needed(parse(claim.mechanism)) == "pool"
    ]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of systems that are given by a mechanism's name."""

    tables: tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    per_user: int | None = None
    way: str | None = None
    gap: float = GAP
    letters: Mapping[str, float] = field(
        default_factory=dict
    )  # threshold, scale: instead of solved
    options: Mapping[str, Any] = field(default_factory=dict)  # public files, read


def of_bundle(name: str, certificate: Certificate, options: Mapping[str, Any]) -> Recipe:
    """The recipe in a bundle's certificate."""
    if certificate.by:
        raise UsageError(
            f"{name} is split by {certificate.by.column!r}, and evaluation compares whole tables: "
            "evaluate a release made without --by"
        )
    plans = {
        kind: Plan(mechanism=parse(claim.mechanism), guarantee=claim.guarantee)
        for kind, claim in certificate.tables.items()
    }
    for kind, plan in plans.items():
        _check_tables(name, kind, plan.mechanism, plans)
        option = _needed(plan.mechanism)
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
        # A mechanism that draws no counts needs no flag for it.
        set_only={claim.count for kind, claim in certificate.tables.items() if kind != "log"}
        == {None},
        consistent=certificate.consistent,
    )


def _needed(mechanism: Mechanism) -> str | None:
    """The public file that a mechanism was made with, by the name of its option."""
    return FILES.get(str(mechanism).partition("(")[0])


def _check_tables(name: str, kind: str, mechanism: Mechanism, tables: Container[str]) -> None:
    """Raises unless the mechanism makes such a table, and those it waits for are there."""
    if kind not in mechanism.tables:
        raise BundleError(f"{name} says that {mechanism} made a {kind} table, which it never does")
    first = WAITED_FOR.get(str(mechanism).partition("(")[0])
    if first is not None and first not in tables:
        raise BundleError(f"{name} has a {kind} table by {mechanism}, and no {first} table")


def of_mechanism(name: str, wanted: Wanted) -> Recipe:
    """The recipe of a mechanism: of the tables that are wanted, those it makes."""
    kind = named(name)
    tables = [table for table in wanted.tables if table in kind.tables]
    if not tables:
        raise UsageError(f"{name} makes {', '.join(kind.tables)}, and of these --tables names none")
    own = {n: value for n, value in wanted.options.items() if n in kind.option_names()}
    plans, total = plan_tables(
        tables,
        mechanism=name,
        epsilon=wanted.epsilon,
        delta=wanted.delta,
        per_user=None if wanted.per_user is None else dict.fromkeys(tables, wanted.per_user),
        options=own,
    )
    if wanted.letters:
        plans, total = _overruled(name, tables, plans, wanted)
    view = View(kind="", unit=total.unit, way=wanted.way, gap=wanted.gap, options=own)
    return Recipe(name=name, plans=plans, view=view, guarantee=total)


def _overruled(
    name: str, tables: Sequence[str], plans: Mapping[str, Plan], wanted: Wanted
) -> tuple[dict[str, Plan], Guarantee]:
    """The plans with a threshold or a scale put by hand; the guarantee is what follows from it.

    It is stated at the epsilon that was asked for, or at what it costs where that is more.
    """
    texts = {}
    for table, plan in plans.items():
        text = str(plan.mechanism)
        letters = read_letters(text.partition("(")[2].removesuffix(")"))
        for what, value in wanted.letters.items():
            names = THRESHOLDS if what == "threshold" else SCALES
            letter = next((each for each in names if each in letters), None)
            if letter is None or "_" in letters[letter]:  # one for each round is not one
                raise UsageError(f"{name} has no {what} of its own to vary")
            letters[letter] = repr(value)
        given = ", ".join(f"{letter}={value}" for letter, value in letters.items())
        texts[table] = f"{text.partition('(')[0]}({given})"
    epsilon = EPSILON if wanted.epsilon is None else wanted.epsilon
    try:
        return plan_tables(tables, mechanism=texts, epsilon=epsilon, options=wanted.options)
    except UsageError:
        return plan_tables(tables, mechanism=texts, options=wanted.options)
