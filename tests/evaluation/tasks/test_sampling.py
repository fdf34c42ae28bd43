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

    one, other = (Truth(tables={}, holders={}) for _ in range(2))
    numbers = [answer(truth, "a").number for truth in (one, one, other)]
    assert numbers == [1, 1, 2]
    assert answer(one, "b").number == 3
    kept = weakref.ref(answer(one, "a"))
    assert kept() is not None
    del one
    gc.collect()
    assert kept() is None
    assert answer(other, "a").number == 2


def test_a_choice_of_questions_is_spread_evenly():
    assert spread(np.arange(3), 10).tolist() == [0, 1, 2]
    assert spread(np.arange(10), 5).tolist() == [0, 2, 4, 6, 8]
    assert len(set(spread(np.arange(725_597), 10_000))) == 10_000
