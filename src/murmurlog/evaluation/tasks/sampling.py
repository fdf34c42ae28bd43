"""Which questions are asked when there are too many, and what is computed once for all systems."""

from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Ints

T = TypeVar("T")
P = ParamSpec("P")


def spread(found: Ints, most: int) -> Ints:
    """At most so many of them, evenly spaced: the same choice each time."""
    if len(found) <= most:
        return found
    chosen: Ints = found[np.arange(most) * len(found) // most]
    return chosen


def once_per_truth(
    function: Callable[Concatenate[Truth, P], T],
) -> Callable[Concatenate[Truth, P], T]:
    """Caches what follows from the truth alone: several systems are scored against one truth.

    The cache lives as long as the truth, so what is cached must not hold the truth itself.
    """
    kept: WeakKeyDictionary[Truth, dict[Hashable, T]] = WeakKeyDictionary()

    def cached(truth: Truth, /, *args: P.args, **keywords: P.kwargs) -> T:
        found = kept.setdefault(truth, {})
        key = (args, *keywords.items())
        if key not in found:
            found[key] = function(truth, *args, **keywords)
        return found[key]

    return cached
