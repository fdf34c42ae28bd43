"""The flags that commands share, and how their values are read."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.errors import UsageError


def number(text: str) -> float:
    """A number, also written as ln(10)."""
    inner = text[3:-1] if text.startswith("ln(") and text.endswith(")") else None
    try:
        return float(text) if inner is None else math.log(float(inner))
    except ValueError:
        raise UsageError(f"{text!r} is no number (ln(10) is one, too)") from None


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
            return int(text)
        return {name: int(n) for name, n in (pairs(text, "--per-user") or {}).items()}
    except ValueError:
        raise UsageError(f"--per-user takes 20 or query=20,click=10; got {text!r}") from None


def shares_of(text: str | None, flag: str) -> dict[str, float] | None:
    given = pairs(text, flag)
    return None if given is None else {name: number(value) for name, value in given.items()}


def flag(*names: str, help: str, **more: Any) -> Any:
    env = "MURMURLOG_" + names[0].lstrip("-").replace("-", "_").upper()
    return typer.Option(*names, help=help, envvar=env, show_envvar=False, **more)


Source = Annotated[
    str,
    typer.Argument(help="A file, folder, 'glob*' or file.duckdb::table.", show_default=False),
]
Epsilon = Annotated[
    float | None,
    flag("--epsilon", help="Of the whole release, per unit. Default 1.", parser=number),
]
Delta = Annotated[
    float | None,
    flag("--delta", help="Of the whole release, per unit. Default 1e-6.", parser=number),
]
Mechanism = Annotated[str, flag("--mechanism", help="How items are chosen and counted.")]
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
    str | None, flag("--columns", help="Which column is what: user=uid,query=q,time=ts,url=link.")
]
Encoding = Annotated[
    str | None, flag("--encoding", help="Of text files: utf-8, utf-16, gb18030, latin-1.")
]
Url = Annotated[str, flag("--url", help="How much of a url to keep: host, path or full.")]
Strict = Annotated[bool, flag("--strict", help="Refuse broken rows instead of dropping them.")]
Memory = Annotated[str | None, flag("--memory", help="Memory limit, such as 8GB; more is spilled.")]
LedgerFile = Annotated[Path | None, flag("--ledger", help="The ledger file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
