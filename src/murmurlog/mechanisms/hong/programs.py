"""How often to publish each pair: the utility-maximising programs of Hong et al. (EDBT 2012).

`largest_output` is the paper's O-UMP, `frequent_output` its F-UMP, and `diversity` has the D-UMP. All
are linear programs in x_ij >= 0 under one constraint a user, sum of x_ij times -ln(1 - c_ijk / c_ij)
<= B, solved by HiGHS and rounded down; whole draws that fit can fill up what rounding took. The
solution is a function of the log and visible in what is published: nothing here is differentially
private, whatever epsilon and delta are called.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from murmurlog.errors import MurmurlogError, UsageError
from murmurlog.mechanisms.hong.histories import (
    Histories,
    Integers,
    Numbers,
    budget_use,
    by_number,
    preprocess,
)
from murmurlog.mechanisms.hong.packing import SLACK, Chosen, extend, packing_of, solve

NEAR = 1e-6  # a solver's 0.9999999 is a 1, if the constraints then hold
FINE = 0.01  # how closely a least budget is found, relative to itself


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """How often to publish each pair, and what the linear program said before rounding down."""

    x: Integers  # one total for each pair of the histories
    B: float
    optimum: float  # the value of the program's best fractional solution
    bound: float  # proved by weak duality: no fractional solution has a better value

    @property
    def size(self) -> int:
        """The size of the output, |O|."""
        return int(self.x.sum())


def budget(*, epsilon: float, delta: float) -> float:
    """B = min(epsilon, -ln(1 - delta)): conditions 2 and 3 of the paper in one."""
    if not (epsilon > 0 and 0 < delta < 1):
        raise UsageError(f"epsilon is above 0 and delta in (0, 1), not {epsilon!r} and {delta!r}")
    return min(epsilon, -math.log1p(-delta))


def size_bound(users: int, B: float) -> int:
    """floor(n B): no totals within budget B of n users have a larger sum.

    The constraints of all users add up to at most n B, and a pair's weights to at least 1, as
    -ln(1 - y) >= y and its shares y add up to 1.
    """
    return math.floor(users * B * (1 + SLACK))


def largest_output(histories: Histories, *, B: float, fill: bool = False) -> Plan:
    """O-UMP: totals with the largest sum; `optimum` is the paper's lambda.

    Differs: with `fill`, what rounding down left of the budgets is used for whole draws again.
    """
    _check_budget(B)
    reduced = preprocess(histories)
    z, rate, at_most = _unit_solution(reduced.histories)
    whole = round_down(reduced.histories, z * B, B=B)
    if fill:
        whole = _fill(reduced.histories, whole, z * B, B=B)
    if whole.sum() > size_bound(reduced.histories.users, B):
        raise MurmurlogError("an output is larger than its bound n B: report this")
    return Plan(x=_widen(histories, reduced.pairs, whole), B=B, optimum=rate * B, bound=at_most * B)


def least_breach(histories: Histories, *, size: int, B: float | None = None) -> Plan:
    """Whole totals of that size with a small largest exposure, 1 - exp(-B): B is the most of a user's budget.

    Proved: whole totals of that size take `bound` or more of some user's budget, as do fractional ones
    without the pairs of which one draw takes more. `optimum` is what the best fractional totals of all
    pairs take (those of the O-UMP, scaled: lambda is proportional to B). The whole totals are found by
    a heuristic: fractional ones are rounded down and filled up to the size within a budget, and
    bisection finds the least budget for which this succeeds. With a budget B, the totals keep it and
    may miss the size, as not every size up to lambda has a whole solution.
    """
    _check_size(size)
    reduced = preprocess(histories)
    inner = reduced.histories
    z, rate, at_most = _unit_solution(inner)
    if rate == 0:
        raise UsageError(f"no output of size {size}: no pair is had by two users")
    if B is not None:
        _check_budget(B)
        if size > max(rate, at_most) * B:
            raise _too_large(size, B, rate * B)
    x = _totals_of_size(inner, z * (size / rate), size=size, B=B)
    bound = size / at_most
    if x.sum() == size:
        x, bound = _less_exposing(inner, x, bound)
    return Plan(
        x=_widen(histories, reduced.pairs, x),
        B=float(budget_use(inner, x).max()),
        optimum=size / rate,
        bound=bound,
    )


def frequent_output(
    histories: Histories, *, B: float, support: float, size: int, fill: bool = False
) -> Plan:
    """F-UMP: totals of that size in which frequent pairs come nearest to their share of the log.

    A pair is frequent if its share of the rows is at least `support`; rows of pairs that one user
    alone has do not count. The value is the sum of the distances |x / size - share|.

    Differs: with `fill`, draws that fit are added until the size is reached, if it can be so: first
    those that bring a frequent pair nearer to its share, then those of other pairs, which change no
    distance, and last those that take a frequent pair away from it.
    """
    _check_budget(B)
    _check_size(size)
    if not 0 < support <= 1:
        raise UsageError(f"support is a share in (0, 1], not {support!r}")
    reduced = preprocess(histories)
    inner = reduced.histories
    often = np.flatnonzero(inner.totals >= support * inner.rows)
    aim = size * inner.totals[often] / max(inner.rows, 1)
    # x of a frequent pair is a part up to its aim, which gains, and a part above it, which costs.
    cost = np.zeros(inner.pairs + len(often))
    cost[often], cost[inner.pairs :] = -1.0, 1.0
    most = np.full(len(cost), np.inf)
    most[often] = aim
    A = sparse.hstack([_matrix(inner), _matrix(inner)[:, often]], format="csr") / B
    solution = None
    if inner.pairs:
        solution = solve(
            cost / size,
            A,
            np.ones(inner.users),
            A_eq=sparse.csr_array(np.ones((1, len(cost)))),
            b_eq=np.array([float(size)]),
            bounds=np.column_stack([np.zeros(len(cost)), most]),
        )
    if solution is None:
        raise _too_large(size, B, largest_output(histories, B=B).optimum)
    x = solution.x[: inner.pairs].copy()
    x[often] += solution.x[inner.pairs :]
    whole = round_down(inner, np.maximum(x, 0), B=B)
    if fill:
        whole = _fill(inner, whole, x, B=B, size=size, aims=(often, aim))
    # Weak duality: whatever the prices, a feasible x costs at least this. No x exceeds the size.
    prices, mu = np.maximum(-solution.ineqlin.marginals, 0), float(solution.eqlin.marginals[0])
    reduced_costs = cost / size + A.T @ prices - mu
    least = mu * size - prices.sum() + (np.minimum(reduced_costs, 0) * np.minimum(most, size)).sum()
    aimed = float(aim.sum()) / size
    return Plan(
        x=_widen(histories, reduced.pairs, whole),
        B=B,
        optimum=max(float(solution.fun) + aimed, 0.0),
        bound=max(float(least) + aimed, 0.0),
    )


def support_distance(histories: Histories, x: Integers, *, support: float) -> float:
    """The sum of |x / |x| - share| over frequent pairs, for whole totals x: the F-UMP's measure."""
    often, share = frequent_pairs(histories, support)
    return float(np.abs(x[often] / max(int(x.sum()), 1) - share).sum())


def recall(histories: Histories, x: Integers, *, support: float) -> float:
    """The share of frequent pairs that are frequent in an output of totals x as well; 1 of none."""
    often, _ = frequent_pairs(histories, support)
    again = (x[often] > 0) & (x[often] >= support * x.sum())
    return float(again.mean()) if len(often) else 1.0


def precision(histories: Histories, x: Integers, *, support: float) -> float:
    """The share of pairs frequent in an output of totals x that are frequent in the log; NaN of none."""
    again = np.flatnonzero((x > 0) & (x >= support * x.sum()))
    often, _ = frequent_pairs(histories, support)
    return float(np.isin(again, often).mean()) if len(again) else math.nan


def frequent_pairs(histories: Histories, support: float) -> tuple[Integers, Numbers]:
    """The pairs with at least that share of the rows, of pairs that two users have; their shares."""
    inner = np.where(histories.holders >= 2, histories.totals, 0)
    often = np.flatnonzero((inner > 0) & (inner >= support * inner.sum()))
    return often, inner[often] / max(int(inner.sum()), 1)


def round_down(histories: Histories, x: Numbers, *, B: float) -> Integers:
    """The fractional totals, rounded down to whole ones that keep every constraint."""
    load = _loads(histories, x)
    # The solver keeps constraints to about 1e-7 only: shrink until all hold.
    x = x / max(1.0, float(load.max(initial=0)) / B)
    low = np.floor(x).astype(np.int64)
    whole = np.floor(x + NEAR).astype(np.int64)
    over = budget_use(histories, whole) > B * (1 + SLACK)
    # Of the pairs of users who are over, none is rounded up; x itself is within everyone's budget.
    touched = np.zeros(histories.pairs, bool)
    touched[histories.counts.indices[over[histories.owner]]] = True
    return np.where(touched, low, whole)


def _fill(
    histories: Histories,
    x: Integers,
    wanted: Numbers,
    *,
    B: float,
    size: float = math.inf,
    aims: tuple[Integers, Numbers] | None = None,
) -> Integers:
    """x with further draws, at most one a pair in each turn, until none fits or the size is reached.

    Pairs that lost most by rounding come first. With aims for some pairs, draws that bring a pair nearer
    to its aim come before all others, and those that lead a pair away from it after all others.
    """
    packing = packing_of(histories, B=B)
    none = np.zeros(histories.pairs, bool)
    while (left := size - x.sum()) > 0:
        away = np.zeros(histories.pairs)
        if aims is not None:
            of, aim = aims
            away[of] = np.abs(x[of] + 1 - aim) - np.abs(x[of] - aim)
        rank = np.empty(histories.pairs, np.int64)
        rank[np.lexsort((x - wanted, away))] = np.arange(histories.pairs)
        more = np.flatnonzero(extend(packing, none, rank, x=x))
        if not len(more):
            break
        more = more[np.argsort(rank[more])]
        more = more[np.sign(away[more]) == np.sign(away[more[0]])]
        x = x.copy()
        x[more if left >= len(more) else more[: int(left)]] += 1
    return x


def _totals_of_size(
    histories: Histories, wanted: Numbers, *, size: int, B: float | None
) -> Integers:
    """Whole totals near the fractional ones: of that size, or what of it fits within B."""
    high = float(_loads(histories, wanted).max()) if B is None else B
    while True:
        base = round_down(histories, wanted, B=high)
        totals = _fill(histories, base, wanted, B=high, size=size)
        if B is not None or totals.sum() == size:
            return totals
        high *= 2


def _less_exposing(histories: Histories, x: Integers, bound: float) -> tuple[Integers, float]:
    """Totals of the same size whose largest use of a budget is at most that of x, and a larger bound."""
    size, heaviest = int(x.sum()), packing_of(histories, B=1.0).heaviest
    # 1. The least budget that fractional totals of pairs that fit it need: a larger bound.
    enough = high = float(budget_use(histories, x).max())
    while enough > bound * (1 + FINE):
        middle = (bound + enough) / 2
        if _unit_solution(histories, heaviest <= middle)[2] * middle < size:
            bound = middle
        else:
            enough = middle
    # 2. The least budget within which such totals can be made whole.
    low = enough
    while high > low * (1 + FINE):
        middle = (low + high) / 2
        z, rate, _ = _unit_solution(histories, heaviest <= middle)
        wanted = z * (size / rate)
        base = round_down(histories, wanted, B=middle)
        tried = _fill(histories, base, wanted, B=middle, size=size)
        if tried.sum() < size:
            low = middle
        else:
            x, high = tried, float(budget_use(histories, tried).max())
    return x, bound


def _widen(histories: Histories, pairs: Integers, inner: Integers) -> Integers:
    """Totals for all pairs from those of some; the others are 0."""
    x = np.zeros(histories.pairs, np.int64)
    x[pairs] = inner
    return x


def _unit_solution(
    histories: Histories, allowed: Chosen | None = None
) -> tuple[Numbers, float, float]:
    """z, its sum, and a proved bound on the sum, of the O-UMP with B = 1; of allowed pairs only.

    The program is homogeneous: B z is optimal for B, so lambda is proportional to B.
    """
    z = np.zeros(histories.pairs)
    pairs = np.arange(histories.pairs) if allowed is None else np.flatnonzero(allowed)
    if not len(pairs):
        return z, 0.0, 0.0
    A = _matrix(histories)[:, pairs]
    solution = solve(-np.ones(len(pairs)), A, np.ones(histories.users))
    z[pairs] = np.maximum(solution.x, 0)
    z /= max(1.0, float(_loads(histories, z).max()))
    return z, float(z.sum()), _dual_bound(A, -solution.ineqlin.marginals)


def _dual_bound(A: Any, prices: Numbers) -> float:
    """A bound on sum x under unit budgets: any prices with every pair's cost >= 1 add up to one."""
    prices = np.maximum(prices, 0)
    least = float((A.T @ prices).min())
    by_prices = float(prices.sum()) / least if least > 0 else math.inf
    return min(by_prices, float(A.shape[0]))


def _loads(histories: Histories, x: Numbers) -> Numbers:
    """What fractional totals take of each user's budget."""
    return by_number(
        histories.owner, histories.weights * x[histories.counts.indices], histories.users
    )


def _matrix(histories: Histories) -> Any:
    counts = histories.counts
    return sparse.csr_array((histories.weights, counts.indices, counts.indptr), shape=counts.shape)


def _too_large(size: int, B: float, lam: float) -> UsageError:
    return UsageError(
        f"an output of size {size} is not within the budget B = {B:.6g}: "
        f"sizes go up to lambda = {lam:.6g}"
    )


def _check_size(size: int) -> None:
    if not (size >= 1 and size == int(size)):
        raise UsageError(f"the size of an output is a whole number from 1 on, not {size!r}")


def _check_budget(B: float) -> None:
    if not (B > 0 and math.isfinite(B)):
        raise UsageError(f"the budget B is a positive number, not {B!r}")
