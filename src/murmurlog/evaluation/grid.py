"""What a sweep varies: one parameter, or a grid of two, over numbers or words.

A parameter is one of every release (epsilon, delta, per-user, users, noise, set-only), an option that a
mechanism declares (notion, support, pool), a letter of its paper (K, b), or `threshold`, `scale` and `k`,
which stand for the letter that a mechanism has.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from murmurlog.bundle.options import read_number
from murmurlog.errors import UsageError
from murmurlog.mechanisms import MECHANISMS, declared_options, named, read_letters
from murmurlog.publishing.request import mechanism_of

Value = float | str
WHOLE = ("per-user", "threshold", "k", "users")  # parameters with integer values
GENERAL = {  # of every release: the field of a request
    "epsilon": "epsilon",
    "delta": "delta",
    "per-user": "per_user",
    "users": "users",
    "noise": "noise",
    "set-only": "set_only",
}
SCALES = ("scale", "b", "lam", "sigma")  # what mechanisms call the scale of their noise
THRESHOLDS = ("T", "K", "tau2")
MOST = 2  # parameters of a grid
SWITCHED = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The values of one or two parameters; a chart is over the first one with numbers."""

    values: Mapping[str, tuple[Value, ...]]

    @classmethod
    def of(cls, vary: Any) -> "Grid":
        """From ("epsilon", [1, 2]), or {"K": [10, 20], "b": ["5", "10"]}; texts of numbers are numbers."""
        given = dict([vary]) if isinstance(vary, tuple) else dict(vary)
        if not 1 <= len(given) <= MOST:
            raise UsageError(
                f"--vary takes one parameter, or two as 'K=10,20;b=5,10', not {len(given)}"
            )
        values = {name: tuple(map(_value, some)) for name, some in given.items()}
        for name, some in values.items():
            _check(name, some)
        return cls(values=values)

    def __str__(self) -> str:
        return ", ".join(self.values)

    @property
    def axis(self) -> str | None:
        """The parameter that charts are over; None if all values are words."""
        numeric = (n for n, some in self.values.items() if all(isinstance(v, float) for v in some))
        return next(numeric, None)

    def points(self) -> Iterator[dict[str, Value]]:
        """Each combination of values, the axis last."""
        names = sorted(self.values, key=lambda name: name == self.axis)
        for some in itertools.product(*(self.values[name] for name in names)):
            yield dict(zip(names, some, strict=True))

    def line(self, mechanism: str, point: Mapping[str, Value]) -> str:
        """The system that the points along the axis belong to."""
        others = (f" {n}={show(v)}" for n, v in point.items() if n not in (self.axis, "k"))
        k = f":{show(point['k'])}" if "k" in point and self.axis != "k" else ""
        return mechanism + k + "".join(others)

    def name(self, mechanism: str, point: Mapping[str, Value]) -> str:
        """The name of a point as a system."""
        line, at = self.line(mechanism, point), self.axis
        if at is None:
            return line
        return f"{line}:{show(point[at])}" if at == "k" else f"{line} {at}={show(point[at])}"


def _value(given: Any) -> Value:
    if isinstance(given, str):
        try:
            return read_number(given)
        except UsageError:
            return given.strip()
    return float(given)


def show(value: Value) -> str:
    """A value as it is written in the name of a system."""
    return value if isinstance(value, str) else f"{value:g}"


def _check(name: str, values: Sequence[Value]) -> None:
    if not values or len(set(values)) < len(values) or "" in values:
        raise UsageError(f"--vary {name} needs values, each once: --vary {name}=1,2,4")
    if len({type(value) for value in values}) > 1:
        raise UsageError(f"--vary {name} mixes numbers and words: {', '.join(map(show, values))}")
    for value in values if name in WHOLE else ():
        if isinstance(value, str) or not 1 <= value < math.inf or value != int(value):
            raise UsageError(f"--vary {name} takes whole numbers from 1 on, not {show(value)}")
    for value in values if name in ("epsilon", "delta", "scale") else ():
        if isinstance(value, str):
            raise UsageError(f"--vary {name} takes numbers, not {value}")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a point changes: fields of the request, options, and letters set by hand."""

    fields: Mapping[str, Any]
    options: Mapping[str, Any]
    letters: Mapping[str, str]  # with `threshold` and `scale`, which stand for one of them


def changes(mechanism: str, point: Mapping[str, Value]) -> Changes:
    """How the values of a point reach a mechanism."""
    declared = declared_options()
    taken = {name for one in mechanisms_in(mechanism) for name in named(one).option_names()}
    fields, options, letters = dict[str, Any](), dict[str, Any](), dict[str, str]()
    for name, value in point.items():
        keyword = name.replace("-", "_")
        if name == "k":
            continue  # it is part of the mechanism's name
        if name in GENERAL:
            fields[GENERAL[name]] = _switch(value) if name == "set-only" else _exact(name, value)
        elif keyword in taken and keyword in declared:
            option = declared[keyword][0]
            options[keyword] = _switch(value) if option.switch else option.value(_text(value))
        else:
            letters[name] = _text(value)
    return Changes(fields=fields, options=options, letters=letters)


def mechanisms_in(system: str) -> list[str]:
    """The mechanisms that a system is made of; raises for a name that does not exist."""
    found = mechanism_of(system)
    names = [found] if isinstance(found, str) else list(found.values())
    for name in names:
        named(name)
    return names


def _exact(name: str, value: Value) -> Any:
    return int(value) if name in WHOLE else value


def _switch(value: Value) -> bool:
    if value not in SWITCHED:
        raise UsageError(f"a switch is varied as true,false, not {show(value)}")
    return SWITCHED[str(value)]


def _text(value: Value) -> str:
    """As it would be written after a flag or a letter: 10, not 10.0."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def check_mechanism(grid: Grid, mechanism: str, given: Mapping[str, Any]) -> None:
    """Raises if a parameter is given beside --vary too, or the mechanism surely has none of this name.

    `given` are the values of the request by the names that --vary takes.
    """
    for name in grid.values:
        if given.get(name) not in (None, False):
            raise UsageError(f"{name} is given and varied: leave one of the two out")
        if name == "k" and not (mechanism in MECHANISMS and mechanism.startswith("k-")):
            raise UsageError(f"{mechanism} has no k: --vary k is for k-query, k-click and such")
        for one in mechanisms_in(mechanism):
            _, _, inside = one.partition("(")
            if name in read_letters(inside.removesuffix(")")):
                raise UsageError(f"{one} states {name}, which is varied: leave one of the two out")


def with_letters(text: str, letters: Mapping[str, str]) -> str | None:
    """The text of a mechanism with these letters; None if it has none of them.

    A letter replaces the one that means the same: K or tau2 (above it) replaces T (at least it).
    """
    name, _, inside = text.partition("(")
    own = read_letters(inside.removesuffix(")"))
    changed = False
    for letter, value in letters.items():
        same = {"threshold": THRESHOLDS, "scale": SCALES}.get(letter, (letter,))
        found = next((each for each in same if each in own), None)
        if found is not None and "_" in own[found]:
            continue  # one for each round is not one
        if found is None and letter in ("K", "tau2") and "T" in own:
            del own["T"]
            found = letter
        if found is not None:
            own[found] = value
            changed = True
    arguments = ", ".join(f"{letter}={value}" for letter, value in own.items())
    return f"{name}({arguments})" if changed else None


def without_effect(grid: Grid, made: Mapping[tuple[Value, ...], object]) -> str | None:
    """A parameter whose values all make the same release; None if each has an effect.

    `made` has what each point makes, by its values in the order of `points`.
    """
    names = list(next(grid.points()))
    for place, name in enumerate(names):
        if len(grid.values[name]) < 2:
            continue
        groups: dict[tuple[Value, ...], list[object]] = {}
        for values, release in made.items():
            groups.setdefault((*values[:place], *values[place + 1 :]), []).append(release)
        groups = {rest: some for rest, some in groups.items() if len(some) > 1}
        if groups and all(release == some[0] for some in groups.values() for release in some):
            return name
    return None


def varied_request(request: Any, changed: Changes) -> Any:
    """The request at a point."""
    return replace(
        request, **changed.fields, options={**request.options, **changed.options}, vary=None
    )
