"""One-line requests: a mechanism and what is chosen for it, in one text; and from the text to tables.

    rounds:epsilon=1                  a mechanism, then keys with values
    k-query:20                        short for k-query:k=20
    threshold(d=1, scale=5, K=20)     a mechanism that states all its parameters
    safelog-literal:K=10|20,b=5|10    one request for each combination of values

A key is one of every release (epsilon, delta, shares, per-user, users, noise, set-only, tables), an option of
the mechanism by its flag without dashes, a table (its value is the mechanism of that table alone), or else a
parameter of the mechanism: it replaces the one that follows from epsilon, or joins those in parentheses.

Commas and `|` separate outside parentheses and brackets only, and brackets around a value are left out:
tables=[query,click], per-user=[query=20,click=10], result-lists=[a,b.tsv]. An option that may be repeated takes
such a list. Between requests there is a comma, too: a part that begins with KEY= belongs to the one before it.
"""

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import GAP, Option, options_of
from murmurlog.bundle.schema import KEYS, with_lists
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import Refused, UsageError, did_you_mean
from murmurlog.evaluation.parts import with_unit
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import (
    Mechanism,
    OptionContext,
    View,
    declared_options,
    find_mechanism,
    parse,
    read_letters,
)
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.plan import (
    EPSILON,
    Plan,
    bounds_of,
    check_options,
    chosen_options,
    plan_tables,
    prepare_options,
)
from murmurlog.publishing.request import Budget, Content
from murmurlog.publishing.tables import TableMaker

GENERAL = {  # keys of every request
    option.flag.strip("-"): option
    for option in (*options_of(Budget), *options_of(Content))
    if option.name
    in ("epsilon", "delta", "shares", "per_user", "users", "noise", "set_only", "tables")
}
SWITCH = {"true": True, "false": False}
KEY = re.compile(r"[\w-]+\s*=")


class RequestError(UsageError):
    """A request that is wrong for every log."""


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """What a plan depends on besides the request: columns and files of the log, and how it is read."""

    columns: Container[str]
    gap: float = GAP
    reading: Reading = field(default_factory=Reading)
    files: Sequence[Path] = ()

    def prepare(self, options: Mapping[str, Any], mechanisms: Mapping[str, str]) -> dict[str, Any]:
        """The options of these mechanisms, by table, with what is in the public files they name."""
        reading = self.reading
        release = OptionContext(
            mechanisms=mechanisms, url=reading.url, keys=reading.keys, allowed=reading.allowed
        )
        return prepare_options(options, release, log=self.files)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Plans for tables, and what a release by them needs."""

    plans: Mapping[str, Plan]
    view: View
    guarantee: Guarantee
    set_only: bool = False

    @property
    def signature(self) -> tuple[Any, ...]:
        """What determines the distribution of a release: equal signatures, equal distributions."""
        files = _public_files(self.view.options)
        texts = tuple((table, str(plan.mechanism)) for table, plan in self.plans.items())
        return texts, files, self.set_only

    @property
    def budget(self) -> dict[str, float]:
        """The epsilon of each table alone, for tables with a guarantee."""
        return {
            table: plan.guarantee.epsilon
            for table, plan in self.plans.items()
            if plan.guarantee.notion != "none"
        }

    def release(self, log: Log, reading: Reading, *, entropy: Entropy) -> dict[str, pa.Table]:
        """The tables of another release, which is not booked and must stay with the owner."""
        units = with_unit(log, self.view.unit)
        for name in self.plans:
            check(log.source, kind=name, unit=units.unit)
        maker = TableMaker(
            plans=self.plans, log=units, view=self.view, reading=reading, entropy=entropy,
            set_only=self.set_only,
        )  # fmt: skip
        tables = maker.finish(maker.draw(maker.count())).tables
        return {
            name: with_lists(table, str(self.plans[name].mechanism))
            for name, table in tables.items()
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """A mechanism and what is chosen for it."""

    mechanism: str
    stated: Mapping[str, str]  # parameters in parentheses, as texts
    chosen: Mapping[str, str]  # keys with their values, as texts
    varied_keys: tuple[str, ...] = ()  # keys that had several values

    def __post_init__(self) -> None:
        if twice := self.stated.keys() & self.chosen.keys():
            raise RequestError(f"{self}: {min(twice)} is given twice: leave one of the two out")
        for mechanism in self._mechanisms:
            requested_mechanism(str(self), mechanism)
        self.settings, self.options  # noqa: B018 (wrong values are reported before a log is read)
        self._check([_text_of(self.mechanism, self.parameters)] if self._states_all else ())

    def _check(self, texts: Iterable[str]) -> None:
        """Raises unless these are mechanisms."""
        for text in texts:
            try:
                parse(text)
            except UsageError as error:
                raise RequestError(f"{self}: {error}") from None

    def __str__(self) -> str:
        """The request as it is written; the name of the system in reports."""
        return self.without(None)

    def without(self, key: str | None) -> str:
        """The request as it is written without a key: what points along this key have in common."""
        stated = {letter: value for letter, value in self.stated.items() if letter != key}
        head = _text_of(self.mechanism, stated) if self.stated else self.mechanism
        parts = [v if n == "k" else f"{n}={v}" for n, v in self.chosen.items() if n != key]
        return f"{head}:{','.join(parts)}" if parts else head

    @property
    def texts(self) -> dict[str, str]:
        """The values of all keys, as they are written."""
        return {**self.stated, **self.chosen}

    @property
    def settings(self) -> dict[str, Any]:
        """The values of the keys of every request."""
        return {
            option.name: read_value(str(self), key, option, self.chosen[key])
            for key, option in GENERAL.items()
            if key in self.chosen
        }

    @property
    def options(self) -> dict[str, Any]:
        """The values of the mechanisms' own options."""
        values = {}
        for key in self.chosen:
            name = key.replace("-", "_")
            if key in GENERAL or name not in declared_options():
                continue
            option, owners = declared_options()[name]
            if any(
                name in find_mechanism(mechanism).option_names() for mechanism in self._mechanisms
            ):
                values[name] = read_value(str(self), key, option, self.chosen[key])
            elif len(key) > 1:  # not the letter of a parameter
                raise RequestError(
                    f"{self}: {key} is for {' and '.join(owners)}: leave it out, or name another mechanism"
                )
        return values

    @property
    def parameters(self) -> dict[str, str]:
        """The mechanism's parameters that are set, by their letters."""
        others = (*GENERAL, *KEYS, *(name.replace("_", "-") for name in self.options))
        return {
            **self.stated,
            **{key: value for key, value in self.chosen.items() if key not in others},
        }

    @property
    def _states_all(self) -> bool:
        """Whether the parameters are all there is to choose, and none follows from epsilon."""
        return bool(self.stated) or "k" in self.chosen

    @property
    def _mechanisms(self) -> list[str]:
        """The mechanism of the request, and those of single tables."""
        return [
            self.mechanism,
            *(bare(value) for key, value in self.chosen.items() if key in KEYS),
        ]

    def _unknown_key(self, key: str, text: str) -> RequestError:
        """The error for a key that the mechanism with this text does not take."""
        parameters = _parameters_of(text)
        if key in parameters:
            return RequestError(
                f"{self}: {self.mechanism} has a {key} for each round: no single value replaces them"
            )
        if replace_parameter(text, key, "1"):
            return RequestError(f"{self}: {key} takes numbers, not {self.parameters[key]!r:.60}")
        names = sorted(
            {n for mechanism in self._mechanisms for n in find_mechanism(mechanism).option_names()}
        )
        single = [letter for letter, value in parameters.items() if "_" not in value]
        keys = list(dict.fromkeys((*GENERAL, *(n.replace("_", "-") for n in names), *single)))
        return RequestError(
            f"{self}: {self.mechanism} takes no {key!r:.60}: use {', '.join(keys)}, or a table."
            f"{did_you_mean(key, keys)}"
        )

    def recipe(self, context: PlanContext) -> Recipe:
        """The plans for the tables that are requested, or for the usual ones."""
        settings, parameters = self.settings, self.parameters
        mechanism = _text_of(self.mechanism, parameters) if self._states_all else self.mechanism
        table_mechanisms = {key: bare(self.chosen[key]) for key in KEYS if key in self.chosen}
        usual = settings.get("tables") or self._usual_tables(context.columns)
        tables = list(dict.fromkeys((*usual, *table_mechanisms)))
        mechanisms = {table: table_mechanisms.get(table, mechanism) for table in tables}
        names = list(dict.fromkeys(mechanisms.values()))
        set_only, users = settings.get("set_only", False), settings.get("users")
        if users is not None:
            check_options(names, {"users": users})
        options = context.prepare(
            chosen_options(names, self.options, set_only=set_only or None, users=users), mechanisms
        )
        plans, total = plan_tables(
            tables,
            mechanism=mechanisms,
            epsilon=settings.get("epsilon"),
            delta=settings.get("delta"),
            shares=settings.get("shares"),
            per_user=bounds_of(settings.get("per_user"), mechanisms),
            noise=settings.get("noise"),
            options=options,
        )
        if parameters and not self._states_all:
            plans, total = self._with_parameters(plans, options)
        way = choose_way(None, timed="time" in context.columns)
        view = View(kind="", unit=total.unit, way=way, gap=context.gap, options=options)
        return Recipe(plans=plans, view=view, guarantee=total, set_only=set_only)

    def _usual_tables(self, columns: Container[str]) -> list[str]:
        """The tables that tasks need, as far as the log's columns and the mechanism allow them."""
        pair = ("pair",) if "time" in columns else ()
        click = ("click",) if "url" in columns else ()
        able = find_mechanism(self.mechanism).tables
        tables = [table for table in ("query", *click, *pair, "keyword") if table in able]
        return tables or list(able[:1])

    def _with_parameters(
        self, plans: Mapping[str, Plan], options: Mapping[str, Any]
    ) -> tuple[dict[str, Plan], Guarantee]:
        """The plans with the parameters of the request; the guarantee follows from them.

        It is stated at the requested epsilon, or at a larger one if the parameters cost more.
        """
        texts = {table: str(plan.mechanism) for table, plan in plans.items()}
        for letter, value in self.parameters.items():
            changed = {
                table: replace_parameter(text, letter, value) for table, text in texts.items()
            }
            if not any(changed.values()):
                raise self._unknown_key(letter, next(iter(texts.values())))
            texts |= {table: text for table, text in changed.items() if text}
        self._check(texts.values())
        files = _public_files(options)
        epsilon = self.settings.get("epsilon", EPSILON)
        try:
            return plan_tables(list(plans), mechanism=texts, epsilon=epsilon, options=files)
        except (UsageError, Refused):
            return plan_tables(list(plans), mechanism=texts, options=files)


def _public_files(options: Mapping[str, Any]) -> dict[str, Any]:
    declared = declared_options()
    return {n: v for n, v in options.items() if n in declared and declared[n][0].public_file}


def _text_of(name: str, parameters: Mapping[str, str]) -> str:
    return f"{name}({', '.join(f'{letter}={value}' for letter, value in parameters.items())})"


def _parameters_of(text: str) -> dict[str, str]:
    return read_letters(text.partition("(")[2].removesuffix(")"))


def replace_parameter(text: str, letter: str, value: str) -> str | None:
    """The text of a mechanism with another value of a parameter; None if it takes no such parameter.

    A letter may replace another that stands for the same parameter: K replaces T.
    """
    name, parameters = text.partition("(")[0], _parameters_of(text)
    if letter in parameters:  # several values, one for each round, are not replaced by one
        return None if "_" in parameters[letter] else _text_of(name, {**parameters, letter: value})
    if letter in find_mechanism(name).ignored:
        return None
    for other in (None, *parameters):
        changed = _text_of(
            name, {n: v for n, v in parameters.items() if n != other} | {letter: value}
        )
        with suppress(UsageError):
            parse(changed)
            return changed
    return None


def make_tables(
    request: str, log: Log, reading: Reading, *, entropy: Entropy
) -> dict[str, pa.Table]:
    """The tables of a one-line request, made from a log; nothing is booked, and they stay with the owner."""
    requests = parse_request(request)
    if len(requests) > 1:
        raise RequestError(f"{request} is {len(requests)} requests: give each key one value")
    context = PlanContext(columns=log.source.columns, reading=reading, files=log.source.files)
    return requests[0].recipe(context).release(log, reading, entropy=entropy)


def parse_request(text: str, vary: Mapping[str, Sequence[Any]] | None = None) -> list[Request]:
    """The requests that a text stands for: one, or one for each combination of its values.

    `vary` are values of more keys, as if they were written in the text.
    """
    head, *rest = split(text, ":", most=1)
    name, parenthesis, inside = head.partition("(")
    if parenthesis and not inside.endswith(")"):
        raise RequestError(f"{text}: nothing may follow the parameters of {name} but :KEY=VALUE")
    stated = read_keys(text, inside.removesuffix(")"))
    parameters = [field.name for field in fields(requested_mechanism(text, name))]  # type: ignore[arg-type]
    chosen = read_keys(text, *rest, alone="k" in parameters)
    for key, values in (vary or {}).items():
        if key in stated or key in chosen:
            raise RequestError(f"{text} gives {key}, which is varied: leave one of the two out")
        chosen[key] = [str(value).strip() for value in values]
    several = {n: v for n, v in (stated | chosen).items() if len(v) > 1 or n in (vary or {})}
    for key, values in (stated | chosen).items():
        if not all(values) or len(set(values)) < max(1, len(values)):
            raise RequestError(f"{text}: {key} needs values, each once: {key}=1|2|4")
    return [
        Request(
            mechanism=name.strip(),
            stated=dict(zip(stated, values, strict=False)),
            chosen=dict(zip(chosen, values[len(stated) :], strict=True)),
            varied_keys=tuple(several),
        )
        for values in itertools.product(*stated.values(), *chosen.values())
    ]


def requested_mechanism(request: str, name: str) -> type[Mechanism]:
    """The class of the mechanism that a request names."""
    if name in KEYS:
        raise RequestError(
            f"{request} names a table, not a mechanism: write several tables as tables=[query,{name}]"
        )
    try:
        return find_mechanism(name)
    except UsageError as error:
        raise RequestError(f"{request}: {error}") from None


def read_value(request: str, key: str, option: Option, text: str) -> Any:
    """The value of a key of a request."""
    text = bare(text)
    try:
        if option.switch:
            if text not in SWITCH:
                raise UsageError(f"it takes true or false, not {text!r:.60}")
            return SWITCH[text]
        several = [bare(part) for part in split(text, ",")]
        return option.fit(option.value(several if option.repeated else text))
    except UsageError as error:
        why = str(error).removeprefix(option.flag).lstrip(": ")
        raise RequestError(f"{request}: {key}: {why}") from None


def read_keys(text: str, parts: str = "", *, alone: bool = False) -> dict[str, list[str]]:
    """The values of each key; the first part may be a k alone."""
    keys: dict[str, list[str]] = {}
    for place, part in enumerate(split(parts, ",") if parts else ()):
        key, equals, value = part.partition("=")
        if alone and not place and not equals:
            key, value = "k", part
        elif not equals or not KEY.match(part):
            raise RequestError(f"{text}: {part!r:.60} is not KEY=VALUE")
        if key.strip() in keys:
            raise RequestError(f"{text} gives {key.strip()} twice: write its values as 1|2|4")
        keys[key.strip()] = split(value, "|")
    return keys


def split_requests(text: str) -> list[str]:
    """The requests between commas; a part that begins with KEY= belongs to the one before it."""
    requests: list[str] = []
    for part in filter(None, split(text, ",")):
        if not KEY.match(part):
            requests.append(part)
        elif requests:
            requests[-1] += f",{part}"
        else:
            raise RequestError(f"{text}: name a mechanism first, as in rounds:{part}")
    return requests


def split(text: str, separator: str, *, most: int = -1) -> list[str]:
    """The parts of a text between separators that are outside parentheses and brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == separator and not depth and len(parts) - 1 != most:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise RequestError(f"{text}: a parenthesis or a bracket is not closed")
    return [part.strip() for part in parts]


def bare(value: str) -> str:
    """A value without the brackets around it."""
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value
