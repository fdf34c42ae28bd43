"""Bundles as systems: how their log was read, and the recipe in their certificates.

A certificate says all that is needed to release the same kind of tables again from other users, except
public files and the owner's list of denied queries. A public file is named after the folder, as in a
request: `bundle:pool=pool.txt`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os.path import realpath
from pathlib import Path
from typing import Any

from murmurlog.bundle.options import GAP
from murmurlog.bundle.read import Release, load
from murmurlog.errors import BundleError, UsageError
from murmurlog.evaluation.request import (
    PlanContext,
    Recipe,
    RequestError,
    read_keys,
    read_value,
)
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import Mechanism, View, declared_options, parse
from murmurlog.publishing.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle with the public files that it was made with."""

    name: str
    release: Release
    files: Mapping[str, Any]

    def recipe(self, context: PlanContext) -> Recipe:
        """The recipe in the bundle's certificate."""
        certificate, name = self.release.certificate, self.name
        if certificate.by:
            raise UsageError(
                f"{name} is split by {certificate.by.column!r}, and evaluation compares whole tables: "
                "evaluate a release made without --by"
            )
        if certificate.after or certificate.period("count_from"):
            raise UsageError(
                f"{name} counts keys of earlier releases, or keys and counts of different periods, and "
                "evaluation releases one period again: evaluate a release made without --after, "
                "--select-from and --count-from"
            )
        plans = {
            table: Plan(mechanism=parse(claim.mechanism), guarantee=claim.guarantee)
            for table, claim in certificate.tables.items()
        }
        for table, plan in plans.items():
            self._check_table(table, plan.mechanism)
        if more := self.files.keys() - {plan.mechanism.public_file() for plan in plans.values()}:
            raise UsageError(f"{name} was not made with {min(more)}: leave it out")
        mechanisms = {table: claim.mechanism for table, claim in certificate.tables.items()}
        text, guarantee = certificate.text, certificate.guarantee
        return Recipe(
            plans=plans,
            view=View(
                kind="",
                unit=guarantee.unit,
                way=certificate.bound,
                gap=text["gap"] or GAP,
                set_size=text["set_size"] or 2,
                consecutive=bool(text["consecutive"]),
                options=context.prepare(self.files, mechanisms),
            ),
            guarantee=guarantee,
            # A mechanism that releases no counts needs no flag for it.
            set_only={claim.count for table, claim in certificate.tables.items() if table != "log"}
            == {None},
        )

    def _check_table(self, table: str, mechanism: Mechanism) -> None:
        """Raises unless the mechanism makes such a table, and what it needs for that is there."""
        name = self.name
        if table not in mechanism.tables:
            raise BundleError(
                f"{name} says that {mechanism} made a {table} table, which it never does"
            )
        first = mechanism.waits_for
        if first and first not in self.release.certificate.tables:
            raise BundleError(f"{name} has a {table} table by {mechanism}, and no {first} table")
        option = mechanism.public_file()
        if option is not None and option not in self.files:
            key = option.replace("_", "-")
            raise UsageError(
                f"{name} was made with a public file that a bundle does not hold: give it again, as "
                f"--bundle {name}:{key}=FILE"
            )


def load_bundle(text: str | Path) -> Bundle:
    """The bundle in a folder, with public files after a colon: bundle:pool=FILE."""
    folder, *keys = re.split(r":(?=[\w-]+=)", str(text), maxsplit=1)
    declared = {n: option for n, (option, _) in declared_options().items() if option.public_file}
    files = {}
    for key, values in read_keys(str(text), *keys).items():
        option = declared.get(key.replace("-", "_"))
        if option is None or len(values) > 1:
            options = ", ".join(n.replace("_", "-") for n in declared)
            raise RequestError(f"{text}: a bundle takes {options}, each with one value, not {key}")
        files[option.name] = read_value(str(text), key, option, values[0])
    name = Path(realpath(folder)).name
    return Bundle(name=name, release=load(folder), files=files)


def gap_of(releases: Mapping[str, Release]) -> float:
    """What ends a session in the bundles, as far as they say it; they must agree."""
    gaps = {name: release.certificate.text["gap"] for name, release in releases.items()}
    stated = {name: float(gap) for name, gap in gaps.items() if gap is not None}
    if len(set(stated.values())) > 1:
        raise UsageError(
            f"{' and '.join(stated)} have different sessions (--gap), so they are not about the "
            "same pairs: evaluate them apart"
        )
    return next(iter(stated.values()), GAP)


def reading_of(read: ReadOptions, releases: Mapping[str, Release]) -> Reading:
    """How the bundles' log was read; they must agree, or they are not about the same rows."""
    reading = replace(Reading.of(read), max_broken=1.0)  # it publishes nothing, and warns
    texts = {name: release.certificate.text for name, release in releases.items()}
    if not texts:
        return reading
    (first, text), *others = texts.items()
    for name, other in others:
        for what in ("keys", "url", "screen", "deny", "since", "until", "where"):
            if other.get(what) != text.get(what):
                raise UsageError(
                    f"{first} and {name} were read in different ways ({what}), so they are not about "
                    "the same rows: evaluate them apart"
                )
    if text["deny"] and not read.deny:
        raise UsageError(f"{first} was made with a list of denied queries: give --deny again")
    screen = reading.screen if text["screen"] else None
    if text["screen"] and (screen is None or list(screen.names) != text["screen"]):
        raise UsageError(f"{first} was made with another screen: give its --patterns again")
    rows: dict[str, Any] = {
        name: text.get(name) for name in ("keys", "url", "since", "until", "where")
    }
    return replace(reading, **rows, screen=screen)
