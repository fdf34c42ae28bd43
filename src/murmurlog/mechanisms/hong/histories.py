"""How often each user has each pair, as one sparse matrix, and how much publishing exposes users.

The model of Hong et al. (EDBT 2012): c_ijk is how often user k has the pair (query i, url j). Given
totals x_ij, the program publishes for each pair x_ij draws of a user, k with chance c_ijk / c_ij.
`exposures` is exact for given totals. It is no guarantee of differential privacy: the totals are
themselves computed from the log. Independent of logs, engines and of how totals are chosen.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from murmurlog.errors import UsageError
from murmurlog.privacy.sampler import Entropy, draw_below

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Histories:
    """Counts of users (rows) and pairs (columns); every count that is stored is positive."""

    counts: Any  # csr_array of int64, users x pairs

    @classmethod
    def of(cls, counts: Any) -> "Histories":
        """The histories of a matrix users x pairs of counts, dense or sparse."""
        matrix = sparse.csr_array(counts)
        if matrix.ndim != 2:
            raise UsageError(
                f"histories are a matrix users x pairs, not of {matrix.ndim} dimensions"
            )
        with np.errstate(invalid="ignore"):
            whole = matrix.data.astype(np.int64)
        if (whole != matrix.data).any() or (whole < 0).any():
            raise UsageError("the counts of histories are whole numbers from 0 on")
        matrix = sparse.csr_array((whole, matrix.indices, matrix.indptr), shape=matrix.shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(counts=matrix)

    @property
    def users(self) -> int:
        return int(self.counts.shape[0])

    @property
    def pairs(self) -> int:
        return int(self.counts.shape[1])

    @cached_property
    def rows(self) -> int:
        """|D|: how many rows of the log these counts stand for."""
        return int(self.counts.data.sum())

    @cached_property
    def totals(self) -> Integers:
        """c_ij: how often all users together have each pair."""
        totals = np.zeros(self.pairs, np.int64)
        np.add.at(totals, self.counts.indices, self.counts.data)
        return totals

    @cached_property
    def holders(self) -> Integers:
        """How many users have each pair."""
        return np.bincount(self.counts.indices, minlength=self.pairs)

    @cached_property
    def owner(self) -> Integers:
        """The user of each stored count."""
        return np.repeat(np.arange(self.users), np.diff(self.counts.indptr))

    @cached_property
    def weights(self) -> Numbers:
        """-ln(1 - c_ijk / c_ij) of each stored count: infinite where one user has the whole pair."""
        share = self.counts.data / self.totals[self.counts.indices]
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log1p(-share))


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessed:
    """Histories without the pairs of a single user."""

    histories: Histories
    pairs: Integers  # the numbers that its pairs had before


def preprocess(histories: Histories) -> Preprocessed:
    """The histories of the pairs that at least two users have, and of the users who have any.

    Condition 1 of the paper: a pair of one user can only ever be published with that user.
    """
    pairs = np.flatnonzero(histories.holders >= 2)
    counts = histories.counts[:, pairs]
    users = np.flatnonzero(np.diff(counts.indptr))
    return Preprocessed(histories=Histories.of(counts[users]), pairs=pairs)


def budget_use(histories: Histories, x: Integers) -> Numbers:
    """What the totals x take of each user's budget: sum of x_ij times -ln(1 - c_ijk / c_ij)."""
    times = _check_totals(histories, x)[histories.counts.indices]
    used = times > 0  # an unpublished pair of one user costs nothing, not 0 times infinity
    return by_number(histories.owner[used], histories.weights[used] * times[used], histories.users)


def by_number(numbers: Integers, weights: Numbers, length: int) -> Numbers:
    """The sum of the weights of each number."""
    return np.bincount(numbers, weights=weights, minlength=length).astype(np.float64)


def exposures(histories: Histories, x: Integers) -> Numbers:
    """delta_k: the chance that user k is in the output, 1 - prod (1 - c_ijk / c_ij)^x_ij.

    For totals x that do not depend on user k, this is the whole privacy loss of the sampling, at
    any epsilon; totals computed from the log do depend on everyone.
    """
    return np.asarray(-np.expm1(-budget_use(histories, x)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """How often each user was drawn for each pair, by pair and user: the published triplets."""

    users: Integers
    pairs: Integers
    counts: Integers


def sample(histories: Histories, x: Integers, *, entropy: Entropy) -> Draws:
    """x_ij draws of a user for every pair, with chances c_ijk / c_ij, exactly."""
    pairs = np.repeat(np.arange(histories.pairs), _check_totals(histories, x))
    if (histories.totals[pairs] == 0).any():
        raise UsageError("a pair that nobody has cannot be drawn: set its total to 0")
    # A draw picks one of the c_ij rows of the pair; the rows lie by pair, then by user.
    by_pair = histories.counts.tocsc()
    last = np.cumsum(by_pair.data)
    first = np.concatenate([[0], np.cumsum(histories.totals)[:-1]])
    row = first[pairs] + draw_below(histories.totals[pairs].tolist(), entropy=entropy)
    cell, counts = np.unique(np.searchsorted(last, row, side="right"), return_counts=True)
    return Draws(
        users=by_pair.indices[cell].astype(np.int64),
        pairs=np.searchsorted(by_pair.indptr, cell, side="right") - 1,
        counts=counts,
    )


def _check_totals(histories: Histories, x: Integers) -> Integers:
    """The totals, if they are whole numbers from 0 on, one for each pair."""
    totals = np.asarray(x)
    if totals.shape != (histories.pairs,):
        raise UsageError(f"give one total for each of the {histories.pairs} pairs")
    if not np.issubdtype(totals.dtype, np.integer) or (totals < 0).any():
        raise UsageError("totals are whole numbers from 0 on")
    return totals
