"""A choice of questions where there are too many, and a cache of what is the same for all systems."""

from collections.abc import Callable, Hashable
from typing import TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

import numpy as np

from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Ints

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def spread(choices: Ints, most: int) -> Ints:
    """At most `most` of the choices, evenly spaced: the same each time."""
    if len(choices) <= most:
        return choices
    return np.asarray(choices[np.arange(most) * len(choices) // most])


def once_per_truth(
    function: Callable[[Truth, *Arguments], T],
) -> Callable[[Truth, *Arguments], T]:
    """Caches what follows from the truth alone: several systems are scored against one truth.

    The cache lives as long as the truth, so what is cached must not hold the truth itself.
    """
    cache: WeakKeyDictionary[Truth, dict[Hashable, T]] = WeakKeyDictionary()

    def call(truth: Truth, *arguments: *Arguments) -> T:
        values = cache.setdefault(truth, {})
        if arguments not in values:
            values[arguments] = function(truth, *arguments)
        return values[arguments]

    return call
