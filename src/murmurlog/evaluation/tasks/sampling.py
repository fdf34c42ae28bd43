"""Which questions are asked when there are too many, and what is worked out once for all systems."""

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from murmurlog.evaluation.ground_truth import Truth

T = TypeVar("T")


def spread(found: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of the numbers below `found`, evenly spaced: the same choice each time."""
    if found <= most:
        return np.arange(found)
    return np.arange(most) * found // most


class OncePerTruth(Generic[T]):
    """Remembers what follows from a truth alone, while that truth lives.

    Several systems are scored against one truth. It is known by identity, since its tables cannot
    be hashed. What is remembered must not hold the truth itself.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[weakref.ref[Truth], Hashable, T]] = []

    def __call__(self, truth: Truth, key: Hashable, make: Callable[[], T]) -> T:
        self._kept = [kept for kept in self._kept if kept[0]() is not None]
        for of, under, value in self._kept:
            if of() is truth and under == key:
                return value
        value = make()
        self._kept.append((weakref.ref(truth), key, value))
        return value
