"""The verdict: its power is that of the attacks, and nothing that was left out is left unsaid."""

import math

import numpy as np
import pytest

from murmurlog.auditing.epsilon_bounds import Counts, lower_bound
from murmurlog.auditing.measurement import Measurement
from murmurlog.auditing.page import attacks_in_rows, verdict_page
from murmurlog.auditing.result import Audit
from murmurlog.auditing.verdict import ALWAYS, AttackPower, omissions, power_of_attack
from murmurlog.privacy import Guarantee

GIVEN = {"claim": 1.0, "delta": 0.05, "alpha": 1e-4, "own_worlds": 3000}


def test_an_attack_sees_the_epsilon_that_it_states_and_hardly_a_smaller_one():
    power = power_of_attack("s", worlds=3000, independent=True, **GIVEN)
    rng, trials = np.random.default_rng(5), 1000

    def share_seen(epsilon):
        q = 0.95 / (1 + math.exp(epsilon))
        hits = zip(rng.binomial(trials, 1 - q, 300), rng.binomial(trials, q, 300), strict=True)
        bounds = (
            Counts(hits=int(a), trials=trials, hits_of_neighbour=int(b), trials_of_neighbour=trials)
            for a, b in hits
        )
        return np.mean([counts.least(delta=0.05, alpha=1e-4) > 1 for counts in bounds])

    assert share_seen(power.epsilon) >= 0.97
    assert share_seen(1 + (power.epsilon - 1) / 2) < 0.9


def test_an_own_item_is_seen_from_the_stated_chance_on():
    power = power_of_attack("s", worlds=3000, independent=True, **GIVEN)
    hits = np.random.default_rng(5).binomial(1500, power.chance, 300)
    assert np.mean([lower_bound(int(h), 1500, 1e-4) > 0.05 for h in hits]) >= 0.96
    fewer = power_of_attack("s", worlds=300, independent=True, **(GIVEN | {"own_worlds": 300}))
    none = power_of_attack("s", worlds=300, independent=True, **(GIVEN | {"own_worlds": 0}))
    assert none.chance is None
    assert fewer.chance > power.chance > 0.05
    assert fewer.epsilon > power.epsilon > 1


def test_worlds_that_are_mixed_or_too_few_promise_nothing():
    assert power_of_attack("s", worlds=3000, independent=False, **GIVEN).epsilon is None
    large = power_of_attack("s", worlds=3000, independent=True, **(GIVEN | {"claim": 20.0}))
    assert large.epsilon is None


def test_everything_that_was_not_attacked_is_named():
    items = omissions(
        tables=["query", "keyword"], attacked=["query"],
        skipped=["little noise: rounds has no such noise"], mixed=True,
    )  # fmt: skip
    texts = {omission.what: omission.why for omission in items}
    assert texts["little noise"] == "rounds has no such noise"
    assert "--spec" in texts["the table keyword"]
    assert len(items) == 3 + len(ALWAYS)
    inside = " ".join(omission.what for omission in ALWAYS if "make audit" in omission.why)
    for part in ("draws of noise", "bounds", "totals", "the ledger", "besides its rows"):
        assert part in inside
    alone = omissions(tables=["query"], attacked=["query"], skipped=[], mixed=False)
    assert alone == list(ALWAYS)


@pytest.fixture
def audit():
    result = Audit(
        mechanism="rounds", claim=Guarantee(epsilon=1.0, delta=1e-6), confidence=0.99, tests=2,
        measured=[
            Measurement(setting="as claimed", pair="items of many", method="one run", claim=1.0,
                        delta=1e-6, least=0.83)
        ],
    )  # fmt: skip
    result.attack_power = [
        AttackPower(setting="as claimed", worlds=10, epsilon=1.44, chance=0.0033)
    ]
    result.not_attacked = list(ALWAYS)
    return result


def test_rows_of_the_terminal_are_short_and_say_what_would_have_been_seen(audit):
    assert attacks_in_rows(audit)[1] == ("as claimed", "1", "1e-06", "0.83", "1.44", "0.33 %")


def test_the_page_holds_everything_and_needs_nothing(audit):
    page = verdict_page(audit)
    for omission in audit.not_attacked:
        assert omission.what.replace("'", "&#39;") in page
    assert "http" not in page.replace("http-equiv", "")
    assert {"attack_power", "not_attacked", "not_offered"} <= audit.as_json().keys()
