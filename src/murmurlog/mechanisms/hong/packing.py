"""Choosing as many columns as fit: 0/1 packing, where a row holds at most 1.

The core of the diversity program of Hong et al., which is NP-hard. `extend` is the greedy step, in
rounds over all columns at once; `pack` tries it in several orders and improves the best; `pack_exactly`
is a branch and bound for small problems. Every choice that leaves this module fits.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from murmurlog.errors import MurmurlogError, UsageError
from murmurlog.mechanisms.hong.histories import Histories, Integers, Numbers

Chosen = npt.NDArray[np.bool_]

# A row is not over at 1 + SLACK: above the rounding of a sum of floating-point weights, and far
# below anything that would show in a printed delta.
SLACK = 1e-12
PROBES = 12  # orders `pack` tries
SHARES = (0.02, 0.05, 0.1, 0.2)  # of the rows `_improve` empties at a time
WORK = 4_000_000  # entries `_improve` may look at; at least 60 turns in any case


@dataclass(frozen=True, kw_only=True, eq=False)
class Packing:
    """The positive weights of columns in rows, as entries."""

    rows: int
    columns: int
    row: Integers  # of each entry
    column: Integers
    weight: Numbers

    def loads(self, x: npt.NDArray[Any]) -> Numbers:
        """What x of each column put into each row."""
        used = x[self.column] > 0
        weight = self.weight[used] * x[self.column[used]]
        return np.bincount(self.row[used], weights=weight, minlength=self.rows).astype(np.float64)

    def fits(self, x: npt.NDArray[Any]) -> bool:
        """Whether no row is over."""
        return bool(self.loads(x).max(initial=0) <= 1 + SLACK)

    def costs(self, prices: Numbers) -> Numbers:
        """What each column costs if rows have prices."""
        paid = self.weight * prices[self.row]
        return np.bincount(self.column, weights=paid, minlength=self.columns).astype(np.float64)

    @cached_property
    def heaviest(self) -> Numbers:
        """The largest weight of each column."""
        largest = np.zeros(self.columns)
        np.maximum.at(largest, self.column, self.weight)
        return largest

    @cached_property
    def matrix(self) -> Any:
        shape = (self.rows, self.columns)
        return sparse.csr_array((self.weight, (self.row, self.column)), shape=shape)


def solve(
    cost: Numbers,
    A: Any,
    b: Numbers,
    *,
    A_eq: Any = None,
    b_eq: Any = None,
    bounds: Any = (0, None),
) -> Any:
    """An optimal solution of min cost x, A x <= b by HiGHS; None if there is no feasible one."""
    # Interior point with crossover: 23 s on a large log, where dual simplex had not ended at 400 s.
    for method in ("highs-ipm", "highs-ds"):
        solution = linprog(cost, A, b, A_eq, b_eq, bounds, method=method)
        if solution.status == 0:
            return solution
        if solution.status == 2:
            return None
    raise MurmurlogError(f"the linear program was not solved: {solution.message}")


def packing_of(histories: Histories, *, B: float) -> Packing:
    """One column a pair and one row a user, which holds the budget B."""
    if not B > 0:
        raise UsageError(f"the budget B is a positive number, not {B!r}")
    return Packing(
        rows=histories.users,
        columns=histories.pairs,
        row=histories.owner,
        column=histories.counts.indices.astype(np.int64),
        weight=histories.weights / B,
    )


def extend(packing: Packing, chosen: Chosen, rank: npt.NDArray[Any], *, x: Any = None) -> Chosen:
    """`chosen` and every other column that still fits, of two that do not both fit the lower rank.

    With totals x it is rows filled by x that are extended, and x is not part of the answer.
    """
    chosen = chosen.copy()
    filled = packing.loads(chosen if x is None else x)
    open_ = ~chosen & (packing.heaviest <= 1 + SLACK)
    order = np.argsort(rank, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    by_row = np.lexsort((place[packing.column], packing.row))
    row, column, weight = (a[by_row] for a in (packing.row, packing.column, packing.weight))
    while True:
        # 1. Columns that fit alone stay open.
        open_[column[filled[row] + weight > 1 + SLACK]] = False
        live = open_[column]
        row, column, weight = row[live], column[live], weight[live]
        if not len(column):
            return chosen | open_  # what has no entries always fits
        # 2. Of those, take each that fits together with all open ones of lower rank.
        total = np.cumsum(weight)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        before = np.repeat(total[first] - weight[first], np.diff(first, append=len(row)))
        here = filled[row] + (total - before)
        # `total` is a long sum and rounds: try with room for that, without, and at last the one
        # column of lowest rank, which fits alone.
        for limit in (1 + 1e-9, 1 - 1e-9, -1.0):
            additions = open_.copy()
            additions[column[here > limit]] = False
            if limit < 0:
                additions[column[np.argmin(place[column])]] = True
            after = filled + packing.loads(additions)
            if additions.any() and (after <= 1 + SLACK).all():
                break
        chosen |= additions
        open_ &= ~additions
        filled = after


def relax(packing: Packing) -> tuple[Numbers, Numbers, float]:
    """The fractional choice, the prices of rows, and a proved bound on the number of columns.

    Any prices prove one: a column is worth at most its cost plus what it is worth above that. They
    prove it up to the rounding of floating-point sums, for which 1e-6 is added.
    """
    if not packing.columns:
        return np.zeros(0), np.zeros(packing.rows), 0.0
    possible = packing.heaviest <= 1 + SLACK  # a column that does not fit alone is never chosen
    solution = solve(
        -np.ones(packing.columns),
        packing.matrix,
        np.ones(packing.rows),
        bounds=np.column_stack([np.zeros(packing.columns), possible]),
    )
    prices = np.maximum(-solution.ineqlin.marginals, 0)
    above = np.maximum(1 - packing.costs(prices), 0)[possible]
    bound = float(prices.sum() + above.sum()) * (1 + 1e-9) + 1e-6
    return np.clip(solution.x, 0, 1), prices, bound


def pack(packing: Packing, start: Chosen) -> tuple[Chosen, float]:
    """A choice of at least as many columns as `start`, which fits, and a bound no choice exceeds."""
    fractional, prices, bound = relax(packing)
    cost = packing.costs(prices)
    nothing = np.zeros(packing.columns, bool)
    choices = [extend(packing, start, cost), extend(packing, start, packing.heaviest)]
    choices += [
        extend(packing, nothing, rank)
        for rank in (
            cost,
            packing.heaviest,
            packing.costs(np.ones(packing.rows)),
            cost - fractional,
        )
    ]
    best = max(choices, key=np.count_nonzero)
    # Dearer rows where the last choice was full, as in a subgradient step.
    for _ in range(PROBES):
        load = packing.loads(best)
        prices = prices * np.exp(0.3 * (load - 0.5)) + 1e-9
        best = max(best, extend(packing, nothing, packing.costs(prices)), key=np.count_nonzero)
    return _improve(packing, best, cost, math.floor(bound)), bound


def _improve(packing: Packing, best: Chosen, cost: Numbers, most: float) -> Chosen:
    """The choice after emptying some rows and filling up in another order, many times.

    Which rows and what order is a fixed mixing of their numbers: the same for the same problem.
    """
    turns = min(4 * packing.columns, WORK // max(1, len(packing.row)), 600)
    for turn in range(max(60, turns)):
        if np.count_nonzero(best) >= most:
            break  # proved the most
        share = SHARES[turn // 2 % len(SHARES)]
        left = best.copy()
        if turn % 2:
            emptied = _scatter(packing.rows, 2 * turn) < share
            left[packing.column[emptied[packing.row]]] = False
        else:
            left[_scatter(packing.columns, 2 * turn) < 2 * share] = False
        rank = cost * (1 + 1.5 * _scatter(packing.columns, 2 * turn + 1))
        tried = extend(packing, left, rank)
        if np.count_nonzero(tried) >= np.count_nonzero(best):
            best = tried
    return best


def _scatter(length: int, turn: int) -> Numbers:
    """For each number up to `length` one in [0, 1), scattered and different each turn (splitmix)."""
    z = np.arange(1, length + 1, dtype=np.uint64) + (np.uint64(turn) << np.uint64(32))
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def pack_exactly(packing: Packing, *, seconds: float = 60) -> Chosen | None:
    """A choice of the most columns, or None if that was not proved in time."""
    if not packing.columns:
        return np.zeros(0, bool)
    solution = milp(
        -np.ones(packing.columns),
        constraints=LinearConstraint(packing.matrix, ub=np.ones(packing.rows)),
        integrality=np.ones(packing.columns),
        bounds=Bounds(0, packing.heaviest <= 1 + SLACK),
        options={"time_limit": seconds, "mip_rel_gap": 0},
    )
    if solution.status != 0:
        return None
    chosen = np.asarray(solution.x) > 0.5
    # HiGHS allows 1e-6 over a row; such a choice is not one.
    return chosen if packing.fits(chosen) else None
