"""A second account agrees with an honest ledger, and contradicts every broken one."""

import pytest
from independent_total import gaussian, geometric
from ledger_replay import check_ledger, least_mu
from quick_cases import sample_cases
from twins import TWINS

from murmurlog.privacy.sampler import SeededEntropy

BROKEN = {twin.name: twin for twin in TWINS}
ANSWERS = {
    "a ledger that drops a charge": "more is left of the cap",
    "a ledger that takes the largest charge": "that exceeds the cap",
    "a ledger that counts what was published": "more is left of the cap",
    "a ledger with an open split of delta": "that exceeds the cap",
    "a ledger that books epsilon as mu": "more is left of the cap",
    "a ledger with caps that are not nested": "more of one amount and less of another",
    "a ledger that books a period twice": "books a period of a series again",
}


def replay_ledger(folder):
    return check_ledger(folder, entropy=SeededEntropy(3), sequences=1)


def test_an_honest_ledger_has_no_faults(tmp_path):
    assert replay_ledger(tmp_path) == []


@pytest.mark.parametrize("name", sample_cases(ANSWERS, every=3))
def test_a_broken_ledger_is_caught(name, tmp_path):
    with BROKEN[name].broken():
        found = replay_ledger(tmp_path)
    assert any(ANSWERS[name] in what for what in found), found


@pytest.mark.parametrize(("scale", "moved"), [(0.7, 1), (3.0, 8), (12.0, 20)])
def test_the_least_mu_covers_the_draws_and_no_smaller_one_does(scale, moved):
    mu = least_mu(scale, moved)
    at = [moved / scale * n / 500 for n in range(450)]
    assert all(geometric(e, scale, moved) <= gaussian(e, mu) + 1e-9 for e in at)
    assert any(geometric(e, scale, moved) > gaussian(e, 0.999 * mu) for e in at)
