"""The exact profile of a log, for the owner only: it must not be published."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from murmurlog.bundle.canonical import CHOICES
from murmurlog.bundle.options import split_keywords
from murmurlog.counting.items import Integers, ItemFinder
from murmurlog.counting.sorting import first_of_each
from murmurlog.errors import UsageError
from murmurlog.logs.broken_rows import check_broken
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.log import Log, read, rows_hit
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.rows import Rows
from murmurlog.logs.screen import load
from murmurlog.logs.source import find, guess


def profile(
    source: LogSource,
    *,
    memory: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> dict[str, Any]:
    """The exact profile of a log, for its owner only: what `look` counts, as a dictionary.

    `keywords` are named as the flags of `murmurlog profile` are.
    """
    (read,), others = split_keywords(keywords, ReadOptions)
    if others:
        raise UsageError(f"a profile has no option {', '.join(sorted(others))}")
    return look(source, ReadOptions(**read), memory=memory, say=say)


def look(
    source: LogSource,
    options: ReadOptions,
    *,
    memory: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """rows, users, shape, columns, rows broken or hit by a screen, distinct items a user by kind.

    Without shape and columns, rows may be read to guess them (`guess`), and `proposed` holds the
    options to give to a release, which never guesses. A hit of the screen drops no row.
    """
    with local_source(source, options, say=say) as path:
        return _look(path, options, memory, say)


def _look(
    path: str, options: ReadOptions, memory: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    choices = (options.shape, options.columns, options.delimiter)
    proposed = guess(path, options.format) if choices == (None, None, None) else {}
    read_as = replace(
        options,
        columns=_pairs(proposed.get("columns")) or options.columns,
        encoding=options.encoding or proposed.get("encoding"),
        shape=options.shape or proposed.get("shape"),
    )
    source = find(path, read_as)
    patterns = load(Path(options.patterns) if options.patterns else None)
    with connect(memory=memory) as engine:
        log = read(
            source,
            engine=engine,
            url=options.url,
            keys=CHOICES[options.keys],
            strict=options.strict,
            since=options.since,
            until=options.until,
            where=options.where,
            say=say,
        )
        check_broken(
            source, rows=log.rows, broken=log.broken, screened=log.screened,
            period=bool(options.since or options.until), max_broken=1.0, say=say,
        )  # fmt: skip
        say("screening queries")
        screened = rows_hit(log, patterns)
        per_user = {}
        for kind in ("keyword", "query", "pair", "click"):
            if (kind == "click" and not log.has_urls) or (kind == "pair" and not log.has_times):
                continue
            say(f"counting {kind}")
            per_user[kind] = _items_per_user(log, kind)
        users = sum(log.partitions.results(_count_users))
    return {
        "rows": log.rows,
        "users": users,
        "shape": source.shape,
        "columns": dict(source.columns),
        "proposed": proposed,
        "broken": dict(log.broken),
        "screened": {name: n for name, n in screened.items() if n},
        "items_per_user": per_user,
    }


def _count_users(rows: Rows) -> int:
    return len(np.unique(rows.unit))


def _items_per_user(log: Log, kind: str) -> dict[str, float]:
    """The mean and the quantiles of distinct items over the users who have any."""
    users = np.zeros(1, np.int64)  # by how many items they have
    for part in log.partitions.results(partial(_histogram, find=ItemFinder(kind=kind))):
        users, part = sorted((users, part), key=len, reverse=True)
        users[: len(part)] += part
    users[0] = 0
    items = np.arange(len(users))
    mean = float((users * items).sum() / max(1, users.sum()))
    return {"mean": mean, "p50": _quantile(users, 0.5), "p99": _quantile(users, 0.99)}


def _histogram(rows: Rows, *, find: ItemFinder) -> Integers:
    """How many users of a partition have 0, 1, 2, ... distinct items."""
    items = find(rows)
    new = first_of_each(items.unit, items.item)
    return np.bincount(np.bincount(items.unit[new], minlength=1)).astype(np.int64)


def _quantile(users: Integers, share: float) -> float:
    """A quantile of the numbers of items; between two users, as far as it lies between them."""
    if not users.any():
        return 0.0
    place = share * (int(users.sum()) - 1)
    before, after = np.searchsorted(np.cumsum(users), [int(place) + 1, math.ceil(place) + 1])
    part = place - int(place)
    return float(before * (1 - part) + after * part)


def _pairs(text: str | None) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}
