"""Questions are chosen evenly, and what follows from the truth is computed once."""

import gc
import weakref

import numpy as np

from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.sampling import once_per_truth, spread


def test_what_follows_from_a_truth_is_computed_once_and_forgotten_with_it():
    calls = []

    class Answer:
        def __init__(self, number):
            self.number = number

    @once_per_truth
    def answer(truth, key):
        calls.append(key)
        return Answer(len(calls))

    first, other = (Truth(tables={}, holders={}) for _ in range(2))
    numbers = [answer(truth, "a").number for truth in (first, first, other)]
    assert numbers == [1, 1, 2]
    assert answer(first, "b").number == 3
    reference = weakref.ref(answer(first, "a"))
    assert reference() is not None
    del first
    gc.collect()
    assert reference() is None
    assert answer(other, "a").number == 2


def test_a_choice_of_questions_is_spread_evenly():
    assert spread(np.arange(3), 10).tolist() == [0, 1, 2]
    assert spread(np.arange(10), 5).tolist() == [0, 2, 4, 6, 8]
    assert len(set(spread(np.arange(725_597), 10_000))) == 10_000
