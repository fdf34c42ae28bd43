"""The schema of privacy.json: its keys, the type of each value and the bounds it lies in.

It is checked once, when a certificate is read, for `load`, `serve` and `verify` alike. Whether a claim
holds is for `verify` to check. Unknown keys are allowed, so that later versions can add some; `verify`
refuses them.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from murmurlog import __version__
from murmurlog.bundle.canonical import CANONICAL
from murmurlog.bundle.keys import MOST_CHARACTERS, odd_line
from murmurlog.bundle.options import mechanism_table
from murmurlog.bundle.schema import AT_LEAST, COUNTED, IN_LOG, KEYS
from murmurlog.errors import BundleError, OtherVersion
from murmurlog.privacy import ASSUMPTIONS, NEIGHBOURS, NOISES, NOTIONS, UNITS

# The format of a bundle fixes its files and the keys and facts in them, but no wording.
FORMAT = 2
FIRST_FORMAT = "murmurlog-bundle-1"  # what bundles of format 1 state
# The last version that could check bundles of format 1, clipped counts, and mechanisms, units and options
# that are no longer part of this one.
LAST_VERSION = "0.2.0"
PASSES = ("0.5", "0.95", "0.99")  # the probabilities for which `passes` states a number of units
MOST_WORDS = 100_000  # characters of all texts by the owner
MOST_WHOLE = 1 << 62  # for numbers used in computations; they fit in 64 bits
MOST_DIGITS = 64  # of any other whole number, such as the size of a pool
MOST_NUMBER = 1e15
LEAST_DELTA = 1e-300  # a smaller positive delta has no inverse in floating point
MOST_ITEMS = 1000  # of a list or an object without a schema
MOST_DEPTH = 4  # of such values
SHORT = 200  # characters of a version, a date or a setting

Rule = Callable[[Any, str], None]  # of a value and its key; raises where the value breaks the rule


def check(data: Any) -> None:
    """Raises BundleError, with the key, unless a parsed privacy.json keeps to the schema.

    Raises OtherVersion where a sound one states something that is not part of this version.
    """
    _check_format(data)
    _certificate(data, "")
    if sum(map(len, _owner_texts(data))) > MOST_WORDS:
        raise _schema_error(
            "about, unprotected, ledger.source and text.where",
            f"hold at most {MOST_WORDS:,} characters together",
        )
    if unknown := next(_unknown_parts(data), None):
        if data["murmurlog"] == __version__:
            raise _schema_error("it", f"name what murmurlog {__version__} has, and not {unknown}")
        raise _other_version(data, unknown)


def _unknown_parts(data: Mapping[str, Any]) -> Iterator[str]:
    """The unit, mechanisms and options of a release that this version does not have."""
    claims = data["tables"].values()
    for guarantee in (data["guarantee"], *(claim["guarantee"] for claim in claims)):
        if guarantee["unit"] not in UNITS:
            yield f"the unit {guarantee['unit']:.60}"
    for claim in claims:
        name = re.split(r"[:(]", claim["mechanism"])[0]
        if name not in {mechanism["name"] for mechanism in mechanism_table()["mechanisms"]}:
            yield f"the mechanism {name:.60}"
        elif name == "rounds" and re.search(r"\bsigma=", claim["mechanism"]):
            yield "clipped counts"
    if (keys := data["text"].get("keys")) not in (None, CANONICAL):
        yield f"the option --keys {keys:.60}"
    if data["consistent"]:
        yield "the option --consistent"
    if data["planned_by"] is not None:
        yield "the option --planned-by"


def _other_version(data: Mapping[str, Any], part: str) -> OtherVersion:
    """The error for a part that this version does not have: an earlier version or a later one does."""
    stated = _release_numbers(data.get("murmurlog"))
    version = f"murmurlog {LAST_VERSION}"
    if not stated:
        version = "the version that made it"
    elif stated > _release_numbers(__version__):
        version = f"murmurlog {data['murmurlog']}"
    return OtherVersion(f"made by {part}, which this version cannot check: use {version}")


def _release_numbers(version: Any) -> list[int]:
    """[0, 2, 0] of 0.2.0 or 0.2.0a1; none if it is no version."""
    pattern = r"(\d{1,4}(?:\.\d{1,4}){1,3})[a-z0-9.]{0,20}"
    match = isinstance(version, str) and re.fullmatch(pattern, version, re.ASCII)
    return [int(number) for number in match[1].split(".")] if match else []


def _check_format(data: Any) -> None:
    """Raises unless a parsed privacy.json states the format that this version reads."""
    stated = data.get("format") if isinstance(data, dict) else None
    if stated == FIRST_FORMAT or (type(stated) is int and stated > FORMAT):
        number = 1 if stated == FIRST_FORMAT else _abbreviate(stated)
        raise _other_version(data, f"bundle format {number}")
    if stated != FORMAT or type(stated) is not int:
        raise BundleError(
            f"privacy.json is not of the format of a bundle: `format` is {_abbreviate(stated)}, not {FORMAT}"
        )


def _owner_texts(data: Mapping[str, Any]) -> Iterator[str]:
    """The texts by the owner; not the values of `by`, which are names and may be many."""
    yield from data["about"].values()
    yield from data["unprotected"]
    yield data["ledger"]["source"] if data["ledger"] else ""
    for column, value in (data["text"]["where"] or {}).items():
        yield from (column, value)


def _schema_error(at: str, rule: str, *value: Any) -> BundleError:
    """The error for a key that breaks a rule, with its value if there is one."""
    actual = f", not {_abbreviate(*value)}" if value else ""
    return BundleError(
        f"privacy.json is damaged: {at or 'it'} must {rule}{actual}. Get the bundle again from its "
        "publisher"
    )


def _abbreviate(value: Any) -> str:
    """A value for a message, in few characters."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length():,} bits"
    if isinstance(value, str | list | dict) and len(value) > 40:
        return f"a {type(value).__name__} of length {len(value):,}"
    return f"{value!r:.60}"


def _path(at: str, key: object) -> str:
    """A key with the keys above it: tables.query.rows."""
    name = key if isinstance(key, str) and key.isprintable() else repr(key)
    return f"{at}.{name:.60}" if at else f"{name:.60}"


# --- kinds of rules -------------------------------------------------------------------------------


def _must(requirement: str, holds: Callable[[Any], bool]) -> Rule:
    def rule(value: Any, at: str) -> None:
        if not holds(value):
            raise _schema_error(at, f"be {requirement}", value)

    return rule


def _optional(inner: Rule) -> Rule:
    def rule(value: Any, at: str) -> None:
        if value is not None:
            inner(value, at)

    return rule


def _line(most: int = MOST_CHARACTERS, *, least: int = 0) -> Rule:
    return _must(
        f"one plain line of {least} to {most:,} characters",
        lambda v: isinstance(v, str) and least <= len(v) <= most and odd_line([v]) is None,
    )


def _whole(least: int, most: int = MOST_WHOLE) -> Rule:
    return _must(
        f"a whole number from {least} to {most}", lambda v: type(v) is int and least <= v <= most
    )


def _number(least: float = 0.0, most: float = MOST_NUMBER, *, above: bool = False) -> Rule:
    def holds(value: Any) -> bool:
        return (
            type(value) in (int, float) and least <= value <= most and (value > least or not above)
        )

    return _must(f"a number {'above' if above else 'from'} {least:g} and at most {most:g}", holds)


def _one_of(*choices: Any) -> Rule:
    def holds(value: Any) -> bool:
        return any(value == choice and type(value) is type(choice) for choice in choices)

    return _must(f"one of {', '.join(map(str, choices))}", holds)


def _list(inner: Rule, *, least: int = 0) -> Rule:
    def rule(value: Any, at: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise _schema_error(at, f"be a list of at least {least} values", value)
        for place, item in enumerate(value):
            inner(item, f"{at}[{place}]")

    return rule


def _object(inner: Rule, *, key: Rule) -> Rule:
    """An object whose keys are not fixed."""

    def rule(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _schema_error(at, "be an object", value)
        for name, item in value.items():
            key(name, f"a key of {at}")
            inner(item, _path(at, name))

    return rule


def _record(
    required: Mapping[str, Rule],
    optional: Mapping[str, Rule] | None = None,
    others: Rule | None = None,
) -> Rule:
    """An object with required and optional keys; `others` is the rule for all further keys."""
    rules = {**required, **(optional or {})}

    def rule(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _schema_error(at, "be an object", value)
        for name in required:
            if name not in value:
                raise _schema_error(_path(at, name), "be there")
        for name, item in value.items():
            if item_rule := rules.get(name, others):
                item_rule(item, _path(at, name))

    return rule


def _plain(value: Any, at: str, depth: int = 0) -> None:
    """Any JSON of finite numbers and plain lines with little nesting."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if abs(value) >= 10**MOST_DIGITS:
            raise _schema_error(at, f"have at most {MOST_DIGITS} digits", value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _schema_error(at, "be a finite number", value)
    elif isinstance(value, str):
        _line()(value, at)
    elif depth >= MOST_DEPTH or len(value) > MOST_ITEMS:
        raise _schema_error(at, f"be of depth {MOST_DEPTH} and length {MOST_ITEMS} at most")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _plain(item, f"{at}[{place}]", depth + 1)
    else:
        for name, item in value.items():
            _line(SHORT)(name, f"a key of {at}")
            _plain(item, _path(at, name), depth + 1)


def _is_day(value: Any) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


# --- the schema -----------------------------------------------------------------------------------

_boolean = _must("true or false", lambda v: isinstance(v, bool))
_delta = _must(
    f"0, or a number from {LEAST_DELTA:g} to 1",
    lambda v: type(v) in (int, float) and (v == 0 or LEAST_DELTA <= v <= 1),
)
_kind = {
    "unit": _line(SHORT, least=1),
    "neighbours": _one_of(*NEIGHBOURS),
    "notion": _one_of(*NOTIONS),
}
_no_guarantee = _record(_kind, dict.fromkeys(("epsilon", "delta"), _one_of(None)))
_some_guarantee = _record(
    {**_kind, "epsilon": _number(), "delta": _delta}, {"delta_dp": _optional(_delta)}
)


def _guarantee(value: Any, at: str) -> None:
    nothing = isinstance(value, dict) and value.get("notion") == "none"
    (_no_guarantee if nothing else _some_guarantee)(value, at)


# The parameters that are used in computations or shown; a mechanism may have further ones.
_parameters = _record(
    {},
    {
        "noise": _optional(_one_of(*NOISES)),
        "count": _optional(_one_of(*COUNTED)),
        **dict.fromkeys(("per_user", "count_per_user", "labels", "grid"), _optional(_whole(1))),
        **dict.fromkeys(
            ("scale", "count_scale", "histogram_scale"), _optional(_number(above=True))
        ),
        **dict.fromkeys(("threshold", "pool_threshold"), _optional(_whole(-MOST_WHOLE))),
        "expected_fakes": _optional(_number()),
        "thresholds": _optional(_list(_whole(0))),
        "own": _optional(_list(_whole(1))),
        "past": _optional(_list(_whole(0))),
        "columns": _optional(_list(_line(SHORT))),
    },
    _plain,
)
_claim = _record(
    {
        "rows": _whole(0),
        "mechanism": _line(least=1),
        "guarantee": _guarantee,
        "count": _optional(_one_of(*COUNTED)),
        "parameters": _parameters,
        "passes": _object(_whole(0), key=_one_of(*PASSES)),
        "notes": _object(_plain, key=_line(SHORT)),
    },
    {
        "meaning": _one_of(IN_LOG, AT_LEAST),
        "d2": _whole(1),
        "common_error": _number(),
        "histogram": _list(_whole(-MOST_WHOLE)),
    },
)
# The format of the log, and what determined it before any row was read (A8).
_formats = (
    "parquet",
    "csv",
    "tsv",
    "jsonl",
    "json",
    "duckdb",
    "postgresql",
    "aol",
    "sogou",
    "excite",
)
_source = _record(
    {
        "format": _one_of(*_formats),
        "format_from": _one_of("name", "header", "--shape", "--format", "--delimiter", "server"),
        "columns_from": _one_of("names", "shape", "--columns"),
    }
)
_reading = {
    "normaliser": _line(SHORT),
    "url": _line(SHORT),
    "screen": _list(_line(SHORT)),
    "deny": _boolean,
    "since": _optional(_line(SHORT, least=1)),
    "until": _optional(_line(SHORT, least=1)),
    "where": _optional(_object(_line(), key=_line())),
}
_keys = _optional(_line(SHORT, least=1))
_grouping = {
    "gap": _optional(_number(above=True)),
    "set_size": _optional(_whole(1)),
    "consecutive": _optional(_boolean),
}
_windows = dict.fromkeys(("select_from", "count_from"), _line(SHORT, least=1))
_text = _record({**_reading, **_grouping}, {"source": _source, "keys": _keys, **_windows})
_booked_source = {"source": _line(), "releases_before": _whole(0)}
_pair = {"epsilon": _number(), "delta": _number()}
_amounts = _record({name: _number() for name in ("mu2", "keys", "distance", "pure")})
_by_sum = _record({**_booked_source, "epsilon_before": _number(), "delta_before": _number()})
_by_filter = _record(
    {
        **_booked_source,
        "rule": _one_of("filter"),
        "cap": _record({**_pair, "keys_share": _number()}),
        "spent_by_sum": _record(_pair),
        "rectangle": _amounts,
        "part": _amounts,
    }
)


def _booking(value: Any, at: str) -> None:
    """By the rule of the source: sums of what was spent before, or the cap and the release's part."""
    rule = _by_filter if isinstance(value, dict) and "rule" in value else _by_sum
    rule(value, at)


def _tables(value: Any, at: str) -> None:
    if not isinstance(value, dict) or not value:
        raise _schema_error(at, "be an object with at least one table")
    for name, claim in value.items():
        if name not in KEYS:
            raise BundleError(
                f"privacy.json names the unknown table {name!r:.60}: a bundle may have {', '.join(KEYS)}"
            )
        _claim(claim, _path(at, name))


_id = _must(
    "32 hexadecimal digits",
    lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{32}", v) is not None,
)
_required = {
    "murmurlog": _line(SHORT, least=1),
    "release_id": _id,
    "published": _must("a date such as 2026-01-31", _is_day),
    "private": _boolean,
    "guarantee": _guarantee,
    "tables": _tables,
    "assumptions": _object(_line(), key=_one_of(*ASSUMPTIONS)),
    "bound": _line(SHORT),
    "engine": _line(SHORT, least=1),
    "noise": _record(
        {"method": _line(SHORT), "entropy": _line(SHORT), "delta": _number(0, 1e308)},
        {"keys": _line(SHORT)},
    ),
    "by": _optional(_record({"column": _line(least=1), "values": _list(_line(), least=1)})),
    "declared_users": _optional(_whole(1)),
    "unprotected": _list(_line()),
    "ledger": _optional(_booking),
    "about": _object(_line(), key=_line(SHORT)),
    "planned_by": _optional(_line()),
    "consistent": _boolean,
}
# Releases whose published keys are counted again, and how many keys of each table.
_after = _record({"releases": _list(_id, least=1), "keys": _object(_whole(1), key=_one_of(*KEYS))})
_certificate = _record({**_required, "text": _text}, {"after": _after})
