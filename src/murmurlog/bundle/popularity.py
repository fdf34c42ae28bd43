"""How many rows a table would have if its items needed more or fewer users than they did.

A function of what is published: the number of items with n or more users falls about as a power law,
whose exponent follows from the published counts. Where hardly anything is published, the shape of a
generated log and the declared number of users take their place. Never sees a log.
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.schema import count_of

FEW = 5  # rows; below, the counts say nothing about popularity
USUAL, CERTAIN = 1.0, 20  # the exponent of a usual log, and how many rows outweigh it
STEEPEST = 1.5
# The share of users who hold the query of each rank, in a generated log (plain) of 5,000 users.
STAND_IN = {1: 0.206, 3: 0.173, 10: 0.12, 30: 0.063, 100: 0.024, 300: 0.0082, 1000: 0.0026, 10_000: 3e-4}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """The published rows of one table, the users that an item needed, and how counts fall."""

    published: int
    level: float  # the users of an item that was published with even odds
    exponent: float
    declared_users: int | None
    counted: bool

    @classmethod
    def of(cls, certificate: Certificate, rows: pa.Table, *, level: float) -> "Popularity":
        """The popularity of the items of a published table."""
        return cls(
            published=rows.num_rows,
            level=level,
            exponent=_exponent(rows),
            declared_users=certificate.declared_users,
            counted=count_of(rows) is not None,
        )

    @property
    def basis(self) -> str:
        """What a forecast is based on."""
        if self.published >= FEW:
            return "its published counts" if self.counted else "its number of rows"
        users = self.declared_users
        declared = "" if users is None else f" and {users:,} declared users"
        return f"the shape of a generated log{declared} (too few are published)"

    def rows(self, level: float) -> int:
        """The expected number of rows if an item needs this many users; where few are published,
        an upper bound."""
        factor = level / self.level
        if self.published >= FEW:
            return round(self.published * math.pow(factor, -self.exponent))
        # Hardly anything passed: the most popular item has about as many users as were needed, or
        # fewer if fewer users are declared.
        users = min(self.declared_users or math.inf, self.level / STAND_IN[1])
        share = level / users
        ranks, shares = np.log(list(STAND_IN)), np.log(list(STAND_IN.values()))
        rank = math.exp(float(np.interp(-math.log(share), -shares, ranks)))
        return max(self.published, int(rank) if share <= STAND_IN[1] else 0)


def _exponent(rows: pa.Table) -> float:
    """The number of items with n or more users falls as n^-exponent: Hill's estimate.

    It is shrunk towards the exponent of a usual log, the more so the fewer rows there are.
    """
    count = count_of(rows)
    if count is None or not rows.num_rows:
        return USUAL
    users = np.sort(np.maximum(rows[count].to_numpy().astype(np.float64), 1.0))[::-1]
    top = users[: max(1, len(users) // 2)]  # whatever is near a threshold is not complete
    exponent = (len(top) + CERTAIN * USUAL) / (float(np.log(top / top[-1]).sum()) + CERTAIN)
    return min(STEEPEST, exponent)
