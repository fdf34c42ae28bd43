"""A first look at a log, exact and for the owner's eyes only: nothing of it may be published."""

from collections.abc import Callable, Mapping
from typing import Any

from murmurlog.engine import connect
from murmurlog.items import items
from murmurlog.log import read
from murmurlog.source import find
from murmurlog.tables import KEYS


def profile(
    source: str,
    *,
    columns: Mapping[str, str] | None = None,
    url: str = "path",
    strict: bool = False,
    memory: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """rows, users, shape, columns, broken rows by reason, distinct items a user by kind."""
    found = find(source, columns=columns)
    with connect(memory=memory) as engine:
        log = read(found, engine=engine, url=url, strict=strict, say=say)
        per_user = {}
        for kind in KEYS:
            if kind == "click" and not log.has_urls:
                continue
            say(f"counting {kind}")
            per_user[kind] = _items_per_user(items(log, kind=kind))
        users = log.table.user.nunique().to_pyarrow().as_py()
    return {
        "rows": log.rows,
        "users": int(users),
        "shape": found.format,
        "columns": dict(found.columns),
        "broken": dict(log.broken),
        "items_per_user": per_user,
    }


def _items_per_user(held: Any) -> dict[str, float]:
    distinct = held.table.select("unit", *held.keys).distinct()
    counted = distinct.group_by("unit").aggregate(n=distinct.count())
    row = counted.aggregate(
        mean=counted.n.mean(), p50=counted.n.quantile(0.5), p99=counted.n.quantile(0.99)
    )
    return {name: float(value) for name, value in row.to_pyarrow().to_pylist()[0].items()}
