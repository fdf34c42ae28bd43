"""Consistent counts: a user who clicks on a query's result has asked the query.

A click (query, url) cannot have more users than its query, a pair (query, next_query) no more than
either of its queries, a session or a set of queries no more than any of its members. Noise and
bounding break this. `reconciled` gives the nearest numbers that keep it, by weighted least squares
with weight 1/stderr^2: the projection of the noisy values onto the cone of consistent ones. It uses
published values only, so it costs no privacy, and `noisy_table` undoes it.

**Accuracy.** The projection onto a convex set is nearer, in the weighted norm, to every point of that
set. The numbers of users in the log itself, before bounding, are such a point: the weighted sum of
squared errors against them never grows, whatever the noise was. Against the *bounded* numbers this
holds only where those are consistent themselves. They need not be: queries and clicks are bounded
separately, and the bound may keep a user's click but not its query.

The solution is exact. Counts of queries only rise and counts of rows that name them only fall, so the
solution satisfies every inequality that the noisy values satisfy, and only violated ones matter. Most
of these form stars around one query, which have a closed form. The other components are repeatedly
split at their mean by a maximal closure (Maxwell and Muckstadt 1985; Luss, Rosset and Shahar 2012).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.schema import KEYS, LISTS, NOISY, SEPARATOR, TIED, is_reliable
from murmurlog.errors import UsageError

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Edges = tuple[Whole, Whole]  # (child, parent): no more users than

NO_GAIN = 1e-10  # relative gain of a cut below which it is only rounding
TIE = 1e-6  # halves are rounded down even if the last bits of a mean are above


def reconciled(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables with consistent `users`; the noisy values are kept as `users_noisy`.

    Tables other than queries, pairs, clicks, sessions and sets, and tables that do not count users,
    stay unchanged. Sessions of labels must not be given (`schema.tied`). With a column that splits
    the tables, a row is compared with the query of the same value.

    `users_stderr` is that of `users_noisy`. Over all rows together it is not too small, since the
    weighted error does not grow; for a single row it is no bound. A query that is raised by a click
    with a large error can end up further from the truth than it was.
    """
    given = {
        name: table
        for name, table in tables.items()
        if name in TIED and {"users", "users_stderr"} <= set(table.column_names)
    }
    if any(NOISY in table.column_names for table in given.values()):
        raise UsageError(f"these tables are consistent already: they have a column {NOISY}")
    y, stderr = (_stacked(given, name) for name in ("users", "users_stderr"))
    with np.errstate(all="ignore"):
        weights = 1 / stderr**2
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise UsageError("counts without an error are exact: there is nothing to make consistent")
    x = nearest(y, weights, *_edges(given))
    # Rounding is monotone, so consistent values stay consistent.
    users = np.ceil(x - 0.5 - TIE).astype(np.int64)
    made, start = dict(tables), 0
    for name, table in given.items():
        rows = pa.array(users[start : start + table.num_rows])
        made[name] = _with_users(table, rows).append_column(NOISY, table["users"])
        start += table.num_rows
    return made


def noisy_table(table: pa.Table) -> pa.Table:
    """The table with the counts that the mechanism drew, up to the order of rows."""
    if NOISY not in table.column_names:
        return table
    return _with_users(table, table[NOISY]).drop_columns([NOISY])


def nearest(y: Floats, weights: Floats, child: Whole, parent: Whole) -> Floats:
    """The x >= 0 with x[child] <= x[parent] that is nearest to y in the weighted squares.

    A parent of one edge must not be the child of another.
    """
    from scipy.sparse.csgraph import connected_components

    x = y.astype(np.float64)
    broken = y[child] > y[parent]
    if broken.any():
        low, high = child[broken], parent[broken]
        _, part = connected_components(_graph(len(y), low, high), directed=False)
        twice = np.bincount(low, minlength=len(y)) > 1
        woven = np.isin(part, part[twice])  # components that are more than one star
        for among, solve in ((~woven[low], _stars), (woven[low], _cut)):
            if among.any():
                solve(x, y, weights, low[among], high[among])
        np.maximum.at(x, parent, x[child])  # the last bits of means that are equal
    # The solution under a lower bound is the solution without it, cut off at the bound.
    return np.maximum(x, 0.0)


def _stars(x: Floats, y: Floats, w: Floats, child: Whole, parent: Whole) -> None:
    """Pools each parent with those of its children that are above the pool's mean.

    Starts with all children: a child below the mean of too large a pool is also below the mean of the
    right pool, which is higher. So children are only ever removed.
    """
    sums, weight = w * y, w.copy()
    np.add.at(sums, parent, (w * y)[child])
    np.add.at(weight, parent, w[child])
    while True:
        mean = sums / weight
        out = y[child] <= mean[parent]
        if not out.any():
            break
        np.subtract.at(sums, parent[out], (w * y)[child[out]])
        np.subtract.at(weight, parent[out], w[child[out]])
        child, parent = child[~out], parent[~out]
    # Summed again, because subtracting left rounding errors.
    sums, weight = w * y, w.copy()
    np.add.at(sums, parent, (w * y)[child])
    np.add.at(weight, parent, w[child])
    x[parent] = (sums / weight)[parent]
    x[child] = x[parent]


def _cut(x: Floats, y: Floats, w: Floats, child: Whole, parent: Whole) -> None:
    """Splits every component at its mean until no split gains; a component's value is its mean.

    The upper half of a component is the set that is closed upwards (with a child its parents) and has
    the largest weighted sum above the mean. Each level is one linear program over all components.
    """
    from scipy.sparse.csgraph import connected_components

    while len(child):
        nodes, ends = np.unique(np.concatenate([child, parent]), return_inverse=True)
        low, high = np.split(ends, 2)  # the edges, by place in `nodes`
        _, part = connected_components(_graph(len(nodes), low, high), directed=False)
        mean = np.bincount(part, (w * y)[nodes]) / np.bincount(part, w[nodes])
        gain = w[nodes] * (y[nodes] - mean[part])
        held = np.bincount(part, np.abs(gain))
        upper = _closure(gain / held[part], low, high)
        gained = np.bincount(part, np.where(upper, gain, 0.0)) > NO_GAIN * held
        # In a component that was split, nodes without an edge keep their value; the rest is repeated.
        x[nodes] = np.where(gained[part], y[nodes], mean[part])
        inner = gained[part[low]] & (upper[low] == upper[high])
        child, parent = child[inner], parent[inner]


def _closure(gain: Floats, child: Whole, parent: Whole) -> npt.NDArray[np.bool_]:
    """The set with the largest gain that contains the parents of each of its children."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    rows = np.arange(len(child))
    ones = np.ones(len(child))
    below = csr_array(
        (np.concatenate([ones, -ones]), (np.tile(rows, 2), np.concatenate([child, parent]))),
        shape=(len(child), len(gain)),
    )
    found = linprog(-gain, A_ub=below, b_ub=np.zeros(len(child)), bounds=(0, 1), method="highs")
    if found.x is None:
        raise ArithmeticError(f"the linear program was not solved: {found.message}")
    return np.asarray(found.x > 0.5)


def _graph(size: int, child: Whole, parent: Whole) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(child)), (child, parent)), shape=(size, size))


def _stacked(tables: Mapping[str, pa.Table], column: str) -> Floats:
    """The column of all tables, concatenated."""
    parts = [table[column].to_numpy().astype(np.float64) for table in tables.values()]
    return np.concatenate([np.zeros(0), *parts])


def _edges(tables: Mapping[str, pa.Table]) -> Edges:
    """Edges from rows to the queries that they name, each once, as positions in the stacked rows."""
    found = [np.zeros((2, 0), np.int64)]
    if "query" in tables:
        starts = np.cumsum([0, *(table.num_rows for table in tables.values())])
        start = dict(zip(tables, starts.tolist(), strict=False))
        queries = _queries_in(tables["query"], "query")[1]
        for name, table in tables.items():
            for key in KEYS[name] if name != "query" else ():
                if key == "url":
                    continue
                row, text = _queries_in(table, key)
                at = pc.index_in(text, value_set=queries)
                known = pc.is_valid(at).to_numpy(zero_copy_only=False)
                parent = pc.fill_null(at, 0).to_numpy(zero_copy_only=False)[known]
                found.append(np.stack([row[known] + start[name], parent + start["query"]]))
    child, parent = np.unique(np.concatenate(found, axis=1), axis=1).astype(np.int64)
    return child, parent


def _queries_in(table: pa.Table, key: str) -> tuple[Whole, pa.Array]:
    """The queries in a column, with the row of each and the value that splits the tables."""
    column = table[key].combine_chunks()
    row = np.arange(table.num_rows)
    if key in LISTS:
        row, column = pc.list_parent_indices(column).to_numpy(), column.flatten()
    counts = ("users", "users_low", "users_high", "users_stderr", "reliable")
    for other in table.column_names:
        if other not in (*counts, *(k for keys in KEYS.values() for k in keys)):
            value = table[other].combine_chunks().take(pa.array(row))
            column = pc.binary_join_element_wise(column, value, SEPARATOR)
    return row, column


def _with_users(table: pa.Table, users: Any) -> pa.Table:
    """The table with other numbers of users, and `reliable` recomputed from them."""
    for name, column in (
        ("users", users),
        ("reliable", is_reliable(users, table["users_stderr"])),
    ):
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), column)
    return table
