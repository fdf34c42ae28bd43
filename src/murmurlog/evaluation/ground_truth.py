"""The ground truth: exact tables of a log, who holds what, and what held-out users did.

All of it is private and for scoring only; models never see it. Exact tables look like published ones,
so that the raw log can be evaluated as one more system.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.options import GAP
from murmurlog.bundle.schema import TABLES, flatten_lists
from murmurlog.counting.holdings import bring_holdings
from murmurlog.counting.items import ItemFinder
from murmurlog.logs.log import Log
from murmurlog.logs.rows import NEVER, Column, Rows, Texts
from murmurlog.logs.text_keys import NO_KEYS, distinct_keys, number_keys, places_of
from murmurlog.privacy.sampler import Keys

Ints = npt.NDArray[np.int64]

KINDS = ("keyword", "query", "pair", "click", "session")


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Pairs of a user and an item that the user holds, each once: numbers of users, rows of the exact table."""

    user: Ints
    item: Ints
    users: int  # the number of users, those who hold nothing included


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """Exact counts of the users of a release, and the searches of users whom it has not seen."""

    tables: Mapping[str, pa.Table]  # key columns, users, rows; the most users first, then by key
    holders: Mapping[str, Holders]  # by the same kinds
    searches: pa.Table | None = None  # of held-out users: user, session, query, url; in order
    labels: pa.Table | None = None  # kind, query, target: planted truth
    has_urls: bool = True
    has_times: bool = True


def count_exactly(
    log: Log, *, gap: float = GAP, kinds: Sequence[str] = KINDS
) -> tuple[dict[str, pa.Table], dict[str, Holders]]:
    """The exact table of every kind that a log of users has, and who holds its items."""
    kinds = [
        kind
        for kind in kinds
        if (kind != "click" or log.has_urls) and (not TABLES[kind].in_sequence or log.has_times)
    ]
    who = distinct_keys(np.concatenate([NO_KEYS, *log.partitions.results(_users)]))
    tables, holders = dict[str, pa.Table](), dict[str, Holders]()
    for kind in kinds:
        tables[kind], holders[kind] = _count_table(log, kind, gap, who)
    return tables, holders


def _users(rows: Rows) -> Keys:
    """The keys of the users of a partition who have a row."""
    users: Keys = rows.user_keys[np.unique(rows.unit)]
    return users


def _count_table(log: Log, kind: str, gap: float, who: Keys) -> tuple[pa.Table, Holders]:
    """One exact table: how many users hold an item, and how many rows it is in."""
    holdings = bring_holdings(log, ItemFinder(kind=kind, gap=math.floor(gap * 1e6)))
    size = holdings.items.num_rows
    rows = np.zeros(size, np.int64)
    np.add.at(rows, holdings.item, holdings.number)
    users = np.bincount(holdings.item, minlength=size)
    table = holdings.items.append_column("users", pa.array(users)).append_column(
        "rows", pa.array(rows)
    )
    by = [("users", "descending"), *((key, "ascending") for key in holdings.items.column_names)]
    order = pc.sort_indices(flatten_lists(table), sort_keys=by).to_numpy()
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    user = places_of(holdings.unit_keys, who)[holdings.unit]
    return table.take(pa.array(order)), Holders(
        user=user, item=place[holdings.item], users=len(who)
    )


def searches_of(log: Log, *, gap: float = GAP) -> pa.Table:
    """The searches of users in order: numbers of user and session, query, url (null: no click).

    Without times sessions are unknown, and every row is a session.
    """
    parts = [_NOTHING, *log.partitions.results(partial(_searches, timed=log.has_times))]
    code, _ = number_keys(np.concatenate([keys for keys, _ in parts]))
    table = pa.concat_tables([rows for _, rows in parts])
    table = table.append_column("user", pa.array(code.astype(np.int64)))
    table = table.sort_by([(name, "ascending") for name in ("user", "time", "query", "url")])
    user, time = table["user"].to_numpy(), table["time"].to_numpy()
    new = np.ones(len(user), bool)
    if log.has_times:
        new[1:] = (np.diff(user) != 0) | (np.diff(time) > gap * 1e6)
    session = pa.array(np.cumsum(new) - 1)
    return table.append_column("session", session).select(["user", "session", "query", "url"])


def _searches(rows: Rows, *, timed: bool) -> tuple[Keys, pa.Table]:
    """The rows of a partition, those with a time if there are times, and the user of each."""
    if timed:
        rows = rows.at(rows.time != NEVER)
    columns = [pa.array(rows.time), _texts(rows.query, rows.texts)]
    columns.append(
        pa.nulls(rows.count, pa.string()) if rows.url is None else _texts(rows.url, rows.texts)
    )
    return rows.user_keys[rows.unit], pa.table(columns, schema=_SEARCHES)


def _texts(column: Column, texts: Texts) -> pa.Array:
    """The text of each row, null for none."""
    codes = pa.array(column.codes, mask=column.codes < 0)
    return texts.take(column.ids).cast(pa.string()).take(codes)


_SEARCHES = pa.schema([("time", pa.int64()), ("query", pa.string()), ("url", pa.string())])
_NOTHING = (NO_KEYS, _SEARCHES.empty_table())
