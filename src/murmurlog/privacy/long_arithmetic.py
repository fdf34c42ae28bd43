"""Numbers of any precision: mpmath in a context of its own, in one thread at a time.

mpmath has one working precision for a context, and its constants (pi, log 2) are wrong for a moment while
another thread computes more digits of them. So every use is inside `precision`, and nobody else's use of
mpmath changes the precision here.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mpmath

mp: Any = mpmath.MPContext()
Real = Any  # a number of `mp`; mpmath states no types
_LOCK = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Long arithmetic of so many bits, in this thread alone."""
    with _LOCK, mp.workprec(bits):
        yield
