"""A first look at a log, exact and for the owner's eyes only: nothing of it may be published."""

from collections.abc import Callable, Mapping
from typing import Any

from murmurlog.counting.items import items
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read, rows_hit
from murmurlog.logs.screen import Screen, load
from murmurlog.logs.source import find, guess


def profile(
    source: str,
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    shape: str | None = None,
    url: str = "path",
    strict: bool = False,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    screen: Screen | None = None,
    memory: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """rows, users, shape, columns, rows broken or hit by a screen, distinct items a user by kind.

    Where neither shape nor columns are given, rows may be looked at to tell them (`guess`), and
    `proposed` says what to give to a release, which never looks. Without a screen the one that comes with murmurlog is used. No row is dropped for a hit.
    """
    proposed = guess(source) if shape is None and columns is None else {}
    found = find(
        source,
        columns=_pairs(proposed.get("columns")) or columns,
        encoding=encoding or proposed.get("encoding"),
        shape=shape or proposed.get("shape"),
    )
    patterns = screen or load()
    with connect(memory=memory) as engine:
        log = read(
            found,
            engine=engine,
            url=url,
            strict=strict,
            since=since,
            until=until,
            where=where,
            say=say,
        )
        say("screening queries")
        screened = rows_hit(log, patterns)
        per_user = {}
        for kind in ("keyword", "query", "pair", "click"):
            if (kind == "click" and not log.has_urls) or (kind == "pair" and not log.has_times):
                continue
            say(f"counting {kind}")
            per_user[kind] = _items_per_user(items(log, kind=kind))
        users = log.table.user.nunique().to_pyarrow().as_py()
    return {
        "rows": log.rows,
        "users": int(users),
        "shape": found.shape,
        "columns": dict(found.columns),
        "proposed": proposed,
        "broken": dict(log.broken),
        "screened": {name: n for name, n in screened.items() if n},
        "items_per_user": per_user,
    }


def _items_per_user(held: Any) -> dict[str, float]:
    distinct = held.table.select("unit", *held.keys).distinct()
    counted = distinct.group_by("unit").aggregate(n=distinct.count())
    row = counted.aggregate(
        mean=counted.n.mean(), p50=counted.n.quantile(0.5), p99=counted.n.quantile(0.99)
    )
    return {name: float(value or 0) for name, value in row.to_pyarrow().to_pylist()[0].items()}


def _pairs(text: str | None) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}
