"""The flags that commands share, and how their values are read."""

import math
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.bundle.decimals import decimal, integer
from murmurlog.errors import UsageError


def number(text: str) -> float:
    """A number, also written as ln(10)."""
    inner = text[3:-1] if text.startswith("ln(") and text.endswith(")") else None
    try:
        return decimal(text) if inner is None else math.log(decimal(inner))
    except ValueError:
        raise UsageError(
            f"{text!r:.80} is no number: write digits, such as 10, 0.5 or 1e-6, or ln(10)"
        ) from None


def one_pair(text: str, flag: str) -> tuple[str, str]:
    """("a", "1") from "a=1"."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{flag} takes name=value; got {text!r}")
    return name.strip(), value.strip()


def pairs(text: str | None, flag: str) -> dict[str, str] | None:
    """{"a": "1", "b": "2"} from "a=1,b=2"."""
    return dict(one_pair(part, flag) for part in text.split(",")) if text else None


def by_values(text: str | None) -> tuple[str, list[str]] | None:
    """("country", ["DE", "FR"]) from "country=DE,FR"."""
    if text is None:
        return None
    column, values = one_pair(text, "--by")
    return column, [value.strip() for value in values.split(",")]


def per_user_bounds(text: str) -> int | dict[str, int]:
    try:
        if "=" not in text:
            return integer(text)
        return {name: integer(n) for name, n in (pairs(text, "--per-user") or {}).items()}
    except ValueError:
        raise UsageError(f"--per-user takes 20 or query=20,click=10; got {text!r}") from None


def shares_of(text: str | None, flag: str) -> dict[str, float] | None:
    given = pairs(text, flag)
    return None if given is None else {name: number(value) for name, value in given.items()}


def mechanism_of(text: str | None) -> str | dict[str, str] | None:
    """One mechanism for all tables, or from query=rounds,click=threshold one for each."""
    from murmurlog.bundle.schema import KEYS  # late: --help answers at once

    tables = "|".join(KEYS)
    if text is None or not re.match(rf"\s*({tables})\s*=", text):
        return text
    parts = re.split(rf",\s*(?=(?:{tables})\s*=)", text)  # a mechanism's text has commas, too
    return dict(one_pair(part, "--mechanism") for part in parts)


def seconds(text: str) -> float:
    """A span of time: 90s, 30m or 1.5h."""
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        return decimal(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError):
        raise UsageError(
            f"--gap takes a span of time such as 90s, 30m or 1h, not {text!r}"
        ) from None


def flag(*names: str, help: str, **more: Any) -> Any:
    env = "MURMURLOG_" + names[0].lstrip("-").replace("-", "_").upper()
    return typer.Option(*names, help=help, envvar=env, show_envvar=False, **more)


Source = Annotated[
    str,
    typer.Argument(
        help="A file, folder, 'glob*', file.duckdb::table or postgresql://...::table.",
        show_default=False,
    ),
]
Epsilon = Annotated[
    float | None,
    flag("--epsilon", help="Of the whole release, per unit. Default 1.", parser=number),
]
Delta = Annotated[
    float | None,
    flag("--delta", help="Of the whole release, per unit. Default 1e-6.", parser=number),
]
Mechanism = Annotated[
    str | None,
    flag("--mechanism", help="For all tables, or query=rounds,click=threshold. Default rounds."),
]
Noise = Annotated[
    str | None, flag("--noise", help="geometric or gaussian. Default: the lower threshold.")
]
Unit = Annotated[
    str,
    flag("--unit", help="What is protected: user, user-month, user-week, user-day, session, row."),
]
Neighbours = Annotated[str, flag("--neighbours", help="add-remove or replace.")]
Letters = Annotated[
    str | None, flag("--set", help="The mechanism's own letters instead of epsilon: K=50,b=10.")
]
Columns = Annotated[
    str | None, flag("--columns", help="Which column is what: user=uid,query=q,time=ts,url=none.")
]
Encoding = Annotated[
    str | None, flag("--encoding", help="Of text files: utf-8, utf-16, gb18030, latin-1.")
]
Shape = Annotated[
    str | None,
    flag("--shape", help="Files of a well-known log, whatever their names: aol, sogou, excite."),
]
Url = Annotated[str, flag("--url", help="How much of a url to keep: host, path or full.")]
Strict = Annotated[bool, flag("--strict", help="Refuse broken rows instead of dropping them.")]
Memory = Annotated[str | None, flag("--memory", help="Memory limit, such as 8GB; more is spilled.")]
Users = Annotated[
    int | None, flag("--users", help="A publicly known number (upper bound) of users.")
]
LedgerFile = Annotated[Path | None, flag("--ledger", help="The ledger file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# The mechanisms' own options: the name of a parameter is the name of its flag.
Count = Annotated[
    str, flag("--count", help="korolova: users, or rows (a unit's first rows, with repeats).")
]
Split = Annotated[
    str | None, flag("--split", help="korolova: of epsilon, select=0.5,query=0.25,click=0.25.")
]
ResultLists = Annotated[
    Path | None,
    flag("--result-lists", help="korolova: public lists, a file of query<TAB>url lines."),
]
Notion = Annotated[
    str | None, flag("--notion", help="zealous: dp, or pdp (which needs --users). Default dp.")
]
ViaKeywords = Annotated[
    bool, flag("--via-keywords", help="zealous: queries made of up to 3 published keywords.")
]
PoolFile = Annotated[
    Path | None,
    flag("--pool", help="pool, hybrid: public queries, a file of query or query<TAB>url lines."),
]
Fakes = Annotated[
    float | None, flag("--fakes", help="pool, hybrid: expected queries nobody asked. Default 10.")
]
SessionsPerUser = Annotated[
    int | None, flag("--sessions-per-user", help="sessions: how many of a unit's. Default 1.")
]
QueriesPerSession = Annotated[
    int | None, flag("--queries-per-session", help="sessions: how many are kept. Default 3.")
]
Subsequences = Annotated[
    str | None, flag("--subsequences", help="sessions: all or whole. Default all.")
]
Map = Annotated[
    str | None,
    flag("--map", help="sessions: length, or a public file of query<TAB>label lines."),
]
RoundsFlag = Annotated[int | None, flag("--rounds", help="rounds: how many, up to 8. Default 4.")]
CountShare = Annotated[
    float | None, flag("--count-share", help="rounds: part of the budget on counts. Default 0.3.")
]
CountPerUser = Annotated[
    int | None, flag("--count-per-user", help="rounds: published items counted a unit. Default 40.")
]
Objective = Annotated[
    str | None, flag("--objective", help="hong: output, frequent, diverse or breach.")
]
Support = Annotated[
    float | None, flag("--support", help="hong frequent: least share of the clicks. Default 0.001.")
]
OutputSize = Annotated[
    int | None, flag("--output-size", help="hong: clicks to publish. Default half of the most.")
]
Diversity = Annotated[
    str | None, flag("--diversity", help="hong diverse: of pairs or of queries. Default pairs.")
]
Measure = Annotated[
    str | None,
    flag("--measure", help="synthetic: also together, rank, hour, count; with commas."),
]
