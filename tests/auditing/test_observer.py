"""The attacker's search for events: what it learns on training worlds holds on the others."""

import numpy as np

from murmurlog.auditing.observer import Observation, best_events

WORLDS = 3000


def test_an_output_that_occurs_once_teaches_the_attacker_nothing():
    """A column that differs in every world once made each output its own proof, and hid all events."""
    chance = np.random.default_rng(4)
    inside = chance.random(WORLDS) < 0.5
    published = chance.random(WORLDS) < np.where(inside, 0.6, 0.2)
    item = ("query", "ours0")
    view = Observation(
        numbers={
            (item, "rows"): np.where(published, 1.0, np.nan),
            (item, "users_stderr"): np.where(published, chance.random(WORLDS), np.nan),
        },
        worlds=WORLDS,
    )
    events = {event.direction: event.counts for event in best_events(view, inside, delta=0.0)}
    assert events["with"].least(delta=0.0, alpha=0.01) > 0.5  # log 3 is 1.10
    assert events["without"].least(delta=0.0, alpha=0.01) > 0.4  # log 2 is 0.69
